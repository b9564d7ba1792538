"""Looks at every call of a PyTorch program as it ends, and tells of each that made NaN or infinity of finite numbers.

It is made of the parts of the light watch, but does not wait for the end of a step: a program that only infers has
none, and who is told at the call can stop there. A forward call is judged when it returns; the calls of a backward when
that has ended, before the program's next call returns or its optimizer begins. Every tensor is read, which costs more
than the light watch does.

A forward call that nothing can go backward from is let go of as soon as it has been judged; the others are held until
their step ends, or as long as there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trueline.frameworks.light import HeldCall, LightOptions, is_bad
from trueline.frameworks.torch.light import TorchLightWatcher
from trueline.frameworks.torch.light_calls import Entry, LightWatch
from trueline.frameworks.torch.light_examine import Examiner
from trueline.frameworks.torch.light_groups import exact_looks
from trueline.frameworks.torch.light_leaves import leaves_of
from trueline.frameworks.torch.light_looks import GRADIENT, RAW
from trueline.frameworks.torch.modes import remove
from trueline.frameworks.torch.unseen import Unseen, told
from trueline.records import Phase

_graph_task = torch._C._current_graph_task_id

Born = Callable[[HeldCall, HeldCall | None], None]
"""Told of a call that made something bad of clean inputs, and of the forward call of a backward one. What it raises
goes on to the program."""


def any_bad(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether NaN or infinity stands in one of these."""
    floats = [one for one in tensors if one.dtype.is_floating_point or one.dtype.is_complex]
    return any(look is not None and bool(is_bad(look)) for look in exact_looks(floats)) if floats else False


class AlarmWatch(LightWatch):
    """Judges forward calls as they end. ``ended`` is called after each, outside of any backward."""

    def __init__(
        self,
        options: LightOptions,
        *,
        backward_begins: Callable[[int], None],
        over_limit: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._ended = ended
        self._given: dict[int, bool] = {}
        """Of calls that may change what they are given, by number: whether that was bad before."""
        self.born: list[Entry] = []
        self.arrivals = False
        """Whether gradients have come that nobody has judged."""
        super().__init__(options, backward_begins=backward_begins, over_limit=over_limit)

    def _make_recorder(self) -> Any:
        return None  # the extension tells of no call as it ends

    def _begin(self, trait: Any, args: Any, kwargs: Any, frame: Any) -> tuple[Any, ...]:
        call = super()._begin(trait, args, kwargs, frame)
        number, inputs, mutates = call[0], call[4], call[5]
        if mutates:
            self._given[number] = any_bad(inputs)
        return call

    def _end(self, trait: Any, call: tuple[Any, ...], args: Any, kwargs: Any, result: Any) -> None:
        number, inputs, mutates = call[0], call[4], call[5]
        given, held = self._given.pop(number, None), self.held
        super()._end(trait, call, args, kwargs, result)
        outputs = [*leaves_of((result,), None), *(inputs if mutates else ())]
        if any_bad(outputs) and not (any_bad(inputs) if given is None else given):
            self.born.append(self.entries[-1])
        if not any(told(tensor, "requires_grad") for tensor in outputs) and self._is_last(number):
            self.entries.pop()
            self.held = held

    def _is_last(self, number: int) -> bool:
        return bool(self.entries) and self.entries[-1][0] == number

    def _closed(
        self, trait: Any, call: tuple[Any, ...], args: Any, kwargs: Any, result: Any, error: BaseException | None
    ) -> None:
        super()._closed(trait, call, args, kwargs, result, error)
        if error is None and self._looking and _graph_task() == -1:
            self._ended()

    def _look_in_turn(self, tensor: torch.Tensor, number: int, site: int, part: int, leaf: int) -> None:
        if part == GRADIENT:  # of a device: those in CPU memory are read as they arrive
            self.alarm |= any_bad([tensor])

    def arrived(self, forward: int, site: int, places: tuple[tuple[int, int], ...], gradients: tuple[Any, ...]) -> None:
        super().arrived(forward, site, places, gradients)
        if not self.arrivals:
            torch.autograd.Variable._execution_engine.queue_callback(self._ended)  # what it raises leaves backward()
        self.arrivals = True


class AlarmWatcher(TorchLightWatcher):
    """Tells ``born`` of every call that made something bad, as soon as it may."""

    def __init__(self, born: Born, options: LightOptions | None = None) -> None:
        self._born = born
        self._told: set[int] = set()
        self._counts: Counter[str] = Counter()
        """How often each API was called in the steps that are over."""
        super().__init__(options or LightOptions(whole=True))

    def _make_watch(self) -> LightWatch:
        return AlarmWatch(
            self.options, backward_begins=self._backward_begins, over_limit=self._over_limit, ended=self.judge
        )

    def judge(self) -> None:
        """Tells of what was born since the last time."""
        if self._stopped or not (self.watch.born or self.watch.arrivals):
            return
        found: list[tuple[HeldCall, HeldCall | None]] = []
        try:
            with Unseen():
                found = [(self._forward(entry), None) for entry in self.watch.born]
                self.watch.born.clear()
                found += self._backwards()
        except Exception as error:
            self.watch.notebook.trouble(error)
        for call, forward in found:
            self._born(self._counted_on(call), None if forward is None else self._counted_on(forward))

    def _counted_on(self, call: HeldCall) -> HeldCall:
        """A call with its number in the whole program, not in its step: names are to be told apart."""
        return replace(call, nth=call.nth + self._counts[call.api])

    def end_step(self, step: int) -> None:
        for trait in self._traits.known.values():
            if trait.step == self.watch.epoch:
                self._counts[trait.name] += trait.count
        super().end_step(step)

    def _forward(self, entry: Entry) -> HeldCall:
        (call,) = Examiner(self.watch, [entry], _no_rows()).examination(self._now.number, 0).calls
        return call

    def _backwards(self) -> list[tuple[HeldCall, HeldCall | None]]:
        """Backward calls that made something bad of a clean gradient, where forward all was clean."""
        if not self.watch.arrivals:
            return []
        self.watch.arrivals = False
        if not self.watch.alarm and not any_bad(_gradients(self._parameters_held())):
            return []
        self._gather(self._now)
        examiner = Examiner(self.watch, self.watch.entries, self._now.all_rows())
        calls = {call.number: call for call in examiner.examination(self._now.number, 0).calls}
        found: list[tuple[HeldCall, HeldCall | None]] = []
        for call in calls.values():
            forward = None if call.forward is None else calls.get(call.forward)
            if call.phase is not Phase.BACKWARD or forward is None or call.number in self._told:
                continue
            given = (*call.inputs, *forward.tensors)
            if any(one.bad for one in call.outputs) and not any(one.bad for one in given):
                self._told.add(call.number)
                found.append((call, forward))
        return found

    def optimizer_begins(self, optimizer: Any) -> None:
        if not self.watch.looking or self._stopped:
            return
        self.judge()
        remove(self._mode)
        self._asleep = True

    def optimizer_ends(self, optimizer: Any) -> None:
        if self._asleep:
            self._wake()


def _gradients(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [one.grad for one in parameters if one.grad is not None]


def _no_rows() -> Any:
    return np.zeros(0, RAW)
