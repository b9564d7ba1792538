"""Models of diffusers: a conditional U-Net and a joint transformer that learn to remove noise, an autoencoder that is
trained, and an unconditional U-Net that samples."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program


def _numbers(setting: Setting) -> dict[str, Any]:
    import torch

    return {"device": setting.device, "dtype": getattr(torch, setting.dtype)}


def _pictures(count: int, channels: int, size: int) -> Any:
    """Smooth pictures with a bright spot each, between minus one and one, in float32."""
    import torch

    line = torch.linspace(-1, 1, size)
    spots = torch.rand(count, channels, 2) * 1.4 - 0.7
    distance = (line[:, None] - spots[..., 0, None, None]) ** 2 + (line - spots[..., 1, None, None]) ** 2
    return (2 * torch.exp(-3 * distance) - 1 + 0.05 * torch.randn(count, channels, size, size)).clamp(-1, 1)


@program("unet-condition", library="diffusers")
def unet_condition(setting: Setting) -> Built:
    """The text-to-image training step of diffusers: noise prediction, weighted by the signal to noise ratio."""
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from diffusers import DDPMScheduler, UNet2DConditionModel
    from diffusers.optimization import get_scheduler

    model = UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    worn(model)
    model.to(**_numbers(setting)).train()
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2, eps=1e-8)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=10)
    batches = []
    for _ in range(2):
        mask = torch.ones(2, 9)
        mask[1, 6:] = 0
        batches.append(
            {
                "latents": _pictures(2, 4, 16).to(**_numbers(setting)),
                "noise": torch.randn(2, 4, 16, 16).to(**_numbers(setting)),
                "timesteps": torch.randint(0, 1000, (2,), device=setting.device),
                "text": torch.randn(2, 9, 32).to(**_numbers(setting)),
                "mask": mask.to(setting.device),
            }
        )
    options = {"noise_scheduler": noise_scheduler, "snr_gamma": 5.0, "max_norm": 1.0}
    return Built(model, unet_condition_step, batches, optimizer, scheduler, options)


def unet_condition_step(built: Built, index: int) -> dict[str, Any]:
    import torch
    from diffusers.training_utils import compute_snr

    batch, options = built.batches[index], built.options
    noise_scheduler = options["noise_scheduler"]
    noisy = noise_scheduler.add_noise(batch["latents"], batch["noise"], batch["timesteps"])
    target = batch["noise"]
    predicted = built.model(
        noisy, batch["timesteps"], batch["text"], encoder_attention_mask=batch["mask"], return_dict=False
    )[0]
    snr = compute_snr(noise_scheduler, batch["timesteps"])
    weights = torch.stack([snr, options["snr_gamma"] * torch.ones_like(snr)], dim=1).min(dim=1)[0] / snr
    loss = torch.nn.functional.mse_loss(predicted.float(), target.float(), reduction="none")
    loss = (loss.mean(dim=list(range(1, len(loss.shape)))) * weights).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), options["max_norm"])
    built.optimizer.step()
    built.scheduler.step()
    built.optimizer.zero_grad()
    return {"loss": loss, "predicted": predicted}


@program("sd3", library="diffusers")
def sd3(setting: Setting) -> Built:
    """The flow matching step of the training script for Stable Diffusion 3."""
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=3,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=48,
        caption_projection_dim=64,
        pooled_projection_dim=40,
        pos_embed_max_size=12,
        dual_attention_layers=(0,),
        qk_norm="rms_norm",
    )
    worn(model)
    model.to(**_numbers(setting)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), weight_decay=1e-4)
    batches = []
    for _ in range(2):
        batches.append(
            {
                "latents": _pictures(2, 4, 16).to(**_numbers(setting)),
                "noise": torch.randn(2, 4, 16, 16).to(**_numbers(setting)),
                "draws": torch.sigmoid(torch.randn(2)),
                "text": torch.randn(2, 7, 48).to(**_numbers(setting)),
                "pooled": torch.randn(2, 40).to(**_numbers(setting)),
            }
        )
    options = {"noise_scheduler": FlowMatchEulerDiscreteScheduler(shift=3.0), "max_norm": 1.0}
    return Built(model, sd3_step, batches, optimizer, None, options)


def sd3_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch, noise_scheduler = built.batches[index], built.options["noise_scheduler"]
    latents, noise = batch["latents"], batch["noise"]
    drawn = (batch["draws"] * noise_scheduler.config.num_train_timesteps).long()
    timesteps = noise_scheduler.timesteps[drawn].to(latents.device)
    sigmas = noise_scheduler.sigmas[drawn].to(latents.device, latents.dtype)[:, None, None, None]
    noisy = (1.0 - sigmas) * latents + sigmas * noise
    predicted = built.model(
        hidden_states=noisy,
        timestep=timesteps,
        encoder_hidden_states=batch["text"],
        pooled_projections=batch["pooled"],
        return_dict=False,
    )[0]
    target = noise - latents
    loss = torch.mean(((predicted.float() - target.float()) ** 2).reshape(target.shape[0], -1), 1).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    built.optimizer.zero_grad()
    return {"loss": loss, "predicted": predicted}


@program("autoencoder-kl", library="diffusers")
def autoencoder_kl(setting: Setting) -> Built:
    """An autoencoder with a normally distributed latent, trained on reconstruction and divergence."""
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(16, 32),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=24,
    )
    worn(model)
    model.to(**_numbers(setting)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.9))
    batches = [
        {
            "pictures": _pictures(2, 3, 24).to(**_numbers(setting)),
            "noise": torch.randn(2, 4, 12, 12).to(**_numbers(setting)),
        }
        for _ in range(2)
    ]
    return Built(model, autoencoder_kl_step, batches, optimizer, None, {"kl_weight": 1e-2})


def autoencoder_kl_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    pictures = built.batches[index]["pictures"]
    posterior = built.model.encode(pictures).latent_dist
    latents = posterior.mean + posterior.std * built.batches[index]["noise"]
    restored = built.model.decode(latents).sample
    reconstruction = torch.abs(pictures - restored).mean()
    divergence = posterior.kl().mean()
    loss = reconstruction + built.options["kl_weight"] * divergence
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    return {"loss": loss, "divergence": divergence, "restored": restored}


@program("unet-ddim", library="diffusers", steps=3)
def unet_ddim(setting: Setting) -> Built:
    """An unconditional U-Net that takes steps of denoising, without training."""
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from diffusers import DDIMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(32, 48),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
        norm_num_groups=8,
        add_attention=True,
    )
    worn(model)
    model.to(**_numbers(setting)).eval()
    noise_scheduler = DDIMScheduler(num_train_timesteps=1000, clip_sample=True, clip_sample_range=2.0)
    noise_scheduler.set_timesteps(10)
    sample = torch.randn(2, 3, 16, 16).to(**_numbers(setting))
    return Built(model, unet_ddim_step, [], options={"noise_scheduler": noise_scheduler, "sample": sample})


def unet_ddim_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    noise_scheduler, sample = built.options["noise_scheduler"], built.options["sample"]
    timestep = noise_scheduler.timesteps[index]
    with torch.no_grad():
        predicted = built.model(sample, timestep).sample
        sample = noise_scheduler.step(predicted, timestep, sample).prev_sample
    built.options["sample"] = sample
    return {"predicted": predicted, "sample": sample}
