"""One call, measured by the product: its Case, its inputs, the override, and what every standard says of it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from benchmarks.power.recipes import Arguments, leaves, wants_gradient
from trueline.cases import Case, CaseMeasured, Outcome, Status, Target, TensorSpec
from trueline.frameworks.base import ArrayIn, CannotExecute, Inputs
from trueline.frameworks.keys import tree_of
from trueline.frameworks.machine import executor
from trueline.frameworks.torch.arrays import bits_of
from trueline.frameworks.torch.flatten import flatten
from trueline.judge.checks import check_standard_named, judge_case
from trueline.records import Verdict
from trueline.replay import worker
from trueline.replay.inputs import inputs_for
from trueline.tree import tensor_paths

STANDARDS = ("calibrated", "allclose", "assert-close", "precheck", "precheck-2023", "msprobe", "msprobe-benchmark")


@dataclass(frozen=True)
class Said:
    """What the standards say of one call; ``reasons`` holds a line for each that is not content. ``same`` says whether
    all results are equal to the last bit to those of the honest implementation. ``raised`` is what the candidate
    raised, ``skipped`` why nothing was executed or compared at all."""

    verdicts: dict[str, str]
    reasons: dict[str, str]
    scores: dict[str, float]
    same: bool = False
    raised: str = ""
    skipped: str = ""
    seconds: float = 0.0


def case_of(api: str, arguments: Arguments, *, backward: bool, seed: int = 0, source: str = "") -> tuple[Case, Inputs]:
    """The Case of a call and the bits of its tensors, as a captured call with its tensors would give them."""
    found: list[Tensor] = []
    key = flatten({"args": list(arguments.args), "kwargs": arguments.kwargs}, found)
    tree, _ = tree_of(key)
    paths = [path for _, path in sorted(tensor_paths(tree))]
    specs = tuple(_spec(path, leaf, backward) for path, leaf in zip(paths, found, strict=True))
    tensors = {path: ArrayIn(bits_of(leaf), _dtype(leaf)) for path, leaf in zip(paths, found, strict=True)}
    needs = backward and any(spec.requires_grad for spec in specs)
    return Case(api, tree, specs, backward=needs, seed=seed, source=source), Inputs(tensors)


def _spec(path: str, leaf: Tensor, backward: bool) -> TensorSpec:
    strides = None if leaf.is_contiguous() else tuple(leaf.stride())
    return TensorSpec(path, _dtype(leaf), tuple(leaf.shape), strides, backward and leaf.requires_grad)


def _dtype(leaf: Tensor) -> str:
    return str(leaf.dtype).removeprefix("torch.")


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


def with_gradients(arguments: Arguments) -> Arguments:
    """The same arguments, every floating tensor but state asking for its gradient."""
    for leaf in leaves((arguments.args, arguments.kwargs)):
        leaf.requires_grad_(wants_gradient(leaf))
    return arguments


def judged(case: Case, measured: CaseMeasured, standards: Sequence[str] = STANDARDS) -> Said:
    """What each standard says of what was measured."""
    verdicts, reasons, scores = {}, {}, {}
    for name in standards:
        result = judge_case(case, measured, check_standard_named(name))
        verdicts[name] = str(result.verdict)
        if result.verdict > Verdict.WARN:
            reasons[name] = result.reason
        score = max((one.score for one in result.findings if one.score is not None), default=None)
        if score is not None:
            scores[name] = score
    status = measured.candidate.status.value
    raised = "" if status == "returned" else f"{status}: {measured.candidate.reason}"
    return Said(verdicts, reasons, scores, _same(measured), raised, measured.skipped)


def failed(reason: str, standards: Sequence[str] = STANDARDS) -> Said:
    """Where the product itself failed: an alarm of every standard."""
    return Said(dict.fromkeys(standards, "ERROR"), dict.fromkeys(standards, reason), {})


def _same(measured: CaseMeasured) -> bool:
    directs = [one.direct for one in measured.evidence]
    return bool(directs) and all(one is not None and one.equal == one.count for one in directs)


def is_alarm(verdict: str) -> bool:
    return verdict in ("FAIL", "ERROR")


def measure(case: Case, inputs: Inputs, target: Target) -> CaseMeasured:
    """The product's measurement of one case. It reads tensors from a Run or draws them; here they are handed to it."""
    try:
        return worker.measure_executions(case, worker.execute_case(case, target, inputs=with_draw(case, inputs)))
    except CannotExecute as error:
        return _skipped(case, error)


def measure_each(
    case: Case, inputs: Inputs, targets: Mapping[str, Target], forward_only: Collection[str] = ()
) -> dict[str, CaseMeasured]:
    """The same for several candidates of one case, the reference being executed once for all of them."""
    try:
        plain = worker.execute_case(case, Target("torch", "cpu"), inputs=with_draw(case, inputs))
    except CannotExecute as error:
        return dict.fromkeys(targets, _skipped(case, error))
    changed = frozenset(array.alias for array in plain.honest.outputs.values() if array.alias)
    found = {}
    for name, target in targets.items():
        asked = replace(case, backward=False) if name in forward_only else case
        candidate = executor(target, None).run(asked, plain.inputs, mode="candidate", watch=changed)
        executions = replace(plain, candidate=candidate, target=target.device)
        found[name] = worker.measure_executions(asked, executions)
    return found


def with_draw(case: Case, inputs: Inputs) -> Inputs:
    """The same tensors; gradients that arrive are drawn as the product always draws them."""
    return replace(inputs, draw=inputs_for(replace(case, tensors=(), gradients=())).draw)


def _skipped(case: Case, error: CannotExecute) -> CaseMeasured:
    return CaseMeasured(case.key, Outcome(Status.UNSUPPORTED, str(error)), skipped=str(error))


class Trial:
    """Executes, measures and judges calls on one device."""

    def __init__(self, device: str, standards: Sequence[str] = STANDARDS) -> None:
        self._device = device
        self._standards = standards

    def said(self, api: str, override: str, arguments: Arguments, *, name: str) -> Said:
        """What is said of one candidate, by the path that ``trueline check --override`` takes."""
        started = time.perf_counter()
        case, inputs = case_of(api, arguments, backward=True, seed=seed_of(name), source=name)
        measured = measure(case, inputs, Target("torch", self._device, "", {api: override}))
        return replace(judged(case, measured, self._standards), seconds=round(time.perf_counter() - started, 4))

    def said_each(
        self,
        api: str,
        overrides: Mapping[str, str],
        arguments: Arguments,
        *,
        backward: bool,
        name: str,
        forward_only: Collection[str] = (),
    ) -> dict[str, Said]:
        """What is said of several candidates of one call; an empty override is torch itself on the device."""
        case, inputs = case_of(api, arguments, backward=backward, seed=seed_of(name), source=name)
        targets = {
            candidate: Target("torch", self._device, "", {api: override} if override else {})
            for candidate, override in overrides.items()
        }
        measured = measure_each(case, inputs, targets, forward_only)
        return {candidate: judged(case, one, self._standards) for candidate, one in measured.items()}
