"""Every entry of the table of wide operators against float64 torch: forward and, by autograd, backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from tests.frameworks.wide_cases import cases  # noqa: E402
from trueline.frameworks.torch.execute_wide import wide_arithmetic  # noqa: E402
from trueline.frameworks.torch.wide import Wide, narrow, run_wide  # noqa: E402
from trueline.frameworks.torch.wide import tensor as wide  # noqa: E402
from trueline.frameworks.torch.wide.table import ENTRIES  # noqa: E402

CASES = cases()
pytestmark = pytest.mark.filterwarnings("ignore")  # torch would rather that some of these were not used
TORCH_IS_WRONG = {
    "bessel_j0": 1e-7,
    "bessel_j1": 1e-7,
    "bessel_y0": 1e-7,
    "bessel_y1": 1e-7,
    "airy_ai": 1e-8,
    "digamma": 1e-8,  # its gradient
    "polygamma 0": 1e-8,  # its gradient
    "hardsigmoid": 1e-7,  # its gradient divides by six in float32
}
"""Where torch's own float64 is off by more than float64 can excuse; mpmath agrees with us (test_torch_wide_special)."""
REACHED: set[str] = set()


@pytest.fixture(autouse=True, scope="module")
def _record() -> Iterator[None]:
    """Notes which entries the cases reach."""

    def noting(name: str, entry: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            REACHED.add(name)
            return entry(*args, **kwargs)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for name, entry in list(ENTRIES.items()):
            patch.setitem(ENTRIES, name, noting(name, entry))
        wide._plan.cache_clear()
        yield
    wide._plan.cache_clear()


def fresh(args: Any) -> Any:
    return tree_map(
        lambda one: one.detach().clone().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one,
        args,
    )


def is_double(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)


def assert_near(name: str, wanted: Any, found: Any) -> None:
    if not isinstance(wanted, torch.Tensor):
        assert wanted == found
        return
    assert wanted.dtype == found.dtype and wanted.shape == found.shape
    if is_double(wanted):
        assert isinstance(found, Wide), "lost its width on the way"
    plain, (high, low) = narrow(wanted)[0], narrow(found)
    if wanted.dtype in (torch.float64, torch.complex128):
        scale = np.max(np.abs(plain[np.isfinite(plain)]), initial=0)
        tolerance = TORCH_IS_WRONG.get(name, 1e-12)
        np.testing.assert_allclose(high, plain, rtol=tolerance, atol=tolerance * scale + 1e-15)
        assert (np.abs(low) <= np.spacing(np.abs(high)) * 1.5).all()
    else:
        np.testing.assert_array_equal(high, plain)


@pytest.mark.parametrize(("name", "function", "args"), CASES, ids=[name for name, _, _ in CASES])
def test_agrees_with_float64(name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    ours = fresh(args)
    torch.manual_seed(3)
    outputs = tree_leaves(function(*ours))
    torch.manual_seed(4)
    gradients = [torch.randn_like(one) if is_double(one) and one.requires_grad else None for one in outputs]
    torch.manual_seed(3)
    run = run_wide(function, fresh(args), {}, output_gradients=gradients)
    found = tree_leaves(run.outputs)
    assert len(found) == len(outputs)
    for one, other in zip(outputs, found, strict=True):
        assert_near(name, one, other)
    leaves = tree_leaves(ours)
    wanted = [one for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]
    ends = [(one, gradient) for one, gradient in zip(outputs, gradients, strict=True) if gradient is not None]
    if not wanted or not ends:
        return
    answers = torch.autograd.grad([one for one, _ in ends], wanted, [one for _, one in ends], allow_unused=True)
    places = [place for place, one in enumerate(leaves) if isinstance(one, torch.Tensor) and one.requires_grad]
    for place, answer in zip(places, answers, strict=True):
        if answer is None:
            assert run.gradients[place] is None
        else:
            assert_near(name, answer, run.gradients[place])


@pytest.mark.parametrize(
    "function",
    [
        torch.gcd,
        torch.lcm,
        torch.bitwise_and,
        torch.bitwise_or,
        torch.bitwise_xor,
        torch.bitwise_left_shift,
        torch.bitwise_right_shift,
        torch.Tensor.__lshift__,
        torch.Tensor.__rshift__,
        lambda one, other: torch.bitwise_not(one) + other,
    ],
)
def test_whole_numbers_agree(function: Callable[..., Any]) -> None:
    one, other = torch.tensor([12, -7, 0, 255, 1 << 40]), torch.tensor([3, 5, 1, 7, 2])
    with wide_arithmetic(apart=True):
        found = function(one, other)
    assert torch.equal(found, function(one, other))


def test_every_entry_was_reached() -> None:
    """Runs after the cases; only then does it know."""
    if len(REACHED) < 50:
        pytest.skip("the cases did not run")
    assert sorted(set(ENTRIES) - REACHED) == []
