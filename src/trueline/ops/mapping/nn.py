"""The short form of rows of ``paddle.nn.functional``."""

from __future__ import annotations

from typing import Any

from trueline.ops.mapping.rows import Row, row

FLOAT32_INSIDE = "Paddle keeps this attribute in float32, so that results in float64 are right to seven digits only"
CUT_AT_64 = "On the CPU Paddle takes every score that is more than 64 below the largest for one that is 64 below it"
NAN_LOST = "Paddle's maximum of NaN and a number is the number, so that a NaN is hidden"
FLOAT32_ROOT = "Paddle keeps the exponent 1/p in float32, so that results in float64 are right to seven digits only"
FLOAT32_SHARE = "Paddle's backward divides in float32, so that gradients in float64 are right to seven digits only"


def nn_row(name: str, torch: str, names: str, *examples: str, **rest: Any) -> Row:
    """``row`` of a function of ``paddle.nn.functional``; torch's name without dots is one of its
    ``torch.nn.functional``. Every one of Paddle's takes a ``name``."""
    other = torch if "." in torch else f"torch.nn.functional.{torch}"
    return row(f"paddle.nn.functional.{name}", other, f"{names} name-", *examples, **rest)
