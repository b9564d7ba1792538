"""The default standard, on hand-made evidence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from trueline.dtypes import dtype_named
from trueline.judge import CallEvidence, Honest, OutputColumns, TensorEvidence, standard_named
from trueline.judge.sensitivity import limit_of
from trueline.ops import facts_of
from trueline.records import Phase, Verdict


def tensor(
    path: str, distance: float = 0.0, *, dtype: str = "float32", other: str = "", **fields: Any
) -> TensorEvidence:
    known: dict[str, Any] = {
        "shape": (64, 64),
        "count": 4096,
        "peak": distance,
        "cosine": 1.0,
        "equal": distance == 0.0,
        "estimated": False,
        "rms": 1.0,
        "smallest": 1e-4,
        "largest": 4.0,
    }
    known.update(fields)
    return TensorEvidence(
        path=path,
        reference_dtype=dtype_named(dtype),
        candidate_dtype=dtype_named(other or dtype),
        distance=distance,
        **known,
    )


def judge(api: str, inputs: list[TensorEvidence], outputs: list[TensorEvidence], **fields: Any) -> Any:
    fields.setdefault("phase", Phase.FORWARD)
    return Honest().judge(CallEvidence(facts_of(api), inputs=inputs, outputs=outputs, **fields))


@pytest.mark.parametrize(
    ("api", "distance"),
    [
        ("torch.nn.functional.gelu", 1.3e-4),
        ("torch.mul", 2e-3),
        ("torch.nn.functional.linear", 1.7e-3),
        ("torch.nn.functional.layer_norm", 1e-3),
        ("torch.softmax", 1e-2),
        ("torch.Tensor.transpose", 1e-7),
        ("torch.relu", 1e-7),
        ("mymodule.anything", 1e-3),
    ],
)
def test_from_equal_inputs_more_than_rounding_fails(api: str, distance: float) -> None:
    found = judge(api, [tensor("args.0"), tensor("args.1")], [tensor("out", distance)])
    assert found.verdict is Verdict.FAIL
    assert "equal inputs" in found.reason


@pytest.mark.parametrize(
    ("api", "distance"),
    [
        ("torch.nn.functional.gelu", 2e-7),
        ("torch.nn.functional.linear", 1e-6),
        ("torch.sum", 5e-7),
        ("torch.nn.functional.layer_norm", 4e-7),
        ("torch.softmax", 4e-7),
    ],
)
def test_from_equal_inputs_rounding_passes(api: str, distance: float) -> None:
    assert judge(api, [tensor("args.0"), tensor("args.1")], [tensor("out", distance)]).verdict is Verdict.PASS


def test_half_precision_has_its_own_rounding() -> None:
    given = [tensor("args.0", dtype="bfloat16")]
    assert judge("torch.nn.functional.gelu", given, [tensor("out", 2e-3, dtype="bfloat16")]).verdict is Verdict.PASS
    assert judge("torch.nn.functional.gelu", given, [tensor("out", 1e-2, dtype="bfloat16")]).verdict is Verdict.FAIL


def test_autocast_rounds_inputs_and_outputs() -> None:
    given = [tensor("args.0"), tensor("args.1")]
    found = judge("torch.nn.functional.linear", given, [tensor("out", 3e-3, dtype="float32", other="bfloat16")])
    assert found.verdict is Verdict.PASS


def test_a_victim_is_not_blamed() -> None:
    found = judge("torch.matmul", [tensor("args.0", 1e-2), tensor("args.1")], [tensor("out", 2e-2)])
    assert found.verdict is Verdict.PASS
    assert found.inherited
    assert (
        judge("torch.matmul", [tensor("args.0", 1e-4), tensor("args.1")], [tensor("out", 2e-2)]).verdict is Verdict.FAIL
    )


def test_cancellation_is_an_excuse() -> None:
    given = [tensor("args.0", 1e-6, rms=1.0), tensor("args.1", 1e-6, rms=1.0)]
    assert judge("torch.sub", given, [tensor("out", 1e-3, rms=1e-3)]).verdict is Verdict.PASS
    assert judge("torch.sub", given, [tensor("out", 1e-3, rms=1.0)]).verdict is Verdict.FAIL


def test_a_gradient_of_nearly_nothing_may_be_noise() -> None:
    """The bias before a batch norm: its gradient is zero but for rounding."""
    arrives = tensor("out", 1e-6, rms=1.0, shape=(512, 64), count=512 * 64)
    saved = [tensor("args.0", 1e-6), tensor("args.1")]
    bias = tensor("args.2", 1.0, shape=(64,), count=64, rms=1e-7)
    found = judge("torch.nn.functional.linear", [arrives], [bias], phase=Phase.BACKWARD, saved=saved)
    assert found.verdict is Verdict.PASS


def test_kinks_turn_small_differences_into_their_roots() -> None:
    arrives, saved = tensor("out"), [tensor("args.0", 1e-6)]
    flipped = tensor("args.0", 1e-3)
    found = judge("torch.relu", [arrives], [flipped], phase=Phase.BACKWARD, saved=saved)
    assert found.verdict is Verdict.PASS
    assert found.inherited
    alone = judge("torch.relu", [arrives], [flipped], phase=Phase.BACKWARD, saved=[tensor("args.0")])
    assert alone.verdict is Verdict.FAIL


def test_other_indices_excuse_everything_behind_them() -> None:
    found = judge(
        "torch.nn.functional.embedding", [tensor("args.0", 0.5, dtype="int64"), tensor("args.1")], [tensor("out", 1.4)]
    )
    assert found.verdict is Verdict.PASS
    assert found.inherited


def test_decisions_may_jump_but_not_from_equal_inputs() -> None:
    out = tensor("out", 0.1, dtype="int64")
    assert judge("torch.argmax", [tensor("args.0", 1e-6)], [out]).inherited
    assert judge("torch.argmax", [tensor("args.0")], [out]).verdict is Verdict.FAIL


def test_new_nan_fails_and_nan_that_arrives_is_inherited() -> None:
    born = tensor("out", 1e-9, bad_candidate=1, bad_mismatch=1)
    assert judge("torch.mul", [tensor("args.0")], [born]).verdict is Verdict.FAIL
    arrived = tensor("args.0", 1e-9, bad_candidate=1, bad_mismatch=1)
    assert judge("torch.mul", [arrived], [born]).inherited


def test_a_single_wrong_element_is_seen_though_it_hardly_moves_the_norm() -> None:
    spoiled = tensor("out", 2e-7, peak=1e-2)
    found = judge("torch.mul", [tensor("args.0")], [spoiled])
    assert found.verdict is Verdict.FAIL
    assert "single elements" in found.reason


def test_what_was_not_measured_does_not_pass() -> None:
    unknown = tensor("out", math.nan, equal=False, note="the candidate has no data of this tensor")
    found = judge("torch.mul", [tensor("args.0")], [unknown])
    assert found.verdict is Verdict.NOT_COMPARED
    assert "no data" in found.reason
    blind = tensor("args.0", math.nan, equal=False, note="the reference has no data of this tensor")
    assert judge("torch.mul", [blind], [tensor("out", 0.1)]).verdict is Verdict.WARN


def test_uninitialised_memory_is_not_judged() -> None:
    found = judge("torch.empty_like", [tensor("args.0")], [tensor("out", 1.0)])
    assert found.verdict is Verdict.NOT_COMPARED
    assert found.idle


def test_in_place_calls_without_recorded_changes_are_not_idle() -> None:
    found = judge("torch._fused_adamw_", [tensor("args.0.0")], [])
    assert found.verdict is Verdict.NOT_COMPARED
    assert not found.idle


def test_the_first_look_never_allows_more_than_the_judgement() -> None:
    import numpy as np

    rule = Honest()
    for dtype in ("float32", "bfloat16", "float16", "float64", "int64"):
        for estimated in (False, True):
            output = tensor("out", 1e-9, dtype=dtype, estimated=estimated)
            columns = OutputColumns(
                np.array([1e-9]), np.array([0.0]), np.array([output.roundoff]), np.array([estimated])
            )
            evidence = CallEvidence(facts_of("torch.nn.functional.gelu"), Phase.FORWARD, [tensor("args.0")], [output])
            assert rule.within_rounding(columns)[0] <= limit_of(evidence, output).rounding


def test_standards_by_name() -> None:
    assert standard_named("ptdbg").name == "ptdbg"
    own = Honest()
    assert standard_named(own) is own


BARE = {"estimated": True, "equal": False, "cosine": math.nan}
"""What is known of tensors of which a tool kept max, min, mean and norm."""


def test_of_four_numbers_a_clear_difference_fails_and_agreement_is_no_proof() -> None:
    found = judge("torch.nn.functional.gelu", [tensor("args.0", **BARE)], [tensor("out", 1e-4, **BARE)])
    assert found.verdict is Verdict.FAIL and "inputs of equal statistics" in found.reason
    found = judge("torch.nn.functional.gelu", [tensor("args.0", **BARE)], [tensor("out", **BARE)])
    assert found.verdict is Verdict.NOT_COMPARED and "all that is known" in found.reason


@pytest.mark.parametrize("where", ["inputs", "saved"])
def test_nobody_is_blamed_where_four_numbers_say_that_the_inputs_differ(where: str) -> None:
    """They tell the least by which tensors differ: the most may explain anything."""
    given = {"inputs": [tensor("out", **BARE)], "saved": [tensor("args.0", **BARE)]}
    given[where][0].distance = 1e-7
    found = judge(
        "torch.nn.functional.layer_norm", outputs=[tensor("args.0", 1e-3, **BARE)], phase=Phase.BACKWARD, **given
    )
    assert found.verdict is Verdict.WARN and found.inherited
    assert f"so does {given[where][0].path}" in found.reason


@pytest.mark.parametrize("distance", [0.0, 1e-2])
def test_an_input_of_unknown_size_gives_no_limit(distance: float) -> None:
    found = judge("torch.sin", [tensor("args.0", rms=math.nan, **BARE)], [tensor("out", distance, **BARE)])
    assert found.verdict is Verdict.NOT_COMPARED
    assert "how large its inputs are is not known" in found.reason
