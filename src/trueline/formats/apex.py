"""Dumps of PaddleAPEX, read and written: what went into each call of Paddle's, for replaying it alone.

    FOLDER/rank<R>_step<S>/forward_rank<R>_all.json     {"paddle.add*0": {"args": [...], "kwargs": {...},
                                                                          "dout_list": [...]}}
                          /forward_rank<R>_half.json, _other.json    the same entries, by precision
                          /paddle.add*0.<k>.pt          tensors (paddle.save), where they were asked for

Outputs and stacks are not kept. ``dout_list`` holds the gradients of the outputs, or ``["Failed"]``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trueline.dtypes import DTYPES
from trueline.formats import paddle_files
from trueline.formats.foreign import (
    ForeignCall,
    ForeignDump,
    ForeignRank,
    ForeignTensor,
    Leaves,
    Nodes,
    Summary,
    dtype_name,
    gradients_tree,
    number,
)
from trueline.formats.limits import inside, name_of, read_json, refuse, shape_of, table
from trueline.formats.names import file_name, stem_of
from trueline.formats.nodes import NodeWriter, nested
from trueline.formats.tensor_files import read_tensor
from trueline.records import Phase, Role
from trueline.tree import Tree

NAME = "apex"
_FOLDER = re.compile(r"rank(\d{1,9})_step(\d{1,9})")
_FILE = re.compile(r"forward_rank(\d{1,9})(?:_(all|half|other))?\.json")
_KEY = re.compile(r"(?P<api>[A-Za-z_][\w.]*)\*(?P<index>\d{1,12})")
_HALF = ("float16", "bfloat16")


def find(path: Path) -> list[tuple[int, int, Path]]:
    """(step, rank, JSON file) of a dump: a file, a folder rank<R>_step<S>, or a folder of such folders."""
    named = _FILE.fullmatch(path.name)
    if named is not None:
        return [(_numbers_of(path.parent.name)[1], int(named[1]), path)]
    places = [path] if list(path.glob("forward_rank*.json")) else sorted(path.glob("rank*_step*"))
    listed = []
    for folder in places:
        rank, step = _numbers_of(folder.name)
        kinds = {found[2] or "": one for one in sorted(folder.glob("forward_rank*.json"))
                 if (found := _FILE.fullmatch(one.name)) is not None}  # fmt: skip
        whole = [kinds[kind] for kind in ("all", "") if kind in kinds][:1]
        parts = whole or [kinds[kind] for kind in ("half", "other") if kind in kinds]
        listed += [(step, rank, one) for one in parts]
    return sorted(listed)


def read(path: Path, tensors: Path | None = None) -> ForeignDump:
    """Everything in a dump. ``tensors`` is the folder of the tensors where they do not lie beside the JSON file."""
    found = find(path) or ([(0, 0, path)] if path.suffix == ".json" else [])
    if not found:
        refuse(path, "there is no rank<R>_step<S>/forward_rank<R>_all.json in it")
    ranks = []
    for step, rank, file in found:
        left_out: Counter[str] = Counter()
        ranks.append(ForeignRank(rank, step, _calls(file, tensors or file.parent, left_out), left_out))
    return ForeignDump(NAME, "paddle", ranks)


def _numbers_of(name: str) -> tuple[int, int]:
    found = _FOLDER.fullmatch(name)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def _calls(file: Path, folder: Path, left_out: Counter[str]) -> Iterator[ForeignCall]:
    """Every forward call, each followed by its backward call where gradients arrived."""
    for key, record in table(read_json(file), file, "the file").items():
        found = _KEY.fullmatch(name_of(key, file, "the name of a call"))
        if found is None or not isinstance(record, dict):
            left_out["an entry that is not a call"] += 1
            continue
        leaves = Leaves(file)
        nodes = Nodes(leaves, partial(_tensor, file, folder))
        args = nodes.read(record.get("args") or [], Role.INPUT)
        kwargs = nodes.read(record.get("kwargs") or {}, Role.INPUT)
        call = ForeignCall(found["api"], int(found["index"]), Phase.FORWARD)
        call.arguments = {"args": _dtypes(args) if isinstance(args, list) else [args], "kwargs": _dtypes(kwargs)}
        call.tensors = leaves.tensors
        yield call
        gradients = record.get("dout_list")
        arrived = [one for one in gradients if isinstance(one, dict)] if isinstance(gradients, list) else []
        if arrived:
            leaves = Leaves(file)
            trees = Nodes(leaves, partial(_tensor, file, folder)).read(arrived, Role.INPUT)
            back = ForeignCall(found["api"], int(found["index"]), Phase.BACKWARD, tensors=leaves.tensors)
            back.arguments = gradients_tree(trees, lambda place, count: "out" if count == 1 else f"out.{place}")
            yield back


def _tensor(file: Path, folder: Path, node: dict[str, Any]) -> ForeignTensor:
    dtype, shape = dtype_name(node.get("dtype"), file), shape_of(node.get("shape"), file)
    maximum, minimum = (number(node.get(f"{name}_origin", node.get(name))) for name in ("Max", "Min"))
    tensor = ForeignTensor(dtype, shape, node.get("stop_gradient") is False, summary=Summary(maximum, minimum))
    if node.get("real_data_path") is not None:
        place = _real_data(file, folder, node["real_data_path"])
        if place.exists():
            tensor.fetch = partial(read_tensor, place, dtype, shape)
        else:
            tensor.missing = f"the dump has no file {place.name}"
    return tensor


def _real_data(file: Path, folder: Path, text: Any) -> Path:
    """Where a tensor lies: a plain name, with the folder of the dump in front of it in some versions."""
    parts = name_of(text, file, "the path of a tensor").split("/")
    if len(parts) > 1 and parts[-2] == file.parent.name and ".." not in parts:
        parts = parts[-1:]
    return inside(folder, "/".join(parts), file)


def _dtypes(tree: Tree) -> Tree:
    """Dtypes given as arguments stand in the file as plain text."""
    if isinstance(tree, list):
        return [_dtypes(item) for item in tree]
    if isinstance(tree, dict) and not any(key.startswith("$") for key in tree):
        return {key: _dtypes(value) for key, value in tree.items()}
    if isinstance(tree, str) and tree.startswith("paddle.") and tree[7:] in DTYPES:
        return {"$dtype": tree[7:]}
    return tree


class Writer:
    """Writes one rank of one step; ``close`` makes the files whole. ``real`` also writes the tensors.

    ``unique`` keeps one of several entries of an API that are alike, with ranges widened to powers of ten so that more
    are; ``split`` also writes the entries by precision; ``tensors`` is another folder for the tensors. ``as_document``
    calls the files of tensors as the document has them, ``Paddle*add*0.0.pt``: readers go by what the JSON file says.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        step: int,
        *,
        real: bool = False,
        unique: bool = False,
        split: bool = True,
        tensors: Path | None = None,
        as_document: bool = False,
    ) -> None:
        self._as_document = as_document
        self.folder = folder / f"rank{rank}_step{step}"
        self._tensors = self.folder if tensors is None else tensors / self.folder.name
        if real:
            self._tensors.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._rank = rank
        self._real, self._unique, self._split = real, unique, split
        self._entries: dict[str, dict[str, Any]] = {}
        self._half: set[str] = set()
        self._next: dict[str, int] = {}
        self.unsaid: Counter[str] = Counter()
        self.calls = self.tensors = 0

    def add(self, call: ForeignCall) -> None:
        key = f"{call.api}*{call.index}"
        self.calls += 1
        if call.phase is Phase.BACKWARD:
            entry = self._entries.get(key)
            items = call.arguments if isinstance(call.arguments, dict) else {}
            if entry is not None:
                nodes = {path: self._node(leaf, key, call) for path, leaf in items.items()}
                entry["dout_list"] = [node for node in nested(nodes, "out") if node is not None] or ["Failed"]
            return
        given = call.arguments if isinstance(call.arguments, dict) else {}
        if key in self._entries:
            self.unsaid["a second call of the same name"] += 1
            return
        self._next[key] = 0
        self._entries[key] = {
            "args": self._node(given.get("args", []), key, call),
            "kwargs": self._node(given.get("kwargs", {}), key, call),
            "dout_list": ["Failed"],
        }
        if any(tensor.dtype in _HALF for _, tensor in call.tensors) or _names_half(call.arguments):
            self._half.add(key)

    def close(self) -> None:
        entries = _distinct(self._entries) if self._unique else self._entries
        self._put("all", entries)
        if self._split:
            self._put("half", {key: one for key, one in entries.items() if key in self._half})
            self._put("other", {key: one for key, one in entries.items() if key not in self._half})

    def _put(self, kind: str, entries: dict[str, Any]) -> None:
        path = self.folder / f"forward_rank{self._rank}_{kind}.json"
        path.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _node(self, tree: Tree, key: str, call: ForeignCall) -> Any:
        def leaf(place: int, path: str) -> dict[str, Any]:
            return self._tensor(call.tensors[place][1], key, call.api)

        return _Numbered(leaf, partial(self._advance, key)).write(tree)

    def _advance(self, key: str) -> int:
        number = self._next.get(key, 0)
        self._next[key] = number + 1
        return number

    def _tensor(self, tensor: ForeignTensor, key: str, call: str) -> dict[str, Any]:
        place = self._advance(key)
        self.tensors += 1
        summary = tensor.summary or Summary()
        low, high = summary.minimum, summary.maximum
        node: dict[str, Any] = {
            "type": "paddle.Tensor",
            "dtype": tensor.dtype.upper(),
            "shape": list(tensor.shape),
            "Max": _power_above(high) if self._unique else high,
            "Max_origin": high,
            "Min": _negative(_power_above(_negative(low))) if self._unique else low,
            "Min_origin": low,
            "stop_gradient": not tensor.requires_grad,
        }
        if self._real and tensor.fetch is not None and not paddle_files.can_write(tensor.dtype):
            self.unsaid[f"a tensor of {tensor.dtype}, which Paddle's files do not know"] += 1
        elif self._real and tensor.fetch is not None:
            array, dtype, _ = tensor.fetch()
            stem = "*".join((*stem_of(call), key.rpartition("*")[2])) if self._as_document else key
            node["real_data_path"] = file = file_name(f"{stem}.{place}.pt")
            (self._tensors / file).unlink(missing_ok=True)
            paddle_files.write_tensor(self._tensors / file, f"{key}.{place}", array, dtype)
        return node


class _Numbered(NodeWriter):
    """Plain values consume a number as tensors do; dtypes stand as plain text."""

    def __init__(self, tensor: Any, advance: Any) -> None:
        super().__init__(tensor, framework="paddle", bare_none=False)
        self._advance = advance

    def write(self, tree: Tree, path: str = "") -> Any:
        if isinstance(tree, dict) and "$dtype" in tree:
            self._advance()
            return f"paddle.{tree['$dtype']}"
        if not isinstance(tree, list | dict):
            self._advance()
        return super().write(tree, path)


def _names_half(tree: Tree) -> bool:
    if isinstance(tree, list):
        return any(_names_half(item) for item in tree)
    if isinstance(tree, dict):
        return tree.get("$dtype") in _HALF or any(_names_half(value) for value in tree.values())
    return False


def _distinct(entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The first of entries of one API that are alike but for their exact ranges and files."""
    seen: set[tuple[str, str]] = set()
    kept = {}
    for key, entry in entries.items():
        likeness = key.rpartition("*")[0], json.dumps(_without(entry), sort_keys=True)
        if likeness not in seen:
            seen.add(likeness)
            kept[key] = entry
    return kept


def _without(node: Any) -> Any:
    if isinstance(node, list):
        return [_without(item) for item in node]
    if isinstance(node, dict):
        dropped = ("Max_origin", "Min_origin", "real_data_path")
        return {key: _without(value) for key, value in node.items() if key not in dropped}
    return node


def _power_above(value: float | None) -> float | None:
    """The next number of the form +-10**n above a number; the number itself where there is none."""
    if value is None or value == 0.0 or not math.isfinite(value):
        return value
    exponent = math.log10(abs(value))
    return 10.0 ** math.ceil(exponent) if value > 0 else -(10.0 ** math.floor(exponent))


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
