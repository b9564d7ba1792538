"""Several frameworks as one: a program may use two of them, and all that it calls belongs into one Run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from trueline.frameworks.base import Notebook, Scope, Watcher
from trueline.frameworks.switch import Undo

if TYPE_CHECKING:
    from trueline.frameworks.light import LightOptions, LightWatcher
    from trueline.frameworks.machine import Adapter


class Several:
    """What a capture asks of a framework, asked of one or more."""

    def __init__(self, adapters: list[Adapter]) -> None:
        self._adapters = adapters
        self._watchers: Watchers | None = None
        self._hooks: tuple[Callable[[Any], None], Callable[[Any], None]] | None = None

    @property
    def names(self) -> list[str]:
        return [one.name for one in self._adapters]

    @property
    def name(self) -> str:
        return ", ".join(self.names)

    def version(self) -> str:
        return ", ".join(one.version() for one in self._adapters)

    def ways(self) -> dict[str, str]:
        """Framework -> the way that a capture takes there, and why."""
        return {one.name: one.way() for one in self._adapters}

    def devices(self) -> Iterable[str]:
        return list(dict.fromkeys(device for one in self._adapters for device in one.devices()))

    def rank(self) -> tuple[int, int]:
        """(rank, world size) as told by whichever framework knows of others."""
        found = [one.rank() for one in self._adapters]
        return max(found, key=lambda pair: pair[1])

    def seed(self) -> int | None:
        return next((seed for one in self._adapters if (seed := one.seed()) is not None), None)

    def watcher(self, notebook: Notebook, scope: Scope) -> Watchers:
        self._watchers = Watchers(notebook, scope, [one.watcher(notebook, scope) for one in self._adapters])
        return self._watchers

    def lights(self, options: LightOptions) -> list[tuple[str, LightWatcher]]:
        """A light watcher for each framework, by its name."""
        return [(one.name, one.light_watcher(options)) for one in self._adapters]

    def on_optimizer(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None:
        self._hooks = (begins, ends)
        for one in self._adapters:
            one.on_optimizer(begins, ends)

    def off_optimizer(self) -> None:
        self._hooks = None
        for one in self._adapters:
            one.off_optimizer()

    def forget(self) -> None:
        """Lets go of the watchers, which hold what they have seen."""
        self._watchers = None

    def add(self, adapter: Adapter) -> None:
        """Another framework was imported while a capture is on."""
        self._adapters.append(adapter)
        if self._watchers is not None:
            self._watchers.add(adapter)
        if self._hooks is not None:
            adapter.on_optimizer(*self._hooks)


class Watchers:
    """Several watchers that write into one notebook."""

    def __init__(self, notebook: Notebook, scope: Scope, watchers: list[Watcher]) -> None:
        self._notebook = notebook
        self._scope = scope
        self._watchers = watchers
        self._looking = False

    def add(self, adapter: Adapter) -> None:
        watcher = adapter.watcher(self._notebook, self._scope)
        self._watchers.append(watcher)
        if self._looking:
            watcher.start()

    def start(self) -> None:
        self._looking = True
        for one in self._watchers:
            one.start()

    def pause(self) -> None:
        self._looking = False
        for one in self._watchers:
            one.pause()

    def turn(self) -> None:
        """A wanted step ends and the next one is wanted too: a watcher may leave its doors open. One that has no such
        way is paused, and begins again with the ``start`` that follows, when the notebook is at the next step."""
        for one in self._watchers:
            turn = getattr(one, "turn", None)
            if turn is not None:
                turn()
            else:
                one.pause()

    def close(self) -> None:
        self._looking = False
        undo = Undo()  # one that fails keeps none of the others from being closed
        for one in self._watchers:
            undo.add(one.close)
        undo.all()

    def abandon(self) -> None:
        self._looking = False
        for one in self._watchers:
            one.abandon()

    def optimizer_begins(self, optimizer: Any) -> None:
        for one in self._watchers:
            one.optimizer_begins(optimizer)

    def optimizer_ends(self, optimizer: Any) -> None:
        for one in self._watchers:
            one.optimizer_ends(optimizer)
