"""A Case of one framework, executed by the other: translated by the mapping, its inputs and results under their own
paths."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from trueline.cases import Case, Target
from trueline.frameworks.base import ArrayIn, ArrayOut, CannotExecute, Executed, Executor, Inputs, Mode
from trueline.frameworks.machine import executor
from trueline.ops.mapping.translate import NoCounterpart, Translation, framework_of, translate

FRAMEWORKS = ("torch", "paddle")


class TranslatedExecutor:
    """Executes Cases of another framework by ``inner``, which is of ``framework``. What has no counterpart there
    raises ``CannotExecute`` with the reason."""

    def __init__(self, inner: Executor, framework: str) -> None:
        self._inner = inner
        self._framework = framework
        self._last: tuple[Case, Translation] | None = None
        self._renames = True

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        found = self._translated(case)
        if not self._renames:
            return self._inner.rounded(found.case, inputs)
        settled = self._inner.rounded(found.case, _moved(inputs, found))
        back = {theirs: ours for ours, theirs in found.paths.items()}
        tensors = {back[path]: array for path, array in settled.tensors.items()}
        return replace(settled, tensors={**inputs.tensors, **tensors})

    def other_ways(self, case: Case) -> tuple[Mode, ...]:
        return self._inner.other_ways(self._translated(case).case)

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        found = self._translated(case)
        if not self._renames:
            return self._inner.run(found.case, inputs, mode=mode, watch=watch)
        watched = {found.paths[path] for path in watch if path in found.paths}
        done = self._inner.run(found.case, _moved(inputs, found), mode=mode, watch=watched)
        back = {theirs: ours for ours, theirs in found.paths.items()}
        return replace(
            done,
            outputs={back.get(path, path): _renamed(array, back) for path, array in done.outputs.items()},
            gradients={back.get(path, path): array for path, array in done.gradients.items()},
            arrived={back.get(path, path): array for path, array in done.arrived.items()},
        )

    def _translated(self, case: Case) -> Translation:
        """A Case is executed several times, honestly and for golds; it is translated once."""
        if self._last is None or self._last[0] is not case:
            try:
                self._last = case, translate(case, self._framework)
            except NoCounterpart as error:
                raise CannotExecute(f"no counterpart in {self._framework}: {error}") from None
            paths = self._last[1].paths
            same = all(ours == theirs for ours, theirs in paths.items())
            self._renames = not same or paths.keys() != {spec.path for spec in case.tensors}
        return self._last[1]


def executor_for(case: Case, target: Target, reference: Target | None = None) -> Executor:
    """What executes a Case on a Target, whichever framework the Case is of."""
    machine = executor(target, reference)
    foreign = is_foreign(case, target) and case.api not in target.overrides
    return TranslatedExecutor(machine, target.framework) if foreign else machine


def executors_for(case: Case, target: Target, reference: Target | None = None) -> tuple[Executor, Executor]:
    """What executes a Case as the candidate, and what executes it honestly and for golds: one and the same where target
    and reference are of one framework."""
    if reference is None or reference.framework == target.framework:
        machine = executor_for(case, target, reference)
        return machine, machine
    judge = Target(reference.framework, reference.device, target.dtype)
    return executor_for(case, target), executor_for(case, judge, reference)


def api_on(case: Case, target: Target) -> str:
    """The API that executes a Case on a Target: its own, or its counterpart; its own where it has none."""
    if not is_foreign(case, target):
        return case.api
    try:
        return translate(case, target.framework).case.api
    except NoCounterpart:
        return case.api


def is_foreign(case: Case, target: Target) -> bool:
    """Whether a Case is a call of another framework than the Target's. A function of nobody's is not foreign: only an
    override can execute it, wherever."""
    own = framework_of(case.api)
    return own in FRAMEWORKS and own != target.framework


def _moved(inputs: Inputs, found: Translation) -> Inputs:
    """The inputs at their new paths. What arrives at an argument that is changed in place moves with it."""
    tensors = {theirs: inputs.tensors[ours] for ours, theirs in found.paths.items() if ours in inputs.tensors}
    gradients = {found.paths.get(path, path): array for path, array in inputs.gradients.items()}
    back, draw = {theirs: ours for ours, theirs in found.paths.items()}, inputs.draw

    def arriving(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
        assert draw is not None
        return draw(back.get(path, path), shape, dtype)

    return replace(inputs, tensors=tensors, gradients=gradients, draw=None if draw is None else arriving)


def _renamed(array: ArrayOut, back: Mapping[str, str]) -> ArrayOut:
    if not array.alias and not array.view:
        return array
    return replace(array, alias=back.get(array.alias, array.alias), view=back.get(array.view, array.view))
