"""Cases on models of diffusers."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Change, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


def _mask_inverted(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("diffusers.models.unets.unet_2d_condition").UNet2DConditionModel,
        "forward",
        (
            "(1 - encoder_attention_mask.to(sample.dtype)) * -10000.0",
            "encoder_attention_mask.to(sample.dtype) * -10000.0",
        ),
    )


@fault(
    "unet-condition",
    "unet-condition-text-mask-inverted",
    Where("missing", ("rsub", "sub", "to", "mul"), ("",)),
    source="https://github.com/huggingface/diffusers/issues/1890",
    before=_mask_inverted,
)
def text_mask_inverted(built: Built) -> None:
    """The mask of the text becomes a bias without being inverted, so that only the padding is attended to."""


@fault(
    "sd3",
    "sd3-sigma-as-timestep",
    Where("data", (), ("*",), ("*timestep*",)),
    Where("region", ("getitem", "to", "flatten", "float", "mul"), ("", "time_text_embed.time_proj"), calls=2),
    source="https://github.com/huggingface/diffusers/issues/9056",
)
def sigma_as_timestep(built: Built) -> None:
    """The model is given the share of noise, between zero and one, as its timestep, not a thousand times that."""
    edit_step(built, ("timestep=timesteps", "timestep=sigmas.flatten()"))


@fault(
    "sd3",
    "sd3-target-sign",
    Where("argument", ("sub",), ("",)),
    source="https://github.com/XLabs-AI/x-flux/issues/32",
)
def target_sign(built: Built) -> None:
    """The velocity that is learned points from the noise to the picture."""
    edit_step(built, ("target = noise - latents", "target = latents - noise"))


@fault(
    "sd3",
    "sd3-sigma-shift-missing",
    Where("data", ("getitem", "to", "sub", "rsub", "mul"), ("",)),
    Where("state", ("getitem", "to", "sub", "rsub", "mul"), ("",)),
    source="https://github.com/Nerogar/OneTrainer/issues/615",
)
def sigma_shift_missing(built: Built) -> None:
    """The shares of noise are not shifted towards more noise, as the model's sampler does."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    built.options["noise_scheduler"] = FlowMatchEulerDiscreteScheduler(shift=1.0)


def _deviation(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("diffusers.models.autoencoders.vae").DiagonalGaussianDistribution,
        "__init__",
        ("torch.exp(0.5 * self.logvar)", "torch.exp(self.logvar)"),
    )


@fault(
    "autoencoder-kl",
    "autoencoder-kl-deviation-without-half",
    Where("missing", ("mul", "rmul", "exp"), ("",)),
    source="https://github.com/rachtsingh/ibp_vae/issues/3",
    before=_deviation,
)
def deviation_without_half(built: Built) -> None:
    """The standard deviation of the latent is the exponential of the logarithm of its variance, without a half."""


def _averaged(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("diffusers.models.autoencoders.vae").DiagonalGaussianDistribution,
        "kl",
        (
            "0.5 * torch.sum(\n                torch.pow(self.mean, 2)",
            "0.5 * torch.mean(\n                torch.pow(self.mean, 2)",
        ),
    )


@fault(
    "autoencoder-kl",
    "autoencoder-kl-divergence-averaged",
    Where("region", ("sum", "mean"), ("",)),
    Where("call", ("sum", "mean"), ("",)),
    source="https://github.com/mkusner/grammarVAE/issues/2",
    before=_averaged,
)
def divergence_averaged(built: Built) -> None:
    """The divergence of the latent is averaged over its elements where it should be summed."""


@fault(
    "autoencoder-kl",
    "autoencoder-kl-downsample-symmetric-padding",
    Where(
        "region",
        ("pad", "conv2d"),
        ("encoder.down_blocks.0.downsamplers.0", "encoder.down_blocks.0.downsamplers.0.conv"),
        calls=2,
    ),
    Where("missing", ("pad",), ("encoder.down_blocks.0.downsamplers.0",)),
    Where("argument", ("conv2d",), ("encoder.down_blocks.0.downsamplers.0.conv",)),
    source="https://github.com/VincentGourbin/flux-2-swift-mlx/pull/106",
)
def downsample_symmetric_padding(built: Built) -> None:
    """Pictures are padded on all sides before they are made smaller, not only at the right and below."""
    downsampler = built.model.encoder.down_blocks[0].downsamplers[0]
    downsampler.padding = 1
    downsampler.conv.padding = (1, 1)


LATER = (
    "prev_timestep = timestep - self.config.num_train_timesteps // self.num_inference_steps",
    "later = (self.timesteps < timestep).nonzero()\n"
    "    prev_timestep = self.timesteps[later[0, 0]] if len(later) else timestep - 1000",
)


def _linspace(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    scheduler = imported("diffusers").DDIMScheduler
    scheduler.original_step = scheduler.step
    edit_function(scheduler, "step", LATER)


def _evenly_spaced(built: Built) -> None:
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler.from_config(built.options["noise_scheduler"].config, timestep_spacing="linspace")
    scheduler.set_timesteps(10)
    built.options["noise_scheduler"] = scheduler


@fault(
    "unet-ddim",
    "unet-ddim-previous-step",
    Where("region", ("sub", "getitem", "lt", "nonzero", "ge", "len"), ("",), calls=4),
    source="https://github.com/huggingface/diffusers/issues/12633",
    both=Change(_linspace, _evenly_spaced),
)
def previous_step(built: Built) -> None:
    """The timestep that follows is computed from an even stride, which is not that of the list of timesteps."""
    scheduler = type(built.options["noise_scheduler"])
    scheduler.step = scheduler.original_step


@fault(
    "unet-ddim",
    "unet-ddim-sample-not-clipped",
    Where("missing", ("clamp",), ("",)),
    source="https://github.com/kohya-ss/sd-scripts/issues/1432",
)
def sample_not_clipped(built: Built) -> None:
    """The predicted picture is not clipped."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler.from_config(built.options["noise_scheduler"].config, clip_sample=False)
    scheduler.set_timesteps(10)
    built.options["noise_scheduler"] = scheduler


@fault(
    "unet-ddim",
    "unet-ddim-timesteps-trailing",
    Where("data", (), ("*",), ("*timestep*",)),
    Where("data", ("getitem", "to", "mul", "sub", "expand"), ("", "time_proj")),
    source="https://github.com/huggingface/diffusers/issues/5921",
)
def timesteps_trailing(built: Built) -> None:
    """The timesteps are counted from the last one down, where they should be counted from the first one up."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler.from_config(built.options["noise_scheduler"].config, timestep_spacing="trailing")
    scheduler.set_timesteps(10)
    built.options["noise_scheduler"] = scheduler


@clean("unet-condition", "unet-condition-written-out-attention")
def written_out_attention(built: Built) -> None:
    """Attention is written out as matrix products and a softmax."""
    from diffusers.models.attention_processor import AttnProcessor

    built.model.set_attn_processor(AttnProcessor())


@clean("unet-condition", "unet-condition-channels-last")
def channels_last(built: Built) -> None:
    """Pictures and kernels lie in memory with their channels last."""
    import torch

    built.model.to(memory_format=torch.channels_last)
    for batch in built.batches:
        batch["latents"] = batch["latents"].contiguous(memory_format=torch.channels_last)


def _by_heads(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("diffusers.models.attention_processor").JointAttnProcessor2_0,
        "__call__",
        (
            "hidden_states = F.scaled_dot_product_attention(query, key, value, dropout_p=0.0, is_causal=False)",
            "heads = []\n"
            "    for head in range(attn.heads):\n"
            "        scores = query[:, head] @ key[:, head].transpose(-1, -2) / head_dim**0.5\n"
            "        heads.append(scores.softmax(dim=-1) @ value[:, head])\n"
            "    hidden_states = torch.stack(heads, dim=1)",
        ),
    )


@clean("sd3", "sd3-attention-by-heads", before=_by_heads)
def attention_by_heads(built: Built) -> None:
    """Attention is computed one head after the other."""


@clean("sd3", "sd3-feed-forward-chunked")
def feed_forward_chunked(built: Built) -> None:
    """The feed-forward layers take one row of the batch after the other."""
    built.model.enable_forward_chunking(chunk_size=1, dim=0)


@clean("autoencoder-kl", "autoencoder-kl-slicing")
def slicing(built: Built) -> None:
    """Pictures are encoded and decoded one after the other."""
    built.model.enable_slicing()


@clean("autoencoder-kl", "autoencoder-kl-two-threads", threads=2)
def two_threads(built: Built) -> None:
    """Two threads compute."""


def _repeat(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("diffusers.models.upsampling").Upsample2D,
        "forward",
        (
            'F.interpolate(hidden_states, scale_factor=2.0, mode="nearest")',
            "hidden_states.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)",
        ),
    )


@clean("autoencoder-kl", "autoencoder-kl-nearest-by-repeat", before=_repeat)
def nearest_by_repeat(built: Built) -> None:
    """Pictures are enlarged by repeating their pixels."""


@clean("unet-ddim", "unet-ddim-written-out-attention")
def ddim_written_out_attention(built: Built) -> None:
    """Attention is written out as matrix products and a softmax."""
    from diffusers.models.attention_processor import AttnProcessor

    for module in built.model.modules():
        if hasattr(module, "to_q"):
            module.set_processor(AttnProcessor())


@clean("unet-ddim", "unet-ddim-group-norm-written-out")
def group_norm_written_out(built: Built) -> None:
    """The normalisation of groups of channels is written out."""
    import torch

    for module in list(built.model.modules()):
        if isinstance(module, torch.nn.GroupNorm):
            edit_one(
                module,
                "forward",
                (
                    "return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)",
                    "groups = input.reshape(input.shape[0], self.num_groups, -1)\n"
                    "    groups = groups - groups.mean(dim=-1, keepdim=True)\n"
                    "    groups = groups / torch.sqrt(groups.square().mean(dim=-1, keepdim=True) + self.eps)\n"
                    "    shape = (1, -1) + (1,) * (input.ndim - 2)\n"
                    "    return groups.reshape(input.shape) * self.weight.view(shape) + self.bias.view(shape)",
                ),
            )
