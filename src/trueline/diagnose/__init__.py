"""What needs several rooms together: two Runs -> what differs, since when, and through which call.

    table        one rank of both Runs, aligned and measured, as columns
    precision    in which precision calls really worked
    fillings     masks, and what is measured beside them
    turns        which tensors of two frameworks are turned to lie alike
    judging      judges a table by statistics; ``structure``: dtypes and shapes; ``elements``: by single elements, with
                 or without a peer
    flow         which recorded call made a tensor
    origin       the first call that went wrong, as distinct from its victims
    partings     where two programs part on the way, and whether they agree again behind that
    confirm      tries suspects by replay; ``replaying``: a recorded call again, in float64 and in its own precision
    comparison   the result that users hold; ``series``: its columns for plots and tables; ``values``: the elements of
                 one tensor, on both sides and in float64; ``saving``: one call in a folder of its own, with a script
    runs         compare_runs, which joins all of these
    overflow     where NaN and infinity were born: ``births``, ``blame``, ``scaling``, ``operands``, ``nature``
    headroom     what will overflow next
    watching     ``watch``: all that while a program runs; ``watched``: what its log tells
"""

from trueline.diagnose.comparison import Comparison
from trueline.diagnose.runs import compare_runs

__all__ = ["Comparison", "compare_runs"]
