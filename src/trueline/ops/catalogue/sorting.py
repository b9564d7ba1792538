"""Sorting, searching and sets, with and without equal values."""

from __future__ import annotations

from trueline.ops.catalogue.language import I, Row, T, forward, op

ROWS: list[Row] = [
    *[
        row
        for api in ("torch.sort", "torch.Tensor.sort")
        for row in (
            op(api, T(6, 41)),
            op(api, T(41, 6), 0, True),
            op(api, T(6, 41, of="normal ties(5)"), dim=1),
            op(api, T(6, 41, of="normal ties(5)"), dim=1, stable=True),
            op(api, T(6, 41, of="normal nan(0.1) inf(0.1)"), dim=1),
            op(api, T(12, 10, layout="turned"), dim=-1),
            op(api, I(6, 41, of="index(10)"), dim=1),
            op(api, T()),
            op(api, T(0, 4)),
            op(api, T(2, 3000), descending=True),
        )
    ],
    *[
        row
        for api in ("torch.argsort", "torch.Tensor.argsort")
        for row in (
            forward(api, T(6, 41)),
            forward(api, T(6, 41, of="normal ties(5)"), 1, True),
            forward(api, T(6, 41, of="normal ties(5)"), dim=0, stable=True),
        )
    ],
    op("torch.msort", T(41, 6)),
    op("torch.msort", T(41, 6, of="normal ties(4)")),
    *[
        row
        for api in ("torch.topk", "torch.Tensor.topk")
        for row in (
            op(api, T(6, 41), 5),
            op(api, T(41, 6), 3, 0, False),
            op(api, T(6, 41, of="normal ties(5)"), 7, dim=1),
            op(api, T(6, 41), 7, sorted=False),
            op(api, T(6, 41, of="normal nan(0.1)"), 5),
            op(api, T(4, 3000), 50),
            op(api, T(6, 4), 0),
            op(api, T(6, 4), 4, largest=False),
            op(api, I(6, 41, of="index(10)"), 5),
        )
    ],
    *[forward("torch.searchsorted", T(3, 20, of="sorted"), T(3, 9), right=right) for right in (False, True)],
    forward("torch.searchsorted", T(20, of="sorted ties(20)"), T(6, 9), out_int32=True),
    forward("torch.bucketize", T(6, 11), T(9, of="sorted")),
    forward("torch.bucketize", T(6, 11, of="halves"), T(9, of="sorted"), right=True),
    forward("torch.unique", T(60, of="normal ties(7)")),
    forward("torch.unique", I(6, 30, of="index(9)"), return_inverse=True, return_counts=True),
    forward("torch.unique", T(60, of="normal ties(7)"), sorted=False, return_inverse=True),
    forward("torch.unique", I(20, 2, of="index(3)"), dim=0, return_counts=True),
    forward("torch.unique_consecutive", I(60, of="index(3)"), return_inverse=True, return_counts=True),
    forward("torch.unique_consecutive", T(60, of="halves")),
]
