"""Cases on Whisper and wav2vec 2.0."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


@fault(
    "whisper",
    "whisper-decoder-positions-offset",
    Where("extra", ("add",), ("model.decoder.embed_positions",)),
    Where("argument", ("getitem", "index"), ("model.decoder.embed_positions", "model.decoder")),
    source="https://github.com/huggingface/transformers/issues/20624",
)
def decoder_positions_offset(built: Built) -> None:
    """The positions of the decoder begin with one."""
    edit_one(
        built.model.model.decoder.embed_positions,
        "forward",
        ("return self.weight[position_ids]", "return self.weight[position_ids + 1]"),
    )


@fault(
    "wav2vec2",
    "wav2vec2-attention-mask-missing",
    Where("data", (), ("*",), ("*attention_mask*", "*mask*")),
    Where(
        "missing",
        ("setitem", "repeat", "unsqueeze", "invert", "masked_fill", "add", "cumsum", "flip", "index_put", "sum"),
        ("wav2vec2.encoder", "wav2vec2", ""),
        calls=6,
    ),
    source="https://github.com/huggingface/transformers/issues/21534",
)
def attention_mask_missing(built: Built) -> None:
    """The mask of the padding is not handed over."""
    for batch in built.batches:
        del batch["attention_mask"]


@fault(
    "wav2vec2",
    "wav2vec2-loss-summed",
    Where("argument", ("ctc_loss",), ("",)),
    source="https://github.com/huggingface/transformers/issues/15196",
)
def loss_summed(built: Built) -> None:
    """The loss is summed over the recordings and their letters where it should be averaged."""
    built.model.config.ctc_loss_reduction = "sum"


@fault(
    "wav2vec2",
    "wav2vec2-sound-normalised-with-padding",
    Where("data", (), ("*",), ("*input_values*",)),
    Where("data", ("getitem", "conv1d"), ("wav2vec2.feature_extractor*",)),
    source="https://github.com/huggingface/transformers/pull/13512",
)
def sound_normalised_with_padding(built: Built) -> None:
    """Mean and variance of a recording are taken from it and its padding."""
    import torch

    for batch, sound in zip(built.batches, built.options["sounds"], strict=True):
        middle, spread = sound.mean(-1, keepdim=True), sound.var(-1, keepdim=True, unbiased=False)
        batch["input_values"] = ((sound - middle) / torch.sqrt(spread + 1e-7)).to(batch["input_values"])


@fault(
    "wav2vec2",
    "wav2vec2-feature-encoder-trained",
    Where("update", (), ("*",), ("wav2vec2.feature_extractor*",), phase="backward"),
    Where("update", (), ("*",), ("wav2vec2.feature_extractor*",)),
    Where("extra", (), ("wav2vec2.feature_extractor*",), phase="backward"),
    source="https://github.com/Doubiiu/CodeTalker/issues/61",
)
def feature_encoder_trained(built: Built) -> None:
    """The feature encoder, which should stay as it is, is trained with the rest."""
    import torch

    encoder = built.model.wav2vec2.feature_extractor
    encoder.requires_grad_(True)
    encoder._requires_grad = True
    built.optimizer = torch.optim.AdamW(
        built.model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=5e-3
    )


@clean("whisper", "whisper-loss-in-pieces")
def loss_in_pieces(built: Built) -> None:
    """The loss is summed over pieces of the text and divided by the number of all labels."""
    edit_step(
        built,
        (
            "    built.optimizer.zero_grad()\n    result.loss.backward()",
            "    labels, sums = built.batches[index]['labels'], []\n"
            "    for at in range(0, labels.shape[1], 5):\n"
            "        piece = result.logits[:, at : at + 5].flatten(0, 1)\n"
            "        wanted = labels[:, at : at + 5].flatten()\n"
            "        sums.append(torch.nn.functional.cross_entropy(piece, wanted, reduction='sum'))\n"
            "    result.loss = torch.stack(sums).sum() / (labels != -100).sum()\n"
            "    built.optimizer.zero_grad()\n"
            "    result.loss.backward()",
        ),
    )


@clean("whisper", "whisper-optimizer-fused")
def optimizer_fused(built: Built) -> None:
    """The optimizer is the fused one."""
    import torch
    from transformers import get_linear_schedule_with_warmup

    groups = [
        {"params": group["params"], "weight_decay": group["weight_decay"]} for group in built.optimizer.param_groups
    ]
    built.optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
    built.scheduler = get_linear_schedule_with_warmup(built.optimizer, num_warmup_steps=2, num_training_steps=10)


@clean("wav2vec2", "wav2vec2-sdpa")
def wav2vec2_sdpa(built: Built) -> None:
    """Attention is computed by torch's function."""
    built.model.set_attn_implementation("sdpa")


def _plain(setting: Setting) -> None:
    edit_function(
        imported("torch.nn.utils.parametrizations")._WeightNorm,
        "forward",
        (
            "return torch._weight_norm(weight_v, weight_g, self.dim)",
            "dims = [axis for axis in range(weight_v.ndim) if axis != self.dim % weight_v.ndim]\n"
            "    return weight_v * (weight_g / weight_v.square().sum(dims, keepdim=True).sqrt())",
        ),
    )


@clean("wav2vec2", "wav2vec2-weight-norm-plain", before=_plain)
def weight_norm_plain(built: Built) -> None:
    """The normalisation of the weights of the positional convolution is written out."""
