"""Faults in compiled programs of ``programs/vision.py``: the counted half."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from benchmarks.compiled.plants import (
    argument,
    aten,
    dropped,
    every,
    instead,
    is_input,
    prims,
    shape,
    wrong_decomposition,
    wrong_pass,
)
from benchmarks.compiled.programs import vision
from benchmarks.compiled.spec import Where, fault


def tanh_gelu(x: Any, approximate: str = "none") -> Any:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


@fault(
    vision.transformer_training,
    Where(
        "model", ("aten.var_mean", "aten.native_layer_norm", "aten.layer_norm"), "programs/vision.py:Encoder.forward"
    ),
    report="https://github.com/pytorch/pytorch/issues/143182",
)
def layer_norm_variance_unbiased() -> Any:
    """The variance of a layer norm is divided by one less than the number of elements."""

    def unbiased(node: Node) -> None:
        node.kwargs = {**node.kwargs, "correction": 1}

    return wrong_pass(every(aten.var_mean.correction, unbiased, lambda node: node.args[1] == [2]))


@fault(
    vision.transformer_inference,
    Where("model", ("aten.gelu", "aten.erf", "aten.tanh"), "programs/vision.py:Encoder.forward"),
    report="https://github.com/pytorch/pytorch/issues/183120",
)
def gelu_approximated() -> Any:
    """The decomposition of gelu is always the one with tanh."""
    return wrong_decomposition(aten.gelu.default, tanh_gelu)


@fault(
    vision.transformer_inference,
    Where("model", ("aten.addmm", "aten.mm", "aten.linear"), "programs/vision.py:VisionTransformer.forward"),
    report="https://github.com/pytorch/pytorch/issues/141865",
)
def narrow_bias_dropped() -> Any:
    """The product of matrices loses what is added to it where the result is narrow."""

    def bare(put: Any, node: Node) -> Node:
        return put(aten.mm.default, node.args[1], node.args[2])

    return wrong_pass(every(aten.addmm.default, instead(bare), lambda node: shape(node)[-1] == 10))


@fault(
    vision.convolution_training,
    Where(
        "model",
        ("aten.mul", "aten.var_mean", "aten._native_batch_norm_legit_functional", "aten.copy_", "aten.batch_norm"),
        "programs/vision.py:ConvNet.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/181696",
)
def running_variance_biased() -> Any:
    """The running variance is made from the variance of the batch without the correction for its size."""
    return wrong_pass(
        every(
            aten.mul.Tensor,
            argument(1, 0.75),
            lambda node: isinstance(node.args[1], float) and 1.0 < node.args[1] < 1.01 and len(shape(node)) == 1,
        )
    )


@fault(
    vision.convolution_inference,
    Where(
        "model",
        (
            "aten.add",
            "aten.rsqrt",
            "aten.reciprocal",
            "aten.sqrt",
            "aten._native_batch_norm_legit_no_training",
            "aten.batch_norm",
        ),
        "programs/vision.py:ConvNet.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/181696",
)
def folded_norm_without_epsilon() -> Any:
    """The scale of a batch norm in evaluation is made of the variance alone."""
    return wrong_pass(every(aten.add.Tensor, dropped(), lambda node: node.args[1] == 1e-5 and is_input(node.args[0])))


@fault(
    vision.convolution_inference,
    Where(
        "model",
        ("prims._low_memory_max_pool_with_offsets", "aten.max_pool2d_with_indices", "aten.max_pool2d"),
        "programs/vision.py:ConvNet.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/179931",
)
def pool_window_stride_one() -> Any:
    """The window of a pooling has the height of one row."""
    return wrong_pass(every(prims._low_memory_max_pool_with_offsets.default, argument(1, [1, 2])))


@fault(
    vision.denoiser_training,
    Where("model", ("aten.cat",), "programs/vision.py:UpDown.forward"),
    report="https://github.com/pytorch/pytorch/issues/185702",
)
def skip_connection_first() -> Any:
    """A concatenation of two tensors of one shape is laid down the other way round."""
    return wrong_pass(
        every(
            aten.cat.default,
            argument(0, lambda node: list(reversed(node.args[0]))),
            lambda node: len(shape(node)) == 4 and len(node.args[0]) == 2,
        )
    )
