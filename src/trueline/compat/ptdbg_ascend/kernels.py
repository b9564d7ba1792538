"""The ``acl`` modes: the kernels of one API, with their inputs and outputs.

As with the old tool the API is executed again, alone, with what it was given, and the kernels that it calls are dumped.
Where torch_npu is installed its own dump does that; elsewhere a capture at the level of kernels, as .npy files:

    <dump_path>/<time>/<device number>/0/add.add_Tensor_0.3.0.<microseconds>.output.0.npy

Of a forward call those of its forward alone are dumped, of a backward call those of its backward; the program's random
numbers and threads are what they were before.
"""

from __future__ import annotations

import importlib
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from trueline.capture import capture
from trueline.cases import Case, Target
from trueline.compat.places import has_npu, say
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.formats.names import file_name
from trueline.frameworks import machine
from trueline.frameworks.base import ArrayIn, CannotExecute, Inputs
from trueline.frameworks.execution import inside
from trueline.numerics import widen
from trueline.numerics.narrow import narrow
from trueline.records import Call, Role
from trueline.replay.cases import cases_from_run
from trueline.replay.inputs import inputs_for
from trueline.store import RankReader, open_run

_ROLES = {"input": (Role.INPUT,), "output": (Role.OUTPUT,), "all": (Role.INPUT, Role.OUTPUT)}


@dataclass(frozen=True, slots=True)
class DumpConfig:
    """``dump.json``."""

    dump_path: Path
    roles: tuple[Role, ...]
    on: bool


def read_dump_config(path: Path) -> DumpConfig:
    """Reads a ``dump.json``; says what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))["dump"]
        place, mode, switch = content["dump_path"], content.get("dump_mode", "output"), content.get("dump_op_switch")
    except OSError as error:
        raise UsageError(f"dump_config: cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"dump_config: {path} is not a dump.json with a 'dump' and its 'dump_path': {error}") from None
    if mode not in _ROLES:
        raise UsageError(f"dump_config: {path}: dump_mode is output, input or all, not {mode!r}")
    return DumpConfig(Path(place), _ROLES[mode], (switch or "off") == "on")


def default_dump_config(folder: Path) -> Path:
    """The dump.json of a program that has named none: the one in its folder, else one that asks for everything."""
    own = Path("dump.json")
    if own.is_file():
        return own
    path = folder / "dump.json"
    wanted = {"dump_list": [], "dump_path": str(folder / "acl_dump"), "dump_mode": "all", "dump_op_switch": "on"}
    path.write_text(json.dumps({"dump": wanted}, indent=1) + "\n", encoding="utf-8")
    say(f"no dump_config was given: kernels are dumped into {folder / 'acl_dump'}, as {path} says")
    return path


@dataclass(frozen=True, slots=True)
class KernelDump:
    """Dumps kernels as a ``dump.json`` says."""

    config: DumpConfig
    file: Path

    def of_run(self, run: Path, calls: Sequence[str], gradients: Sequence[Path] = ()) -> list[Path]:
        """The kernels of some calls of a Run (``torch.abs.1.forward``), executed again; gives the folders. The backward
        kernels come with ``backward``, for the gradients that were recorded or for those of the files."""
        if not self.config.on:
            say(f"nothing is dumped: dump_op_switch in {self.file} is off")
            return []
        wanted = {name.rpartition(".")[0] for name in calls}
        cases = [case for case in cases_from_run(run, all_data=True).cases if _stem(case) in wanted]
        missing = wanted - {_stem(case) for case in cases}
        if missing:
            say(f"not called, or cannot be executed alone: {', '.join(sorted(missing))}")
        backward = {name.rpartition(".")[0] for name in calls if name.endswith(".backward")}
        from trueline.frameworks.torch.generators import untouched

        with untouched():
            return [self._of_case(case, _stem(case) in backward, gradients) for case in cases]

    def _of_case(self, case: Case, backward: bool, gradients: Sequence[Path]) -> Path:
        device = next((name for name in _devices(case) if name != "cpu"), "cpu")
        number = device.partition(":")[2] or "0"
        folder = self.config.dump_path / datetime.now().strftime("%Y%m%d%H%M%S") / number / "0"
        chosen = case if backward else replace(case, backward=False, gradients=())
        inputs = _with_gradients(inputs_for(chosen), chosen, gradients) if backward else inputs_for(chosen)
        folder.mkdir(parents=True, exist_ok=True)
        turns = itertools.count()  # the first is the forward, the second the backward
        wanted = 1 if backward else 0
        with inside(lambda: self._watched(folder) if next(turns) == wanted else nullcontext()):
            try:
                done = machine.executor(Target("torch", device)).run(chosen, inputs, mode="candidate")
            except CannotExecute as error:
                raise UsageError(f"{case.calls[0]} cannot be executed alone: {error}") from None
        if not done.returned:
            say(f"{case.calls[0]} raised when it was executed again: {done.outcome.reason}")
        if backward and not done.gradients:
            say(f"the output of {case.api} is not of tensor type and cannot be automatically derived")
        return folder

    @contextmanager
    def _watched(self, folder: Path) -> Iterator[None]:
        if has_npu():
            npu = importlib.import_module("torch_npu").npu
            npu.init_dump()
            npu.set_dump(str(self.file))
            try:
                yield
            finally:
                npu.finalize_dump()
            return
        scratch = Path(tempfile.mkdtemp(prefix=".trueline-", dir=folder))
        try:
            with capture(scratch / "run", level="kernel", data="tensors", framework="torch"):
                yield
            with open_run(scratch / "run") as run:
                reader = run.rank(run.ranks[0])
                for call in reader.trace():
                    self._save(reader, call, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _save(self, reader: RankReader, call: Call, folder: Path) -> None:
        name, _, overload = call.api.removeprefix("aten.").partition(".")
        short, full = file_name(name), file_name(f"{name}_{overload}_{call.index}".replace(".", "_"))
        stamp = time.time_ns() // 1000
        counts = {Role.INPUT: 0, Role.OUTPUT: 0}
        for record in call.tensors:
            role = Role.OUTPUT if record.role is Role.OUTPUT else Role.INPUT
            if role in self.config.roles and record.stored:
                file = f"{short}.{full}.{call.id}.0.{stamp}.{role.value}.{counts[role]}.npy"
                np.save(folder / file, as_numpy(reader.tensor(record), record.dtype), allow_pickle=False)
            counts[role] += 1


def as_numpy(bits: Any, dtype: str) -> Any:
    """Stored bits as numpy has them; what it has no type for as float32."""
    return bits if dtype in np.sctypeDict else widen(bits, dtype_named(dtype)).astype(np.float32)


def _stem(case: Case) -> str:
    """``torch.abs.1`` of a case whose first call is ``torch.abs.1.forward``."""
    return case.calls[0].rpartition(".")[0]


def _devices(case: Case) -> Collection[str]:
    """Where the tensors of a case were."""
    found = []
    for spec in case.tensors:
        if spec.stored is None:
            continue
        with open_run(spec.stored.run) as run:
            found += [record.device for record in _records(run.rank(spec.stored.rank), spec.stored.tensor_id)]
    return dict.fromkeys(found)


def _records(reader: RankReader, tensor: int) -> Iterator[Any]:
    trace = reader.trace()
    for visit in trace.visits[trace.visits[:, 3] == tensor][:1].tolist():
        yield trace.layouts[visit[4]]


def _with_gradients(inputs: Inputs, case: Case, files: Sequence[Path]) -> Inputs:
    """Gradients from files, in the order of the outputs; those of the Run for the rest."""
    given: dict[str, ArrayIn] = {}
    for spec, path in zip(case.gradients, files, strict=False):
        try:
            values = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"set_backward_input: {path} cannot be read: {error}") from None
        if values.shape != spec.shape:
            raise UsageError(f"set_backward_input: {path} has the shape {list(values.shape)}, the output of {case.api} "
                             f"has {list(spec.shape)}")  # fmt: skip
        given[spec.path] = ArrayIn(narrow(values.astype(np.float64), dtype_named(spec.dtype)), spec.dtype)
    return replace(inputs, gradients={**inputs.gradients, **given}) if given else inputs
