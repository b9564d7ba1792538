"""Mistakes that issue trackers report, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.decoders_edits import NORM, QWEN3, updates
from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Where, fault
from benchmarks.zoo.training_edits import library, script
from benchmarks.zoo.various_edits import edit_step as edit_step_of


@fault(
    "mixtral", "fresh-mixtral-router-weights-not-renormalised",
    Where("missing", ("sum", "div", "itruediv"), ("model.layers.*.mlp.gate",), calls=2),
    source="https://github.com/pytorch/torchtitan/issues/1448",
)  # fmt: skip
def mixtral_router_weights_not_renormalised(built: Built) -> None:
    """The weights of the chosen experts are not divided by their sum."""
    edit_function(
        modeling("mixtral").MixtralTopKRouter, "forward",
        ("router_top_value /= router_top_value.sum(dim=-1, keepdim=True)", "pass"),
    )  # fmt: skip


@fault(
    "olmoe", "fresh-olmoe-softmax-over-the-chosen",
    Where("extra", ("sum", "div", "itruediv"), ("model.layers.*.mlp.gate",), calls=2),
    Where("region", ("softmax", "topk", "sum", "div"), ("model.layers.*.mlp.gate",), calls=3),
    source="https://github.com/lablup/mlxcel/pull/391",
)  # fmt: skip
def olmoe_softmax_over_the_chosen(built: Built) -> None:
    """The router takes its softmax over the chosen experts only."""
    edit_function(
        modeling("olmoe").OlmoeTopKRouter, "forward",
        (
            "router_probs = torch.nn.functional.softmax(router_logits, dtype=torch.float, dim=-1)\n"
            "    router_top_value, router_indices = torch.topk(router_probs, self.top_k, dim=-1)",
            "router_top_value, router_indices = torch.topk(router_logits, self.top_k, dim=-1)\n"
            "    router_top_value = torch.nn.functional.softmax(router_top_value, dtype=torch.float, dim=-1)",
        ),
    )  # fmt: skip


@fault(
    "deepseek", "fresh-deepseek-bias-in-the-weights",
    Where("call", ("gather",), ("model.layers.*.mlp.gate",)),
    Where("argument", ("gather",), ("model.layers.*.mlp.gate",)),
    Where("region", ("gather", "add", "masked_fill"), ("model.layers.*.mlp.gate",), calls=2),
    source="https://github.com/vllm-project/vllm/pull/12002",
)  # fmt: skip
def deepseek_bias_in_the_weights(built: Built) -> None:
    """The bias that balances the experts counts in their weights, not only in their choice."""
    edit_function(
        modeling("deepseek_v3").DeepseekV3TopkRouter, "forward",
        ("topk_weights = scores.gather(1, topk_indices)", "topk_weights = scores_for_choice.gather(1, topk_indices)"),
    )  # fmt: skip


@fault(
    "qwen3", "fresh-qwen3-normed-after-the-rotation",
    Where(
        "region", (*NORM, "neg", "cat", "getitem", "mul"),
        ("model.layers.*.self_attn", "model.layers.*.self_attn.?_norm"), calls=16,
    ),
    source="https://github.com/karpathy/nanochat/issues/743",
)  # fmt: skip
def qwen3_normed_after_the_rotation(built: Built) -> None:
    """The norms of queries and keys come after the rotation, with which their weights do not commute."""
    edit_function(
        imported(QWEN3).Qwen3Attention, "forward",
        ("self.q_norm(self.q_proj(hidden_states).view(hidden_shape))", "self.q_proj(hidden_states).view(hidden_shape)"),
        ("self.k_norm(self.k_proj(hidden_states).view(hidden_shape))", "self.k_proj(hidden_states).view(hidden_shape)"),
        (
            "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)",
            "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)\n"
            "    query_states, key_states = self.q_norm(query_states), self.k_norm(key_states)",
        ),
    )  # fmt: skip


@fault(
    "llama-finetune", "fresh-llama-finetune-labels-shifted-twice",
    Where("data", names=("*labels*",)),
    Where("call", ("getitem", "pad", "cross_entropy", "ne", "sum"), ("",)),
    source="https://github.com/huggingface/transformers/pull/37830",
)  # fmt: skip
def llama_finetune_labels_shifted_twice(built: Built) -> None:
    """The labels were shifted where the batches are made, and the loss shifts them again."""
    for batch in built.batches:
        labels = batch["labels"].clone()
        labels[:, :-1], labels[:, -1] = batch["labels"][:, 1:], -100
        batch["labels"] = labels


@fault(
    "gemma2", "fresh-gemma2-scaled-by-the-head",
    Where("argument", ("mul",), ("model.layers.*.self_attn",)),
    source="https://github.com/huggingface/transformers/issues/31891",
)  # fmt: skip
def gemma2_scaled_by_the_head(built: Built) -> None:
    """The products of queries and keys are scaled by the size of a head, not by the number in the configuration."""
    for layer in built.model.model.layers:
        layer.self_attn.scaling = layer.self_attn.head_dim**-0.5


@fault(
    "gemma2", "fresh-gemma2-layers-exchanged",
    Where("data", names=("*attention_mask*",)),
    Where("argument", ("add",), ("model.layers.*.self_attn",)),
    Where("call", ("add",), ("model.layers.*.self_attn",)),
    source="https://github.com/huggingface/transformers/pull/31775",
)  # fmt: skip
def gemma2_layers_exchanged(built: Built) -> None:
    """The layers with a window see everything, and the others have the window."""
    other = {"sliding_attention": "full_attention", "full_attention": "sliding_attention"}
    built.model.config.layer_types = [other[kind] for kind in built.model.config.layer_types]


@fault(
    "pythia", "fresh-pythia-one-after-another",
    Where("region", ("add", "layer_norm"), ("gpt_neox.layers.*",), calls=6),
    Where("argument", ("layer_norm",), ("gpt_neox.layers.*",)),
    Where("call", ("layer_norm", "add"), ("gpt_neox.layers.*",)),
    source="https://github.com/ml-explore/mlx-lm/pull/586",
)  # fmt: skip
def pythia_one_after_another(built: Built) -> None:
    """The perceptron works on what the attention gave instead of beside it."""
    for layer in built.model.gpt_neox.layers:
        layer.use_parallel_residual = False


@fault(
    "bart", "fresh-bart-padding-in-the-smoothed-loss",
    Where("argument", ("eq",), ("",)),
    source="https://github.com/allenai/olmoearth_pretrain/pull/560",
)  # fmt: skip
def bart_padding_in_the_smoothed_loss(built: Built) -> None:
    """The smoothed loss ignores another index than the one that marks the padding."""
    encoders = imported("benchmarks.zoo.programs.encoders_seq2seq")
    edit_function(encoders, "smoothed_step", ("LabelSmoother(epsilon", "LabelSmoother(ignore_index=1, epsilon"))
    built.step = encoders.smoothed_step


@fault(
    "sd3", "fresh-sd3-noise-and-picture-exchanged",
    Where("call", ("mul", "rsub"), ("",)),
    Where("region", ("rsub", "mul", "add"), ("",), calls=4),
    Where("argument", ("mul",), ("",)),
    source="https://github.com/huggingface/diffusers/pull/9769",
)  # fmt: skip
def sd3_noise_and_picture_exchanged(built: Built) -> None:
    """The more noise a time stands for, the more of the picture is left."""
    edit_step_of(
        built, ("(1.0 - sigmas) * latents + sigmas * noise", "sigmas * latents + (1.0 - sigmas) * noise")
    )


@fault(
    "autoencoder-kl", "fresh-autoencoder-kl-mean-of-the-divergence",
    Where("call", ("sum", "mean"), ("*",)),
    source="https://github.com/podgorskiy/VAE/issues/1",
    before=library(
        "diffusers.models.autoencoders.vae:DiagonalGaussianDistribution", "kl",
        ("torch.sum(\n                torch.pow(self.mean, 2)", "torch.mean(\n                torch.pow(self.mean, 2)"),
    ),
)  # fmt: skip
def autoencoder_kl_mean_of_the_divergence(built: Built) -> None:
    """The divergence is averaged over the latent instead of summed."""


@fault(
    "dinov2", "fresh-dinov2-one-layer-unscaled",
    Where("missing", ("mul",), ("dinov2.encoder.layer*", "dinov2.*")),
    Where("state", names=("*1.layer_scale2.lambda1",)),
    source="https://github.com/facebookresearch/ConvNeXt/issues/51",
)  # fmt: skip
def dinov2_one_layer_unscaled(built: Built) -> None:
    """The second scale of one layer is not applied."""
    import torch

    for name in [name for name, _ in built.model.named_modules()]:
        if name.endswith("1.layer_scale2"):
            parent, _, leaf = name.rpartition(".")
            setattr(built.model.get_submodule(parent), leaf, torch.nn.Identity())


@fault(
    "clip-contrastive", "fresh-clip-contrastive-scale-not-exponential",
    Where("missing", ("exp",), ("",)),
    source="https://github.com/BAAI-DCAI/M3D/issues/52",
    before=script("clip", "contrastive_loss", ("scale.exp() * images", "scale * images")),
)  # fmt: skip
def clip_contrastive_scale_not_exponential(built: Built) -> None:
    """The similarities are scaled by the log of the temperature itself."""


@fault(
    "clip-contrastive", "fresh-clip-contrastive-one-direction",
    Where("missing", ("t", "cross_entropy", "add", "div"), ("",), calls=4),
    Where("region", ("t", "cross_entropy", "add", "div"), ("",), calls=4),
    source="https://github.com/moein-shariatnia/OpenAI-CLIP/issues/16",
    before=script("clip", "contrastive_loss", ("return (by_image + by_text) / 2, logits", "return by_image, logits")),
)  # fmt: skip
def clip_contrastive_one_direction(built: Built) -> None:
    """Only the pictures choose their texts; the loss has no other direction."""


@fault(
    "distilbert-distil", "fresh-distilbert-distil-teacher-not-softened",
    Where("missing", ("div",), ("",)),
    source="https://github.com/agokrani/distillKitPlus/issues/5",
    before=script("distil", "soft_loss", ("softmax(teacher / temperature", "softmax(teacher")),
)  # fmt: skip
def distilbert_distil_teacher_not_softened(built: Built) -> None:
    """The temperature softens the student only."""


@fault(
    "mistral", "fresh-mistral-momentum-lost-on-the-way",
    *updates(step=1),
    Where("state", names=("*",), step=1),
    Where("state", names=("*",), step=1, phase="backward"),
    source="https://github.com/KempnerInstitute/KempnerForge/pull/115",
)  # fmt: skip
def mistral_momentum_lost_on_the_way(built: Built) -> None:
    """The run was resumed after its first step without the state of the optimizer."""
    step = built.step

    def resumed(built: Built, index: int) -> Any:
        if index == 1:
            built.optimizer.state.clear()
        return step(built, index)

    built.step = resumed
