"""Records the backward of one forward call: the gradients that reach its outputs and those it sends to its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.torch.graph import ACCUMULATE, Border, Window
from trueline.frameworks.torch.unseen import Unseen
from trueline.records import Role
from trueline.store.columns import NONE, ROLES

if TYPE_CHECKING:
    from trueline.frameworks.torch.opencalls import OpenCall
    from trueline.frameworks.torch.watch import Watch

INPUT, OUTPUT = ROLES.index(Role.INPUT), ROLES.index(Role.OUTPUT)


class BackwardWatch:
    """Waits at the border nodes of a call; writes one backward Call when all of them have run."""

    __slots__ = ("_call", "_fired", "_handles", "_result", "_step", "_watch", "arrived", "departed", "waits")

    def __init__(self, watch: Watch, call: OpenCall, result: int, border: Border) -> None:
        self._watch = watch
        self._call = (
            call.number, call.level, call.trait.name_id, call.nth, call.module, call.context, call.tree, call.stack,
        )  # fmt: skip
        self._result = result
        self._step = watch.notebook.step
        self.waits = len(border.nodes) - 1
        self._fired = 0
        self.arrived: dict[int, torch.Tensor] = {}
        self.departed: dict[int, torch.Tensor] = {}
        for node, arrivals, departures, window in border.nodes:
            final = frozenset(at for at, _ in departures if type(node.next_functions[at][0]) is ACCUMULATE)
            node.register_hook(_Hook(self, arrivals, departures, window, final))

    def fire(
        self,
        arrivals: list[tuple[int, int]],
        departures: list[tuple[int, int]],
        sent: tuple[Any, ...],
        received: tuple[Any, ...],
    ) -> None:
        """One border node has run: ``received`` are the gradients that reached it, ``sent`` those it sends on."""
        for position, leaf in arrivals:
            gradient = received[position]
            if gradient is not None:
                self.arrived[leaf] = gradient
        for position, leaf in departures:
            gradient = sent[position]
            if gradient is not None:
                earlier = self.departed.get(leaf)
                self.departed[leaf] = gradient if earlier is None else earlier + gradient
        self._fired += 1
        if self._fired > self.waits:
            self.close()

    def close(self) -> None:
        """Writes the backward call, if any gradient came by."""
        if self._fired:
            self._write()
        self._fired = 0
        self.arrived = {}
        self.departed = {}

    def _write(self) -> None:
        watch = self._watch
        look_all = watch.desk.look_all
        forward, level, name, nth, module, context, tree, stack = self._call
        arrived, departed = self.arrived, self.departed
        number = watch.notebook.next_call()
        key = (tree, self._result, tuple(arrived), tuple(departed))
        arguments, result = watch.backward_trees(key)
        visits: list[int] = []
        look_all(list(arrived.values()), number, 0, INPUT, visits)
        look_all(list(departed.values()), number, len(arrived), OUTPUT, visits)
        row = (
            number, level, 1, name, nth, self._step, module, context, watch.state.number, forward, arguments, result,
            NONE, stack,
        )  # fmt: skip
        watch.write(row, visits)


class _Hook:
    """What a node calls after it has run."""

    __slots__ = ("_arrivals", "_departures", "_final", "_watch", "_window")

    def __init__(
        self,
        watch: BackwardWatch,
        arrivals: list[tuple[int, int]],
        departures: list[tuple[int, int]],
        window: Window | None,
        final: frozenset[int],
    ) -> None:
        self._final = final
        self._watch = watch
        self._arrivals = arrivals
        self._departures = departures
        self._window = window

    def __call__(self, sent: tuple[Any, ...], received: tuple[Any, ...]) -> None:
        owner = self._watch._watch
        if not owner.looking:
            return
        copied_anyway = torch.is_grad_enabled()  # the graph of a gradient is wanted
        try:
            with Unseen():
                if self._final and not copied_anyway:
                    sent = self._with_stand_ins(sent)
                if self._window is not None:
                    sent, received = self._window.of(sent), self._window.of(received)
                self._watch.fire(self._arrivals, self._departures, sent, received)
        except Exception as error:
            owner.notebook.trouble(error)

    def _with_stand_ins(self, sent: tuple[Any, ...]) -> tuple[Any, ...]:
        stand_in = self._watch._watch.stand_in
        return tuple(one if at not in self._final or one is None else stand_in(one) for at, one in enumerate(sent))
