"""Every row of the mapping, executed on both frameworks, forward and backward."""

from __future__ import annotations

import inspect
import re

import pytest

from trueline.ops.catalogue import catalogue_cases
from trueline.ops.mapping.rows import Row, disagreements, rows, rows_from_torch
from trueline.ops.mapping.translate import NoCounterpart

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

from tests.ops import mapping_harness  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.paddle)
def test_row(row: Row) -> None:
    found = mapping_harness.held(row)
    assert found, f"{row.paddle} has no example"
    for one in found:
        if one.example in row.differs:
            assert one.problems, f"{one.example} agrees, though the row says: {row.disagreement}"
        elif not mapping_harness.may_differ(row, one.example):
            assert not one.problems, f"{one.example}\n" + "\n".join(one.problems)
    if row.disagreement:
        assert any(one.problems for one in found), f"{row.paddle} agrees, though the row says: {row.disagreement}"


def test_there_are_as_many_as_promised() -> None:
    assert len(rows()) >= 600


def test_disagreements_are_explained() -> None:
    for row in disagreements():
        assert len(row.disagreement.split()) >= 4, row.paddle
    assert not [row.paddle for row in rows().values() if row.differs and not row.disagreement]


def parameters_of(api: str) -> list[str] | None:
    """The parameters of a function of Paddle's in order; None where it does not say."""
    try:
        found = inspect.signature(mapping_harness.paddle_function(api))
    except (ValueError, TypeError):
        return None
    kinds = [parameter.kind for parameter in found.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    return list(found.parameters)


@pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.paddle)
def test_a_row_names_paddles_own_parameters_in_their_order(row: Row) -> None:
    real = parameters_of(row.paddle)
    if real is None or "__" in row.paddle or row.paddle.rpartition(".")[2] in ("swapaxes", "swapdims"):
        pytest.skip("Paddle does not say what it takes")
    start = 1 if row.paddle.startswith("paddle.Tensor.") else 0  # what a method calls its tensor is nobody's business
    unknown = [name for name in list(row.names)[start:] if row.names[name] and name not in real and name[0] != "*"]
    assert not unknown, f"Paddle has no {unknown}, only {real}"
    places = [real.index(name) for name in list(row.names)[start:] if name in real]
    assert places == sorted(places), (list(row.names), real)
    known = places[-1] + 1 if places else start
    assert set(real[start:known]) <= set(row.names), f"{set(real[start:known]) - set(row.names)} come before others"


def test_the_harness_notices_a_wrong_row() -> None:
    """A row that names the wrong function, or swaps two parameters, must not pass."""
    right = rows()["paddle.subtract"]
    wrong = [
        Row(right.paddle, "torch.add", right.names, examples=right.examples),
        Row(right.paddle, right.torch, {**right.names, "x": "other", "y": "input"}, examples=right.examples),
    ]
    for row in wrong:
        found = [mapping_harness.Held(example) for example in row.examples]
        moved = [mapping_harness.held_as(row, one) for one in found]
        assert all(one.problems for one in moved), row


PLAIN_DOMAIN = re.compile(r"(?!.*(nan|inf|ties|zeros|large|tiny|constant))")
FROM_TORCH = """
add sub mul div pow neg abs exp log sqrt rsqrt sin tanh sigmoid clamp where cat stack reshape transpose permute squeeze
unsqueeze flatten split chunk sum mean var std prod amax amin argmax cumsum matmul bmm addmm baddbmm einsum
index_select gather masked_fill masked_select tril triu flip roll topk sort eq ne lt gt le ge logical_not isnan outer
Tensor.add_ Tensor.mul_ Tensor.addcmul_ Tensor.addcdiv_ Tensor.__getitem__ Tensor.__add__ Tensor.__mul__ Tensor.view
Tensor.expand Tensor.permute
nn.functional.linear nn.functional.relu nn.functional.gelu nn.functional.silu nn.functional.softmax
nn.functional.layer_norm nn.functional.group_norm nn.functional.rms_norm nn.functional.embedding
nn.functional.mse_loss nn.functional.scaled_dot_product_attention nn.functional.conv2d
""".split()


@pytest.mark.parametrize("name", FROM_TORCH)
def test_from_torch_to_paddle(name: str) -> None:
    """The first plain calls of the catalogue of torch's operators, executed by Paddle."""
    agreed = 0
    for case in catalogue_cases(f"torch.{name}"):
        if not all(PLAIN_DOMAIN.match(spec.domain) for spec in case.tensors) or agreed == 3:
            continue
        if any(not spec.shape or 0 in spec.shape for spec in case.tensors):
            continue
        try:
            found = mapping_harness.held_from_torch(case)
        except NoCounterpart:
            continue
        if any(problem.startswith("ValueError") for problem in found.problems):
            continue  # Paddle refuses: an image without a batch, a list of several dtypes
        assert not found.problems, f"{case.arguments} {case.tensors}\n" + "\n".join(found.problems)
        agreed += 1
    assert agreed, f"no call of torch.{name} was executed"


def test_every_composite_is_used() -> None:
    from trueline.frameworks.torch.composites import COMPOSITES, composite_named

    assert composite_named("no such thing") is None
    used = {row.torch.partition(".")[2] for row in rows().values() if row.composite}
    assert not {name for name in COMPOSITES if name not in used and f"{name}_" not in used}


def test_names_of_rows_are_names_of_functions() -> None:
    for row in (*rows().values(), *rows_from_torch()):
        assert re.fullmatch(r"(paddle|composite)(\.\w+)+", row.paddle), row.paddle
        assert re.fullmatch(r"(torch|composite)(\.\w+)+", row.torch), row.torch


def test_every_composite_of_paddles_exists() -> None:
    from trueline.frameworks.paddle.composites import composite_named

    wanted = {row.paddle.partition(".")[2] for row in rows_from_torch() if row.paddle.startswith("composite.")}
    assert wanted
    assert not [name for name in wanted if composite_named(name) is None]
