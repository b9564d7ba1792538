"""``capture``: what users call to record a program."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trueline.capture.about import run_info
from trueline.capture.interrupts import HeldSignals
from trueline.capture.notebook import Notebook
from trueline.capture.options import CaptureOptions, make_options
from trueline.capture.saying import said, say
from trueline.capture.steps import StepClock
from trueline.errors import UsageError
from trueline.frameworks import machine
from trueline.records import Certificate
from trueline.store.interrupts import from_handler
from trueline.store.segments import SegmentWriter
from trueline.store.writer import RankWriter, Tensors, write_run_info


def capture(
    path: str | os.PathLike[str],
    *,
    level: str = "api",
    data: str = "stats",
    steps: Sequence[int] | str | int | None = None,
    ranks: Sequence[int] | str | int | None = None,
    apis: Sequence[str] | str = (),
    modules: Sequence[str] | str = (),
    calls: Sequence[str] | str = (),
    between: Sequence[str] | None = None,
    stacks: bool = True,
    integers: bool = True,
    backward: bool = True,
    witness: bool = False,
    targets: Sequence[str] | str = (),
    exit_after_last_step: bool = False,
    every: int = 1,
    framework: str = "auto",
) -> Capture:
    """Records every call of a program into a Run.

    Use it as a context manager, or call ``start()`` and ``stop()``::

        with trueline.capture("runs/a", data="tensors", steps=[2]) as cap:
            for batch in loader:
                train_step(batch)
                cap.step()

    ``level`` is ``api`` (every Python-level call), ``module``, ``kernel`` or ``api+module``. ``data`` is ``structure``,
    ``stats``, ``digest`` or ``tensors``. ``steps`` and ``ranks`` limit what is recorded; ``apis`` and ``modules`` are
    globs; ``calls`` are names such as ``torch.relu.3``; ``between`` is the first and the last of a range of such
    names. Steps are found from ``optimizer.step()`` unless ``step()`` tells them. ``witness`` counts kernels that ran
    outside any recorded call (slower). ``targets`` are functions to be recorded besides those of the framework: full
    names, or files in the form of ``op_target.yaml`` (Paddle only). ``exit_after_last_step`` ends the program when the
    last wanted step is done. ``every`` records each so many-th step alone (0, N, 2N, …), so that a capture can stay on
    for a long training; the steps between cost nothing. ``framework`` is ``torch``, ``paddle`` or ``auto``: what the
    program has imported, both if it has both.
    """
    options = make_options(
        level=level,
        data=data,
        steps=steps,
        ranks=ranks,
        apis=apis,
        modules=modules,
        calls=calls,
        between=between,
        stacks=stacks,
        integers=integers,
        backward=backward,
        witness=witness,
        targets=targets,
        exit_after_last_step=exit_after_last_step,
        every=every,
    )
    return Capture(Path(path), options, framework)


class Capture:
    """One recording. Faults of ours end the recording with one warning and never the program."""

    def __init__(self, path: Path, options: CaptureOptions, framework: str = "auto") -> None:
        self.path = path
        self.options = options
        self.certificate: Certificate | None = None
        self.tensors: Callable[[Path], Tensors] = SegmentWriter
        """Makes what takes the bytes of tensors."""
        self._framework = machine.chosen(framework)
        if options.targets and self._framework.names == ["torch"]:
            raise UsageError("targets are for Paddle; torch tells of every function by itself")
        self._clock: StepClock | None = None
        self._writer: RankWriter | None = None
        self._notebook: Notebook | None = None
        self._watcher: Any = None
        self._finished = False
        self._stopped_because = ""
        self.nothing_because = ""
        """Why nothing could be recorded; empty while all is well."""
        self._stepped: list[weakref.ref[Any]] = []
        """The optimizers that have stepped in a step that waits for its end."""
        self._lock = threading.RLock()
        """Held while a step ends: programs may train in several threads."""

    def __enter__(self) -> Capture:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Capture:
        """Begins to record, or says once why not; then nothing of ours is left in the program."""
        if self._clock is not None or self._finished:
            raise UsageError("this capture was started before; make a new one, with another path")
        self._clock = StepClock(self.options.steps, self.options.every)
        try:
            with HeldSignals():
                self._begin()
        except UsageError:
            self._leave()
            raise
        except BaseException as error:
            if isinstance(error, Exception) and not from_handler(error):
                self._cannot_begin(error)
                return self
            self._finish("interrupted as it began")
            self._leave()
            raise
        return self

    def step(self) -> None:
        """Tells that a training step ends here. Without it, steps end with ``optimizer.step()``."""
        waiting, self._stepped = bool(self._stepped), []
        if not self._finished and self._clock is not None and self._clock.told(waiting=waiting):
            self._turn()

    def also(self, framework: str) -> None:
        """Records another framework too, which the program has only just imported."""
        if self._finished or self._notebook is None or framework in self._framework.names:
            return
        try:
            self._framework.add(machine.adapter(framework))
            self._notebook.event("framework", f"{framework} was imported later and is recorded from then on")
        except Exception as error:
            say(f"trueline does not record {framework}, the program goes on: {said(error)}")
            self._notebook.tally.miss(f"calls of {framework}, which could not be watched: {said(error)}", lost=True)

    def stop(self) -> None:
        """Ends the recording and finishes the Run. An interrupt that comes meanwhile is heard when that is done."""
        with HeldSignals(), self._lock:
            self._finish()
            self._leave()

    def abandon(self) -> None:
        """Lets go in a process that was forked from the captured one: the Run belongs to the parent, and so does the
        thread that writes it. Whoever recorded here would wait for that thread for ever."""
        if self._finished:
            return
        self._finished = True
        if self._watcher is not None:
            with contextlib.suppress(Exception):  # the parent has the same one and will say what is wrong with it
                self._watcher.abandon()
        self._leave()

    # Beginning.

    def _begin(self) -> None:
        assert self._clock is not None
        rank, world = self._framework.rank()
        if self.options.ranks is not None and rank not in self.options.ranks:
            self._finished = True
            self.nothing_because = f"rank {rank} was not asked for"
            return
        self._open(rank, world)
        self._framework.on_optimizer(self._optimizer_begins, self._optimizer_ends)
        atexit.register(self.stop)
        _running.add(self)
        if self._clock.wanted:
            self._watcher.start()

    def _open(self, rank: int, world: int) -> None:
        """Makes the Run."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._writer = RankWriter(self.path, rank, self.tensors)
        write_run_info(self.path, run_info(self._framework, world, self.options.as_json()))
        self._notebook = Notebook(self._writer)
        self._notebook.on_model = self._end_if_stepped
        self._watcher = self._framework.watcher(self._notebook, self.options.scope())

    def _cannot_begin(self, error: Exception) -> None:
        self.nothing_because = f"cannot write {self.path}: {error}" if isinstance(error, OSError) else said(error)
        if self._notebook is not None:
            self._notebook.event("fault", self.nothing_because)
        self._finish(f"it could not begin: {self.nothing_because}")
        self._leave()
        say(f"trueline records nothing, the program goes on: {self.nothing_because}", stacklevel=4)

    # Ending.

    def _leave(self) -> None:
        """Takes away what does nothing any more."""
        atexit.unregister(self.stop)
        _running.discard(self)
        try:
            self._framework.off_optimizer()
        except Exception as error:
            say(f"trueline left a hook behind: {said(error)}")

    def _finish(self, because: str = "") -> None:
        """Ends the recording; may run inside an optimizer's hook, which must not be taken away just then: it stays,
        asleep, until ``stop``."""
        if self._finished or self._clock is None:
            return
        self._finished = True
        self._stopped_because = because
        atexit.unregister(self.stop)
        _running.discard(self)
        for step in (self._close_watcher, self._read_the_rest, self._close_writer):
            try:
                step()
            except Exception as error:
                self._trouble(error)
        self._watcher = None
        self._framework.forget()

    def _close_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    def _read_the_rest(self) -> None:
        if self._notebook is None or self._writer is None:
            return
        self._notebook.flush()
        self._writer.drain()
        self._notebook.flush()  # what the writer's thread found out while it read the last tensors
        self._writer.drain()

    def _close_writer(self) -> None:
        if self._writer is None:
            return
        self.certificate = self._certify() if self._notebook is not None else Certificate(
            complete=False, stopped_because=self._stopped_because
        )  # fmt: skip
        self._writer.close(asdict(self.certificate))

    def _trouble(self, error: BaseException) -> None:
        if self._notebook is not None:
            self._notebook.trouble(error)

    # Steps.

    def _optimizer_begins(self, optimizer: Any) -> None:
        if any(one() is optimizer for one in self._stepped):
            self._end_if_stepped()
        with self._lock:
            if not self._finished:
                self._guarded(self._watcher.optimizer_begins, optimizer)

    def _optimizer_ends(self, optimizer: Any) -> None:
        if self._finished or self._clock is None:
            return
        with self._lock:
            if not self._finished:
                self._guarded(self._watcher.optimizer_ends, optimizer)
            if self._notebook is not None and self._notebook.models_entered and self._clock.lasts():
                self._stepped.append(weakref.ref(optimizer))
                return
            self._stepped = []
            ended = self._clock.found()
        if ended:
            self._turn()

    def _end_if_stepped(self) -> None:
        """Ends a step that an optimizer has ended, now that another begins."""
        if self._stepped and not self._finished and self._clock is not None:
            self._stepped = []
            if self._clock.found():
                self._turn()

    def _guarded(self, action: Callable[..., Any], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:
            self._trouble(error)

    def _turn(self) -> None:
        """A step has ended: close it, open the next one if it is wanted."""
        with HeldSignals(), self._lock:
            over = self._turned()
        if over and self.options.exit_after_last_step:
            print(f"trueline: recorded the last step that was asked for; ending the program ({self.path})")
            raise SystemExit(0)

    def _turned(self) -> bool:
        """Whether that was the last step that is wanted."""
        clock, notebook = self._clock, self._notebook
        assert clock is not None and notebook is not None
        if self._finished:
            return False
        self._guarded(self._end_step, clock, notebook)
        if clock.wanted and not notebook.broken:
            try:
                self._watcher.start()  # does nothing where it has never stopped
            except Exception as error:
                self._give_up(said(error))
                return False
        if notebook.broken:
            self._give_up(notebook.broken)
        elif clock.over:
            self._finish()
            return True
        return False

    def _end_step(self, clock: StepClock, notebook: Notebook) -> None:
        if clock.wanted and not notebook.broken:
            self._watcher.turn()
        else:
            self._watcher.pause()
        notebook.flush()
        notebook.step, notebook.models_entered = clock.now, 0

    def _give_up(self, reason: str) -> None:
        assert self._writer is not None
        if not self._writer.failed:  # the writer has warned already
            say(f"trueline stopped recording, the program goes on: {reason}")
        self._finish(reason)

    def _certify(self) -> Certificate:
        notebook, writer = self._notebook, self._writer
        assert notebook is not None and writer is not None
        tally = notebook.tally
        watched = self.options.witness and "api" in self.options.level
        return Certificate(
            calls=dict(sorted(tally.calls.items())),
            tensors=notebook.next_tensor(),
            visits=tally.visits,
            bytes_seen=tally.bytes_seen,
            bytes_stored=writer.bytes_stored,
            not_recorded=dict(sorted(tally.not_recorded.items())),
            kernels_outside=dict(sorted(tally.kernels_outside.items())) if watched else None,
            kernels_inside=tally.kernels_inside,
            gradient_sums=tally.gradient_sums,
            complete=not (notebook.broken or self._stopped_because),
            stopped_because=notebook.broken or self._stopped_because,
            lost=tuple(sorted(tally.lost)),
            ways=self._framework.ways(),
        )


_running: weakref.WeakSet[Capture] = weakref.WeakSet()


def _after_fork() -> None:
    for one in list(_running):
        one.abandon()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
