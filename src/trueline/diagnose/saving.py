"""Keeps one call of a Run in a folder of its own: its tensors, what is known of it, and a script that makes it again.

call.json           what was recorded
repro.safetensors   inputs by their paths, gradients that arrived as ``gradient <path>``, outputs as ``output <path>``
repro.py            makes the call again with plain torch or paddle, beside float64 and the recorded output
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trueline.diagnose.replaying import Array, Recorded, Unreplayable, exact_and_honest, numbers_of
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.frameworks.base import ArrayIn
from trueline.records import Call, Phase, TensorRecord
from trueline.replay.keep import write_arrays
from trueline.replay.precision import autocast_of
from trueline.report.json import call_dict, dumps
from trueline.report.repro import Repro, ReproTensor, repro_script
from trueline.report.repro_frameworks import Side
from trueline.report.repro_source import NotWritable
from trueline.report.showing import forward_of
from trueline.store import RankReader
from trueline.tree import tensor_paths

_HONEST = 4.0
"""A script calls half of so many honest errors wrong at the least: rounding is no fault."""
SCRIPT, TENSORS, CALL = "repro.py", "repro.safetensors", "call.json"


@dataclass(frozen=True, slots=True)
class SavedCall:
    """What was written; ``no_script`` says why there is no script where there is none."""

    folder: Path
    files: tuple[Path, ...]
    tensors: int
    no_script: str = ""


@dataclass(frozen=True, slots=True)
class _Off:
    """The output of a recorded call that is farthest from float64: by how much at its worst element, and in the norm;
    ``honest`` is the largest error of an honest implementation, where there is one."""

    path: str
    largest: float
    distance: float
    honest: float


def save_call(reader: RankReader, call: Call, folder: str | os.PathLike[str]) -> SavedCall:
    """Writes the folder, which must not exist yet."""
    place = Path(folder)
    forward = forward_of(reader, call) if call.phase is Phase.BACKWARD else call
    arrays = dict(_arrays(reader, call, forward))
    if not arrays:
        raise UsageError(f"no tensor of {call.name} was kept: capture with --data tensors --calls {call.name}")
    try:
        place.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {place}: {error.strerror}; name one that does not exist") from None
    files = [place / CALL, place / TENSORS]
    files[0].write_text(dumps(call_dict(call)) + "\n", encoding="utf-8")
    write_arrays(files[1], arrays)
    try:
        text = _script(Recorded(call, reader.tensor, None if forward is call else forward), forward)
    except (Unreplayable, NotWritable) as error:
        return SavedCall(place, tuple(files), len(arrays), str(error))
    files.append(place / SCRIPT)
    files[-1].write_text(text, encoding="utf-8")
    return SavedCall(place, tuple(files), len(arrays))


def _arrays(reader: RankReader, call: Call, forward: Call | None) -> Iterator[tuple[str, ArrayIn]]:
    """Everything that was kept, by name."""

    def named(records: tuple[TensorRecord, ...], prefix: str) -> Iterator[tuple[str, ArrayIn]]:
        for record in records:
            if record.stored:
                yield f"{prefix}{record.path}", ArrayIn(reader.tensor(record), dtype_named(record.dtype).name)

    if call.phase is Phase.BACKWARD:
        yield from named(call.inputs, "gradient ")
    if forward is not None:
        yield from named(forward.inputs, "")
    yield from named(call.outputs, "output ")


def _script(recorded: Recorded, forward: Call | None) -> str:
    call = recorded.call
    off = _farthest(recorded)
    assert forward is not None, "what has no forward call cannot be replayed"
    known = {record.path for record in forward.outputs}
    backward = call.phase is Phase.BACKWARD
    leaving = {record.path for record in call.outputs} if backward else set()
    arriving = [record for record in call.inputs if backward and record.path in known]
    repro = Repro(
        api=call.api,
        arguments=forward.arguments,
        tensors=[_tensor(f"x{n}", record, record.path in leaving) for n, record in enumerate(forward.inputs)],
        gradients=[replace(_tensor(f"g{n}", one), saved=f"gradient {one.path}") for n, one in enumerate(arriving)],
        device=_device(call),
        title=f"{call.name}, step {call.step}, rank {call.rank}: made again alone.",
        reason=f"As it was recorded, its {off.path} was off by {off.largest:.3g} from float64 "
        f"({off.distance:.2g} of its norm).",
        autocast=autocast_of(forward),
        backward=backward,
        part="gradient" if backward else "output",
        path=off.path,
        error=max(off.largest, _HONEST * off.honest),
        exact=off.largest == off.honest == 0.0,
    )
    framework = call.api.partition(".")[0]
    if framework != "torch":
        paths = {path: path for _, path in tensor_paths(forward.arguments)}
        side = Side(framework, call.api, forward.arguments, repro.device, paths)
        repro = replace(repro, candidate=side, truth=replace(side, device="cpu"))
    return _with_recorded(repro_script(repro), off.path, framework)


def _with_recorded(text: str, path: str, framework: str) -> str:
    """The script, which also shows the element at which the recorded output was worst."""
    *lines, last = text.rstrip("\n").split("\n")
    if not last.startswith("sys.exit(") or "saved = " not in text:
        return text
    wide = "double()" if framework == "torch" else 'astype("float64")'
    told = "recorded {float(recorded[at])!r}, now {float(actual[at])!r}, in float64 {float(expected[at])!r}"
    lines += [
        f'recorded = saved["output {path}"].{wide}.numpy().reshape(np.shape(expected))',
        "gap = np.nan_to_num(np.abs(recorded - np.asarray(expected)), nan=np.inf)",
        "at = np.unravel_index(int(gap.argmax()), gap.shape)",
        f'print(f"{path}{{[int(n) for n in at]}}: {told}")',
    ]
    return "\n".join([*lines, last]) + "\n"


def _farthest(recorded: Recorded) -> _Off:
    found = []
    for record in recorded.call.outputs:
        if not record.stored or dtype_named(record.dtype).is_complex:
            continue
        exact, honest = exact_and_honest(recorded, record.path)
        actual = numbers_of(recorded.fetch(record), record.dtype)
        if actual.shape != exact.shape:
            raise Unreplayable(f"{record.path} has another shape when replayed")
        found.append(_off(record.path, actual, exact, exact if honest is None else honest))
    if not found:
        raise Unreplayable("none of its outputs was kept")
    return max(found, key=lambda one: one.distance)


def _off(path: str, actual: Array, exact: Array, honest: Array) -> _Off:
    gap = _gap(actual, exact)
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(exact[np.isfinite(exact)]))
        distance = float(np.linalg.norm(gap)) / norm if norm else float(gap.max(initial=0.0) > 0)
    return _Off(path, float(gap.max(initial=0.0)), distance, float(_gap(honest, exact).max(initial=0.0)))


def _gap(actual: Array, exact: Array) -> Array:
    """How far apart elements are; infinite where one is NaN or infinite and the other is not."""
    with np.errstate(all="ignore"):
        gap: Array = np.abs(actual - exact)
    gap[(actual == exact) | (np.isnan(actual) & np.isnan(exact))] = 0.0
    gap[np.isnan(gap)] = math.inf
    return gap


def _tensor(name: str, record: TensorRecord, has_gradient: bool = False) -> ReproTensor:
    kind = dtype_named(record.dtype)
    wanted = has_gradient and not kind.is_exact
    return ReproTensor(name, record.path, kind.name, record.shape, requires_grad=wanted, saved=record.path)


def _device(call: Call) -> str:
    return next((record.device for record in call.tensors if not record.device.startswith("cpu")), "cpu")
