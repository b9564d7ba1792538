"""A BERT in pretraining: that of transformers, and one of Paddle's layers as PaddleNLP writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = (
    "bert.embeddings.word_embeddings.weight",
    "bert.encoder.layer.0.attention.self.value.weight",
    "bert.encoder.layer.1.output.LayerNorm.weight",
    "bert.pooler.dense.weight",
    "cls.predictions.bias",
)
WORDS, WIDTH, LAYERS, HEADS, LENGTHS = 90, 32, 3, 4, (16, 11, 14)


def batches() -> list[dict[str, np.ndarray]]:
    """Pairs of sentences of several lengths, some of their words masked (103) and asked for; 0 is padding."""
    data = port.numbers("bert")
    result = []
    for _ in range(2):
        words, labels = data.integers(5, WORDS, (3, 16)), np.full((3, 16), -100)
        kept, second = np.ones((3, 16), dtype=np.int64), np.zeros((3, 16), dtype=np.int64)
        for row, length in enumerate(LENGTHS):
            asked = data.choice(length, 4, replace=False)
            labels[row, asked] = words[row, asked]
            words[row, asked] = 3
            words[row, length:] = kept[row, length:] = 0
            second[row, length // 2 : length] = 1
        follows = data.integers(0, 2, 3)
        result.append(
            {"words": words, "kept": kept, "second": second, "labels": labels.astype(np.int64), "follows": follows}
        )
    return result


@program("across-bert-torch", library="transformers", dtypes=("float32",))
def bert_torch(setting: Setting) -> Built:
    import torch

    torchvision_ops.prepare()
    from transformers import BertForPreTraining

    model = port.fill_torch(
        BertForPreTraining(torch_config()).to(setting.device, getattr(torch, setting.dtype))
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-6)
    data = [{name: torch.from_numpy(x).to(setting.device) for name, x in batch.items()} for batch in batches()]
    return Built(model, torch_step, data, optimizer)


def torch_config() -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=24,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )


def torch_step(built: Built, index: int) -> dict[str, Any]:
    batch = built.batches[index]
    result = built.model(
        input_ids=batch["words"],
        attention_mask=batch["kept"],
        token_type_ids=batch["second"],
        labels=batch["labels"],
        next_sentence_label=batch["follows"],
    )
    built.optimizer.zero_grad()
    result.loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    given |= port.torch_watched(built.model, *WATCHED)
    logits = {"logits": result.prediction_logits, "logits of follows": result.seq_relationship_logits}
    return {"loss": result.loss, **logits, **given}


@program("across-bert-paddle", library="paddle", framework="paddle", dtypes=("float32",))
def bert_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model, rename)
    model.train()
    optimizer = paddle_optimizer(model)
    data = [{name: paddle.to_tensor(x) for name, x in batch.items()} for batch in batches()]
    return Built(model, paddle_step, data, optimizer, options={"ported": ported})


NAMES = {
    ".layers.": ".layer.",
    ".layer_norm.": ".LayerNorm.",
    ".self_attn.q_proj.": ".attention.self.query.",
    ".self_attn.k_proj.": ".attention.self.key.",
    ".self_attn.v_proj.": ".attention.self.value.",
    ".self_attn.out_proj.": ".attention.output.dense.",
    ".norm1.": ".attention.output.LayerNorm.",
    ".linear1.": ".intermediate.dense.",
    ".linear2.": ".output.dense.",
    ".norm2.": ".output.LayerNorm.",
    "cls.predictions.transform.": "cls.predictions.transform.dense.",
    "cls.predictions.layer_norm.": "cls.predictions.transform.LayerNorm.",
    "cls.predictions.LayerNorm.": "cls.predictions.transform.LayerNorm.",
    "cls.predictions.decoder_bias": "cls.predictions.bias",
}


def rename(name: str) -> str:
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name


def paddle_model() -> Any:
    import paddle
    import paddle.nn.functional as F
    from paddle import nn

    class BertEmbeddings(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.word_embeddings = nn.Embedding(WORDS, WIDTH)
            self.position_embeddings = nn.Embedding(24, WIDTH)
            self.token_type_embeddings = nn.Embedding(2, WIDTH)
            self.layer_norm = nn.LayerNorm(WIDTH, epsilon=1e-12)

        def forward(self, words: Any, second: Any) -> Any:
            places = paddle.arange(words.shape[1], dtype="int64").unsqueeze(0)
            x = self.word_embeddings(words) + self.position_embeddings(places) + self.token_type_embeddings(second)
            return self.layer_norm(x)

    class BertPooler(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(WIDTH, WIDTH)
            self.activation = nn.Tanh()

        def forward(self, x: Any) -> Any:
            return self.activation(self.dense(x[:, 0]))

    class BertModel(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = BertEmbeddings()
            layer = nn.TransformerEncoderLayer(
                WIDTH, HEADS, 2 * WIDTH, dropout=0.0, activation="gelu", attn_dropout=0.0, act_dropout=0.0,
                layer_norm_eps=1e-12,
            )  # fmt: skip
            self.encoder = nn.TransformerEncoder(layer, LAYERS)
            self.pooler = BertPooler()

        def forward(self, words: Any, kept: Any, second: Any) -> tuple[Any, Any]:
            mask = (1.0 - kept.astype(paddle.get_default_dtype())).unsqueeze([1, 2]) * -1e4
            x = self.encoder(self.embeddings(words, second), mask)
            return x, self.pooler(x)

    class BertLMPredictionHead(nn.Layer):
        def __init__(self, table: Any) -> None:
            super().__init__()
            self.transform = nn.Linear(WIDTH, WIDTH)
            self.layer_norm = nn.LayerNorm(WIDTH, epsilon=1e-12)
            self.decoder_weight = table
            self.decoder_bias = self.create_parameter([WORDS], is_bias=True)

        def forward(self, x: Any) -> Any:
            x = self.layer_norm(F.gelu(self.transform(x)))
            return paddle.matmul(x, self.decoder_weight, transpose_y=True) + self.decoder_bias

    class BertPretrainingHeads(nn.Layer):
        def __init__(self, table: Any) -> None:
            super().__init__()
            self.predictions = BertLMPredictionHead(table)
            self.seq_relationship = nn.Linear(WIDTH, 2)

        def forward(self, x: Any, pooled: Any) -> tuple[Any, Any]:
            return self.predictions(x), self.seq_relationship(pooled)

    class BertForPretraining(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel()
            self.cls = BertPretrainingHeads(self.bert.embeddings.word_embeddings.weight)

        def forward(self, words: Any, kept: Any, second: Any) -> tuple[Any, Any]:
            return self.cls(*self.bert(words, kept, second))

    return BertForPretraining()


def paddle_optimizer(model: Any) -> Any:
    import paddle

    return paddle.optimizer.AdamW(learning_rate=1e-3, weight_decay=0.01, epsilon=1e-6, parameters=model.parameters())


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle.nn.functional as F

    batch = built.batches[index]
    logits, of_follows = built.model(batch["words"], batch["kept"], batch["second"])
    asked = batch["labels"] != -100
    loss = F.cross_entropy(logits[asked], batch["labels"][asked]) + F.cross_entropy(of_follows, batch["follows"])
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    given |= port.paddle_watched(built.options["ported"], *WATCHED)
    return {"loss": loss, "logits": logits, "logits of follows": of_follows, **given}
