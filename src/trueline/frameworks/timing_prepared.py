"""A Case that was made ready once and is run again and again, whatever the framework.

A framework says through its ``Ground`` how a lap is clocked, how bytes are counted and how a backward is run; what to
run, and what must be put right before it can be run again, is the same for all.

A backward that runs alone pays for starting the autograd engine, which in a program all nodes share. That part is
measured on a graph of nothing (``Ground.engine_start``) and taken off.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from trueline.cases import Case, Outcome
from trueline.dtypes import DTYPES
from trueline.frameworks.base import ArrayIn, CannotExecute
from trueline.frameworks.timing import CallFailed
from trueline.profiles import Footprint, Lap, OutputSpec
from trueline.records import Phase

_CHAIN = 20
_MOST_SETS = 16
_SETS_BYTES = 1 << 27
"""More than the caches of most machines hold."""
_MOST_HELD = 1000
_HELD_BYTES = 1 << 28
_ENGINE_CALLS = 50
_ENGINE_LAPS = 20

Call = Callable[[], Any]


class Clock(Protocol):
    """``on_host`` says that host and device are one."""

    on_host: bool

    def lap(self, call: Call, times: int) -> Lap: ...


class HostClock:
    """For a device that is done when the call returns.

    The time for which this thread was ready to run and another process had its core is taken off, where the system
    keeps count of it (Linux does): on a shared machine it is most of the noise, and no property of the call.
    """

    on_host = True

    def __init__(self) -> None:
        try:
            self._waits: int | None = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._waits = None
        self._reading = min(self._lap(_nothing, 1)[0] for _ in range(100))

    def lap(self, call: Call, times: int) -> Lap:
        seconds, waited = self._lap(call, times)
        return Lap(max(seconds - waited - self._reading, 0.0) / times, calls=times, wall=seconds / times)

    def _lap(self, call: Call, times: int) -> tuple[float, float]:
        """Seconds, and how much of it was waiting. The count is read within the time, so that no more is taken off than
        was there."""
        started = time.perf_counter()
        waited = self.waited()
        for _ in range(times):
            call()
        waited = self.waited() - waited
        return time.perf_counter() - started, waited

    def waited(self) -> float:
        """Seconds for which this thread has waited for a core since it began."""
        if self._waits is None:
            return 0.0
        return int(os.pread(self._waits, 100, 0).split()[1]) * 1e-9


def _nothing() -> None:
    return


class Ground(Protocol):
    """What timing asks of a framework on one device."""

    clock: Clock

    @property
    def engine_start(self) -> float:
        """Seconds that the engine takes to run a backward with nothing in it."""

    def footprint(self, call: Call) -> Footprint | None:
        """Runs a call, and holds what it gives until the bytes are counted."""

    def engine(self, ends: Sequence[tuple[Any, ArrayIn, Any]], leaves: Sequence[Any]) -> Call:
        """What runs a backward and keeps its graph: from outputs, with what arrives there and its strides."""

    def kept(self, tensor: Any) -> Any:
        """A copy of a tensor, outside of autograd."""

    def put_back(self, tensor: Any, content: Any) -> None:
        """Makes the content of a tensor that of a copy again."""


class Ready(Protocol):
    """One execution of a Case (``execution.Execution``) as far as it is needed here. With ``copies`` False a call is
    given its leaves even where nothing is known of what it does to them: that was seen before."""

    case: Case
    function: Callable[..., Any]
    copies: bool

    @property
    def leaves(self) -> dict[str, Any]: ...
    @property
    def given(self) -> dict[str, Any]: ...
    def arithmetic(self) -> AbstractContextManager[None]: ...
    def arguments(self) -> tuple[Any, dict[str, Any]]: ...
    def changed(self, args: Any, kwargs: dict[str, Any], watch: Collection[str]) -> list[str]: ...
    def results_of(self, returned: Any) -> Iterator[tuple[str, Any]]: ...
    def arriving(self, ends: Mapping[str, Any]) -> dict[str, tuple[Any, ArrayIn]]: ...
    def is_tensor(self, value: Any) -> bool: ...
    def dtype_of(self, tensor: Any) -> str: ...
    def needs_gradient(self, tensor: Any) -> bool: ...
    def shared(self, value: Any) -> str: ...
    def ended(self, error: Exception, seconds: float) -> Outcome: ...
    def synchronise(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Set:
    """One set of arguments: what runs the call with them, the tensors among them, and those that are leaves."""

    call: Call
    given: dict[str, Any]
    leaves: dict[str, Any]


class PreparedCase:
    """A Case that is ready to be timed.

    On the host, laps are run as a program runs its calls: each with data of its own, by turns, as far as memory allows
    (a call that is given the same tensors again finds them in the cache). Results are held until the lap is over, as a
    program holds them until its backward: memory that is given back at once would be given again, still in the cache.
    What the system takes to map fresh memory is no part of a call, and is not sought.
    """

    def __init__(self, ready: Ready, ground: Ground) -> None:
        self._ready = ready
        self._ground = ground
        self._clock = ground.clock
        self._changed: list[str] = []
        self._pristine: dict[str, Any] = {}
        self._ways_back: list[Call] = []
        self.notes: list[str] = []
        self.phases: tuple[Phase, ...] = (Phase.FORWARD,)
        self.taken_off = ground.engine_start if ready.case.backward and self._clock.on_host else 0.0
        started = time.perf_counter()
        with undisturbed():
            try:
                self._first()
            except CannotExecute:
                raise
            except Exception as error:
                raise CallFailed(ready.ended(error, time.perf_counter() - started)) from error

    def lap(self, phase: Phase, times: int) -> Lap:
        with undisturbed(), self._ready.arithmetic():
            if phase is Phase.BACKWARD:
                return self._without_start(self._in_turn(self._ways_back, times))
            if not self._changed:
                return self._in_turn([one.call for one in self._sets], times)
            return self._restoring(times)

    def memory(self, phase: Phase) -> Footprint | None:
        """The most of a few trials: what an engine's own thread lets go of late would be taken for a gain."""
        with undisturbed(), self._ready.arithmetic():
            found = [self._footprint(phase) for _ in range(1 if self._clock.on_host else 3)]
        known = [one for one in found if one is not None]
        if not known:
            return None
        return Footprint(max(one.peak for one in known), max(one.retained for one in known))

    def _footprint(self, phase: Phase) -> Footprint | None:
        if phase is Phase.BACKWARD:
            return self._ground.footprint(self._ways_back[0])
        if self._changed:
            self._restore()
        return self._ground.footprint(self._sets[0].call)

    def _first(self) -> None:
        """Runs everything once: what it gives, what it changes, whether there is a way back."""
        ready = self._ready
        with ready.arithmetic():
            args, kwargs = ready.arguments()
            returned = ready.function(*args, **kwargs)
            self._changed = ready.changed(args, kwargs, ())
            self.outputs = tuple(self._outputs(self._results(returned, ready.given)))
            ready.copies = bool(self._changed)
            self._sets = [self._fresh_set() for _ in range(self._how_many_sets())]
            if self._changed:
                self.notes.append("it changes its arguments, which are restored before each call")
                self._pristine = {path: self._ground.kept(ready.given[path]) for path in self._changed}
            if ready.case.backward:
                self._find_ways_back()
        ready.synchronise()

    def _find_ways_back(self) -> None:
        """From each set of arguments: a graph that is kept, and what runs back through it."""
        ready = self._ready
        strides = {spec.path: spec.strides for spec in ready.case.gradients}
        sets = [self._fresh_set()] if self._changed else self._sets
        for one in sets:
            results = self._results(one.call(), one.given)
            ends = [(value, array, strides.get(path)) for path, (value, array) in ready.arriving(results).items()]
            wanted = [leaf for leaf in one.leaves.values() if ready.needs_gradient(leaf)]
            if not ends or not wanted:
                return
            call = self._ground.engine(ends, wanted)
            call()
            call()  # a graph that cannot be gone back twice says so here
            self._ways_back.append(call)
        self.phases = (Phase.FORWARD, Phase.BACKWARD)

    def _results(self, returned: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(self._ready.results_of(returned)), **{path: given[path] for path in self._changed}}

    def _outputs(self, results: Mapping[str, Any]) -> Iterator[OutputSpec]:
        """Each tensor once, also where an argument that was changed is returned as well."""
        ready = self._ready
        seen: set[int] = set()
        changed = {id(ready.given[path]) for path in self._changed}
        for path, value in results.items():
            if ready.is_tensor(value) and id(value) not in seen:
                seen.add(id(value))
                shared = id(value) not in changed and bool(ready.shared(value))
                yield OutputSpec(path, ready.dtype_of(value), tuple(value.shape), shared)

    def _how_many_sets(self) -> int:
        """One on a device, and where autograd watches over what is changed, which must be made again each time."""
        if not self._clock.on_host or (self._changed and self._ready.case.backward):
            return 1
        given = sum(_size(spec.dtype, spec.shape) for spec in self._ready.case.tensors)
        return max(1, min(_MOST_SETS, _SETS_BYTES // max(given + self._result_bytes(), 1)))

    def _result_bytes(self) -> int:
        return sum(_size(output.dtype, output.shape) for output in self.outputs if not output.shared)

    def _fresh_set(self) -> _Set:
        """Arguments as they were at first, in memory of their own."""
        ready = self._ready
        args, kwargs = ready.arguments()
        return _Set(partial(ready.function, *args, **kwargs), dict(ready.given), dict(ready.leaves))

    def _restore(self) -> None:
        """The arguments that the call changes, as they were. Where autograd watches, they are made again."""
        if self._ready.case.backward:
            self._sets = [self._fresh_set()]
            return
        for one in self._sets:
            for path, content in self._pristine.items():
                self._ground.put_back(one.given[path], content)

    def _in_turn(self, calls: Sequence[Call], times: int) -> Lap:
        """Calls with one set of arguments after another, what they give held until the clock has stopped."""
        if not self._clock.on_host:
            return self._clock.lap(calls[0], times)
        most = max(1, min(_MOST_HELD, _HELD_BYTES // max(self._result_bytes(), 1)))
        held: deque[Any] = deque(maxlen=most if self._ready.case.backward else 1)
        following, hold = itertools.cycle(calls).__next__, held.append

        def call() -> None:
            hold(following()())

        lap = self._clock.lap(call, times)
        held.clear()
        return lap

    def _restoring(self, times: int) -> Lap:
        """Every call is given what it was given at first; on a device a few in a row may not be, where nothing slows
        down for the numbers."""
        if not self._clock.on_host and not self._ready.case.backward:
            self._restore()
            return self._clock.lap(self._sets[0].call, times)
        laps: list[Lap] = []
        begun = time.perf_counter()
        while sum(lap.calls for lap in laps) < times:
            self._restore()
            laps.append(self._in_turn([one.call for one in self._sets], len(self._sets)))
        total = sum(lap.calls for lap in laps)
        launches = [lap.launch * lap.calls for lap in laps if lap.launch is not None]
        seconds = sum(lap.seconds * lap.calls for lap in laps) / total
        wall = (time.perf_counter() - begun) / total  # with the restoring, so that a lap of it is no longer than others
        return Lap(seconds, sum(launches) / total if launches else None, total, wall)

    def _without_start(self, lap: Lap) -> Lap:
        start = self._ground.engine_start
        if lap.launch is None:
            return replace(lap, seconds=max(lap.seconds - start, 0.0))
        return replace(lap, launch=max(lap.launch - start, 0.0))


def _size(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * DTYPES[dtype].itemsize if dtype in DTYPES else 0


def engine_start(trivial: Callable[[int], Call], synchronise: Call) -> float:
    """Seconds that an engine takes to start, from ``trivial``, which gives the backward of so many nodes that do
    nothing: what a backward of one takes, less what one more node takes."""
    one, many = (_seconds(trivial(length), synchronise) for length in (1, 1 + _CHAIN))
    return max(0.0, one - (many - one) / _CHAIN)


def _seconds(call: Call, synchronise: Call) -> float:
    clock = HostClock()
    laps = []
    for _ in range(_ENGINE_LAPS):
        synchronise()
        laps.append(clock.lap(call, _ENGINE_CALLS).seconds)
        synchronise()
    return min(laps)


def best(clock: Clock, call: Call, trials: int = 8) -> float:
    """The fastest of a few calls, for what a device can do at best."""
    clock.lap(call, 1)
    return min(clock.lap(call, 1).seconds for _ in range(trials))


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Without warnings, and without the garbage collector at a time of its own choosing."""
    collecting = gc.isenabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()
