"""A finished comparison made of plain records, for tests of the reports: no Run on disk, no comparing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, overload

import numpy as np

from trueline.dtypes import dtype_named
from trueline.records import (
    Call,
    CallComparison,
    Certificate,
    Frame,
    Level,
    Measurement,
    ObservableComparison,
    Origin,
    Phase,
    Role,
    RunInfo,
    Statistics,
    TensorComparison,
    TensorRecord,
    Verdict,
)

APIS = (
    "torch.nn.functional.linear", "torch.nn.functional.gelu", "torch.nn.functional.layer_norm", "torch.matmul",
    "torch.Tensor.softmax", "torch.Tensor.__add__", "torch.nn.functional.dropout", "torch.Tensor.transpose",
)  # fmt: skip

SHAPE = (8, 16, 32)
WRONG = (3, slice(4, 8), slice(10, 20))
"""Where in the output of the fault the error is."""

INFO = RunInfo(
    format_version=1, tool_version="0.1.0", created="2026-01-01T10:00:00", framework="torch",
    framework_version="2.13.0", python="3.11.7", host="box", devices=("cuda:0 H200",),
    command=("python", "train.py", "--lr", "1e-3"),
    git_commit="0a1b2c3", seed=1234, world_size=1, options={"level": "api", "data": "tensors"},
)  # fmt: skip


def _reader(number: int) -> Any:
    return SimpleNamespace(certificate=Certificate())



def run(name: str, ranks: tuple[int, ...] = (0,)) -> Any:
    info = replace(INFO, world_size=len(ranks))
    return SimpleNamespace(path=Path("runs") / name, info=info, ranks=ranks, rank=_reader)


def statistics(shift: float = 0.0) -> Statistics:
    return Statistics(4096, -2.94 + shift, 3.11 + shift, 0.01, 64.2, 0, 0, 0, 12, -20, 1)


def measurement(distance: float, **changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "count": 4096, "equal": 31, "cosine": 1.0 - distance, "max_abs": distance * 4, "mean_abs": distance / 2,
        "max_rel": distance * 9, "mean_rel": distance, "rmse": distance, "normalized": distance, "bias": 0.0,
        "max_ulp": 40.0, "mean_ulp": 3.0, "within": (0.1, 0.6, 0.9, 1.0), "nan_mismatch": 0, "infinity_mismatch": 0,
        "worst": 77, "worst_reference": 1.5, "worst_candidate": 1.6, "reference_norm": 64.2, "candidate_norm": 64.3,
        "reference_max": 3.1,
    }  # fmt: skip
    return Measurement(**(values | changes))


def tensor(role: Role, path: str, distance: float | None, limit: float | None, verdict: Verdict) -> TensorComparison:
    record = TensorRecord(role, path, 1, "float32", SHAPE, (512, 32, 1), "cpu", statistics=statistics(), stored=True)
    other = replace(record, statistics=statistics(distance or 0.0))
    return TensorComparison(
        role, path, record, other, verdict, "within the limit" if verdict is Verdict.PASS else "beyond the limit",
        distance, False, limit, None if distance is None else measurement(distance),
    )  # fmt: skip


def observables(wrong: bool) -> list[ObservableComparison]:
    """Two steps of a loss and the gradients of two parameters, and a parameter that the programs begin with."""
    found = []
    for step in range(2):
        for kind, name, distance in (
            ("loss", "loss", 2e-3), ("gradient", "layers.0.weight", 3e-2), ("gradient", "layers.1.weight", 1e-2),
            ("parameter", "layers.0.weight", 0.0),
        ):  # fmt: skip
            record = TensorRecord(Role.OUTPUT, name, 1, "float32", (4,), (1,), "cpu", statistics=statistics())
            fails = wrong and step == 1 and distance > 0
            found.append(
                ObservableComparison(
                    kind, name, step, 0, record, record, Verdict.FAIL if fails else Verdict.PASS,
                    "follows from the origin" if fails else "within a few roundings",
                    distance if fails else distance * 1e-5,
                )
            )  # fmt: skip
    return found


class Calls(Sequence[CallComparison]):
    """Pairs of calls made on demand from a row of numbers."""

    def __init__(self, owner: FakeComparison) -> None:
        self._owner = owner

    def __len__(self) -> int:
        return self._owner.size

    @overload
    def __getitem__(self, key: int) -> CallComparison: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[CallComparison]: ...
    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return [self[position] for position in range(*key.indices(len(self)))]
        if not 0 <= key < len(self):
            raise IndexError(key)
        return self._owner.pair(key)


class FakeComparison:
    """A model of some layers, trained for some steps, with a fault at ``fault`` (None: a clean comparison). With
    ``renamed`` the reference has its modules inside another one, a layer that the candidate lacks, and lacks one."""

    def __init__(
        self,
        size: int = 400,
        fault: int | None = 150,
        *,
        api: str = "",
        module: str = "",
        mode: str = "tensors",
        ranks: int = 1,
        renamed: bool = False,
    ) -> None:
        self.size, self.fault, self.mode = size, fault, mode
        self.ranks, self.renamed = ranks, renamed
        self.api, self.module = api, module
        self.standard = "honest"
        self.reference, self.candidate = (run(name, tuple(range(ranks))) for name in ("good", "bad"))
        self.baseline: Any = None
        self.notes = ["torch 2.12.0 and 2.13.0 are compared"]
        self.unmatched: Any = {"extra": 1, "missing": 0, "ranks": {0: {"extra": 1, "missing": 0}}}
        self.missing_ranks: Any = {"reference": (), "candidate": ()}
        self.observables: Any = observables(fault is not None)
        self.too_little: Any = []
        self._columns = self._make_columns()
        self.calls = Calls(self)

    def series(self) -> dict[str, np.ndarray[Any, Any]]:
        return self._columns

    @property
    def counts(self) -> dict[str, int]:
        return {v.name: int((self._columns["verdict"] == v).sum()) for v in Verdict}

    @property
    def verdict(self) -> Verdict:
        return Verdict.PASS if self.fault is None else Verdict.FAIL

    @property
    def origin(self) -> Origin | None:
        if self.fault is None:
            return None
        text = "inputs agree (1.2e-07), output differs by 1.3e-04, 150 times what float32 arithmetic explains"
        return Origin(
            self.pair(self.fault),
            text,
            self.mode == "tensors" or None,
            {"candidate_error": 1.3e-4, "reference_error": 4.1e-8},
        )

    @property
    def first_divergence(self) -> Call | None:
        return None if self.fault is None else self.pair(self.fault).candidate

    def elements(self, position: int, place: int) -> Any:
        """The output of the fault is wrong in one tile, all others by a rounding."""
        reference = np.random.default_rng(place).normal(size=SHAPE)
        candidate = reference + 1e-8
        if position == self.fault and place == 1:
            candidate[WRONG] += 0.01
            candidate[3, 5, 12] += 0.5
        return reference, candidate, dtype_named("float32")

    def gold(self, position: int, place: int) -> Any:
        return self.elements(position, place)[0] + 1e-9 if place == 1 else "it was given to the call"

    def close(self) -> None:
        """Nothing is open."""

    def pair(self, position: int) -> CallComparison:
        columns = self._columns
        phase = Phase.BACKWARD if columns["phase"][position] == "backward" else Phase.FORWARD
        call = Call(
            id=position, api=str(columns["api"][position]), index=int(columns["index"][position]),
            step=int(columns["step"][position]), rank=int(columns["rank"][position]), phase=phase, level=Level.API,
            module=str(columns["module"][position]), module_class="EncoderLayer",
            arguments={"args": [{"$t": 0}], "kwargs": {"approximate": "tanh"}}, result={"out": {"$t": 1}},
            stack=(Frame("model.py", 41, "forward"), Frame("train.py", 12, "main")),
        )  # fmt: skip
        inside, outside = float(columns["input_distance"][position]), float(columns["output_distance"][position])
        verdict = Verdict(int(columns["verdict"][position]))
        limit = float(columns["limit"][position])
        taken, given = ("out", "args.0") if phase is Phase.BACKWARD else ("args.0", "out")
        pairs = (
            tensor(Role.INPUT, taken, inside, None, Verdict.PASS),
            tensor(Role.OUTPUT, given, None if math.isnan(outside) else outside, limit, verdict),
        )
        call = replace(call, tensors=tuple(pair.candidate for pair in pairs if pair.candidate is not None))
        alone = int(columns["alone"][position])
        sides = (None if alone == 1 else replace(call, module=str(columns["reference_module"][position])), call)
        if alone == 2:
            sides = (call, None)
        reason = "its output is wrong although its inputs agree" if verdict is Verdict.FAIL else "agrees"
        inherited = bool(columns["inherited"][position])
        return CallComparison(*sides, verdict, reason, () if alone else pairs, inside, outside, limit, inherited)

    def _make_columns(self) -> dict[str, np.ndarray[Any, Any]]:
        random = np.random.default_rng(0)
        size, fault = self.size, self.fault
        position = np.arange(size)
        each = max(-(-size // self.ranks), 1)
        rank, place = position // each, position % each
        step = place * 4 // each
        phase = np.where((place * 8 // each) % 2 == 1, "backward", "forward")
        api = np.array(APIS)[position % len(APIS)].astype(object)
        part = ("attention", "mlp")
        module = np.array([f"encoder.layers.{p // 8 % 12}.{part[p // 4 % 2]}" for p in position], object)
        limit = 10 ** random.normal(-5.9, 0.15, size)
        output = limit * 10 ** random.normal(-1.2, 0.35, size)
        inside = output * 0.6
        output[position % 8 == 7] = 0.0
        verdict = np.zeros(size, np.int64)
        verdict[position % 97 == 96] = Verdict.NOT_COMPARED
        output[verdict == Verdict.NOT_COMPARED] = np.nan
        inherited = np.zeros(size, bool)
        if fault is not None:
            later = (position > fault) & (verdict == Verdict.PASS)
            grown = 10 ** random.normal(-3.6, 0.4, size)
            output[later], inside[later], inherited[later] = grown[later], grown[later] * 0.8, True
            output[fault], inside[fault], limit[fault], verdict[fault] = 1.3e-4, 1.2e-7, 8.7e-7, Verdict.FAIL
            inherited[fault] = False
            api[fault] = self.api or "torch.nn.functional.gelu"
            module[fault] = self.module or "encoder.layers.2.mlp"
        alone = np.zeros(size, np.int64)
        if self.renamed:
            alone[position % 50 == 13], alone[position % 50 == 31] = 1, 2
            verdict[alone > 0], output[alone > 0] = Verdict.NOT_COMPARED, np.nan
            inherited[alone > 0] = False
            module[alone == 1] = "encoder.layers.3.adapter"
        before = np.array([f"wrapped.{name}" if self.renamed else name for name in module], object)
        before[alone == 1], before[alone == 2] = "", "wrapped.encoder.layers.5.dropout"
        module[alone == 2] = before[alone == 2]
        return {
            "position": position, "step": step, "rank": rank, "phase": phase, "alone": alone,
            "reference_module": before,
            "index": position // 8, "output_distance": output, "input_distance": inside, "limit": limit,
            "verdict": verdict, "api": api,
            "module": module, "inherited": inherited,
        }  # fmt: skip
