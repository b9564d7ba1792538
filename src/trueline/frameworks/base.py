"""What a framework and the rest of trueline say to each other.

A watcher sees calls and tells a ``Notebook`` about them, in the integer columns of ``store.columns``; it never
touches files. A ``Notebook`` never touches a framework.

An ``Executor`` is given a Case and the bits of its tensors, runs it once, and gives bits back. Whoever drew the bits
and whoever compares them needs no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from trueline.cases import Case, Outcome, Status
from trueline.records import Data, Level
from trueline.store.columns import Payload


@dataclass(frozen=True, slots=True)
class Scope:
    """What a watcher is to look at. Globs match whole names; empty means everything. ``calls`` are names such as
    ``torch.relu.3.forward`` or ``torch.relu.3``; ``between`` is the first and the last of a range of such names.
    ``targets`` are functions to be recorded besides those of the framework, ``ignored`` some of its own not to be, by
    their full names."""

    levels: frozenset[Level] = frozenset({Level.API})
    data: Data = Data.STATS
    apis: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    between: tuple[str, str] | None = None
    stacks: bool = True
    integers: bool = True
    backward: bool = True
    witness: bool = False
    targets: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """Counts that end up in the certificate."""

    calls: dict[str, int] = field(default_factory=dict)
    visits: int = 0
    bytes_seen: int = 0
    not_recorded: dict[str, int] = field(default_factory=dict)
    kernels_outside: dict[str, int] = field(default_factory=dict)
    kernels_inside: int = 0
    gradient_sums: int = 0
    lost: set[str] = field(default_factory=set)
    """Those reasons in ``not_recorded`` for which calls are missing that should be there."""

    def miss(self, reason: str, count: int = 1, *, lost: bool = False) -> None:
        self.not_recorded[reason] = self.not_recorded.get(reason, 0) + count
        if lost:
            self.lost.add(reason)


Source = Callable[[], tuple[bytes, bytes]]
"""Gives the rows of calls and of visits that have gathered somewhere, as bytes of 64-bit integers, and forgets them."""


class Notebook(Protocol):
    """Where a watcher writes. ``calls`` and ``visits`` are flat lists of integers, a row after another; extending
    them by whole rows is atomic, so several threads may write. A watcher that keeps its rows elsewhere adds a
    ``Source`` of them to ``sources``."""

    calls: list[int]
    visits: list[int]
    sources: list[Source]
    missing: list[tuple[int, str]]
    step: int
    tally: Tally

    def model_enters(self, *, trains: bool) -> None:
        """An outermost module is about to run. Where gradients are wanted of it, what an optimizer's step has ended is
        over by now; an evaluation still belongs to it."""
        ...

    def next_call(self) -> int: ...
    def next_tensor(self) -> int: ...
    def define(self, table: str, key: Any, row: Callable[[], list[Any]]) -> int: ...
    def hand_over(
        self,
        statistics: Callable[[], Any] | None = None,
        payloads: list[Payload] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None: ...
    def wait_for_room(self) -> None: ...
    def evidence(self, event: dict[str, Any]) -> None: ...
    def trouble(self, error: BaseException) -> None: ...


class Watcher(Protocol):
    """Looks at a running program through one framework."""

    def start(self) -> None:
        """Begins to look; called at the beginning of each step that is wanted."""

    def pause(self) -> None:
        """Stops looking and leaves nothing behind; called at the end of each wanted step."""

    def close(self) -> None:
        """Stops looking for good."""

    def abandon(self) -> None:
        """Stops looking and writes nothing more; called in a child that was forked from the captured process."""

    def optimizer_begins(self, optimizer: Any) -> None:
        """An optimizer is about to step."""

    def optimizer_ends(self, optimizer: Any) -> None:
        """An optimizer has stepped."""


Bits = np.ndarray[Any, Any]
"""Elements as they lie in memory: an array of the storage type of their dtype (bfloat16 as uint16), in C order."""

Mode = Literal["candidate", "honest", "honest steps", "honest fused", "gold", "wide", "apart"]
"""``candidate``: on the Target, with its overrides. ``honest``: the same dtypes on the reference device. ``honest
steps``: the same as a composition of its steps, each rounded; ``honest fused``: the same with what fused kernels round
(see ``Executor.other_ways``). ``gold``: in float64 on the reference device, from the same rounded inputs. ``wide``: a
gold for what is float64 itself, with more digits than float64. ``apart``: a gold for narrower types that is computed by
none of the framework's own kernels."""

GOLDS: tuple[Mode, ...] = ("gold", "wide", "apart")


class ArrayIn(NamedTuple):
    """The content of one tensor that a Case is given: its logical elements, whatever its strides. For a wide gold the
    bits of float64 may be an array of longdouble."""

    bits: Bits
    dtype: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """The tensors of a Case: arguments by their path (``args.0``, ``kwargs.weight``), arriving gradients by the path
    of the output at which they arrive (``out``, ``out.1``). An output that needs a gradient and has none here gets
    what ``draw`` gives for its path, shape and dtype; without ``draw`` it gets none. ``settled`` inputs are fed as they
    are; others are rounded first to the dtype of the Target (see ``Executor.rounded``)."""

    tensors: Mapping[str, ArrayIn]
    gradients: Mapping[str, ArrayIn] = field(default_factory=dict)
    draw: Callable[[str, tuple[int, ...], str], ArrayIn] | None = None
    settled: bool = False


@dataclass(frozen=True, slots=True)
class ArrayOut:
    """One tensor that executing a Case gave. ``bits`` is None where there should be one and is none; ``note`` says
    why. ``strides`` are in elements. ``device`` is empty for a plain number, which is given as an array without
    dimensions. ``alias`` is the path of the argument that it is, changed, the very same tensor, as in-place calls
    return it; ``view`` that of an argument whose memory it shares. ``tracked`` says that autograd follows it. Of a wide
    gold ``low`` is what must be added to ``bits``."""

    bits: Bits | None
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    note: str = ""
    alias: str = ""
    low: Bits | None = None
    view: str = ""
    tracked: bool = False


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a call did beside its results: whether it ``draws`` (or seeds) the framework's random numbers, and whether
    it ``switches`` gradients on or off for whoever comes next."""

    draws: bool = False
    switches: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """A call made three times: its ``first`` results, what is ``kept`` of those that have memory of their own after the
    second call, the ``second`` ones, of other values at the same addresses, and the ``third`` ones, of the first values
    elsewhere. ``raised`` is what a later call raised."""

    first: Mapping[str, ArrayOut]
    kept: Mapping[str, ArrayOut] = field(default_factory=dict)
    second: Mapping[str, ArrayOut] = field(default_factory=dict)
    third: Mapping[str, ArrayOut] = field(default_factory=dict)
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Executed:
    """What executing a Case gave. ``outputs`` are by path: results under ``out``, ``out.0``, …; arguments that the
    call changed and did not return under their own path. ``gradients`` are by the path of the input that they belong
    to; ``backward`` is how the backward ended, None where there was none. ``arrived`` are the gradients that were fed
    at the outputs, drawn ones among them, as they were fed. ``working`` is the coarsest floating dtype in which the
    call worked; empty where there was none. ``tensor_float`` is the switch (``cudnn``, ``matmul``) by which the device
    was allowed to round float32 to TF32 in this call; empty where it was not. ``conduct`` is None where nobody
    looked."""

    outcome: Outcome
    outputs: Mapping[str, ArrayOut] = field(default_factory=dict)
    gradients: Mapping[str, ArrayOut] = field(default_factory=dict)
    backward: Outcome | None = None
    arrived: Mapping[str, ArrayIn] = field(default_factory=dict)
    working: str = ""
    tensor_float: str = ""
    conduct: Conduct | None = None

    @property
    def returned(self) -> bool:
        """Whether the forward call returned."""
        return self.outcome.status is Status.RETURNED

    @property
    def simulated(self) -> str:
        """Why the dtype of the Target was simulated; empty where it was not."""
        return self.outcome.simulated


class Executor(Protocol):
    """Executes Cases through one framework."""

    def rounded(self, case: Case, inputs: Inputs) -> Inputs:
        """The inputs as the Target is given them: floating ones rounded once to its dtype where it has one."""

    def other_ways(self, case: Case) -> tuple[Mode, ...]:
        """The modes besides ``honest`` in which honest implementations compute this, differing in what they round;
        most often none."""

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        """Runs a Case once. Whatever the call raises is an Outcome; a Case that cannot be run at all raises
        ``CannotExecute`` with the reason. ``watch`` are paths of arguments to be given back as outputs whatever
        happened to them."""


@runtime_checkable
class Repeating(Protocol):
    """An executor that can make a call again."""

    def again(self, case: Case, inputs: Inputs, other: Inputs) -> Again | None:
        """The candidate's call with its inputs, with ``other`` ones at the same addresses, and with its own elsewhere;
        None where that cannot be had."""


class CannotExecute(Exception):
    """A Case cannot be executed by this framework, wherever; the message says why."""


def one_of(name: str, value: Any, *known: str | None) -> None:
    """Refuses a word that an operator does not know: a composite that asks for one word alone would take any other for
    its opposite."""
    if value not in known:
        raise CannotExecute(f"{name} is {str(value)[:40]!r}; the operator knows {', '.join(map(repr, known))}")
