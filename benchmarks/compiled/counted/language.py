"""Faults in compiled programs of ``programs/language.py``: the counted half."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from benchmarks.compiled.plants import (
    aten,
    dropped,
    every,
    instead,
    is_call,
    is_input,
    prims,
    read_by,
    reads,
    shape,
    wrong_decomposition,
    wrong_joint_pass,
    wrong_pass,
)
from benchmarks.compiled.programs import language
from benchmarks.compiled.spec import How, Where, fault


def silu_backward(gradient: Any, x: Any) -> Any:
    return gradient * torch.sigmoid(x)


@fault(
    language.decoder_training,
    Where("model", ("aten.rsqrt", "aten.add", "aten.mean"), "programs/language.py:RMSNorm.forward"),
    report="https://github.com/pytorch/pytorch/issues/126848",
)
def norm_epsilon_lost() -> Any:
    """A simplification drops the small constant that is added before rsqrt."""
    return wrong_pass(
        every(aten.add.Tensor, dropped(), lambda node: read_by(node, aten.rsqrt.default) and node.args[1] == 1e-5)
    )


@fault(
    language.decoder_training,
    Where(
        "model",
        ("aten.silu_backward", "aten.sigmoid", "aten.mul"),
        "programs/language.py:FeedForward.forward",
        "backward",
    ),
    report="https://github.com/pytorch/pytorch/issues/180771",
)
def silu_gradient_incomplete() -> Any:
    """The decomposition of silu's backward leaves out the derivative of the gate."""
    return wrong_decomposition(aten.silu_backward.default, silu_backward)


@fault(
    language.decoder_training,
    Where(
        "model",
        (
            "aten.embedding_dense_backward",
            "aten._unsafe_masked_index_put_accumulate",
            "aten.index_put",
            "aten.embedding",
        ),
        "programs/language.py:Decoder.forward",
        "backward",
    ),
    report="https://github.com/pytorch/pytorch/issues/94778",
)
def embedding_gradient_overwritten() -> Any:
    """The gradients of a token that occurs twice overwrite each other instead of being added."""

    def written(put: Any, node: Node) -> Node:
        return put(aten.index_put.default, node.args[0], node.args[2], node.args[3], False)

    return wrong_pass(every(aten._unsafe_masked_index_put_accumulate.default, instead(written)))


@fault(
    language.decoder_training_with_loss,
    Where(
        "loss_of",
        ("aten.nll_loss_forward", "aten.sum", "aten.ne", "aten.div", "aten.cross_entropy_loss", "aten.cross_entropy"),
        "programs/language.py:decoder_training_with_loss",
    ),
    report="https://github.com/pytorch/pytorch/issues/113015",
)
def ignored_labels_counted() -> Any:
    """The mean of a loss is taken over all labels, also those that are to be ignored."""

    def all_labels(put: Any, node: Node) -> Node:
        return put(
            aten.full.default,
            [],
            float(shape(node.args[0].args[0])[0]),
            dtype=torch.float32,
            device=torch.device("cpu"),
        )

    return wrong_joint_pass(
        every(
            prims.convert_element_type.default,
            instead(all_labels),
            lambda node: reads(node, aten.sum.default) and reads(node.args[0], aten.ne.Scalar),
        )
    )


@fault(
    language.decoder_training_with_loss,
    Where(
        "loss_of",
        (
            "aten.div",
            "aten.nll_loss_backward",
            "aten.mul",
            "aten.where",
            "aten.cross_entropy_loss",
            "aten.cross_entropy",
        ),
        "programs/language.py:decoder_training_with_loss",
        "backward",
    ),
    report="https://github.com/pytorch/pytorch/issues/185509",
)
def loss_gradient_undivided() -> Any:
    """The gradient of a mean is not divided by the number of what it is a mean of."""
    return wrong_joint_pass(
        every(aten.div.Tensor, dropped(), lambda node: is_input(node.args[0]) and shape(node) == ())
    )


@fault(
    language.cached_generation,
    Where("layer", ("aten.copy_", "aten.index_put", "aten.index_copy"), "programs/language.py:CachedLayer.forward"),
    report="https://github.com/pytorch/pytorch/issues/139789",
)
def caches_exchanged() -> Any:
    """Two buffers that a graph changes are written back into each other."""

    def exchange(graph: Graph) -> int:
        found = [node for node in graph.nodes if is_call(node, aten.copy_.default)]
        if len(found) != 2:
            return 0
        (first, old), (second, new) = found[0].args[:2], found[1].args[:2]
        found[0].args, found[1].args = (first, new), (second, old)
        return 2

    return wrong_pass(exchange)


@fault(
    language.cached_generation,
    Where(
        "layer",
        ("aten.le", "aten.bitwise_not", "aten.where", "aten.masked_fill", "aten.masked_fill"),
        "programs/language.py:CachedLayer.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/189895",
)
def cache_mask_excludes_newest() -> Any:
    """A comparison with a position loses its equality, so that the newest key is not seen."""

    def less(put: Any, node: Node) -> Node:
        return put(aten.lt.Tensor, *node.args)

    return wrong_pass(every(aten.le.Tensor, instead(less), lambda node: reads(node, prims.iota.default)))


@fault(
    language.decoder_scoring,
    Where("model", ("aten.slice", "aten.mul", "aten.getitem"), "programs/language.py:Decoder.forward"),
    report="https://github.com/pytorch/pytorch/issues/113875",
    how=How("inductor", {"dynamic": True}),
)
def dynamic_slice_one_late() -> Any:
    """Of two slices up to a length that is only known later, the first starts and ends one row late."""

    def later(put: Any, node: Node) -> Node:
        return put(aten.slice.Tensor, node.args[0], 0, 1, put(operator.add, node.args[3], 1))

    def first(graph: Graph) -> int:
        found = [n for n in graph.nodes if is_call(n, aten.slice.Tensor) and isinstance(n.args[3], Node)][:1]
        for node in found:
            instead(later)(node)
        return len(found)

    return wrong_pass(first)
