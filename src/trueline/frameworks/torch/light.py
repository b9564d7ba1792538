"""The light watch of a PyTorch program: see ``frameworks.light``.

``light_calls`` sees the calls and holds on to them, ``light_looks`` reads, ``light_examine`` looks into a step that
went bad. Here is what happens when: steps, backwards, optimizers; what is let go of, and when.

While an optimizer steps nothing is watched: it makes hundreds of calls, and says itself what it changes. Its gradients
are looked at before it begins and its parameters, in rotation, after it has ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trueline.frameworks.light import Examination, LightOptions, LookName, Sink, StepLooks
from trueline.frameworks.torch import light_looks
from trueline.frameworks.torch.light_calls import FORWARD_FIELDS, Entry, LightWatch
from trueline.frameworks.torch.light_examine import Examiner
from trueline.frameworks.torch.light_hold import is_parameter, wants_grad
from trueline.frameworks.torch.light_leaves import leaves_of, place_of
from trueline.frameworks.torch.light_looks import RAW
from trueline.frameworks.torch.light_names import LookNames, entry_numbered
from trueline.frameworks.torch.light_notebook import LightTraits
from trueline.frameworks.torch.light_steps import Step, free_memory
from trueline.frameworks.torch.light_tape import Tape, parts_of
from trueline.frameworks.torch.light_taping import Taping
from trueline.frameworks.torch.modes import push, remove
from trueline.frameworks.torch.unseen import Unseen, bytes_of

CHEAP = 0.03
"""The share of a step that looking at everything may take; then all is looked at in every step."""
DEAR = 0.06
BAD_STEPS = 2
"""So many bad steps are held until they are forgotten; the first ones, since what follows is their doing."""
LEAST_HELD = 64 << 20


class TorchLightWatcher(Taping):
    """Watches a PyTorch program lightly."""

    watch: Any

    def __init__(self, options: LightOptions | None = None) -> None:
        self.options = options or LightOptions()
        self._now = Step(0)
        self._steps: dict[int, Step] = {}
        self._began = 0.0
        self._rotation = 1 if self.options.whole else self.options.rotation
        self._stopped = False
        self.watch = self._make_watch()
        self.trouble: dict[str, int] = self.watch.notebook.trouble_texts
        self._scope = self.watch.scope
        self._traits = LightTraits(self.watch)
        self._prepare(record=True)
        self._listen()
        self._names = LookNames(self.watch, self._modules)
        self.names: Sequence[LookName] = self._names.names
        self._asleep = False
        self._prepare_tape()

    def _make_watch(self) -> LightWatch:
        return LightWatch(
            self.options,
            backward_begins=self._backward_begins,
            over_limit=self._over_limit,
            before_change=self._before_change,
        )

    # Beginning and ending.

    def start(self) -> None:
        if self.watch.looking or self._stopped:
            return
        self._set_limit()
        self.watch.new_step(0, self._rotation)
        self._began = time.process_time()
        self._open()
        self._share.measure(self._mode)
        self._begin_tape()

    def stop(self) -> None:
        self._shut()
        if self._stopped:
            return
        self._stopped, self._asleep = True, False
        with Unseen():
            if self._now.entries or self.watch.entries or self._now.rows:
                self._close_step(self._now.number)
            for step in self._steps.values():
                step.arrived(wait=True)
            self._settle()
            if self.watch.recorder is not None:
                self.watch.recorder.new_tape()

    def pause(self) -> None:
        self.stop()

    def close(self) -> None:
        self.stop()

    def turn(self) -> None:
        self.end_step(self._now.number)

    def abandon(self) -> None:
        self._stopped = True
        super().abandon()
        self.watch.entries.clear()
        self._steps.clear()
        self._now = Step(0)
        self._tape = Tape()

    # Steps.

    def end_step(self, step: int) -> None:
        if self._stopped:
            return
        try:
            with Unseen():
                self._close_step(step)
                self._settle()
        except Exception as error:
            self.watch.notebook.trouble(error)
        self.watch.state.modules.clear()
        if self._asleep:  # an optimizer raised in the middle of its step
            self._wake()
        self._adapt()
        self._end_tape()
        self._now = Step(step + 1)
        self.watch.new_step(step + 1, self._rotation)
        self._begin_tape()
        self._began = time.process_time()

    def _close_step(self, number: int) -> None:
        now = self._now
        now.number = number
        if now.backward and not now.graded:
            self._look_at_gradients(self._parameters_held())
        elif not now.backward:
            self._look_at_result()
        self._gather(now)
        self.watch.end_recent()
        now.entries = self.watch.entries[:]
        now.tape = self._tape if self.watch.taping else None
        del self.watch.entries[:]
        now.bytes = self.watch.own.held - sum(step.bytes for step in self._steps.values())
        sent = self.watch.looks.collect()
        now.arriving += sent
        now.elsewhere |= bool(sent)
        now.ended = True
        self._steps[number] = now

    def _gather(self, step: Step) -> None:
        step.rows += self.watch.looks.take()

    def _adapt(self) -> None:
        """Looks at every call in each step where that is cheap. What it costs a device nobody here knows."""
        spent, elapsed = self.watch.own.nanoseconds * 1e-9, time.process_time() - self._began
        if self.watch.recorder is None or self.options.rotation == 1 or self.options.whole:
            return
        if elapsed <= 0 or self._now.elsewhere:
            return
        if self._rotation != 1 and spent * self._rotation < CHEAP * elapsed:
            self._rotation = 1
        elif self._rotation == 1 and spent > DEAR * elapsed:
            self._rotation = self.options.rotation

    def _settle(self) -> None:
        """Lets go of steps whose sinks have come back good, and of bad ones that are too many."""
        bad = 0
        for step in list(self._steps.values()):
            if not step.arrived():
                continue
            if step.entries and step.is_bad():
                bad += 1
                if bad <= BAD_STEPS:
                    continue
            self._release(step)
            if step.reported and step.given == len(step.rows) and not step.entries:
                self._steps.pop(step.number, None)

    def _release(self, step: Step) -> None:
        if step.entries:
            self._names.learn(step.rows[step.given :], step.entries)
            step.missed += len(step.entries)
        step.entries = []
        step.tape = None
        self.watch.own.held -= step.bytes
        step.bytes = 0

    def poll(self) -> Sequence[StepLooks]:
        with Unseen():
            self._gather(self._now)
            self._settle()
            found = [
                looks for step in [*self._steps.values(), self._now] if (looks := self._looks_of(step)) is not None
            ]
            for number in [step.number for step in self._steps.values() if step.reported and not step.entries]:
                self._steps.pop(number)
        return found

    def _looks_of(self, step: Step) -> StepLooks | None:
        whole = step.ended and not step.arriving
        if step.reported or (step.given == len(step.rows) and not whole):
            return None
        fresh = step.rows[step.given :]
        step.given = len(step.rows)
        step.reported = whole
        raw = np.concatenate(fresh) if fresh else np.zeros(0, RAW)
        entries = step.entries if step.ended else self.watch.entries
        named = self._names.named(raw, entries)
        return StepLooks(step.number, named, self.names, not whole, step.found_inf(), step.stepped)

    def forget(self, step: int) -> None:
        for number in [number for number in self._steps if number <= step]:
            self._release(self._steps[number])
            if self._steps[number].reported:
                self._steps.pop(number)
        if self._now.number <= step and not self._now.ended:
            self._now.missed += len(self.watch.entries)
            self.watch.entries.clear()
            self.watch.own.held = sum(one.bytes for one in self._steps.values())

    def examine(self, step: int) -> Examination:
        with Unseen():
            found = self._steps.get(step)
            if found is None and step == self._now.number:
                found = self._now
                self._gather(found)
                self.watch.looks.send()
                found.arriving += self.watch.looks.collect()
            if found is None:
                return Examination(step, None, ())
            if found is self._now and self.watch.resting:
                return Examination(step, None, (), note=self._why_not_taped())
            found.arrived(wait=True)
            entries = found.entries if found.ended else self.watch.entries[:]
            tape = found.tape if found.ended else self._tape if self.watch.taping else None
            if tape is not None and entries:
                return self._played(step, entries, tape, found)
            examiner = Examiner(self.watch, entries, found.all_rows())
            return examiner.examination(step, found.missed)

    # What is looked at in every step.

    def _backward_begins(self, forward: int) -> None:
        """A backward begins at the output of this call: its loss."""
        if self.watch.taping:  # it has been looked at
            return
        now = self._now
        now.backward, now.graded = True, False
        entry = entry_numbered(self.watch.entries, forward)
        if entry is None:
            return
        for leaf, tensor in enumerate(leaves_of((entry[5],), None)):
            if wants_grad(tensor):
                self.watch.looks.add(tensor, forward, entry[1], light_looks.OUTPUT, leaf, Sink.LOSS)

    def _look_at_result(self) -> None:
        """In a step without a backward, what its last call gave stands for what the step was for."""
        if self.watch.taping:
            number, site, *last = self.watch.recorder.last or (-1, -1)
            for leaf, tensor in enumerate(last):
                self.watch.looks.add(tensor, number, site, light_looks.OUTPUT, leaf, Sink.RESULT)
            return
        entry = next((entry for entry in reversed(self.watch.entries) if len(entry) == FORWARD_FIELDS), None)
        if entry is None or isinstance(entry[5], str):
            return
        for leaf, tensor in enumerate(leaves_of((entry[5],), None)):
            self.watch.looks.add(tensor, entry[0], entry[1], light_looks.OUTPUT, leaf, Sink.RESULT)

    def optimizer_begins(self, optimizer: Any) -> None:
        if not self.watch.looking or self._stopped:
            return
        try:
            with Unseen():
                found = getattr(optimizer, "found_inf", None)
                if isinstance(found, torch.Tensor):
                    site = self._names.other("found_inf")
                    self.watch.looks.add(found, -1, site, light_looks.PARAMETER, 0, Sink.SCALER)
                parameters = [one for group in optimizer.param_groups for one in group["params"]]
                self._look_at_gradients(parameters)
                self._now.graded = True
                self._hear_of_it()
        except Exception as error:
            self.watch.notebook.trouble(error)
        remove(self._mode)
        self._asleep = True

    def optimizer_ends(self, optimizer: Any) -> None:
        if not self._asleep:
            return
        try:
            with Unseen():
                self._now.stepped = True
                if self.watch.taping:
                    self._cut_tape()
                self._look_at_parameters(optimizer)
        except Exception as error:
            self.watch.notebook.trouble(error)
        self._wake()

    def _wake(self) -> None:
        self._asleep = False
        if not self.watch.resting:
            push(self._mode)

    def _look_at_gradients(self, parameters: list[torch.Tensor]) -> None:
        self.watch.looks.add_gradients(parameters, self._names.parameters(parameters))
        self.watch.looks.send()

    def _look_at_parameters(self, optimizer: Any) -> None:
        turn, add = self._now.number, self.watch.looks.add
        self._gather(self._now)
        rotation = 1 if self._now.is_bad() else self._rotation
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        sites = self._names.parameters(parameters)
        for position in range(turn % rotation, len(parameters), rotation):
            add(parameters[position], -1, sites[position], light_looks.PARAMETER, 0, Sink.PARAMETER)
        self.watch.looks.send()

    def _parameters_held(self) -> list[torch.Tensor]:
        """The leaves that calls of this step were given and whose gradient is wanted."""
        found: dict[int, torch.Tensor] = {}
        for entry in self.watch.entries:
            if len(entry) == FORWARD_FIELDS:
                for tensor in parts_of(entry[3:5]):
                    if isinstance(tensor, torch.Tensor) and is_parameter(tensor):
                        found[id(tensor)] = tensor
        return list(found.values())

    # Memory.

    def _set_limit(self) -> None:
        hold = self.options.hold
        self.watch.own.limit = int(hold) if hold >= 1 else max(LEAST_HELD, int(hold * free_memory()))

    def _over_limit(self) -> None:
        """Too much is held: known steps go first, then the oldest calls of this one, each looked at before it goes."""
        try:
            with Unseen():
                self._settle()
                own = self.watch.own
                if own.held <= own.limit:
                    return
                for step in list(self._steps.values()):
                    self._release(step)
                if own.held > own.limit and not self.watch.taping:
                    self._evict()
        except Exception as error:
            self.watch.notebook.trouble(error)

    def _evict(self) -> None:
        entries, own = self.watch.entries, self.watch.own
        count = max(1, len(entries) // 4)
        for entry in entries[:count]:
            own.held = max(0, own.held - self._look_before_it_goes(entry))
        self.watch.looks.send()
        del entries[:count]
        self._now.missed += count

    def _look_before_it_goes(self, entry: Entry) -> int:
        """Looks at what an entry holds, since nobody can any more; gives the bytes that it held."""
        add = self.watch.looks.add
        if len(entry) == FORWARD_FIELDS:
            given = {place_of(tensor) for tensor in leaves_of(entry[3], entry[4])}
            tensors = list(enumerate([] if isinstance(entry[5], str) else leaves_of((entry[5],), None)))
            part, freed = light_looks.OUTPUT, [one for _, one in tensors if place_of(one) not in given]
        else:
            gradients = entry[4][0] if entry[4] else ()
            tensors = [(leaf, gradients[at]) for at, leaf in entry[5] if gradients and gradients[at] is not None]
            part, freed = light_looks.GRADIENT, [one for _, one in tensors]
        for leaf, tensor in tensors:
            add(tensor, entry[0], entry[1], part, leaf, Sink.NONE)
        return sum(bytes_of(tensor) for tensor in freed)


def make(options: LightOptions) -> TorchLightWatcher:
    return TorchLightWatcher(options)
