"""Six small models with sites at which a case puts its own code, so that the call to blame is the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Sites = Mapping[str, Callable[..., Tensor]]


class Sited(nn.Module):
    """A model that asks, at named sites, whether a case wants something else than the plain thing."""

    def __init__(self, sites: Sites) -> None:
        super().__init__()
        self._sites = dict(sites)

    def at(self, name: str, plain: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return self._sites.get(name, plain)(*arguments)


class Mlp(Sited):
    """Regression on 16 features."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.first, self.second, self.last = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, batch: Tensor) -> Tensor:
        hidden = self.at("activation", F.gelu, self.first(batch))
        hidden = self.at("hidden", lambda value: value, self.second(hidden))
        return self.at("result", lambda value: value.mean(), self.last(hidden) ** 2)

    @staticmethod
    def batch(seed: int) -> Tensor:
        return torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))


class Attention(Sited):
    """A causal transformer block over tokens, written out."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.embed = nn.Embedding(50, 32)
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embed(tokens))
        scores = self.at("scores", torch.matmul, self.query(x), self.key(x).transpose(-1, -2)) / 32**0.5
        scores = self.at("mask", self._mask, scores)
        weights = self.at("softmax", lambda value: torch.softmax(value, -1), scores)
        x = x + weights @ self.value(x)
        logits = self.at("logits", lambda value: value, self.head(x))
        return self.at("loss", self._loss, logits, tokens)

    @staticmethod
    def _mask(scores: Tensor) -> Tensor:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return scores.masked_fill(~seen, float("-inf"))

    @staticmethod
    def _loss(logits: Tensor, tokens: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].reshape(-1, 50).float(), tokens[:, 1:].reshape(-1))

    @staticmethod
    def batch(seed: int) -> Tensor:
        return torch.randint(0, 50, (4, 12), generator=torch.Generator().manual_seed(seed))


class Convnet(Sited):
    """Images of 3 x 12 x 12 into ten classes, with batch norm."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(images)))
        x = self.at("features", lambda value: value, self.second(x))
        x = self.at("pool", lambda value: value.mean((2, 3)), x)
        return self.at("loss", lambda value: F.cross_entropy(value, torch.arange(len(value)) % 10), self.head(x))

    @staticmethod
    def batch(seed: int) -> Tensor:
        return torch.randn(6, 3, 12, 12, generator=torch.Generator().manual_seed(seed))


class Recurrent(Sited):
    """Padded sequences through a GRU, averaged over their valid steps."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.cell, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        sequences, lengths = batch
        states, _ = self.cell(sequences)
        valid = (torch.arange(sequences.shape[1])[None] < lengths[:, None]).to(states.dtype)
        total = (states * valid[..., None]).sum(1)
        mean = self.at("mean", lambda value, mask: value / mask.sum(1, keepdim=True).clamp(min=1), total, valid)
        logits = self.at("logits", lambda value: value, self.head(mean))
        return self.at("loss", lambda value: F.cross_entropy(value, torch.arange(len(value)) % 4), logits)

    @staticmethod
    def batch(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(5, 7, 8, generator=generator), torch.tensor([7, 3, 0, 5, 1])


class Vae(Sited):
    """A variational autoencoder: exponentials, logarithms, a KL term."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.encode, self.decode = nn.Linear(16, 8), nn.Linear(4, 16)

    def forward(self, batch: Tensor) -> Tensor:
        mean, log_variance = self.encode(batch).chunk(2, -1)
        deviation = self.at("deviation", lambda value: torch.exp(0.5 * value), log_variance)
        made = torch.sigmoid(self.decode(mean + deviation * torch.randn_like(deviation)))
        distance = ((made - torch.sigmoid(batch)) ** 2).sum(-1)
        divergence = self.at("divergence", self._divergence, mean, log_variance)
        return self.at("loss", lambda far, apart: (far + apart).mean(), distance, divergence)

    @staticmethod
    def _divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
        return -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1)

    @staticmethod
    def batch(seed: int) -> Tensor:
        return torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))


class Contrastive(Sited):
    """Two views of a batch, normalised, compared with a temperature."""

    def __init__(self, sites: Sites) -> None:
        super().__init__(sites)
        self.embed = nn.Linear(16, 8, bias=False)

    def forward(self, batch: Tensor) -> Tensor:
        left = self.at("normalise", lambda value: F.normalize(value, dim=-1), self.embed(batch))
        right = F.normalize(self.embed(batch + 0.1), dim=-1)
        logits = self.at("temperature", lambda value: value / 0.1, left @ right.T)
        return self.at("loss", lambda value: F.cross_entropy(value, torch.arange(len(value))), logits)

    @staticmethod
    def batch(seed: int) -> Tensor:
        batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
        batch[3] = 0.0  # a padded row
        return batch


MODELS: Mapping[str, type[Any]] = {
    "mlp": Mlp, "attention": Attention, "convnet": Convnet, "recurrent": Recurrent, "vae": Vae,
    "contrastive": Contrastive,
}  # fmt: skip
