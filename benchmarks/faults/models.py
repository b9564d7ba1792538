"""Five small training programs in which faults are planted: a step takes some tens of milliseconds on one core.

They differ in operators, layers and optimizers (plain, foreach and fused) on purpose. Everything is made from fixed
seeds and every step reseeds, so that two runs of a program draw the same random numbers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, ...]


@dataclass
class Program:
    """A model with everything that a training step needs; ``dtype`` is that of its floating-point inputs."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    make_batch: Callable[[torch.Generator], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]
    clip: float | None = None
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    steps_done: int = field(default=0)

    def batch(self) -> Batch:
        generator = torch.Generator().manual_seed(100 + self.steps_done)
        return tuple(
            (part.to(self.dtype) if part.is_floating_point() else part).to(self.device)
            for part in self.make_batch(generator)
        )

    def train_step(self, batch: Batch) -> float:
        """One step on a batch that was made beforehand, so that making it is no part of what is captured."""
        torch.manual_seed(500 + self.steps_done)
        self.optimizer.zero_grad(set_to_none=True)
        with self._precision():
            loss = self.loss(self.model, batch)
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.steps_done += 1
        return float(loss.detach())

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device, self.autocast)

    def convert(self, dtype: torch.dtype | None = None, device: str | None = None) -> None:
        """Goes on in another dtype or on another device from the same state, as from a checkpoint."""
        self.dtype, self.device = dtype or self.dtype, device or self.device
        self.model.to(self.device, self.dtype)
        for state in self.optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, Tensor) and key != "step":
                    state[key] = value.to(self.device, self.dtype)
                elif isinstance(value, Tensor) and self.optimizer.defaults.get("fused"):
                    state[key] = value.to(self.device)  # the fused kernel counts its steps on the device


class EncoderLayer(nn.Module):
    """Pre-norm layer with attention written out."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(0.1)

    def split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def attend(self, x: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.div(torch.matmul(query, key.transpose(-2, -1)), math.sqrt(query.shape[-1]))
        weights = self.dropout(F.softmax(scores, dim=-1))
        return self.out(torch.matmul(weights, value).transpose(1, 2).reshape(x.shape))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attend(self.norm1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Encoder(nn.Module):
    """Width 128, four layers; the model of the peer's published fault list."""

    def __init__(self, vocabulary: int = 200, length: int = 32, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(width, 4, 256) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def _wide(logits: Tensor) -> Tensor:
    """Losses are computed in float32 at least, as training code does; the cast is there in every precision."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def encoder() -> Program:
    torch.manual_seed(1)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def make_batch(generator: torch.Generator) -> Batch:
        labels = torch.randint(200, (4, 32), generator=generator)
        labels[:, -5:] = -100
        return torch.randint(200, (4, 32), generator=generator), labels

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits = model(batch[0])
        flat = _wide(logits.reshape(-1, logits.shape[-1]))
        return F.cross_entropy(flat, batch[1].reshape(-1), ignore_index=-100, label_smoothing=0.1)

    return Program("encoder", model, optimizer, make_batch, loss)


class ConvBlock(nn.Module):
    """Two convolutions with BatchNorm and a shortcut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(torch.add(out, self.shortcut(x)))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.norm = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(ConvBlock(16, 16, 1), ConvBlock(16, 32, 2), ConvBlock(32, 32, 1))
        self.smooth = nn.AvgPool2d(3, 1, 1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.norm(self.stem(x)), 3, 2, 1))
        x = self.smooth(self.blocks(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def convnet() -> Program:
    torch.manual_seed(2)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, foreach=True)

    def make_batch(generator: torch.Generator) -> Batch:
        return torch.randn(8, 3, 32, 32, generator=generator), torch.randint(10, (8,), generator=generator)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(_wide(model(batch[0])), batch[1])

    return Program("convnet", model, optimizer, make_batch, loss)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


class DecoderLayer(nn.Module):
    """Rotary, causal attention written out, gated feed-forward."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = RMSNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norm2 = RMSNorm(width)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((torch.neg(second), first), dim=-1)
        return torch.add(torch.mul(x, cos), torch.mul(turned, sin))

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        query = self.rotate(self.split(self.query(x)), cos, sin)
        key = self.rotate(self.split(self.key(x)), cos, sin)
        scores = torch.mul(torch.matmul(query, key.transpose(-2, -1)), query.shape[-1] ** -0.5)
        weights = F.softmax(torch.masked_fill(scores, mask, -math.inf), dim=-1)
        mixed = torch.matmul(weights, self.split(self.value(x)))
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x), cos, sin, mask)
        hidden = self.norm2(x)
        return x + self.down(torch.mul(F.silu(self.gate(hidden)), self.up(hidden)))


class Decoder(nn.Module):
    """A small language model whose head shares the weights of the embedding."""

    cos: Tensor
    sin: Tensor
    mask: Tensor

    def __init__(self, vocabulary: int = 160, length: int = 32, width: int = 96, layers: int = 3) -> None:
        super().__init__()
        heads = 3
        self.tokens = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.tokens.weight, std=0.1)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, 192) for _ in range(layers))
        self.norm = RMSNorm(width)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 100.0 ** (-torch.arange(half) / half)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return F.linear(self.norm(x), self.tokens.weight)


def decoder() -> Program:
    torch.manual_seed(3)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    def make_batch(generator: torch.Generator) -> Batch:
        tokens = torch.randint(160, (4, 33), generator=generator)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits = model(batch[0])
        return F.cross_entropy(_wide(logits.reshape(-1, logits.shape[-1])), batch[1].reshape(-1))

    return Program("decoder", model, optimizer, make_batch, loss)


class LSTMCell(nn.Module):
    """One step of an LSTM, written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(width, 4 * width)
        self.state = nn.Linear(width, 4 * width)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        gates = torch.add(self.inputs(x), self.state(hidden)).chunk(4, dim=-1)
        cell = torch.addcmul(
            torch.mul(torch.sigmoid(gates[1]), cell), torch.sigmoid(gates[0]), torch.tanh(gates[2])
        )
        return torch.mul(torch.sigmoid(gates[3]), torch.tanh(cell)), cell


class Recurrent(nn.Module):
    """Embedding, a GRU, an LSTM cell over time, attention pooling, a standardised score for each of 6 tags."""

    def __init__(self, vocabulary: int = 60, width: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.cell = LSTMCell(width)
        self.energy = nn.Linear(width, 1)
        self.head = nn.Linear(2 * width, 6)
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, tokens: Tensor) -> Tensor:
        x, last = self.gru(self.tokens(tokens))
        hidden = cell = torch.zeros_like(x[:, 0])
        states = []
        for position in range(x.shape[1]):
            hidden, cell = self.cell(x[:, position], hidden, cell)
            states.append(hidden)
        path = torch.stack(states, dim=1)
        history = torch.cumsum(path, dim=1)
        weights = torch.softmax(torch.add(self.energy(history), self.shift), dim=1)
        pooled = torch.sum(torch.mul(weights, path), dim=1)
        spread = torch.var(path, dim=1, unbiased=False)
        return self.head(torch.cat((torch.add(pooled, last[0]), torch.log1p(spread)), dim=-1))


def recurrent() -> Program:
    torch.manual_seed(4)
    model = Recurrent()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=False)
    weight = torch.linspace(0.5, 3.0, 6)

    def make_batch(generator: torch.Generator) -> Batch:
        tokens = torch.randint(60, (12, 16), generator=generator)
        tokens[:, -2:] = 0
        return tokens, torch.randint(2, (12, 6), generator=generator).float()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits = _wide(model(batch[0]))
        labels, scale = batch[1].to(logits.dtype), weight.to(logits.device, logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, labels, pos_weight=scale)

    return Program("recurrent", model, optimizer, make_batch, loss, clip=0.05)


class VisionLayer(nn.Module):
    """The framework's own attention; feed-forward weights are kept in bfloat16 precision."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        small = self.norm2(x).bfloat16().to(x.dtype)
        return x + self.down(F.gelu(self.up(small), approximate="tanh"))


class Vision(nn.Module):
    """Patches, GroupNorm, attention layers and a weighted negative log-likelihood."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.norm = nn.GroupNorm(8, width)
        self.places = nn.Parameter(torch.randn(64, width) * 0.02)
        self.layers = nn.ModuleList(VisionLayer(width, 4) for _ in range(3))
        self.head = nn.Linear(width, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.norm(self.patches(x)), 0.1)
        x = x.flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.sum(F.normalize(x, dim=-1), dim=1))


def vision() -> Program:
    torch.manual_seed(5)
    model = Vision()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    weight = torch.linspace(0.5, 2.0, 12)

    def make_batch(generator: torch.Generator) -> Batch:
        return torch.randn(6, 3, 32, 32, generator=generator), torch.randint(12, (6,), generator=generator)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits = _wide(model(batch[0]))
        return F.nll_loss(F.log_softmax(logits, dim=-1), batch[1], weight.to(logits.device, logits.dtype))

    return Program("vision", model, optimizer, make_batch, loss)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "encoder": encoder,
    "convnet": convnet,
    "decoder": decoder,
    "recurrent": recurrent,
    "vision": vision,
}
