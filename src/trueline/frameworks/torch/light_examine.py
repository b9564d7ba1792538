"""Finds where something bad began in a step that a light watch holds, and makes calls of what is held.

The way from a bad sink to its origin leads back along bad tensors only: from the loss through the forward calls, from
the gradient of a parameter through the backward calls that it came from. What was bad and is absorbed on the way (an
infinity that a softmax makes zero of) is never met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trueline.errors import TruelineError
from trueline.frameworks.light import Examination, HeldCall, HeldTensor, Sink, is_bad
from trueline.frameworks.torch.light_drafts import Draft, Drafts, Leaf, strides_of
from trueline.frameworks.torch.light_groups import plain_of
from trueline.frameworks.torch.light_hold import is_parameter, maker_of, wants_grad
from trueline.frameworks.torch.light_looks import taken_apart
from trueline.frameworks.torch.readers import bytes_of, copy_of
from trueline.frameworks.torch.tensors import _version
from trueline.frameworks.torch.unseen import Unseen
from trueline.records import Frame, Phase

_PASSES_ON = frozenset(
    "AddBackward0 SubBackward0 ViewBackward0 UnsafeViewBackward0 ReshapeAliasBackward0 TransposeBackward0 "
    "TBackward0 PermuteBackward0 AliasBackward0 SqueezeBackward0 SqueezeBackward1 UnsqueezeBackward0 "
    "CloneBackward0".split()
)
"""Nodes that hand on each number of a gradient as it is: what they were given clean, they did not make bad."""


class Examiner(Drafts):
    """Examines one step."""

    def examination(self, step: int, missed: int, note: str = "") -> Examination:
        origin = self._origin()
        calls = {number: self._call(draft, step) for number, draft in sorted(self._drafts.items())}
        return Examination(step, None if origin is None else calls[origin.number], tuple(calls.values()), missed, note)

    # The origin.

    def _origin(self) -> Draft | None:
        sinks = self._rows[is_bad(self._rows)]
        kinds = [taken_apart(int(key)).sink for key in sinks["key"]]
        for wanted in (Sink.LOSS, Sink.RESULT, Sink.GRADIENT):
            starts = [row for row, kind in zip(sinks, kinds, strict=True) if kind == wanted]
            found = self._from_calls(starts) if wanted is not Sink.GRADIENT else self._from_gradients()
            if starts and found is not None:
                return found
        return self._first_bad() if len(self._rows) == 0 or any(kinds) else None

    def _from_calls(self, starts: list[Any]) -> Draft | None:
        drafts = [self._drafts[int(row["call"])] for row in starts if int(row["call"]) in self._drafts]
        return self._walk(drafts)

    def _from_gradients(self) -> Draft | None:
        """Backward calls that gave a parameter a bad gradient."""
        return self._walk(
            [draft for draft in self._drafts.values() if draft.forward is not None and self._to_parameter(draft)]
        )

    def _to_parameter(self, draft: Draft) -> bool:
        assert draft.forward is not None, "of a backward"
        leaves = {leaf.path: leaf for leaf in draft.forward.inputs}
        return any(is_parameter(leaves[leaf.path].tensor) and leaf.bad for leaf in draft.outputs)

    def _walk(self, starts: list[Draft]) -> Draft | None:
        """The first call, on the way back from these along bad tensors, none of whose inputs is bad."""
        waiting, visited, origins = list(starts), {draft.number for draft in starts}, []
        while waiting:
            draft = waiting.pop()
            before = self._before(draft)
            if not before:
                origins.append(draft)
            for earlier in before:
                if earlier.number not in visited:
                    visited.add(earlier.number)
                    waiting.append(earlier)
        return min(origins, key=lambda draft: draft.number, default=None)

    def _before(self, draft: Draft) -> list[Draft]:
        """The calls that made the bad inputs of a call; for those of an input that was changed since, and of which
        nothing is known, the call that made it counts if it made something bad too."""
        found = []
        for leaf in draft.inputs:
            if not leaf.bad:
                continue
            if draft.forward is not None:
                found += [sender for sender in self._senders(draft, leaf) if sender is not draft]
                continue
            maker = self._makers.get(self._identity(leaf))
            if maker is not None and maker[0] is not draft and maker[0].number < draft.number:
                found.append(maker[0])
        return found

    def _senders(self, draft: Draft, arrived: Leaf) -> list[Draft]:
        """The backward calls that sent a gradient. Of several, those that only handed on what was clean are not to
        blame."""
        senders = [
            one
            for one in self._drafts.values()
            if one.forward is not None
            and one.number < draft.number
            and any(leaf.tensor is arrived.tensor and not leaf.own for leaf in one.outputs)
        ]
        guilty = [one for one in senders if any(leaf.bad for leaf in one.inputs) or not _passes_on(one)]
        return guilty or senders

    def _first_bad(self) -> Draft | None:
        for _, draft in sorted(self._drafts.items()):
            if draft.is_birth:
                return draft
        return None

    # From drafts to calls.

    def _call(self, draft: Draft, step: int) -> HeldCall:
        site = self._watch.sites[draft.entry[1]]
        modules, stacks, trees = (self._tables.get(table, []) for table in ("modules", "stacks", "trees"))
        path, kind = modules[site.module] if site.module >= 0 else ("", "")
        frames = stacks[site.stack][0] if site.stack >= 0 else []
        forward = draft.forward
        return HeldCall(
            number=draft.number,
            api=site.trait.name,
            nth=site.nth,
            step=step,
            phase=Phase.FORWARD if forward is None else Phase.BACKWARD,
            module=path,
            module_class=kind,
            context=site.context,
            thread=int(draft.entry[2]),
            forward=None if forward is None else forward.number,
            arguments=trees[draft.arguments][0],
            result=trees[draft.result][0],
            stack=tuple(Frame(*frame) for frame in frames),
            tensors=tuple(self._tensor(leaf) for leaf in (*draft.inputs, *draft.outputs)),
            raised=draft.raised,
        )

    def _tensor(self, leaf: Leaf) -> HeldTensor:
        tensor = leaf.tensor
        number = self._numbers.setdefault(self._identity(leaf), len(self._numbers))
        return HeldTensor(
            role=leaf.role,
            path=leaf.path,
            leaf=leaf.leaf,
            number=number,
            dtype=str(tensor.dtype).rpartition(".")[2],
            shape=tuple(int(size) for size in tensor.shape),
            strides=strides_of(tensor),
            device=str(tensor.device),
            requires_grad=wants_grad(tensor),
            look=leaf.look,
            missing=leaf.missing,
            content=None if leaf.missing else _content_of(leaf),
        )


def _passes_on(draft: Draft) -> bool:
    assert draft.forward is not None, "of a backward"
    return all(maker_of(leaf.tensor) in _PASSES_ON for leaf in draft.forward.outputs)


def _content_of(leaf: Leaf) -> Callable[[], memoryview]:
    tensor = leaf.tensor

    def content() -> memoryview:
        with Unseen():  # modes of the program may be on again when it is asked for
            if _version(tensor) != leaf.version:
                raise TruelineError(f"{leaf.path} was changed after it was examined; ask for its content before")
            plain = plain_of(tensor)
            assert plain is not None, "it has been read"
            return bytes_of(copy_of(plain).cpu())

    return content
