"""The trials of one config line, as a job for the product's worker processes.

A line that passes is executed once; its results are then spoiled by every value fault and judged again. Then it is
executed with every wrong implementation of its API in the place of the right one. The same is done by the rule, and on
the data, of the predecessor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.corpus_faults import (
    FAULTS,
    faithful,
    predecessor_accepts,
    predecessor_inputs,
    same_results,
    spoiled,
)
from benchmarks.corpus_wrong import overrides_for
from trueline.campaign.variants import another_draw
from trueline.cases import Case, Target
from trueline.frameworks.base import CannotExecute, Executed
from trueline.judge.checks import check_standard_named, judge_case
from trueline.ops.equivalence import rule_for
from trueline.records import Verdict
from trueline.replay.inputs import inputs_for
from trueline.replay.serial import case_from_json, target_from_json
from trueline.replay.translated import executors_for
from trueline.replay.worker import Executions, Options, execute_case, measure_executions

TRIALS = "benchmarks.corpus_trials:trying"
PROBES = 8
"""A wrong implementation that gives the same numbers in so many draws is no fault of that line."""
_FREE_SIGNS = frozenset("eigh eig svd qr lu lobpcg svd_lowrank pca_lowrank eigvals geqrf householder_product".split())
_QUIET = (Verdict.PASS, Verdict.WARN)
_FAILS = "FAIL without a fault"


def trying(setup: dict[str, Any], announce: Callable[[str], None]) -> Callable[[Any], Any]:
    target, reference = target_from_json(setup["target"]), target_from_json(setup["reference"])
    bench = _Bench(target, reference, int(setup["draws"]), announce)
    executors_for(Case("paddle.abs", {"args": [], "kwargs": {}}), target, reference)
    return lambda payload: bench.trials(case_from_json(payload))


@dataclass
class _Bench:
    target: Target
    reference: Target
    draws: int
    announce: Callable[[str], None]

    def __post_init__(self) -> None:
        self._standard = check_standard_named("calibrated")
        self._options = Options(predecessors=False)

    def trials(self, case: Case) -> dict[str, Any]:
        """``skipped`` says why a line is no trial; else what became of each fault by us and by the predecessor. Where
        gradients honestly differ, the forward alone is tried."""
        self.announce("candidate")
        found = self._trials(case)
        return self._trials(_forward(case)) if found["skipped"] == _FAILS and case.backward else found

    def _trials(self, case: Case) -> dict[str, Any]:
        try:
            executions = execute_case(case, self.target, self.reference, self._options)
        except CannotExecute as error:
            return {"skipped": f"cannot be executed: {error}"}
        verdict = self._verdict(case, executions)
        if verdict not in _QUIET:
            return {"skipped": f"{verdict.name} without a fault"}
        if not (executions.candidate.outputs or executions.candidate.gradients):
            return {"skipped": "gives nothing to spoil"}
        rule = rule_for(case.api)
        if rule is not None and rule.random:
            return {"skipped": "draws random numbers or hands out unwritten memory"}
        theirs = self._predecessor(case)
        return {"skipped": "", "values": self._values(case, executions, theirs), "wrong": self._wrong(case)}

    def _verdict(self, case: Case, executions: Executions) -> Verdict:
        return judge_case(case, measure_executions(case, executions, self._options), self._standard).verdict

    def _values(
        self, case: Case, executions: Executions, theirs: tuple[Executed, Executed] | None
    ) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for part in ("output", "gradient"):
            for name, fault in FAULTS.items():
                if name in ("negated", "rolled by one") and _is_free(case):
                    continue
                wrong = spoiled(executions.candidate, part, fault)
                if wrong is None:
                    ours = "same"
                elif self._verdict(case, replace(executions, candidate=wrong)) not in _QUIET:
                    ours = "found"
                else:
                    ours = "faithful" if faithful(wrong, executions.gold, part) else "missed"
                found[f"{part}: {name}"] = {"ours": ours, "theirs": _by_predecessor(theirs, part, fault)}
        return found

    def _predecessor(self, case: Case, target: Target | None = None) -> tuple[Executed, Executed] | None:
        """Candidate and honest by the predecessor's data; None where one of them gives nothing or it does not pass."""
        machine, judge = executors_for(case, target or self.target, self.reference)
        try:
            inputs = machine.rounded(case, predecessor_inputs(case))
            honest = judge.run(case, inputs, mode="honest")
            if honest.arrived:
                inputs = replace(inputs, gradients={**inputs.gradients, **honest.arrived})
            candidate = machine.run(case, inputs, mode="candidate")
        except CannotExecute:
            return None
        if not (honest.returned and candidate.returned):
            return None
        return (candidate, honest) if target is not None or predecessor_accepts(candidate, honest) else None

    def _wrong(self, case: Case) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        theirs = self._predecessor(case)
        for what, place in overrides_for(case.api).items():
            planted = replace(self.target, overrides={case.api: place})
            state = self._state(case, planted)
            if state != "wrong":
                found[what] = {"ours": state, "theirs": state}
                continue
            verdicts = [self._planted(another_draw(case, number), planted) for number in range(self.draws)]
            said = None if theirs is None else self._predecessor(case, planted)
            by_them = "none" if said is None else "missed" if predecessor_accepts(*said) else "found"
            found[what] = {"ours": "found" if verdicts[0] else "missed", "theirs": by_them,
                           "draws": "found" if any(verdicts) else "missed"}  # fmt: skip
        return found

    def _planted(self, case: Case, target: Target) -> bool:
        """Whether a wrong implementation is found in this draw."""
        try:
            return self._verdict(case, execute_case(case, target, self.reference, self._options)) not in _QUIET
        except CannotExecute:
            return False

    def _state(self, case: Case, planted: Target) -> str:
        """``wrong`` where the implementation gives other numbers in some draw, ``same`` where it never does,
        ``refused`` where it does not take these arguments."""
        for number in range(PROBES):
            drawn = another_draw(case, number)
            right, mistaken = (self._alone(drawn, target) for target in (self.target, planted))
            if right is None:
                continue
            if mistaken is None or not mistaken.returned:
                return "refused"
            if right.returned and not same_results(right, mistaken):
                return "wrong"
        return "same"

    def _alone(self, case: Case, target: Target) -> Executed | None:
        machine, judge = executors_for(case, target, self.reference)
        try:
            inputs = machine.rounded(case, inputs_for(case))
            honest = judge.run(case, inputs, mode="honest")
            inputs = replace(inputs, gradients={**inputs.gradients, **honest.arrived}) if honest.arrived else inputs
            return machine.run(case, inputs, mode="candidate")
        except CannotExecute:
            return None


def _forward(case: Case) -> Case:
    tensors = tuple(replace(spec, requires_grad=False) for spec in case.tensors)
    return replace(case, tensors=tensors, gradients=(), backward=False)


def _is_free(case: Case) -> bool:
    """Whether signs and order of the results are free."""
    rule = rule_for(case.api)
    return rule is not None and bool(_FREE_SIGNS & set(rule.operators))


def _by_predecessor(pair: tuple[Executed, Executed] | None, part: str, fault: Any) -> str:
    if pair is None:
        return "none"
    candidate, honest = pair
    wrong = spoiled(candidate, part, fault)
    if wrong is None:
        return "same"
    return "missed" if predecessor_accepts(wrong, honest) else "found"
