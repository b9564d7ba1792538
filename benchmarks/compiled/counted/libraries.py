"""Faults in compiled programs of ``programs/libraries.py``: the counted half."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node

from benchmarks.compiled.plants import (
    argument,
    aten,
    dropped,
    every,
    is_call,
    shape,
    wrong_joint_pass,
    wrong_pass,
)
from benchmarks.compiled.programs import libraries
from benchmarks.compiled.spec import Where, fault


@fault(
    libraries.bert,
    Where("model", ("aten.add", "aten.where", "aten.softmax"), "transformers/models/bert/modeling_bert.py"),
    report="https://github.com/pytorch/pytorch/issues/196173",
)
def attention_mask_ignored() -> Any:
    """The mask that is added to the scores is dropped."""
    return wrong_pass(
        every(
            aten.add.Tensor,
            dropped(),
            lambda node: (
                isinstance(node.args[1], Node) and len(shape(node)) == 4 and is_call(node.args[1], aten.where.self)
            ),
        )
    )


@fault(
    libraries.llama,
    Where(
        "model", ("aten.cos", "aten.sin"), "transformers/models/llama/modeling_llama.py:LlamaRotaryEmbedding.forward"
    ),
    report="https://github.com/pytorch/pytorch/issues/159239",
)
def cosine_and_sine_exchanged() -> Any:
    """Two results that are made in one loop of a kernel are stored in each other's place."""

    def exchange(graph: Graph) -> int:
        found = [n for n in graph.nodes if is_call(n, aten.cos.default, aten.sin.default)]
        for node in found:
            node.target = aten.sin.default if node.target == aten.cos.default else aten.cos.default
        return len(found)

    return wrong_pass(exchange)


@fault(
    libraries.gpt2,
    Where("model", ("aten.tanh", "aten.pow", "aten.mul"), "transformers/activations.py:NewGELUActivation.forward"),
    report="https://github.com/pytorch/pytorch/issues/113144",
)
def cube_is_square() -> Any:
    """A power of three is expanded into one product too few."""
    return wrong_pass(
        every(
            aten.pow.Tensor_Scalar,
            argument(1, 2.0),
            lambda node: node.args[1] == 3.0 and len(shape(node)) == 3 and shape(node)[-1] == 128,
        )
    )


@fault(
    libraries.small_transformer,
    Where("model", ("aten.select", "aten.slice", "aten.getitem"), "timm/models/vision_transformer.py"),
    report="https://github.com/pytorch/pytorch/issues/125387",
)
def pooled_token_is_the_last() -> Any:
    """Of the tokens the last is read instead of the first."""
    return wrong_joint_pass(
        every(
            aten.select.int,
            argument(2, lambda node: shape(node.args[0])[1] - 1),
            lambda node: node.args[1:] == (1, 0) and len(shape(node)) == 2,
        )
    )
