"""What calls need, against torch's own counter where it counts, and by hand where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.helpers.executing import case_of  # noqa: E402
from trueline.ops import costs  # noqa: E402
from trueline.ops.costs import cost_of, working_dtype  # noqa: E402
from trueline.ops.facts import Kind, facts_of  # noqa: E402
from trueline.profiles import OutputSpec  # noqa: E402
from trueline.records import Phase  # noqa: E402

F = torch.nn.functional


def leaf(*shape: int) -> Any:
    return torch.randn(*shape, requires_grad=True)


COUNTED: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    ("torch.matmul", torch.matmul, (leaf(3, 8, 16), leaf(3, 16, 5)), {}),
    ("torch.mm", torch.mm, (leaf(8, 16), leaf(16, 5)), {}),
    ("torch.nn.functional.linear", F.linear, (leaf(4, 8, 16), leaf(5, 16)), {}),
    ("torch.nn.functional.conv2d", F.conv2d, (leaf(2, 4, 9, 9), leaf(6, 4, 3, 3)), {"stride": 2, "padding": 1}),
    ("torch.nn.functional.conv_transpose2d", F.conv_transpose2d, (leaf(2, 4, 9, 9), leaf(4, 6, 3, 3)), {"stride": 2}),
]


@pytest.mark.parametrize(("api", "function", "args", "kwargs"), COUNTED, ids=[row[0] for row in COUNTED])
def test_products_cost_what_torch_counts(
    api: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    case, _ = case_of(api, *args, **kwargs)
    with FlopCounterMode(display=False) as counter:
        result = function(*args, **kwargs)
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(result.sum(), args)
    outputs = [OutputSpec("out", "float32", tuple(result.shape))]
    assert cost_of(case, outputs, Phase.FORWARD).flops == forward > 0
    assert cost_of(case, outputs, Phase.BACKWARD).flops == pytest.approx(counter.get_total_flops())


def test_groups_of_a_convolution_do_not_meet() -> None:
    case, _ = case_of("torch.nn.functional.conv2d", leaf(2, 4, 9, 9), leaf(6, 2, 3, 3), groups=2)
    outputs = [OutputSpec("out", "float32", (2, 6, 7, 7))]
    assert cost_of(case, outputs, Phase.FORWARD).flops == 2 * (2 * 6 * 7 * 7) * (2 * 3 * 3)


def test_attention_costs_two_products_and_half_of_them_where_it_looks_back_only() -> None:
    query, key, value = leaf(2, 4, 10, 16), leaf(2, 4, 12, 16), leaf(2, 4, 12, 8)
    api = "torch.nn.functional.scaled_dot_product_attention"
    outputs = [OutputSpec("out", "float32", (2, 4, 10, 8))]
    full = 2 * (2 * 4) * 10 * 12 * (16 + 8)
    assert cost_of(case_of(api, query, key, value)[0], outputs, Phase.FORWARD).flops == full
    assert cost_of(case_of(api, query, key, value, is_causal=True)[0], outputs, Phase.FORWARD).flops == full / 2


def test_bytes_are_what_must_be_read_and_written() -> None:
    out = [OutputSpec("out", "float32", (4, 8))]
    size = 4 * 8 * 4
    gelu, _ = case_of("torch.nn.functional.gelu", leaf(4, 8))
    assert cost_of(gelu, out, Phase.FORWARD).bytes == 2 * size
    assert cost_of(gelu, out, Phase.BACKWARD).bytes == 3 * size
    add, _ = case_of("torch.add", leaf(4, 8), leaf(4, 8))
    assert cost_of(add, out, Phase.FORWARD).bytes == 3 * size
    assert cost_of(add, out, Phase.BACKWARD).bytes == 0  # what arrives is what leaves
    bias, _ = case_of("torch.add", leaf(4, 8), leaf(8))
    assert cost_of(bias, out, Phase.BACKWARD).bytes == size + 8 * 4
    expanded, _ = case_of("torch.add", leaf(4, 8), torch.zeros(1, 8).expand(4, 8))
    assert cost_of(expanded, out, Phase.FORWARD).bytes == 2 * size + 8 * 4  # what repeats is read once
    rows, _ = case_of("torch.nn.functional.embedding", torch.tensor([1, 2, 3]), leaf(1000, 8))
    assert cost_of(rows, [OutputSpec("out", "float32", (3, 8))], Phase.FORWARD).bytes == 2 * 3 * 8 * 4 + 3 * 8
    zeros, _ = case_of("torch.zeros", 4, 8)
    assert cost_of(zeros, out, Phase.FORWARD).bytes == size


def test_a_view_costs_nothing_and_a_copy_does() -> None:
    case, _ = case_of("torch.Tensor.reshape", leaf(4, 8), 8, 4)
    assert cost_of(case, [OutputSpec("out", "float32", (8, 4), shared=True)], Phase.FORWARD).bytes == 0
    assert cost_of(case, [OutputSpec("out", "float32", (8, 4))], Phase.FORWARD).bytes == 2 * 4 * 8 * 4


def test_what_nobody_knows_is_said_and_not_zero() -> None:
    case, _ = case_of("torch.linalg.eigh", torch.eye(4))
    cost = cost_of(case, [OutputSpec("out.0", "float32", (4,))], Phase.FORWARD)
    assert cost.flops is None and cost.bytes is None and "eigh" in cost.reason
    sort, _ = case_of("torch.sort", torch.randn(8))
    cost = cost_of(sort, [OutputSpec("out.0", "float32", (8,))], Phase.FORWARD)
    assert cost.flops is None and cost.bytes == 2 * 8 * 4 and cost.reason


def test_the_working_dtype_is_the_coarsest() -> None:
    case, _ = case_of("torch.add", torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16))
    assert working_dtype(case, ()) == "bfloat16"
    assert working_dtype(case_of("torch.add", torch.tensor([1]), 1)[0], ()) == ""


def test_a_step_of_an_optimizer_reads_all_and_writes_what_it_changes() -> None:
    tensors = [torch.zeros(10) for _ in range(4)]
    case, _ = case_of("torch._fused_sgd_", tensors[:2], tensors[2:], [])
    changed = [OutputSpec(f"args.0.{place}", "float32", (10,)) for place in range(2)]
    cost = cost_of(case, changed, Phase.FORWARD)
    assert cost.flops == 4 * 20 and cost.bytes == (4 + 2) * 10 * 4


def test_every_row_names_an_operator_that_is_known() -> None:
    names = [*costs._RULES, *costs._EACH, *costs._GATHERS, *costs._FILLS, *costs._SORTS]
    assert [name for name in names if facts_of(f"torch.{name}").kind is Kind.OTHER] == []
