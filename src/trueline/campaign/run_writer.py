"""Writes executed cases as the calls of a Run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueline.cases import Case
from trueline.dtypes import dtype_named
from trueline.numerics import cpu
from trueline.numerics.layout import DESCRIPTOR, STATISTICS
from trueline.records import Level, Phase, Role
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES, ROLES, VISIT_COLUMNS, Batch, Payload
from trueline.store.definitions import Definitions
from trueline.store.writer import RankWriter
from trueline.tree import Tree, tensor_paths

Leaf = Mapping[str, Any]
"""One tensor of an executed case: part, path, dtype, shape, strides, device, and where its bytes begin in the file."""


class RunOfCases:
    """Adds cases, in order, to one rank of a Run. Their bytes lie in files of ``spool``, which are read and removed."""

    def __init__(self, writer: RankWriter, spool: Path) -> None:
        self._writer = writer
        self._spool = spool
        self._definitions = Definitions()
        self._nth: Counter[tuple[str, Phase]] = Counter()
        self.counts: Counter[str] = Counter()
        self.tensors = 0
        self._calls = 0
        self._context = ""

    def add(self, case: Case, name: str, leaves: Sequence[Leaf], raised: str, context: str = "") -> None:
        """One case: its forward call and, where gradients arrived, its backward call."""
        self._context = context
        visits: list[list[int]] = []
        by_part: dict[str, list[Leaf]] = {"input": [], "output": [], "arrived": [], "gradient": []}
        for leaf in leaves:
            by_part[leaf["part"]].append(leaf)
        first = self.tensors
        calls = [self._forward(case, by_part, visits, raised)]
        if by_part["arrived"]:
            calls.append(self._backward(case, by_part, visits, calls[0][0]))
        content = _Content(self._spool / name, [*by_part["input"], *by_part["output"], *by_part["arrived"],
                                                *by_part["gradient"]], first)  # fmt: skip
        definitions = self._definitions.take()
        self._writer.submit(
            Batch(
                definitions=definitions,
                calls=np.array(calls, dtype=np.int64).reshape(-1, len(CALL_COLUMNS)),
                visits=np.array(visits, dtype=np.int64).reshape(-1, len(VISIT_COLUMNS)),
                statistics=content.statistics,
                payloads=content.payloads(),
                done=content.remove,
            )
        )

    def _forward(
        self, case: Case, leaves: Mapping[str, list[Leaf]], visits: list[list[int]], raised: str
    ) -> list[int]:
        inputs = {leaf["path"]: leaf for leaf in leaves["input"]}
        numbers = [(number, inputs[path]) for number, path in tensor_paths(case.arguments) if path in inputs]
        self._visit(visits, Role.INPUT, numbers)
        start = max((number for number, _ in tensor_paths(case.arguments)), default=-1) + 1
        outputs = [(start + place, leaf) for place, leaf in enumerate(leaves["output"])]
        self._visit(visits, Role.OUTPUT, outputs)
        arguments = self._definitions.tree(case.arguments)
        result = self._definitions.tree(_result_tree({leaf["path"]: number for number, leaf in outputs}))
        return self._call(case, Phase.FORWARD, arguments, result, raised)

    def _backward(
        self, case: Case, leaves: Mapping[str, list[Leaf]], visits: list[list[int]], forward: int
    ) -> list[int]:
        arrived = list(enumerate(leaves["arrived"]))
        left = [(len(arrived) + place, leaf) for place, leaf in enumerate(leaves["gradient"])]
        self._visit(visits, Role.INPUT, arrived)
        self._visit(visits, Role.OUTPUT, left)
        arguments = self._definitions.tree({leaf["path"]: {"$t": number} for number, leaf in arrived})
        result = self._definitions.tree({leaf["path"]: {"$t": number} for number, leaf in left})
        return self._call(case, Phase.BACKWARD, arguments, result, "", forward)

    def _call(
        self, case: Case, phase: Phase, arguments: int, result: int, raised: str, forward: int = NONE
    ) -> list[int]:
        row = {
            "id": self._calls,
            "level": LEVELS.index(Level.API),
            "phase": PHASES.index(phase),
            "api": self._definitions.name(case.api),
            "nth": self._nth[case.api, phase],
            "step": 0,
            "module": self._definitions.define("modules", case.module, [case.module, ""]),
            "context": self._definitions.name(self._context),
            "thread": 0,
            "forward": forward,
            "arguments": arguments,
            "result": result,
            "raised": self._definitions.name(raised) if raised else NONE,
            "stack": self._stack(case.source),
        }
        self._calls += 1
        self._nth[case.api, phase] += 1
        self.counts[f"{Level.API.value} {phase.value}"] += 1
        return [row[column] for column in CALL_COLUMNS]

    def _visit(self, visits: list[list[int]], role: Role, leaves: Sequence[tuple[int, Leaf]]) -> None:
        for number, leaf in leaves:
            layout = [leaf["dtype"], list(leaf["shape"]), list(leaf["strides"]), leaf["device"], 0]
            known = self._definitions.define("layouts", repr(layout), layout)
            visits.append([self._calls, number, ROLES.index(role), self.tensors, known])
            self.tensors += 1

    def _stack(self, source: str) -> int:
        """``train.py:42 in step`` as a stack of one frame."""
        found = re.fullmatch(r"(.+):(\d+) in (.+)", source)
        if found is None:
            return NONE
        return self._definitions.define("stacks", source, [[[found[1], int(found[2]), found[3]]]])


class _Content:
    """The bytes of the tensors of one case, in the order of their numbers."""

    def __init__(self, file: Path, leaves: Sequence[Leaf], first: int) -> None:
        self._file = file
        self._leaves = leaves
        self._first = first

    def statistics(self) -> tuple[Any, Any]:
        rows = np.zeros(len(self._leaves), dtype=STATISTICS)
        arrays = [self._array(leaf) for leaf in self._leaves]
        descriptors = np.zeros(len(arrays), dtype=DESCRIPTOR)
        for position, (array, leaf) in enumerate(zip(arrays, self._leaves, strict=True)):
            descriptors[position] = cpu.describe(array, dtype_named(leaf["dtype"]))[0]
        cpu.reduce_batch(descriptors, rows, digest=True)
        return np.arange(self._first, self._first + len(rows), dtype=np.int64), rows

    def payloads(self) -> list[Payload]:
        return [
            Payload(self._first + place, leaf["dtype"], tuple(leaf["shape"]), self._reader(leaf))
            for place, leaf in enumerate(self._leaves)
        ]

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)

    def _reader(self, leaf: Leaf) -> Callable[[], memoryview]:
        return lambda: memoryview(self._array(leaf).view(np.uint8).data)

    def _array(self, leaf: Leaf) -> np.ndarray[Any, Any]:
        storage = np.dtype(dtype_named(leaf["dtype"]).storage)
        count = int(np.prod(leaf["shape"], dtype=np.int64))
        if not count:
            return np.empty(0, dtype=storage)
        return np.fromfile(self._file, dtype=storage, count=count, offset=leaf["offset"])


def _result_tree(numbers: Mapping[str, int]) -> Tree:
    """Paths of outputs (``out``, ``out.1``, ``args.0`` for an argument that was changed) as a result tree."""
    root: dict[str, Any] = {}
    for path, number in numbers.items():
        steps = path.split(".")
        if steps[0] != "out":
            root[path] = {"$t": number}
            continue
        place = root
        for step in steps[:-1]:
            place = place.setdefault(step, {})
        place[steps[-1]] = {"$t": number}
    if "out" in root:
        root["out"] = _listed(root["out"])
    return root


def _listed(tree: Any) -> Any:
    if "$t" in tree:
        return tree
    if all(key.isdigit() for key in tree):
        items: list[Any] = [None] * (max(int(key) for key in tree) + 1)
        for key, value in tree.items():
            items[int(key)] = _listed(value)
        return {"$tuple": items}
    return {key: _listed(value) for key, value in tree.items()}
