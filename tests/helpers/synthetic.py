"""Writes Runs from plain numpy arrays, without any framework.

    x, w = array(8, 4), array(4, 4)
    y = x @ w
    write_run(path, [Spec("torch.matmul", [x, w], [y], module="layer")], data="tensors")

The same array object in two places is the same tensor, as in a captured program. ``Bits`` holds types that numpy does
not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.numerics import cpu
from trueline.numerics.layout import DESCRIPTOR, STATISTICS
from trueline.records import Data, Level, Phase, Role, RunInfo
from trueline.store import Batch, Payload, RankWriter, write_run_info
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES, ROLES, VISIT_COLUMNS


@dataclass(eq=False)
class Bits:
    """An array of raw bits of a dtype that numpy does not know."""

    bits: np.ndarray[Any, Any]
    dtype: str


Value = Any
"""An array, Bits, or a plain JSON value."""


@dataclass(eq=False)
class Spec:
    """One call. ``inputs`` are positional arguments; ``mutated`` maps paths (``args.0``) to new contents. Of a
    backward call, ``forward`` is its forward Spec, ``inputs`` the gradients that arrive, ``outputs`` those that leave
    for its positional arguments (None for those without)."""

    api: str
    inputs: Sequence[Value] = ()
    outputs: Sequence[Value] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    mutated: Mapping[str, Value] = field(default_factory=dict)
    module: str = ""
    phase: Phase = Phase.FORWARD
    level: Level = Level.API
    context: str = ""
    step: int = 0
    forward: Spec | None = None
    source: tuple[str, int, str] | None = None


def array(*shape: int, seed: int = 0, scale: float = 1.0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def bfloat16(values: np.ndarray[Any, Any]) -> Bits:
    """Rounded to nearest even."""
    raw = values.astype(np.float32).view(np.uint32)
    return Bits(((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16), "bfloat16")


def write_run(
    path: Path,
    calls: Sequence[Spec] | Mapping[int, Sequence[Spec]],
    *,
    data: str = "tensors",
    seed: int | None = None,
    **head: Any,
) -> Path:
    """Writes a whole Run; ``calls`` by rank, or those of rank 0."""
    ranks = calls if isinstance(calls, Mapping) else {0: calls}
    path.mkdir(parents=True)
    for rank, specs in ranks.items():
        writer = RankWriter(path, rank)
        writer.submit(_Recorder(Data(data)).batch(specs))
        writer.close({"complete": True})
    known: dict[str, Any] = {
        "format_version": 1,
        "tool_version": "0",
        "created": "2026-01-01T00:00:00Z",
        "framework": "none",
        "framework_version": "0",
        "python": "3",
        "host": "test",
        "devices": (),
        "command": (),
        "git_commit": "",
        "seed": seed,
        "world_size": len(ranks),
        "options": {"data": data, "level": "api"},
    }
    write_run_info(path, RunInfo(**{**known, **head}))
    return path


class _Recorder:
    """Numbers everything and fills the columns."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._definitions: dict[str, list[list[Any]]] = {}
        self._numbers: dict[tuple[str, Any], int] = {}
        self._tensors: dict[int, int] = {}
        self._kept: list[Value] = []
        self._visits: list[list[int]] = []

    def batch(self, specs: Sequence[Spec]) -> Batch:
        calls: list[list[int]] = []
        identities = {id(spec): number for number, spec in enumerate(specs)}
        counts: Counter[tuple[int, str, Phase]] = Counter()
        for number, spec in enumerate(specs):
            arguments, result = self._trees(number, spec)
            row = {
                "id": number,
                "level": LEVELS.index(spec.level),
                "phase": PHASES.index(spec.phase),
                "api": self._name(spec.api),
                "nth": counts[spec.step, spec.api, spec.phase],
                "step": spec.step,
                "module": self._define("modules", spec.module, [spec.module, ""]),
                "context": self._name(spec.context),
                "thread": 0,
                "forward": NONE if spec.forward is None else identities[id(spec.forward)],
                "arguments": arguments,
                "result": result,
                "raised": NONE,
                "stack": NONE if spec.source is None else self._define("stacks", spec.source, [[list(spec.source)]]),
            }
            counts[spec.step, spec.api, spec.phase] += 1
            calls.append([row[name] for name in CALL_COLUMNS])
        return Batch(
            definitions=self._definitions,
            calls=np.array(calls, dtype=np.int64).reshape(-1, len(CALL_COLUMNS)),
            visits=np.array(self._visits, dtype=np.int64).reshape(-1, len(VISIT_COLUMNS)),
            statistics=None if self._data is Data.STRUCTURE else self._statistics,
            payloads=self._payloads() if self._data is Data.TENSORS else [],
        )

    def _trees(self, call: int, spec: Spec) -> tuple[int, int]:
        leaves = [0]

        def plant(value: Value, role: Role) -> Any:
            if isinstance(value, np.ndarray | Bits):
                self._visits.append([call, leaves[0], ROLES.index(role), self._tensor(value), self._layout(value)])
                leaves[0] += 1
                return {"$t": leaves[0] - 1}
            if isinstance(value, list):
                return [plant(item, role) for item in value]
            return value

        if spec.phase is Phase.BACKWARD and spec.forward is not None:
            arriving = {"out" if not n else f"out.{n}": plant(value, Role.INPUT) for n, value in enumerate(spec.inputs)}
            leaving = {
                f"args.{n}": plant(value, Role.OUTPUT) for n, value in enumerate(spec.outputs) if value is not None
            }
            return self._tree(arriving), self._tree(leaving)
        arguments = {
            "args": [plant(value, Role.INPUT) for value in spec.inputs],
            "kwargs": {name: plant(value, Role.INPUT) for name, value in spec.kwargs.items()},
        }
        planted = [plant(value, Role.OUTPUT) for value in spec.outputs]
        result = {"out": planted[0] if len(planted) == 1 else {"$tuple": planted} if planted else None}
        result.update({path: plant(value, Role.OUTPUT) for path, value in spec.mutated.items()})
        return self._tree(arguments), self._tree(result)

    def _name(self, text: str) -> int:
        return self._define("names", text, [text])

    def _tree(self, tree: Any) -> int:
        return self._define("trees", repr(tree), [tree])

    def _layout(self, value: Value) -> int:
        bits, dtype = _bits(value)
        strides = [step // bits.itemsize for step in bits.strides]
        row = [dtype, list(bits.shape), strides, "cpu", 0]
        return self._define("layouts", repr(row), row)

    def _define(self, table: str, key: Any, row: list[Any]) -> int:
        number = self._numbers.get((table, key))
        if number is None:
            number = self._numbers[table, key] = len(self._definitions.setdefault(table, []))
            self._definitions[table].append([number, *row])
        return number

    def _tensor(self, value: Value) -> int:
        if id(value) not in self._tensors:
            self._tensors[id(value)] = len(self._kept)
            self._kept.append(value)
        return self._tensors[id(value)]

    def _statistics(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        rows = np.zeros(len(self._kept), dtype=STATISTICS)
        arrays = [np.ascontiguousarray(_bits(value)[0]) for value in self._kept]
        descriptors = np.zeros(len(arrays), dtype=DESCRIPTOR)
        for position, (bits, value) in enumerate(zip(arrays, self._kept, strict=True)):
            descriptors[position] = cpu.describe(bits.reshape(-1), dtype_named(_bits(value)[1]))[0]
        cpu.reduce_batch(descriptors, rows, digest=self._data in (Data.DIGEST, Data.TENSORS))
        return np.arange(len(rows), dtype=np.int64), rows

    def _payloads(self) -> list[Payload]:
        return [
            Payload(number, _bits(value)[1], _bits(value)[0].shape, _reader(_bits(value)[0]))
            for number, value in enumerate(self._kept)
        ]


def _bits(value: Value) -> tuple[np.ndarray[Any, Any], str]:
    if isinstance(value, Bits):
        return value.bits, value.dtype
    return value, value.dtype.name


def _reader(bits: np.ndarray[Any, Any]) -> Any:
    return lambda: memoryview(np.ascontiguousarray(bits).reshape(-1).view(np.uint8))
