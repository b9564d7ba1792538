"""Language models of PaddleFormers."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np

from benchmarks.zoo.programs.paddle_sequence import update
from benchmarks.zoo.programs.paddle_vision import FLOAT32, use, worn
from benchmarks.zoo.spec import Built, Setting, program

WORDS = 96


def transformers() -> Any:
    """paddleformers.transformers, without what it does to other libraries and to paddle.nn when it is imported."""
    os.environ["PADDLEFORMERS_TESTING"] = "1"  # else it hides torch from the library transformers
    os.environ["FLAGS_enable_paddleformers_monkey_patch"] = "0"  # noqa: SIM112
    import huggingface_hub
    from paddle import nn

    if not hasattr(huggingface_hub, "repo_type_and_id_from_hf_id"):  # newer versions dropped it; only for downloads
        huggingface_hub.repo_type_and_id_from_hf_id = None
    layers = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder)
    before = [{name: vars(layer).get(name) for name in ("forward", "__init__", "__setattr__")} for layer in layers]
    import paddleformers.transformers as library

    logging.getLogger("PaddleFormers").setLevel(logging.ERROR)
    for name in ("LlamaForCausalLM", "Gemma3ForCausalLM", "Ernie4_5ForCausalLM"):
        getattr(library, name)  # imported now
    for layer, methods in zip(layers, before, strict=True):
        for name, method in methods.items():
            if method is not None:
                setattr(layer, name, method)
            elif name in vars(layer):
                delattr(layer, name)
    return library


def texts(paddle: Any, count: int, ignored: int = 3) -> list[Any]:
    """Batches of tokens, a mask of what is not padding, and labels: the next token, -100 for a prompt and padding."""
    random = np.random.RandomState(19)
    batches = []
    for _ in range(count):
        lengths = [20, 15, 17]
        tokens = random.randint(3, WORDS, (3, 20)).astype("int64")
        tokens[:, 8:12] = tokens[:, 1:5]
        valid = np.arange(20)[None] < np.array(lengths)[:, None]
        tokens = np.where(valid, tokens, 0)
        labels = np.concatenate([tokens[:, 1:], np.zeros((3, 1), "int64")], axis=1)
        known = np.concatenate([valid[:, 1:], np.zeros((3, 1), bool)], axis=1)
        known[:, :ignored] = False
        labels = np.where(known, labels, -100)
        batches.append(tuple(paddle.to_tensor(value) for value in (tokens, valid, labels)))
    return batches


def configured(config: Any, **more: Any) -> Any:
    for name, value in more.items():
        setattr(config, name, value)
    return config


@program("paddle-llama", library="paddleformers", framework="paddle", dtypes=FLOAT32)
def llama(setting: Setting) -> Built:
    """A Llama with grouped keys and values, trained with AdamW and clipping."""
    paddle = use(setting)
    library = transformers()
    config = library.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-6,
    )
    config = configured(config, fuse_rms_norm=False, _attn_implementation="eager")
    model = worn(library.LlamaForCausalLM(config))
    model.train()
    optimizer = paddle.optimizer.AdamW(
        3e-3,
        beta2=0.95,
        parameters=model.parameters(),
        weight_decay=0.1,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )
    return Built(model, predict, texts(paddle, 2), optimizer)


@program("paddle-gemma", library="paddleformers", framework="paddle", dtypes=FLOAT32)
def gemma(setting: Setting) -> Built:
    """A Gemma 3 with a sliding window in two of three layers, trained with Adam."""
    paddle = use(setting)
    library = transformers()
    config = library.Gemma3TextConfig(
        vocab_size=WORDS,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        query_pre_attn_scalar=12,
        max_position_embeddings=64,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )
    config = configured(config, _attn_implementation="eager")
    model = worn(library.Gemma3ForCausalLM(config))
    model.train()
    optimizer = paddle.optimizer.AdamW(
        2e-3, parameters=model.parameters(), weight_decay=0.01, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)
    )
    return Built(model, predict, texts(paddle, 2), optimizer)


@program("paddle-ernie", library="paddleformers", framework="paddle", dtypes=FLOAT32)
def ernie(setting: Setting) -> Built:
    """An ERNIE 4.5 with biases, dropout and tied embeddings, gradients accumulated over two batches."""
    paddle = use(setting)
    library = transformers()
    config = library.Ernie4_5Config(
        vocab_size=WORDS,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        max_position_embeddings=64,
        use_bias=True,
        tie_word_embeddings=True,
        hidden_dropout_prob=0.1,
    )
    config = configured(config, fuse_rms_norm=False, _attn_implementation="eager", apply_rope_fusion=False)
    model = worn(library.Ernie4_5ForCausalLM(config))
    model.train()
    optimizer = paddle.optimizer.AdamW(
        2e-3,
        epsilon=1e-6,
        parameters=model.parameters(),
        weight_decay=0.1,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )
    return Built(model, accumulate, texts(paddle, 4), optimizer, None, {"parts": 2})


def logits_of(built: Built, tokens: Any, valid: Any) -> Any:
    result = built.model(input_ids=tokens, attention_mask=valid)
    return result[0] if isinstance(result, tuple) else result.logits


def predict(built: Built, index: int) -> dict[str, Any]:
    """One training step of a language model with the criterion of the library."""
    tokens, valid, labels = built.batches[index]
    logits = logits_of(built, tokens, valid)
    loss, _ = built.model.criterion(logits, labels)
    update(built, loss)
    return {"loss": loss, "logits": logits}


def accumulate(built: Built, index: int) -> dict[str, Any]:
    """One training step whose gradients come from several batches."""
    import paddle.nn.functional as F

    parts = built.options["parts"]
    total, given = 0.0, {}
    for part in range(parts):
        tokens, valid, labels = built.batches[index * parts + part]
        logits = logits_of(built, tokens, valid)
        costs = F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")
        known = (labels != -100).astype(costs.dtype)
        loss = (costs * known).sum() / known.sum()
        loss = loss / parts
        loss.backward()
        total = total + loss.detach()
        given[f"logits {part}"] = logits
    built.optimizer.step()
    built.optimizer.clear_grad()
    return {"loss": total, **given}
