"""A kernel of torch's that is wrong in every dtype is found by a check of torch on the CPU by itself."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from benchmarks import patched  # noqa: E402
from tests.replay.test_worker import case_for  # noqa: E402
from trueline.campaign.check import request_of  # noqa: E402
from trueline.cases import Target  # noqa: E402
from trueline.frameworks.torch.wide import NoWideGold, narrow, run_wide  # noqa: E402
from trueline.frameworks.torch.wide.whole import WHOLE  # noqa: E402
from trueline.replay.independent import is_asked, shares_kernels  # noqa: E402


@pytest.mark.parametrize(
    "api",
    """torch.relu torch.Tensor.abs torch.add torch.Tensor.clamp_min torch.cumsum torch.gcd torch.argmax
    torch.bitwise_and torch.nn.functional.conv1d torch.nn.functional.silu torch.transpose torch.special.i0e""".split(),
)
def test_a_wrong_kernel_is_not_held_against_itself(api: str) -> None:
    seen = dict(patched.patched(api, 1, patched.APART))
    assert seen or api == "torch.transpose"  # a view has no kernel to be wrong
    assert [name for name, found in seen.items() if not found] == []


@pytest.mark.parametrize(
    ("api", "kernel"),
    [
        ("torch.amax", "aten.amax.default"),
        ("torch.msort", "aten.sort.default"),
        ("torch.max_pool2d", "aten.max_pool2d_with_indices.default"),
    ],
)
def test_elements_that_are_chosen_by_a_rule_are_held_against_another_implementation(api: str, kernel: str) -> None:
    assert dict(patched.patched(api, 1, patched.APART))[kernel]


def test_a_gold_of_the_same_kernel_would_not_find_it() -> None:
    assert not all(found for _, found in patched.patched("torch.relu", 1, patched.PLAIN))


def reference_of(target: str) -> str:
    return str(request_of(target, None, None, 0, (), "torch.relu").reference)


def test_the_gold_is_another_implementation_where_nothing_else_is_asked_for() -> None:
    assert reference_of("torch:cpu") == "torch:cpu/float64+independent"
    assert reference_of("torch:cpu/bfloat16") == "torch:cpu/float64+independent"
    assert reference_of("torch:cpu+compile") == "torch:cpu/float64"
    assert str(request_of("torch:cpu", "torch:cpu", None, 0, (), "torch.relu").reference) == "torch:cpu"


def test_a_kernel_of_somebodys_own_shares_nothing() -> None:
    case = case_for("torch.relu", (3,))
    apart = Target.parse("torch:cpu/float64+independent")
    own = Target.parse("torch:cpu", {"torch.relu": "mykernels:relu"})
    assert is_asked(case, Target.parse("torch:cpu"), apart) and not is_asked(case, own, apart)
    assert not shares_kernels(case, Target.parse("torch:cuda"), apart)


def test_powers_are_wide_though_torch_writes_them_into_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor([2.0, 3.0], dtype=torch.float64)
    assert narrow(run_wide(torch.vander, (x, 3)).outputs)[0].tolist() == [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    monkeypatch.delitem(WHOLE, torch.vander)
    with pytest.raises(NoWideGold, match="memory that is not wide"):  # it was what lay in that memory before
        run_wide(torch.vander, (x, 3))
