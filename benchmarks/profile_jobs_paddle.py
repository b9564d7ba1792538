"""The training steps of ``profile_jobs`` in Paddle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


def jobs(device: str) -> dict[str, Callable[[], Any]]:
    paddle.set_device(device)
    return {"transformer": lambda: _transformer(device), "convnet": lambda: _convnet(device)}


class PaddleJob:
    """One training step."""

    def __init__(self, model: Any, batch: tuple[Any, Any], device: str) -> None:
        self._model = model
        self._inputs, self._labels = batch
        self._optimizer = paddle.optimizer.AdamW(1e-4, parameters=model.parameters())
        self._device = device

    def step(self) -> Any:
        logits = self._model(self._inputs)
        loss = F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), self._labels.reshape([-1]))
        loss.backward()
        self._optimizer.step()
        self._optimizer.clear_grad(set_to_zero=False)
        return loss.detach()

    def wait(self) -> None:
        if self._device != "cpu":
            paddle.device.synchronize()


class Layer(nn.Layer):
    """Post-norm encoder layer with attention written out."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def attend(self, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape([batch, length, 3, self.heads, width // self.heads]).transpose([2, 0, 3, 1, 4])
        query, key, value = qkv[0], qkv[1], qkv[2]
        scores = paddle.matmul(query, key, transpose_y=True) * (width // self.heads) ** -0.5
        mixed = paddle.matmul(F.softmax(scores), value)
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width]))

    def forward(self, x: Any) -> Any:
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Layer):
    """Token embeddings, encoder layers, a classifier for each token."""

    def __init__(self, vocabulary: int, width: int, layers: int, hidden: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.LayerList([Layer(width, 8, hidden) for _ in range(layers)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def _block(channels_in: int, channels_out: int, stride: int) -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(channels_in, channels_out, 3, stride, 1, bias_attr=False), nn.BatchNorm2D(channels_out), nn.ReLU()
    )


def _transformer(device: str) -> PaddleJob:
    paddle.seed(0)
    draw = np.random.default_rng(1)
    tokens = draw.integers(1000, size=(8, 129))
    batch = (paddle.to_tensor(tokens[:, :-1]), paddle.to_tensor(tokens[:, 1:]))
    return PaddleJob(Encoder(1000, width=256, layers=3, hidden=1024), batch, device)


def _convnet(device: str) -> PaddleJob:
    paddle.seed(0)
    draw = np.random.default_rng(2)
    images = paddle.to_tensor(draw.standard_normal((8, 3, 64, 64)).astype("float32"))
    model = nn.Sequential(
        _block(3, 32, 1), _block(32, 32, 1), nn.MaxPool2D(2), _block(32, 64, 1), _block(64, 64, 1), nn.MaxPool2D(2),
        _block(64, 128, 1), _block(128, 128, 1), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(128, 100),
    )  # fmt: skip
    return PaddleJob(model, (images, paddle.to_tensor(draw.integers(100, size=(8,)))), device)
