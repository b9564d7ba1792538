"""A translator: the Transformer of torch.nn and that of paddle.nn, with the loss smoothed over the vocabulary."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = (
    "source.weight",
    "transformer.encoder.layers.0.norm1.bias",
    "transformer.decoder.layers.1.linear2.weight",
    "generator.weight",
)
WORDS, WIDTH = 50, 32


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Sentences of several lengths and their translations; 0 is padding, 1 begins and 2 ends a translation."""
    data = port.numbers("seq2seq")
    result = []
    for _ in range(2):
        source, target = data.integers(3, WORDS, (3, 10)), data.integers(3, WORDS, (3, 9))
        target[:, 0] = 1
        for row, (of_source, of_target) in enumerate(((10, 9), (7, 6), (4, 8))):
            source[row, of_source:] = 0
            target[row, of_target - 1] = 2
            target[row, of_target:] = 0
        result.append((source, target))
    return result


def places(length: int, width: int) -> np.ndarray:
    """The sines and cosines of each place, one beside the other."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width)


@program("across-seq2seq-torch", library="torch", dtypes=("float32",))
def seq2seq_torch(setting: Setting) -> Built:
    import torch

    model = port.fill_torch(torch_model().to(setting.device, getattr(torch, setting.dtype))).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-6)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches()]
    return Built(model, torch_step, data, optimizer)


def torch_model() -> Any:
    import torch
    from torch import nn

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source = nn.Embedding(WORDS, WIDTH)
            self.target = nn.Embedding(WORDS, WIDTH)
            self.register_buffer("places", torch.from_numpy(places(16, WIDTH)))
            self.transformer = nn.Transformer(WIDTH, 4, 2, 2, 64, dropout=0.0, batch_first=True)
            self.generator = nn.Linear(WIDTH, WORDS)

        def embedded(self, table: Any, words: Any) -> Any:
            return table(words) * math.sqrt(WIDTH) + self.places[: words.shape[1]]

        def forward(self, source: Any, target: Any) -> Any:
            length = target.shape[1]
            later = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
            padding = source == 0
            out = self.transformer(
                self.embedded(self.source, source),
                self.embedded(self.target, target),
                tgt_mask=later,
                src_key_padding_mask=padding,
                memory_key_padding_mask=padding,
            )
            return self.generator(out)

    model = Translator()
    model.transformer.encoder.enable_nested_tensor = False
    return model


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    source, target = built.batches[index]
    logits = built.model(source, target[:, :-1])
    wanted = target[:, 1:]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=0, label_smoothing=0.1, reduction="sum"
    )
    loss = loss / (wanted != 0).sum()
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.torch_watched(built.model, *WATCHED)}


@program("across-seq2seq-paddle", library="paddle", framework="paddle", dtypes=("float32",))
def seq2seq_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model, port.attention)
    model.train()
    optimizer = paddle_optimizer(model)
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches()]
    return Built(model, paddle_step, data, optimizer, options={"ported": ported})


def paddle_model() -> Any:
    import paddle
    from paddle import nn

    class Translator(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.source = nn.Embedding(WORDS, WIDTH)
            self.target = nn.Embedding(WORDS, WIDTH)
            self.places = paddle.to_tensor(places(16, WIDTH).astype(paddle.get_default_dtype()))
            self.transformer = nn.Transformer(WIDTH, 4, 2, 2, 64, dropout=0.0)
            self.generator = nn.Linear(WIDTH, WORDS)

        def embedded(self, table: Any, words: Any) -> Any:
            return table(words) * math.sqrt(WIDTH) + self.places[: words.shape[1]]

        def forward(self, source: Any, target: Any) -> Any:
            length = target.shape[1]
            seen = paddle.ones([length, length]).tril().astype("bool")
            kept = (source != 0).unsqueeze([1, 2])
            out = self.transformer(
                self.embedded(self.source, source),
                self.embedded(self.target, target),
                src_mask=kept,
                tgt_mask=seen,
                memory_mask=kept,
            )
            return self.generator(out)

    return Translator()


def paddle_optimizer(model: Any) -> Any:
    import paddle

    return paddle.optimizer.Adam(learning_rate=2e-3, beta1=0.9, beta2=0.98, epsilon=1e-6, parameters=model.parameters())


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle.nn.functional as F

    source, target = built.batches[index]
    logits = built.model(source, target[:, :-1])
    wanted = target[:, 1:]
    smooth = F.label_smooth(F.one_hot(wanted, WORDS).astype(logits.dtype), epsilon=0.1)
    losses = F.cross_entropy(logits, smooth, soft_label=True, reduction="none").squeeze(-1)
    counted = (wanted != 0).astype(logits.dtype)
    loss = (losses * counted).sum() / counted.sum()
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.paddle_watched(built.options["ported"], *WATCHED)}
