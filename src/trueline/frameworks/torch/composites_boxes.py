"""Paddle's operators of object detection, written with torch. Names are Paddle's."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import several


def _centres(boxes: Tensor, extra: float) -> tuple[Tensor, Tensor]:
    """Centres and sizes of boxes; ``extra`` is 1 where the last point belongs to the box."""
    size = boxes[..., 2:] - boxes[..., :2] + extra
    return boxes[..., :2] + size / 2, size


@composite
def box_coder(
    prior_box: Tensor, prior_box_var: Any, target_box: Tensor, code_type: str = "encode_center_size",
    box_normalized: bool = True, axis: int = 0,
) -> Tensor:  # fmt: skip
    extra = 0.0 if box_normalized else 1.0
    centre, size = _centres(prior_box, extra)
    spread = prior_box.new_ones(4) if prior_box_var is None else torch.as_tensor(prior_box_var, dtype=prior_box.dtype)
    if code_type == "encode_center_size":
        middle = (target_box[:, 2:] + target_box[:, :2]) / 2
        extent = target_box[:, 2:] - target_box[:, :2] + extra
        shift = (middle[:, None] - centre[None]) / size[None]
        return torch.cat([shift, torch.log((extent[:, None] / size[None]).abs())], -1) / spread
    centre, size = (one.unsqueeze(axis) for one in (centre, size))
    spread = spread.unsqueeze(axis) if spread.ndim == 2 else spread
    code = target_box * spread
    middle, extent = code[..., :2] * size + centre, torch.exp(code[..., 2:]) * size
    return torch.cat([middle - extent / 2, middle + extent / 2 - extra], -1)


@composite
def prior_box(
    input: Tensor, image: Tensor, min_sizes: Any, max_sizes: Any = None, aspect_ratios: Any = (1.0,),
    variance: Any = (0.1, 0.1, 0.2, 0.2), flip: bool = False, clip: bool = False, steps: Any = (0.0, 0.0),
    offset: float = 0.5, min_max_aspect_ratios_order: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    height, width = input.shape[2:]
    tall, wide = image.shape[2:]
    across, down = float(steps[0]) or wide / width, float(steps[1]) or tall / height
    halves = _halves(min_sizes, max_sizes, _ratios(aspect_ratios, flip), min_max_aspect_ratios_order)
    x = ((torch.arange(width, dtype=torch.float64) + offset) * across)[None, :, None].expand(height, -1, len(halves))
    y = ((torch.arange(height, dtype=torch.float64) + offset) * down)[:, None, None].expand(-1, width, len(halves))
    half = torch.tensor(halves, dtype=torch.float64)
    corners = [(x - half[:, 0]) / wide, (y - half[:, 1]) / tall, (x + half[:, 0]) / wide, (y + half[:, 1]) / tall]
    boxes = torch.stack(corners, -1).to(input.dtype)
    return (boxes.clamp(0, 1) if clip else boxes), torch.tensor(variance, dtype=input.dtype).expand_as(boxes)


def _ratios(aspect_ratios: Any, flip: bool) -> list[float]:
    """Every ratio once, 1 first."""
    found = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - known) > 1e-6 for known in found):
            found += [ratio, 1.0 / ratio] if flip else [ratio]
    return found


def _halves(min_sizes: Any, max_sizes: Any, ratios: list[float], squares_first: bool) -> list[tuple[float, float]]:
    """Half the width and height of each prior at one point."""
    found: list[tuple[float, float]] = []
    for place, small in enumerate(min_sizes):
        shapes = [(small * sqrt(ratio) / 2, small / sqrt(ratio) / 2) for ratio in ratios]
        side = sqrt(small * max_sizes[place]) / 2 if max_sizes else 0.0
        large = [(side, side)] if max_sizes else []
        found += [shapes[0], *large, *shapes[1:]] if squares_first else [*shapes, *large]
    return found


@composite
def yolo_box(
    x: Tensor, img_size: Tensor, anchors: Any, class_num: int, conf_thresh: float, downsample_ratio: int,
    clip_bbox: bool = True, scale_x_y: float = 1.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    count = len(anchors) // 2
    parts = x.unflatten(1, (count, 5 + class_num))
    height, width = x.shape[2:]
    size = img_size.to(x.dtype)
    tall, wide = size[:, 0].reshape(-1, 1, 1, 1), size[:, 1].reshape(-1, 1, 1, 1)
    sides = torch.tensor(anchors, dtype=x.dtype).reshape(1, count, 2, 1, 1)
    columns, rows = torch.arange(width, dtype=x.dtype), torch.arange(height, dtype=x.dtype)[:, None]
    bias = -0.5 * (scale_x_y - 1)
    centre_x = (columns + torch.sigmoid(parts[:, :, 0]) * scale_x_y + bias) * wide / width
    centre_y = (rows + torch.sigmoid(parts[:, :, 1]) * scale_x_y + bias) * tall / height
    half_x = torch.exp(parts[:, :, 2]) * sides[:, :, 0] * wide / (downsample_ratio * width) / 2
    half_y = torch.exp(parts[:, :, 3]) * sides[:, :, 1] * tall / (downsample_ratio * height) / 2
    sure = torch.sigmoid(parts[:, :, 4])
    edges = [centre_x - half_x, centre_y - half_y, centre_x + half_x, centre_y + half_y]
    if clip_bbox:
        edges = [edges[0].clamp(min=0), edges[1].clamp(min=0), edges[2].minimum(wide - 1), edges[3].minimum(tall - 1)]
    keep = (sure >= conf_thresh).to(x.dtype)
    boxes = (torch.stack(edges, -1) * keep[..., None]).flatten(1, 3)
    scores = torch.sigmoid(parts[:, :, 5:]) * (sure * keep).unsqueeze(2)
    return boxes, scores.movedim(2, -1).flatten(1, 3)


@composite
def deform_conv2d(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, deformable_groups: int = 1, groups: int = 1, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Every point of the kernel looks at the input at its own place plus its offset, zero beyond the edges."""
    high, wide = weight.shape[2:]
    rows, columns = offset.shape[2:]
    stride, padding, dilation = several(stride, 2), several(padding, 2), several(dilation, 2)
    moved = offset.unflatten(1, (deformable_groups, high * wide, 2))
    taps = torch.stack(torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij"), -1).reshape(-1, 2)
    starts = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"))
    base = [starts[side] * stride[side] - padding[side] + (taps[:, side] * dilation[side])[:, None, None]
            for side in (0, 1)]  # fmt: skip
    sizes = x.shape[2:]
    places = [(base[side] + moved[:, :, :, side]) * 2 / max(sizes[side] - 1, 1) - 1 for side in (1, 0)]
    grid = torch.stack(places, -1).flatten(0, 1).flatten(1, 2)
    grouped = x.unflatten(1, (deformable_groups, -1)).flatten(0, 1)
    seen = functional.grid_sample(grouped, grid, align_corners=True).unflatten(2, (high * wide, rows))
    if mask is not None:
        seen = seen * mask.unflatten(1, (deformable_groups, high * wide)).flatten(0, 1).unsqueeze(1)
    seen = seen.unflatten(0, (-1, deformable_groups)).flatten(1, 2).unflatten(1, (groups, -1))
    kernel = weight.unflatten(0, (groups, -1)).flatten(3)
    out = torch.einsum("ngckhw,gock->ngohw", seen, kernel).flatten(1, 2)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


@composite
def distribute_fpn_proposals(
    fpn_rois: Tensor, min_level: int, max_level: int, refer_level: int, refer_scale: int, pixel_offset: bool = False,
    rois_num: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The boxes of each level, where to find each box again, and how many of each image lie at each level."""
    extra = 1.0 if pixel_offset else 0.0
    area = (fpn_rois[:, 2:] - fpn_rois[:, :2] + extra).prod(-1)
    level = (torch.log2(area.sqrt() / refer_scale + 1e-6) + refer_level).floor().clamp(min_level, max_level).long()
    members = [(level == one).nonzero().squeeze(1) for one in range(min_level, max_level + 1)]
    restore = torch.cat(members).argsort().to(torch.int32).unsqueeze(1)
    found = [fpn_rois[one] for one in members]
    if rois_num is None:
        return found, restore, None
    image = torch.repeat_interleave(torch.arange(len(rois_num)), rois_num.long())
    counts = [torch.bincount(image[one], minlength=len(rois_num)).to(torch.int32) for one in members]
    return found, restore, counts
