"""Encoders with decoders: T5 and BART in training, Marian translating greedily with its cache."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.encoders_bert import VOCABULARY, lively, padded_batch, train_step
from benchmarks.zoo.spec import Built, Setting, program


def translation_batch(
    setting: Setting, sources: tuple[int, ...], targets: tuple[int, ...], widths: tuple[int, int], pad: int
) -> dict[str, Any]:
    """Source and target of several lengths; the targets end with the token 2 and are filled up with -100."""
    import torch

    batch = padded_batch(setting, sources, widths[0], pad)
    labels = torch.randint(5, VOCABULARY, (len(targets), widths[1]))
    position = torch.arange(widths[1])[None, :]
    length = torch.tensor(targets)[:, None]
    labels = torch.where(position == length - 1, 2, torch.where(position < length, labels, -100))
    return {**batch, "labels": labels.to(setting.device)}


@program("t5", library="transformers")
def t5(setting: Setting) -> Built:
    """A T5 of version 1.1 with gated feed forward and Adafactor with a fixed rate."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.optimization import Adafactor

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=True,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        attn_implementation="eager",
    )
    model = lively(T5ForConditionalGeneration(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = Adafactor(model.parameters(), lr=1e-2, scale_parameter=False, relative_step=False, warmup_init=False)
    batches = [
        translation_batch(setting, (18, 11, 14), (10, 7, 4), (18, 10), 0),
        translation_batch(setting, (9, 18, 12), (5, 10, 8), (18, 10), 0),
    ]
    return Built(model, train_step, batches, optimizer)


@program("bart", library="transformers", steps=3)
def bart(setting: Setting) -> Built:
    """A BART with scaled embeddings, smoothed labels and AdamW."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=48,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_position_embeddings=40,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        init_std=0.1,
        scale_embedding=True,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        attn_implementation="eager",
    )
    model = lively(BartForConditionalGeneration(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    batches = [
        translation_batch(setting, (16, 9, 13), (9, 12, 5), (16, 12), 1),
        translation_batch(setting, (7, 16, 10), (12, 6, 8), (16, 12), 1),
        translation_batch(setting, (12, 8, 16), (4, 9, 12), (16, 12), 1),
    ]
    return Built(model, smoothed_step, batches, optimizer, options={"smoothing": 0.1})


def smoothed_step(built: Built, index: int) -> dict[str, Any]:
    import torch
    from transformers.trainer_pt_utils import LabelSmoother

    batch = built.batches[index]
    built.optimizer.zero_grad()
    result = built.model(**batch)
    loss = LabelSmoother(epsilon=built.options["smoothing"])(result, batch["labels"])
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "logits": result.logits, "gradient norm": norm}


@program("marian", library="transformers")
def marian(setting: Setting) -> Built:
    """A Marian that translates two batches greedily with its cache; gives all scores of all steps away."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        d_model=48,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_position_embeddings=40,
        activation_function="swish",
        init_std=0.2,
        scale_embedding=True,
        pad_token_id=VOCABULARY - 1,
        eos_token_id=0,
        decoder_start_token_id=VOCABULARY - 1,
        forced_eos_token_id=0,
        attn_implementation="eager",
    )
    model = lively(MarianMTModel(config))
    model.final_logits_bias.normal_(0.0, 0.5)
    model = model.to(setting.device, getattr(torch, setting.dtype)).eval()
    batches = [
        padded_batch(setting, lengths, 14, VOCABULARY - 1) for lengths in ((14, 9, 5), (7, 14, 10))
    ]  # fmt: skip
    return Built(model, greedy_step, batches, options={"length": 6})


def greedy_step(built: Built, index: int) -> dict[str, Any]:
    import torch
    from transformers import DynamicCache, EncoderDecoderCache

    batch, model = built.batches[index], built.model
    start = torch.full_like(batch["input_ids"][:, :1], model.config.decoder_start_token_id)
    given: dict[str, Any] = {}
    with torch.no_grad():
        encoded = model.get_encoder()(**batch)
        cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
        tokens = start
        for position in range(built.options["length"]):
            result = model(
                encoder_outputs=encoded,
                attention_mask=batch["attention_mask"],
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            scores = result.logits[:, -1]
            scores[:, model.config.pad_token_id] = float("-inf")
            tokens = scores.argmax(-1, keepdim=True)
            given[f"probabilities {position}"] = torch.softmax(scores.float(), dim=-1)
    return given
