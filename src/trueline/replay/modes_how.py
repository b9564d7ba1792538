"""One Case whose candidate is not executed eagerly: as a graph, or under autocast.

    measure = measurer_for(target)
    measured = measure(case, target, reference, options)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trueline.cases import Case, CaseMeasured, Outcome, Status, Target
from trueline.frameworks.base import CannotExecute, Executed, Inputs
from trueline.frameworks.rounding import widened
from trueline.replay.inputs import inputs_for
from trueline.replay.translated import executors_for
from trueline.replay.worker import Executions, Options, execute_case, measure_case, measure_executions

Measure = Callable[[Case, Target, Target | None, Options | None], CaseMeasured]


def measurer_for(target: Target) -> Measure:
    """What measures Cases on a Target."""
    if target.autocast:
        return measure_under_autocast
    return measure_graph if target.how else measure_case


def measure_graph(
    case: Case, target: Target, reference: Target | None = None, options: Options | None = None
) -> CaseMeasured:
    """A Case executed as a graph, held against eager execution. Where the framework has nothing wider than what is to
    be judged (float64 of Paddle), eager results stand for the gold, and those of neighbouring inputs say how far honest
    results may lie apart."""
    options = options or Options()
    try:
        executions = execute_case(case, target, reference, options)
        if _lacks_gold(executions):
            gold, nudged = widened(executions.honest), executions.nudged
            moved = None if nudged is None else (lambda _: nudged())
            executions = replace(executions, gold=gold, moved=moved, wide=False)
        # What eager execution gets wrong is not the fault of the graph: it is trusted as it is.
        return measure_executions(case, replace(executions, nudged=None), options)
    except CannotExecute as error:
        return _skipped(case, error)


def _lacks_gold(executions: Executions) -> bool:
    missing = executions.gold.outcome.status is Status.UNSUPPORTED
    return executions.candidate.returned and executions.honest.returned and missing


def measure_under_autocast(
    case: Case, target: Target, reference: Target | None = None, options: Options | None = None
) -> CaseMeasured:
    """A Case under autocast on both sides.

    What goes in is rounded to the dtype of autocast first, so that lowering a call rounds nothing on its way in, and
    the gold sees the same numbers. Frameworks have different lists of what they lower: where the reference does not
    lower what the target does, it is given lowered inputs; where it alone does, it is run without autocast.
    """
    options = options or Options()
    lowered = replace(case, autocast=target.autocast)
    try:
        executions = execute_case(lowered, target, reference, options)
        if _dtypes(executions.candidate) != _dtypes(executions.honest) and executions.honest.returned:
            plain = None if reference is None else replace(reference, how="")
            if target.autocast in _dtypes(executions.candidate).values():
                executions = execute_case(lowered, target, plain, options)
            else:
                executions = execute_case(case, target, plain, options, _rounded(lowered, target, reference))
        # Autocast may lower calls inside of one that gives float32: then honest results are coarser than float32.
        return measure_executions(case, replace(executions, nudged=None), options)
    except CannotExecute as error:
        return _skipped(case, error)


def _dtypes(executed: Executed) -> dict[str, str]:
    return {path: array.dtype for path, array in executed.outputs.items()}


def _rounded(case: Case, target: Target, reference: Target | None) -> Inputs:
    machine, _ = executors_for(case, target, reference)
    return machine.rounded(case, inputs_for(case))


def _skipped(case: Case, error: CannotExecute) -> CaseMeasured:
    return CaseMeasured(case.key, Outcome(Status.UNSUPPORTED, str(error)), skipped=str(error))
