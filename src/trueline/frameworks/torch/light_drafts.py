"""Drafts of the calls that a light watch holds: their tensors, what sent which gradient, and an exact look at each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from trueline.frameworks.light import LooksArray, is_bad
from trueline.frameworks.torch.flatten import flatten
from trueline.frameworks.torch.light_calls import FORWARD_FIELDS, Entry, LightWatch
from trueline.frameworks.torch.light_groups import exact_looks
from trueline.frameworks.torch.light_hold import is_parameter, wants_grad
from trueline.frameworks.torch.light_leaves import place_of, written_unseen
from trueline.frameworks.torch.light_looks import GRADIENT, INPUT, OUTPUT, taken_apart
from trueline.frameworks.torch.tensors import _version
from trueline.frameworks.torch.unseen import Unseen
from trueline.frameworks.trees import Trees
from trueline.numerics.light import LOOK
from trueline.records import Role

CHANGED = "changed in place since"
CHANGED_HERE = "changed in place by this call"
LET_GO = "let go of after it was read: all its numbers were finite"
ODD = "cannot be read"


@dataclass(slots=True)
class Leaf:
    """A tensor of a call, before it has been read."""

    role: Role
    path: str
    leaf: int
    tensor: torch.Tensor
    version: int
    missing: str = ""
    look: Any = None
    own: bool = False
    """Whether ``tensor`` only stands for one of this shape, which is gone."""
    writes: int = 0
    """How often its memory had been written to without a trace in the version counter."""

    @property
    def bad(self) -> bool:
        return self.look is not None and bool(is_bad(self.look))


@dataclass(slots=True)
class Draft:
    """A call in the making."""

    entry: Entry
    arguments: int
    result: int
    inputs: list[Leaf] = field(default_factory=list)
    outputs: list[Leaf] = field(default_factory=list)
    forward: Draft | None = None
    raised: str = ""

    @property
    def number(self) -> int:
        return int(self.entry[0])

    @property
    def is_birth(self) -> bool:
        """Whether something bad came out and nothing bad went in."""
        return any(leaf.bad for leaf in self.outputs) and not any(leaf.bad for leaf in self.inputs)


class Drafts:
    """The drafts of one step."""

    def __init__(
        self,
        watch: LightWatch,
        entries: Iterable[Entry],
        rows: LooksArray,
    ) -> None:
        self._watch = watch
        self._rows = rows
        self._trees = Trees(watch.notebook)
        self._tables = watch.notebook.tables
        self._seen = {(int(row["call"]), *taken_apart(int(row["key"]))[1:3]): row for row in rows}
        self._numbers: dict[Any, int] = {}
        self._drafts: dict[int, Draft] = {}
        self._gradients: dict[tuple[int, int], Leaf] = {}
        """By forward call and leaf of its result, the gradient that arrived there."""
        self._makers: dict[Any, tuple[Draft, int]] = {}
        self._writes: dict[int, int] = {}
        """By storage, how often it was written to without a trace in the version counter."""
        with Unseen():
            for entry in entries:
                self._enter(entry)
            self._connect()
            self._read()

    # From entries to drafts.

    def _enter(self, entry: Entry) -> None:
        draft = self._forward(entry) if len(entry) == FORWARD_FIELDS else self._backward(entry)
        if draft is not None:
            self._drafts[draft.number] = draft

    def _forward(self, entry: Entry) -> Draft:
        number, site, _, args, kwargs, result, before, after, made, *_ = entry
        leaves: list[torch.Tensor] = []
        key: Any = (tuple([flatten(value, leaves) for value in args]), None)
        if kwargs:
            key = (key[0], tuple([(name, flatten(value, leaves)) for name, value in kwargs.items()]))
        arguments = self._trees.arguments(key)
        raised = result if isinstance(result, str) else ""
        if raised.startswith("_StopRecomputationError"):
            raised = "stopped by activation checkpointing: all it needed was recomputed"
        outputs: list[torch.Tensor] = []
        result_key: Any = (type(None), None) if raised else flatten(result, outputs)
        changed = self._changed(site, args, kwargs, leaves, before, after)
        named = [position for position in changed if not any(leaves[position] is one for one in outputs)]
        tree = self._trees.result(result_key, len(leaves), tuple(named), arguments)
        draft = Draft(entry, arguments, tree, raised=raised)
        paths, versions = self._trees._paths[arguments], _integers(before, len(leaves))
        for position, tensor in enumerate(leaves):
            leaf = self._leaf(Role.INPUT, paths[position], position, tensor, versions[position])
            if position in changed:
                leaf.missing = CHANGED_HERE
                seen = self._seen.get((number, INPUT, position))
                leaf.look = None if seen is None else seen[list(LOOK.names or ())]
            draft.inputs.append(leaf)
        for position in self._hidden(site, args, kwargs, leaves):
            place = place_of(leaves[position])
            self._writes[place] = self._writes.get(place, 0) + 1
        versions = _integers(made, len(outputs))
        afterwards = _integers(after, len(leaves)) if after else []
        outputs += [leaves[position] for position in named]
        versions += [afterwards[position] for position in named]
        for position, path in enumerate(self._trees._paths[tree]):
            if position < len(outputs):
                tensor, version = outputs[position], versions[position]
                draft.outputs.append(self._leaf(Role.OUTPUT, path, len(leaves) + position, tensor, version))
        return draft

    def _leaf(self, role: Role, path: str, leaf: int, tensor: torch.Tensor, version: int) -> Leaf:
        return Leaf(role, path, leaf, tensor, version, writes=self._writes.get(place_of(tensor), 0))

    def _hidden(self, site: int, args: Any, kwargs: Any, leaves: list[torch.Tensor]) -> frozenset[int]:
        return written_unseen(self._watch.sites[site].trait, args, kwargs, leaves)

    def _changed(
        self, site: int, args: Any, kwargs: Any, leaves: list[torch.Tensor], before: bytes, after: bytes | None
    ) -> list[int]:
        """Which tensors among its arguments a call changed."""
        if after is None:
            return []
        hidden = self._hidden(site, args, kwargs, leaves)
        old, new = _integers(before, len(leaves)), _integers(after, len(leaves))
        found: dict[int, int] = {}
        for position, tensor in enumerate(leaves):
            if old[position] != new[position] or position in hidden:
                found.setdefault(id(tensor), position)
        return list(found.values())

    def _backward(self, entry: Entry) -> Draft | None:
        forward = self._drafts.get(entry[3])
        if forward is None:
            return None
        gradients, places, versions = entry[4], entry[5], _integers(entry[6], len(entry[5]))
        let_go = not gradients
        draft = Draft(entry, -1, -1, forward=forward)
        first = len(forward.inputs)
        for (position, leaf), version in zip(places, versions, strict=True):
            if leaf >= len(forward.outputs) or (let_go and version < 0):
                continue
            made = forward.outputs[leaf]
            gradient = made.tensor if let_go else gradients[0][position]  # the shape of both is the same
            if gradient is None:
                continue
            arrived = self._leaf(Role.INPUT, made.path, len(draft.inputs), gradient, version)
            if let_go:
                arrived.missing, arrived.own = LET_GO, True
            draft.inputs.append(arrived)
            self._gradients[forward.number, first + leaf] = arrived
        return draft if draft.inputs else None

    # Which backward sent which gradient.

    def _connect(self) -> None:
        for draft in self._drafts.values():
            if draft.forward is None:
                for leaf in draft.outputs:
                    self._makers.setdefault(self._identity(leaf), (draft, leaf.leaf))
        for draft in self._drafts.values():
            if draft.forward is not None:
                self._depart(draft, draft.forward)

    def _depart(self, draft: Draft, forward: Draft) -> None:
        """The gradients that a backward sent on: where they arrived, or what has become of a parameter's."""
        arrived = tuple(leaf for leaf in self._arrived_leaves(draft))
        departed: list[int] = []
        for leaf in forward.inputs:
            if not wants_grad(leaf.tensor):
                continue
            maker = self._makers.get(self._identity(leaf))
            gradient = None if maker is None else self._gradients.get((maker[0].number, maker[1]))
            if gradient is not None:
                found = replace(gradient, role=Role.OUTPUT, path=leaf.path)
            elif is_parameter(leaf.tensor) and leaf.tensor.grad is not None:
                found = self._given(leaf, leaf.tensor.grad, draft.number)
            else:
                continue
            found.leaf = len(draft.inputs) + len(departed)
            draft.outputs.append(found)
            departed.append(leaf.leaf)
        key = (forward.arguments, forward.result, arrived, tuple(departed))
        draft.arguments, draft.result = self._trees.backward(key)

    def _given(self, leaf: Leaf, gradient: torch.Tensor, number: int) -> Leaf:
        """The gradient of a parameter as the backward left it: later calls may have scaled it, or summed it up over
        ranks."""
        found = self._leaf(Role.OUTPUT, leaf.path, 0, gradient, _version(gradient))
        place = place_of(gradient)
        for later, draft in self._drafts.items():
            if later > number and draft.forward is None:
                for one in draft.inputs:
                    if place_of(one.tensor) == place:
                        found.version, found.writes = one.version, one.writes
                        return found
        return found

    def _arrived_leaves(self, draft: Draft) -> list[int]:
        assert draft.forward is not None, "of a backward"
        by_path = {leaf.path: leaf.leaf for leaf in draft.forward.outputs}
        return [by_path[leaf.path] for leaf in draft.inputs]

    def _identity(self, leaf: Leaf) -> Any:
        """Equal for tensors of the same memory with the same content."""
        tensor = leaf.tensor
        if leaf.own:
            return (id(leaf),)
        try:
            place: Any = (tensor.untyped_storage()._cdata, tensor.data_ptr())
        except Exception:  # no storage
            place = id(tensor)
        return place, leaf.version, leaf.writes, tensor.dtype, tuple(tensor.shape), strides_of(tensor)

    # Reading.

    def _read(self) -> None:
        waiting: dict[Any, list[Leaf]] = {}
        for draft in self._drafts.values():
            for leaf in (*draft.inputs, *draft.outputs):
                if leaf.missing:
                    continue
                if _version(leaf.tensor) != leaf.version or leaf.writes != self._writes.get(place_of(leaf.tensor), 0):
                    self._seen_then(draft, leaf)
                if not leaf.missing and leaf.tensor.dtype.is_floating_point | leaf.tensor.dtype.is_complex:
                    waiting.setdefault(self._identity(leaf), []).append(leaf)
        leaves = [same[0] for same in waiting.values()]
        looks = exact_looks([leaf.tensor for leaf in leaves])
        for same, look in zip(waiting.values(), looks, strict=True):
            for leaf in same:
                leaf.look = look
                leaf.missing = ODD if look is None else ""
        self._share_looks()

    def _share_looks(self) -> None:
        """What was seen of a tensor before it was changed holds for all who had it as it was."""
        leaves = [leaf for draft in self._drafts.values() for leaf in (*draft.inputs, *draft.outputs)]
        known = {self._identity(leaf): leaf.look for leaf in leaves if leaf.look is not None}
        for leaf in leaves:
            if leaf.look is None and leaf.missing:
                leaf.look = known.get(self._identity(leaf))

    def _seen_then(self, draft: Draft, leaf: Leaf) -> None:
        """What is known of a tensor that was changed since: a look at it from then, if there is one."""
        leaf.missing = CHANGED
        if draft.forward is None:
            made = leaf.role is Role.OUTPUT
            key = (draft.number, OUTPUT if made else INPUT, leaf.leaf - (len(draft.inputs) if made else 0))
        else:
            paths = [one.path for one in draft.forward.outputs]
            key = (draft.number, GRADIENT, paths.index(leaf.path) if leaf.path in paths else -1)
        seen = self._seen.get(key)
        if seen is not None and (is_bad(seen) or int(seen["count"]) >= leaf.tensor.numel()):
            leaf.look = seen[list(LOOK.names or ())]  # a look at a part says nothing of the rest, unless it is bad


def _integers(packed: bytes, count: int) -> list[int]:
    """The versions of so many tensors; -1, which none has, where they are not those of these tensors."""
    found = array("q", packed).tolist()
    return found if len(found) == count else [-1] * count


def strides_of(tensor: torch.Tensor) -> tuple[int, ...]:
    try:
        return tuple(tensor.stride())
    except Exception:  # sparse and nested ones have none
        return ()
