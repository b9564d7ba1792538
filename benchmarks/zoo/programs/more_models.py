"""Language models of transformers that differ from the others in their scales, norms, windows and shared layers:
Granite, Nemotron, GPT-Neo, StableLM and ALBERT."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.decoders import VOCABULARY, blocks, decoder, padded, prepared, train
from benchmarks.zoo.programs.encoders_bert import VOCABULARY as WORDS
from benchmarks.zoo.programs.encoders_bert import decayed_groups, lively, masked, padded_batch
from benchmarks.zoo.spec import Built, Setting, program


@program("granite", library="transformers")
def granite(setting: Setting) -> Built:
    """A Granite with its four multipliers, finetuned on padded rows with AdamW."""
    import torch

    model = decoder(
        "GraniteConfig", "GraniteForCausalLM", setting, intermediate_size=112, num_key_value_heads=2,
        embedding_multiplier=6.0, attention_multiplier=0.1, residual_multiplier=0.5, logits_scaling=4.0,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    return Built(model, train, padded(setting, 2), optimizer)


@program("nemotron", library="transformers", steps=3)
def nemotron(setting: Setting) -> Built:
    """A Nemotron, whose norms weigh by one more than their weights, pretrained with AdamW and a linear schedule."""
    import torch

    model = decoder(
        "NemotronConfig", "NemotronForCausalLM", setting, intermediate_size=128, num_key_value_heads=2, head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.2, total_iters=4)
    return Built(model, train, blocks(setting, 3), optimizer, scheduler)


@program("gptneo", library="transformers")
def gptneo(setting: Setting) -> Built:
    """A GPT-Neo with one layer that sees everything and one that sees six tokens, pretrained with SGD."""
    import torch
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    config = GPTNeoConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4,
        intermediate_size=128, window_size=6, max_position_embeddings=64, embed_dropout=0.0, attention_dropout=0.0,
        resid_dropout=0.0, initializer_range=0.08, bos_token_id=1, eos_token_id=2, attn_implementation="eager",
    )  # fmt: skip
    model = prepared(GPTNeoForCausalLM(config), setting).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return Built(model, train, blocks(setting, 2), optimizer)


@program("stablelm", library="transformers")
def stablelm(setting: Setting) -> Built:
    """A StableLM, a quarter of whose heads turns with the position, finetuned with Adam."""
    import torch

    model = decoder(
        "StableLmConfig", "StableLmForCausalLM", setting, intermediate_size=112, num_key_value_heads=2,
        use_qkv_bias=True, hidden_dropout=0.0, attention_dropout=0.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    ).train()  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    return Built(model, train, padded(setting, 2), optimizer)


@program("albert", library="transformers")
def albert(setting: Setting) -> Built:
    """An ALBERT of three layers that share their weights, on masked words of several lengths, AdamW in two groups."""
    import torch
    from transformers import AlbertConfig, AlbertForMaskedLM

    config = AlbertConfig(
        vocab_size=WORDS, embedding_size=32, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=40, initializer_range=0.1, attn_implementation="eager",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = lively(AlbertForMaskedLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(decayed_groups(model, 0.05), lr=1e-3)
    batches = [masked(padded_batch(setting, lengths, 20)) for lengths in ((20, 13, 9), (18, 20, 11))]
    return Built(model, albert_step, batches, optimizer)


def albert_step(built: Built, index: int) -> dict[str, Any]:
    result = built.model(**built.batches[index])
    built.optimizer.zero_grad()
    result.loss.backward()
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits}
