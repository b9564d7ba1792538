"""Mistakes that issue trackers report, of models in ``programs/more_models.py`` and others."""

from __future__ import annotations

from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, Where, fault


@fault(
    "granite", "more-granite-embeddings-not-scaled",
    Where("argument", ("mul",), ("model",)),
    Where("missing", ("mul",), ("model",)),
    source="https://github.com/ggml-org/llama.cpp/pull/9412",
)  # fmt: skip
def more_granite_embeddings_not_scaled(built: Built) -> None:
    """The embeddings are not multiplied by their factor."""
    built.model.model.embedding_multiplier = 1.0


@fault(
    "nemotron", "more-nemotron-norm-without-the-one",
    Where("missing", ("add",), ("model.*norm*", "model.layers.*")),
    source="https://github.com/huggingface/transformers/pull/31699",
)  # fmt: skip
def more_nemotron_norm_without_the_one(built: Built) -> None:
    """The norms weigh by their weights, not by one more."""
    edit_function(modeling("nemotron").NemotronLayerNorm1P, "forward", ("self.weight + 1.0", "self.weight"))


@fault(
    "nemotron", "more-nemotron-whole-head-turned",
    Where("argument", ("getitem",), ("model.layers.*.self_attn", "model.rotary_emb")),
    Where("state", names=("*inv_freq*",)),
    Where("region", ("getitem", "cat", "mul", "add", "neg", "matmul"), ("*",), calls=8),
    source="https://github.com/huggingface/transformers/pull/31699",
)  # fmt: skip
def more_nemotron_whole_head_turned(built: Built) -> None:
    """The frequencies are spread over the whole head, of which half turns."""
    rotary = built.model.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq ** 0.5


@fault(
    "gptneo", "more-gptneo-window-ignored",
    Where("data", names=("*bias*",)),
    Where("state", names=("*bias*",)),
    Where("argument", ("where",), ("transformer.h.1*",)),
    Where("call", ("where", "getitem"), ("transformer.h.1*",)),
    source="https://github.com/NVIDIA/TensorRT-Model-Connect/issues/660",
)  # fmt: skip
def more_gptneo_window_ignored(built: Built) -> None:
    """The layer with a window sees everything."""
    layers = built.model.transformer.h
    layers[1].attn.attention.bias = layers[0].attn.attention.bias


@fault(
    "stablelm", "more-stablelm-last-part-turned",
    Where("argument", ("getitem",), ("model.layers.*.self_attn",)),
    Where("region", ("getitem", "cat"), ("model.layers.*.self_attn",), calls=8),
    source="https://github.com/karpathy/nanochat/issues/743",
)  # fmt: skip
def more_stablelm_last_part_turned(built: Built) -> None:
    """The part that does not turn comes first when the two are put together, for queries alone."""
    edit_function(
        modeling("stablelm").StableLmAttention, "forward",
        ("query_states = torch.cat((query_rot, query_pass), dim=-1)",
         "query_states = torch.cat((query_pass, query_rot), dim=-1)"),
    )  # fmt: skip


@fault(
    "stablelm", "more-stablelm-padding-seen",
    Where("data", names=("*attention_mask*",)),
    Where("call", ("add",), ("model.layers.*.self_attn",)),
    Where("region", ("add", "where", "and", "logical_and"), ("*",), calls=6),
    source="https://github.com/jingyaogong/minimind-v/issues/76",
)  # fmt: skip
def more_stablelm_padding_seen(built: Built) -> None:
    """Nothing says which tokens are padding, and all are attended to."""
    import torch

    for batch in built.batches:
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])


@fault(
    "albert", "more-albert-loss-on-padding",
    Where("data", names=("*labels*",)),
    Where("call", ("cross_entropy",), ("",)),
    source="https://github.com/lucidrains/DALLE-pytorch/issues/57",
)  # fmt: skip
def more_albert_loss_on_padding(built: Built) -> None:
    """The loss counts the padding as well."""
    import torch

    for batch in built.batches:
        padding = batch["attention_mask"] == 0
        batch["labels"] = torch.where(padding, torch.zeros_like(batch["labels"]), batch["labels"])


@fault(
    "albert", "more-albert-mask-inverted",
    Where("data", names=("*attention_mask*",)),
    Where("call", ("add",), ("*",)),
    source="https://github.com/InseeFrLab/torchTextClassifiers/pull/92",
)  # fmt: skip
def more_albert_mask_inverted(built: Built) -> None:
    """The mask says which tokens are padding, where those that are not are asked for."""
    for batch in built.batches:
        batch["attention_mask"] = 1 - batch["attention_mask"]


@fault(
    "albert", "more-albert-epsilon-of-another-library",
    Where("argument", ("layer_norm",), ("*",)),
    source="https://github.com/huggingface/transformers/issues/18137",
)  # fmt: skip
def more_albert_epsilon_of_another_library(built: Built) -> None:
    """The norms of the layers have a larger epsilon."""
    for name, module in built.model.named_modules():
        if name.endswith("full_layer_layer_norm"):
            module.eps = 1e-2
