"""Small pictures with something to see in them, and what is to be learnt about them."""

from __future__ import annotations

from typing import Any

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pictures(count: int, height: int, width: int | None = None, seed: int = 0) -> Any:
    """Pictures with values from 0 to 1: a slope, a bright rectangle, a wave and some noise."""
    import torch

    width = width or height
    source = torch.Generator().manual_seed(1000 + seed)
    rows, columns = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    result = torch.empty(count, 3, height, width)
    for image in result:
        slope, wave = torch.rand(3, 2, generator=source), torch.rand(3, generator=source) * 12
        image.copy_(0.2 + 0.2 * (slope[:, :1, None] * rows + slope[:, 1:, None] * columns))
        image.add_(0.08 * torch.sin(wave[:, None, None] * (rows + 0.7 * columns)))
        top, left = (int(torch.randint(0, size // 2, (), generator=source)) for size in (height, width))
        image[:, top : top + height // 3, left : left + width // 4] += torch.rand(3, 1, 1, generator=source) * 0.25
        image.add_(0.03 * torch.randn(image.shape, generator=source))
    return result.clamp(0, 1)


def as_if_trained(model: Any, gain: float = 1.0) -> Any:
    """The model with small random numbers added to its biases, which are zero or all the same at the start, and with
    matrices that are larger than at the start by ``gain``."""
    import torch

    source = torch.Generator().manual_seed(17)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias"):
                value.add_(0.05 * torch.randn(value.shape, generator=source))
            elif value.ndim == 2:
                value.mul_(gain)
    return model


def normalised(images: Any) -> Any:
    """The pictures with the mean and the deviation of ImageNet taken out."""
    import torch

    mean, std = (torch.tensor(values, dtype=images.dtype).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (images - mean) / std


def classes(count: int, number: int, seed: int = 0) -> Any:
    """The class of each of ``count`` pictures."""
    import torch

    return torch.randint(0, number, (count,), generator=torch.Generator().manual_seed(2000 + seed))


def several_classes(count: int, number: int, seed: int = 0) -> Any:
    """One or zero for each class of each of ``count`` pictures."""
    import torch

    return (torch.rand(count, number, generator=torch.Generator().manual_seed(3000 + seed)) < 0.3).float()


def segments(count: int, height: int, width: int | None = None, number: int = 6, seed: int = 0) -> Any:
    """The class of each pixel: rectangles on a background, with a border of 255 around each, which is to be ignored."""
    import torch

    width = width or height
    source = torch.Generator().manual_seed(4000 + seed)
    result = torch.zeros(count, height, width, dtype=torch.long)
    for image in result:
        for _ in range(3):
            top, left = (int(torch.randint(0, 2 * size // 3, (), generator=source)) for size in (height, width))
            down, right = top + height // 3, left + width // 4
            image[max(top - 1, 0) : down + 1, max(left - 1, 0) : right + 1] = 255
            image[top:down, left:right] = int(torch.randint(1, number, (), generator=source))
    return result


def boxes(count: int, height: int, width: int, number: int = 5, seed: int = 0) -> list[dict[str, Any]]:
    """Two to four boxes with their classes (from 1) for each picture, as corners in pixels."""
    import torch

    source = torch.Generator().manual_seed(5000 + seed)
    result = []
    for image in range(count):
        amount = 2 + image % 3
        corner = torch.rand(amount, 2, generator=source) * torch.tensor([width, height]) * 0.25
        size = 8 + torch.rand(amount, 2, generator=source) * torch.tensor([width, height]) * 0.3
        edge = torch.tensor([width, height], dtype=torch.float32)
        found = torch.cat([corner, torch.minimum(corner + size, edge)], dim=1)
        result.append({"boxes": found, "labels": torch.randint(1, number, (amount,), generator=source)})
    return result
