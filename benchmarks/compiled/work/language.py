"""Faults in compiled programs of ``programs/language.py``: the working half."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph

from benchmarks.compiled.plants import (
    argument,
    aten,
    dropped,
    every,
    is_call,
    read_by,
    reads,
    shape,
    stale_inputs,
    wrong_joint_pass,
    wrong_pass,
)
from benchmarks.compiled.programs import language
from benchmarks.compiled.spec import Where, fault


@fault(
    language.decoder_training,
    Where(
        "model",
        ("aten.ge", "aten.where", "aten.logical_and", "aten.triu", "aten.masked_fill"),
        "programs/language.py:Attention.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/189895",
)
def causal_mask_one_further() -> Any:
    """The comparison that makes a triangle out of row and column numbers is off by one: a token sees the next one."""
    return wrong_joint_pass(
        every(
            aten.ge.Scalar,
            argument(1, lambda node: node.args[1] + 1),
            lambda node: reads(node, aten.sub.Tensor) and node.args[1] == 1,
        )
    )


@fault(
    language.decoder_training,
    Where("model", ("aten.neg", "aten.cat"), "programs/language.py:rotate_half"),
    report="https://github.com/pytorch/pytorch/issues/159239",
)
def rotary_negation_dropped() -> Any:
    """Where halves are exchanged and one of them negated, the negation is lost."""
    return wrong_pass(
        every(aten.neg.default, dropped(), lambda node: read_by(node, aten.cat.default) and len(shape(node)) == 4)
    )


@fault(
    language.decoder_training,
    Where("model", ("aten.mul", "aten.bmm", "aten.einsum"), "programs/language.py:Attention.forward"),
    report="https://github.com/pytorch/pytorch/issues/195320",
)
def attention_scale_fused_away() -> Any:
    """A pass that takes factors into the products before them forgets the factor."""
    return wrong_joint_pass(
        every(
            aten.mul.Tensor,
            dropped(),
            lambda node: (
                isinstance(node.args[1], float)
                and 0.3 < node.args[1] < 0.4
                and len(shape(node)) == 4
                and read_by(node, aten.where.self)
            ),
        )
    )


@fault(
    language.decoder_training,
    Where("model", ("aten.embedding",), "programs/language.py:Decoder.forward", step=1),
    report="https://github.com/pytorch/pytorch/issues/192748",
)
def token_buffer_stale() -> Any:
    """The graph goes on reading the tokens of its first call."""
    return stale_inputs(
        lambda inputs: [
            i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.dtype == torch.int64
        ][:1]
    )


@fault(
    language.cached_generation,
    Where(
        "layer", ("aten.copy_", "aten.index_put", "aten.index_copy"), "programs/language.py:CachedLayer.forward", step=1
    ),
    report="https://github.com/pytorch/pytorch/issues/195422",
)
def cache_write_back_lost() -> Any:
    """What was written into a buffer of the model during a call is not written back at its end."""

    def lose(graph: Graph) -> int:
        found = [node for node in graph.nodes if is_call(node, aten.copy_.default)][:1]
        for node in found:
            graph.erase_node(node)
        return len(found)

    return wrong_pass(lose)
