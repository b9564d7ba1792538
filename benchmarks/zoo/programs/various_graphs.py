"""Graph networks of torch_geometric: GCN and GAT that classify nodes, GraphSAGE that classifies small graphs."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program


def _citations(setting: Setting, nodes: int = 40, features: int = 24, classes: int = 5) -> dict[str, Any]:
    """A graph in which nodes of one class are connected more often than others, with some nodes without edges."""
    import torch

    labels = torch.randint(0, classes, (nodes,))
    likely = torch.where(labels[:, None] == labels, 0.3, 0.04)
    joined = torch.triu(torch.rand(nodes, nodes) < likely, diagonal=1)
    joined[:, -2:] = False
    joined[-2:] = False
    one, other = joined.nonzero().T
    extra = torch.tensor([[0, 3, 7], [0, 3, 9]])  # two loops and one edge in one direction only
    edges = torch.cat([torch.stack([one, other]), torch.stack([other, one]), extra], dim=1)
    x = torch.randn(nodes, features) + torch.randn(classes, features)[labels]
    weights = torch.rand(edges.shape[1]) + 0.5
    chosen = torch.rand(nodes) < 0.5
    dtype = getattr(torch, setting.dtype)
    given = {"x": x.to(dtype), "edges": edges, "weights": weights.to(dtype), "labels": labels, "chosen": chosen}
    return {name: value.to(setting.device) for name, value in given.items()}


@program("gcn", library="torch_geometric")
def gcn(setting: Setting) -> Built:
    """Half of the nodes have known labels; weight decay for the first layer only, as in the paper's code."""
    import torch
    from torch_geometric.nn import GCN

    from benchmarks.zoo.various_models import worn

    model = GCN(24, 32, num_layers=3, out_channels=5, dropout=0.0, norm="batch_norm", bias=False)
    worn(model)
    model.to(setting.device, getattr(torch, setting.dtype)).train()
    first = list(model.convs[0].parameters())
    rest = [p for p in model.parameters() if not any(p is other for other in first)]
    optimizer = torch.optim.Adam([{"params": first, "weight_decay": 5e-3}, {"params": rest}], lr=1e-2)
    return Built(model, gcn_step, [_citations(setting)], optimizer, None, {})


def gcn_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    graph = built.batches[0]
    built.model.train()
    built.optimizer.zero_grad()
    out = built.model(graph["x"], graph["edges"], edge_weight=graph["weights"])
    loss = torch.nn.functional.cross_entropy(out[graph["chosen"]], graph["labels"][graph["chosen"]])
    loss.backward()
    built.optimizer.step()
    built.model.eval()
    with torch.no_grad():
        after = built.model(graph["x"], graph["edges"], edge_weight=graph["weights"])
    return {"loss": loss, "out": out, "after": after}


@program("gat", library="torch_geometric")
def gat(setting: Setting) -> Built:
    import torch
    from torch_geometric.nn import GAT

    from benchmarks.zoo.various_models import worn

    model = GAT(24, 32, num_layers=2, out_channels=5, heads=4, dropout=0.0, act="elu")
    worn(model)
    model.to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    return Built(model, gat_step, [_citations(setting)], optimizer, None, {})


def gat_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    graph = built.batches[0]
    built.optimizer.zero_grad()
    out = built.model(graph["x"], graph["edges"])
    chances = torch.nn.functional.log_softmax(out, dim=-1)
    loss = torch.nn.functional.nll_loss(chances[graph["chosen"]], graph["labels"][graph["chosen"]])
    loss.backward()
    built.optimizer.step()
    return {"loss": loss, "out": out}


@program("sage", library="torch_geometric")
def sage(setting: Setting) -> Built:
    """Batches of four small graphs of different sizes, whose nodes are averaged before the classifier."""
    import torch
    from torch_geometric.data import Batch, Data
    from torch_geometric.utils import erdos_renyi_graph

    from benchmarks.zoo.various_graph_models import Classifier
    from benchmarks.zoo.various_models import worn

    model = Classifier()
    worn(model)
    model.to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    batches = []
    for _ in range(3):
        graphs = []
        for nodes in (5, 9, 7, 12):
            made = erdos_renyi_graph(nodes, 0.4)
            x = (torch.randn(nodes, 12) + torch.randn(12)).to(getattr(torch, setting.dtype))
            graphs.append(Data(x=x, edge_index=made, y=torch.randint(0, 2, (1,))))
        batches.append(Batch.from_data_list(graphs).to(setting.device))
    return Built(model, sage_step, batches, optimizer, None, {})


def sage_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    out = built.model(batch.x, batch.edge_index, batch.batch).squeeze(-1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(out, batch.y.to(out.dtype))
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    return {"loss": loss, "out": out}
