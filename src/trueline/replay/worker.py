"""One Case, whole, in this process: executed by the candidate, honestly and in float64, and measured. What is dear,
golds of moved inputs above all, is computed only where the cheap evidence leaves a doubt.

    executions = execute_case(case, target, reference)     tensors, for whoever wants to keep them
    measured = measure_executions(case, executions)        numbers
    measured = measure_case(case, target, reference)       both
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np

from trueline.cases import Case, CaseMeasured, Evidence, Outcome, Status, Target, TensorSpec
from trueline.dtypes import dtype_named
from trueline.frameworks.base import CannotExecute, Executed, Executor, Inputs, Mode
from trueline.numerics.cpu import same_bits
from trueline.numerics.sensitivity import PERTURBATIONS
from trueline.replay.again import state_evidence
from trueline.replay.comparing import evidence_of
from trueline.replay.golds import is_known, trusted
from trueline.replay.honest import worse_of
from trueline.replay.independent import independent_gold, is_asked, shares_kernels
from trueline.replay.inputs import inputs_for, nudged, perturbed
from trueline.replay.translated import executors_for
from trueline.tree import Tree

_WIDE = ("float64", "complex128")
MANY_ELEMENTS = 1 << 20
"""Of every gradient that arrives, and so of every result."""
Gradients = frozenset[str] | None
"""Paths of the inputs whose gradients are wanted."""
ALL: Gradients = None


@dataclass(frozen=True, slots=True)
class Options:
    """How a Case is measured. ``announce`` is told each stage before it begins; ``predecessors`` asks for the numbers
    that the standards of the predecessors need; ``thorough`` for all golds, also where a result is right beyond doubt
    without them."""

    perturbations: int = PERTURBATIONS
    predecessors: bool = True
    thorough: bool = False
    announce: Callable[[str], None] = field(default=lambda stage: None)


@dataclass(frozen=True, slots=True)
class Executions:
    """All that executing a Case gave. ``inputs`` are as everybody was given them, the gradients that arrived among
    them; ``gold`` is ``honest`` itself where nothing was rounded; ``wide`` says that the golds have more digits than
    float64, ``crossed`` that the reference is of another framework than the candidate. ``moved`` makes golds of inputs
    moved by one rounding, with the gradients of the inputs that it is given (``ALL``: of all); it is asked where the
    candidate is not right beyond doubt without them, and None where there is no gold. ``nudged`` executes honestly what
    was given neighbouring inputs; it is asked where the honest implementation itself is in doubt, and None where
    several ways vouch for each other or no input could be moved. ``again`` calls the candidate again and says what it
    kept. ``apart`` says that the honest implementation shares its kernels with the candidate, and the gold does
    not."""

    inputs: Inputs
    candidate: Executed
    honest: Executed
    gold: Executed
    target: str = ""
    wide: bool = False
    crossed: bool = False
    moved: Callable[[Gradients], tuple[Executed, ...]] | None = None
    nudged: Callable[[], tuple[Executed, ...]] | None = None
    again: Callable[[], Iterable[Evidence]] = tuple
    apart: bool = False

    def perturbed(self, gradients: Gradients = ALL) -> tuple[Executed, ...]:
        """The golds of moved inputs, made where nobody has asked for them before."""
        return () if self.moved is None else self.moved(gradients)


def measure_case(
    case: Case, target: Target, reference: Target | None = None, options: Options | None = None
) -> CaseMeasured:
    """Executes a Case and measures what it gave. A Case that cannot be executed is ``skipped`` with the reason."""
    options = options or Options()
    try:
        executions = execute_case(case, target, reference, options)
    except CannotExecute as error:
        alone = _alone(case, target, reference, options) or Outcome(Status.UNSUPPORTED, str(error))
        returned = alone.status is Status.RETURNED or alone.reason == str(error)
        return CaseMeasured(case.key, alone, skipped=str(error) if returned else "")
    return measure_executions(case, executions, options)


def _alone(case: Case, target: Target, reference: Target | None, options: Options) -> Outcome | None:
    """How the candidate ends where a reference of another framework cannot execute the Case: that it crashes, or has
    no kernel, is worth knowing all the same. None where the candidate cannot execute it either."""
    try:
        machine, judge = executors_for(case, target, reference)
        if machine is judge:
            return None
        inputs = machine.rounded(case, inputs_for(case))
        options.announce("candidate")
        return machine.run(case, inputs, mode="candidate").outcome
    except CannotExecute:
        return None


def warm_up(target: Target, reference: Target | None = None, options: Options | None = None) -> None:
    """Executes a few tiny Cases, so that what is imported and looked up on first use is there before it counts."""
    options = replace(options or Options(), thorough=True)
    pair: Tree = {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}
    for dtype in ("float32", "float64"):
        given = tuple(TensorSpec(f"args.{place}", dtype, (2, 2), requires_grad=True) for place in range(2))
        for name in ("add", "matmul"):
            measure_case(Case(f"{target.framework}.{name}", pair, given, backward=True), target, reference, options)
        single: Tree = {"args": [{"$t": 0}], "kwargs": {}}
        zeroed = Case(f"{target.framework}.Tensor.zero_", single, given[:1], backward=True)
        measure_case(zeroed, target, reference, options)


def execute_case(
    case: Case,
    target: Target,
    reference: Target | None = None,
    options: Options | None = None,
    inputs: Inputs | None = None,
) -> Executions:
    """Executes a Case by the candidate, honestly and, where that is not known already, for the gold. It is fed
    ``inputs`` where they are given, else what ``inputs_for`` makes of it."""
    options = options or Options()
    machine, judge = executors_for(case, target, reference)
    crossed = judge is not machine
    inputs = machine.rounded(case, inputs_for(case) if inputs is None else inputs)
    ways = judge.other_ways(case)  # what cannot be executed there says so before anything else is
    candidate, honest = _both(case, inputs, machine, judge, options)
    inputs = _with_arrived(inputs, honest if honest.arrived else candidate)
    if not candidate.returned:
        return Executions(inputs, candidate, honest, honest, target=target.device, crossed=crossed)
    twice = not shares_kernels(case, target, reference)  # two implementations that agree, not one with itself
    kept: Callable[[], Iterable[Evidence]] = partial(state_evidence, case, target, machine, inputs, honest)
    if crossed:
        kept = tuple
    if not options.thorough and twice and is_known(case, inputs, candidate, honest):
        return Executions(inputs, candidate, honest, honest, target.device, crossed=crossed, again=kept)
    wide, apart = _needs_wide(honest if honest.returned else candidate), is_asked(case, target, reference)
    options.announce("gold")
    own = independent_gold(case, inputs, judge, honest, _changed(honest)) if apart and not wide else None
    mode: Mode = "wide" if wide else "gold" if own is None else "apart"
    gold = trusted(case, own or judge.run(case, inputs, mode=mode, watch=_changed(honest)))
    for way in ways:
        honest = worse_of(honest, judge.run(case, inputs, mode=way, watch=_changed(honest)), gold)
    moved: Callable[[Gradients], tuple[Executed, ...]] | None = None
    if gold.returned:
        working = honest.working or candidate.working
        moved = cache(_Moved(case, inputs, judge, working, mode, _changed(honest), options).golds)
    doubtful = not ways and any(not dtype_named(a.dtype).is_exact for a in inputs.tensors.values())
    again = partial(_nudged, case, inputs, judge, _changed(honest)) if doubtful else None
    found = Executions(inputs, candidate, honest, gold, target.device, wide, crossed, moved, again, kept)
    return replace(found, apart=mode == "apart")


def _both(
    case: Case, inputs: Inputs, machine: Executor, judge: Executor, options: Options
) -> tuple[Executed, Executed]:
    """The Case executed by the candidate and honestly. Of a candidate that does not return nothing is compared: then
    it is only asked whether the call is one that the reference can make."""
    options.announce("candidate")
    candidate = machine.run(case, inputs, mode="candidate")
    options.announce("honest")
    if not candidate.returned:
        return candidate, judge.run(case, replace(inputs, gradients={}, draw=None), mode="honest")
    honest = judge.run(case, inputs, mode="honest")
    changed = _changed(honest)
    if not changed <= candidate.outputs.keys() | _changed(candidate) or not _same_arrived(candidate, honest):
        # It is asked for what it did to the arguments that should have changed, and fed what the other was fed.
        options.announce("candidate")
        candidate = machine.run(case, _with_arrived(inputs, honest), mode="candidate", watch=changed)
    return candidate, honest


def _same_arrived(candidate: Executed, honest: Executed) -> bool:
    ours, theirs = candidate.arrived, honest.arrived
    if not theirs:
        return True
    return ours.keys() == theirs.keys() and all(
        ours[path].dtype == array.dtype and same_bits(ours[path].bits, array.bits) for path, array in theirs.items()
    )


def measure_executions(case: Case, executions: Executions, options: Options | None = None) -> CaseMeasured:
    """What was measured of an executed Case."""
    options = options or Options()
    candidate, honest, gold = executions.candidate, executions.honest, executions.gold
    reference = honest.outcome if honest.returned or not gold.returned else gold.outcome
    if not candidate.returned:
        return CaseMeasured(case.key, candidate.outcome, reference)
    options.announce("measure")
    outcome = candidate.outcome
    if _failed(candidate.backward) and not _failed(honest.backward) and candidate.backward is not None:
        outcome = candidate.backward
    elif candidate.backward is not None:
        outcome = replace(outcome, seconds=outcome.seconds + candidate.backward.seconds,
                          peak_bytes=max(outcome.peak_bytes, candidate.backward.peak_bytes))  # fmt: skip
    with np.errstate(all="ignore"):  # what is not finite is measured as well
        evidence = tuple(evidence_of(case, executions, predecessors=options.predecessors, thorough=options.thorough))
        evidence += tuple(executions.again())
    return CaseMeasured(case.key, outcome, reference, evidence)


def _with_arrived(inputs: Inputs, executed: Executed) -> Inputs:
    """Everybody is fed the gradients that the honest run was fed, rounded as they were for it."""
    return replace(inputs, gradients={**inputs.gradients, **executed.arrived}) if executed.arrived else inputs


def _changed(honest: Executed) -> frozenset[str]:
    return frozenset(array.alias for array in honest.outputs.values() if array.alias)


def _failed(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.status is not Status.RETURNED


def _needs_wide(executed: Executed) -> bool:
    """Whether float64 itself is to be judged: plain numbers are as they are, and need no judge."""
    tensors = (*executed.outputs.values(), *executed.gradients.values())
    return any(array.dtype in _WIDE and array.device for array in tensors)


def _nudged(case: Case, inputs: Inputs, machine: Executor, watch: frozenset[str]) -> tuple[Executed, ...]:
    """Honest executions of neighbouring inputs, those that returned."""
    made = (machine.run(case, one, mode="honest", watch=watch) for one in nudged(inputs, case.seed))
    return tuple(one for one in made if one.returned)


@dataclass(frozen=True, slots=True)
class _Moved:
    """What it takes to make golds of inputs moved by one rounding."""

    case: Case
    inputs: Inputs
    machine: Executor
    working: str
    mode: Mode
    watch: frozenset[str]
    options: Options

    def golds(self, gradients: Gradients) -> tuple[Executed, ...]:
        """One that cannot be had (a moved input may leave the domain) is left out."""
        self.options.announce("gold")
        case, wide = _with_gradients(self.case, gradients), self.mode == "wide"
        moved = perturbed(self.inputs, self.working, case.seed, self._rounds(), longdouble=wide)
        made = (trusted(case, self.machine.run(case, one, mode=self.mode, watch=self.watch)) for one in moved)
        golds = tuple(one for one in made if one.returned)
        self.options.announce("measure")
        return golds

    def _rounds(self) -> int:
        """Of millions of elements one move tells as much as three of a few, at a third of the time and memory."""
        arrived = [array.bits.size for array in self.inputs.gradients.values()]
        many = min(arrived) > MANY_ELEMENTS if arrived else False
        return min(self.options.perturbations, 1) if many else self.options.perturbations


def _with_gradients(case: Case, wanted: Gradients) -> Case:
    """The Case, asked for the gradients of some of its inputs alone: most often the dearest part is not in doubt."""
    if wanted is None or not case.backward:
        return case
    given = [replace(spec, requires_grad=spec.requires_grad and spec.path in wanted) for spec in case.tensors]
    return replace(case, tensors=tuple(given), backward=any(spec.requires_grad for spec in given))
