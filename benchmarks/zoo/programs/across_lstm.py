"""A tagger of two bidirectional LSTM layers in both frameworks, over sentences of several lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("words.weight", "lstm.weight_hh_l0", "lstm.bias_ih_l1_reverse", "head.weight")
WORDS, TAGS, LENGTHS = 40, 6, (5, 10, 7)


def batches() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    data = port.numbers("lstm")
    result = []
    for _ in range(2):
        words, tags = data.integers(1, WORDS, (3, 10)), data.integers(0, TAGS, (3, 10))
        for row, length in enumerate(LENGTHS):
            words[row, length:] = 0
            tags[row, length:] = -100
        result.append((words, tags, np.array(LENGTHS)))
    return result


@program("across-lstm-torch", library="torch", dtypes=("float32",))
def lstm_torch(setting: Setting) -> Built:
    import torch

    model = port.fill_torch(torch_model().to(setting.device, getattr(torch, setting.dtype))).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches()]
    return Built(model, torch_step, data, optimizer)


def torch_model() -> Any:
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 24)
            self.lstm = nn.LSTM(24, 24, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(48, TAGS)

        def forward(self, words: Any, lengths: Any) -> Any:
            x = self.words(words)
            packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            out, _ = self.lstm(packed)
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=words.shape[1])
            return self.head(out)

    return Tagger()


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    words, tags, lengths = built.batches[index]
    logits = built.model(words, lengths)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    torch.nn.utils.clip_grad_value_(built.model.parameters(), 0.02)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.torch_watched(built.model, *WATCHED)}


@program("across-lstm-paddle", library="paddle", framework="paddle", dtypes=("float32",))
def lstm_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model)
    model.train()
    optimizer = paddle_optimizer(model)
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches()]
    return Built(model, paddle_step, data, optimizer, options={"ported": ported})


def paddle_model() -> Any:
    from paddle import nn

    class Tagger(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 24)
            self.lstm = nn.LSTM(24, 24, num_layers=2, direction="bidirect")
            self.head = nn.Linear(48, TAGS)

        def forward(self, words: Any, lengths: Any) -> Any:
            x = self.words(words)
            out, _ = self.lstm(x, sequence_length=lengths)
            return self.head(out)

    return Tagger()


def paddle_optimizer(model: Any) -> Any:
    import paddle

    return paddle.optimizer.Adam(
        learning_rate=5e-3, parameters=model.parameters(), grad_clip=paddle.nn.ClipGradByValue(0.02)
    )


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    words, tags, lengths = built.batches[index]
    logits = built.model(words, lengths)
    logits_of_words, tags_of_words = logits[tags != -100], tags[tags != -100]
    loss = paddle.nn.functional.cross_entropy(logits_of_words, tags_of_words)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.paddle_watched(built.options["ported"], *WATCHED)}
