"""Cases on models of torch_geometric."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


@fault(
    "gcn",
    "gcn-edge-weights-dropped",
    Where("region", ("ones", "cat", "setitem", "getitem", "scatter_add", "scatter_add_"), ("convs.1",), calls=6),
    Where("argument", ("cat", "scatter_add", "scatter_add_", "getitem", "mul"), ("convs.1",), calls=6),
    Where("extra", ("ones",), ("convs.1",)),
    source="https://github.com/pyg-team/pytorch_geometric/issues/2017",
)
def edge_weights_dropped(built: Built) -> None:
    """One layer takes all edges for equally strong."""
    edit_one(
        built.model.convs[1],
        "forward",
        ("edge_index, edge_weight, x.size(self.node_dim)", "edge_index, None, x.size(self.node_dim)"),
        count=2,
    )


@fault(
    "gat",
    "gat-slope",
    Where("argument", ("leaky_relu",), ("convs.*",)),
    source="https://github.com/Dobiasd/frugally-deep/pull/446",
)
def slope(built: Built) -> None:
    """The scores of attention pass a leaky rectifier with the slope of another library."""
    for conv in built.model.convs:
        conv.negative_slope = 0.3


@fault(
    "gat",
    "gat-log-softmax-over-nodes",
    Where("argument", ("log_softmax",), ("",)),
    source="https://github.com/fxia22/pointnet.pytorch/issues/27",
)
def log_softmax_over_nodes(built: Built) -> None:
    """The chances of the classes are normalised over the nodes."""
    edit_step(built, ("log_softmax(out, dim=-1)", "log_softmax(out, dim=0)"))


@fault(
    "sage",
    "sage-sum-instead-of-mean",
    Where(
        "missing",
        ("div", "truediv", "clamp", "scatter_add", "scatter_add_", "new_zeros", "new_ones"),
        ("gnn.convs.1", "gnn.convs.1.aggr_module"),
        calls=7,
    ),
    source="https://github.com/pyg-team/pytorch_geometric/issues/1022",
)
def sum_instead_of_mean(built: Built) -> None:
    """One layer sums the neighbours of a node where it should average them."""
    from torch_geometric.nn.aggr import SumAggregation

    conv = built.model.gnn.convs[1]
    conv.aggr = "sum"
    conv.aggr_module = SumAggregation()


@fault(
    "sage",
    "sage-no-nesterov",
    Where("update", (), ("*",), ("*",)),
    source="https://github.com/tensorflow/tensorflow/issues/17024",
)
def no_nesterov(built: Built) -> None:
    """The optimizer takes plain momentum where Nesterov's was asked for."""
    built.optimizer.param_groups[0]["nesterov"] = False


def _dense(setting: Setting) -> None:
    edit_function(
        imported("torch_geometric.nn").GCNConv,
        "forward",
        (
            "out = self.propagate(edge_index, x=x, edge_weight=edge_weight)",
            "adjacency = x.new_zeros(x.size(0), x.size(0))\n"
            "    adjacency = adjacency.index_put((edge_index[1], edge_index[0]), edge_weight, accumulate=True)\n"
            "    out = adjacency @ x",
        ),
    )


@clean("gcn", "gcn-propagation-by-matrix", before=_dense)
def propagation_by_matrix(built: Built) -> None:
    """Messages are passed by a product with the matrix of the graph."""


def _einsum(setting: Setting) -> None:
    edit_function(
        imported("torch_geometric.nn").GATConv,
        "forward",
        ("(x_src * self.att_src).sum(dim=-1)", "torch.einsum('nhc,ohc->nh', x_src, self.att_src)"),
        ("(x_dst * self.att_dst).sum(-1)", "torch.einsum('nhc,ohc->nh', x_dst, self.att_dst)"),
        ("H, C = self.heads, self.out_channels", "import torch\n    H, C = self.heads, self.out_channels"),
    )


@clean("gat", "gat-attention-by-einsum", before=_einsum)
def attention_by_einsum(built: Built) -> None:
    """The scores of sources and targets are computed by one function."""
