"""trueline finds out whether the numbers of a deep-learning program are right, and names the call that made them wrong.

The names below are the public interface. Importing trueline imports no framework, and nothing else before it is asked
for: a command starts in a fraction of a second.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trueline._version import __version__

if TYPE_CHECKING:
    from trueline.campaign.check import CheckReport, check, load_check
    from trueline.campaign.diff import Diff, diff_checks
    from trueline.campaign.export import Exported, export_configs
    from trueline.campaign.profile import ProfileReport, profile
    from trueline.campaign.tolerances import tolerances, write_tolerances
    from trueline.campaign.triage import triage
    from trueline.capture import Capture, capture, seed_all
    from trueline.capture.watch import Watch
    from trueline.diagnose import Comparison
    from trueline.diagnose import compare_runs as compare
    from trueline.diagnose.overflow import overflow
    from trueline.diagnose.watching import watch
    from trueline.errors import TruelineError
    from trueline.exchange import export_run, import_run
    from trueline.groups import Triage
    from trueline.overflows import OverflowReport
    from trueline.pipeline import pipeline
    from trueline.pipeline.probe import probe
    from trueline.pipelines import PipelineReport
    from trueline.records import Call, Verdict
    from trueline.store import Run, open_run

__all__ = [
    "Call",
    "Capture",
    "CheckReport",
    "Comparison",
    "Diff",
    "Exported",
    "OverflowReport",
    "PipelineReport",
    "ProfileReport",
    "Run",
    "Triage",
    "TruelineError",
    "Verdict",
    "Watch",
    "__version__",
    "capture",
    "check",
    "compare",
    "diff_checks",
    "export_configs",
    "export_run",
    "import_run",
    "load_check",
    "open_run",
    "overflow",
    "pipeline",
    "probe",
    "profile",
    "seed_all",
    "tolerances",
    "triage",
    "watch",
    "write_tolerances",
]

_PLACES = {
    "Call": "trueline.records",
    "Capture": "trueline.capture",
    "CheckReport": "trueline.campaign",
    "Comparison": "trueline.diagnose",
    "Diff": "trueline.campaign.diff",
    "Exported": "trueline.campaign.export",
    "OverflowReport": "trueline.overflows",
    "PipelineReport": "trueline.pipelines",
    "ProfileReport": "trueline.campaign.profile",
    "Run": "trueline.store",
    "Triage": "trueline.groups",
    "TruelineError": "trueline.errors",
    "Verdict": "trueline.records",
    "Watch": "trueline.capture.watch",
    "capture": "trueline.capture",
    "check": "trueline.campaign",
    "compare": "trueline.diagnose:compare_runs",
    "diff_checks": "trueline.campaign.diff",
    "export_configs": "trueline.campaign.export",
    "export_run": "trueline.exchange",
    "import_run": "trueline.exchange",
    "load_check": "trueline.campaign",
    "open_run": "trueline.store",
    "overflow": "trueline.diagnose.overflow",
    "pipeline": "trueline.pipeline",
    "probe": "trueline.pipeline.probe",
    "profile": "trueline.campaign.profile",
    "seed_all": "trueline.capture",
    "tolerances": "trueline.campaign.tolerances",
    "triage": "trueline.campaign.triage",
    "watch": "trueline.diagnose.watching",
    "write_tolerances": "trueline.campaign.tolerances",
}
"""Public name -> the module that has it, and its name there where it is another."""


class _Package(ModuleType):
    """The package. Some of its rooms have the name of the function that is their door: the function is what a user
    means, so that importing the room does not take its place."""

    def __getattr__(self, name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, other = _PLACES[name].partition(":")
        value = getattr(importlib.import_module(module), other or name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PLACES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
