"""Cases on models of torch_geometric."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


def _degree_of_sources(setting: Setting) -> None:
    edit_function(
        imported("torch_geometric.nn.conv.gcn_conv"),
        "gcn_norm",
        ("idx = col if flow == 'source_to_target' else row", "idx = row"),
    )


@fault(
    "gcn",
    "gcn-degree-of-sources",
    Where("argument", ("scatter_add", "scatter_add_", "expand_as", "view", "expand"), ("convs.*",)),
    source="https://github.com/pyg-team/pytorch_geometric/pull/5149",
    before=_degree_of_sources,
)
def degree_of_sources(built: Built) -> None:
    """The degrees of the nodes count the edges that leave them, not those that arrive."""


@fault(
    "gcn",
    "gcn-loops-missing",
    Where(
        "missing",
        ("cat", "arange", "full", "new_full", "stack", "setitem", "getitem", "ne", "repeat", "unsqueeze", "index_put"),
        ("convs.*",),
        calls=10,
    ),
    source="https://github.com/mlx-graphs/mlx-graphs/pull/105",
)
def loops_missing(built: Built) -> None:
    """Nodes get nothing from themselves, for no loops are added to the graph."""
    for conv in built.model.convs:
        conv.add_self_loops = False


@fault(
    "gcn",
    "gcn-evaluation-in-training-mode",
    Where("argument", ("batch_norm",), ("norms.*",)),
    source="https://github.com/IBM/pytorch-seq2seq/issues/33",
)
def evaluation_in_training_mode(built: Built) -> None:
    """The model is evaluated without being put into evaluation mode."""
    edit_step(built, ("    built.model.eval()\n", ""))


@fault(
    "gcn",
    "gcn-running-statistics-momentum",
    Where("argument", ("batch_norm",), ("norms.*",)),
    Where("state", (), ("*",), ("norms.*running*",)),
    source="https://github.com/r9y9/tacotron_pytorch/issues/19",
)
def running_statistics_momentum(built: Built) -> None:
    """The momentum of the running statistics was taken over from a library that counts it from the other end."""
    import torch

    for module in built.model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.momentum = 0.9


def _softmax_over_sources(setting: Setting) -> None:
    layer = imported("torch_geometric.nn").GATConv
    edit_function(
        layer,
        "forward",
        ("alpha = self.edge_updater(", "self.sources = edge_index[0]\n    alpha = self.edge_updater("),
    )
    edit_function(
        layer, "edge_update", ("softmax(alpha, index, ptr, dim_size)", "softmax(alpha, self.sources, ptr, dim_size)")
    )


@fault(
    "gat",
    "gat-softmax-over-sources",
    Where(
        "argument",
        ("scatter_reduce", "scatter_reduce_", "scatter_add", "scatter_add_", "index_select", "getitem", "expand"),
        ("convs.*",),
        calls=4,
    ),
    source="https://github.com/pyg-team/pytorch_geometric/issues/224",
    before=_softmax_over_sources,
)
def softmax_over_sources(built: Built) -> None:
    """Attention sums to one over the edges that leave a node, not over those that arrive."""


@fault(
    "gat",
    "gat-source-target-attention-swapped",
    Where("state", (), ("*",), ("convs.0.att_src", "convs.0.att_dst")),
    Where("state", ("mul",), ("convs.0",)),
    source="https://github.com/pyg-team/pytorch_geometric/issues/10042",
)
def source_target_attention_swapped(built: Built) -> None:
    """The attention weights of the sources and of the targets of edges were loaded into each other's place."""
    import torch

    conv = built.model.convs[0]
    with torch.no_grad():
        source = conv.att_src.clone()
        conv.att_src.copy_(conv.att_dst)
        conv.att_dst.copy_(source)


@fault(
    "sage",
    "sage-graph-norm-over-batch",
    Where(
        "argument",
        ("scatter_add", "scatter_add_", "index_select", "new_zeros", "expand", "view", "max"),
        ("gnn.norms.*",),
        calls=4,
    ),
    Where("extra", ("new_zeros",), ("gnn.norms.*",)),
    source="https://arxiv.org/abs/2009.03294",
)
def graph_norm_over_batch(built: Built) -> None:
    """Nodes are normalised over all graphs of a batch, not over their own."""
    for norm in built.model.gnn.norms:
        if hasattr(norm, "mean_scale"):
            edit_one(norm, "forward", ("if batch is None:", "if True:"))


@fault(
    "sage",
    "sage-pool-summed",
    Where("missing", ("div", "truediv", "clamp", "scatter_add", "scatter_add_", "new_zeros"), ("",), calls=7),
    source="https://github.com/pyg-team/pytorch_geometric/pull/8799",
)
def pool_summed(built: Built) -> None:
    """The nodes of a graph are summed where they should be averaged."""
    edit_one(built.model, "forward", ("global_mean_pool(", "global_add_pool("))


def _add_at_index(setting: Setting) -> None:
    scatter = imported("torch_geometric.utils._scatter")
    edit_function(
        scatter,
        "scatter",
        (
            "        index = broadcast(index, src, dim)\n"
            "        return src.new_zeros(size).scatter_add_(dim, index, src)",
            "        return src.new_zeros(size).index_add_(dim, index, src)",
        ),
    )
    imported("torch_geometric.nn.conv.gcn_conv").scatter = scatter.scatter
    imported("torch_geometric.nn.aggr.base").scatter = scatter.scatter


@clean("gcn", "gcn-add-at-index", before=_add_at_index)
def add_at_index(built: Built) -> None:
    """Messages are added up by another function of torch."""


@clean("sage", "sage-optimizer-foreach")
def optimizer_foreach(built: Built) -> None:
    """The optimizer updates all parameters together."""
    built.optimizer.param_groups[0]["foreach"] = True


def _by_matrix(setting: Setting) -> None:
    edit_function(
        imported("torch_geometric.nn").SAGEConv,
        "forward",
        (
            "out = self.propagate(edge_index, x=x, size=size)",
            "adjacency = x[0].new_zeros(x[1].size(0), x[0].size(0))\n"
            "    adjacency[edge_index[1], edge_index[0]] = 1\n"
            "    out = adjacency @ x[0] / adjacency.sum(dim=1, keepdim=True).clamp(min=1)",
        ),
    )


@clean("sage", "sage-neighbours-by-matrix", before=_by_matrix)
def neighbours_by_matrix(built: Built) -> None:
    """Neighbours are averaged by a product with the matrix of the graph."""
