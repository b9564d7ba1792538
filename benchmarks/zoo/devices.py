"""The zoo on an accelerator: which programs run there, and clean pairs of the same program on two devices.

python -m benchmarks.zoo.run --device cuda        both sides of each case on the GPU
python -m benchmarks.zoo.run --device cpu,cuda    the reference on the CPU, the candidate, unchanged, on the GPU
"""

from __future__ import annotations

from benchmarks.zoo.spec import CASES, PROGRAMS, Clean

DECODERS = ("llama-long", "qwen3", "gpt2", "gemma2", "mistral", "phi", "bloom", "opt", "cohere", "olmo2", "pythia")
EXPERTS = ("mixtral", "qwen2moe", "olmoe", "deepseek")
VISION = ("vit", "eva", "convnext", "efficientnet", "swin", "seresnet", "dinov2", "segformer", "densenet", "regnet")
DIFFUSION = ("unet-condition", "sd3", "autoencoder-kl", "unet-ddim")
PROGRAMS_THERE = (*DECODERS, *EXPERTS, *VISION, *DIFFUSION)
"""Decoders, mixtures of experts, vision and diffusion: what is trained on GPUs most."""


def declare_pairs() -> None:
    """A clean pair for each program that runs on both devices."""
    for name in PROGRAMS_THERE:
        case = f"{name}-on-two-devices"
        if name in PROGRAMS and case not in CASES:
            CASES[case] = Clean(case, name, name, "The same program on the CPU and on the GPU.")


def of_device(device: str) -> dict[str, str]:
    """On which device each side runs."""
    first, _, second = device.partition(",")
    return {"reference": first, "candidate": second or first}
