"""What needs several rooms together: two Runs -> what differs, since when, and through which call.

    table        one rank of both Runs, aligned and measured, as columns
    precision    in which precision calls really worked
    judging      judges a table
    flow         which recorded call made a tensor
    origin       the first call that went wrong, as distinct from its victims
    confirm      replays suspects on their recorded inputs in float64
    comparison   the result that users hold
    runs         compare_runs, which joins all of these
"""

from trueline.diagnose.comparison import Comparison
from trueline.diagnose.runs import compare_runs

__all__ = ["Comparison", "compare_runs"]
