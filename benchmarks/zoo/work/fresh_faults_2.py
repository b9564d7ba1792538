"""Mistakes that issue trackers report, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.decoders_edits import edit_one, updates
from benchmarks.zoo.spec import Built, Where, fault
from benchmarks.zoo.training_edits import script


@fault(
    "qwen3", "fresh-qwen3-other-order-after-resuming",
    Where("data", names=("*",), step=1),
    Where("call", ("embedding",), ("*",), step=1),
    source="https://github.com/Noble-Lab/casanovo/pull/266",
)  # fmt: skip
def qwen3_other_order_after_resuming(built: Built) -> None:
    """The second and third batch come in the other order."""
    built.batches[1], built.batches[2] = built.batches[2], built.batches[1]


@fault(
    "electra", "fresh-electra-one-norm-in-bfloat16",
    Where("precision", ("layer_norm", "to"), ("electra.encoder.layer.1*",), calls=5),
    source="https://github.com/rwth-i6/returnn/issues/1741",
    dtypes=("float32",),
)  # fmt: skip
def electra_one_norm_in_bfloat16(built: Built) -> None:
    """One norm of a float32 model computes in bfloat16."""
    import torch

    norm = built.model.electra.encoder.layer[1].output.LayerNorm

    def forward(value: Any) -> Any:
        low = torch.bfloat16
        weight, bias = norm.weight.to(low), norm.bias.to(low)
        return torch.nn.functional.layer_norm(value.to(low), weight.shape, weight, bias, norm.eps).to(value.dtype)

    norm.forward = forward


@fault(
    "gpt2-accumulate", "fresh-gpt2-accumulate-all-places-counted",
    Where("missing", ("ne", "sum", "add", "radd"), ("",), calls=4),
    Where("region", ("ne", "sum", "add", "div", "radd"), ("",), calls=6),
    Where("argument", ("div",), ("",)),
    source="https://github.com/huggingface/transformers/issues/38448",
    before=script("gpt2", "step", ('(batch["labels"][:, 1:] != -100).sum()', 'batch["labels"][:, 1:].numel()')),
)  # fmt: skip
def gpt2_accumulate_all_places_counted(built: Built) -> None:
    """The loss is divided by the number of all places, also of those without a label."""


@fault(
    "lora", "fresh-lora-warm-up-arguments-exchanged",
    *updates(),
    source="https://github.com/shirley-wu/cross-doc-misinfo-detection/issues/1",
)  # fmt: skip
def lora_warm_up_arguments_exchanged(built: Built) -> None:
    """The numbers of warm-up steps and of all steps were given in the wrong order."""
    from transformers import get_cosine_schedule_with_warmup

    for group in built.optimizer.param_groups:
        group["lr"] = group.pop("initial_lr")
    built.scheduler = get_cosine_schedule_with_warmup(built.optimizer, num_warmup_steps=8, num_training_steps=9)


@fault(
    "cohere", "fresh-cohere-attention-detached",
    Where(
        "missing", ("linear", "matmul", "reshape", "contiguous", "transpose"), ("model.layers.1.*",),
        phase="backward", calls=20,
    ),
    Where("extra", ("detach",), ("model.layers.1.*",)),
    Where("extra", ("detach",), ("model.layers.1.*",), phase="backward"),
    *updates("model.layers.1.self_attn.*", "layers.1.self_attn.*"),
    source="https://github.com/DarkMatterAI/mrl/pull/13",
)  # fmt: skip
def cohere_attention_detached(built: Built) -> None:
    """What the attention of the second layer gives is detached before its last projection."""
    edit_one(
        built.model.model.layers[1].self_attn, "forward",
        ("attn_output = self.o_proj(attn_output)", "attn_output = self.o_proj(attn_output.detach())"),
    )  # fmt: skip


@fault(
    "qwen2moe", "fresh-qwen2moe-softmax-over-the-chosen",
    Where("region", ("softmax", "topk", "sum", "div"), ("model.layers.*.mlp.gate",), calls=3),
    source="https://github.com/lablup/mlxcel/pull/391",
)  # fmt: skip
def qwen2moe_softmax_over_the_chosen(built: Built) -> None:
    """The router of the third layer takes its softmax over the chosen experts only."""
    edit_one(
        built.model.model.layers[2].mlp.gate, "forward",
        ("router_probs, self.top_k, dim=-1)", "router_logits, self.top_k, dim=-1)\n"
         "    router_top_value = torch.nn.functional.softmax(router_top_value, dtype=torch.float, dim=-1)"),
    )  # fmt: skip


@fault(
    "vit", "fresh-vit-one-bias-element-lost",
    Where("state", names=("blocks.1.mlp.fc1.bias", "*fc1.bias")),
    source="https://github.com/Lightning-AI/litgpt/issues/662",
)  # fmt: skip
def vit_one_bias_element_lost(built: Built) -> None:
    """One element of the bias of a perceptron was lost when the weights were written to disk."""
    import torch

    with torch.no_grad():
        built.model.blocks[1].mlp.fc1.bias[7] = 0.0


@fault(
    "swin", "fresh-swin-several-classes-smoothed",
    Where("extra", ("mul", "add"), ("",), calls=2),
    Where("region", ("mul", "add", "binary_cross_entropy_with_logits"), ("",), calls=3),
    source="https://github.com/huggingface/pytorch-image-models/issues/2385",
)  # fmt: skip
def swin_several_classes_smoothed(built: Built) -> None:
    """The targets of several classes are smoothed, which is meant for those of one."""
    built.options["criterion"].smooth_dense = True
