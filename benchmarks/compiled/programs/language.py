"""A small decoder in the style of Llama, its training and its generation with a key-value cache."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.spec import How

VOCABULARY, WIDTH, HEADS, LENGTH, IGNORED = 96, 32, 4, 20, -100


class RMSNorm(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * wide.type_as(x)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    return x * cosine + rotate_half(x) * sine


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.size**-0.5
        future = torch.triu(torch.ones(length, length, dtype=torch.bool, device=x.device), 1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        mixed = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(width), Attention(width, heads)
        self.feed_norm, self.feed = RMSNorm(width), FeedForward(width, 2 * width)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.feed(self.feed_norm(x))


class Decoder(nn.Module):
    def __init__(self, layers: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(layers))
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        size = WIDTH // HEADS
        angles = torch.outer(torch.arange(64.0), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        length = tokens.shape[1]
        cosine, sine = self.cosine[:length].to(x.dtype), self.sine[:length].to(x.dtype)
        for block in self.blocks:
            x = block(x, cosine, sine)
        return self.head(self.norm(x))


def batches(steps: int, length: int = LENGTH) -> list[tuple[torch.Tensor, torch.Tensor]]:
    made = []
    for _ in range(steps):
        tokens = torch.randint(0, VOCABULARY, (2, length + 1))
        labels = tokens[:, 1:].clone()
        labels[0, -5:] = IGNORED
        made.append((tokens[:, :-1], labels))
    return made


def decoder_training(how: How) -> dict[str, Any]:
    """Three steps of AdamW; the whole model is compiled, or with ``regional`` each block by itself."""
    model = Decoder(how.knobs.get("layers", 1)).to(how.type)
    if how.knobs.get("regional"):
        for index, block in enumerate(model.blocks):
            model.blocks[index] = how.compile(block)
        run: Any = model
    else:
        run = how.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
    losses = []
    for tokens, labels in batches(3):
        with how.casting():
            logits = run(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    gradients = {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    return {"losses": torch.stack(losses), "logits": logits.detach(), **gradients}


def decoder_training_with_loss(how: How) -> dict[str, Any]:
    """Model and loss are one compiled function."""
    model = Decoder().to(how.type)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def loss_of(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)

    compiled = how.compile(loss_of)
    losses = []
    for tokens, labels in batches(3):
        with how.casting():
            loss = compiled(tokens, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), "head": model.head.weight.detach(), "grad": model.head.weight.grad}


def decoder_scoring(how: How) -> dict[str, Any]:
    """Inference on batches of other lengths."""
    model = Decoder().to(how.type).eval()
    run = how.compile(model)
    scores = {}
    with torch.no_grad(), how.casting():
        for length in (12, 17, 20):
            tokens = torch.randint(0, VOCABULARY, (2, length))
            scores[f"scores.{length}"] = run(tokens).log_softmax(-1)
    return scores


class CachedLayer(nn.Module):
    """One attention layer that reads all earlier keys and values from buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("keys", torch.zeros(2, 16, WIDTH))
        self.register_buffer("values", torch.zeros(2, 16, WIDTH))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(1, position, self.k(x))
        self.values.index_copy_(1, position, self.v(x))
        scores = self.q(x) @ self.keys.transpose(1, 2) * WIDTH**-0.5
        seen = torch.arange(16) <= position
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return weights @ self.values


def cached_generation(how: How) -> dict[str, Any]:
    """Six tokens, one at a time, with a cache that the compiled layer changes in place."""
    embedding, layer, head = nn.Embedding(VOCABULARY, WIDTH), CachedLayer(), nn.Linear(WIDTH, VOCABULARY)
    run = how.compile(layer)
    token = torch.tensor([[3], [7]])
    logits = []
    with torch.no_grad():
        for index in range(6):
            hidden = run(embedding(token), torch.tensor([index]))
            logits.append(head(hidden)[:, 0])
            token = torch.tensor([[(5 * index + 11) % VOCABULARY], [(7 * index + 2) % VOCABULARY]])
    return {"logits": torch.stack(logits), "keys": layer.keys, "values": layer.values}
