"""Cases on models of diffusers."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


@fault(
    "unet-condition",
    "unet-condition-timestep-sine-first",
    Where("missing", ("cat", "getitem"), ("time_proj",), calls=3),
    Where("region", ("cat", "getitem"), ("time_proj",), calls=3),
    source="https://github.com/huggingface/diffusers/pull/1369",
)
def timestep_sine_first(built: Built) -> None:
    """The embedding of the timestep keeps its sines before its cosines, where the weights expect the other order."""
    built.model.time_proj.flip_sin_to_cos = False


@fault(
    "unet-condition",
    "unet-condition-heads-count",
    Where(
        "argument",
        ("view", "transpose", "reshape", "scaled_dot_product_attention"),
        ("down_blocks.0.*.attn1", "down_blocks.0.*.attn2", "up_blocks.1.*.attn1", "up_blocks.1.*.attn2"),
        calls=4,
    ),
    source="https://github.com/huggingface/diffusers/issues/2011",
)
def heads_count(built: Built) -> None:
    """The number given for the heads of the attention is taken for the width of a head."""
    for module in built.model.modules():
        if hasattr(module, "to_q"):
            module.heads = module.inner_dim // 8


@fault(
    "unet-condition",
    "unet-condition-snr-weights-not-divided",
    Where("missing", ("div", "truediv", "getitem", "min", "mul"), ("",)),
    source="https://github.com/huggingface/diffusers/issues/5654",
)
def snr_weights_not_divided(built: Built) -> None:
    """The weights of the loss are the clipped signal to noise ratios themselves, not divided by the ratios."""
    edit_step(built, (".min(dim=1)[0] / snr", ".min(dim=1)[0]"))


@fault(
    "unet-condition",
    "unet-condition-schedule-steps-first",
    Where("update", (), ("*",), ("*",)),
    source="https://github.com/facebookresearch/ParlAI/issues/2042",
)
def schedule_steps_first(built: Built) -> None:
    """The schedule of the learning rate takes its step before the optimizer and so skips its first value."""
    edit_step(
        built,
        (
            "    built.optimizer.step()\n    built.scheduler.step()",
            "    built.scheduler.step()\n    built.optimizer.step()",
        ),
    )


@fault(
    "unet-condition",
    "unet-condition-betas-linear",
    Where("data", ("to", "getitem", "pow", "mul", "add"), ("",)),
    Where("state", ("to", "getitem", "pow", "mul", "add"), ("",)),
    source="https://github.com/Comfy-Org/ComfyUI/issues/1998",
)
def betas_linear(built: Built) -> None:
    """The variances of the noise rise linearly where their roots should."""
    from diffusers import DDPMScheduler

    built.options["noise_scheduler"] = DDPMScheduler(num_train_timesteps=1000, beta_schedule="linear")


@fault(
    "unet-condition",
    "unet-condition-geglu-halves-swapped",
    Where(
        "argument",
        ("chunk", "gelu", "mul", "getitem"),
        ("down_blocks.0.attentions.0.*.ff.net.0", "down_blocks.0.attentions.0.*.ff"),
        calls=3,
    ),
    source="https://github.com/ml-explore/mlx-lm/pull/767",
)
def geglu_halves_swapped(built: Built) -> None:
    """The gate of one feed-forward layer is taken from the first half of its projection, not from the second."""
    edit_one(
        built.model.down_blocks[0].attentions[0].transformer_blocks[0].ff.net[0],
        "forward",
        ("hidden_states, gate = hidden_states.chunk", "gate, hidden_states = hidden_states.chunk"),
    )


@fault(
    "unet-condition",
    "unet-condition-loss-bfloat16",
    Where("precision", ("to", "float", "mse_loss"), ("",), calls=3),
    source="https://github.com/wandb/senpai/pull/328",
    dtypes=("float32",),
)
def loss_bfloat16(built: Built) -> None:
    """The squared error is computed in bfloat16."""
    edit_step(built, ("predicted.float(), target.float()", "predicted.to(torch.bfloat16), target.to(torch.bfloat16)"))


@fault(
    "sd3",
    "sd3-final-scale-shift-swapped",
    Where("argument", ("chunk", "add", "mul", "getitem"), ("norm_out",), calls=4),
    Where("region", ("chunk", "add", "mul", "getitem"), ("norm_out",), calls=4),
    source="https://github.com/huggingface/diffusers/issues/10198",
)
def final_scale_shift_swapped(built: Built) -> None:
    """The two halves of the last modulation are taken in the order of the original code, shift before scale."""
    edit_one(built.model.norm_out, "forward", ("scale, shift = torch.chunk", "shift, scale = torch.chunk"))


@fault(
    "sd3",
    "sd3-key-norm-missing",
    Where(
        "missing",
        ("to", "pow", "mean", "add", "rsqrt", "mul"),
        ("transformer_blocks.1.attn.norm_k", "transformer_blocks.1.attn"),
        calls=6,
    ),
    source="https://github.com/huggingface/diffusers/pull/13533",
)
def key_norm_missing(built: Built) -> None:
    """The keys of the pictures are not normalised in one block."""
    edit_one(
        built.model.transformer_blocks[1].attn.processor, "__call__", ("key = attn.norm_k(key)", "key = key")
    )


@fault(
    "sd3",
    "sd3-text-value-order",
    Where("argument", ("cat", "scaled_dot_product_attention"), ("transformer_blocks.1.attn",)),
    source="https://github.com/bghira/SimpleTuner/issues/904",
)
def text_value_order(built: Built) -> None:
    """The values of the text stand before those of the picture, while its keys stand after, in one block."""
    edit_one(
        built.model.transformer_blocks[1].attn.processor,
        "__call__",
        (
            "torch.cat([value, encoder_hidden_states_value_proj], dim=2)",
            "torch.cat([encoder_hidden_states_value_proj, value], dim=2)",
        ),
    )


@fault(
    "sd3",
    "sd3-position-corner-crop",
    Where("argument", ("getitem", "reshape", "add"), ("pos_embed",)),
    source="https://arxiv.org/abs/2403.03206",
)
def position_corner_crop(built: Built) -> None:
    """The positions are cut from the corner of the grid, not from its middle."""
    edit_one(
        built.model.pos_embed,
        "cropped_pos_embed",
        ("top = (self.pos_embed_max_size - height) // 2", "top = 0"),
        ("left = (self.pos_embed_max_size - width) // 2", "left = 0"),
    )


@fault(
    "sd3",
    "sd3-feed-forward-gelu-exact",
    Where("argument", ("gelu",), ("transformer_blocks.2.ff.net.0", "transformer_blocks.2.ff")),
    source="https://github.com/kyutai-labs/pocket-tts/pull/278",
    dtypes=("float32",),
)
def feed_forward_gelu_exact(built: Built) -> None:
    """One feed-forward layer computes the exact GELU, not its approximation by tanh."""
    built.model.transformer_blocks[2].ff.net[0].approximate = "none"


@fault(
    "autoencoder-kl",
    "autoencoder-kl-upsample-bilinear",
    Where("argument", ("interpolate",), ("decoder.up_blocks.0.upsamplers.0", "decoder.up_blocks.0")),
    source="https://github.com/onnx/onnx-tensorflow/pull/416",
)
def upsample_bilinear(built: Built) -> None:
    """Pictures are enlarged bilinearly where the nearest pixel should be repeated."""
    edit_one(
        built.model.decoder.up_blocks[0].upsamplers[0],
        "forward",
        ('scale_factor=2.0, mode="nearest"', 'scale_factor=2.0, mode="bilinear"'),
    )


@fault(
    "autoencoder-kl",
    "autoencoder-kl-one-weight-corrupted",
    Where("state", (), ("*",), ("decoder.mid_block.resnets.0.conv1.weight",)),
    Where("state", ("conv2d",), ("decoder.mid_block.resnets.0.conv1",)),
    source="https://arxiv.org/abs/2102.11245",
)
def one_weight_corrupted(built: Built) -> None:
    """One weight of one convolution is sixteen times too large, as after a flipped bit of its exponent."""
    import torch

    with torch.no_grad():
        built.model.decoder.mid_block.resnets[0].conv1.weight[3, 5, 1, 1] *= 16


@fault(
    "unet-ddim",
    "unet-ddim-steps-offset",
    Where("data", (), ("*",), ("*timestep*",)),
    Where("data", ("getitem", "to", "mul", "sub", "expand"), ("", "time_proj")),
    source="https://github.com/huggingface/diffusers/issues/2585",
)
def steps_offset(built: Built) -> None:
    """The timesteps of the sampler lie one later than those that the model is compared with."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler.from_config(built.options["noise_scheduler"].config, steps_offset=1)
    scheduler.set_timesteps(10)
    built.options["noise_scheduler"] = scheduler


@clean("unet-condition", "unet-condition-checkpointing")
def unet_condition_checkpointing(built: Built) -> None:
    """Activations are computed again in the backward pass."""
    built.model.enable_gradient_checkpointing()


def _fused_projections(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("diffusers.models.attention_processor").AttnProcessor2_0,
        "__call__",
        (
            "query = attn.to_q(hidden_states)",
            "projections = [attn.to_q, attn.to_k, attn.to_v] if encoder_hidden_states is None else [attn.to_q]\n"
            "    fused = F.linear(hidden_states, torch.cat([layer.weight for layer in projections]))\n"
            "    query, *others = fused.split(attn.to_q.out_features, dim=-1)",
        ),
        ("key = attn.to_k(encoder_hidden_states)", "key = others[0] if others else attn.to_k(encoder_hidden_states)"),
        (
            "value = attn.to_v(encoder_hidden_states)",
            "value = others[1] if others else attn.to_v(encoder_hidden_states)",
        ),
    )


@clean("unet-condition", "unet-condition-fused-projections", before=_fused_projections)
def fused_projections(built: Built) -> None:
    """Queries, keys and values of self-attention come from one matrix product."""


@clean("unet-condition", "unet-condition-weights-by-minimum")
def weights_by_minimum(built: Built) -> None:
    """The weights of the loss are clipped by a minimum of two tensors instead of one along a stacked dimension."""
    edit_step(
        built,
        (
            'torch.stack([snr, options["snr_gamma"] * torch.ones_like(snr)], dim=1).min(dim=1)[0]',
            'torch.minimum(snr, torch.full_like(snr, options["snr_gamma"]))',
        ),
    )


@clean("sd3", "sd3-checkpointing")
def sd3_checkpointing(built: Built) -> None:
    """Activations are computed again in the backward pass."""
    built.model.enable_gradient_checkpointing()
