"""Where NaN and infinity are born: origin, kind, nature; and silence where they are meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueline.diagnose.overflow import overflow
from trueline.overflows import Nature, OverflowKind, OverflowReport

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import trueline  # noqa: E402

INFINITY = float("inf")


def diagnosed(folder: Path, program: Callable[[], Any], *, data: str = "tensors", **options: Any) -> OverflowReport:
    with trueline.capture(folder / "run", data=data) as capture:
        program()
        capture.step()
    return overflow(folder / "run", **options)


def leaf(*values: float, dtype: Any = None) -> Any:
    return torch.tensor(values, dtype=dtype or torch.float32).requires_grad_()


def log_of_zero() -> None:
    leaf(1.0, 0.0).log().sum().backward()


def zero_by_zero() -> None:
    x = leaf(0.0, 2.0)
    (x / x.detach()).sum().backward()


def negative_root() -> None:
    leaf(4.0, -1.0).sqrt().sum().backward()


def exponential() -> None:
    leaf(1.0, 100.0).exp().sum().backward()


def cast() -> None:
    leaf(1.0, 1e6).half().float().sum().backward()


def sum_in_half() -> None:
    leaf(40000.0, 40000.0, dtype=torch.float16).sum().backward()


def nothing_seen() -> None:
    leaf(1.0, 2.0).masked_fill(torch.tensor([True, True]), -INFINITY).softmax(0).sum().backward()


def zero_times_infinity() -> None:
    (leaf(1.0, 2.0) + torch.tensor([0.0, 1.0]) * -INFINITY).sum().backward()


def root_of_zero_backward() -> None:
    leaf(1.0, 0.0).sqrt().sum().backward()


def length_of_zero_backward() -> None:
    torch.hypot(leaf(3.0, 0.0), leaf(4.0, 0.0)).sum().backward()


SEEDED = [
    (log_of_zero, "torch.Tensor.log.0.forward", OverflowKind.DIVISION_BY_ZERO),
    (zero_by_zero, "torch.Tensor.div.0.forward", OverflowKind.ZERO_BY_ZERO),
    (negative_root, "torch.Tensor.sqrt.0.forward", OverflowKind.OUTSIDE_DOMAIN),
    (exponential, "torch.Tensor.exp.0.forward", OverflowKind.EXPONENTIAL),
    (cast, "torch.Tensor.half.0.forward", OverflowKind.CAST),
    (sum_in_half, "torch.Tensor.sum.0.forward", OverflowKind.ACCUMULATION),
    (nothing_seen, "torch.Tensor.softmax.0.forward", OverflowKind.INFINITY_MINUS_INFINITY),
    (zero_times_infinity, "torch.Tensor.mul.0.forward", OverflowKind.ZERO_TIMES_INFINITY),
    (root_of_zero_backward, "torch.Tensor.sqrt.0.backward", OverflowKind.DIVISION_BY_ZERO),
    (length_of_zero_backward, "torch.hypot.0.backward", OverflowKind.ZERO_BY_ZERO),
]


@pytest.mark.parametrize(("program", "name", "kind"), SEEDED, ids=[row[0].__name__ for row in SEEDED])
@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_the_origin_and_its_kind(
    tmp_path: Path, program: Callable[[], None], name: str, kind: OverflowKind, data: str
) -> None:
    origin = diagnosed(tmp_path, program, data=data).origin
    assert origin is not None
    assert (origin.call.name, origin.kind) == (name, kind)
    assert origin.nature is (Nature.EXPECTED if data == "tensors" else Nature.UNKNOWN)


def masked_attention() -> None:
    scores = torch.ones(3, 3, requires_grad=True)
    mask = torch.full((3, 3), -INFINITY).triu(1)
    ((scores + mask).softmax(-1) @ torch.ones(3, 2)).sum().backward()


def hidden_log() -> None:
    x = leaf(1.0, 0.0)
    torch.nan_to_num(x.detach().log(), neginf=0.0).mul(x).sum().backward()


def smallest_so_far() -> None:
    torch.minimum(torch.full((2,), INFINITY), leaf(1.0, 2.0)).sum().backward()


@pytest.mark.parametrize("program", [masked_attention, hidden_log, smallest_so_far])
def test_what_is_meant_is_no_alarm(tmp_path: Path, program: Callable[[], None]) -> None:
    report = diagnosed(tmp_path, program)
    assert report.births
    assert report.origin is None


def test_the_element_and_what_the_call_was_given_there(tmp_path: Path) -> None:
    origin = diagnosed(tmp_path, zero_by_zero).origin
    assert origin is not None
    assert origin.element == (0,)
    assert dict(origin.operands) == {"args.0": 0.0, "args.1": 0.0}


def test_the_way_to_the_loss(tmp_path: Path) -> None:
    origin = diagnosed(tmp_path, exponential).origin
    assert origin is not None
    assert origin.chain[:2] == ("torch.Tensor.exp.0.forward", "torch.Tensor.sum.0.forward")
    assert origin.advice


def test_a_scaler_that_skips_the_step_is_left_alone(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)

    def program() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = F.gelu(model(torch.ones(2, 4))).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    report = diagnosed(tmp_path, program)
    assert report.skipped
    assert report.origin is None


def test_a_loss_that_is_scaled_too_far_by_hand(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4).half()

    def program() -> None:
        loss = model(torch.ones(2, 4, dtype=torch.float16)).mean() * 8
        (loss * 2.0**15).backward()

    origin = diagnosed(tmp_path, program).origin
    assert origin is not None
    assert origin.kind is OverflowKind.GRADIENT_SCALED


def test_a_bad_parameter_and_a_bad_batch_are_told_apart(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight[0, 0] = float("nan")
    batch = torch.ones(1, 2)
    origin = diagnosed(tmp_path / "a", lambda: model(batch).sum().backward()).origin
    assert origin is not None
    assert (origin.kind, origin.nature) == (OverflowKind.PARAMETER, Nature.INHERITED)
    healthy, spoiled = torch.nn.Linear(2, 2), torch.full((1, 2), float("nan"))
    origin = diagnosed(tmp_path / "b", lambda: healthy(spoiled).sum().backward()).origin
    assert origin is not None
    assert (origin.kind, origin.nature) == (OverflowKind.INPUT, Nature.INHERITED)


def test_a_kernel_that_is_wrong_is_abnormal(tmp_path: Path) -> None:
    class Wrong(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if function is torch.ops.aten.exp.default:
                result.view(-1)[0] = INFINITY
            return result

    with Wrong(), trueline.capture(tmp_path / "run", data="tensors"):
        leaf(1.0, 2.0).exp().sum().backward()
    origin = overflow(tmp_path / "run").origin
    assert origin is not None
    assert origin.nature is Nature.ABNORMAL


def test_a_drifting_call_is_foretold(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run") as capture:
        for step in range(20):
            (torch.full((4,), 2.0**0.5) ** step).half().sum()
            capture.step()
    report = overflow(tmp_path / "run")
    assert report.origin is None
    foretold = [one for one in report.forecasts if one.dtype == "float16"]
    assert foretold
    assert 26 <= foretold[0].step <= 36  # half of it, two doublings before the sum


def test_steady_numbers_are_not_foretold(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    with trueline.capture(tmp_path / "run") as capture:
        for _ in range(20):
            torch.randn(64, generator=generator).half().exp().sum()
            capture.step()
    assert not overflow(tmp_path / "run").forecasts
