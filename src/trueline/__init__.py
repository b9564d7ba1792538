"""trueline finds out whether the numbers of a deep-learning program are right, and names the call that made them wrong.

The names below are the public interface. Importing trueline imports no framework.
"""

from trueline._version import __version__
from trueline.campaign import CheckReport, check, load_check
from trueline.campaign.diff import Diff, diff_checks
from trueline.campaign.export import Exported, export_configs
from trueline.campaign.profile import ProfileReport, profile
from trueline.campaign.tolerances import tolerances, write_tolerances
from trueline.campaign.triage import triage
from trueline.capture import Capture, capture, seed_all
from trueline.diagnose import Comparison
from trueline.diagnose import compare_runs as compare
from trueline.errors import TruelineError
from trueline.groups import Triage
from trueline.records import Call, Verdict
from trueline.store import Run, open_run

__all__ = [
    "Call",
    "Capture",
    "CheckReport",
    "Comparison",
    "Diff",
    "Exported",
    "ProfileReport",
    "Run",
    "Triage",
    "TruelineError",
    "Verdict",
    "__version__",
    "capture",
    "check",
    "compare",
    "diff_checks",
    "export_configs",
    "load_check",
    "open_run",
    "profile",
    "seed_all",
    "tolerances",
    "triage",
    "write_tolerances",
]
