"""What the training scripts share."""

from __future__ import annotations

from typing import Any


def worn(model: Any) -> Any:
    """Biases, scales of norms and class tokens are moved off their zeros and ones, as those of a trained model are."""
    import torch

    drawn = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.05 * torch.randn(parameter.shape, generator=drawn)
    return model


def upcast(value: Any) -> Any:
    """In float32, or in float64 where it is already."""
    import torch

    return value.to(torch.promote_types(value.dtype, torch.float32))
