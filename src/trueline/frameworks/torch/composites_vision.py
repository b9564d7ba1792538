"""Paddle's image and box operators, written with torch. Names are Paddle's."""

from __future__ import annotations

from math import floor
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import several, to_back, to_front


def _targets(x: Tensor, size: Any, scale_factor: Any, recompute: Any) -> list[tuple[int, float]]:
    """For each spatial dimension the size of the result, and the step in the source for one step in the result."""
    sizes = x.shape[2:]
    if size is not None:
        wanted = several(size, len(sizes))
        return [(target, source / target) for target, source in zip(wanted, sizes, strict=True)]
    given = scale_factor.tolist() if isinstance(scale_factor, Tensor) else scale_factor
    scales = list(given) if isinstance(given, list | tuple) else [given] * len(sizes)
    targets = [floor(source * scale) for source, scale in zip(sizes, scales, strict=True)]
    if recompute:
        return [(target, source / target) for target, source in zip(targets, sizes, strict=True)]
    return [(target, 1.0 / scale) for target, scale in zip(targets, scales, strict=True)]


def _between(x: Tensor, dim: int, target: int, step: float, align_corners: bool, align_mode: int) -> Tensor:
    """Linear interpolation along one dimension."""
    size = x.shape[dim]
    # In float32 for float32 and narrower, as kernels reckon positions; the float64 of a gold stays one.
    places = torch.arange(target, dtype=torch.promote_types(x.dtype, torch.float32))
    if align_corners:
        places = places * ((size - 1) / (target - 1) if target > 1 else 0.0)
    elif align_mode == 0:
        places = ((places + 0.5) * step - 0.5).clamp(min=0.0)
    else:
        places = places * step
    low = places.floor().long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    share = (places - low).to(x.dtype).reshape(-1, *[1] * (x.ndim - 1 - dim))
    return x.index_select(dim, low) * (1 - share) + x.index_select(dim, high) * share


def _nearest(size: int, target: int, step: float) -> list[int]:
    """Which elements are taken; where the sizes say it all, by whole numbers: 3 * (4 / 6) is not quite 2."""
    exact = step == size / target
    return [min(at * size // target if exact else floor(at * step), size - 1) for at in range(target)]


def _resized(x: Tensor, mode: str, targets: list[tuple[int, float]], align_corners: bool, align_mode: int) -> Tensor:
    for dim, (target, step) in enumerate(targets, start=2):
        if mode == "nearest":
            x = x.index_select(dim, torch.tensor(_nearest(x.shape[dim], target, step), dtype=torch.int64))
        else:
            x = _between(x, dim, target, step, align_corners, align_mode)
    return x


@composite
def interpolate(
    x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False,
    align_mode: int = 0, data_format: str | None = None, recompute_scale_factor: Any = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    layout = (data_format or "NC").upper()
    front, mode = to_front(x, layout), mode.lower()
    targets = _targets(front, size, scale_factor, recompute_scale_factor)
    sizes = [target for target, _ in targets]
    if mode == "area":
        out = functional.interpolate(front, sizes, mode="area")
    elif mode == "bicubic" or antialias:
        scales = None if size is not None or recompute_scale_factor else [1.0 / step for _, step in targets]
        wanted = sizes if scales is None else None
        out = functional.interpolate(front, wanted, scales, mode, align_corners, antialias=antialias)
    else:
        out = _resized(front, mode, targets, align_corners, align_mode)
    return to_back(out, layout)


@composite
def affine_grid(theta: Tensor, out_shape: Any, align_corners: bool = True) -> Tensor:
    """Points between -1 and 1 at the corners or the centres of the elements of a grid, moved by a matrix each."""
    count, _, *sizes = several(out_shape, 1)
    axes = []
    for size in sizes:
        steps = torch.arange(size).to(theta.dtype)
        spread = 2 * steps / max(size - 1, 1) - 1 if align_corners else (2 * steps + 1) / size - 1
        axes.append(torch.zeros_like(steps) if align_corners and size == 1 else spread)
    points = torch.stack([*torch.meshgrid(*axes, indexing="ij")[::-1], torch.ones(sizes, dtype=theta.dtype)], -1)
    return (points.reshape(1, -1, len(sizes) + 1) @ theta.mT).reshape(count, *sizes, len(sizes))


def _areas(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _overlaps(boxes: Tensor) -> Tensor:
    """Intersection over union of every pair of boxes."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    areas = _areas(boxes)
    return common / (areas[:, None] + areas[None, :] - common)


def _kept(boxes: Tensor, threshold: float) -> Tensor:
    """The boxes, best first, that overlap no better box by more than the threshold."""
    overlaps = _overlaps(boxes)
    kept: list[int] = []
    for place in range(len(boxes)):
        if all(float(overlaps[place, better]) <= threshold for better in kept):
            kept.append(place)
    return torch.tensor(kept, dtype=torch.int64)


@composite
def nms(
    boxes: Tensor, iou_threshold: float = 0.3, scores: Tensor | None = None, category_idxs: Tensor | None = None,
    categories: Any = None, top_k: int | None = None,
) -> Tensor:  # fmt: skip
    if scores is None:
        return _kept(boxes, iou_threshold)
    order = scores.argsort(descending=True, stable=True)
    if category_idxs is None:
        return order[_kept(boxes[order], iou_threshold)][:top_k]
    found = []
    for category in categories:
        members = order[category_idxs[order] == category]
        found.append(members[_kept(boxes[members], iou_threshold)])
    every = torch.cat(found)
    return every[scores[every].argsort(descending=True, stable=True)][:top_k]


def _bilinear(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Values of an image (channels, height, width) between its points; a point beyond the edge by up to one is at it,
    further away it is zero."""
    height, width = x.shape[1:]
    inside = (rows >= -1) & (rows <= height) & (columns >= -1) & (columns <= width)
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    top, left = rows.floor().long(), columns.floor().long()
    bottom, right = (top + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    down, across = rows - top, columns - left
    upper = x[:, top, left] * (1 - across) + x[:, top, right] * across
    lower = x[:, bottom, left] * (1 - across) + x[:, bottom, right] * across
    return (upper * (1 - down) + lower * down) * inside


def _owners(boxes_num: Tensor) -> list[int]:
    """The image to which each box belongs."""
    return [image for image, count in enumerate(boxes_num.tolist()) for _ in range(int(count))]


@composite
def roi_align(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = True,
) -> Tensor:  # fmt: skip
    height, width = several(output_size, 2)
    found = []
    for box, image in zip(boxes, _owners(boxes_num), strict=True):
        left, top, right, bottom = box * spatial_scale - (0.5 if aligned else 0.0)
        tall, wide = bottom - top, right - left
        if not aligned:
            tall, wide = tall.clamp(min=1.0), wide.clamp(min=1.0)
        counts = [sampling_ratio if sampling_ratio > 0 else max(int((extent / bins).ceil()), 1)
                  for extent, bins in ((tall, height), (wide, width))]  # fmt: skip
        rows = top + (torch.arange(height * counts[0], dtype=x.dtype) + 0.5) * tall / (height * counts[0])
        columns = left + (torch.arange(width * counts[1], dtype=x.dtype) + 0.5) * wide / (width * counts[1])
        grid = _bilinear(x[image], rows[:, None].expand(-1, len(columns)), columns[None].expand(len(rows), -1))
        found.append(functional.avg_pool2d(grid, counts))
    return torch.stack(found)


def _rounded(value: float) -> int:
    """Halves go away from zero, as in C."""
    return floor(value + 0.5) if value >= 0 else -floor(-value + 0.5)


def _bins(first: int, last: int, count: int, size: int) -> list[slice]:
    """Where the bins of a pooled region begin and end, within the image."""
    extent = max(last - first + 1, 1) / count
    edges = [(floor(place * extent), -floor(-(place + 1) * extent)) for place in range(count)]
    return [slice(min(max(a + first, 0), size), min(max(b + first, 0), size)) for a, b in edges]


@composite
def roi_pool(x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    height, width = several(output_size, 2)
    found = []
    for box, image in zip(boxes, _owners(boxes_num), strict=True):
        left, top, right, bottom = (_rounded(edge) for edge in (box * spatial_scale).tolist())
        rows, columns = _bins(top, bottom, height, x.shape[2]), _bins(left, right, width, x.shape[3])
        bins = [x[image][:, row, column].flatten(1) for row in rows for column in columns]
        best = [one.amax(1) if one.shape[1] else one.new_zeros(len(one)) for one in bins]
        found.append(torch.stack(best, 1).unflatten(1, (height, width)))
    return torch.stack(found)


@composite
def psroi_pool(x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Every bin has channels of its own."""
    height, width = several(output_size, 2)
    planes = x.unflatten(1, (-1, height, width))
    found = []
    for box, image in zip(boxes, _owners(boxes_num), strict=True):
        left, top = (_rounded(edge) * spatial_scale for edge in box[:2].tolist())
        right, bottom = ((_rounded(edge) + 1) * spatial_scale for edge in box[2:].tolist())
        tall, wide = max(bottom - top, 0.1) / height, max(right - left, 0.1) / width
        out = x.new_zeros(planes.shape[1], height, width)
        for row in range(height):
            rows = slice(max(floor(row * tall + top), 0), max(-floor(-((row + 1) * tall + top)), 0))
            for column in range(width):
                columns = slice(max(floor(column * wide + left), 0), max(-floor(-((column + 1) * wide + left)), 0))
                bin_ = planes[image, :, row, column, rows, columns]
                if bin_[0].numel():
                    out[:, row, column] = bin_.mean((1, 2))
        found.append(out)
    return torch.stack(found)
