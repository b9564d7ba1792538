"""Rows of ``paddle.geometric``, ``paddle.incubate``, ``paddle.text`` and ``paddle.metric``."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, aliases, row


def _segment(name: str) -> tuple[Row, ...]:
    base = row(f"paddle.geometric.{name}", f"composite.{name}", "data segment_ids name-", "(f[6,3], i[6])",
               "(f[5], j[5])", "(d[7,2,2], i[7])", "(j[6,3], i[6])", needs="segment_ids=segments(4)",
               like="torch.scatter_reduce")  # fmt: skip
    return base, *aliases(base, [f"paddle.incubate.{name}"])


_EDGES = "src_index=index({x.0}) dst_index=index({x.0})"
_SAME_EDGE = "An edge that is given twice gets the gradient of a maximum or minimum twice in Paddle"
_DIVISION = "Paddle multiplies by 1 / (y + 1e-12) in place of dividing by y"

ROWS = (
    *(one for name in ("segment_sum", "segment_mean", "segment_max", "segment_min") for one in _segment(name)),
    row("paddle.geometric.send_u_recv", "composite.send_u_recv", "x src_index dst_index reduce_op out_size name-",
        "(f[5,3], i[8], i[8])", '(f[5,3], i[8], i[8], "mean")', '(f[50,3], j[8], j[8], reduce_op="max")',
        '(d[50,3], i[8], i[8], "min")', '(f[5,2,3], i[8], i[8], "sum", 6)', needs=_EDGES, like="torch.scatter_reduce",
        differs=('(f[2,3], i[9], i[9], "max")',), disagreement=_SAME_EDGE),
    row("paddle.incubate.graph_send_recv", "composite.graph_send_recv",
        "x src_index dst_index pool_type out_size name-", "(f[5,3], i[8], i[8])", '(f[5,3], i[8], i[8], "mean")',
        '(f[50,3], i[8], i[8], pool_type="max", out_size=60)', needs=_EDGES, like="torch.scatter_reduce",
        differs=('(f[2,3], i[9], i[9], "min")',), disagreement=_SAME_EDGE),
    row("paddle.geometric.send_ue_recv", "composite.send_ue_recv",
        "x y src_index dst_index message_op reduce_op out_size name-", "(f[5,3], f[8,3], i[8], i[8])",
        '(f[5,3], f[8,1], i[8], i[8], "mul", "mean")', '(f[5,3], f[8,3], j[8], j[8], "sub", "max")',
        '(f[5,3], f[8], i[8], i[8], "div", "min", 6)', '(d[5,3], d[8], i[8], i[8], message_op="mul")',
        needs=_EDGES + " y=nonzero", like="torch.scatter_reduce",
        differs=('(d[5,3], d[8], i[8], i[8], "div")',), disagreement=_DIVISION),
    row("paddle.geometric.send_uv", "composite.send_uv", "x y src_index dst_index message_op name-",
        "(f[5,3], f[5,3], i[8], i[8])", '(f[5,3], f[5,3], j[8], j[8], "mul")',
        '(f[5,3], f[5,1], i[8], i[8], message_op="div")',
        needs="src_index=index({x.0}) dst_index=index({y.0}) y=nonzero", like="torch.index_select",
        differs=('(d[5,3], d[5,1], i[8], i[8], message_op="div")',), disagreement=_DIVISION),
    row("paddle.geometric.reindex_graph", "composite.reindex_graph",
        "x neighbors count value_buffer index_buffer name-", "(i[3], i[7], j[3])", "(j[4], j[6], j[4])",
        needs="x=distinct(20) neighbors=index(20) count=parts({neighbors.0})", like="torch.unique"),
    row("paddle.geometric.reindex_heter_graph", "composite.reindex_heter_graph",
        "x neighbors count value_buffer index_buffer name-", "(i[3], [i[7], i[7]], [j[3], j[3]])",
        needs="x=distinct(20) neighbors=index(20) count=parts(7)", like="torch.unique"),
    row("paddle.incubate.graph_reindex", "composite.reindex_graph",
        "x neighbors count value_buffer index_buffer flag_buffer_hashtable- name-", "(i[3], i[7], j[3])",
        needs="x=distinct(20) neighbors=index(20) count=parts({neighbors.0})", like="torch.unique"),
    row("paddle.geometric.sample_neighbors", "composite.sample_neighbors",
        "row colptr input_nodes sample_size eids! return_eids!=false perm_buffer- name-", "(i[9], i[6], i[4], 20)",
        "(j[9], j[6], j[4], sample_size=9)", needs="row=index(5) colptr=offsets({row.0},1) input_nodes=distinct(5)",
        like="torch.index_select"),
    row("paddle.incubate.graph_sample_neighbors", "composite.sample_neighbors",
        "row colptr input_nodes eids! perm_buffer- sample_size return_eids!=false flag_perm_buffer- name-",
        "(i[9], i[6], i[4], sample_size=20)", needs="row=index(5) colptr=offsets({row.0},1) input_nodes=distinct(5)",
        like="torch.index_select"),
    row("paddle.geometric.weighted_sample_neighbors", "composite.weighted_sample_neighbors",
        "row colptr edge_weight input_nodes sample_size eids! return_eids!=false name-",
        "(i[9], i[6], f[9], i[4], 20)", constant="edge_weight", like="torch.index_select",
        needs="row=index(5) colptr=offsets({row.0},1) input_nodes=distinct(5) edge_weight=positive"),
    row("paddle.text.viterbi_decode", "composite.viterbi_decode",
        "potentials transition_params lengths include_bos_eos_tag name-", "(f[2,4,5], f[5,5], i[2])",
        "(f[3,4,3], f[3,3], i[3], False)", "(d[2,5,4], d[4,4], i[2])", needs="lengths=lengths(1,{potentials.1})",
        constant="potentials transition_params", like="torch.max"),
    row("paddle.metric.accuracy", "composite.accuracy", "input label k correct- total- name-", "(f[6,4], i[6,1])",
        "(f[6,5], i[6,1], 2)", needs="label=index({input.1})", constant="input", like="torch.topk"),
)  # fmt: skip
