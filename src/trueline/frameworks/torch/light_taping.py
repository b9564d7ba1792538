"""How a light watch of a PyTorch program keeps a tape: when, from where to where, and what is done with it.

A part of ``light.TorchLightWatcher``.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from trueline.frameworks.light import Examination, LightOptions, Sink
from trueline.frameworks.torch import light_looks, regions
from trueline.frameworks.torch.doors import TorchWatcher
from trueline.frameworks.torch.light_calls import Entry
from trueline.frameworks.torch.light_examine import Examiner
from trueline.frameworks.torch.light_names import LookNames, entry_numbered
from trueline.frameworks.torch.light_replay import Replay
from trueline.frameworks.torch.light_share import Share
from trueline.frameworks.torch.light_steps import Step, free_memory
from trueline.frameworks.torch.light_tape import (
    EngineRun,
    Tape,
    default_device,
    has_own_modes,
    most_waiting,
    random_states,
    with_refs,
)
from trueline.frameworks.torch.modes import push, remove
from trueline.frameworks.torch.unseen import Unseen, kernels_are_seen

SAMPLE = 16
"""As in ``_calls_light.h``."""
PLAYED_SHARE = 0.5
"""Of the memory that is free: what may be held of a step that is computed again."""
LOOK_AT_MEMORY = 16
"""In every so many steps it is asked how much memory the program uses."""


class Taping(TorchWatcher):
    """Keeps the tape of the running step."""

    watch: Any
    options: LightOptions
    _now: Step
    _names: LookNames

    def _prepare_tape(self) -> None:
        self._tape = Tape()
        self._share = Share(self.options.budget)
        self._had_backward = True
        self._turns = 0
        self._has_engine = False
        self._calls = self._spent = 0
        """On the parts of the tape of this step that were cut off."""
        self._tape_began = 0.0

    def _why_not_taped(self) -> str:
        """Why there are no calls of a step that is left out."""
        if not self.watch.resting:
            return ""
        every = self._share.every
        return f"it was not recorded: one step in {every} is, to keep to the budget of the watch; the next ones all are"

    def _find(self) -> None:
        if not self._found:
            super()._find()
            for function in regions.backwards():
                if function.__name__ == "_engine_run_backward":  # older versions of torch have others: nothing is taped
                    self._splice(self._inside, function, self._engine)
                    self._has_engine = True

    def _begin_tape(self) -> None:
        """A step begins: on a device it is put on a tape, or left out; else its calls are held."""
        recorder = self.watch.recorder
        if recorder is None:
            return
        may = self._may_tape()
        tapes = may and (self._share.wants_next() or not self._had_backward)
        self._rest(may and not tapes)
        recorder.taping = tapes
        recorder.keep_last = not self._had_backward
        if tapes:
            self.watch.new_step(self._turns, self.options.tape_rotation or self.options.rotation)
            if self._turns % LOOK_AT_MEMORY == 0:
                recorder.most_waiting = most_waiting()
            self._turns += 1
        self._new_tape()
        self._tape_began = time.perf_counter()

    def _new_tape(self) -> None:
        self.watch.recorder.new_tape()
        taping = self.watch.taping
        self._tape = Tape(random=random_states(), device=default_device()) if taping else Tape()
        self.watch.received = self._tape.received

    def _rest(self, rests: bool) -> None:
        """Takes our mode away for a step, or puts it back."""
        if rests != self.watch.resting:
            self.watch.resting = rests
            (remove if rests else push)(self._mode)

    def _end_tape(self) -> None:
        """A step has ended."""
        if self.watch.taping:
            recorder = self.watch.recorder
            spent, calls = self._spent + _spent(recorder), self._calls + recorder.calls
            self._share.ended(calls, spent, time.perf_counter() - self._tape_began)
        self._calls = self._spent = 0
        self._had_backward = self._now.backward

    def _may_tape(self) -> bool:
        """Whether the next step may be put on a tape: it would come out the same when it is played without the modes
        of the program."""
        if not self._has_engine or self.watch.outside or kernels_are_seen() or has_own_modes(self._mode):
            return False
        return self.watch.looks.any_later or (torch.cuda.is_available() and torch.cuda.is_initialized())

    def _before_change(self, tensors: list[torch.Tensor]) -> None:
        self._tape.before_change(tensors, self.watch.own.limit // 4)

    def _engine(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stands in for the function by which gradients are computed."""
        run, watch = None, self.watch
        if watch.looking and (watch.taping or watch.resting) and torch._C._current_graph_task_id() == -1:
            try:
                if watch.taping:
                    run = self._begin_run(args, kwargs)
                else:
                    self._look_at_roots(args[0])
            except Exception as error:
                self.watch.notebook.trouble(error)
        made = original(*args, **kwargs)
        if run is not None and made is not None:
            given = [one for one in made if one is not None]
            for leaf, tensor in enumerate(given):
                self.watch.recorder.made(run.number, leaf, tensor, True)
        return made

    def _look_at_roots(self, roots: Any) -> None:
        """In a step that is not on the tape: what gradients are computed of."""
        self._now.backward, self._now.graded = True, False
        site = self._names.other("loss")
        with Unseen():
            for root in roots:
                self.watch.looks.add(root.detach(), -1, site, light_looks.PARAMETER, 0, Sink.LOSS)

    def _begin_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> EngineRun:
        watch, recorder = self.watch, self.watch.recorder
        roots = with_refs(tuple(args[0]), recorder.taped, (torch.Tensor,))
        others = with_refs(args[1:], recorder.taped, (torch.Tensor,))
        named = {name: with_refs(value, recorder.taped, (torch.Tensor,)) for name, value in kwargs.items()}
        run = EngineRun(recorder.take_number(), roots, others, named)
        self._now.backward, self._now.graded = True, False
        for ref, root in zip(roots, args[0], strict=True):
            entry = entry_numbered(watch.entries, ref.number) if type(ref) is watch.ref_type else None
            if entry is not None:
                with Unseen():
                    watch.looks.add(root.detach(), ref.number, entry[1], light_looks.OUTPUT, ref.leaf, Sink.LOSS)
        self._tape.runs.append(run)
        return run

    def _played(self, step: int, entries: list[Entry], tape: Tape, found: Step) -> Examination:
        """What comes of a step that is computed again."""
        if torch._C._current_graph_task_id() != -1:
            note = "it could not be computed again while gradients are being computed"
            return Examination(step, None, (), len(entries), note)
        replay = Replay(self.watch, entries, tape, found.all_rows(), limit=int(PLAYED_SHARE * free_memory()))
        rows = replay.play()
        examiner = Examiner(self.watch, replay.entries, rows)
        return examiner.examination(step, found.missed + replay.missed, replay.note)

    def _cut_tape(self) -> None:
        """An optimizer has stepped: what came before cannot be played any more, and was good or has been examined."""
        self._names.learn(self._now.rows[self._now.given :], self.watch.entries)
        self._now.missed += len(self.watch.entries)
        self.watch.entries.clear()
        recorder = self.watch.recorder
        self._calls += recorder.calls
        self._spent += _spent(recorder)
        self._new_tape()

    def _hear_of_it(self) -> None:
        """Waits for what a device was asked, so that a step is known to be bad before its parameters are changed."""
        sent = self.watch.looks.collect()
        if sent:
            self._now.arriving += sent
            self._now.elsewhere = True
        self._now.arrived(wait=True)
        if self.watch.taping or self.watch.resting:
            self._share.hear(self._now.all_rows())


def _spent(recorder: Any) -> int:
    """The nanoseconds that the calls on the tape took us."""
    return int(recorder.spent) * SAMPLE + int(recorder.spent_on_hooks) + int(recorder.spent_on_sending)
