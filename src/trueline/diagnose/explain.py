"""A finding in plain English."""

from __future__ import annotations

from collections.abc import Iterator

from trueline.records import Call, CallComparison, Phase
from trueline.tree import Tree, render


def explain(comparison: CallComparison, replayed: str, with_rank: bool, headline: str = "") -> str:
    """Why a call is called the origin: where it is, what was done differently there, what went in and came out, what a
    replay showed."""
    call = comparison.call
    cause = f"{headline}; " if headline else ""
    parts = [f"{where(call, with_rank)}: {cause}{comparison.reason}"]
    changed = list(argument_changes(comparison.reference, comparison.candidate))
    if changed and not headline:
        parts.append("its arguments differ: " + "; ".join(changed[:4]))
    if replayed:
        parts.append(replayed)
    return "; ".join(parts)


def where(call: Call, with_rank: bool = False) -> str:
    """The place of a call: ``torch.relu.3.forward in encoder.1 (model.py:41 in forward)``."""
    text = call.name
    if call.module:
        text += f" in {call.module}"
    if call.source:
        text += f" ({call.source})"
    text += f", step {call.step}"
    return f"{text}, rank {call.rank}" if with_rank else text


def argument_changes(reference: Call | None, candidate: Call | None) -> Iterator[str]:
    """Plain arguments that the two calls were given differently: ``kwargs.eps: 1e-05 -> 0.01``."""
    if reference is None or candidate is None or candidate.phase is Phase.BACKWARD:
        return
    if reference.api.partition(".")[0] != candidate.api.partition(".")[0]:
        yield from _changes_across(reference, candidate)
        return
    left, right = dict(_plain(reference.arguments, "")), dict(_plain(candidate.arguments, ""))
    for path in [*left, *(path for path in right if path not in left)]:
        if left.get(path) != right.get(path):
            yield f"{path}: {left.get(path, 'not given')} -> {right.get(path, 'not given')}"


def _changes_across(reference: Call, candidate: Call) -> Iterator[str]:
    """Of calls of two frameworks: what they were given differently under the same parameter, where one was given
    nothing what is not the default, and tensors that only one was given."""
    # Imported here: only comparisons across frameworks need the mapping between them.
    from trueline.compare.asking import differences
    from trueline.compare.parameters import common_name

    calls = (reference, candidate)
    apis, arguments = (reference.api, candidate.api), (reference.arguments, candidate.arguments)
    for name, here, there in differences(apis, arguments):
        yield f"{name}: {here} -> {there}"
    tensors = [{common_name(call.api, record.path) for record in call.inputs} for call in calls]
    for name in sorted((tensors[0] ^ tensors[1]) & _TELLING):
        here, there = ("a tensor", "not given") if name in tensors[0] else ("not given", "a tensor")
        yield f"{name}: {here} -> {there}"


_TELLING = frozenset({"bias", "weight", "attn_mask"})
"""Parameters of which a tensor on one side only says something."""


def _plain(tree: Tree, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict) and "$t" in tree:
        return
    if isinstance(tree, dict) and not any(key.startswith("$") for key in tree):
        for key, value in tree.items():
            yield from _plain(value, f"{path}.{key}" if path else key)
    elif isinstance(tree, list) or (isinstance(tree, dict) and "$tuple" in tree):
        for position, value in enumerate(tree if isinstance(tree, list) else tree["$tuple"]):
            yield from _plain(value, f"{path}.{position}")
    elif not (isinstance(tree, dict) and ("$device" in tree or "$object" in tree)):
        yield path, render(tree)
