"""A light watcher that is told what it sees: steps of looks, and what is held of a bad one.

fake = FakeLight()
fake.see(step=0, look("loss", sink=Sink.LOSS))
fake.hold(0, [held("torch.log", inputs=[array], outputs=[array])])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.frameworks.light import (
    LOOKS,
    Examination,
    HeldCall,
    HeldTensor,
    LightOptions,
    LightWatcher,
    LookName,
    Sink,
    StepLooks,
)
from trueline.frameworks.several import Several
from trueline.numerics.light import LOOK, look_at
from trueline.records import Frame, Phase, Role


def row(array: np.ndarray[Any, Any]) -> Any:
    """The exact look at an array."""
    found = np.zeros(1, LOOK)
    found[0] = look_at(array, dtype_named(array.dtype.name))
    return found[0]


def look_name(api: str, *, dtype: str = "float32", path: str = "out", phase: Phase = Phase.FORWARD) -> LookName:
    return LookName(api, 0, phase, Role.OUTPUT, path, dtype, "model.layer", "Linear")


class FakeLight:
    """Gives at the end of each step what ``looks_of`` says."""

    def __init__(self) -> None:
        self.names: list[LookName] = []
        self.trouble: dict[str, int] = {}
        self.partial: Callable[[int], list[tuple[LookName, Any, Sink]]] = lambda step: []
        self.looks_of: Callable[[int], list[tuple[LookName, Any, Sink]]] = lambda step: []
        self.found_inf: Callable[[int], bool | None] = lambda step: None
        self.held: dict[int, Sequence[HeldCall]] = {}
        self.examined: list[int] = []
        self.forgotten: list[int] = []
        self.running = False
        self.ran = False
        """Whether the program did anything in this step."""
        self._step = 0
        self._waiting: list[StepLooks] = []

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def abandon(self) -> None:
        self.running = False

    def end_step(self, step: int) -> None:
        self._waiting.append(self._looks(step, self.looks_of(step) if self.ran else [], partial=False))
        self._step, self.ran = step + 1, False

    def poll(self) -> Sequence[StepLooks]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def examine(self, step: int) -> Examination:
        self.examined.append(step)
        calls = tuple(self.held.get(step, ()))
        return Examination(step, None, calls, 0)

    def forget(self, step: int) -> None:
        self.forgotten.append(step)

    def optimizer_begins(self, optimizer: Any) -> None:
        self.ran = True
        seen = self.partial(self._step)
        if seen:
            self._waiting.append(self._looks(self._step, seen, partial=True))

    def optimizer_ends(self, optimizer: Any) -> None: ...

    def _looks(self, step: int, seen: list[tuple[LookName, Any, Sink]], *, partial: bool) -> StepLooks:
        rows = np.zeros(len(seen), LOOKS)
        for place, (name, look, sink) in enumerate(seen):
            if name not in self.names:
                self.names.append(name)
            for field in LOOK.names or ():
                rows[place][field] = look[field]
            rows[place]["name"], rows[place]["sink"], rows[place]["call"] = self.names.index(name), sink, -1
        found = self.found_inf(step)
        return StepLooks(step, rows, self.names, partial, found, not found)


class FakeAdapter:
    """A framework of which nothing is there but a light watcher."""

    name = "fake"

    def __init__(self, light: LightWatcher, rank: int = 0, world: int = 1) -> None:
        self._light = light
        self._rank = (rank, world)
        self.begins: Callable[[Any], None] | None = None
        self.ends: Callable[[Any], None] | None = None

    def version(self) -> str:
        return "0"

    def way(self) -> str:
        return "portable (a fake)"

    def devices(self) -> list[str]:
        return ["cpu"]

    def rank(self) -> tuple[int, int]:
        return self._rank

    def seed(self) -> int | None:
        return None

    def light_watcher(self, options: LightOptions) -> LightWatcher:
        return self._light

    def on_optimizer(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None:
        self.begins, self.ends = begins, ends

    def off_optimizer(self) -> None:
        self.begins = self.ends = None

    def optimizer_step(self) -> None:
        """What a framework does when a program lets an optimizer step."""
        assert self.begins is not None and self.ends is not None
        self.begins(None)
        self.ends(None)

    def several(self) -> Several:
        return Several([self])  # type: ignore[list-item]


def held(
    number: int,
    api: str,
    inputs: Sequence[np.ndarray[Any, Any]],
    outputs: Sequence[np.ndarray[Any, Any]],
    *,
    step: int,
    phase: Phase = Phase.FORWARD,
    forward: int | None = None,
    module: str = "model.layer",
    context: str = "",
    requires_grad: bool = True,
) -> HeldCall:
    """A held call of plain arrays; the same array object is the same tensor."""
    backward = phase is Phase.BACKWARD
    paths = [("out" if place == 0 else f"out.{place}") if backward else f"args.{place}" for place in range(len(inputs))]
    leaving = [f"args.{place}" if backward else ("out" if len(outputs) == 1 else f"out.{place}")
               for place in range(len(outputs))]  # fmt: skip
    first = len(inputs)
    arguments: Any = {"args": [{"$t": place} for place in range(first)], "kwargs": {}}
    result: Any = {
        "out": {"$t": first} if len(outputs) == 1 else {"$tuple": [{"$t": first + n} for n in range(len(outputs))]}
    }
    if backward:
        arguments = {path: {"$t": place} for place, path in enumerate(paths)}
        result = {path: {"$t": first + place} for place, path in enumerate(leaving)}
    tensors = [_tensor(Role.INPUT, paths[n], n, array, requires_grad) for n, array in enumerate(inputs)]
    tensors += [_tensor(Role.OUTPUT, leaving[n], first + n, array, requires_grad) for n, array in enumerate(outputs)]
    return HeldCall(
        number, api, 0, step, phase, module, "Linear", context, 0, forward, arguments, result,
        (Frame("train.py", 10 + number, "forward"),), tuple(tensors),
    )  # fmt: skip


def _tensor(role: Role, path: str, leaf: int, array: np.ndarray[Any, Any], requires_grad: bool) -> HeldTensor:
    return HeldTensor(
        role, path, leaf, id(array), array.dtype.name, array.shape,
        tuple(step // array.itemsize for step in array.strides), "cpu", requires_grad, row(array), "",
        lambda: memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)),
    )  # fmt: skip
