"""A light watch that is on for as long as a program runs, and keeps what is needed when something breaks.

Steps are found as in a capture. After each, what the framework's light watcher has looked at goes into the log; a step
that gives bad numbers away is examined at once, the calls that are still held are written as a Run, an ``Analyst`` says
what happened, and its report is on disk before the program goes on. On a device the looks come a step later, so that
nobody ever waits for it.

No fault of ours reaches the program: it is noted, and after too many of them the watch ends with one warning.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trueline.capture.about import run_info
from trueline.capture.interrupts import HeldSignals
from trueline.capture.lookback import LookBack
from trueline.capture.notebook import MOST_TROUBLES, Notebook
from trueline.capture.points import PointMaker
from trueline.capture.saying import said, say
from trueline.capture.steps import StepClock
from trueline.capture.suspicion import Doubt, Suspicion
from trueline.capture.watch_events import Analyst, event_dict, only_parameters, worst_of
from trueline.capture.watch_options import WatchOptions
from trueline.errors import UsageError
from trueline.frameworks import machine
from trueline.frameworks.light import LightOptions, LightWatcher, StepLooks
from trueline.overflows import EventKind, WatchEvent
from trueline.records import Certificate
from trueline.store.interrupts import from_handler
from trueline.store.watch_log import WatchLog
from trueline.store.writer import RankWriter, write_run_info

MOST_LOOK_BACKS = 8
"""Overflows whose calls are kept; the others are counted."""
ROTATION = 4
SELDOM = 64
"""Each call is looked at in every so many steps: where calls are held, and where steps can be computed again."""
FORESEE_EVERY = 16
"""Steps between two looks ahead."""


class Watch:
    """One watch; made by ``watch``. ``events`` are what it found so far, ``counts`` how much it has seen."""

    def __init__(
        self,
        path: Path | None,
        options: WatchOptions,
        framework: str,
        analyst: Analyst,
        on_overflow: Callable[[WatchEvent], None] | None = None,
    ) -> None:
        self.path = path
        self.options = options
        self.events: list[WatchEvent] = []
        self.counts: dict[str, int] = {"steps": 0, "looks": 0, "overflows": 0, "meant": 0, "forecasts": 0}
        self._framework = machine.chosen(framework)
        self._analyst = analyst
        self._on_overflow = on_overflow
        self._clock: StepClock | None = None
        self._watchers: list[LightWatcher] = []
        self._watching: list[str] = []
        self._log = WatchLog()
        self._points = PointMaker(self._log)
        self._suspicion = Suspicion()
        self._writer: RankWriter | None = None
        self._notebook: Notebook | None = None
        self._look_back: LookBack | None = None
        self._rank, self._world = 0, 1
        self._told: list[WatchEvent] = []
        self._bad_step = self._kept_step = -2
        self._asked = (-2, Doubt.CLEAN)
        self._look_backs = 0
        self._next_is_asked = False
        """Whether a bad step could not be examined, and the one after it shall be."""
        self._how_had = ""
        """How the calls of the last examination were had, where they were not held."""
        self._troubles = 0
        self._broken = ""
        """Why nothing can be written any more; empty while all is well."""
        self._finished = False
        self._stopped_because = ""
        self._lock = threading.RLock()
        """Held while a step ends: programs may train in several threads."""

    def __enter__(self) -> Watch:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Watch:
        """Begins to watch."""
        if self._clock is not None or self._finished:
            raise UsageError("this watch was started before; make a new one")
        self._clock = StepClock(self.options.steps)
        try:
            with HeldSignals():
                self._begin()
        except UsageError:
            self._leave()
            raise
        except BaseException as error:
            ours = isinstance(error, Exception) and not from_handler(error)
            self._finish(f"it could not begin: {said(error)}" if ours else "interrupted as it began")
            self._leave()
            if not ours:
                raise
            say(f"trueline watches nothing, the program goes on: {said(error)}")
        return self

    def _begin(self) -> None:
        assert self._clock is not None
        self._rank, self._world = self._framework.rank()
        if self.options.ranks is not None and self._rank not in self.options.ranks:
            self._finished = True
            return
        if self.path is not None:
            self._open(self.path)
        self._framework.on_optimizer(self._optimizer_begins, self._optimizer_ends)
        atexit.register(self.stop)
        _running.add(self)
        if self._clock.wanted:
            self._open_eyes()

    def step(self) -> None:
        """Tells that a training step ends here. Without it, steps end with ``optimizer.step()``."""
        if not self._finished and self._clock is not None and self._clock.told():
            self._turn()

    def also(self, framework: str) -> None:
        """Watches another framework too, which the program has only just imported."""
        if self._finished or framework in self._framework.names:
            return
        try:
            self._framework.add(machine.adapter(framework))
            if self._watchers:
                self._open_eyes()
        except Exception as error:
            say(f"trueline does not watch {framework}, the program goes on: {said(error)}")

    def stop(self) -> None:
        """Ends the watch and finishes the Run. An interrupt that comes meanwhile is heard when that is done."""
        with HeldSignals(), self._lock:
            self._finish()
            self._leave()

    def _leave(self) -> None:
        """Takes away what does nothing any more."""
        atexit.unregister(self.stop)
        _running.discard(self)
        try:
            self._framework.off_optimizer()
        except Exception as error:
            say(f"trueline left a hook behind: {said(error)}")

    def abandon(self) -> None:
        """Lets go in a process that was forked from the watched one."""
        if self._finished:
            return
        self._finished = True
        for watcher in self._watchers:
            with contextlib.suppress(Exception):
                watcher.abandon()
        self._leave()

    # Steps.

    def _optimizer_begins(self, optimizer: Any) -> None:
        with self._lock:
            if self._watchers and not self._finished:
                self._guarded(self._before_optimizer, optimizer)

    def _before_optimizer(self, optimizer: Any) -> None:
        """The gradients are there, and the parameters still what the calls were given: the best time to look."""
        for watcher in self._watchers:
            watcher.optimizer_begins(optimizer)
            self._take(watcher)

    def _optimizer_ends(self, optimizer: Any) -> None:
        if self._finished or self._clock is None:
            return
        with self._lock:
            for watcher in self._watchers:
                self._guarded(watcher.optimizer_ends, optimizer)
            ended = self._clock.found()
        if ended:
            self._turn()

    def _turn(self) -> None:
        """A step has ended: look at what came of it; the program hears of it here, and nowhere else."""
        with HeldSignals(), self._lock:
            told, reached = self._turned()
        if self._on_overflow is not None:
            for event in told:
                self._on_overflow(event)
        if reached and self.options.exit_after:
            many = self.options.overflow_nums
            print(f"trueline: {many} overflows, ending the program ({self.path})", file=sys.stderr)
            raise SystemExit(0)

    def _turned(self) -> tuple[list[WatchEvent], bool]:
        """What the program is to be told, and whether the watch has seen enough."""
        clock = self._clock
        if clock is None or self._finished:
            return [], False
        if self._watchers:
            self.counts["steps"] += 1
            self._guarded(self._end_step, clock.now - 1)
        if self._broken or self._troubles >= MOST_TROUBLES:
            if not self._broken:
                self._broken = "too many faults"
                say(f"trueline stopped watching, the program goes on: {self._broken}", stacklevel=4)
            self._finish(self._broken)
            return [], False
        if clock.wanted and not self._watchers:
            self._guarded(self._open_eyes)
        elif not clock.wanted and self._watchers:
            self._guarded(self._close_eyes)
        told, self._told = self._told, []
        enough = self.options.overflow_nums
        reached = enough is not None and self.counts["overflows"] >= enough
        if reached or clock.over:
            self._finish()
        return told, reached

    def _end_step(self, step: int) -> None:
        for watcher in self._watchers:
            watcher.end_step(step)
            self._take(watcher)
        if self.counts["steps"] % FORESEE_EVERY == 0:
            self._look_ahead(step)

    def _open_eyes(self) -> None:
        """Has every framework watched that is not yet."""
        asked = self.options
        options = LightOptions(
            asked.rotation or ROTATION, asked.hold, asked.backward, asked.whole, asked.budget, asked.rotation or SELDOM
        )
        for name, watcher in self._framework.lights(options):
            if name not in self._watching:
                self._watchers.append(watcher)  # first, so that it is closed whatever happens
                self._watching.append(name)
                watcher.start()

    def _close_eyes(self) -> None:
        closed, self._watchers, self._watching = self._watchers, [], []
        for action in (lambda one: one.stop(), self._take):
            for watcher in closed:
                self._guarded(action, watcher)

    # What was seen.

    def _take(self, watcher: LightWatcher) -> None:
        """Looks that have arrived: into the log, and into question."""
        for looks in watcher.poll():
            self.counts["looks"] += len(looks.looks)
            self._points.add(looks)
            doubt = self._suspicion.of(looks)
            if doubt is Doubt.PROBED:
                self._probed(looks)
            elif self._is_news(looks.step, doubt):
                self._asked = (looks.step, doubt)
                self._found(watcher, looks, doubt)
            if not looks.partial:
                watcher.forget(looks.step)
        if watcher.trouble:
            self._troubles = max(self._troubles, sum(watcher.trouble.values()))

    def _is_news(self, step: int, doubt: Doubt) -> bool:
        """A step is asked about once; but what comes out of it counts, also where curiosity has asked before."""
        asked, before = self._asked
        if doubt is Doubt.CLEAN:
            return False
        return asked != step or (before is Doubt.CURIOUS and doubt is not Doubt.CURIOUS)

    def _probed(self, looks: StepLooks) -> None:
        self.counts["meant"] += 1
        message = f"step {looks.step}: a loss scaler found infinities and skipped the step, as it should"
        self._note(WatchEvent(EventKind.MEANT, looks.step, self._rank, message), told=False)

    def _found(self, watcher: LightWatcher, looks: StepLooks, doubt: Doubt) -> None:
        """A bad step: the first of several in a row is examined, the others are its consequence."""
        follows = self._bad_step == looks.step - 1 and doubt is Doubt.BAD and not self._next_is_asked
        self._next_is_asked = False
        if follows or self._look_backs >= MOST_LOOK_BACKS:
            if doubt is not Doubt.CURIOUS:
                words = ", as in the step before" if follows else ""
                self._note(self._event(looks.step, f"step {looks.step}: {worst_of(looks)}{words}"), told=False)
            return
        run = self._run()
        if not self._keep(watcher, looks):
            if doubt is Doubt.CURIOUS:
                return
            why = self._how_had or "its calls are no longer held"
            self._next_is_asked = bool(self._how_had)
            self._note(self._event(looks.step, f"step {looks.step}: {worst_of(looks)}; {why}"))
            return
        event = self._explain(run, looks, doubt)
        if event is not None:
            self._note(event)

    def _keep(self, watcher: LightWatcher, looks: StepLooks) -> bool:
        """Writes the calls of a step into the Run; whether there were any. Where they were written before the optimizer
        stepped, and it is the parameters that are bad now, no call was made since."""
        if self._kept_step == looks.step and only_parameters(looks):
            return True
        examination = watcher.examine(looks.step)
        self._how_had = examination.note
        if self._look_back is None or self._writer is None or not examination.calls:
            return False
        self._look_backs += 1
        self._kept_step = looks.step
        self._look_back.write(examination)
        self._writer.drain()
        return True

    def _explain(self, run: Path, looks: StepLooks, doubt: Doubt) -> WatchEvent | None:
        """The event of an examined step; None where curiosity led to nothing."""
        found = self._analyst.explain(run, self._rank, looks.step)
        if found.birth is None and doubt is Doubt.CURIOUS:
            return None
        if found.meant and doubt is not Doubt.STUCK:
            self.counts["meant"] += 1
            return WatchEvent(EventKind.MEANT, looks.step, self._rank, found.message, str(run))
        message = found.message or f"step {looks.step}: {worst_of(looks)}"
        if self._how_had:
            message = f"{message}; {self._how_had}"
        if doubt is Doubt.STUCK:
            message = (
                f"step {looks.step}: the loss scaler has skipped {self._suspicion.probes} steps in a row; {message}"
            )
        event = self._event(looks.step, message)
        if found.birth is None:
            return event
        call = found.birth.call
        return replace(event, api=call.api, call=call.name, module=call.module, source=call.source, birth=found.birth)

    def _event(self, step: int, message: str) -> WatchEvent:
        return WatchEvent(EventKind.OVERFLOW, step, self._rank, message, "" if self.path is None else str(self.path))

    def _note(self, event: WatchEvent, *, told: bool = True) -> None:
        """Counts an event and puts it on disk; ``told`` ones are said on standard error."""
        self.events.append(event)
        if event.kind is EventKind.OVERFLOW:
            self._bad_step = event.step
            self.counts["overflows"] += 1
            self._told.append(event)
        self._points.flush()
        self._log.event(event_dict(event))
        if not told or event.kind is EventKind.MEANT:
            return
        place = ""
        if event.kind is EventKind.OVERFLOW and self.path is not None:
            place = f" (see {self._analyst.put_down(self.path, self._rank, self.events)})"
        rank = f"rank {self._rank}, " if self._world > 1 else ""
        print(f"trueline: {rank}{event.message}{place}", file=sys.stderr, flush=True)

    def _look_ahead(self, step: int) -> None:
        self._points.flush()
        for forecast, message in self._analyst.foresee(self._log, self._rank):
            self.counts["forecasts"] += 1
            call = forecast.call
            event = WatchEvent(
                EventKind.FORECAST, step, self._rank, message, "" if self.path is None else str(self.path), call.api,
                call.name, call.module, call.source, forecast=forecast,
            )  # fmt: skip
            self._note(event)

    # The Run.

    def _run(self) -> Path:
        """The folder of the Run, made now where no path was given."""
        if self.path is None:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            rank = f"-rank{self._rank}" if self._world > 1 else ""
            self.path = Path(f"trueline-watch-{stamp}-{os.getpid()}{rank}").absolute()
            self._open(self.path)
        return self.path

    def _open(self, path: Path) -> None:
        """Begins the Run of this rank."""
        path.mkdir(parents=True, exist_ok=True)
        self._writer = RankWriter(path, self._rank)
        write_run_info(path, run_info(self._framework, self._world, self.options.as_json()))
        self._notebook = Notebook(self._writer)
        self._look_back = LookBack(self._notebook, calls=self.options.look_back)
        self._log.settle(self._writer.folder)

    def _finish(self, because: str = "") -> None:
        """Ends the watch; may run inside an optimizer's hook, which stays, asleep, until ``stop``."""
        if self._finished or self._clock is None:
            return
        atexit.unregister(self.stop)
        _running.discard(self)
        for watcher in self._watchers:  # a program that breaks off in the middle of a step has most often a reason
            self._guarded(watcher.end_step, self._clock.now)
        self._guarded(self._close_eyes)
        self._finished = True
        self._stopped_because = because
        self._guarded(self._close_log)
        self._guarded(self._close_run)

    def _close_log(self) -> None:
        try:
            if not self._broken:
                self._points.flush()
                self._log.event({"kind": "end", "counts": self.counts, "time": time.time()})
        finally:
            self._log.close()

    def _close_run(self) -> None:
        if self._writer is None:
            return
        if self._notebook is None:
            self._writer.close(asdict(Certificate(complete=False, stopped_because=self._stopped_because)))
            return
        self._writer.failed = self._writer.failed or self._broken
        self._notebook.flush()
        self._writer.drain()
        self._notebook.flush()
        self._writer.close(asdict(self._certify(self._notebook, self._writer)))

    def _certify(self, notebook: Notebook, writer: RankWriter) -> Certificate:
        tally = notebook.tally
        return Certificate(
            calls=dict(sorted(tally.calls.items())),
            tensors=notebook.next_tensor(),
            visits=tally.visits,
            bytes_seen=tally.bytes_seen,
            bytes_stored=writer.bytes_stored,
            not_recorded=dict(sorted(tally.not_recorded.items())),
            complete=not (notebook.broken or self._stopped_because),
            stopped_because=notebook.broken or self._stopped_because,
            lost=tuple(sorted(tally.lost)),
            ways=self._framework.ways(),
        )

    def _guarded(self, action: Callable[..., Any], *arguments: Any) -> bool:
        """Does something of ours; a fault is noted, said once, and never the program's."""
        try:
            action(*arguments)
        except Exception as error:
            if from_handler(error):
                raise
            self._troubles += 1
            disk = isinstance(error, OSError) and not self._broken
            if disk:  # a full one, say: it will be the same the next time
                self._broken = f"{type(error).__name__}: {error}"
            if isinstance(error, UsageError) and self._writer is None:
                raise
            if disk and self._watchers:
                say(f"trueline stopped watching, the program goes on: {self._broken}", stacklevel=5)
            elif self._troubles == 1:
                say(f"trueline's watch has a fault, the program goes on: {said(error)}", stacklevel=5)
            return False
        return True


_running: weakref.WeakSet[Watch] = weakref.WeakSet()


def _after_fork() -> None:
    for one in list(_running):
        one.abandon()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
