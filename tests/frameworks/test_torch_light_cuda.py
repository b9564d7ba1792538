"""The light watch on a GPU: what it costs in memory, and that a step that is computed again shows where it broke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

from trueline.diagnose.watching import watch  # noqa: E402
from trueline.overflows import EventKind  # noqa: E402


class Block(torch.nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.inner, self.outer = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        hidden = torch.nn.functional.gelu(self.inner(self.norm(x)))
        return x + torch.nn.functional.dropout(self.outer(hidden), 0.1)


class Model(torch.nn.Module):
    def __init__(self, width: int = 512, layers: int = 12) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.breaks = False

    def forward(self, x: Any) -> Any:
        for number, block in enumerate(self.blocks):
            x = block(x)
            if self.breaks and number == 5:
                x = x + torch.exp(x.abs() * 1000.0)
        return x.float().square().mean()


def new_model() -> Any:
    torch.manual_seed(0)
    return Model().cuda()


def trained(model: Any, steps: int, watching: Any = None, breaks_at: int = -1) -> list[float]:
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    losses = []
    for step in range(steps):
        batch = torch.randn(16, 256, 512, device="cuda")
        model.breaks = step == breaks_at
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if watching is not None:
            watching.step()
    return losses


def test_memory_stays_what_it_is(tmp_path: Path) -> None:
    peaks, ends = [], []
    for watched in (False, True):
        model = new_model()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        if watched:
            with watch(tmp_path / "run") as watching:
                losses = trained(model, 6, watching)
            assert watching.counts["overflows"] == 0
        else:
            losses = trained(model, 6)
        peaks.append(torch.cuda.max_memory_allocated())
        ends.append((losses, [one.detach().cpu() for one in model.parameters()], torch.randn(3, device="cuda").cpu()))
        del model
    assert peaks[1] <= 1.10 * peaks[0], [peak >> 20 for peak in peaks]
    assert ends[0][0] == ends[1][0]
    assert all(torch.equal(left, right) for left, right in zip(ends[0][1], ends[1][1], strict=True))
    assert torch.equal(ends[0][2], ends[1][2])


def test_a_step_that_breaks_is_computed_again(tmp_path: Path) -> None:
    model = new_model()
    with watch(tmp_path / "run", budget=1.0) as watching:
        trained(model, 5, watching, breaks_at=3)
    event = next(one for one in watching.events if one.kind is EventKind.OVERFLOW)
    assert (event.step, event.call) == (3, "torch.exp.0.forward"), event
    assert "the step was computed again and gave the same loss" in event.message
