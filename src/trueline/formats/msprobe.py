"""Dumps of msprobe (``mindstudio-probe``), read and written.

    FOLDER/step<N>/rank<R> | proc<pid>/dump.json       every call with its arguments and results
                                      /stack.json      the stacks, each with the calls that share it
                                      /construct.json  the module around each call, where modules were dumped
                                      /dump_tensor_data/<call>.<input|kwargs|output|parameters>.<place>.pt | .npy

A call of an API is ``Functional.linear.0.forward``, one of a module ``Module.fc.Linear.forward.0``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

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
    outputs_tree,
)
from trueline.formats.limits import inside, name_of, read_json, refuse, shape_of, table
from trueline.formats.names import api_of
from trueline.formats.tensor_files import read_tensor
from trueline.records import Frame, Level, Phase, Role
from trueline.tree import Tree

NAME = "msprobe"
DATA_FOLDER = "dump_tensor_data"
HINT = "trueline_paths"
"""Our own key in a record, which msprobe does not look at: whose gradients the outputs are."""
_STEP = re.compile(r"step(\d{1,9})")
_RANK = re.compile(r"(rank|proc)(\d{0,9})")
_API_NAME = re.compile(r"(?P<prefix>[A-Za-z_]\w*)\.(?P<api>.+)\.(?P<index>\d{1,12})\.(?P<phase>forward|backward)")
_MODULE_NAME = re.compile(
    r"(?:Module|Cell)\.(?:(?P<path>.+)\.)?(?P<kind>[^.]+)\.(?P<phase>forward|backward|parameters_grad)(?:\.(?P<index>\d{1,12}))?"
)
_FRAME = re.compile(r"File (?P<file>.*), line (?P<line>\d{1,9}), in (?P<function>[^\n]*?),? ?(?:\n.*)?", re.DOTALL)
_PATH = re.compile(r"(?:args|kwargs|out|gradients|parameters)(?:\.\w{1,64}){0,4}")
_GRADS = ".parameters_grad."
_TASKS = ("statistics", "tensor", "structure")


def find(folder: Path) -> list[tuple[int, int, Path]]:
    """(step, rank, folder of dump.json) of everything below a folder that is a dump, or of the folder itself."""
    if folder.name == "dump.json":
        folder = folder.parent
    if (folder / "dump.json").is_file():
        number = _numbered(_RANK, folder.name, 2) if folder.name.startswith("rank") else 0  # proc<pid> is no rank
        return [(_numbered(_STEP, folder.parent.name, 1), number, folder)]
    if not folder.is_dir():
        return []
    steps = [one for one in _folders(folder) if _STEP.fullmatch(one.name)] or [folder]
    found = []
    for step in sorted(steps, key=lambda one: _numbered(_STEP, one.name, 1)):
        ranks = [one for one in _folders(step) if _RANK.fullmatch(one.name) and (one / "dump.json").is_file()]
        # Processes that never were told their rank are called by their number; it says nothing about their order.
        by_rank = all(one.name.startswith("rank") for one in ranks)
        for place, rank in enumerate(sorted(ranks, key=lambda one: _numbered(_RANK, one.name, 2))):
            found.append((_numbered(_STEP, step.name, 1), _numbered(_RANK, rank.name, 2) if by_rank else place, rank))
    return found


def read(folder: Path) -> ForeignDump:
    """Everything below a folder."""
    found = find(folder)
    if not found:
        refuse(folder, "there is no step<N>/rank<R>/dump.json in it")
    dump = ForeignDump(NAME, "torch", [])
    for step, rank, place in found:
        path = place / "dump.json"
        head = table(read_json(path), path, "the file")
        _check_head(head, path)
        dump.about |= {"task": head.get("task"), "level": head.get("level")}
        dump.ranks.append(_Rank(place, head).as_rank(rank, step))
    return dump


def _check_head(head: dict[str, Any], path: Path) -> None:
    framework = head.get("framework", "pytorch")
    if framework != "pytorch":
        refuse(path, f"it is of the framework {str(framework)[:40]!r}", "only dumps of PyTorch are read")
    task = head.get("task")
    if task not in _TASKS:
        refuse(path, f"the task {str(task)[:40]!r} is not known", f"known: {', '.join(_TASKS)}")
    if not isinstance(head.get("data"), dict):
        refuse(path, "it has no table 'data'", "is it of a version of msprobe that is not known here?")


class _Rank:
    """One dump.json with what lies beside it."""

    def __init__(self, folder: Path, head: dict[str, Any]) -> None:
        self.path = folder / "dump.json"
        self.data = folder / DATA_FOLDER
        self.records: dict[str, Any] = head["data"]
        self.stacks = _read_stacks(folder / "stack.json")
        self.parents = _read_parents(folder / "construct.json")
        self.left_out: Counter[str] = Counter()

    def as_rank(self, rank: int, step: int) -> ForeignRank:
        return ForeignRank(rank, step, self._calls(), self.left_out)

    def _calls(self) -> Iterator[ForeignCall]:
        for name, record in self.records.items():
            name_of(name, self.path, "the name of a call")
            if not isinstance(record, dict):
                self.left_out["a call whose record is not an object"] += 1
                continue
            if name != (twin := name.replace(_GRADS, ".backward.")) and twin in self.records:
                continue  # goes with the backward call of its module
            call = self._module(name, record) if name.startswith(("Module.", "Cell.")) else self._api(name, record)
            if call is None:
                self.left_out[f"a record whose name is not that of a call ({name.partition('.')[0][:20]})"] += 1
                continue
            call.stack = self.stacks.get(name, ())
            yield call

    def _api(self, name: str, record: dict[str, Any]) -> ForeignCall | None:
        found = _API_NAME.fullmatch(name)
        if found is None:
            return None
        level = Level.KERNEL if found["prefix"] == "Aten" else Level.API
        call = ForeignCall(api_of(found["prefix"], found["api"]), int(found["index"]), Phase(found["phase"]), level)
        parent = _MODULE_NAME.fullmatch(self.parents.get(name, ""))
        if parent is not None:
            call.module, call.module_class = parent["path"] or "", parent["kind"]
        elif self.parents.get(name) == "optimizer":
            call.context = "optimizer"
        return self._filled(call, record)

    def _module(self, name: str, record: dict[str, Any]) -> ForeignCall | None:
        found = _MODULE_NAME.fullmatch(name)
        if found is None:
            return None
        phase = Phase.FORWARD if found["phase"] == "forward" else Phase.BACKWARD
        kind, path = found["kind"], found["path"] or ""
        call = ForeignCall(kind, int(found["index"] or 0), phase, Level.MODULE, path, kind)
        if found["phase"] == "parameters_grad":
            record = {_GRADS: record}
        elif isinstance(grads := self.records.get(name.replace(".backward.", _GRADS)), dict) and _GRADS not in name:
            record = {**record, _GRADS: grads}
        return self._filled(call, record)

    def _filled(self, call: ForeignCall, record: dict[str, Any]) -> ForeignCall:
        leaves = Leaves(self.path)
        nodes = Nodes(leaves, self._tensor)
        if call.phase is Phase.FORWARD or "input_args" in record:
            call.arguments = {
                "args": _list(nodes.read(record.get("input_args", record.get("input")) or [], Role.INPUT)),
                "kwargs": nodes.read(record.get("input_kwargs") or {}, Role.INPUT),
            }
            if isinstance(record.get("parameters"), dict):
                call.arguments["parameters"] = nodes.read(record["parameters"], Role.PARAMETER)
            call.result = outputs_tree(_list(nodes.read(record.get("output") or [], Role.OUTPUT)))
        else:
            arrived = _list(nodes.read(record.get("input") or [], Role.INPUT))
            left = _list(nodes.read(record.get("output") or [], Role.OUTPUT))
            call.arguments = gradients_tree(arrived, lambda place, count: "out" if count == 1 else f"out.{place}")
            names = _hinted(record, len(left)) or _gradient_names(call, len(left))
            call.result = gradients_tree(left, lambda place, _: names[place])
            for key, value in record.get(_GRADS, {}).items():
                found = _list(nodes.read(value, Role.OUTPUT))
                call.result |= {f"parameters.{key}": one for one in found[:1] if one is not None}
        call.tensors = leaves.tensors
        return call

    def _tensor(self, node: dict[str, Any]) -> ForeignTensor:
        shape = shape_of(node.get("shape"), self.path)
        dtype = dtype_name(node.get("dtype"), self.path)
        summary = Summary(*(number(node.get(key)) for key in ("Max", "Min", "Mean", "Norm")))
        tensor = ForeignTensor(dtype, shape, node.get("requires_grad") is True, summary=summary)
        if isinstance(node.get("md5"), str):
            tensor.checksum = node["md5"][:64]
        if "data_name" in node and node["data_name"] not in (None, "", "-1"):
            file = inside(self.data, node["data_name"], self.path)
            if file.exists():
                tensor.fetch = partial(read_tensor, file, dtype, shape)
            else:
                tensor.missing = f"the dump has no file {file.name}"
        return tensor


def _hinted(record: dict[str, Any], count: int) -> list[str]:
    """The paths of gradients where we wrote the dump and said them; else nothing."""
    hints = record.get(HINT)
    if isinstance(hints, list) and len(hints) == count and all(isinstance(one, str) for one in hints):
        paths = [one for one in hints if _PATH.fullmatch(one)]
        if len(set(paths)) == count:
            return paths
    return []


def _gradient_names(call: ForeignCall, count: int) -> list[str]:
    """The paths of the gradients that left a call. Of a module they stand in the places of its arguments. Of an API
    they are those of the last node in its graph, in the node's own order and form: a weight's may be transposed, and a
    loss of two steps has that of what lies between them. So they are not called gradients of arguments."""
    head = "args" if call.level is Level.MODULE else "gradients"
    return [f"{head}.{place}" for place in range(count)]


def _read_stacks(path: Path) -> dict[str, tuple[Frame, ...]]:
    if not path.is_file():
        return {}
    found: dict[str, tuple[Frame, ...]] = {}
    for value in table(read_json(path), path, "the file").values():
        if isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value):
            frames = frames_of(value[1])
            found.update((name, frames) for name in value[0] if isinstance(name, str))
    return found


def frames_of(lines: list[Any]) -> tuple[Frame, ...]:
    """Lines like ``File train.py, line 3, in step, \\n loss.backward()``, innermost first, as frames."""
    matches = [_FRAME.fullmatch(line) for line in lines if isinstance(line, str) and len(line) < 1 << 14]
    return tuple(Frame(one["file"], int(one["line"]), one["function"]) for one in matches if one is not None)


def stack_lines(stack: tuple[Frame, ...], sources: Sources | None = None) -> list[str]:
    texts = [sources(frame.file, frame.line) if sources is not None else "" for frame in stack]
    return [
        f"File {frame.file}, line {frame.line}, in {frame.function}, \n {text}"
        for frame, text in zip(stack, texts, strict=True)
    ]


def _read_parents(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    content = table(read_json(path), path, "the file")
    return {name: parent for name, parent in content.items() if isinstance(parent, str)}


def _list(tree: Tree) -> list[Tree]:
    return tree if isinstance(tree, list) else [tree]


def _folders(folder: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if one.is_dir()]
    except OSError as error:
        refuse(folder, error.strerror or str(error))


def _numbered(pattern: re.Pattern[str], name: str, group: int) -> int:
    found = pattern.fullmatch(name)
    return int(found[group] or 0) if found is not None else 0
