"""Paddle's operators on graphs, segments and sequences, written with torch. Names are Paddle's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.base import CannotExecute
from trueline.frameworks.torch.composites import composite

_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}


def _gathered(values: Tensor, index: Tensor, size: int, how: str) -> Tensor:
    """Rows of ``values`` reduced into the rows that ``index`` says; rows that get nothing are zero."""
    place = index.long().reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    empty = values.new_zeros(size, *values.shape[1:])
    if how == "mean" and not values.is_floating_point():
        count = torch.bincount(index.long(), minlength=size).clamp(min=1).reshape(-1, *[1] * (values.ndim - 1))
        return torch.div(empty.scatter_add(0, place, values), count, rounding_mode="trunc").to(values.dtype)
    return empty.scatter_reduce(0, place, values, _REDUCTIONS[how], include_self=False)


def _rows(segment_ids: Tensor) -> int:
    return int(segment_ids[-1]) + 1 if segment_ids.numel() else 0


@composite
def segment_sum(data: Tensor, segment_ids: Tensor) -> Tensor:
    return _gathered(data, segment_ids, _rows(segment_ids), "sum")


@composite
def segment_mean(data: Tensor, segment_ids: Tensor) -> Tensor:
    return _gathered(data, segment_ids, _rows(segment_ids), "mean")


@composite
def segment_max(data: Tensor, segment_ids: Tensor) -> Tensor:
    return _gathered(data, segment_ids, _rows(segment_ids), "max")


@composite
def segment_min(data: Tensor, segment_ids: Tensor) -> Tensor:
    return _gathered(data, segment_ids, _rows(segment_ids), "min")


def _size(out_size: Any, x: Tensor) -> int:
    return x.shape[0] if out_size is None or int(out_size) <= 0 else int(out_size)


@composite
def send_u_recv(
    x: Tensor, src_index: Tensor, dst_index: Tensor, reduce_op: str = "sum", out_size: Any = None
) -> Tensor:
    return _gathered(x[src_index.long()], dst_index, _size(out_size, x), reduce_op.lower())


@composite
def graph_send_recv(
    x: Tensor, src_index: Tensor, dst_index: Tensor, pool_type: str = "sum", out_size: Any = None
) -> Tensor:
    return send_u_recv(x, src_index, dst_index, pool_type, out_size)


def _message(left: Tensor, right: Tensor, how: str) -> Tensor:
    missing = left.ndim - right.ndim
    right = right.reshape(*right.shape, *[1] * missing) if missing > 0 else right
    if how == "add":
        return left + right
    if how == "sub":
        return left - right
    return left * right if how == "mul" else left / right


@composite
def send_ue_recv(
    x: Tensor, y: Tensor, src_index: Tensor, dst_index: Tensor, message_op: str = "add", reduce_op: str = "sum",
    out_size: Any = None,
) -> Tensor:  # fmt: skip
    message = _message(x[src_index.long()], y, message_op.lower())
    return _gathered(message, dst_index, _size(out_size, x), reduce_op.lower())


@composite
def send_uv(x: Tensor, y: Tensor, src_index: Tensor, dst_index: Tensor, message_op: str = "add") -> Tensor:
    return _message(x[src_index.long()], y[dst_index.long()], message_op.lower())


def _numbered(x: Tensor, neighbors: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes in the order in which they appear first, and the neighbours by their new numbers."""
    numbers = {node: place for place, node in enumerate(x.tolist())}
    for node in neighbors.tolist():
        numbers.setdefault(node, len(numbers))
    return torch.tensor(list(numbers), dtype=x.dtype), torch.tensor(
        [numbers[node] for node in neighbors.tolist()], dtype=x.dtype
    )


def _targets(count: Tensor) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(count)), count.long())


@composite
def reindex_graph(
    x: Tensor, neighbors: Tensor, count: Tensor, value_buffer: Any = None, index_buffer: Any = None
) -> tuple[Tensor, ...]:
    nodes, sources = _numbered(x, neighbors)
    return sources, _targets(count).to(x.dtype), nodes


@composite
def reindex_heter_graph(
    x: Tensor, neighbors: Any, count: Any, value_buffer: Any = None, index_buffer: Any = None
) -> tuple[Tensor, ...]:
    nodes, sources = _numbered(x, torch.cat(list(neighbors)))
    return sources, torch.cat([_targets(one) for one in count]).to(x.dtype), nodes


@composite
def sample_neighbors(row: Tensor, colptr: Tensor, input_nodes: Tensor, sample_size: int = -1) -> tuple[Tensor, Tensor]:
    """All neighbours; a sample of them would be another one in every framework."""
    starts, ends = colptr[input_nodes.long()].tolist(), colptr[input_nodes.long() + 1].tolist()
    if any(0 <= sample_size < end - start for start, end in zip(starts, ends, strict=True)):
        raise CannotExecute("a sample of the neighbours is drawn at random, differently in every framework")
    found = [row[start:end] for start, end in zip(starts, ends, strict=True)]
    counts = [end - start for start, end in zip(starts, ends, strict=True)]
    return torch.cat(found), torch.tensor(counts, dtype=torch.int32)


@composite
def weighted_sample_neighbors(
    row: Tensor, colptr: Tensor, edge_weight: Tensor, input_nodes: Tensor, sample_size: int = -1
) -> tuple[Tensor, Tensor]:
    return sample_neighbors(row, colptr, input_nodes, sample_size)


@composite
def viterbi_decode(
    potentials: Tensor, transition_params: Tensor, lengths: Tensor, include_bos_eos_tag: bool = True
) -> tuple[Tensor, Tensor]:
    """The best path of each sequence and its score. The last tag begins a sequence, the last but one ends it."""
    scores, paths = [], []
    longest = int(lengths.max())
    for given, length in zip(potentials, lengths.tolist(), strict=True):
        best = given[0] + (transition_params[-1] if include_bos_eos_tag else 0.0)
        back = []
        for step in given[1:length]:
            found = (best[:, None] + transition_params).max(0)
            best = found.values + step
            back.append(found.indices)
        best = best + (transition_params[-2] if include_bos_eos_tag else 0.0)
        tag = int(best.argmax())
        path = [tag]
        for choice in reversed(back):
            path.append(int(choice[path[-1]]))
        scores.append(best.max())
        paths.append(torch.tensor(path[::-1] + [0] * (longest - length)))
    return torch.stack(scores), torch.stack(paths)


@composite
def accuracy(input: Tensor, label: Tensor, k: int = 1, correct: Any = None, total: Any = None) -> Tensor:
    hits = (input.topk(k, -1).indices == label.reshape(-1, 1)).any(-1)
    return hits.to(input.dtype).mean()
