"""Faults in compiled programs of ``programs/vision.py``: the working half."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.fx import Node

from benchmarks.compiled.plants import (
    argument,
    aten,
    dropped,
    every,
    instead,
    is_call,
    prims,
    read_by,
    replaced,
    shape,
    wrong_decomposition,
    wrong_joint_pass,
    wrong_kernel,
    wrong_pass,
    wrong_wrapper,
)
from benchmarks.compiled.programs import vision
from benchmarks.compiled.spec import Where, fault


def gelu_backward_short(gradient: Any, x: Any, approximate: str = "none") -> Any:
    return gradient * 0.5 * (1 + torch.erf(x * 0.7071067811865476))


@fault(
    vision.transformer_training,
    Where("model", ("aten.gelu_backward", "aten.erf", "aten.mul"), "programs/vision.py:Encoder.forward", "backward"),
    report="https://github.com/pytorch/pytorch/issues/180771",
)
def gelu_gradient_incomplete() -> Any:
    """The decomposition of gelu's backward leaves out the density."""
    return wrong_decomposition(aten.gelu_backward.default, gelu_backward_short)


@fault(
    vision.transformer_training,
    Where("model", ("aten.cat", "aten.concat"), "programs/vision.py:VisionTransformer.forward"),
    report="https://github.com/pytorch/pytorch/issues/185702",
)
def class_token_last() -> Any:
    """The parts of a concatenation are laid down in the other order."""
    return wrong_joint_pass(
        every(
            aten.cat.default,
            argument(0, lambda node: list(reversed(node.args[0]))),
            lambda node: is_call(node.args[0][0], aten.expand.default),
        )
    )


@fault(
    vision.transformer_training,
    Where(
        "model",
        ("aten.sum", "aten.div", "aten._softmax_backward_data", "aten.softmax"),
        "programs/vision.py:Encoder.attend",
        "backward",
    ),
    report="https://github.com/pytorch/pytorch/issues/180164",
)
def softmax_gradient_without_sum() -> Any:
    """The backward of softmax leaves out the sum that is taken off."""

    def gradient_times_output(gradient: Any, output: Any, dim: int, dtype: Any) -> Any:
        return gradient * output

    return wrong_decomposition(aten._softmax_backward_data.default, gradient_times_output)


@fault(
    vision.transformer_training,
    Where("model", ("aten.sum", "aten.linear", "aten.addmm"), "programs/vision.py:Encoder.forward", "backward"),
    report="https://github.com/pytorch/pytorch/issues/193061",
)
def bias_gradient_of_first_half() -> Any:
    """A reduction over rows that is split in two keeps the first part only."""

    def half(put: Any, node: Node) -> Node:
        part = put(aten.slice.Tensor, node.args[0], 0, 0, shape(node.args[0])[0] // 2)
        return put(aten.sum.dim_IntList, part, *node.args[1:])

    return wrong_pass(
        every(aten.sum.dim_IntList, instead(half), lambda node: node.args[1] == [0] and shape(node.args[0])[0] > 60)
    )


@fault(
    vision.convolution_training,
    Where(
        "model",
        ("aten.mul", "aten.add", "aten._native_batch_norm_legit_functional", "aten.copy_", "aten.batch_norm"),
        "programs/vision.py:ConvNet.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/181696",
)
def momentum_exchanged() -> Any:
    """Old and new exchange their weights in the running mean and variance."""
    exchange = {0.1: 0.9, 0.9: 0.1}
    return wrong_pass(
        every(
            aten.mul.Tensor,
            argument(1, lambda node: exchange[node.args[1]]),
            lambda node: node.args[1] in (0.1, 0.9) and len(shape(node)) == 1,
        )
    )


@fault(
    vision.convolution_training,
    Where(
        "model",
        ("aten.copy_", "aten.add", "aten._native_batch_norm_legit_functional", "aten.batch_norm"),
        "programs/vision.py:ConvNet.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/115774",
)
def statistics_not_kept() -> Any:
    """Buffers of eight numbers that the graph changes keep what they held."""

    def lose(node: Node) -> None:
        node.graph.erase_node(node)

    return wrong_pass(every(aten.copy_.default, lose, lambda node: shape(node) == (8,)))


@fault(
    vision.convolution_training,
    Where("model", ("aten.clamp_max", "aten.hardswish", "aten.clamp"), "programs/vision.py:ConvNet.forward"),
    report="https://github.com/pytorch/pytorch/issues/183601",
)
def hardswish_bound_wrong() -> Any:
    """In the generated kernel a bound of 6 has become 4."""
    return wrong_kernel(replaced(r"(static_cast<float>\()6(\.0)?(\))", r"\g<1>4.0\3"))


@fault(
    vision.convolution_inference,
    Where("model", ("aten.relu",), "programs/vision.py:ConvNet.forward"),
    report="https://github.com/pytorch/pytorch/issues/113144",
)
def relu_fused_away() -> Any:
    """A relu before a pooling is dropped, as if the pooling would do it."""
    return wrong_pass(
        every(aten.relu.default, dropped(), lambda node: read_by(node, prims._low_memory_max_pool_with_offsets.default))
    )


@fault(
    vision.denoiser_sampling,
    Where("model", ("aten.var_mean", "aten.native_group_norm", "aten.group_norm"), "programs/vision.py:UpDown.forward"),
    report="https://github.com/pytorch/pytorch/issues/183120",
)
def group_norm_over_rows_only() -> Any:
    """The statistics of a group are those of its first channel."""

    def first(put: Any, node: Node) -> Node:
        return put(
            aten.var_mean.correction, put(aten.slice.Tensor, node.args[0], 2, 0, 1), *node.args[1:], **node.kwargs
        )

    return wrong_pass(
        every(
            aten.var_mean.correction,
            instead(first),
            lambda node: node.args[1] == [2, 3] and shape(node.args[0])[-1] == 144,
        )
    )


@fault(
    vision.denoiser_sampling,
    Where("model", ("aten.sin", "aten.cos", "aten.cat"), "programs/vision.py:UpDown.forward"),
    report="https://github.com/pytorch/pytorch/issues/119121",
)
def buffer_given_away_too_early() -> Any:
    """The wrapper reuses the memory of a buffer that another kernel still has to read."""

    def reuse(source: str) -> str:
        """The second buffer of a shape is given the memory of the first."""
        made: dict[str, str] = {}
        for match in re.finditer(r"^( +)(buf\d+) = (empty_strided_cpu\(.*\))$", source, flags=re.MULTILINE):
            space, name, call = match.groups()
            if call in made and re.search(rf"\b{made[call]}\b", source[match.end() :].split("\n", 1)[1]):
                return source[: match.start()] + f"{space}{name} = {made[call]}" + source[match.end() :]
            made.setdefault(call, name)
        return source

    return wrong_wrapper(reuse)


@fault(
    vision.denoiser_training,
    Where(
        "model",
        ("aten._unsafe_index", "aten.upsample_nearest2d", "prims.convert_element_type", "aten.mul", "aten.interpolate"),
        "programs/vision.py:UpDown.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/114226",
)
def nearest_scale_too_small() -> Any:
    """The scale by which rows and columns of the smaller image are found is a little too small."""
    return wrong_joint_pass(
        every(aten.mul.Tensor, argument(1, 0.45), lambda node: node.args[1] == 0.5 and shape(node) == (12,))
    )
