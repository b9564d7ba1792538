"""One Case, whole, in this process: executed by the candidate, honestly and in float64, and measured.

    executions = execute_case(case, target, reference)     tensors, for whoever wants to keep them
    measured = measure_executions(case, executions)        numbers
    measured = measure_case(case, target, reference)       both
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from trueline.cases import Case, CaseMeasured, Outcome, Status, Target
from trueline.dtypes import dtype_named
from trueline.frameworks.base import CannotExecute, Executed, Executor, Inputs, Mode
from trueline.numerics.sensitivity import PERTURBATIONS
from trueline.replay.comparing import evidence_of
from trueline.replay.golds import trusted
from trueline.replay.honest import worse_of
from trueline.replay.inputs import inputs_for, nudged, perturbed
from trueline.replay.translated import executors_for

_WIDE = ("float64", "complex128")


@dataclass(frozen=True, slots=True)
class Options:
    """How a Case is measured. ``announce`` is told each stage before it begins; ``predecessors`` asks for the numbers
    that the standards of the predecessors need."""

    perturbations: int = PERTURBATIONS
    predecessors: bool = True
    announce: Callable[[str], None] = field(default=lambda stage: None)


@dataclass(frozen=True, slots=True)
class Executions:
    """All that executing a Case gave. ``inputs`` are as everybody was given them, the gradients that arrived among
    them; ``wide`` says that the golds have more digits than float64, ``crossed`` that the reference is of another
    framework than the candidate. ``nudged`` executes honestly what was given neighbouring inputs; it is asked where
    the honest implementation itself is in doubt, and None where several ways vouch for each other or no input could be
    moved."""

    inputs: Inputs
    candidate: Executed
    honest: Executed
    gold: Executed
    perturbed: tuple[Executed, ...] = ()
    target: str = ""
    wide: bool = False
    crossed: bool = False
    nudged: Callable[[], tuple[Executed, ...]] | None = None


def measure_case(
    case: Case, target: Target, reference: Target | None = None, options: Options | None = None
) -> CaseMeasured:
    """Executes a Case and measures what it gave. A Case that cannot be executed is ``skipped`` with the reason."""
    options = options or Options()
    try:
        executions = execute_case(case, target, reference, options)
    except CannotExecute as error:
        return CaseMeasured(case.key, Outcome(Status.UNSUPPORTED, str(error)), skipped=str(error))
    return measure_executions(case, executions, options)


def execute_case(
    case: Case,
    target: Target,
    reference: Target | None = None,
    options: Options | None = None,
    inputs: Inputs | None = None,
) -> Executions:
    """Executes a Case by the candidate, honestly and for the gold, and for the golds of perturbed inputs. It is fed
    ``inputs`` where they are given, else what ``inputs_for`` makes of it."""
    options = options or Options()
    machine, judge = executors_for(case, target, reference)
    inputs = machine.rounded(case, inputs_for(case) if inputs is None else inputs)
    options.announce("honest")
    honest = judge.run(case, inputs, mode="honest")
    inputs = _with_arrived(inputs, honest)
    options.announce("candidate")
    candidate = machine.run(case, inputs, mode="candidate", watch=_changed(honest))
    if not honest.arrived:
        inputs = _with_arrived(inputs, candidate)
    if not candidate.returned:
        return Executions(inputs, candidate, honest, honest, target=target.device, crossed=judge is not machine)
    wide = _needs_wide(honest if honest.returned else candidate)
    options.announce("gold")
    gold = trusted(case, judge.run(case, inputs, mode="wide" if wide else "gold", watch=_changed(honest)))
    others: tuple[Executed, ...] = ()
    for way in judge.other_ways(case):
        honest = worse_of(honest, judge.run(case, inputs, mode=way, watch=_changed(honest)), gold)
    if gold.returned:
        working = honest.working or candidate.working
        others = _perturbed(case, inputs, judge, working, wide, _changed(honest), options.perturbations)
    doubtful = not judge.other_ways(case) and any(not dtype_named(a.dtype).is_exact for a in inputs.tensors.values())
    again = partial(_nudged, case, inputs, judge, _changed(honest)) if doubtful else None
    return Executions(inputs, candidate, honest, gold, others, target.device, wide, judge is not machine, again)


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
    evidence = tuple(evidence_of(case, executions, predecessors=options.predecessors))
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


def _perturbed(
    case: Case, inputs: Inputs, machine: Executor, working: str, wide: bool, watch: frozenset[str], rounds: int
) -> tuple[Executed, ...]:
    """Golds of inputs moved by one rounding. One that cannot be had (a moved input may leave the domain) is left
    out."""
    mode: Mode = "wide" if wide else "gold"
    moved = perturbed(inputs, working, case.seed, rounds, longdouble=wide)
    made = (trusted(case, machine.run(case, one, mode=mode, watch=watch)) for one in moved)
    return tuple(one for one in made if one.returned)
