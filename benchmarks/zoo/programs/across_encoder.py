"""A tagger of words: the encoder of torch.nn and that of paddle.nn, trained with a warmed-up AdamW and clipping."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("words.weight", "encoder.layers.0.linear1.weight", "encoder.layers.1.norm2.weight", "head.bias")
WORDS, TAGS, LENGTHS = 60, 7, (12, 9, 5, 11)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Words and tags of sentences of several lengths; 0 is the padding of either."""
    data = port.numbers("encoder")
    result = []
    for _ in range(3):
        words, tags = data.integers(1, WORDS, (4, 12)), data.integers(1, TAGS, (4, 12))
        for row, length in enumerate(LENGTHS):
            words[row, length:] = tags[row, length:] = 0
        result.append((words, tags))
    return result


def share(step: int) -> float:
    """Of the learning rate, while it warms up."""
    return min(1.0, (step + 1) / 4)


@program("across-encoder-torch", library="torch", dtypes=("float32",), steps=3)
def encoder_torch(setting: Setting) -> Built:
    import torch

    model = port.fill_torch(torch_model().to(setting.device, getattr(torch, setting.dtype))).train()
    decayed = [value for name, value in model.named_parameters() if "bias" not in name and "norm" not in name]
    others = [value for name, value in model.named_parameters() if "bias" in name or "norm" in name]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=4e-3, eps=1e-6)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches()]
    return Built(model, torch_step, data, optimizer, scheduler)


def torch_model() -> Any:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 32)
            self.places = nn.Embedding(16, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, TAGS)

        def forward(self, words: Any) -> Any:
            places = torch.arange(words.shape[1], device=words.device)
            x = self.words(words) + self.places(places)
            return self.head(self.encoder(x, src_key_padding_mask=words == 0))

    return Tagger()


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    words, tags = built.batches[index]
    logits = built.model(words)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=0)
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.3)
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "logits": logits, **given, **port.torch_watched(built.model, *WATCHED)}


@program("across-encoder-paddle", library="paddle", framework="paddle", dtypes=("float32",), steps=3)
def encoder_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model, port.attention)
    model.train()
    scheduler = paddle.optimizer.lr.LambdaDecay(learning_rate=4e-3, lr_lambda=share)
    optimizer = paddle_optimizer(model, scheduler)
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches()]
    return Built(model, paddle_step, data, optimizer, scheduler, options={"ported": ported})


def paddle_model() -> Any:
    import paddle
    from paddle import nn

    class Tagger(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 32)
            self.places = nn.Embedding(16, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu")
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, TAGS)

        def forward(self, words: Any) -> Any:
            places = paddle.arange(words.shape[1])
            x = self.words(words) + self.places(places)
            kept = (words != 0).unsqueeze([1, 2])
            return self.head(self.encoder(x, src_mask=kept))

    return Tagger()


def paddle_optimizer(model: Any, scheduler: Any) -> Any:
    import paddle

    decayed = {value.name for name, value in model.named_parameters() if "bias" not in name and "norm" not in name}
    return paddle.optimizer.AdamW(
        learning_rate=scheduler,
        epsilon=1e-6,
        parameters=model.parameters(),
        weight_decay=0.1,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.3),
    )


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    words, tags = built.batches[index]
    logits = built.model(words)
    loss = paddle.nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=0)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "logits": logits, **given, **port.paddle_watched(built.options["ported"], *WATCHED)}
