"""Alarms on honest implementations that are right: the implementation is wrong, and plain torch shows it.

Each row has a proof that is executed whenever the tables are made. Where it no longer holds, the row counts for nothing
and the alarm is a false one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.power import honest


@dataclass(frozen=True)
class Defect:
    """``proof`` gives the evidence as a sentence, or nothing where there is none."""

    implementation: str
    operator: str
    what: str
    proof: Callable[[], str]


def _strided_gain() -> str:
    generator = torch.Generator().manual_seed(0)
    value, gain = torch.randn(2, 4, 3, generator=generator), torch.randn(4, generator=generator)
    strided = torch.stack([gain, gain.flip(0)], -1)[..., 0]
    assert torch.equal(gain, strided)
    plain = torch.native_group_norm(value, gain, torch.zeros(4), 2, 4, 3, 2, 1e-5)[0]
    other = torch.native_group_norm(value, strided, torch.zeros(4), 2, 4, 3, 2, 1e-5)[0]
    off = float((plain - other).abs().max())
    return f"equal weights with stride 2 change the result by {off:.2f}" if off > 0.1 else ""


def _margin_gradient() -> str:
    wide = torch.tensor([14.0], dtype=torch.float64, requires_grad=True)
    target = torch.ones(1, dtype=torch.float64)
    (right,) = torch.autograd.grad(torch.nn.functional.soft_margin_loss(wide, target), wide)
    value = wide.detach().float().requires_grad_()
    (kernel,) = torch.autograd.grad(torch.nn.functional.soft_margin_loss(value, target.float()), value)
    (rule,) = torch.autograd.grad(honest.decomposed.torch.nn.functional.soft_margin_loss(value, target.float()), value)
    off, usual = (abs(float(one) / float(right) - 1) for one in (rule, kernel))
    if off < 1e-3 or usual > 1e-5:
        return ""
    return f"the gradient at 14 is off by {off:.1%} with the rule, by {usual:.0e} with torch's kernel"


DEFECTS = (
    Defect("relaid", "native_group_norm", "weight and bias are read as if they were contiguous", _strided_gain),
    Defect(
        "decomposed",
        "nn.functional.soft_margin_loss",
        "the rule of its backward computes sigmoid(x) - 1, which cancels",
        _margin_gradient,
    ),
)


def shown() -> dict[tuple[str, str], str]:
    """What is wrong with which implementation of which operator, and the evidence, where it holds."""
    found = {}
    for defect in DEFECTS:
        if evidence := defect.proof():
            found[defect.implementation, defect.operator] = f"{defect.what}: {evidence}"
    return found
