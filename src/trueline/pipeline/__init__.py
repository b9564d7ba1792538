"""Pipelines: train -> export -> infer, tested for function and for numbers.

    report = trueline.pipeline("test_tipc/configs/my_model/train_infer_python.txt", "lite_train_lite_infer")
    report.verdict, report.failures

``pipeline(..., plan=True)`` runs nothing and gives the commands in ``report.plan.commands``. The names are imported
when they are asked for: the probe of this room is imported by the scripts of other people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trueline.pipeline.entry import load_pipeline, pipeline

__all__ = ["load_pipeline", "pipeline"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trueline.pipeline import entry

    return getattr(entry, name)
