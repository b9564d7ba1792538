"""What is made of a case on request: draws, layouts, shapes, dtypes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from trueline.campaign.variants import MEMORY, VARIANTS, Wish, big, bytes_of, expand, other_dtypes, strided, zero_size
from trueline.cases import Case, Stored
from trueline.errors import UsageError
from trueline.formats.configs import config_line, config_to_case, parse_config
from trueline.ops.domains import with_domains
from trueline.replay.inputs import inputs_for
from trueline.replay.serial import case_from_json, case_to_json


def case_of(line: str) -> Case:
    return with_domains(config_to_case(parse_config(line), 5))


MATMUL = case_of('paddle.matmul(Tensor([4, 5],"float32"), Tensor([5, 6],"float32"), )')
GATHER = case_of('paddle.gather(Tensor([10, 3],"float32"), Tensor([5],"int64"), axis=0, )')
FULL = case_of('paddle.full(list[2,3,], 1.0, dtype="float32", )')


def lines(cases: object) -> list[str]:
    return [config_line(one) for one in cases]  # type: ignore[attr-defined]


def test_without_a_wish_there_is_the_case_alone() -> None:
    assert list(expand(MATMUL, Wish())) == [MATMUL]


def test_draws_are_other_cases_of_the_same_line() -> None:
    made = list(expand(MATMUL, Wish(draws=4)))
    assert [one.draw for one in made] == [0, 1, 2, 3] and made[0] is MATMUL
    assert len({one.key for one in made}) == len({one.seed for one in made}) == 4
    assert len(set(lines(made))) == 1
    assert made[2].calls == ("draw 2",)
    assert list(expand(MATMUL, Wish(draws=4))) == made
    assert list(expand(FULL, Wish(draws=4))) == [FULL]  # nothing is drawn


def test_a_draw_survives_the_way_to_a_worker() -> None:
    one = list(expand(MATMUL, Wish(draws=3)))[2]
    assert case_from_json(case_to_json(one)) == one and one.draw == 2
    assert "draw" not in case_to_json(MATMUL)


def test_a_draw_without_meaning_for_gradients_asks_for_none() -> None:
    case = case_of('paddle.maximum(Tensor([4],"float32"), Tensor([4],"float32"), )')
    special = list(expand(case, Wish(draws=4)))[3]
    assert case.backward and not special.backward and not any(spec.requires_grad for spec in special.tensors)


def test_strided_tensors_are_not_contiguous_and_hold_the_same_kind_of_numbers() -> None:
    one = strided(MATMUL)
    assert [spec.strides for spec in one.tensors] == [(1, 4), (12, 2)]
    expanded = strided(replace(MATMUL, draw=2)).tensors[0]
    assert expanded.strides == (0, 1)
    bits = inputs_for(replace(MATMUL, tensors=(expanded,))).tensors["args.0"].bits
    assert all((row == bits[0]).all() for row in bits)
    assert strided(GATHER).tensors[1].strides == (2,)  # an index keeps its elements apart


def test_a_call_about_memory_keeps_its_layout() -> None:
    case = case_of('paddle.as_strided(Tensor([3, 4],"float32"), list[2,2,], list[1,2,], )')
    assert list(expand(case, Wish(strided=True))) == [case]


def test_nothing_is_expanded_that_is_written_to() -> None:
    for draw in range(3):
        written = strided(
            replace(case_of('paddle.Tensor.add_(Tensor([4, 5],"float32"), Tensor([4, 5],"float32"), )'), draw=draw)
        )
        assert all(0 not in (spec.strides or ()) for spec in written.tensors)


def test_zero_size_takes_each_dimension_in_turn_with_what_must_be_as_long() -> None:
    assert lines(zero_size(MATMUL)) == [
        'paddle.matmul(Tensor([0, 5],"float32"), Tensor([5, 6],"float32"), )',
        'paddle.matmul(Tensor([4, 0],"float32"), Tensor([0, 6],"float32"), )',
        'paddle.matmul(Tensor([4, 0],"float32"), Tensor([0, 6],"float32"), )',
        'paddle.matmul(Tensor([4, 5],"float32"), Tensor([5, 0],"float32"), )',
    ]
    assert len(list(expand(MATMUL, Wish(variants=("zero-size",))))) == 4  # none of them twice


def test_an_index_never_points_into_nothing() -> None:
    assert lines(zero_size(GATHER)) == [
        'paddle.gather(Tensor([10, 0],"float32"), Tensor([5],"int64"), axis=0, )',
        'paddle.gather(Tensor([10, 3],"float32"), Tensor([0],"int64"), axis=0, )',
    ]


def test_big_grows_to_the_budget_or_beyond_32_bits() -> None:
    (one,) = big(GATHER)
    assert 0.99 * MEMORY < bytes_of(one) <= MEMORY and one.tensors[1].shape == (5,)
    assert one.tensors[1].domain == f"index({one.tensors[0].shape[0]})"
    assert f"{bytes_of(one):,} bytes" in one.calls[0]
    (huge,) = big(GATHER, memory=2**40)
    assert math.prod(huge.tensors[0].shape) > 2**31 > math.prod(huge.tensors[0].shape) - 3 * 10
    assert list(big(GATHER, memory=100)) == []


def test_dtypes_are_all_the_others() -> None:
    made = list(other_dtypes(GATHER))
    assert [one.tensors[0].dtype for one in made] == ["float16", "bfloat16", "float64", "complex64"]
    assert all(one.tensors[1].dtype == "int64" for one in made)
    assert [one.arguments["kwargs"]["dtype"] for one in other_dtypes(FULL)] == ["float16", "bfloat16", "float64"]
    floor = case_of('paddle.floor(Tensor([3],"float64"), )')
    assert [one.tensors[0].dtype for one in other_dtypes(floor)] == ["float16", "bfloat16", "float32"]


def test_what_was_recorded_keeps_its_shape_and_dtype() -> None:
    stored = tuple(replace(spec, stored=Stored("run", 0, 1)) for spec in MATMUL.tensors)
    case = replace(MATMUL, tensors=stored)
    assert list(expand(case, Wish(draws=3, variants=VARIANTS))) == [case]


@pytest.mark.parametrize("wrong", [{"draws": 0}, {"variants": ("tiny",)}, {"memory": 0}])
def test_a_wrong_wish_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Wish(**wrong)  # type: ignore[arg-type]
