"""A small transformer that says from a recording of several sensors in which state a machine is."""

from __future__ import annotations

import torch
from data import LENGTH, SENSORS, STATES
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        count, length, width = values.shape
        parts = self.project(values).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5, dim=-1)
        return self.join((weights @ value).transpose(1, 2).reshape(count, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.before_mixing = nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = values + self.dropout(self.attention(self.before_attention(values)))
        return values + self.dropout(self.mix(self.before_mixing(values)))


class Transformer(nn.Module):
    """Recordings of shape (count, LENGTH, SENSORS) to scores of shape (count, states)."""

    def __init__(self, width: int = 32, heads: int = 4, blocks: int = 2, dropout: float = 0.1):
        super().__init__()
        self.embed = nn.Linear(SENSORS, width)
        self.position = nn.Parameter(0.02 * torch.randn(1, LENGTH, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(blocks)])
        self.end = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(STATES))

    def forward(self, recordings: torch.Tensor) -> torch.Tensor:
        values = self.dropout(self.embed(recordings) + self.position)
        for block in self.blocks:
            values = block(values)
        return self.head(self.end(values).mean(dim=1))


class Answering(nn.Module):
    """The network with what turns its scores into probabilities: what is evaluated, exported and asked."""

    def __init__(self, network: Transformer):
        super().__init__()
        self.network = network

    def forward(self, recordings: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.network(recordings), dim=-1)


def trained(checkpoint: str) -> Answering:
    """The network with the weights of a checkpoint, ready to be asked."""
    network = Transformer()
    network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True))
    return Answering(network).eval()
