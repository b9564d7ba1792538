"""The commands to go on from one call of a comparison: see it, check it, keep its tensors, run it alone again."""

from __future__ import annotations

import re

from trueline.records import Call, CallComparison, Level
from trueline.report.subject import ComparisonView
from trueline.report.wording import command, show_command

_UNFIT = re.compile(r"[^\w.-]+")


def call_commands(comparison: ComparisonView, pair: CallComparison) -> dict[str, str]:
    """What for -> the command line: ``show``, ``check``, ``dump``, ``reproduce``. The candidate's call, or that of the
    reference where only that one makes it. What cannot be done with what the Run holds is not among them."""
    run = comparison.reference if pair.candidate is None else comparison.candidate
    call = pair.call
    show = show_command(run.path, call, ranks=run.ranks)
    found = {"show": f"{show} --stack"}
    if call.level is Level.API:
        found["check"] = command("trueline", "check", call_source(str(run.path), call), "--target", _target(call))
    folder = saved_as(call)
    if any(record.stored for record in call.tensors):
        found["dump"] = f"{show} --save {command(folder)}"
    else:
        found["dump"] = command(
            "trueline", "capture", "--out", folder, "--data", "tensors", "--steps", call.step,
            "--calls", call.name, "--", *(run.info.command or ("python", "train.py")),
        )  # fmt: skip
    if call.level is Level.API and call.inputs and all(record.stored for record in call.tensors):
        found["reproduce"] = f"{show} --save {command(folder)} && python {command(f'{folder}/repro.py')}"
    return found


def call_source(run: str, call: Call) -> str:
    """One call of a Run as a source of ``check`` and ``exec``."""
    return f"{run}::{call.name}@step={call.step},rank={call.rank}"


def saved_as(call: Call) -> str:
    """A name for a folder."""
    return _UNFIT.sub("-", f"{call.api.rpartition('.')[2].strip('_')}.{call.index}.{call.phase.value}-step{call.step}")


def _target(call: Call) -> str:
    """Where the call was made."""
    devices = [record.device for record in call.tensors if record.device]
    device = next((one for one in devices if not one.startswith("cpu")), "cpu").partition(":")[0]
    return f"{call.api.partition('.')[0]}:{device}"
