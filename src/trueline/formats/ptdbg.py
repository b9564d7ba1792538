"""Dumps of ptdbg_ascend, read and written.

FOLDER/rank<R>/<name>.pkl       JSON, one line a tensor (the suffix misleads), and one a stack
              /<name>/*.npy     the tensors, also as <name>_<time>/

["Functional_linear_0_forward_input.0", 0, [], "torch.float32", [8, 16], [2.09, -2.94, 0.02, 10.1]]
["Functional_linear_0_forward_stack_info", [["/path/linear.py", "134", "forward", "return F.linear(...)"], ...]]
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from trueline.dtypes import DTYPES, DType
from trueline.formats import npy
from trueline.formats.foreign import (
    NOT_DUMPED,
    ForeignCall,
    ForeignDump,
    ForeignRank,
    ForeignTensor,
    Leaves,
    Sources,
    Summary,
    Widen,
    dtype_name,
    float_tree,
    keyed,
    like_forward,
    number,
    outputs_tree,
)
from trueline.formats.limits import MOST_JSON_BYTES, inside, name_of, parse_json, plain_file, refuse, shape_of
from trueline.formats.names import file_name, split_ptdbg, stem_of
from trueline.formats.nodes import nested
from trueline.formats.tensor_files import read_tensor
from trueline.records import Frame, Level, Phase, Role
from trueline.tree import Tree

NAME = "ptdbg"
_LINE = re.compile(
    r"(?P<call>.+_\d+_(?:forward|backward))_(?P<what>input|output|parameters|stack_info)(?:\.(?P<place>.+))?"
)
_RANK = re.compile(r"rank(\d{1,9})")
_SCALAR = re.compile(r"<class '(int|float|bool|str)'>")
_MOST_LINE = 1 << 20
_COMPLETE = 100
"""A step above this is ptdbg's mark for a dump of an overflow, not the number of a step."""


def find(path: Path) -> list[tuple[int, Path]]:
    """(rank, pkl file) of a dump: a pkl file, a folder with one, or a folder of rank folders."""
    if path.suffix == ".pkl":
        return [(_rank_of(path.parent.name), path)]
    found = [(_rank_of(path.name), one) for one in sorted(path.glob("*.pkl"))]
    for folder in sorted(path.glob("rank*")):
        found += [(_rank_of(folder.name), one) for one in sorted(folder.glob("*.pkl"))]
    return found


def read(path: Path, data: Path | None = None) -> ForeignDump:
    """Everything in a dump. ``data`` is the folder of the npy files where it does not lie beside the pkl file."""
    found = find(path)
    if not found:
        refuse(path, "there is no .pkl file of ptdbg_ascend in it")
    taken = Counter(rank for rank, _ in found)
    double = [rank for rank, count in taken.items() if count > 1]
    if double:
        refuse(path, f"rank {double[0]} has {taken[double[0]]} .pkl files", "give the path of the one that you mean")
    ranks = []
    for rank, file in found:
        folder = data if data is not None else _data_folder(file)
        left_out: Counter[str] = Counter()
        ranks.append(ForeignRank(rank, 0, _calls(file, folder, left_out), left_out))
    return ForeignDump(NAME, "torch", ranks)


def _rank_of(name: str) -> int:
    found = _RANK.fullmatch(name)
    return int(found[1]) if found is not None else 0


def _data_folder(file: Path) -> Path | None:
    """The folder of the tensors: named as the file, or so with a time behind it (the newest then)."""
    beside = file.with_suffix("")
    if beside.is_dir():
        return beside
    dated = re.compile(re.escape(file.stem) + r"_\d+(_\d+)*")
    found = sorted(one for one in file.parent.iterdir() if one.is_dir() and dated.fullmatch(one.name))
    return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a pkl file: a tensor with up to four numbers (max, min, mean, norm), or a stack."""

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    values: tuple[float | None, ...] = ()
    stack: tuple[Frame, ...] = ()
    sources: tuple[str, ...] = ()
    """The text of each line of the stack, empty where the file has none."""


def read_lines(file: Path) -> Iterator[Line]:
    """The lines of a pkl file, one by one."""
    for line in _lines(file):
        name = name_of(line[0], file, "the name of a tensor")
        if name.endswith("_stack_info"):
            yield Line(name, stack=_frames(line[1]), sources=tuple(_texts(line[1])))
            continue
        values = line[5] if len(line) > 5 and isinstance(line[5], list) else []
        shape = shape_of(line[4], file) if len(line) > 4 and isinstance(line[4], list) else ()
        dtype = str(line[3])[:64] if len(line) > 3 else ""
        yield Line(name, dtype, shape, tuple(number(value) for value in values[:4]))


def _lines(file: Path) -> Iterator[list[Any]]:
    size = plain_file(file)
    if size > MOST_JSON_BYTES:
        refuse(file, f"it has {size:,} bytes, more than the {MOST_JSON_BYTES:,} that are read of such a file")
    with open(file, "rb") as stream:
        for place, line in enumerate(iter(lambda: stream.readline(_MOST_LINE), b""), 1):
            if not line.strip():
                continue
            where = f"{file}, line {place}"
            if place == 1 and line[:1] not in (b"[", b" "):
                refuse(file, "it is not a file of ptdbg_ascend, whose lines are JSON", "nothing in it was executed")
            try:
                found = parse_json(line.decode("utf-8"), where)
            except UnicodeDecodeError:
                refuse(where, "it is not UTF-8 text")
            if not isinstance(found, list) or len(found) < 2:
                refuse(where, "it is not a line of ptdbg_ascend")
            yield found


def _calls(file: Path, data: Path | None, left_out: Counter[str]) -> Iterator[ForeignCall]:
    """Lines of one call follow one another."""
    current = ""
    group: list[tuple[str, str, list[Any]]] = []
    for line in _lines(file):
        name = name_of(line[0], file, "the name of a tensor")
        found = _LINE.fullmatch(name)
        if found is None or split_ptdbg(found["call"]) is None:
            left_out["a line whose name is not that of a tensor of a call"] += 1
            continue
        if found["call"] != current and group:
            yield _call(current, group, file, data)
            group = []
        current = found["call"]
        group.append((found["what"], found["place"] or "", line))
    if group:
        yield _call(current, group, file, data)


def _call(name: str, lines: list[tuple[str, str, list[Any]]], file: Path, data: Path | None) -> ForeignCall:
    parsed = split_ptdbg(name)
    assert parsed is not None, "only lines of such names are grouped"
    api, index, phase = parsed
    call = ForeignCall(api, index, Phase(phase), Level.KERNEL if api.startswith("aten.") else Level.API)
    leaves = Leaves(file)
    parts: dict[str, dict[str, Tree]] = {"input": {}, "output": {}, "parameters": {}}
    for what, place, line in lines:
        if what == "stack_info":
            call.stack = _frames(line[1])
            continue
        if isinstance(line[1], int) and 0 <= line[1] <= _COMPLETE:
            call.step = line[1]
        role = {"input": Role.INPUT, "output": Role.OUTPUT, "parameters": Role.PARAMETER}[what]
        parts[what][place] = _leaf(line, role, leaves, file, data)
    _arrange(call, parts)
    call.tensors = leaves.tensors
    return call


def _arrange(call: ForeignCall, parts: dict[str, dict[str, Tree]]) -> None:
    given, returned = parts["input"], parts["output"]
    if call.phase is Phase.BACKWARD and call.level is not Level.KERNEL:
        single = len(given) == 1  # of the only output of the call, as most have
        paths = {place: "out" if single and place == "0" else _path("out", place) for place in given}
        call.arguments = {paths[place]: leaf for place, leaf in given.items()}
        call.result = {_path("args", place or "0"): leaf for place, leaf in returned.items()}
        return
    positions = {f"args.{place}": leaf for place, leaf in given.items() if place[:1].isdigit()}
    if "" in given:
        positions["args.0"] = given[""]
    named = {place: leaf for place, leaf in given.items() if place and not place[:1].isdigit()}
    call.arguments = {"args": _filled(nested(positions, "args")), "kwargs": keyed(named)}
    if parts["parameters"]:
        call.arguments["parameters"] = keyed(parts["parameters"])
    changed = {place: returned.pop(place) for place in list(returned) if place.startswith(("args.", "kwargs."))}
    if "" in returned or not returned:
        call.result = {"out": returned.get("")}
    else:
        call.result = outputs_tree(_filled(nested({f"out.{place}": leaf for place, leaf in returned.items()}, "out")))
    call.result |= changed


def _path(head: str, place: str) -> str:
    """The path of a gradient: places count under ``head``, names are those of keyword arguments."""
    if not place or place[0].isdigit():
        return _join(head, place)
    return place if place.startswith(("args.", "kwargs.")) else f"kwargs.{place}"


def _filled(tree: Any) -> Any:
    """A list whose holes say that they are holes."""
    if isinstance(tree, list):
        return [_filled(item) for item in tree]
    return NOT_DUMPED if tree is None else tree


def _leaf(line: list[Any], role: Role, leaves: Leaves, file: Path, data: Path | None) -> Tree:
    leaves.count(0)
    if len(line) < 5:
        refuse(file, f"the line of {str(line[0])[:80]!r} is too short")
    values = line[5] if len(line) > 5 and isinstance(line[5], list) else []
    scalar = _SCALAR.fullmatch(line[3]) if isinstance(line[3], str) else None
    if scalar is not None:
        return _scalar(scalar[1], values)
    shape = shape_of(line[4], file)
    numbers = [number(value) for value in values[:4]]
    tensor = ForeignTensor(dtype_name(line[3], file), shape, summary=Summary(*numbers) if numbers else None)
    if data is not None:
        path = inside(data, f"{line[0]}.npy", file)
        if path.exists():
            tensor.fetch, tensor.file = partial(read_tensor, path, tensor.dtype, shape), path
        else:
            tensor.missing = f"the dump has no file {path.name}"
    return leaves.add(role, tensor)


def _scalar(kind: str, values: list[Any]) -> Tree:
    value = values[0] if values else None
    if not isinstance(value, int | float):
        return value if isinstance(value, str) else None
    if kind == "float":
        return float_tree(float(value))
    return bool(value) if kind == "bool" else int(value) if value == value and abs(value) < 1e18 else None


def _frames(lines: Any) -> tuple[Frame, ...]:
    frames = []
    for line in lines if isinstance(lines, list) else []:
        if isinstance(line, list) and len(line) >= 3 and str(line[1]).isdigit():
            frames.append(Frame(str(line[0])[:4096], int(str(line[1])[:9]), str(line[2])[:512]))
    return tuple(frames)


def _texts(lines: Any) -> Iterator[str]:
    for line in lines if isinstance(lines, list) else []:
        if isinstance(line, list) and len(line) >= 3 and str(line[1]).isdigit():
            yield str(line[3])[:512] if len(line) > 3 else ""


def _join(head: str, place: str) -> str:
    return f"{head}.{place}" if place else head


class Writer:
    """Writes one rank; ``close`` makes the file whole.

    ``values`` is how many of max, min, mean and L2 norm are said (0 for a dump of an overflow); ``data`` the name of
    the folder of the tensors, empty for none. Without ``integers`` only floats are written, as ptdbg does by default.
    Without ``tensors`` the file holds stacks alone. ``sources`` gives the text of a line of a file; without it the
    stacks have none.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        widen: Widen,
        data: str = "",
        values: int = 4,
        stacks: bool = True,
        integers: bool = True,
        tensors: bool = True,
        sources: Sources | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.pkl"
        self._data = folder / data if data else None
        if self._data is not None:
            self._data.mkdir(exist_ok=True)
        self._widen = widen
        self._values = values
        self._stacks = stacks
        self._integers = integers
        self._lines = tensors
        self._sources = sources or (lambda file, line: "")
        self._stream: TextIO = open(self.path, "w", encoding="utf-8")
        self._written: set[str] = set()
        self.unsaid: Counter[str] = Counter()
        self.calls = self.tensors = 0

    def add(self, call: ForeignCall) -> None:
        if call.level is Level.MODULE:
            stem = "_".join(part for part in ("Module", call.module, call.module_class) if part)
        else:
            stem = "_".join(stem_of(call.api))
        name = f"{stem}_{call.index}_{call.phase.value}"
        for what, place, tree in _places(call) if self._lines else ():
            self._leaf(f"{name}_{what}" + (f".{place}" if place else ""), tree, call)
        if self._stacks and call.stack:
            frames = [self._frame(frame) for frame in call.stack]
            self._put([f"{name}_stack_info", frames])
        self.calls += 1

    def close(self) -> None:
        self._stream.close()

    def _frame(self, frame: Frame) -> list[str]:
        return [frame.file, str(frame.line), frame.function, self._sources(frame.file, frame.line)]

    def _leaf(self, name: str, tree: Tree, call: ForeignCall) -> None:
        step = call.step or 0
        if not (isinstance(tree, dict) and "$t" in tree):
            if self._integers:
                values = [tree] * min(self._values, 3)
                self._put([name, step, [], f"<class '{type(tree).__name__}'>", [], values])
            return
        tensor = call.tensors[tree["$t"]][1]
        if not self._integers and DTYPES[tensor.dtype].is_exact:
            return
        found = tensor.summary or Summary()
        values = [found.maximum, found.minimum, found.mean, found.norm][: self._values]
        self._put([name, step, [], f"torch.{tensor.dtype}", list(tensor.shape), values])
        self.tensors += 1
        file = file_name(f"{name}.npy")
        if self._data is not None and tensor.fetch is not None and file not in self._written:
            self._save(tensor, tensor.fetch, self._data / file)
            self._written.add(file)

    def _save(self, tensor: ForeignTensor, fetch: Callable[[], tuple[Any, DType, str]], path: Path) -> None:
        """Writes a tensor, or links to the file that has it already and is as numpy has it."""
        path.unlink(missing_ok=True)  # a second dump of the same name takes the place of the first
        if tensor.file is not None and tensor.dtype in np.sctypeDict:
            try:
                os.link(tensor.file, path)
                return
            except OSError:  # another file system, or one without links
                pass
        array, dtype, _ = fetch()
        npy.write_npy(path, self._widen(array, dtype))

    def _put(self, line: list[Any]) -> None:
        self._stream.write(json.dumps(line) + "\n")


def _places(call: ForeignCall) -> Iterator[tuple[str, str, Tree]]:
    """The leaves of a call, as (input or output, place, leaf): tensors and numbers."""
    if not like_forward(call.arguments):
        for what, place, leaf in _leaves_under("input", call.arguments, ("out",)):
            yield what, place or "0", leaf  # a hook of ptdbg is given a tuple, however few the gradients
        yield from _leaves_under("output", call.result, ("args", "kwargs"))
        return
    given = call.arguments if isinstance(call.arguments, dict) else {}
    yield from _leaves_under(
        "input", {key: value for key, value in given.items() if key != "parameters"}, ("args", "kwargs")
    )
    yield from _leaves_under("parameters", given.get("parameters"), ())
    yield from _leaves_under("output", call.result, ("out",))


def _leaves_under(what: str, tree: Tree, drop: tuple[str, ...]) -> Iterator[tuple[str, str, Tree]]:
    for path, leaf in _walk(tree, ""):
        head, _, rest = path.partition(".")
        yield what, rest if head in drop else path, leaf


def _walk(tree: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    if isinstance(tree, list):
        for place, item in enumerate(tree):
            yield from _walk(item, _join(path, str(place)) if path else str(place))
    elif isinstance(tree, dict):
        if "$t" in tree:
            yield path, tree
        elif "$tuple" in tree:
            yield from _walk(tree["$tuple"], path)
        elif not any(key.startswith("$") for key in tree):
            for key, value in tree.items():
                yield from _walk(value, _join(path, key) if path else key)
    elif isinstance(tree, int | float):
        yield path, tree
