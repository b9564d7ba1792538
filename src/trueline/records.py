"""The words of trueline, as data and nothing else.

A **Run** holds **Calls**; a Call holds **TensorRecords**; comparing two tensors gives a **Measurement**; a standard
turns measurements into a **Finding** with a **Verdict**.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from trueline.tree import Tree

SKETCH_SIZE = 64
"""The number of sums in a sketch; part of the Run format."""


class Verdict(IntEnum):
    """What was found, ordered from good to bad; the verdict of many is the worst of them."""

    PASS = 0
    WARN = 1
    NOT_COMPARED = 2
    FAIL = 3
    ERROR = 4

    def __str__(self) -> str:
        return self.name


class Phase(str, Enum):
    """Whether a call ran in the forward or the backward direction."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Role(str, Enum):
    """What a tensor is to its call. In a backward call the inputs are the gradients that arrive (of the forward
    outputs) and the outputs the gradients that leave (of the forward inputs)."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"


class Level(str, Enum):
    """At which height a call was seen."""

    API = "api"
    MODULE = "module"
    KERNEL = "kernel"
    STATE = "state"
    """No call: what the program holds, or gives away, at that moment, by name (see ``StateMoment``)."""


class StateMoment(str, Enum):
    """When the state of a program is written down. Names in it have the form ``parameters.NAME``, ``buffers.NAME``,
    ``gradients.NAME``, ``optimizer.NAME.KEY``, ``inputs.PATH``, ``outputs.PATH`` and ``loss``. The path of an input
    begins with its name in the module's ``forward``, or with ``args.0`` where it has none."""

    ENTERED = "entered"
    """An outermost module is about to run: its inputs, and the first time in a step its parameters and buffers."""
    LEFT = "left"
    """It has run: its outputs."""
    BACKWARD = "backward"
    """A backward begins: the losses that it begins with."""
    GRADIENTS = "gradients"
    """An optimizer is about to step: gradients as it will use them."""
    UPDATED = "updated"
    """It has stepped: its parameters and its own state."""
    ENDED = "ended"
    """A step ends: buffers, and where no optimizer stepped gradients and the parameters that have one."""


class Data(str, Enum):
    """How much is kept of each tensor, each mode including the ones before it."""

    STRUCTURE = "structure"
    STATS = "stats"
    DIGEST = "digest"
    TENSORS = "tensors"


@dataclass(frozen=True, slots=True)
class Statistics:
    """One pass over a tensor. Minimum, maximum, mean, norm and sketch are those of the finite elements (NaN where
    there are none); the others are counted. ``exponent_min`` and ``exponent_max`` are the base-2 exponents of the
    smallest and largest finite magnitudes that are not zero (0 and -1 where there are none)."""

    count: int
    minimum: float
    maximum: float
    mean: float
    norm: float
    nan: int
    positive_infinity: int
    negative_infinity: int
    zeros: int
    exponent_min: int
    exponent_max: int
    sketch: tuple[float, ...] | None = None

    @property
    def finite(self) -> int:
        return self.count - self.nan - self.positive_infinity - self.negative_infinity


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor leaf of a Call. ``tensor_id`` is equal for two leaves that were the same memory with the same
    content. ``missing`` says why there are no statistics where there are none."""

    role: Role
    path: str
    tensor_id: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    requires_grad: bool = False
    statistics: Statistics | None = None
    digest: int | None = None
    stored: bool = False
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a source stack, innermost first."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Call:
    """One API call. ``index`` counts the calls of this API in its step from 0 (``relu`` number 3); ``context`` is
    ``recompute`` for calls that activation checkpointing ran again, ``backward`` for calls made inside a backward
    function, ``optimizer`` inside an optimizer's step, else empty. A backward Call names the forward Call it
    belongs to. ``raised`` holds the error of a call that did not return."""

    id: int
    api: str
    index: int
    step: int
    rank: int
    phase: Phase
    level: Level
    module: str = ""
    module_class: str = ""
    context: str = ""
    thread: int = 0
    forward_id: int | None = None
    arguments: Tree = None
    result: Tree = None
    raised: str = ""
    stack: tuple[Frame, ...] = ()
    tensors: tuple[TensorRecord, ...] = ()

    @property
    def source(self) -> str:
        """Where in the user's code the call was made: ``train.py:42 in step``; empty where no stack was kept."""
        return str(self.stack[0]) if self.stack else ""

    @property
    def name(self) -> str:
        """A short name that is unique within rank, step and level: ``torch.relu.3.backward``."""
        return f"{self.api}.{self.index}.{self.phase.value}"

    @property
    def inputs(self) -> tuple[TensorRecord, ...]:
        return tuple(record for record in self.tensors if record.role is not Role.OUTPUT)

    @property
    def outputs(self) -> tuple[TensorRecord, ...]:
        return tuple(record for record in self.tensors if record.role is Role.OUTPUT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a program held, or gave away, at one moment. ``call`` is its number among the calls, so that it lies between
    two of them in time. ``values`` are rows of ``Trace.state_visits`` by name."""

    moment: StateMoment
    step: int
    call: int
    model: str
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a capture says about its own completeness."""

    calls: Mapping[str, int] = field(default_factory=dict)
    """Number of recorded calls by ``level phase``, for example ``api forward``."""
    tensors: int = 0
    visits: int = 0
    bytes_seen: int = 0
    bytes_stored: int = 0
    not_recorded: Mapping[str, int] = field(default_factory=dict)
    """What could not be recorded: reason -> how often."""
    kernels_outside: Mapping[str, int] | None = None
    """Kernels that ran outside any recorded call, by name; None where nobody watched for them."""
    kernels_inside: int = 0
    gradient_sums: int = 0
    """Additions that the autograd engine made by itself, between recorded calls, to sum gradients."""
    complete: bool = True
    """False where the program died or the capture had to stop early."""
    stopped_because: str = ""
    lost: tuple[str, ...] = ()
    """Those reasons in ``not_recorded`` for which calls are missing: not tensors, and not what nobody asked for."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Framework -> the way that the capture took there, ``fast`` or ``portable``, and why."""

    @property
    def partial(self) -> str:
        """Why this is only a part of what was asked for; empty where it is all. The inside of a compiled region, a
        tensor that cannot be read, steps that were not asked for: none of them makes a record partial."""
        if not self.complete:
            return self.stopped_because or "it stopped early"
        return "; ".join(f"{self.not_recorded.get(reason, 0):,} times {reason}" for reason in self.lost)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The head of a Run (``run.json``)."""

    format_version: int
    tool_version: str
    created: str
    framework: str
    framework_version: str
    python: str
    host: str
    devices: tuple[str, ...]
    command: tuple[str, ...]
    git_commit: str
    seed: int | None
    world_size: int
    options: Mapping[str, Any]
    ways: Mapping[str, str] = field(default_factory=dict)
    """Framework -> the way that a capture took there, ``fast`` or ``portable``, and why."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Numbers from comparing a candidate tensor with a reference tensor, element by element. No opinion.

    Absolute and relative errors, RMSE, cosine and ULP are over the elements that are finite on both sides; relative
    errors divide by the reference's magnitude, elements whose reference is zero count in ``max_rel`` only where the
    candidate is not zero (as infinity). ULP distances are in units of the coarser of the two dtypes.
    """

    count: int
    equal: int
    cosine: float
    max_abs: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    rmse: float
    normalized: float
    """|reference - candidate| / |reference| in the L2 norm."""
    bias: float
    """Mean of candidate - reference, signed."""
    max_ulp: float
    mean_ulp: float
    within: tuple[float, float, float, float]
    """Shares of the elements with a relative error below 1e-4, 1e-3, 5e-3 and 1e-2."""
    nan_mismatch: int
    infinity_mismatch: int
    worst: int
    """Flat index of the element with the largest absolute error."""
    worst_reference: float
    worst_candidate: float
    reference_norm: float
    candidate_norm: float
    reference_max: float
    """Largest finite magnitude in the reference."""


@dataclass(frozen=True, slots=True)
class ErrorRatio:
    """One metric of the candidate's and of a peer's error against the same gold, and the one in units of the other."""

    metric: str
    candidate: float
    baseline: float
    ratio: float


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor leaf of a pair of calls, measured and judged.

    ``distance`` is |reference - candidate| / |reference| in the L2 norm: exact where both sides kept the tensor,
    else estimated from the sketches (``estimated``). ``limit`` is the largest distance that honest arithmetic
    explains here; None where there is none. In a three-way comparison ``baseline`` is the peer's tensor and ``errors``
    holds the candidate's errors in units of the peer's. ``numbers`` are those that a standard of another tool took.
    """

    role: Role
    path: str
    reference: TensorRecord | None
    candidate: TensorRecord | None
    verdict: Verdict
    reason: str
    distance: float | None = None
    estimated: bool = False
    limit: float | None = None
    measurement: Measurement | None = None
    baseline: TensorRecord | None = None
    errors: tuple[ErrorRatio, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallComparison:
    """A pair of calls, or a call that only one side has.

    ``verdict`` judges the outputs given the inputs: a call that turned wrong inputs into wrong outputs is a victim
    (``inherited``), not a fault. ``input_distance`` and ``output_distance`` are the worst of its tensors.
    """

    reference: Call | None
    candidate: Call | None
    verdict: Verdict
    reason: str
    tensors: tuple[TensorComparison, ...] = ()
    input_distance: float = 0.0
    output_distance: float = 0.0
    limit: float | None = None
    inherited: bool = False

    @property
    def call(self) -> Call:
        """The call, as the candidate made it, or as the reference did where the candidate did not."""
        chosen = self.candidate or self.reference
        assert chosen is not None, "a comparison has at least one side"
        return chosen


@dataclass(frozen=True, slots=True)
class Origin:
    """The first call that went wrong, and why we say so. ``confirmed`` is True where replaying the call on its
    recorded inputs in float64 showed that the candidate's output is wrong, None where that could not be tried."""

    comparison: CallComparison
    explanation: str
    confirmed: bool | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    kind: str = "call"
    """*call* (the same call computes something else), *argument* (the same call was asked otherwise), *region* (other
    calls compute it), *missing* and *extra* (calls that only the reference or only the candidate makes), *precision*,
    *data*, *state* (parameters, buffers, states of an optimizer), *randomness*, *update* (the optimizer's step)."""
    reference_calls: tuple[Call, ...] = ()
    candidate_calls: tuple[Call, ...] = ()
    """Of a region: all its calls on each side, in their order."""
    names: tuple[str, ...] = ()
    """Parameters, buffers, states or inputs that it is about."""
    headline: str = ""
    """The cause in a few words, before any effect: ``eps: 1e-06 -> 0.001``."""
    shows: Phase = Phase.FORWARD
    """The phase in which the first value differs: a call that is missing forward may show in the backward alone."""


@dataclass(frozen=True, slots=True)
class ObservableComparison:
    """Something that both programs give away, or one of them: a loss, an output, a gradient, an updated parameter, a
    buffer, a state of an optimizer, or what they begin with. ``limit`` is how far apart honest arithmetic of both
    programs may take it; None where nothing says. ``reason`` says why it got its verdict."""

    kind: str
    name: str
    step: int
    rank: int
    reference: TensorRecord | None
    candidate: TensorRecord | None
    verdict: Verdict
    reason: str
    distance: float | None = None
    limit: float | None = None
    estimated: bool = False
