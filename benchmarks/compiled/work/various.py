"""Faults in compiled programs of ``programs/various.py``: the working half."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from benchmarks.compiled.plants import (
    argument,
    aten,
    dropped,
    every,
    getitem,
    instead,
    is_call,
    read_by,
    reads,
    shape,
    wrong_joint_pass,
    wrong_pass,
)
from benchmarks.compiled.programs import various
from benchmarks.compiled.spec import How, Where, fault


@fault(
    various.recurrence_training,
    Where("model", ("aten.split", "aten.sigmoid", "aten.chunk"), "programs/various.py:Recurrence.forward"),
    report="https://github.com/pytorch/pytorch/issues/96064",
)
def gates_exchanged() -> Any:
    """The first two pieces of a split are taken for each other."""
    return wrong_joint_pass(
        every(
            getitem,
            argument(1, lambda node: 1 - node.args[1]),
            lambda node: reads(node, aten.split.Tensor) and node.args[1] in (0, 1),
        )
    )


@fault(
    various.experts_training,
    Where("model", ("aten.div",), "programs/various.py:Experts.forward"),
    report="https://github.com/pytorch/pytorch/issues/177163",
)
def router_weights_unnormalised() -> Any:
    """The division by the sum over the chosen experts is dropped."""
    return wrong_joint_pass(
        every(
            aten.div.Tensor,
            dropped(),
            lambda node: (
                is_call(node.args[0], getitem)
                and reads(node.args[0], aten.topk.default)
                and shape(node) == (24, 2)
                and read_by(node, aten.scatter.src)
            ),
        )
    )


@fault(
    various.loss_functions,
    Where(
        "contrastive_loss",
        ("aten.sub", "aten.exp", "aten.amax", "aten.logsumexp"),
        "programs/various.py:contrastive_loss",
    ),
    report="https://github.com/pytorch/pytorch/issues/150114",
    how=How("inductor", knobs={"losses": ("contrastive",)}),
    reference=How(knobs={"losses": ("contrastive",)}),
)
def logsumexp_shift_not_returned() -> Any:
    """What is taken off before the exponential is added again for one of the axes only."""
    return wrong_joint_pass(
        every(
            aten.add.Tensor,
            dropped(),
            lambda node: (
                reads(node, aten.log.default) and reads(node.args[1], aten.where.self) and node.args[1].args[1] == [0]
            ),
        )
    )


@fault(
    various.optimizer_step,
    Where("step", ("aten.copy_", "aten.add", "aten._foreach_add"), "torch/optim/adam.py", step=1),
    report="https://github.com/pytorch/pytorch/issues/115774",
)
def optimizer_step_not_counted() -> Any:
    """The number of the step is raised within the graph, and not kept."""

    def lose(node: Node) -> None:
        node.graph.erase_node(node)

    return wrong_pass(every(aten.copy_.default, lose, lambda node: shape(node) == ()))


@fault(
    various.sentences,
    Where("model", ("aten.div",), "programs/various.py:Pooled.forward", step=1),
    report="https://github.com/pytorch/pytorch/issues/194976",
    how=How("inductor", {"dynamic": True}),
)
def length_baked_in() -> Any:
    """A length that differs from call to call is a constant in the graph where it divides."""

    def constant(node: Node) -> None:
        node.args = (node.args[0], 7)

    return wrong_pass(
        every(
            aten.div.Tensor,
            constant,
            lambda node: isinstance(node.args[1], Node) and not hasattr(node.args[1].meta["val"], "shape"),
        )
    )


@fault(
    various.sentences,
    Where(
        "model",
        ("aten.lt", "aten.where", "aten.bitwise_not", "prims.iota", "aten.masked_fill"),
        "programs/various.py:Pooled.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/189895",
)
def padding_mask_one_longer() -> Any:
    """A comparison with the length of a sentence gets an equality, so that one padded token is taken for a word."""

    def less(put: Any, node: Node) -> Node:
        return put(aten.le.Tensor, *node.args)

    return wrong_pass(every(aten.lt.Tensor, instead(less), lambda node: len(shape(node)) == 2))


@fault(
    various.dropout_training,
    Where("model", ("aten.native_dropout", "aten.dropout"), "programs/various.py:Noisy.forward"),
    report="https://github.com/pytorch/pytorch/issues/196437",
)
def dropout_scale_missing() -> Any:
    """What dropout leaves is not enlarged."""

    def plain(put: Any, node: Node) -> Node:
        return put(aten.mul.Tensor, node, 0.7)

    return wrong_pass(
        every(getitem, instead(plain), lambda node: reads(node, aten.native_dropout.default) and node.args[1] == 0)
    )
