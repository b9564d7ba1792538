"""Makes a recorded call of Paddle's once more, alone, and takes its gradients with ``paddle.grad``."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from trueline.records import Call, Phase, TensorRecord
from trueline.store import RankReader
from trueline.tree import Tree, tensor_paths

RANDOM = ("dropout", "rand", "normal", "uniform")


class NotReplayable(Exception):
    pass


def tensor_of(reader: RankReader, record: TensorRecord) -> Any:
    """A tensor with the recorded bits."""
    bits = np.ascontiguousarray(reader.tensor(record))
    kind = getattr(paddle, record.dtype)
    if record.dtype == "bfloat16":
        return paddle.to_tensor((bits.astype(np.uint32) << 16).view(np.float32)).astype("bfloat16")
    return paddle.to_tensor(bits, dtype=kind)


def gradients(reader: RankReader, forward: Call, backward: Call) -> dict[str, tuple[bytes, bytes | None]]:
    """Path of an input -> its recorded gradient and that of the call made alone, as bytes."""
    if any(word in forward.api for word in RANDOM) or not forward.api.startswith("paddle."):
        raise NotReplayable("random, or not Paddle's")
    if not all(record.stored for record in forward.inputs):
        raise NotReplayable("an input had no memory yet")
    inputs = [tensor_of(reader, record) for record in forward.inputs]
    for tensor, record in zip(inputs, forward.inputs, strict=True):
        tensor.stop_gradient = not record.requires_grad
    used = [tensor if tensor.stop_gradient else tensor.clone() for tensor in inputs]
    first = {record.tensor_id: position for position, record in reversed(list(enumerate(forward.inputs)))}
    used = [used[first[record.tensor_id]] for record in forward.inputs]  # what was one tensor is one tensor
    args = [_value(item, used) for item in forward.arguments["args"]]
    kwargs = {name: _value(item, used) for name, item in forward.arguments["kwargs"].items()}
    result = _function(forward.api)(*args, **kwargs)
    outputs = dict(_leaves(result, "out"))
    for position, path in tensor_paths(forward.arguments):
        outputs.setdefault(path, used[position])
    arrived = {record.path: tensor_of(reader, record) for record in backward.inputs}
    ends = [outputs[path] for path in arrived]
    places = {record.path: first[record.tensor_id] for record in forward.inputs}
    starts = [inputs[places[record.path]] for record in backward.outputs]
    found = paddle.grad(ends, starts, list(arrived.values()), allow_unused=True)
    kept = [np.ascontiguousarray(reader.tensor(record)).tobytes() for record in backward.outputs]
    return {
        record.path: (mine, None if other is None else np.ascontiguousarray(other.numpy()).tobytes())
        for record, mine, other in zip(backward.outputs, kept, found, strict=True)
    }


def replay_all(reader: RankReader) -> tuple[int, dict[str, str], list[str]]:
    """Replays every backward call: how many were equal, which could not be replayed, which were not equal."""
    calls = {call.id: call for call in reader.trace()}
    equal, skipped, wrong = 0, {}, []
    for call in calls.values():
        if call.phase is not Phase.BACKWARD:
            continue
        try:
            pairs = gradients(reader, calls[call.forward_id], call)  # type: ignore[index]
        except NotReplayable as reason:
            skipped[call.name] = str(reason)
            continue
        unequal = [path for path, (kept, again) in pairs.items() if again != kept]
        wrong += [f"{call.name} {path}" for path in unequal]
        equal += not unequal
    return equal, skipped, wrong


def _function(api: str) -> Any:
    found: Any = paddle
    *parts, last = api.split(".")[1:]
    for part in parts:
        found = getattr(found, part)
    function = getattr(found, last)
    return function if callable(function) else lambda tensor: getattr(tensor, last)


def _value(tree: Tree, leaves: list[Any]) -> Any:
    if isinstance(tree, list):
        return [_value(item, leaves) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$t" in tree:
        return leaves[tree["$t"]]
    if "$tuple" in tree:
        return tuple(_value(item, leaves) for item in tree["$tuple"])
    if "$slice" in tree:
        return slice(*(_value(item, leaves) for item in tree["$slice"]))
    if "$size" in tree:
        return list(tree["$size"])
    if "$dtype" in tree:
        return tree["$dtype"]
    if "$object" in tree or "$record" in tree:
        raise NotReplayable(str(tree))
    return {name: _value(item, leaves) for name, item in tree.items()}


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, paddle.Tensor):
        return [(path, value)]
    if isinstance(value, list | tuple):
        return [leaf for position, item in enumerate(value) for leaf in _leaves(item, f"{path}.{position}")]
    return []
