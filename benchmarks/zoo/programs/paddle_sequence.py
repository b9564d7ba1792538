"""Models of sequences from the layers of paddle.nn: transformers, LSTM and GRU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.zoo.programs.paddle_vision import FLOAT32, use, worn
from benchmarks.zoo.spec import Built, Setting, program

PAD = 0
WORDS = 60


def sentences(random: np.random.RandomState, lengths: list[int], width: int, words: int = WORDS) -> np.ndarray:
    """Token numbers, each sentence of its own length and padded on the right."""
    rows = np.full((len(lengths), width), PAD, "int64")
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = random.randint(3, words, length)
    return rows


def sinusoid(length: int, width: int) -> np.ndarray:
    """The table of positions of the first transformer."""
    angle = np.arange(length)[:, None] / np.power(10000.0, 2 * np.arange(width // 2)[None] / width)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def update(built: Built, loss: Any) -> None:
    """Backward, update and schedule, as a loop in Paddle does it."""
    loss.backward()
    built.optimizer.step()
    built.optimizer.clear_grad()
    if built.scheduler is not None:
        built.scheduler.step()


@program("paddle-seq2seq", library="paddle", framework="paddle", dtypes=FLOAT32, steps=3)
def seq2seq(setting: Setting) -> Built:
    """A translator around paddle.nn.Transformer: smoothed labels, padding, Noam's schedule, Adam."""
    paddle = use(setting)
    model = worn(translator(paddle, 32))
    model.train()
    schedule = paddle.optimizer.lr.NoamDecay(d_model=32, warmup_steps=10, learning_rate=0.5)
    schedule.step()
    optimizer = paddle.optimizer.Adam(
        schedule,
        beta1=0.9,
        beta2=0.98,
        epsilon=1e-9,
        parameters=model.parameters(),
        grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
    )
    random = np.random.RandomState(5)
    batches = []
    for _ in range(3):
        source, target = sentences(random, [11, 7, 9], 11), sentences(random, [10, 6, 12], 12)
        target[:, 0] = 1
        batches.append((paddle.to_tensor(source), paddle.to_tensor(target)))
    return Built(model, translate, batches, optimizer, schedule, {"smoothing": 0.1})


def translator(paddle: Any, width: int) -> Any:
    """The translator: embeddings, positions, transformer, output."""

    class Translator(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            nn = paddle.nn
            self.width = width
            self.source_words = nn.Embedding(WORDS, width, padding_idx=PAD)
            self.target_words = nn.Embedding(WORDS, width, padding_idx=PAD)
            table = sinusoid(32, width).astype(paddle.get_default_dtype())
            self.register_buffer("positions", paddle.to_tensor(table), persistable=False)
            self.transformer = nn.Transformer(
                width,
                4,
                2,
                2,
                dim_feedforward=64,
                dropout=0.1,
                activation="relu",
                normalize_before=True,
                bias_attr=[False, False, None],
            )
            self.drop = nn.Dropout(0.1)
            self.output = nn.Linear(width, WORDS)

        def embedded(self, words: Any, tokens: Any) -> Any:
            vectors = words(tokens) * math.sqrt(self.width)
            return self.drop(vectors + self.positions[: tokens.shape[1]].unsqueeze(0))

        def forward(self, source: Any, target: Any) -> Any:
            padding = (source == PAD).astype(self.positions.dtype).unsqueeze([1, 2]) * -1e9
            later = self.transformer.generate_square_subsequent_mask(target.shape[1])
            states = self.transformer(
                self.embedded(self.source_words, source),
                self.embedded(self.target_words, target),
                src_mask=padding,
                tgt_mask=later,
                memory_mask=padding,
            )
            return self.output(states)

    return Translator()


def smoothed_loss(logits: Any, labels: Any, smoothing: float) -> Any:
    """Cross entropy against smoothed labels, the mean over the words that are not padding."""
    import paddle
    import paddle.nn.functional as F

    target = F.label_smooth(F.one_hot(labels, WORDS).astype(logits.dtype), epsilon=smoothing)
    costs = F.cross_entropy(logits, target, soft_label=True, reduction="none").squeeze(-1)
    weights = (labels != PAD).astype(costs.dtype)
    return paddle.sum(costs * weights) / paddle.sum(weights)


def translate(built: Built, index: int) -> dict[str, Any]:
    """One training step of the translator."""
    source, target = built.batches[index]
    logits = built.model(source, target[:, :-1])
    loss = smoothed_loss(logits, target[:, 1:], built.options["smoothing"])
    update(built, loss)
    return {"loss": loss, "logits": logits}


@program("paddle-encoder", library="paddle", framework="paddle", dtypes=FLOAT32, steps=3)
def encoder(setting: Setting) -> Built:
    """A masked language model around paddle.nn.TransformerEncoder: AdamW, warm-up, clipping, recompute on demand."""
    paddle = use(setting)
    model = worn(masked_language_model(paddle, 32))
    model.train()
    schedule = paddle.optimizer.lr.LinearWarmup(
        paddle.optimizer.lr.PolynomialDecay(2e-3, decay_steps=20, end_lr=0.0),
        warmup_steps=2,
        start_lr=5e-4,
        end_lr=2e-3,
    )
    exempt = ("bias", "norm1.weight", "norm2.weight", "norm.weight")
    decayed = {parameter.name for name, parameter in model.named_parameters() if not name.endswith(exempt)}
    optimizer = paddle.optimizer.AdamW(
        schedule,
        epsilon=1e-6,
        parameters=model.parameters(),
        weight_decay=0.1,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )
    return Built(model, unmask, masked_sentences(paddle, 3), optimizer, schedule)


def masked_sentences(paddle: Any, count: int) -> list[Any]:
    """Batches of tokens, segments and labels, in which a label is -100 where no word was masked."""
    random = np.random.RandomState(7)
    batches = []
    for _ in range(count):
        tokens = sentences(random, [16, 10, 13], 16)
        chosen = (random.rand(*tokens.shape) < 0.3) & (tokens != PAD)
        labels = np.where(chosen, tokens, -100)
        segments = (np.arange(16)[None] >= np.array([[8], [5], [7]])).astype("int64")
        batches.append(tuple(paddle.to_tensor(value) for value in (np.where(chosen, 2, tokens), segments, labels)))
    return batches


def masked_language_model(paddle: Any, width: int) -> Any:
    """Embeddings, an encoder and a head that shares its weight with the embedding."""
    nn = paddle.nn

    class MaskedLanguageModel(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            small = nn.initializer.Normal(std=0.02)
            self.words = nn.Embedding(WORDS, width, padding_idx=PAD, weight_attr=small)
            self.positions = nn.Embedding(24, width, weight_attr=small)
            self.segments = nn.Embedding(2, width, weight_attr=small)
            self.norm = nn.LayerNorm(width, epsilon=1e-12)
            self.drop = nn.Dropout(0.1)
            layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, activation="gelu", normalize_before=False)
            self.encoder = nn.TransformerEncoder(layer, 3)
            self.transform = nn.Linear(width, width)
            self.bias = self.create_parameter([WORDS], is_bias=True)

        def forward(self, tokens: Any, segments: Any) -> Any:
            import paddle

            place = paddle.arange(tokens.shape[1], dtype="int64").unsqueeze(0)
            states = self.words(tokens) + self.positions(place) + self.segments(segments)
            states = self.drop(self.norm(states))
            mask = (tokens == PAD).astype(states.dtype).unsqueeze([1, 2]) * -1e4
            states = self.encoder(states, mask)
            states = paddle.nn.functional.gelu(self.transform(states))
            return paddle.matmul(states, self.words.weight, transpose_y=True) + self.bias

    return MaskedLanguageModel()


def unmask(built: Built, index: int) -> dict[str, Any]:
    """One training step of the masked language model."""
    import paddle.nn.functional as F

    tokens, segments, labels = built.batches[index]
    logits = built.model(tokens, segments)
    known = (labels != -100).astype(logits.dtype)
    costs = F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")
    loss = (costs * known).sum() / known.sum()
    update(built, loss)
    return {"loss": loss, "logits": logits}


@program("paddle-lstm", library="paddle", framework="paddle", dtypes=FLOAT32)
def lstm(setting: Setting) -> Built:
    """A classifier of sentences around a bidirectional paddle.nn.LSTM of two layers."""
    paddle = use(setting)
    nn = paddle.nn

    class Sentiment(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 24, padding_idx=PAD)
            self.lstm = nn.LSTM(24, 20, num_layers=2, direction="bidirect", dropout=0.0)
            self.drop = nn.Dropout(0.2)
            self.hidden = nn.Linear(40, 32)
            self.output = nn.Linear(32, 3)

        def forward(self, tokens: Any, lengths: Any) -> Any:
            import paddle

            states, _ = self.lstm(self.words(tokens), sequence_length=lengths)
            valid = (tokens != PAD).astype(states.dtype).unsqueeze(-1)
            pooled = (states * valid).sum(1) / lengths.astype(states.dtype).unsqueeze(-1)
            return self.output(paddle.tanh(self.hidden(self.drop(pooled))))

    model = worn(Sentiment())
    model.train()
    optimizer = paddle.optimizer.Adam(
        5e-3, parameters=model.parameters(), weight_decay=1e-2, grad_clip=nn.ClipGradByGlobalNorm(0.3)
    )
    random = np.random.RandomState(9)
    batches = []
    for _ in range(2):
        tokens = sentences(random, [14, 6, 9, 11], 14)
        lengths = (tokens != PAD).sum(1).astype("int64")
        labels = random.randint(0, 3, 4).astype("int64")
        batches.append(tuple(paddle.to_tensor(value) for value in (tokens, lengths, labels)))
    return Built(model, judge, batches, optimizer)


def judge(built: Built, index: int) -> dict[str, Any]:
    """One training step of the classifier of sentences."""
    import paddle.nn.functional as F

    tokens, lengths, labels = built.batches[index]
    logits = built.model(tokens, lengths)
    loss = F.cross_entropy(logits, labels)
    update(built, loss)
    return {"loss": loss, "logits": logits}


@program("paddle-crnn", library="paddle", framework="paddle", dtypes=FLOAT32)
def crnn(setting: Setting) -> Built:
    """A reader of lines of text: convolutions, a bidirectional paddle.nn.GRU and the CTC loss."""
    paddle = use(setting)
    nn = paddle.nn

    class Reader(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2D(1, 12, 3, padding=1, bias_attr=False),
                nn.BatchNorm2D(12),
                nn.ReLU(),
                nn.MaxPool2D(2, 2),
                nn.Conv2D(12, 24, 3, padding=1, bias_attr=False),
                nn.BatchNorm2D(24),
                nn.ReLU(),
                nn.MaxPool2D((2, 1), (2, 1)),
            )
            self.gru = nn.GRU(24 * 4, 20, num_layers=2, direction="bidirect")
            self.output = nn.Linear(40, 16)

        def forward(self, lines: Any) -> Any:
            maps = self.features(lines)
            columns = maps.transpose([0, 3, 1, 2]).flatten(2)
            states, _ = self.gru(columns)
            return self.output(states)

    model = worn(Reader())
    model.train()
    optimizer = paddle.optimizer.AdamW(3e-3, parameters=model.parameters(), weight_decay=0.05)
    random = np.random.RandomState(13)
    batches = []
    for _ in range(2):
        lengths = np.array([5, 3, 4], "int64")
        labels = sentences(random, list(lengths), 5, 16).astype("int32")
        lines = 0.3 * random.randn(3, 1, 16, 32)
        for row, label in enumerate(labels):
            for place, letter in enumerate(label):
                lines[row, 0, letter % 14 : letter % 14 + 3, 6 * place : 6 * place + 4] += 1.0
        batches.append(
            tuple(paddle.to_tensor(value) for value in (lines.astype(setting.dtype), labels.astype("int32"), lengths))
        )
    return Built(model, read, batches, optimizer)


def read(built: Built, index: int) -> dict[str, Any]:
    """One training step of the reader."""
    import paddle
    import paddle.nn.functional as F

    lines, labels, lengths = built.batches[index]
    logits = built.model(lines)
    steps = paddle.full([logits.shape[0]], logits.shape[1], dtype="int64")
    loss = F.ctc_loss(logits.transpose([1, 0, 2]), labels, steps, lengths, blank=0, reduction="mean")
    update(built, loss)
    return {"loss": loss, "logits": logits}


@program("paddle-decoder", library="paddle", framework="paddle", dtypes=FLOAT32, steps=4)
def decoder(setting: Setting) -> Built:
    """A caption writer around paddle.nn.TransformerDecoder that writes word by word with its caches, no training."""
    paddle = use(setting)
    nn = paddle.nn

    class Writer(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 32)
            self.positions = nn.Embedding(16, 32)
            layer = nn.TransformerDecoderLayer(32, 4, 64, dropout=0.1, activation="gelu", normalize_before=True)
            self.decoder = nn.TransformerDecoder(layer, 2, nn.LayerNorm(32))
            self.output = nn.Linear(32, WORDS)

        def forward(self, token: Any, place: int, memory: Any, mask: Any, cache: Any) -> tuple[Any, Any]:
            import paddle

            spot = paddle.full_like(token, place)
            states = self.words(token) + self.positions(spot)
            states, cache = self.decoder(states, memory, None, mask, cache)
            return self.output(states), cache

    model = worn(Writer())
    model.eval()
    random = np.random.RandomState(17)
    memory = paddle.to_tensor(random.randn(3, 9, 32).astype(setting.dtype))
    missing = np.arange(9)[None] >= np.array([[9], [5], [7]])
    mask = paddle.to_tensor((missing * -1e9).astype(setting.dtype)).unsqueeze([1, 2])
    words = paddle.to_tensor(random.randint(3, WORDS, (3, 4)).astype("int64"))
    return Built(model, write, [words, memory, mask], None, None, {"cache": None, "offset": 0})


def write(built: Built, index: int) -> dict[str, Any]:
    """The next word after those given so far."""
    import paddle

    words, memory, mask = built.batches
    with paddle.no_grad():
        if built.options["cache"] is None:
            built.options["cache"] = built.model.decoder.gen_cache(memory)
        place = index + built.options["offset"]
        logits, built.options["cache"] = built.model(
            words[:, index : index + 1], place, memory, mask, built.options["cache"]
        )
    return {"logits": logits}
