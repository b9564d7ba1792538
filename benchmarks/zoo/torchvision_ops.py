"""torchvision beside a torch build that its compiled operators were not made for.

Its wheel is built for a CUDA build of torch; beside the CPU build its library does not load, and importing it fails,
which takes down whoever imports it (timm, transformers). The operators are declared here instead, and those that its
detection models need are written in plain torch.
"""

from __future__ import annotations

import importlib.util
from typing import Any

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
)
_held: list[Any] = []


def prepare() -> None:
    """Declares the operators where torchvision is there and its own library cannot be loaded. Call it first."""
    import torch

    if _held or importlib.util.find_spec("torchvision") is None or _loads():
        return
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("nms", nms, "CompositeExplicitAutograd")
    _held.append(library)
    import torchvision.ops.boxes

    torchvision.ops.boxes._assert_has_ops = lambda: None


def _loads() -> bool:
    import torch

    found = importlib.util.find_spec("torchvision")
    assert found is not None and found.submodule_search_locations
    try:
        torch.ops.load_library(f"{next(iter(found.submodule_search_locations))}/_C.so")
    except OSError:
        return False
    return True


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """The boxes that no better box overlaps by more than the threshold, best first."""
    import torch

    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    least, most = torch.maximum(boxes[:, None, :2], boxes[:, :2]), torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    shared = (most - least).clamp(min=0).prod(dim=2)
    overlap = (shared / (areas[:, None] + areas - shared) > iou_threshold).tolist()
    kept: list[int] = []
    for index in range(len(overlap)):
        if not any(overlap[index][better] for better in kept):
            kept.append(index)
    return order[torch.tensor(kept, dtype=torch.long, device=order.device)]
