"""What a Wide is, what a run gives, and whether the gold finds float64 kernels that are wrong in the ninth digit."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from trueline.frameworks.torch.wide import NoWideGold, Wide, WideMode, narrow, run_wide, widen  # noqa: E402
from trueline.frameworks.torch.wide import random_names as wide_random  # noqa: E402
from trueline.frameworks.torch.wide import tensor as wide  # noqa: E402
from trueline.frameworks.torch.wide.table import ENTRIES  # noqa: E402


def draw(*shape: int, seed: int = 1) -> Any:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_a_wide_tensor_looks_like_float64() -> None:
    made = widen(torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert made.dtype is torch.float64 and made.shape == (2,) and made.array.dtype == np.longdouble
    assert widen(made) is made
    assert widen(torch.tensor([1j], dtype=torch.complex128)).array.dtype == np.clongdouble


def test_narrow_gives_all_of_the_number() -> None:
    third = widen(torch.ones(1, dtype=torch.float64)) / 3
    high, low = narrow(third)
    assert high[0] == 1 / 3 and low[0] != 0.0
    assert np.longdouble(high[0]) + np.longdouble(low[0]) == np.longdouble(1) / 3


def test_narrow_of_what_is_not_finite_and_of_what_overflows_float64() -> None:
    values = widen(torch.tensor([math.inf, -math.inf, math.nan, 1e308], dtype=torch.float64))
    high, low = narrow(values * 10)
    np.testing.assert_array_equal(high, [math.inf, -math.inf, math.nan, math.inf])
    np.testing.assert_array_equal(low, 0.0)


def test_narrow_of_an_ordinary_tensor_is_itself() -> None:
    high, low = narrow(torch.tensor([3, 4]))
    assert high.tolist() == [3, 4] and low.tolist() == [0, 0]


def test_python_numbers_are_what_float64_makes_of_them() -> None:
    x = torch.ones(1, dtype=torch.float64)
    (value,) = run_wide(lambda x: x * 0.1, (x,)).outputs.array
    assert value == np.longdouble(0.1) and value != np.longdouble("0.1")


def test_integers_and_masks_stay_ordinary() -> None:
    x = draw(3, 4)
    run = run_wide(lambda x, i: (x.argmax(1), x > 0, x[i]), (x, torch.tensor([0, 2])))
    position, mask, rows = run.outputs
    assert not isinstance(position, Wide) and position.dtype is torch.int64
    assert not isinstance(mask, Wide) and mask.dtype is torch.bool
    assert isinstance(rows, Wide)


def test_gradients_come_in_the_order_of_the_arguments() -> None:
    x, y = draw(3).requires_grad_(), draw(3, seed=2)
    run = run_wide(
        lambda x, n, *, y: x * y * n, (x, 2), {"y": y}, output_gradients=[torch.ones(3, dtype=torch.float64)]
    )
    assert len(run.gradients) == 3
    np.testing.assert_array_equal(narrow(run.gradients[0])[0], (2 * y).numpy())
    assert run.gradients[1] is None and run.gradients[2] is None


def test_outputs_without_a_gradient_get_none() -> None:
    x = draw(5).requires_grad_()
    run = run_wide(lambda x: torch.max(x, 0), (x,), output_gradients=[torch.tensor(1.0, dtype=torch.float64), None])
    assert narrow(run.gradients[0])[0].sum() == 1
    with pytest.raises(ValueError, match="gradients for"):
        run_wide(torch.sin, (x,), output_gradients=[])


def test_the_same_tensor_twice_is_one_argument() -> None:
    x = draw(3).requires_grad_()
    run = run_wide(lambda x, y: x * y, (x, x), output_gradients=[torch.ones(3, dtype=torch.float64)])
    np.testing.assert_array_equal(narrow(run.gradients[0])[0], 2 * x.detach().numpy())


def test_arguments_are_never_touched_but_changes_are_seen() -> None:
    x = draw(3)
    before = x.clone()
    run = run_wide(lambda x: x.mul_(3).add_(1), (x,))
    assert torch.equal(x, before)
    assert run.outputs is run.arguments[0][0]
    np.testing.assert_allclose(narrow(run.arguments[0][0])[0], (3 * before + 1).numpy(), rtol=1e-15)


def test_a_view_shares_its_memory() -> None:
    def change(x: Any) -> Any:
        y = x.clone()
        y[1:, 0].mul_(2)
        y.t()[1].zero_()
        y.view(-1)[5] = 7.0
        return y

    x = draw(3, 2).requires_grad_()
    g = draw(3, 2, seed=3)
    run = run_wide(change, (x,), output_gradients=[g])
    np.testing.assert_array_equal(narrow(run.outputs)[0], change(x).detach().numpy())
    (wanted,) = torch.autograd.grad(change(x), x, g)
    np.testing.assert_array_equal(narrow(run.gradients[0])[0], wanted.numpy())


def test_strides_and_offsets_are_those_of_the_memory() -> None:
    x = draw(4, 5)

    def look(x: Any) -> Any:
        view = x.clone()[1:, 2:].t()
        return view, view.as_strided((2, 2), (1, 5)), view.as_strided((2, 2), (1, 5), 3), view[1:].unfold(1, 2, 1)

    for wanted, found in zip(look(x), run_wide(look, (x,)).outputs, strict=True):
        assert wanted.stride() == found.stride() and wanted.storage_offset() == found.storage_offset()
        np.testing.assert_array_equal(narrow(found)[0], wanted.numpy())


def test_gradients_through_views_that_were_written_to() -> None:
    def change(x: Any) -> Any:
        y = x * 1
        y[1:].t()[2].mul_(0.3)
        y.diagonal().add_(x.select(1, 3), alpha=0.3)
        y.as_strided((2, 2), (1, 6), 7).sin_()
        y.unsqueeze(0).expand(1, 5, 6)[0, :2].neg_()
        return y

    x = draw(5, 6).requires_grad_()
    g = draw(5, 6, seed=3)
    run = run_wide(change, (x,), output_gradients=[g])
    (wanted,) = torch.autograd.grad(change(x), x, g)
    np.testing.assert_allclose(narrow(run.gradients[0])[0], wanted.numpy(), rtol=1e-13)


def test_what_is_no_view_has_its_own_memory() -> None:
    x = widen(draw(3))
    functions = (torch.clone, torch.relu, torch.sum, torch.cumsum, torch.softmax, torch.sort, torch.ones_like)
    for function, rest in zip(functions, ((), (), (0,), (0,), (0,), (0,), ()), strict=True):
        with WideMode():
            made = function(x, *rest)
        made = made[0] if isinstance(made, tuple) else made
        assert not np.may_share_memory(made.array, x.array)


def test_out_forms() -> None:
    x = draw(3)
    run = run_wide(lambda x, out: torch.add(x, 1, out=out), (x, torch.zeros(3, dtype=torch.float64)))
    np.testing.assert_array_equal(narrow(run.outputs)[0], (x + 1).numpy())
    assert run.outputs is run.arguments[0][1]
    with pytest.raises(NoWideGold, match="resizes"):
        run_wide(lambda x: torch.add(x, 1, out=torch.zeros(0, dtype=torch.float64)), (x,))


def test_tensors_made_inside_are_wide() -> None:
    def third(x: Any) -> Any:
        thirds = torch.zeros(3, dtype=x.dtype)
        thirds += torch.ones(3, dtype=x.dtype) / 3
        thirds[0] = x.sum()
        return torch.linspace(0, 1, 4, dtype=x.dtype)[1] - thirds[1]

    assert run_wide(third, (draw(3),)).outputs.array == 0


def test_whole_numbers_stay_whole_where_float64_is_the_default() -> None:
    """As in a gold, where a call that makes indices by itself must get integers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with WideMode():
            assert torch.arange(3).dtype is torch.full((2,), 1).dtype is torch.int64
            assert isinstance(torch.arange(0.0, 3.0), Wide) and isinstance(torch.full((2,), 0.5), Wide)
    finally:
        torch.set_default_dtype(before)


def test_torch_keeps_its_default_type() -> None:
    run = run_wide(lambda x: (x, torch.ones(2) / 3), (draw(3),))
    assert run.outputs[1].dtype is torch.float32 and not isinstance(run.outputs[1], Wide)


def test_random_numbers_are_those_of_float64() -> None:
    x = draw(50)
    for function in (F.dropout, torch.rand_like, lambda x: x.clone().normal_(), lambda x: torch.bernoulli(x.sigmoid())):
        torch.manual_seed(5)
        wanted = function(x)
        torch.manual_seed(5)
        np.testing.assert_allclose(narrow(run_wide(function, (x,)).outputs)[0], wanted.numpy(), rtol=1e-15)


def test_the_mask_of_dropout_is_shared_by_its_backward() -> None:
    x = draw(100).requires_grad_()
    run = run_wide(F.dropout, (x,), output_gradients=[torch.ones(100, dtype=torch.float64)])
    kept = narrow(run.outputs)[0] != 0
    np.testing.assert_array_equal(narrow(run.gradients[0])[0], np.where(kept, 2.0, 0.0))


def test_running_statistics_are_updated() -> None:
    x, mean, var = draw(8, 3), torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    run = run_wide(lambda x, m, v: F.batch_norm(x, m, v, training=True), (x, mean, var))
    F.batch_norm(x, mean, var, training=True)
    np.testing.assert_allclose(narrow(run.arguments[0][1])[0], mean.numpy(), rtol=1e-14)
    np.testing.assert_allclose(narrow(run.arguments[0][2])[0], var.numpy(), rtol=1e-14)


def test_a_module_runs_wide() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=torch.float64)
    x = draw(2, 5, 8).requires_grad_()
    parameters = dict(layer.named_parameters())
    g = draw(2, 5, 8, seed=2)

    def call(x: Any, parameters: dict[str, Any]) -> Any:
        return torch.func.functional_call(layer, parameters, (x,))

    run = run_wide(call, (x, parameters), output_gradients=[g])
    wanted = call(x, parameters)
    np.testing.assert_allclose(narrow(run.outputs)[0], wanted.detach().numpy(), rtol=1e-12, atol=1e-14)
    answers = torch.autograd.grad(wanted, [x, *parameters.values()], g)
    assert len(answers) == len(run.gradients)
    for one, other in zip(run.gradients, answers, strict=True):
        np.testing.assert_allclose(narrow(one)[0], other.numpy(), rtol=1e-10, atol=1e-14)


def test_an_operator_that_is_not_known_is_named() -> None:
    with pytest.raises(NoWideGold, match=r"aten\.segment_reduce") as caught:
        run_wide(lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 1])), (draw(3),))
    assert caught.value.operator == "aten.segment_reduce.default"
    assert "segment_reduce" not in ENTRIES and "segment_reduce" not in wide_random.RANDOM


def test_writing_into_a_tensor_that_is_not_wide_is_refused() -> None:
    ordinary = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(NoWideGold, match="not wide"):
        run_wide(lambda x: ordinary.copy_(x), (draw(3),))


def test_a_machine_without_a_wider_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wide._require_a_wider_type.cache_clear()
    monkeypatch.setattr(wide.np, "longdouble", np.float64)
    with pytest.raises(NoWideGold, match="no wider"):
        widen(draw(3))


def test_double_backward() -> None:
    def slope(x: Any) -> Any:
        (first,) = torch.autograd.grad(F.gelu(x).sum() + (x.tanh() ** 3).sum(), x, create_graph=True)
        return first

    x = draw(6).requires_grad_()
    g = draw(6, seed=2)
    run = run_wide(slope, (x,), output_gradients=[g])
    (wanted,) = torch.autograd.grad(slope(x), x, g)
    np.testing.assert_allclose(narrow(run.gradients[0])[0], wanted.numpy(), rtol=1e-12)


def test_the_compiler_of_torch_is_not_imported() -> None:
    code = "import torch, sys; from trueline.frameworks.torch.wide import run_wide\n"
    code += "run_wide(torch.sin, (torch.ones(3, dtype=torch.float64),)); print('torch._dynamo' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert answer.stdout.strip() == "False"


# Float64 kernels that are wrong where only a wider reference can see it.

THIRTY_TWO = float(np.float32(1 / math.sqrt(2)))
Planted = tuple[Callable[..., Any], Callable[..., Any]]


def rough_mean(x: Any) -> Any:
    return x.sum() * float(np.float32(1 / x.numel()))


def rough_layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True).float() + 1e-5).rsqrt().double()


PLANTED: dict[str, Planted] = {
    "gelu with a float32 constant": (F.gelu, lambda x: x * 0.5 * (1 + torch.erf(x * THIRTY_TWO))),
    "gelu by its tanh": (F.gelu, lambda x: F.gelu(x, approximate="tanh")),
    "silu through float32": (F.silu, lambda x: x * torch.sigmoid(x.float()).double()),
    "mean with a float32 reciprocal": (lambda x: x[:3].mean(), lambda x: rough_mean(x[:3])),
    "softmax through float32": (lambda x: x.softmax(-1), lambda x: x.float().softmax(-1).double()),
    "layer norm with a float32 rsqrt": (lambda x: F.layer_norm(x, (16,)), rough_layer_norm),
    "log2 with a float32 constant": (
        lambda x: x.abs().log2(),
        lambda x: x.abs().log() * float(np.float32(1 / math.log(2))),
    ),
    "product with one rounded operand": (lambda x: x @ x.T, lambda x: x.float().double() @ x.T),
    "deg2rad with 3.1415926": (torch.deg2rad, lambda x: x * (3.1415926 / 180)),
    "a sum that drops its last": (lambda x: x.sum(-1), lambda x: x[:, :-1].sum(-1) + x[:, -1] * (1 - 1e-12)),
}
MANY_ULPS = 64


def ulps(function: Callable[..., Any], gold: Callable[..., Any], x: Any) -> float:
    """How far a float64 function is from the gold, in units of the last place of the largest result."""
    high, low = narrow(run_wide(gold, (x,)).outputs)
    off = np.abs((function(x).numpy() - high) - low)
    return float(off.max() / np.spacing(np.abs(high).max()))


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_the_honest_kernel_is_not(name: str) -> None:
    honest, planted = PLANTED[name]
    x = draw(4, 16)
    assert ulps(honest, honest, x) < 4
    assert ulps(planted, honest, x) > MANY_ULPS


def test_torch_divides_by_six_in_float32() -> None:
    """Not planted: the gradient of hardsigmoid in float64. Float64 against itself cannot see it."""
    x = draw(9).clamp(-2.5, 2.5).requires_grad_()
    g = torch.ones(9, dtype=torch.float64)
    run = run_wide(F.hardsigmoid, (x,), output_gradients=[g])
    np.testing.assert_array_equal(narrow(run.gradients[0])[0], 1 / 6)
