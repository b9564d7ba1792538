"""What a probe leaves behind, as a Run: written by the hook inside a user's script, read by the checks.

Each **section** is one call of the Run, with the inputs and outputs of one execution of the model: ``batch`` (one for
each batch that was given), ``again`` (the first of them once more, where ``order`` has not given the same bits),
``size 1`` and other sizes, ``order`` (its samples in reverse), ``gold`` (in float64, one for each batch) and
``parameters``, of which only statistics and digests are kept.
Beside the Run lies a JSON file of facts with the same name.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trueline._version import __version__
from trueline.dtypes import dtype_named
from trueline.errors import RunError
from trueline.frameworks.probing import Leaf
from trueline.numerics import cpu, widen
from trueline.numerics.layout import DESCRIPTOR, STATISTICS
from trueline.records import Certificate, Level, Phase, Role, RunInfo, TensorRecord
from trueline.store.columns import (
    CALL_COLUMNS,
    FORMAT_VERSION,
    LEVELS,
    NONE,
    PHASES,
    ROLES,
    VISIT_COLUMNS,
    Batch,
    Payload,
)
from trueline.store.reader import open_run
from trueline.store.writer import RankWriter, write_run_info

Doubles = np.ndarray[Any, np.dtype[np.float64]]

HISTORY_FILE = "history.jsonl"
CHECKPOINT_FILE = "checkpoints.jsonl"
TRAINING_FILE = "training.json"
CALLS_SUFFIX = "-calls"
"""Of the Run that holds every call of the model on the probe batch, where that was asked for."""
KERNELS_SUFFIX = "-kernels"
"""The same below the calls: what an exported model runs is seen there only."""


@dataclass(frozen=True, slots=True)
class Section:
    """One execution of the model; ``raised`` is what it raised instead of returning."""

    name: str
    inputs: Mapping[str, Leaf] = field(default_factory=dict)
    outputs: Mapping[str, Leaf] = field(default_factory=dict)
    raised: str = ""


class PointWriter:
    """Writes the sections of one point, in order."""

    def __init__(self, folder: Path, point: str, options: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._api = f"probe.{point}"
        self._writer = RankWriter(folder, 0)
        write_run_info(folder, _info(options))
        self._numbers: dict[tuple[str, str], int] = {}
        self._fresh: dict[str, list[list[Any]]] = {}
        self._calls = 0
        self._tensors = 0

    def add(self, section: Section, *, kept: bool = True) -> None:
        """One section; without ``kept`` of its inputs, which are parameters, no bytes are stored."""
        role = Role.INPUT if kept else Role.PARAMETER
        leaves = [(role, path, leaf) for path, leaf in section.inputs.items()]
        leaves += [(Role.OUTPUT, path, leaf) for path, leaf in section.outputs.items()]
        visits = []
        for position, (role, _, leaf) in enumerate(leaves):
            layout = [leaf.dtype, list(leaf.bits.shape), _strides(leaf.bits), leaf.device, 0]
            number = self._define("layouts", repr(layout), layout)
            visits.append([self._calls, position, ROLES.index(role), self._tensors + position, number])
        arguments = {path: {"$t": position} for position, path in enumerate(section.inputs)}
        result = {path: {"$t": len(arguments) + position} for position, path in enumerate(section.outputs)}
        call = self._call(section, self._tree(arguments), self._tree(result))
        content = _Content([leaf for _, _, leaf in leaves], self._tensors)
        definitions, self._fresh = self._fresh, {}
        self._writer.submit(
            Batch(
                definitions=definitions,
                calls=np.array([call], dtype=np.int64),
                visits=np.array(visits, dtype=np.int64).reshape(-1, len(VISIT_COLUMNS)),
                statistics=content.statistics,
                payloads=content.payloads() if kept else [],
            )
        )
        self._calls += 1
        self._tensors += len(leaves)

    def close(self) -> None:
        self._writer.drain()
        certificate = Certificate(
            calls={f"{Level.API.value} {Phase.FORWARD.value}": self._calls},
            tensors=self._tensors,
            visits=self._tensors,
            bytes_stored=self._writer.bytes_stored,
            complete=not self._writer.failed,
            stopped_because=self._writer.failed,
        )
        self._writer.close(asdict(certificate))

    def _call(self, section: Section, arguments: int, result: int) -> list[int]:
        name = self._define("names", self._api, [self._api])
        row = {
            "id": self._calls,
            "level": LEVELS.index(Level.API),
            "phase": PHASES.index(Phase.FORWARD),
            "api": name,
            "nth": self._calls,
            "step": 0,
            "module": self._define("modules", section.name, [section.name, ""]),
            "context": self._define("names", "", [""]),
            "thread": 0,
            "forward": NONE,
            "arguments": arguments,
            "result": result,
            "raised": self._define("names", section.raised, [section.raised]) if section.raised else NONE,
            "stack": NONE,
        }
        return [row[column] for column in CALL_COLUMNS]

    def _tree(self, tree: Any) -> int:
        return self._define("trees", repr(tree), [tree])

    def _define(self, table: str, key: str, row: list[Any]) -> int:
        number = self._numbers.get((table, key))
        if number is None:
            number = self._numbers[table, key] = sum(1 for known, _ in self._numbers if known == table)
            self._fresh.setdefault(table, []).append([number, *row])
        return number


class _Content:
    """The bits of the tensors of one section."""

    def __init__(self, leaves: list[Leaf], first: int) -> None:
        self._leaves = leaves
        self._first = first

    def statistics(self) -> tuple[Any, Any]:
        rows = np.zeros(len(self._leaves), dtype=STATISTICS)
        arrays = [np.ascontiguousarray(leaf.bits).reshape(-1) for leaf in self._leaves]
        descriptors = np.zeros(len(arrays), dtype=DESCRIPTOR)
        for position, (array, leaf) in enumerate(zip(arrays, self._leaves, strict=True)):
            descriptors[position] = cpu.describe(array, dtype_named(leaf.dtype))[0]
        cpu.reduce_batch(descriptors, rows, digest=True)
        return np.arange(self._first, self._first + len(rows), dtype=np.int64), rows

    def payloads(self) -> list[Payload]:
        return [
            Payload(self._first + place, leaf.dtype, leaf.bits.shape, lambda leaf=leaf: _raw(leaf))  # type: ignore[misc]
            for place, leaf in enumerate(self._leaves)
        ]


def _raw(leaf: Leaf) -> memoryview:
    return memoryview(np.ascontiguousarray(leaf.bits).reshape(-1).view(np.uint8).data)


def _strides(bits: np.ndarray[Any, Any]) -> list[int]:
    steps, size = [], 1
    for length in reversed(bits.shape):
        steps.append(size)
        size *= length
    return steps[::-1]


def _info(options: Mapping[str, Any]) -> RunInfo:
    return RunInfo(
        format_version=FORMAT_VERSION,
        tool_version=__version__,
        created=now(),
        framework=str(options.get("framework", "")),
        framework_version=str(options.get("framework_version", "")),
        python=platform.python_version(),
        host=platform.node(),
        devices=(),
        command=tuple(sys.orig_argv),
        git_commit="",
        seed=None,
        world_size=1,
        options={"data": "tensors", "level": "api", **options},
    )


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def write_json(path: Path, content: Any) -> None:
    """Writes a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")
    os.replace(draft, path)


def append_line(path: Path, content: Any) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(content, default=str) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; one that was not finished is left out."""
    found = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                content = json.loads(line)
            except ValueError:
                continue
            if isinstance(content, dict):
                found.append(content)
    return found


class Point:
    """One point, read back: facts, and sections on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.facts: dict[str, Any] = _read_facts(folder.with_name(f"{folder.name}.json"))

    @property
    def trouble(self) -> str:
        """Why there are no numbers here; empty where there are."""
        return str(self.facts.get("trouble") or "")

    @cached_property
    def sections(self) -> dict[str, list[Section]]:
        found: dict[str, list[Section]] = {}
        with open_run(self.folder) as run:
            reader = run.rank(run.ranks[0])
            for call in reader.trace():
                if call.module == "parameters":
                    continue
                inputs = {one.path: _leaf(reader, one) for one in call.inputs}
                outputs = {one.path: _leaf(reader, one) for one in call.outputs}
                found.setdefault(call.module, []).append(Section(call.module, inputs, outputs, call.raised))
        return found

    @cached_property
    def parameters(self) -> dict[str, TensorRecord]:
        """Parameters and buffers by name, with statistics and digests."""
        with open_run(self.folder) as run:
            reader = run.rank(run.ranks[0])
            for call in reader.trace():
                if call.module == "parameters":
                    return {one.path: one for one in call.tensors}
        return {}

    def first(self, name: str) -> Section | None:
        return next(iter(self.sections.get(name, ())), None)


def _leaf(reader: Any, record: TensorRecord) -> Leaf:
    return Leaf(np.array(reader.tensor(record)), record.dtype, record.device)


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return {"trouble": f"{path} cannot be read: {error}"}
    return content if isinstance(content, dict) else {"trouble": f"{path} holds no facts"}


def points_in(folder: Path) -> list[Point]:
    """The points that a stage left, in the order in which they were written."""
    if not folder.is_dir():
        return []
    names = [path.with_suffix("") for path in folder.glob("*.json") if path.name != TRAINING_FILE]
    points = [Point(path) for path in names if not path.name.startswith(".")]
    return sorted(points, key=lambda point: (str(point.facts.get("created", "")), point.name))


def joined(sections: Iterable[Section], *, outputs: bool) -> dict[str, Leaf]:
    """The leaves of several batches one after another, along their first axis. What does not fit together (of batches
    whose samples differ in shape) is left as that of the first."""
    tables = [section.outputs if outputs else section.inputs for section in sections if not section.raised]
    found: dict[str, Leaf] = {}
    for path in tables[0] if tables else ():
        leaves = [table[path] for table in tables if path in table]
        shapes = {leaf.bits.shape[1:] for leaf in leaves if leaf.bits.ndim}
        if len(leaves) > 1 and len(shapes) == 1 and all(leaf.bits.ndim for leaf in leaves):
            bits = np.concatenate([leaf.bits for leaf in leaves])
            found[path] = Leaf(bits, leaves[0].dtype, leaves[0].device)
        else:
            found[path] = leaves[0]
    return found


def doubles(leaf: Leaf) -> Doubles:
    """The numbers of a leaf, in float64 (the real parts after the imaginary ones of complex numbers)."""
    kind = dtype_named(leaf.dtype)
    if kind.is_float or kind.is_complex:
        wide = widen(np.ascontiguousarray(leaf.bits).reshape(-1), kind)
        if np.iscomplexobj(wide):
            pairs: Doubles = np.ascontiguousarray(wide).view(np.float64)
            return pairs.reshape(*leaf.bits.shape, 2)
        return np.asarray(wide, np.float64).reshape(leaf.bits.shape)
    return np.asarray(leaf.bits, np.float64)


def readable(point: Point) -> str:
    """Why the Run of a point cannot be read; empty where it can."""
    if point.trouble:
        return point.trouble
    try:
        return "" if point.sections else "it holds no section"
    except (RunError, OSError, ValueError) as error:
        return str(error)
