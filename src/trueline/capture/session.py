"""``capture``: what users call to record a program."""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trueline.capture.about import run_info
from trueline.capture.notebook import Notebook
from trueline.capture.options import CaptureOptions, make_options
from trueline.capture.steps import StepClock
from trueline.errors import UsageError
from trueline.frameworks import machine
from trueline.records import Certificate
from trueline.store.writer import RankWriter, write_run_info


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
    last wanted step is done. ``framework`` is ``torch``, ``paddle`` or ``auto``: what the program has imported, both if
    it has both.
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
    )
    return Capture(Path(path), options, framework)


class Capture:
    """One recording. Faults of ours end the recording with one warning and never the program."""

    def __init__(self, path: Path, options: CaptureOptions, framework: str = "auto") -> None:
        self.path = path
        self.options = options
        self.certificate: Certificate | None = None
        self._framework = machine.chosen(framework)
        if options.targets and self._framework.names == ["torch"]:
            raise UsageError("targets are for Paddle; torch tells of every function by itself")
        self._clock: StepClock | None = None
        self._writer: RankWriter | None = None
        self._notebook: Notebook | None = None
        self._watcher: Any = None
        self._finished = False

    def __enter__(self) -> Capture:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Capture:
        """Begins to record."""
        if self._clock is not None or self._finished:
            raise UsageError("this capture was started before; make a new one, with another path")
        rank, world = self._framework.rank()
        self._clock = StepClock(self.options.steps)
        wanted = self.options.ranks is None or rank in self.options.ranks
        if not wanted or not self._open(rank, world):
            self._finished = True
            return self
        self._framework.on_optimizer(self._optimizer_begins, self._optimizer_ends)
        atexit.register(self.stop)
        _running.add(self)
        if self._clock.wanted:
            self._watcher.start()
        return self

    def step(self) -> None:
        """Tells that a training step ends here. Without it, steps end with ``optimizer.step()``."""
        if not self._finished and self._clock is not None and self._clock.told():
            self._turn()

    def also(self, framework: str) -> None:
        """Records another framework too, which the program has only just imported."""
        if not self._finished and self._notebook is not None and framework not in self._framework.names:
            self._framework.add(machine.adapter(framework))
            self._notebook.event("framework", f"{framework} was imported later and is recorded from then on")

    def stop(self) -> None:
        """Ends the recording and finishes the Run."""
        self._finish()
        self._framework.off_optimizer()

    def _finish(self) -> None:
        """Ends the recording; may run inside an optimizer's hook, which must not be taken away just then: it stays,
        asleep, until ``stop``."""
        if self._finished or self._clock is None:
            return
        self._finished = True
        atexit.unregister(self.stop)
        _running.discard(self)
        assert self._watcher is not None and self._notebook is not None and self._writer is not None
        try:
            self._watcher.close()
            self._notebook.flush()
        except Exception as error:
            self._notebook.trouble(error)
        self._writer.drain()
        self._notebook.flush()  # what the writer's thread found out while it read the last tensors
        self._writer.drain()
        self.certificate = self._certify()
        self._writer.close(asdict(self.certificate))
        self._watcher = None

    def abandon(self) -> None:
        """Lets go in a process that was forked from the captured one: the Run belongs to the parent, and so does the
        thread that writes it. Whoever recorded here would wait for that thread for ever."""
        if self._finished:
            return
        self._finished = True
        atexit.unregister(self.stop)
        self._watcher.abandon()
        self._framework.off_optimizer()

    def _open(self, rank: int, world: int) -> bool:
        """Makes the Run; a path that cannot be written is one warning, not the end of the program."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._writer = RankWriter(self.path, rank)
            write_run_info(self.path, run_info(self._framework, world, self.options.as_json()))
        except OSError as error:
            warnings.warn(
                f"trueline records nothing, the program goes on: cannot write {self.path}: {error}",
                RuntimeWarning,
                stacklevel=4,
            )
            return False
        self._notebook = Notebook(self._writer)
        self._watcher = self._framework.watcher(self._notebook, self.options.scope())
        return True

    def _optimizer_begins(self, optimizer: Any) -> None:
        if not self._finished:
            self._watcher.optimizer_begins(optimizer)

    def _optimizer_ends(self, optimizer: Any) -> None:
        if self._finished or self._clock is None:
            return
        self._watcher.optimizer_ends(optimizer)
        if self._clock.found():
            self._turn()

    def _turn(self) -> None:
        """A step has ended: close it, open the next one if it is wanted."""
        clock, notebook, watcher = self._clock, self._notebook, self._watcher
        assert clock is not None and notebook is not None and watcher is not None
        try:
            if clock.wanted and not notebook.broken:
                watcher.turn()
            else:
                watcher.pause()
            notebook.flush()
            notebook.step = clock.now
        except Exception as error:
            notebook.trouble(error)
        if notebook.broken:
            self._give_up(notebook.broken)
            return
        if clock.wanted:
            watcher.start()  # does nothing where it has never stopped
        elif clock.over:
            self._finish()
            if self.options.exit_after_last_step:
                print(f"trueline: recorded the last step that was asked for; ending the program ({self.path})")
                raise SystemExit(0)

    def _give_up(self, reason: str) -> None:
        assert self._writer is not None
        if not self._writer.failed:  # the writer has warned already
            warnings.warn(f"trueline stopped recording, the program goes on: {reason}", RuntimeWarning, stacklevel=3)
        self._finish()

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
            complete=not notebook.broken,
            stopped_because=notebook.broken,
        )


_running: weakref.WeakSet[Capture] = weakref.WeakSet()


def _after_fork() -> None:
    for one in list(_running):
        one.abandon()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
