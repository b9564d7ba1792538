"""Dumps of api_accuracy_checker, read and written: what went into each call, for replaying it alone.

    FOLDER/[step<N>/]forward_info_<pid>.json    {"Functional*linear*0": {"args": [...], "kwargs": {...}}}
                     backward_info_<pid>.json   {"Functional*linear*0": [gradients of the outputs]}
                     stack_info_<pid>.json      {"Functional*linear*0": ["File ..., line ..., in ..., \\n code", ...]}
                     forward_real_data/, backward_real_data/    tensors (.pt), where they were asked for

Older versions write ``Functional_linear_0``. Outputs are not kept. The part <pid> is the rank where it is that small.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from trueline.formats import torch_files
from trueline.formats.foreign import (
    ForeignCall,
    ForeignDump,
    ForeignRank,
    ForeignTensor,
    Leaves,
    Nodes,
    Sources,
    Summary,
    dtype_name,
    gradients_tree,
    number,
)
from trueline.formats.limits import inside, name_of, read_json, refuse, shape_of, table
from trueline.formats.msprobe import frames_of, stack_lines
from trueline.formats.names import api_of, file_name, stem_of
from trueline.formats.nodes import NodeWriter, nested, summary_fields
from trueline.formats.tensor_files import read_tensor
from trueline.records import Level, Phase, Role

NAME = "checker"
_FORWARD = re.compile(r"forward_info_(\d{1,12})\.json")
_STEP = re.compile(r"step(\d{1,9})")
_KEY = re.compile(r"(?P<prefix>[A-Za-z]+)(?P<mark>[*_])(?P<api>.+)(?P=mark)(?P<index>\d{1,12})")
_REAL = re.compile(r"(forward|backward)_real_data\w*")
_LARGEST_RANK = 1 << 16


def find(path: Path) -> list[tuple[int, int, Path]]:
    """(step, number in the name, forward file) of a dump: a forward_info file, or folders with some."""
    if _FORWARD.fullmatch(path.name):
        return [(_step_of(path.parent), _number_of(path), path)]
    found = [(_step_of(path), _number_of(one), one) for one in sorted(path.glob("forward_info_*.json"))]
    for folder in sorted(path.glob("step*")):
        if _STEP.fullmatch(folder.name):
            found += [(_step_of(folder), _number_of(one), one) for one in sorted(folder.glob("forward_info_*.json"))]
    return [one for one in found if one[1] >= 0]


def read(path: Path, backward: Path | None = None, stack: Path | None = None) -> ForeignDump:
    """Everything in a dump. ``backward`` and ``stack`` are the other files where they do not lie beside the first."""
    found = find(path) if path.suffix != ".json" else [(_step_of(path.parent), max(_number_of(path), 0), path)]
    if not found:
        refuse(path, "there is no forward_info_<pid>.json in it")
    numbers = sorted({number for _, number, _ in found})
    as_ranks = numbers[-1] < _LARGEST_RANK and numbers == list(range(len(numbers)))
    ranks = []
    for step, process, file in found:
        rank = process if as_ranks else numbers.index(process)
        left_out: Counter[str] = Counter()
        backwards = backward if backward is not None else _beside(file, "backward_info")
        stacks = stack if stack is not None else _beside(file, "stack_info")
        ranks.append(ForeignRank(rank, step, _calls(file, backwards, stacks, left_out), left_out))
    return ForeignDump(NAME, "torch", ranks)


def _step_of(folder: Path) -> int:
    found = _STEP.fullmatch(folder.name)
    return int(found[1]) if found is not None else 0


def _number_of(path: Path) -> int:
    found = _FORWARD.fullmatch(path.name)
    return int(found[1]) if found is not None else -1


def _calls(file: Path, backward: Path | None, stack: Path | None, left_out: Counter[str]) -> Iterator[ForeignCall]:
    """The forward calls in order, then the backward calls."""
    stacks = {} if stack is None else table(read_json(stack), stack, "the file")
    for key, record in table(read_json(file), file, "the file").items():
        call = _named(key, Phase.FORWARD, file)
        if call is None or not isinstance(record, dict):
            left_out["an entry that is not a call"] += 1
            continue
        leaves = Leaves(file)
        nodes = Nodes(leaves, partial(_tensor, file))
        args, kwargs = (
            nodes.read(record.get(part) or empty, Role.INPUT) for part, empty in (("args", []), ("kwargs", {}))
        )
        call.arguments = {"args": args if isinstance(args, list) else [args], "kwargs": kwargs}
        call.tensors = leaves.tensors
        lines = stacks.get(key)
        call.stack = frames_of(lines) if isinstance(lines, list) else ()
        yield call
    if backward is None:
        return
    for key, record in table(read_json(backward), backward, "the file").items():
        call = _named(key, Phase.BACKWARD, backward)
        if call is None or not isinstance(record, list):
            left_out["an entry that is not a call"] += 1
            continue
        leaves = Leaves(backward)
        found = Nodes(leaves, partial(_tensor, backward)).read(record, Role.INPUT)
        call.arguments = gradients_tree(found, lambda place, count: "out" if count == 1 else f"out.{place}")
        call.tensors = leaves.tensors
        yield call


def _beside(file: Path, what: str) -> Path | None:
    """Another file of the same process; None where there is none."""
    path = file.with_name(file.name.replace("forward_info", what, 1))
    return path if path != file and path.is_file() else None


def _named(key: Any, phase: Phase, path: Path) -> ForeignCall | None:
    found = _KEY.fullmatch(name_of(key, path, "the name of a call"))
    if found is None:
        return None
    level = Level.KERNEL if found["prefix"] == "Aten" else Level.API
    return ForeignCall(api_of(found["prefix"], found["api"]), int(found["index"]), phase, level)


def _tensor(file: Path, node: dict[str, Any]) -> ForeignTensor:
    requires_grad = node.get("requires_grad") is True
    if "datapath" in node:
        place = _real_data(file, node["datapath"])
        array, dtype, _ = read_tensor(place)
        return ForeignTensor(dtype.name, array.shape, requires_grad, fetch=partial(read_tensor, place))
    summary = Summary(number(node.get("Max")), number(node.get("Min")))
    return ForeignTensor(
        dtype_name(node.get("dtype"), file), shape_of(node.get("shape"), file), requires_grad, summary=summary
    )


def _real_data(file: Path, text: Any) -> Path:
    """Where a tensor lies. The path in the file is that of another machine: its last two parts count, and must be
    a folder of real data beside the file and a plain name in it."""
    parts = name_of(text, file, "a datapath").replace("\\", "/").split("/")
    if len(parts) < 2 or _REAL.fullmatch(parts[-2]) is None or ".." in parts:
        refuse(file, f"the datapath {str(text)[:80]!r} does not lie in a folder of real data beside it")
    found = inside(file.parent / parts[-2], parts[-1], file)
    if not found.exists():
        refuse(file, f"the tensor {parts[-2]}/{parts[-1]} is not there", "copy the folder of real data as well")
    return found


class Writer:
    """Writes the three files of one process; ``real`` also the tensors. ``sources`` gives the text of a line, for the
    stacks."""

    def __init__(self, folder: Path, process: int, *, real: bool = False, sources: Sources | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._real = real
        self._sources = sources
        self._streams: dict[str, TextIO] = {}
        self._keys: dict[str, set[str]] = {}
        for what in ("forward", "backward", "stack"):
            self._streams[what] = open(folder / f"{what}_info_{process}.json", "w", encoding="utf-8")
            self._streams[what].write("{")
            self._keys[what] = set()
        self.unsaid: Counter[str] = Counter()
        self.calls = self.tensors = 0

    def add(self, call: ForeignCall) -> None:
        key = "*".join((*stem_of(call.api), str(call.index)))
        if call.phase is Phase.BACKWARD:
            items = call.arguments if isinstance(call.arguments, dict) else {}
            nodes = {path: self._node(leaf, key, call, "backward", path) for path, leaf in items.items()}
            self._put("backward", key, [node for node in nested(nodes, "out") if node is not None])
        else:
            given = call.arguments if isinstance(call.arguments, dict) else {}
            record = {
                "args": self._node(given.get("args", []), key, call, "forward", ""),
                "kwargs": self._node(given.get("kwargs", {}), key, call, "forward", "kwargs"),
            }
            self._put("forward", key, record)
            self._put("stack", key, stack_lines(call.stack, self._sources))
        self.calls += 1

    def close(self) -> None:
        for stream in self._streams.values():
            stream.write("\n}\n")
            stream.close()

    def _put(self, what: str, key: str, record: Any) -> None:
        if key in self._keys[what]:
            self.unsaid["a second call of the same name"] += 1
            return
        stream, keys = self._streams[what], self._keys[what]
        stream.write(("," if keys else "") + f"\n {json.dumps(key)}: {json.dumps(record)}")
        keys.add(key)

    def _node(self, tree: Any, key: str, call: ForeignCall, what: str, start: str) -> Any:
        def leaf(place: int, path: str) -> dict[str, Any]:
            return self._tensor(call.tensors[place][1], f"{key}.{f'{start}.{path}'.strip('.')}", what)

        return NodeWriter(leaf, bare_none=False).write(tree)

    def _tensor(self, tensor: ForeignTensor, name: str, what: str) -> dict[str, Any]:
        self.tensors += 1
        if self._real and tensor.fetch is not None:
            array, dtype, _ = tensor.fetch()
            place = Path(f"{what}_real_data", file_name(f"{name}.pt"))
            (self.folder / place.parent).mkdir(exist_ok=True)
            (self.folder / place).unlink(missing_ok=True)
            torch_files.write_tensor(self.folder / place, array, dtype, tensor.requires_grad)
            datapath = str((self.folder / place).resolve())
            return {"type": "torch.Tensor", "datapath": datapath, "requires_grad": tensor.requires_grad}
        numbers = summary_fields(tensor, ("Max", "Min"))
        node = {"type": "torch.Tensor", "dtype": f"torch.{tensor.dtype}", "shape": list(tensor.shape)}
        return node | numbers | {"requires_grad": tensor.requires_grad}
