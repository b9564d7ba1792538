"""The words of a check, as data and nothing else.

A **Case** is one call to execute alone. A **Target** says where. Executing gives an **Outcome**; comparing its tensors
with those of an honest implementation and of the gold gives **Evidence**; a standard turns evidence into verdicts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.records import Measurement, Statistics, Verdict
from trueline.tree import Tree


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the bytes of a tensor lie: in a Run, at a rank, under the number of the tensor."""

    run: str
    rank: int
    tensor_id: int


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor that a Case needs: what it looks like and where its content comes from.

    With ``stored`` the content is what was recorded. Without it is drawn from the seed of the Case, in the likeness of
    ``statistics`` where there are some, within ``domain`` (a name of ``ops.domains``) where one is given. ``strides``
    None means contiguous.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    requires_grad: bool = False
    statistics: Statistics | None = None
    domain: str = ""
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One call to execute alone. ``tensors`` are the leaves of ``arguments`` in order; ``gradients`` those that arrive
    at its outputs (by the path of the output), drawn from the seed where there are none but ``backward`` is asked for.
    ``count`` calls of the source are this case; ``calls`` names the first of them."""

    api: str
    arguments: Tree
    tensors: tuple[TensorSpec, ...] = ()
    gradients: tuple[TensorSpec, ...] = ()
    backward: bool = False
    autocast: str = ""
    """The dtype to which autocast rounded around this call; empty outside of autocast."""
    seed: int = 0
    count: int = 1
    calls: tuple[str, ...] = ()
    module: str = ""
    source: str = ""
    draw: int = 0
    """Which kind of values is drawn from the seed (``ops.values``); 0 is the plain kind."""

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that depend on what is executed, not on where it came from."""
        content = [self.api, self.arguments, self.backward, self.autocast, self.seed]
        content += [_identity(spec) for spec in (*self.tensors, *self.gradients)]
        content += [f"draw {self.draw}"] if self.draw else []
        return hashlib.sha256(_KEYS.encode(content).encode()).hexdigest()[:16]


_KEYS = json.JSONEncoder(sort_keys=True, default=str)


def _identity(spec: TensorSpec) -> list[Any]:
    kept = [spec.path, spec.dtype, spec.shape, spec.strides, spec.requires_grad, spec.domain]
    if spec.stored is not None:
        return [*kept, spec.stored.run, spec.stored.rank, spec.stored.tensor_id]
    return [*kept, repr(spec.statistics)]


INDEPENDENT = "independent"
"""The word behind a reference whose golds are to share no kernel with the candidate: ``torch:cpu+independent``."""

HOW: Mapping[str, str] = {
    "static": "paddle",
    "cinn": "paddle",
    "compile": "torch",
    "amp-float16": "",
    "amp-bfloat16": "",
    INDEPENDENT: "torch",
}
"""How a Target may execute calls other than eagerly, with the framework that can; empty for both. The last one is for
references alone."""

_SIMULATED = "simulated"


def covers(overrides: Iterable[str], api: str) -> bool:
    """Whether an override is for an API: its own, or that of all operators of its module (``mykernels.*``)."""
    return any(api == name or (name.endswith(".*") and api.startswith(name[:-1])) for name in overrides)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a Case is executed, written ``framework:device/dtype``: ``torch:cuda:0/bfloat16``, ``torch:cpu``.

    Without a dtype the Case keeps its own. ``overrides`` maps an API to ``module:function``, which is called in its
    place. ``simulated``, written ``paddle:cpu/bfloat16+simulated``: a call that has no kernel in the dtype is computed
    in float32, from inputs that were rounded to it, and what comes out is rounded to it. ``how``, written
    ``paddle:gpu+static``, ``paddle:gpu+cinn`` or ``torch:cuda+compile``, has the framework make a graph of every call
    and execute that; ``+amp-bfloat16`` executes calls under autocast. A reference is executed eagerly.
    """

    framework: str
    device: str
    dtype: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False
    how: str = ""

    @classmethod
    def parse(cls, text: str, overrides: Mapping[str, str] | None = None) -> Target:
        place, *words = text.split("+")
        place, _, dtype = place.partition("/")
        framework, _, device = place.partition(":")
        if framework not in ("torch", "paddle") or not device:
            raise UsageError(f"{text!r} is not a target; write framework:device or framework:device/dtype, for example "
                             "torch:cpu, torch:cuda:0/bfloat16 or paddle:gpu/float32")  # fmt: skip
        if dtype and not dtype_named(dtype).is_float:
            raise UsageError(f"{text!r}: {dtype} is not a floating-point type")
        simulated = _SIMULATED in words
        if simulated and dtype_named(dtype or "float32").itemsize >= 4:
            raise UsageError(f"{text!r}: float32 simulates narrower types, for example /bfloat16+simulated")
        how = _how(text, framework, [word for word in words if word != _SIMULATED])
        return cls(framework, device, dtype_named(dtype).name if dtype else "", dict(overrides or {}), simulated, how)

    def __str__(self) -> str:
        dtype = f"/{self.dtype}" if self.dtype else ""
        simulated = f"+{_SIMULATED}" if self.simulated else ""
        return f"{self.framework}:{self.device}{dtype}{simulated}" + (f"+{self.how}" if self.how else "")

    @property
    def autocast(self) -> str:
        """The dtype to which autocast lowers calls here; empty where it is not on."""
        name, _, dtype = self.how.partition("-")
        return dtype if name == "amp" else ""


def _how(text: str, framework: str, words: list[str]) -> str:
    """What stands after a plus sign, but for ``simulated``."""
    if not words:
        return ""
    known = [name for name, owner in HOW.items() if owner in ("", framework)]
    if len(words) > 1 or words[0] not in known:
        choices = ", ".join(f"+{name}" for name in (_SIMULATED, *known))
        raise UsageError(f"{text!r}: of {framework} there may be one of {choices}, not +{'+'.join(words)}")
    return words[0]


class Status(str, Enum):
    """How the execution of a Case on a Target ended."""

    RETURNED = "returned"
    RAISED = "raised"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    UNSUPPORTED = "unsupported"


class Ending(str, Enum):
    """What became of a Case in the end. Every case has exactly one, so that the counts add up to the cases. What was
    executed but not compared is ``SKIPPED``, with its reason; a warning passes."""

    PASS = "pass"
    MISMATCH = "mismatch"
    TARGET_RAISES = "target raises"
    UNSUPPORTED = "unsupported here"
    REFERENCE_RAISES = "reference raises"
    HARNESS_ERROR = "harness error"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out of memory"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What executing a Case on a Target gave, without its tensors. ``reason`` is one line, empty where it returned.
    ``simulated`` says why its dtype was simulated; empty where it was not."""

    status: Status
    reason: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    simulated: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One output or gradient of a Case, measured. No opinion.

    ``part`` is ``output`` or ``gradient``; a gradient's path is that of the input it belongs to. ``structure`` says
    what of dtype, shape, device, layout or presence is not as it must be, empty where all is. ``note`` says why nothing
    was measured where nothing was. ``exact`` is True where equal must mean equal to the last bit.

    ``gold`` is the candidate against the gold, ``honest`` an honest implementation in the same dtype against the gold,
    ``direct`` the candidate against the honest one. ``numbers`` holds whatever else standards ask for, by name.
    """

    part: str
    path: str
    dtype: str
    shape: tuple[int, ...]
    structure: str = ""
    note: str = ""
    exact: bool = False
    gold: Measurement | None = None
    honest: Measurement | None = None
    direct: Measurement | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseMeasured:
    """What a worker sends back of a Case: outcomes and numbers, never tensors. ``skipped`` is the reason why it was
    not executed at all where it was not."""

    key: str
    candidate: Outcome
    reference: Outcome | None = None
    evidence: tuple[Evidence, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class TensorFinding:
    """What a standard says of one output or gradient. ``score`` is the error in units of the limit: above 1 fails."""

    evidence: Evidence
    verdict: Verdict
    reason: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A Case with what was measured and what a standard says of it."""

    case: Case
    measured: CaseMeasured
    verdict: Verdict
    reason: str
    findings: tuple[TensorFinding, ...] = ()

    @property
    def ending(self) -> Ending:
        """The one ending of this case. The process comes first (it crashed, hung or ran out of memory, whoever was to
        blame), then the tool, then what could not be executed, then the target and the reference, and the numbers last.
        Who is to blame is the verdict's matter: a crash in the reference ends in ``CRASHED`` too, but is no failure of
        the target."""
        candidate, reference = self.measured.candidate, self.measured.reference
        if candidate.status in _DEATHS:
            return _DEATHS[candidate.status]
        if self.measured.skipped:
            # Code of the tool that raised is told as an outcome that raised; what cannot be executed has none.
            return Ending.HARNESS_ERROR if candidate.status is Status.RAISED else Ending.SKIPPED
        if candidate.status is Status.UNSUPPORTED:
            return Ending.UNSUPPORTED
        if reference is not None and reference.status is not Status.RETURNED:
            return Ending.REFERENCE_RAISES
        if candidate.status is Status.RAISED:
            return Ending.TARGET_RAISES
        if self.verdict >= Verdict.FAIL:
            return Ending.MISMATCH
        return Ending.SKIPPED if self.verdict is Verdict.NOT_COMPARED else Ending.PASS

    @property
    def score(self) -> float | None:
        """The worst score of its tensors; None where none has one, infinity where one is NaN."""
        scores = [one.score for one in self.findings if one.score is not None]
        return max((math.inf if score != score else score for score in scores), default=None)

    @property
    def forward(self) -> Verdict | None:
        """The worst verdict of the outputs; None where there is none."""
        return max((one.verdict for one in self.findings if one.evidence.part == "output"), default=None)

    @property
    def backward(self) -> Verdict | None:
        """The worst verdict of the gradients; None where there is none."""
        return max((one.verdict for one in self.findings if one.evidence.part == "gradient"), default=None)


_DEATHS = {
    Status.CRASHED: Ending.CRASHED,
    Status.TIMED_OUT: Ending.TIMED_OUT,
    Status.OUT_OF_MEMORY: Ending.OUT_OF_MEMORY,
}


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """The head of a check: what was asked for."""

    sources: tuple[str, ...]
    target: str
    reference: str
    standard: str
    overrides: Mapping[str, str]
    seed: int
    created: str
    tool_version: str
    framework_version: str
    calls: int
    """Calls of the sources; every one of them is a case, merged into one, or skipped with a reason."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Calls that became no case: reason -> how many."""
    mode: str = "accuracy"
    """See ``campaign.modes``."""
    passed: str = ""
    """The word for what passed, where the mode does not say that numbers are right."""
    draws: int = 1
    variants: tuple[str, ...] = ()
    strided: bool = False
