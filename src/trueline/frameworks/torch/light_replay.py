"""Plays the tape of a light watch again: the step is computed once more, and everything in it is held and looked at.

Nothing of the program's is touched. Parameters are stood for by leaves of our own for the same memory, what a call
changes by copies, the default generators are set back and given back as they were; collectives, custom functions and
whatever else was held when it was made are not called again. Whether the loss came out the same is said.
"""

from __future__ import annotations

import contextlib
import itertools
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from trueline.frameworks.light import LightOptions, LooksArray, Sink
from trueline.frameworks.torch import light_looks
from trueline.frameworks.torch.flatten import Spelled
from trueline.frameworks.torch.light_calls import FORWARD_FIELDS, Entry, LightWatch
from trueline.frameworks.torch.light_hold import Holding, is_parameter
from trueline.frameworks.torch.light_leaves import leaves_of, place_of, versions_of
from trueline.frameworks.torch.light_looks import OUTPUT, RAW, taken_apart
from trueline.frameworks.torch.light_tape import EngineRun, Tape, on_device, parts_of, with_refs
from trueline.frameworks.torch.names import may_change
from trueline.frameworks.torch.tensors import _version
from trueline.frameworks.torch.unseen import Unseen, storage_of, told
from trueline.numerics.light import LOOK

TENSORS = (torch.Tensor,)
MOST_YOUNGEST = 16
AGAIN = "the step was computed again"


class NotThere(Exception):
    """Something that a call was given cannot be had any more."""


class ReplayWatch(LightWatch):
    """Holds the calls of a step that is played, under the sites of the calls that were made."""

    def __init__(self, watch: LightWatch, limit: int) -> None:
        super().__init__(
            LightOptions(rotation=1, whole=True),
            backward_begins=lambda forward: None,
            over_limit=self._too_much,
        )
        self.notebook, self.state = watch.notebook, watch.state
        self.sites = watch.sites
        self.limit = limit
        self.window = 1 << 62
        self.missed = 0
        self.site = -1
        self._looking = True
        self._next_number = itertools.count().__next__
        self.looks.read_as(watch.looks)

    def _make_recorder(self) -> Any:
        return None

    def _site(self, trait: Any, frame: Any) -> int:
        return self.site

    def keep_youngest(self) -> None:
        """There is no more memory: what is left is given back, but for the last few calls."""
        if len(self.entries) > MOST_YOUNGEST:
            self._too_much(len(self.entries) - MOST_YOUNGEST)

    def _too_much(self, count: int = 0) -> None:
        """The oldest calls go; each was looked at when it was made."""
        count = count or max(1, len(self.entries) // 4)
        self.looks.send()
        for entry in self.entries[:count]:
            self.held -= _bytes_held(entry)
        self.held = max(0, self.held)
        del self.entries[:count]
        self.missed += count


def _bytes_held(entry: Entry) -> int:
    values = (entry[5],) if len(entry) == FORWARD_FIELDS else tuple(entry[4])
    return sum(one.numel() * one.element_size() for one in parts_of(values) if isinstance(one, torch.Tensor))


class Replay:
    """Plays one step."""

    def __init__(
        self, watch: LightWatch, entries: Sequence[Entry], tape: Tape, rows: LooksArray, *, limit: int
    ) -> None:
        self._watch = watch
        self._entries = [entry for entry in entries if len(entry) == FORWARD_FIELDS]
        self._tape = tape
        self._live = rows
        self._inner = ReplayWatch(watch, limit)
        self._ref = watch.ref_type
        self._made: dict[tuple[int, int], Any] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        """By the number of a call, the number that it has when it is played, and its site."""
        self._unmade: dict[int, Any] = {}
        self._private: dict[int, Any] = {}
        """By place, storages that may be changed here."""
        self._gradients: dict[int, torch.Tensor] = {}
        """By place, the parameters whose gradients lie there."""
        self._leaves: dict[int, torch.Tensor] = {}
        self._last_uses = self._uses()
        self.skipped = 0
        self.note = ""

    @property
    def entries(self) -> list[Entry]:
        return self._inner.entries

    @property
    def missed(self) -> int:
        return self._inner.missed + self.skipped

    def play(self) -> LooksArray:
        """The looks at the step as it was played; ``entries`` are its calls."""
        watch = self._watch
        looking, watch.looking = watch.looking, False
        before = [(one, versions_of([one])) for one in self._own()]
        try:
            with _generators_as_before(self._tape):
                self._play()
        except (NotThere, RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            self.note = f"{AGAIN}, but not to its end: {type(error).__name__}: {_first_line(error)}"
            if isinstance(error, torch.OutOfMemoryError):
                self._inner.keep_youngest()
        finally:
            watch.looking = looking
            self._made.clear()
        if any(versions_of([one]) != version for one, version in before):
            watch.notebook.trouble(RuntimeError("playing a step again has changed what is the program's"))
        rows = self._rows()
        self.note = self.note or self._compared(rows)
        return rows

    def _own(self) -> list[torch.Tensor]:
        """The tensors on the tape, which are the program's."""
        found = [one for entry in self._entries for one in parts_of(entry[3:5]) if isinstance(one, torch.Tensor)]
        return list({id(one): one for one in found}.values())

    def _play(self) -> None:
        self._find_gradients()
        order: list[Any] = sorted([*self._entries, *self._tape.runs], key=lambda one: one[0])
        for at, one in enumerate(order):
            if isinstance(one, EngineRun):
                self._run_engine(one)
            else:
                self._call(one)
            for key in self._last_uses.get(at, ()):
                self._made.pop(key, None)
        if not self._tape.runs:
            self._look_at_result()

    def _uses(self) -> dict[int, list[tuple[int, int]]]:
        """By position in the order of play, what nobody needs after it."""
        last: dict[tuple[int, int], int] = {}
        order: list[Any] = sorted([*self._entries, *self._tape.runs], key=lambda one: one[0])
        for at, one in enumerate(order):
            for part in parts_of(one[1:] if isinstance(one, EngineRun) else (*one[3:5], one[5])):
                if type(part) is self._ref:
                    last[part.number, part.leaf] = at
        found: dict[int, list[tuple[int, int]]] = {}
        for key, at in last.items():
            found.setdefault(at, []).append(key)
        return found

    # Calls.

    def _call(self, entry: Entry) -> None:
        number, self._inner.site, _, args, kwargs, result, *_, function, modes = entry
        site = self._watch.sites[entry[1]]
        if function is None:
            self._held(entry)
            return
        if site.context:  # made while gradients were computed: by hooks, or to have them once more
            return
        try:
            changes = may_change(site.trait, args, kwargs or {})
        except Exception:  # an argument without a truth
            changes = True
        try:
            own = self._resolved(args, changes), self._resolved_names(kwargs, changes)
        except NotThere:
            self.skipped += 1
            return
        self._check_unchanged(entry)
        inner = self._inner
        with Unseen():
            call = inner._begin(site.trait, *own, None)
        self._numbers[number] = call[0], entry[1]
        if isinstance(result, str):
            inner._add((*call[:3], *Holding().given(*own), result, call[3], None, b"", None, None))
            return
        with _under(modes):
            made = function(*own[0], **on_device(function, own[1], self._tape.device))
        with Unseen():
            inner._end(site.trait, call, *own, made)
        for leaf, tensor in enumerate(leaves_of((made,), None)):
            self._made[number, leaf] = tensor

    def _check_unchanged(self, entry: Entry) -> None:
        """What no call has made must still be what it was."""
        parts = [one for one in parts_of(entry[3:5]) if type(one) is self._ref or isinstance(one, torch.Tensor)]
        versions = array("q", entry[6])
        if len(parts) != len(versions):
            return
        for one, version in zip(parts, versions, strict=True):
            if type(one) is self._ref or _version(one) == version:
                continue
            place = place_of(one)
            if place not in self._tape.saved and place not in self._tape.lost and place not in self._gradients:
                raise NotThere("something that it was given was changed later, by code that nobody sees")

    def _held(self, entry: Entry) -> None:
        """A call that is not made again: what it gave is still there."""
        number, site, result = entry[0], entry[1], entry[5]
        new = self._inner._next_number()
        self._numbers[number] = new, site
        self._inner.entries.append((new, *entry[1:]))
        for leaf, tensor in enumerate([] if isinstance(result, str) else leaves_of((result,), None)):
            self._made[number, leaf] = tensor.detach()
        for ref, content in self._tape.received.get(number, ()):
            with Unseen():
                self._of_ref(ref).detach().copy_(content)

    def _look_at_result(self) -> None:
        entry = next((one for one in reversed(self._inner.entries) if len(one) == FORWARD_FIELDS), None)
        if entry is not None and not isinstance(entry[5], str):
            for leaf, tensor in enumerate(leaves_of((entry[5],), None)):
                self._inner.looks.add(tensor, entry[0], entry[1], OUTPUT, leaf, Sink.RESULT)

    # Gradients.

    def _run_engine(self, run: EngineRun) -> None:
        roots = self._resolved(run.roots, changes=False)
        for ref, root in zip(run.roots, roots, strict=True):
            known = self._numbers.get(ref.number) if type(ref) is self._ref else None
            if known is not None:
                self._inner.looks.add(root, *known, light_looks.OUTPUT, ref.leaf, Sink.LOSS)
        args = self._resolved(run.args, changes=False)
        kwargs = self._resolved_names(run.kwargs, changes=False)
        with _under(None):
            made = torch.autograd.Variable._execution_engine.run_backward(roots, *args, **(kwargs or {}))
        for leaf, tensor in enumerate(one for one in made or () if one is not None):
            self._made[run.number, leaf] = tensor

    def _find_gradients(self) -> None:
        for tensor in self._own():
            if is_parameter(tensor) and tensor.grad is not None:
                self._gradients[place_of(tensor.grad)] = tensor

    # Arguments.

    def _resolved(self, value: Any, changes: bool) -> Any:
        def change(one: Any) -> Any:
            if type(one) is Spelled:
                raise NotThere("an argument is gone that is neither a tensor nor a number")
            return self._of_ref(one) if type(one) is self._ref else self._of_unmade(one, changes)

        return with_refs(value, change, (self._ref, Spelled, *TENSORS))

    def _resolved_names(self, kwargs: dict[str, Any] | None, changes: bool) -> dict[str, Any] | None:
        return kwargs and {name: self._resolved(value, changes) for name, value in kwargs.items()}

    def _of_ref(self, ref: Any) -> torch.Tensor:
        made = self._made.get((ref.number, ref.leaf))
        if made is None:
            raise NotThere
        if ref.layout is not None:
            dtype, shape, strides, offset = ref.layout
            base = made if dtype == made.dtype else made.detach().view(dtype)
            with _under(None):
                return _with_grad(torch.as_strided(base, shape, strides, offset), ref.wants)
        found = _with_grad(made, ref.wants)
        self._made[ref.number, ref.leaf] = found
        return found

    def _of_unmade(self, tensor: torch.Tensor, changes: bool) -> torch.Tensor:
        place = place_of(tensor)
        parameter = self._gradients.get(place)
        if parameter is not None:
            leaf = self._leaves.get(id(parameter))
            if leaf is None or leaf.grad is None:
                raise NotThere
            return leaf.grad
        if place and place not in self._private and (changes or place in self._tape.saved or place in self._tape.lost):
            self._private[place] = self._private_storage(tensor, place)
            self._unmade.pop(id(tensor), None)
        found = self._unmade.get(id(tensor))
        if found is None:
            found = self._unmade[id(tensor)] = self._stand_in(tensor, place)
        return found

    def _private_storage(self, tensor: torch.Tensor, place: int) -> Any:
        with Unseen():
            saved = self._tape.saved.get(place)
            return storage_of(tensor).clone() if saved is None else saved.clone()

    def _stand_in(self, tensor: torch.Tensor, place: int) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return tensor
        with Unseen():
            private = self._private.get(place)
            own: torch.Tensor = tensor.detach()
            if private is not None:
                own = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                own.set_(private, tensor.storage_offset(), tensor.shape, tensor.stride())
        if told(tensor, "requires_grad"):
            own.requires_grad_(True)
            self._leaves[id(tensor)] = own
        return own

    # What came of it.

    def _rows(self) -> LooksArray:
        looks = self._inner.looks
        rows = looks.take()
        rows += [arriving.rows() for arriving in looks.collect()]
        found = np.concatenate(rows) if rows else np.zeros(0, RAW)
        return np.concatenate([found, self._live[self._live["call"] < 0]])

    def _compared(self, rows: LooksArray) -> str:
        """Whether the loss is what it was."""
        names = list(LOOK.names or ())
        looks = []
        for some in (self._live, rows):
            losses = some[[taken_apart(int(key)).sink == Sink.LOSS for key in some["key"]]]
            looks.append([repr(row[names].tolist()) for row in losses])
        if not looks[0] or len(looks[0]) != len(looks[1]):
            return AGAIN
        return f"{AGAIN} and gave {'the same' if looks[0] == looks[1] else 'another'} loss"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["a tensor is gone"])[0]


def _with_grad(tensor: torch.Tensor, wants: bool) -> torch.Tensor:
    """A tensor of which gradients are wanted as of the one that it stands for."""
    if wants and not tensor.requires_grad:
        return tensor.requires_grad_(True)
    return tensor if wants or not tensor.requires_grad else tensor.detach()


@contextlib.contextmanager
def _under(modes: Any) -> Iterator[None]:
    """The modes of the thread as they were; nothing else of ours or of the program's is in between."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(Unseen())
        stack.enter_context(torch.set_grad_enabled(True if modes is None else modes.grad))
        for kind, dtype in () if modes is None else modes.autocast:
            stack.enter_context(torch.autocast(kind, dtype=dtype, cache_enabled=False))
        yield


@contextlib.contextmanager
def _generators_as_before(tape: Tape) -> Iterator[None]:
    """The default generators begin where they did, and are as they are now when it is left."""
    now = [(generator, generator.get_state()) for generator, _ in tape.random]
    try:
        for generator, state in tape.random:
            generator.set_state(state)
        yield
    finally:
        for generator, state in now:
            generator.set_state(state)
