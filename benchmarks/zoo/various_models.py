"""Small models written as in the examples of the libraries. Imports torch: only to be imported by a program that is
being built."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class RNNModel(nn.Module):
    """The language model of torch's examples, with tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(90, 48)
        self.rnn = nn.LSTM(48, 48, 2)
        self.decoder = nn.Linear(48, 90)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, words: torch.Tensor, hidden: tuple[torch.Tensor, ...]) -> Any:
        embedded = self.drop(self.encoder(words))
        output, hidden = self.rnn(embedded, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, 90)
        return nn.functional.log_softmax(decoded, dim=1), hidden


class Tagger(nn.Module):
    """Gives each word of packed sentences a tag."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(60, 32)
        self.gru = nn.GRU(32, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(48)
        self.head = nn.Linear(48, 7)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(words), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = self.gru(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])
        return self.head(self.norm(states))


def worn(model: nn.Module, size: float = 0.05) -> None:
    """Moves biases and the weights of normalisations away from where they begin, as if the model had been trained."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * size)
