"""Writes dumps as msprobe does, for its own compare; see ``formats.msprobe`` for what lies where."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, TextIO

from trueline.formats import npy, torch_files
from trueline.formats.foreign import ForeignCall, ForeignTensor, Widen, like_forward
from trueline.formats.msprobe import DATA_FOLDER, HINT, stack_lines
from trueline.formats.names import file_name, stem_of
from trueline.formats.nodes import NodeWriter, nested, summary_fields
from trueline.records import Frame, Level, Phase
from trueline.tree import Tree


class Writer:
    """Writes one rank of one step; ``close`` makes the files whole. ``data`` is ``pt``, ``npy`` or empty."""

    def __init__(
        self, folder: Path, rank: int, step: int, *, widen: Widen, level: str = "L1", data: str = "pt"
    ) -> None:
        self._widen = widen
        self.folder = folder / f"step{step}" / f"rank{rank}"
        self.folder.mkdir(parents=True)
        self._data = data
        if data:
            (self.folder / DATA_FOLDER).mkdir()
        self._stream: TextIO = open(self.folder / "dump.json", "x", encoding="utf-8")
        head = {
            "task": "tensor" if data else "statistics",
            "level": level,
            "framework": "pytorch",
            "dump_data_dir": str((self.folder / DATA_FOLDER).resolve()) if data else None,
        }
        self._stream.write(json.dumps(head, indent=1)[:-2] + ',\n "data": {')
        self._first = True
        self._stacks: dict[tuple[Frame, ...], list[str]] = {}
        self._parents: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._used: set[str] = set()
        self.unsaid: Counter[str] = Counter()
        self.calls = self.tensors = 0

    def add(self, call: ForeignCall) -> None:
        name = self._name(call)
        record = self._record(name, call)
        self._stream.write(("" if self._first else ",") + f"\n  {json.dumps(name)}: {json.dumps(record)}")
        self._first = False
        self._stacks.setdefault(call.stack, []).append(name)
        parent = self._modules.get(call.module) if call.level is not Level.MODULE else None
        self._parents[name] = "optimizer" if call.context == "optimizer" else parent or ""
        self.calls += 1

    def close(self) -> None:
        self._stream.write("\n }\n}\n")
        self._stream.close()
        stacks = {str(place): [names, stack_lines(stack)] for place, (stack, names) in enumerate(self._stacks.items())}
        self._put("stack.json", stacks)
        parents = {name: parent or None for name, parent in self._parents.items()} if self._modules else {}
        self._put("construct.json", parents)

    def _put(self, name: str, content: Any) -> None:
        (self.folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def _name(self, call: ForeignCall) -> str:
        """The name of a call; a dump has each but once, so that what a program did twice is told apart."""
        if call.level is Level.MODULE:
            kind = (call.module_class or call.api).rpartition(".")[2]
            stem = ".".join(part for part in ("Module", call.module, kind) if part)
            count = self._counts[stem, call.phase.value]
            self._counts[stem, call.phase.value] += 1
            name = f"{stem}.{call.phase.value}.{count}"
            if call.phase is Phase.FORWARD:
                self._modules[call.module] = name
        else:
            name = f"{'.'.join(stem_of(call.api))}.{call.index}.{call.phase.value}"
        if name in self._used:
            stem, _, phase = name.rsplit(".", 2)
            spare = 10**6
            while f"{stem}.{spare}.{phase}" in self._used:
                spare += 1
            name = f"{stem}.{spare}.{phase}"
        self._used.add(name)
        return name

    def _record(self, name: str, call: ForeignCall) -> dict[str, Any]:
        if not like_forward(call.arguments) and call.phase is Phase.BACKWARD:
            record = {
                "input": self._gradients(call.arguments, f"{name}.input", call, "out"),
                "output": self._gradients(call.result, f"{name}.output", call, "args"),
            }
            paths = nested({path: path for path in call.result or {}}, "args")
            record[HINT] = [path if isinstance(path, str) else f"args.{place}" for place, path in enumerate(paths)]
            return record
        given = call.arguments if isinstance(call.arguments, dict) else {}
        if isinstance(call.result, dict) and call.result.get("out") is not None:
            changed = len(call.result) - 1
            self.unsaid["a tensor that a call changed besides what it returned"] += changed
        record = {
            "input_args": self._node(given.get("args", []), f"{name}.input", call),
            "input_kwargs": self._node(given.get("kwargs", {}), f"{name}.kwargs", call),
            "output": _tuple(self._node(returned(call.result), f"{name}.output", call, wrap=True)),
        }
        if given.get("parameters"):
            record["parameters"] = self._node(given["parameters"], f"{name}.parameters", call)
        return record

    def _gradients(self, tree: Tree, stem: str, call: ForeignCall, head: str) -> list[Any]:
        items = tree if isinstance(tree, dict) else {}
        places = nested({path: path for path in items}, head)
        nodes = {path: self._node(item, f"{stem}.{_place(places, path)}", call) for path, item in items.items()}
        return nested(nodes, head)

    def _node(self, tree: Tree, stem: str, call: ForeignCall, *, wrap: bool = False) -> Any:
        def leaf(place: int, path: str) -> dict[str, Any]:
            where = f"0.{path}".rstrip(".") if wrap and not _is_tuple(tree) else path
            return self._tensor(call.tensors[place][1], f"{stem}.{where}" if where else stem)

        return NodeWriter(leaf).write(tree)

    def _tensor(self, tensor: ForeignTensor, name: str) -> dict[str, Any]:
        self.tensors += 1
        node: dict[str, Any] = {
            "type": "torch.Tensor",
            "dtype": f"torch.{tensor.dtype}",
            "shape": list(tensor.shape),
            **summary_fields(tensor),
            "requires_grad": tensor.requires_grad,
        }
        if self._data and tensor.fetch is not None:
            array, dtype, _ = tensor.fetch()
            node["data_name"] = file = file_name(f"{name}.{self._data}")
            target = self.folder / DATA_FOLDER / file
            if self._data == "pt":
                torch_files.write_tensor(target, array, dtype)
            else:
                npy.write_npy(target, self._widen(array, dtype))
        return node


def returned(result: Tree) -> Tree:
    """What a call returned; for one that returns nothing, what it changed."""
    if not isinstance(result, dict):
        return []
    if result.get("out") is not None:
        return result["out"]
    return {"$tuple": [value for path, value in result.items() if path != "out"]}


def _is_tuple(tree: Tree) -> bool:
    return isinstance(tree, list) or (isinstance(tree, dict) and ("$tuple" in tree or "$size" in tree))


def _tuple(node: Any) -> list[Any]:
    return node if isinstance(node, list) else [node]


def _place(places: list[Any], path: str) -> str:
    """Where in a nested list a path went: ``0.2``."""
    for place, item in enumerate(places):
        if item == path:
            return str(place)
        if isinstance(item, list):
            below = _place(item, path)
            if below:
                return f"{place}.{below}"
    return ""
