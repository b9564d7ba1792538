"""Small torch programs written in two ways, from tensors and from statistics: what is the same must not fail, and what
is not must be told where it is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trueline
from trueline.diagnose import Comparison
from trueline.records import Verdict

torch = pytest.importorskip("torch")
F = torch.nn.functional
Forward = Callable[[Any, Any], Any]
BOTH = pytest.mark.parametrize("data", ["tensors", "stats"])


class Model(torch.nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 6)
        self.scale = torch.nn.Parameter(torch.rand(8))
        self.register_buffer("average", torch.zeros(8))
        self.ways = forward

    def forward(self, x: Any) -> Any:
        return self.ways(self, x)


def trained(
    path: Path, forward: Forward, data: str, *, autocast: bool, seed: int = 0, dtype: Any = torch.float32
) -> Path:
    model = Model(forward).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with trueline.capture(path, data=data):
        for step in range(2):
            x = torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(seed + step)).to(dtype)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
    return path


def compared(
    tmp_path: Path,
    data: str,
    reference: Forward,
    candidate: Forward,
    *,
    autocast: bool = False,
    dtype: Any = torch.float32,
) -> Comparison:
    runs = [
        trained(tmp_path / name, forward, data, autocast=autocast, dtype=dtype)
        for name, forward in (("a", reference), ("b", candidate))
    ]
    return trueline.compare(*runs)


def plain(model: Any, x: Any) -> Any:
    x = F.gelu(model.first(x))
    return model.second(x)


@BOTH
@pytest.mark.parametrize("lower", ["bfloat16", "float16", "float8_e4m3fn"])
def test_a_cast_through_a_lower_precision_is_told_where_it_is_made(tmp_path: Path, data: str, lower: str) -> None:
    def narrowed(model: Any, x: Any) -> Any:
        x = F.gelu(model.first(x))
        x = x.to(getattr(torch, lower)).to(x.dtype)
        return model.second(x)

    with compared(tmp_path, data, plain, narrowed) as report:
        origin = report.origin
        assert report.verdict is Verdict.FAIL and origin is not None
        assert origin.kind == "precision"
        assert f"works in {lower} where the reference works in float32" in origin.headline
        assert {call.api for call in origin.candidate_calls} == {"torch.Tensor.to"} and not origin.reference_calls
        assert origin.comparison.call.phase.value == "forward"


@BOTH
def test_a_cast_whose_rounding_cancels_is_a_note(tmp_path: Path, data: str) -> None:
    def cancelled(model: Any, x: Any, lower: Any) -> Any:
        x = model.first(x)
        y = torch.relu(x).to(lower).to(x.dtype)
        return model.second((y - x) - y)

    def narrowed(model: Any, x: Any) -> Any:
        return cancelled(model, x, torch.float16)

    with compared(tmp_path, data, lambda model, x: cancelled(model, x, torch.float32), narrowed) as report:
        assert report.verdict <= Verdict.WARN
        assert any("works in float16" in note and "give away agrees" in note for note in report.notes)


@BOTH
def test_autocast_rounds_what_is_given_away_in_float32(tmp_path: Path, data: str) -> None:
    def multiplied(model: Any, x: Any) -> Any:
        x = F.gelu(torch.matmul(x, model.first.weight.t()).add(model.first.bias))
        return torch.matmul(x, model.second.weight.transpose(0, 1)).add(model.second.bias)

    with compared(tmp_path, data, plain, multiplied, autocast=True) as report:
        assert report.verdict <= Verdict.WARN


@BOTH
def test_two_calls_of_one_name_on_tensors_of_other_sizes_say_nothing_of_precision(tmp_path: Path, data: str) -> None:
    def joined(model: Any, x: Any) -> Any:
        y = torch.cat([model.first(x), x], -1)
        return y.sum(-1, keepdim=True) * model.scale

    def split(model: Any, x: Any) -> Any:
        above, below = (part.chunk(2, 0) for part in (model.first.weight, model.first.bias))
        y = torch.cat([F.linear(x, weight, bias) for weight, bias in zip(above, below, strict=True)], -1)
        return torch.cat([y, x], -1).sum(-1, keepdim=True) * model.scale

    with compared(tmp_path, data, joined, split, autocast=True) as report:
        assert report.verdict <= Verdict.WARN


@BOTH
def test_what_cancels_in_one_call_is_no_difference(tmp_path: Path, data: str) -> None:
    def kept(model: Any, y: Any) -> Any:
        y = y - y.mean((0, 1))
        with torch.no_grad():
            model.average.mul_(0.9).add_(y.mean((0, 1)), alpha=0.1)  # zero, but for rounding
        return model.second(y)

    def once(model: Any, x: Any) -> Any:
        return kept(model, model.first(x))

    def otherwise(model: Any, x: Any) -> Any:
        halves = zip(x.chunk(2, -1), model.first.weight.chunk(2, 1), strict=True)
        return kept(model, sum(F.linear(part, weight) for part, weight in halves) + model.first.bias)

    with compared(tmp_path, data, once, otherwise) as report:
        assert max(one.distance or 0.0 for one in report.observables if one.kind == "buffer") > 0.02
        assert report.verdict <= Verdict.WARN


def test_what_never_agrees_again_is_told_however_near_it_comes(tmp_path: Path) -> None:
    """Normalising twice the value is the same, but for the epsilon."""

    def normalised(model: Any, x: Any, factor: float) -> Any:
        y = model.first(x)
        return model.second(torch.sigmoid(F.layer_norm(y * factor, (8,), model.scale)))

    with compared(
        tmp_path,
        "tensors",
        lambda model, x: normalised(model, x, 2.0),
        lambda model, x: model.second(torch.sigmoid(F.layer_norm(model.first(x), (8,), model.scale))),
    ) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None
        assert report.origin.confirmed or "mul" in report.origin.headline or report.origin.kind == "argument"


@BOTH
def test_the_gradient_of_a_cast_is_no_rounding_where_it_is_replayed(tmp_path: Path, data: str) -> None:
    def written_out(model: Any, x: Any) -> Any:
        y = model.first(x)
        for _ in range(3):
            weights = F.softmax(y @ y.mT * 2.0, dim=-1, dtype=torch.float32).to(y.dtype)
            y = y + weights @ y
        return model.second(y)

    def fused(model: Any, x: Any) -> Any:
        y = model.first(x)
        for _ in range(3):
            y = y + F.scaled_dot_product_attention(y, y, y, scale=2.0)
        return model.second(y)

    with compared(tmp_path, data, written_out, fused, dtype=torch.bfloat16) as report:
        assert report.verdict <= Verdict.WARN, report.origin and report.origin.explanation


def test_a_copy_in_place_is_what_was_copied_where_it_is_replayed(tmp_path: Path) -> None:
    def copied(model: Any, x: Any) -> Any:
        y = model.first(x)
        kept = torch.zeros_like(y)
        return model.second(kept.copy_(y) * 1.5)

    def plain(model: Any, x: Any) -> Any:
        return model.second(model.first(x) * 1.5)

    with compared(tmp_path, "tensors", plain, copied) as report:
        assert report.verdict <= Verdict.WARN, report.origin and report.origin.explanation


@BOTH
def test_what_goes_in_one_direction_is_no_rounding(tmp_path: Path, data: str) -> None:
    def capped(model: Any, x: Any) -> Any:
        return 4.0 * torch.tanh(model.second(model.first(x)) / 4.0)

    def uncapped(model: Any, x: Any) -> Any:
        return model.second(model.first(x)) * 1.0

    def larger(forward: Forward) -> Forward:
        return lambda model, x: forward(model, x.repeat(8, 4, 1) * 2.0)

    with compared(tmp_path, data, larger(capped), larger(uncapped), dtype=torch.bfloat16) as report:
        assert max(one.distance or 0.0 for one in report.observables if one.kind == "loss") < 0.1
        assert report.verdict is Verdict.FAIL and report.origin is not None
        apis = {call.api.rpartition(".")[2].strip("_") for call in report.origin.reference_calls}
        assert "tanh" in apis, report.origin.explanation
