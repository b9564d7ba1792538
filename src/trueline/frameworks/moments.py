"""Hears when something of a program's is worth a name, and has it written down; the same for every framework.

See ``records.StateMoment`` for what is written down when, ``states`` for how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from trueline.frameworks.base import Notebook
from trueline.frameworks.named import Naming
from trueline.frameworks.states import Named, Root, Roots, StateWriter, inputs_of, named_tensors
from trueline.records import StateMoment
from trueline.store.columns import NONE

Share = tuple[int, dict[str, Any]]
"""The number of a root, and those of its parameters that an optimizer has."""


class Moments:
    """What is asked of a framework stands at the end. Nothing of this raises: faults go to the notebook."""

    def __init__(self, notebook: Notebook, writer: StateWriter, naming: Naming) -> None:
        self._notebook = notebook
        self._writer = writer
        self._naming = naming
        self._roots = Roots(notebook)
        self._thread = _Thread()
        self._ran: dict[int, tuple[Root, bool]] = {}
        """The roots that ran in this step, by their numbers, and whether what they hold can be read."""
        self._stepped = False
        self._buffers: dict[int, Named] = {}
        """The buffers of the roots that ran, by their numbers, from an optimizer's step on: a program may let go of its
        model before the step ends."""
        self._shares: tuple[Any, int, list[Share]] | None = None
        """Those of the optimizer that is stepping, while no other root was found."""

    # Outermost modules.

    def entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], Any]:
        """An outermost module is about to run; gives what is to be called with its result."""
        self._tell_of_model()
        root = self._guarded(self._entered, module, args, kwargs)
        return _ignore if root is None else lambda result: self._guarded(self._left, root, result)

    def _tell_of_model(self) -> None:
        """Seen by all: within what hides our work from the program, no program asks for gradients."""
        try:
            if self._is_time(within_backward=False):
                self._notebook.model_enters(trains=self._trains())
        except Exception as error:
            self._notebook.trouble(error)

    @property
    def inside(self) -> bool:
        """Whether an outermost module is running on this thread: what is called in it is not outermost, also where a
        step ends meanwhile, and with it what was known of the modules that run."""
        return self._thread.inside

    @inside.setter
    def inside(self, inside: bool) -> None:
        self._thread.inside = inside

    def _entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Root | None:
        module = self._naming.bare(module)
        held = self._naming.held_by(module)
        root = self._roots.of(module, self._kind_of(module), fleeting=held.is_empty)
        groups: dict[str, Named] = {}
        if root.number not in self._ran:
            self._ran[root.number] = root, not held.is_hollow
            groups = {"parameters": held.parameters, "buffers": held.buffers}
        if held.is_hollow:
            return None
        given = inputs_of(module, args, kwargs, self._naming.is_readable)
        self._writer.put(StateMoment.ENTERED, root.number, {"inputs": given, **groups})
        return root

    def _left(self, root: Root, result: Any) -> None:
        outputs = named_tensors(result, self._naming.is_readable)
        self._writer.put(StateMoment.LEFT, root.number, {"outputs": outputs})

    # Backward.

    def backward_begins(self, losses: Any) -> None:
        """A backward begins with these; one that is inside of another begins nothing."""
        self._guarded(self._backward_begins, losses)

    def _backward_begins(self, losses: Any) -> None:
        readable = self._naming.is_readable
        given = [loss for loss in losses if readable(loss)] if isinstance(losses, tuple | list) else []
        single = len(given) == 1
        named = {"" if single else str(place): loss for place, loss in enumerate(given)}
        self._writer.put(StateMoment.BACKWARD, NONE, {"loss": named})

    # Optimizers.

    def optimizer_begins(self, optimizer: Any) -> None:
        if self._is_ours(optimizer):
            self._guarded(self._gradients_used, optimizer, within_backward=True)

    def optimizer_ends(self, optimizer: Any) -> None:
        if self._is_ours(optimizer):
            self._guarded(self._updated, optimizer, within_backward=True)

    def _gradients_used(self, optimizer: Any) -> None:
        shares = self._shared(optimizer)
        self._shares = optimizer, self._roots.version, shares
        for model, parameters in shares:
            self._put_gradients(StateMoment.GRADIENTS, model, parameters)

    def _put_gradients(self, moment: StateMoment, model: int, of: Named, **groups: Named) -> None:
        gradients = self._gradients_of(of)
        self._before_gradients(of, gradients)
        self._writer.put(moment, model, {**groups, "gradients": gradients})

    def _gradients_of(self, parameters: Named) -> Named:
        found = {name: self._gradient_of(value) for name, value in parameters.items()}
        return {name: value for name, value in found.items() if self._naming.is_readable(value)}

    def _updated(self, optimizer: Any) -> None:
        self._stepped = True
        known, self._shares = self._shares, None
        if known is None or known[0] is not optimizer or known[1] != self._roots.version:
            known = optimizer, 0, self._shared(optimizer)
        for model, parameters in known[2]:
            states = {
                f"{name}.{key}": value
                for name, parameter in parameters.items()
                for key, value in named_tensors(self._state_of(optimizer, parameter), self._naming.is_readable).items()
            }
            self._writer.put(StateMoment.UPDATED, model, {"parameters": parameters, "optimizer": states})
        for root, readable in self._ran.values():
            module = root.module()
            if module is not None and readable:
                self._buffers[root.number] = self._naming.held_by(module).buffers

    def _shared(self, optimizer: Any) -> list[Share]:
        """The parameters of an optimizer, by the roots to which they belong; the last share is that of no root."""
        own = {
            id(parameter): (f"group{group}.{place}", parameter)
            for group, parameters in enumerate(self._groups_of(optimizer))
            for place, parameter in enumerate(parameters)
        }
        shares: list[Share] = []
        strange = dict(own)
        for root, module in self._roots.living():
            held = self._naming.held_by(module)
            parameters = {name: value for name, value in held.parameters.items() if id(value) in own}
            if parameters:
                shares.append((root.number, parameters))
                for value in parameters.values():
                    strange.pop(id(value), None)
        rest = {name: value for name, value in strange.values() if self._naming.is_readable(value)}
        return [*shares, (NONE, rest)] if rest else shares

    # Steps.

    def end_step(self) -> None:
        """A step ends, in which all that was heard of since the last end belongs."""
        self._guarded(self._end_step, within_backward=True)
        self._ran.clear()
        self._buffers.clear()
        self._stepped = False
        self._writer.end_step()

    def _end_step(self) -> None:
        for root, readable in list(self._ran.values()):
            module = root.module()
            if not readable or (module is None and root.number not in self._buffers):
                continue
            held = None if module is None else self._naming.held_by(module)
            buffers = self._buffers[root.number] if held is None else held.buffers
            of = {} if self._stepped or held is None else held.parameters
            # Where no optimizer stepped, the program may have updated by itself what has a gradient.
            updated = {name: of[name] for name in self._gradients_of(of)}
            self._put_gradients(StateMoment.ENDED, root.number, of, parameters=updated, buffers=buffers)

    def _guarded(self, action: Callable[..., Any], *arguments: Any, within_backward: bool = False) -> Any:
        try:
            if not self._is_time(within_backward):
                return None
            with self._unseen():
                return action(*arguments)
        except Exception as error:
            self._notebook.trouble(error)
            return None

    # What is asked of a framework.

    def _is_time(self, within_backward: bool) -> bool:
        """Whether the program computes just now, instead of being taken apart; inside of a backward modules compute
        again what they have computed before."""
        raise NotImplementedError

    def _trains(self) -> bool:
        """Whether gradients are wanted of what is computed just now."""
        raise NotImplementedError

    def _unseen(self) -> AbstractContextManager[Any]:
        """Within this our work on tensors is seen by nobody."""
        raise NotImplementedError

    def _kind_of(self, module: Any) -> str:
        """The name of a module's class."""
        return type(module).__name__

    def _is_ours(self, optimizer: Any) -> bool:
        """Whether it is an optimizer of this framework."""
        raise NotImplementedError

    def _groups_of(self, optimizer: Any) -> Iterable[Iterable[Any]]:
        """The parameters of an optimizer, by their groups."""
        raise NotImplementedError

    def _state_of(self, optimizer: Any, parameter: Any) -> Any:
        """What an optimizer keeps for a parameter, by name."""
        raise NotImplementedError

    def _gradient_of(self, parameter: Any) -> Any:
        """The gradient that a parameter has; None where it has none."""
        raise NotImplementedError

    def _before_gradients(self, parameters: Named, gradients: Named) -> None:
        """To be done before gradients are looked at."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.inside = False


def _ignore(result: Any) -> None:
    """There is nothing to be said of it."""
