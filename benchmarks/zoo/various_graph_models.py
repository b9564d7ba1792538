"""Models of torch_geometric. Imports it: only to be imported by a program that is being built."""

from __future__ import annotations

import torch
from torch_geometric.nn import GraphSAGE, global_add_pool, global_mean_pool  # noqa: F401


class Classifier(torch.nn.Module):
    """Averages the nodes of each graph before the head."""

    def __init__(self) -> None:
        super().__init__()
        self.gnn = GraphSAGE(12, 32, num_layers=3, out_channels=32, norm="graph_norm", act="relu")
        self.head = torch.nn.Linear(32, 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return self.head(global_mean_pool(self.gnn(x, edge_index, batch=batch), batch))
