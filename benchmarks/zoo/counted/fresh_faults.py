"""Mistakes that issue trackers report, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import LLAMA, NORM, OLMO2, PROGRAMS, edit_step, updates
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Where, fault
from benchmarks.zoo.training_edits import library, script
from benchmarks.zoo.various_edits import edit_step as edit_step_of


@fault(
    "llama-finetune", "fresh-llama-finetune-mean-of-means",
    Where("region", ("cross_entropy", "div", "sum", "add", "ne", "truediv"), ("",), calls=6),
    Where("argument", ("cross_entropy",), ("",)),
    Where("call", ("cross_entropy", "div"), ("",)),
    source="https://github.com/huggingface/transformers/pull/34191",
)  # fmt: skip
def llama_finetune_mean_of_means(built: Built) -> None:
    """Each batch of a step is averaged over its own tokens, and the step over its batches."""
    edit_step(
        built, "accumulate",
        ("num_items_in_batch=items, ", ""),
        ("result.loss.backward()", "(result.loss / count).backward()"),
        ("result.loss.detach()", "result.loss.detach() / count"),
    )  # fmt: skip


@fault(
    "llama-reward", "fresh-llama-reward-score-of-the-padding",
    Where("missing", ("ne", "to", "mul"), ("",), calls=3),
    Where("region", ("ne", "to", "mul", "argmax"), ("",), calls=4),
    Where("call", ("argmax", "getitem"), ("",)),
    source="https://github.com/huggingface/transformers/issues/35352",
)  # fmt: skip
def llama_reward_score_of_the_padding(built: Built) -> None:
    """The score is read at the last place of each row, though that is padding in most."""
    layers = imported("transformers.modeling_layers")
    edit_function(
        layers.GenericForSequenceClassification, "forward",
        ("(token_indices * non_pad_mask).argmax(-1)", "token_indices.expand(batch_size, -1).argmax(-1)"),
    )  # fmt: skip


@fault(
    "llama-generate", "fresh-llama-generate-prompt-positions-not-by-row",
    Where("data", names=("*position_ids*",)),
    Where("region", ("cumsum", "sub", "clamp", "arange", "expand_as"), ("",), calls=3),
    Where("missing", ("cumsum", "sub", "clamp"), ("",), calls=3),
    source="https://github.com/unslothai/unsloth/pull/3795",
)  # fmt: skip
def llama_generate_prompt_positions_not_by_row(built: Built) -> None:
    """The positions of the prompts count from the left end, padding included."""
    edit_step(
        built, "generate",
        ("positions = (mask.cumsum(-1) - 1).clamp(min=0)", "positions = torch.arange(ids.shape[1]).expand_as(ids)"),
    )  # fmt: skip


@fault(
    "olmo2", "fresh-olmo2-norm-of-the-sum",
    Where(
        "region", (*NORM, "add"), ("model.layers.*", "model.layers.*.post_feedforward_layernorm"), calls=9,
    ),
    source="https://github.com/allenai/OLMo/issues/806",
)  # fmt: skip
def olmo2_norm_of_the_sum(built: Built) -> None:
    """The norm after the perceptron is applied to the sum with the residual instead of before it."""
    edit_function(
        imported(OLMO2).Olmo2DecoderLayer, "forward",
        (
            "hidden_states = self.post_feedforward_layernorm(hidden_states)\n"
            "    hidden_states = residual + hidden_states",
            "hidden_states = self.post_feedforward_layernorm(residual + hidden_states)",
        ),
    )  # fmt: skip


@fault(
    "opt", "fresh-opt-gelu",
    Where("call", ("relu", "gelu"), ("model.decoder.layers.*",)),
    source="https://github.com/timeseriesAI/tsai/issues/361",
)  # fmt: skip
def opt_gelu(built: Built) -> None:
    """The perceptrons use gelu instead of relu."""
    import torch

    for layer in built.model.model.decoder.layers:
        layer.activation_fn = torch.nn.GELU()


@fault(
    "bert", "fresh-bert-segments-not-passed",
    Where("data", names=("*token_type_ids*",)),
    Where("extra", ("expand", "gather", "getitem"), ("bert.embeddings",), calls=3),
    Where("region", ("expand", "gather", "getitem", "embedding"), ("bert.embeddings",), calls=4),
    Where("call", ("embedding",), ("bert.embeddings.token_type_embeddings",)),
    source="https://github.com/huggingface/transformers/issues/48128",
)  # fmt: skip
def bert_segments_not_passed(built: Built) -> None:
    """The batches come without the ids of the segments, so that all tokens count as the first."""
    built.batches[:] = [
        {name: value for name, value in batch.items() if name != "token_type_ids"} for batch in built.batches
    ]


@fault(
    "unet-condition", "fresh-unet-condition-predicts-the-picture",
    Where("call", ("to", "float", "mse_loss"), ("",)),
    Where("argument", ("mse_loss",), ("",)),
    Where("data", names=("*",)),
    source="https://github.com/irom-princeton/dppo/issues/14",
)  # fmt: skip
def unet_condition_predicts_the_picture(built: Built) -> None:
    """The loss compares with the picture instead of with the noise."""
    edit_step_of(built, ('target = batch["noise"]', 'target = batch["latents"]'))


@fault(
    "autoencoder-kl", "fresh-autoencoder-kl-deviation-not-halved",
    Where("missing", ("mul",), ("*",)),
    Where("argument", ("exp",), ("*",)),
    source="https://github.com/keras-team/keras/issues/3283",
    before=library(
        "diffusers.models.autoencoders.vae:DiagonalGaussianDistribution", "__init__",
        ("torch.exp(0.5 * self.logvar)", "torch.exp(self.logvar)"),
    ),
)  # fmt: skip
def autoencoder_kl_deviation_not_halved(built: Built) -> None:
    """The deviation is the exponential of the whole log of the variance."""


@fault(
    "convnext", "fresh-convnext-average-too-slow",
    Where("argument", ("lerp", "foreach_lerp"), ("*",)),
    Where("argument", ("lerp", "foreach_lerp"), ("*",), phase="backward"),
    *updates(),
    source="https://github.com/huggingface/diffusers/issues/1864",
)  # fmt: skip
def convnext_average_too_slow(built: Built) -> None:
    """The average of the weights keeps 0.99 of itself instead of 0.9."""
    built.options["average"].decay = 0.99


@fault(
    "electra-accelerate", "fresh-electra-accelerate-class-weights-reversed",
    Where("data", names=("*",)),
    Where("call", ("to", "cross_entropy"), ("",)),
    source="https://github.com/IndicoDataSolutions/finetune/pull/183",
)  # fmt: skip
def electra_accelerate_class_weights_reversed(built: Built) -> None:
    """The weights of the classes come in the reverse order."""
    built.options["class_weights"] = built.options["class_weights"].flip(0)


@fault(
    "llama-grpo", "fresh-llama-grpo-advantages-normalised-twice",
    Where("extra", ("sub", "mean", "std", "add", "div"), ("",), calls=5),
    source="https://github.com/axon-rl/gem/pull/113",
    before=script(
        "grpo", "make_advantages",
        (
            "return (rewards - mean) / (deviation + 1e-4)",
            "advantages = (rewards - mean) / (deviation + 1e-4)\n"
            "    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)",
        ),
    ),
)  # fmt: skip
def llama_grpo_advantages_normalised_twice(built: Built) -> None:
    """The advantages of the groups are normalised once more over the batch."""


@fault(
    "qwen3-dpo", "fresh-qwen3-dpo-average-instead-of-sum",
    Where("extra", ("sum", "div"), ("",), calls=2),
    source="https://github.com/ContextualAI/HALOs/pull/37",
)  # fmt: skip
def qwen3_dpo_average_instead_of_sum(built: Built) -> None:
    """The log probability of an answer is averaged over its tokens."""
    programs = imported(PROGRAMS)
    edit_function(
        programs, "sequence_log_probability", ("(chosen * mask).sum(-1)", "(chosen * mask).sum(-1) / mask.sum(-1)")
    )
    built.options["score"] = programs.sequence_log_probability


@fault(
    "olmo2", "fresh-olmo2-decay-through-the-averages",
    *updates(),
    source="https://github.com/nntrainer/nntrainer/pull/3565",
)  # fmt: skip
def olmo2_decay_through_the_averages(built: Built) -> None:
    """The weight decay is added to the gradients, so that it goes through the averages of the optimizer."""
    import torch

    built.optimizer = torch.optim.Adam(
        built.model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
    )


@fault(
    "llama-long", "fresh-llama-long-norms-not-upcast",
    Where("precision", NORM, ("model.layers.*norm", "model.norm")),
    Where("missing", ("to", "float"), ("model.layers.*norm", "model.norm")),
    Where("region", NORM, ("model.layers.*norm", "model.norm"), calls=7),
    source="https://github.com/huggingface/transformers/issues/33133",
    dtypes=("bfloat16",),
)  # fmt: skip
def llama_long_norms_not_upcast(built: Built) -> None:
    """The norms compute in bfloat16 instead of float32."""
    edit_function(imported(LLAMA).LlamaRMSNorm, "forward", ("hidden_states.to(torch.float32)", "hidden_states"))


@fault(
    "llama-finetune", "fresh-llama-finetune-schedule-too-short",
    *updates(step=2),
    source="https://github.com/huggingface/diffusers/issues/4387",
)  # fmt: skip
def llama_finetune_schedule_too_short(built: Built) -> None:
    """The schedule was told half of the number of steps, so that the rate falls too fast after the warm-up."""
    import transformers

    for group in built.optimizer.param_groups:
        group["lr"] = group.pop("initial_lr")
    built.scheduler = transformers.get_cosine_schedule_with_warmup(built.optimizer, 1, 5)


@fault(
    "phi", "fresh-phi-first-layer-frozen",
    *updates("model.layers.0.*", "layers.0.*"),
    Where("state", names=("model.layers.0.*", "layers.0.*"), phase="backward"),
    Where("missing", names=("*layers.0.*",), modules=("model.layers.0*",), phase="backward"),
    source="https://github.com/pytorch/vision/issues/2164",
)  # fmt: skip
def phi_first_layer_frozen(built: Built) -> None:
    """The first layer was left frozen after the head was tuned alone."""
    built.model.model.layers[0].requires_grad_(False)
