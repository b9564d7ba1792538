"""Faults in compiled programs of ``programs/various.py``: the counted half."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from benchmarks.compiled.plants import (
    argument,
    aten,
    dropped,
    every,
    getitem,
    guards_lost,
    instead,
    is_call,
    is_input,
    prims,
    reads,
    replaced,
    shape,
    wrong_joint_pass,
    wrong_kernel,
    wrong_pass,
)
from benchmarks.compiled.programs import various
from benchmarks.compiled.spec import How, Where, fault


def overflowing(put: Any, value: Node) -> Node:
    """What float16 makes of a number that is too large for it."""
    over = put(aten.gt.Scalar, put(aten.abs.default, value), 65504.0)
    infinite = put(aten.full.default, [], float("inf"), dtype=torch.float32, device=torch.device("cpu"))
    return put(aten.where.self, over, infinite, value)


@fault(
    various.signal_pooling,
    Where("model", ("aten.mean", "aten.sum"), "programs/various.py:Signal.forward"),
    report="https://github.com/pytorch/pytorch/issues/168126",
    how=How("inductor", dtype="float16"),
    reference=How(dtype="float16"),
)
def mean_accumulated_in_half() -> Any:
    """The sum behind a mean over float16 is held in float16, where it is too large."""

    def added(put: Any, node: Node) -> Node:
        wide = put(prims.convert_element_type.default, node.args[0], torch.float32)
        total = overflowing(put, put(aten.sum.dim_IntList, wide, node.args[1]))
        return put(prims.convert_element_type.default, put(aten.div.Tensor, total, 900.0), torch.float16)

    return wrong_pass(
        every(aten.mean.dim, instead(added), lambda node: node.args[0].meta["val"].dtype == torch.float16)
    )


@fault(
    various.signal_pooling,
    Where(
        "model",
        ("prims.convert_element_type", "aten._to_copy", "aten.to", "aten.pow", "aten.mean"),
        "programs/various.py:Signal.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/179804",
    how=How("inductor", dtype="float16"),
    reference=How(dtype="float16"),
)
def widening_cast_dropped() -> Any:
    """A cast to float32 before a square is dropped: squares that float16 cannot hold are infinite."""
    return wrong_pass(
        every(
            aten.pow.Tensor_Scalar, instead(overflowing), lambda node: reads(node, prims.convert_element_type.default)
        )
    )


@fault(
    various.graph_training,
    Where("model", ("aten.index_put", "aten.index_add"), "programs/various.py:GraphLayer.forward"),
    report="https://github.com/pytorch/pytorch/issues/94778",
)
def scatter_forgets_duplicates() -> Any:
    """Where several rows are added to one, only the last arrives."""
    return wrong_pass(
        every(
            aten.index_put.default,
            argument(3, False),
            lambda node: len(node.args) > 3 and node.args[3] and shape(node) == (30, 16),
        )
    )


@fault(
    various.graph_training,
    Where("model", ("aten.scatter_reduce",), "programs/various.py:GraphLayer.forward"),
    report="https://github.com/pytorch/pytorch/issues/168358",
)
def segment_maximum_is_a_sum() -> Any:
    """A reduction to the maximum is lowered to a sum."""
    return wrong_pass(every(aten.scatter_reduce.two, argument(4, "sum"), lambda node: node.args[4] == "amax"))


@fault(
    various.graph_training,
    Where("model", ("aten.index", "aten.getitem"), "programs/various.py:GraphLayer.forward"),
    report="https://github.com/pytorch/pytorch/issues/125387",
)
def gather_reads_the_next_row() -> Any:
    """An index that is used for two reads is one too large in the second."""

    def further(put: Any, node: Node) -> Node:
        index = put(aten.remainder.Scalar, put(aten.add.Tensor, node.args[1][0], 1), shape(node.args[0])[0])
        return put(aten.index.Tensor, node.args[0], [index])

    return wrong_pass(
        every(
            aten.index.Tensor,
            instead(further),
            lambda node: shape(node) == (120, 16) and shape(node.args[0]) == (30, 16) and not is_input(node.args[0]),
        )
    )


@fault(
    various.recurrence_training,
    Where("model", ("aten.tanh",), "programs/various.py:Recurrence.forward"),
    report="https://github.com/pytorch/pytorch/issues/186577",
)
def tanh_approximated() -> Any:
    """tanh is a quotient of polynomials."""

    def rational(put: Any, node: Node) -> Node:
        y = put(aten.clamp_max.default, put(aten.clamp_min.default, node.args[0], -3.0), 3.0)
        square = put(aten.mul.Tensor, y, y)
        above = put(aten.mul.Tensor, y, put(aten.add.Tensor, square, 27.0))
        return put(aten.div.Tensor, above, put(aten.add.Tensor, put(aten.mul.Tensor, square, 9.0), 27.0))

    return wrong_pass(every(aten.tanh.default, instead(rational)))


@fault(
    various.recurrence_training,
    Where("model", ("aten.addmm", "aten.linear"), "programs/various.py:Recurrence.forward"),
    report="https://github.com/pytorch/pytorch/issues/96064",
)
def unrolled_loop_reads_old_state() -> Any:
    """Of an unrolled loop the last round reads the state of the round before the last."""

    def stale(graph: Graph) -> int:
        products = [n for n in graph.nodes if is_call(n, aten.addmm.default) and is_call(n.args[1], aten.mul.Tensor)]
        if len(products) < 2:
            return 0
        products[-1].replace_input_with(products[-1].args[1], products[-2].args[1])
        return 1

    return wrong_joint_pass(stale)


@fault(
    various.experts_training,
    Where(
        "model",
        ("aten.permute", "aten.bmm", "aten.reshape", "aten.view", "aten.einsum"),
        "programs/various.py:Experts.forward",
    ),
    report="https://github.com/pytorch/pytorch/issues/130394",
)
def square_matrices_transposed() -> Any:
    """The layout of a square matrix that is multiplied is taken for that of its transpose."""

    def turned(put: Any, node: Node) -> Node:
        return put(aten.bmm.default, node.args[0], put(aten.permute.default, node.args[1], [0, 2, 1]))

    return wrong_pass(every(aten.bmm.default, instead(turned), lambda node: shape(node.args[1]) == (4, 16, 16)))


@fault(
    various.dropout_training,
    Where(
        "model",
        ("aten.where", "aten.relu", "aten.le", "aten.threshold_backward"),
        "programs/various.py:Noisy.forward",
        "backward",
    ),
    report="https://github.com/pytorch/pytorch/issues/185509",
)
def relu_gradient_unmasked() -> Any:
    """The mask of a relu is not applied to the gradient."""
    return wrong_joint_pass(
        every(aten.where.self, dropped(2), lambda node: reads(node, aten.le.Scalar) and shape(node) == (16, 32))
    )


@fault(
    various.loss_functions,
    Where("focal_loss", ("aten.where",), "programs/various.py:focal_loss"),
    report="https://github.com/pytorch/pytorch/issues/185509",
    how=How("inductor", knobs={"losses": ("focal",)}),
    reference=How(knobs={"losses": ("focal",)}),
)
def where_branches_exchanged() -> Any:
    """Of two choices by one condition the second takes the wrong side."""
    return wrong_pass(
        every(
            aten.where.self,
            lambda node: setattr(node, "args", (node.args[0], node.args[2], node.args[1])),
            lambda node: is_call(node.args[1], aten.full.default) and is_call(node.args[2], aten.full.default),
        )
    )


@fault(
    various.loss_functions,
    Where("robust_loss", ("aten.lt", "aten.where", "aten.huber_loss"), "programs/various.py:robust_loss"),
    report="https://github.com/pytorch/pytorch/issues/118642",
    how=How("inductor", knobs={"losses": ("robust",)}),
    reference=How(knobs={"losses": ("robust",)}),
)
def huber_bound_in_kernel() -> Any:
    """In the generated kernel the bound between square and line is another number."""
    return wrong_kernel(replaced(r"(static_cast<float>\()0\.7(\))", r"\g<1>0.9\2", 1))


@fault(
    various.update_by_hand,
    Where("adam_update", ("aten.sqrt", "aten.add"), "programs/various.py:adam_update"),
    report="https://github.com/pytorch/pytorch/issues/185382",
)
def epsilon_under_the_root() -> Any:
    """Root and addition of a small number are done in the other order."""

    def within(put: Any, node: Node) -> Node:
        return put(aten.sqrt.default, put(aten.add.Tensor, node.args[0].args[0], 1e-3))

    return wrong_pass(
        every(aten.add.Tensor, instead(within), lambda node: node.args[1] == 1e-3 and reads(node, aten.sqrt.default))
    )


@fault(
    various.update_by_hand,
    Where("adam_update", ("aten.clamp_max", "aten.clamp"), "programs/various.py:adam_update"),
    report="https://github.com/pytorch/pytorch/issues/194976",
)
def clipping_bound_lost() -> Any:
    """A bound that is a constant is taken for one that cannot be reached."""
    return wrong_pass(every(aten.clamp_max.default, dropped(), lambda node: shape(node) == ()))


@fault(
    various.update_by_hand,
    Where("adam_update", ("aten.div", "aten.sub", "aten.pow"), "programs/various.py:adam_update", step=1),
    report="https://github.com/pytorch/pytorch/issues/185382",
)
def step_constant_folded() -> Any:
    """A count that the graph reads and raises is folded to the number of the first call."""

    def first(put: Any, node: Node) -> Node:
        return put(aten.full.default, [], 1.0, dtype=torch.float32, device=torch.device("cpu"))

    def used(graph: Graph) -> int:
        count = 0
        for node in list(graph.nodes):
            if is_call(node, aten.pow.Scalar) and shape(node) == ():
                instead(lambda put, old: put(aten.pow.Scalar, old.args[0], first(put, old)))(node)
                count += 1
        return count

    return wrong_pass(used)


@fault(
    various.dropout_training,
    Where(
        "model", ("aten.native_dropout", "aten.dropout", "aten.mul"), "programs/various.py:Noisy.forward", "backward"
    ),
    report="https://github.com/pytorch/pytorch/issues/183249",
)
def dropout_mask_drawn_again() -> Any:
    """The backward uses a mask of its own."""

    def rolled(put: Any, node: Node) -> Node:
        return put(prims.convert_element_type.default, put(prims.rev.default, node.args[0], [0]), node.args[1])

    return wrong_joint_pass(
        every(
            prims.convert_element_type.default,
            instead(rolled),
            lambda node: is_call(node.args[0], getitem) and reads(node.args[0], aten.native_dropout.default),
        )
    )


@fault(
    various.dropout_training,
    Where("model", ("aten.native_dropout", "aten.dropout", "aten.mul"), "programs/various.py:Noisy.forward"),
    report="https://github.com/pytorch/pytorch/issues/196437",
)
def dropout_seed_used_twice() -> Any:
    """The second dropout drops what the first dropped."""

    def same(graph: Graph) -> int:
        masks = [
            n for n in graph.nodes if is_call(n, getitem) and reads(n, aten.native_dropout.default) and n.args[1] == 1
        ]
        values = [
            n for n in graph.nodes if is_call(n, getitem) and reads(n, aten.native_dropout.default) and n.args[1] == 0
        ]
        if len(values) < 2:
            return 0

        def again(put: Any, node: Node) -> Node:
            kept = put(aten.mul.Tensor, node.args[0].args[0], masks[0])
            return put(aten.mul.Tensor, kept, 1 / 0.7)

        instead(again)(values[1])
        masks[1].replace_all_uses_with(masks[0])
        return 1

    return wrong_joint_pass(same)


@fault(
    various.dropout_training,
    Where("model", ("aten.native_dropout", "aten.dropout"), "programs/various.py:Noisy.forward", step=3),
    report="https://github.com/pytorch/pytorch/issues/176851",
)
def training_flag_unguarded() -> Any:
    """Nothing checks whether the model is still in training: its evaluation drops numbers."""
    return guards_lost(lambda entry: "training" in entry.name)


@fault(
    various.broken_graph,
    Where("forward", ("aten.mul",), "programs/various.py:Talkative.forward"),
    report="https://github.com/pytorch/pytorch/issues/185382",
)
def factor_behind_break_doubled() -> Any:
    """In the graph that follows a break, a constant factor is applied twice."""

    def again(put: Any, node: Node) -> Node:
        return put(aten.mul.Tensor, node, 1.5)

    return wrong_joint_pass(
        every(
            aten.mul.Tensor,
            instead(again),
            lambda node: node.args[1] == 1.5 and is_input(node.args[0]) and shape(node) == (6, 16),
        )
    )


@fault(
    various.teacher_statistics,
    Where("model", ("aten.sub", "aten.add", "aten.copy_"), "programs/various.py:Teacher.forward"),
    report="https://github.com/pytorch/pytorch/issues/104463",
)
def update_seen_too_early() -> Any:
    """A buffer is changed in place before the reader of its old value has read it."""

    def early(graph: Graph) -> int:
        writes = {node.args[0]: node.args[1] for node in graph.nodes if is_call(node, aten.copy_.default)}
        for node in list(graph.nodes):
            if is_call(node, aten.sub.Tensor) and node.args[1] in writes:
                new = writes[node.args[1]]
                with graph.inserting_after(new):
                    late = graph.call_function(aten.sub.Tensor, (node.args[0], new))
                late.meta = dict(node.meta)
                node.replace_all_uses_with(late)
                graph.erase_node(node)
                return 1
        return 0

    return wrong_pass(early)
