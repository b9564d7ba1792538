"""Convolutions, pooling, resampling and folding."""

from __future__ import annotations

from typing import Any

from trueline.ops.catalogue.language import I, Row, T, forward, op

_F = "torch.nn.functional."

_SIZES: dict[int, tuple[int, ...]] = {1: (19,), 2: (11, 9), 3: (6, 5, 7)}


def _convolutions(rank: int) -> list[Row]:
    size, ones = _SIZES[rank], (3,) * rank
    rows: list[Row] = []
    for api in (f"{_F}conv{rank}d", f"torch.conv{rank}d"):
        rows += [
            op(api, T(2, 4, *size), T(6, 4, *ones), T(6)),
            op(api, T(2, 4, *size), T(6, 4, *ones), T(6), 2, 1),
            op(api, T(2, 4, *size), T(6, 4, *ones), stride=1, padding=2, dilation=2),
            op(api, T(2, 4, *size), T(8, 1, *ones), T(8), padding=1, groups=4),
            op(api, T(2, 4, *size), T(6, 2, *ones), groups=2),
            op(api, T(2, 4, *size), T(6, 4, *(1,) * rank), T(6)),
            op(api, T(4, *size), T(6, 4, *ones), T(6)),
            op(api, T(2, 4, *size), T(5, 4, *ones), T(5), padding="same"),
            op(api, T(2, 4, *size), T(5, 4, *ones), padding="valid"),
            op(api, T(1, 64, *size), T(4, 64, *ones)),
        ]
    if rank > 1:
        rows.append(op(f"{_F}conv{rank}d", T(2, 4, *size, layout="channels_last"), T(6, 4, *ones), T(6), padding=1))
        rows.append(
            op(f"{_F}conv{rank}d", T(2, 4, *size), T(6, 4, *range(1, rank + 1)), stride=tuple(range(1, rank + 1)))
        )
    for api in (f"{_F}conv_transpose{rank}d", f"torch.conv_transpose{rank}d"):
        rows += [
            op(api, T(2, 4, *size), T(4, 6, *ones), T(6)),
            op(api, T(2, 4, *size), T(4, 6, *ones), stride=2, padding=1, output_padding=1),
            op(api, T(2, 4, *size), T(4, 3, *ones), T(6), groups=2, dilation=2),
        ]
    return rows


def _pooling(rank: int) -> list[Row]:
    size = _SIZES[rank]
    rows: list[Row] = []
    for api in (f"{_F}max_pool{rank}d", f"torch.max_pool{rank}d"):
        rows += [
            op(api, T(2, 3, *size), 3),
            op(api, T(2, 3, *size), 3, 2, 1),
            op(api, T(2, 3, *size), 2, stride=1, dilation=2),
            op(api, T(2, 3, *size), 3, stride=2, ceil_mode=True),
            op(api, T(2, 3, *size, of="normal ties(4)"), 3, stride=2),
            op(api, T(2, 3, *size, of="normal nan(0.02)"), 3),
            op(api, T(3, *size), 2),
        ]
    indices = f"{_F}max_pool{rank}d"
    rows += [op(indices, T(2, 3, *size, of=of), 2, return_indices=True) for of in ("normal", "normal ties(4)")]
    rows += [
        op(f"{_F}max_pool{rank}d_with_indices", T(2, 3, *size, of=of), 3, 2, 1) for of in ("normal", "normal ties(4)")
    ]
    rows.append(op(f"{_F}adaptive_max_pool{rank}d_with_indices", T(2, 3, *size, of="normal ties(9)"), 3))
    # torch has avg_pool1d at the top only; the functional ones are the same functions under their documented names
    for api in (f"{_F}avg_pool{rank}d",) + (("torch.avg_pool1d",) if rank == 1 else ()):
        rows += [
            op(api, T(2, 3, *size), 3),
            op(api, T(2, 3, *size), 3, 2, 1),
            op(api, T(2, 3, *size), 3, stride=2, padding=1, ceil_mode=True),
            op(api, T(2, 3, *size), 3, stride=2, padding=1, count_include_pad=False),
            op(api, T(3, *size), 2),
        ]
    if rank > 1:
        rows.append(op(f"{_F}avg_pool{rank}d", T(2, 3, *size), 3, divisor_override=5))
        rows.append(op(f"{_F}avg_pool{rank}d", T(2, 3, *size, layout="channels_last"), 2))
        rows.append(op(f"{_F}max_pool{rank}d", T(2, 3, *size, layout="channels_last"), 2))
    for api in (f"{_F}adaptive_avg_pool{rank}d", f"{_F}adaptive_max_pool{rank}d"):
        rows += [op(api, T(2, 3, *size), 1), op(api, T(2, 3, *size), (3,) * rank), op(api, T(3, *size), 4)]
    for api in (f"{_F}lp_pool{rank}d",):
        rows += [op(api, T(2, 3, *size, of="positive"), norm, 2) for norm in (1.0, 2.0, 3.0)]
        rows.append(op(api, T(2, 3, *size, of="positive"), 2.0, 3, stride=2, ceil_mode=True))
    pooled = tuple(length // 2 for length in size)
    count = 1
    for length in pooled:
        count *= length * 2
    index = I(2, 3, *pooled, of=f"plane_distinct({count}, {rank})")
    rows.append(op(f"{_F}max_unpool{rank}d", T(2, 3, *pooled), index, 2))
    return rows


def _resampling() -> list[Row]:
    api = _F + "interpolate"
    modes: dict[int, tuple[str, ...]] = {
        1: ("nearest", "linear", "area", "nearest-exact"),
        2: ("nearest", "bilinear", "bicubic", "area", "nearest-exact"),
        3: ("nearest", "trilinear", "area"),
    }
    rows: list[Row] = []
    for rank, names in modes.items():
        for mode in names:
            aligned: list[dict[str, Any]] = [{}]
            if mode.endswith("linear") or mode == "bicubic":
                aligned = [{"align_corners": False}, {"align_corners": True}]
            for more in aligned:
                rows.append(op(api, T(2, 3, *_SIZES[rank]), size=(8,) * rank, mode=mode, **more))
                rows.append(op(api, T(1, 2, *_SIZES[rank]), scale_factor=1.7, mode=mode, **more))
    rows.append(op(api, T(2, 3, 17, 13), size=(6, 5), mode="bilinear", antialias=True))
    rows.append(op(api, T(2, 3, 17, 13), size=(6, 5), mode="bicubic", antialias=True))
    rows += [op(_F + "upsample", T(2, 3, 5, 4), scale_factor=2, mode="nearest")]
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            grid = T(2, 6, 5, 2, of="uniform(-1.2, 1.2)")
            rows.append(op(_F + "grid_sample", T(2, 3, 9, 8), grid, mode, padding, align_corners=False))
    rows.append(op(_F + "grid_sample", T(2, 3, 9, 8), T(2, 6, 5, 2, of="uniform(-1, 1)"), align_corners=True))
    rows.append(op(_F + "grid_sample", T(1, 2, 4, 5, 6), T(1, 3, 3, 3, 3, of="uniform(-1, 1)"), align_corners=False))
    rows.append(op(_F + "affine_grid", T(2, 2, 3), [2, 3, 6, 5], align_corners=False))
    rows.append(op(_F + "affine_grid", T(2, 3, 4), [2, 3, 4, 5, 6], align_corners=True))
    return rows


_FOLDING: list[Row] = [
    op(_F + "unfold", T(2, 3, 9, 8), 3),
    op(_F + "unfold", T(2, 3, 9, 8), (2, 3), dilation=2, padding=1, stride=2),
    op(_F + "fold", T(2, 27, 42), (8, 9), 3),
    op(_F + "fold", T(2, 12, 16), (8, 8), 2, stride=2),
    op(_F + "pixel_shuffle", T(2, 12, 5, 4), 2),
    op(_F + "pixel_unshuffle", T(2, 3, 6, 4), 2),
    op("torch.pixel_shuffle", T(2, 18, 3, 4), 3),
    op("torch.pixel_unshuffle", T(2, 3, 6, 9), 3),
    op(_F + "channel_shuffle", T(2, 12, 3, 4), 3),
    op("torch.channel_shuffle", T(2, 8, 3, 4), 2),
    op("torch.conv_tbc", T(9, 2, 4), T(3, 4, 5), T(5), 1),
    *[
        op(_F + "pad", T(2, 3, 9, 8), [1, 2, 2, 1], mode=mode)
        for mode in ("constant", "reflect", "replicate", "circular")
    ],
    op(_F + "pad", T(2, 3, 9), [2, 1], mode="reflect"),
    op(_F + "pad", T(2, 3, 4, 5, 6), [1, 1, 1, 1, 1, 1], mode="replicate"),
    op(_F + "pad", T(6, 11), [-1, 2], value=3.0),
    op(_F + "pad", T(2, 3, 5), [1, 1, 0, 2, 1, 0], mode="constant", value=-1.0),
    op("torch.constant_pad_nd", T(6, 11), [1, 2, 0, 3], 0.5),
    forward(_F + "fractional_max_pool2d", T(2, 3, 12, 12), 2, output_size=5),
    forward(_F + "fractional_max_pool2d_with_indices", T(2, 3, 12, 12), 2, output_size=5),
    forward(_F + "fractional_max_pool3d_with_indices", T(1, 2, 8, 8, 8), 2, output_size=4),
    op("torch.grid_sampler", T(2, 3, 9, 8), T(2, 6, 5, 2, of="uniform(-1, 1)"), 0, 0, False),
    forward(_F + "fractional_max_pool3d", T(1, 2, 8, 8, 8), 2, output_ratio=(0.5, 0.5, 0.5)),
]

ROWS: list[Row] = [
    *[row for rank in (1, 2, 3) for row in _convolutions(rank)],
    *[row for rank in (1, 2, 3) for row in _pooling(rank)],
    *_resampling(),
    *_FOLDING,
]
