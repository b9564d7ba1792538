"""Faults in compiled programs of ``programs/libraries.py``: the working half."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from benchmarks.compiled.plants import aten, dropped, every, read_by, shape, wrong_joint_pass
from benchmarks.compiled.programs import libraries
from benchmarks.compiled.spec import Where, fault


@fault(
    libraries.resnet,
    Where("model", ("aten.add",), "timm/models/resnet.py:BasicBlock.forward"),
    report="https://github.com/pytorch/pytorch/issues/115157",
)
def residual_not_added() -> Any:
    """Of the blocks with eight channels the shortcut is not added."""
    return wrong_joint_pass(
        every(
            aten.add.Tensor,
            dropped(),
            lambda node: (
                len(shape(node)) == 4
                and shape(node)[1] == 8
                and read_by(node, aten.relu.default)
                and isinstance(node.args[1], Node)
                and shape(node.args[1]) == shape(node)
                and shape(node.args[0]) == shape(node)
            ),
        )
    )
