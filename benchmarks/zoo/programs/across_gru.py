"""Two GRU layers in both frameworks, that read sentences of several lengths and say which topics they have."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("words.weight", "gru.weight_hh_l1", "gru.bias_hh_l0", "head.weight")
WORDS, TOPICS, LENGTHS = 40, 5, (12, 6, 9, 3)


def batches(dtype: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    data = port.numbers("gru")
    result = []
    for _ in range(2):
        words, topics = data.integers(1, WORDS, (4, 12)), (data.random((4, TOPICS)) < 0.4).astype(dtype)
        for row, length in enumerate(LENGTHS):
            words[row, length:] = 0
        result.append((words, topics, np.array(LENGTHS)))
    return result


@program("across-gru-torch", library="torch", dtypes=("float32",))
def gru_torch(setting: Setting) -> Built:
    import torch

    model = port.fill_torch(torch_model().to(setting.device, getattr(torch, setting.dtype))).train()
    with torch.no_grad():
        model.words.weight[0] = 0
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, eps=1e-6)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, torch_step, data, optimizer)


def torch_model() -> Any:
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence

    class Topics(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 24, padding_idx=0)
            self.gru = nn.GRU(24, 32, num_layers=2, batch_first=True)
            self.norm = nn.LayerNorm(32)
            self.head = nn.Linear(32, TOPICS)

        def forward(self, words: Any, lengths: Any) -> Any:
            x = self.words(words)
            packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            _, last = self.gru(packed)
            return self.head(self.norm(last[-1]))

    return Topics()


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    words, topics, lengths = built.batches[index]
    logits = built.model(words, lengths)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, topics)
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.torch_watched(built.model, *WATCHED)}


@program("across-gru-paddle", library="paddle", framework="paddle", dtypes=("float32",))
def gru_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model)
    table = model.words.weight.numpy()
    table[0] = 0
    model.words.weight.set_value(table)
    model.train()
    optimizer = paddle.optimizer.Adagrad(learning_rate=0.02, epsilon=1e-6, parameters=model.parameters())
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, paddle_step, data, optimizer, options={"ported": ported})


def paddle_model() -> Any:
    from paddle import nn

    class Topics(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 24, padding_idx=0)
            self.gru = nn.GRU(24, 32, num_layers=2)
            self.norm = nn.LayerNorm(32)
            self.head = nn.Linear(32, TOPICS)

        def forward(self, words: Any, lengths: Any) -> Any:
            x = self.words(words)
            _, last = self.gru(x, sequence_length=lengths)
            return self.head(self.norm(last[-1]))

    return Topics()


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    words, topics, lengths = built.batches[index]
    logits = built.model(words, lengths)
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(logits, topics)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.paddle_watched(built.options["ported"], *WATCHED)}
