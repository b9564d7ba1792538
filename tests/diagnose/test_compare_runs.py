"""Two synthetic Runs, compared whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Bits, Spec, array, bfloat16, write_run
from trueline.diagnose import Comparison, compare_runs, runs
from trueline.errors import UsageError
from trueline.records import Phase, Verdict
from trueline.store import open_run

MODES = ("tensors", "digest", "stats")


def gelu(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))).astype(np.float32)


def program(
    fault: str = "", noise: float = 0.0, scale: float = 1.0, inserted: bool = False, steps: int = 1
) -> list[Spec]:
    """Four layers of linear, gelu and residual addition. ``fault`` names the place that multiplies by 1.002."""
    calls: list[Spec] = []
    x = array(32, 64, seed=1) * np.float32(scale)
    weights = [array(64, 64, seed=10 + layer, scale=0.1) for layer in range(4)]
    for step in range(steps):
        hidden = x
        for layer in range(4):
            module = f"layers.{layer}"

            def emit(api: str, inputs: list[Any], output: Any, module: str = module, step: int = step) -> Any:
                if fault == f"{module}.{api}":
                    output = output * np.float32(1.002)
                if noise:
                    generator = np.random.default_rng(len(calls))
                    output = output * (1 + noise * generator.standard_normal(output.shape)).astype(np.float32)
                output = output.astype(np.float32)
                calls.append(
                    Spec(f"torch.{api}", inputs, [output], module=module, step=step, source=("model.py", 7, "f"))
                )
                return output

            product = emit("matmul", [hidden, weights[layer]], hidden @ weights[layer])
            if inserted and layer == 1:
                calls.append(Spec("torch.clone", [product], [product.copy()], module=module, step=step))
            active = emit("nn.functional.gelu", [product], gelu(product))
            hidden = emit("add", [hidden, active], hidden + active)
    return calls


def compare(tmp_path: Path, left: Any, right: Any, data: str = "tensors", **options: Any) -> Comparison:
    write_run(tmp_path / "a", left, data=data)
    write_run(tmp_path / "b", right, data=data)
    return compare_runs(tmp_path / "a", tmp_path / "b", replay=False, **options)


@pytest.mark.parametrize("data", MODES)
def test_identical_runs_pass(tmp_path: Path, data: str) -> None:
    report = compare(tmp_path, program(), program(), data)
    assert report.verdict is Verdict.PASS
    assert report.first_divergence is None
    assert report.mode == data
    assert report.counts["PASS"] == len(report.calls) == 12


def test_structure_alone_is_not_compared(tmp_path: Path) -> None:
    report = compare(tmp_path, program(), program(), "structure")
    assert report.verdict is Verdict.NOT_COMPARED
    assert report.mode == "structure"
    assert report.counts["PASS"] == 0
    assert "neither side has data" in report.calls[0].reason


@pytest.mark.parametrize("data", MODES)
@pytest.mark.parametrize("fault", ["layers.1.matmul", "layers.2.nn.functional.gelu", "layers.0.add"])
def test_the_faulty_call_is_named_and_not_its_victims(tmp_path: Path, data: str, fault: str) -> None:
    report = compare(tmp_path, program(), program(fault), data)
    assert report.verdict is Verdict.FAIL
    call = report.first_divergence
    assert call is not None
    assert f"{call.module}.{call.api.removeprefix('torch.')}" == fault
    assert call.source == "model.py:7 in f"
    assert report.counts["FAIL"] == 1
    victims = [row for row in report.calls if row.inherited]
    assert victims
    assert all(row.verdict is Verdict.PASS for row in victims)


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_rounding_noise_is_no_finding(tmp_path: Path, data: str) -> None:
    report = compare(tmp_path, program(), program(noise=1e-7), data)
    assert report.verdict is Verdict.PASS
    assert report.first_divergence is None


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_fault_is_found_in_noise(tmp_path: Path, data: str) -> None:
    report = compare(tmp_path, program(), program("layers.2.matmul", noise=1e-7), data)
    assert report.first_divergence is not None
    assert (report.first_divergence.module, report.first_divergence.api) == ("layers.2", "torch.matmul")


def test_one_inserted_call_is_one_extra_row(tmp_path: Path) -> None:
    report = compare(tmp_path, program(), program(inserted=True))
    assert report.unmatched["extra"] == 1
    assert report.unmatched["missing"] == 0
    assert report.counts["FAIL"] == 0
    extra = [row for row in report.calls if row.reference is None]
    assert [row.call.api for row in extra] == ["torch.clone"]
    assert report.verdict is Verdict.PASS, "what the program gives away agrees: a copy more is no matter"


def test_an_inserted_call_that_changes_the_data_is_the_origin(tmp_path: Path) -> None:
    calls = program()
    product = calls[3].outputs[0]
    scaled = (product * np.float32(1.5)).astype(np.float32)
    # After the matmul of layer 1, its product is scaled and everything behind follows.
    tail = program("layers.1.matmul")
    changed = [*calls[:4], Spec("torch.mul", [product, 1.5], [scaled], module="layers.1")]
    active = gelu(scaled)
    hidden = (calls[2].outputs[0] + active).astype(np.float32)
    changed += [
        Spec("torch.nn.functional.gelu", [scaled], [active], module="layers.1"),
        Spec("torch.add", [calls[2].outputs[0], active], [hidden], module="layers.1"),
    ]
    report = compare(tmp_path, calls[:6], changed)
    assert len(tail) == 12
    assert report.verdict is Verdict.FAIL
    assert report.first_divergence is not None
    assert report.first_divergence.api == "torch.mul"


@pytest.mark.parametrize("data", MODES)
def test_memory_that_nobody_wrote_hides_no_missing_call(tmp_path: Path, data: str) -> None:
    """A program that makes its model while it is recorded begins with ``torch.empty``, which differs in every run."""
    x, weight = array(32, 64, seed=1), array(64, 64, seed=2, scale=0.1)

    def calls(memory: int, scaled: bool) -> list[Spec]:
        filled = array(64, 64, seed=3)
        product = (x @ weight).astype(np.float32)
        half = (product * np.float32(0.5)).astype(np.float32)
        found = [
            Spec("torch.empty", [], [array(64, 64, seed=memory)]),
            Spec("torch.nn.init.ones_", [], [filled]),
            Spec("torch.matmul", [x, weight], [product]),
        ]
        if scaled:
            found.append(Spec("torch.Tensor.mul", [product], [half]))
        given = half if scaled else product
        return [*found, Spec("torch.nn.functional.gelu", [given], [gelu(given)])]

    report = compare(tmp_path, calls(71, scaled=True), calls(72, scaled=False), data)
    assert report.verdict is Verdict.FAIL and report.origin is not None
    assert report.origin.kind == "missing"
    assert [call.api for call in report.origin.reference_calls] == ["torch.Tensor.mul"]
    assert report.origin.headline == "only the reference computes mul"


def test_different_data_at_the_start_is_said_so(tmp_path: Path) -> None:
    report = compare(tmp_path, program(), program(scale=1.5))
    assert report.verdict is Verdict.FAIL
    assert report.origin is not None
    assert report.origin.comparison.call.index == 0
    assert "no recorded call" in report.origin.explanation


def test_nan_is_found_where_it_is_born(tmp_path: Path) -> None:
    for data in ("tensors", "stats"):
        left, right = program(), program()
        born = right[4].outputs[0].copy()
        born[3, 3] = np.nan
        right[4] = Spec(right[4].api, right[4].inputs, [born], module=right[4].module)
        hidden = (right[2].outputs[0] + born).astype(np.float32)
        right[5] = Spec(right[5].api, [right[2].outputs[0], born], [hidden], module=right[5].module)
        folder = tmp_path / data
        report = compare(folder, left[:6], right[:6], data)
        assert report.first_divergence is not None
        assert report.first_divergence.api == "torch.nn.functional.gelu"
        assert "NaN" in report.origin.explanation  # type: ignore[union-attr]
        assert report.calls[5].inherited


def test_bfloat16_against_float32_is_honest(tmp_path: Path) -> None:
    left, right = program(), []
    rounded: dict[int, Bits] = {}
    for spec in left:
        inputs = [rounded.setdefault(id(value), bfloat16(value)) for value in spec.inputs]
        outputs = [rounded.setdefault(id(value), bfloat16(value)) for value in spec.outputs]
        right.append(Spec(spec.api, inputs, outputs, module=spec.module))
    for data in ("tensors", "stats"):
        report = compare(tmp_path / data, left, right, data)
        assert report.verdict is Verdict.PASS, [row.reason for row in report.calls if row.verdict is not Verdict.PASS]


def test_another_shape_is_a_fault(tmp_path: Path) -> None:
    x = array(8, 4)
    report = compare(tmp_path, [Spec("torch.sum", [x, 0], [x.sum(0)])], [Spec("torch.sum", [x, 1], [x.sum(1)])])
    assert report.verdict is Verdict.FAIL
    assert "shape" in report.calls[0].reason
    assert report.origin is not None
    assert "args.1: 0 -> 1" in report.origin.explanation


def test_a_tensor_left_out_of_a_list_is_a_fault(tmp_path: Path) -> None:
    parameters = [array(16, seed=n) for n in range(4)]
    moved = [(one * 0.9).astype(np.float32) for one in parameters]
    left = Spec("torch._foreach_mul_", [parameters, 0.9], mutated={f"args.0.{n}": one for n, one in enumerate(moved)})
    right = Spec(
        "torch._foreach_mul_", [parameters[:3], 0.9], mutated={f"args.0.{n}": one for n, one in enumerate(moved[:3])}
    )
    report = compare(tmp_path, [left], [right])
    assert report.verdict is Verdict.FAIL
    assert "args.0.3" in report.calls[0].reason


def test_missing_ranks_are_reported(tmp_path: Path) -> None:
    report = compare(tmp_path, {0: program(), 1: program()}, {0: program()})
    assert report.missing_ranks["candidate"] == (1,)
    assert report.verdict is Verdict.NOT_COMPARED
    assert any("rank 1" in note for note in report.notes)


def test_the_rank_of_the_fault_is_named_and_collectives_are_victims(tmp_path: Path) -> None:
    def rank(number: int, fault: bool) -> list[Spec]:
        x = array(16, 16, seed=number)
        y = (x * 2).astype(np.float32)
        wrong = (y * np.float32(1.01)).astype(np.float32)
        other = (array(16, 16, seed=1 - number) * 2).astype(np.float32)
        mine = wrong if fault and number == 1 else y
        theirs = (other * np.float32(1.01)).astype(np.float32) if fault and number == 0 else other
        total = (mine + theirs).astype(np.float32)
        return [
            Spec("torch.mul", [x, 2], [mine], module="m"),
            Spec("torch.distributed.all_reduce", [mine], [], mutated={"args.0": total}),
        ]

    report = compare(tmp_path, {n: rank(n, False) for n in (0, 1)}, {n: rank(n, True) for n in (0, 1)})
    assert report.first_divergence is not None
    assert (report.first_divergence.rank, report.first_divergence.api) == (1, "torch.mul")
    assert "rank 1" in report.origin.explanation  # type: ignore[union-attr]
    assert report.counts["FAIL"] == 1


def test_backward_calls_follow_their_forward_call(tmp_path: Path) -> None:
    def calls(swap: bool, fault: bool) -> list[Spec]:
        a, b = array(8, 8, seed=1), array(8, 8, seed=2)
        first = Spec("torch.relu", [a], [np.maximum(a, 0)])
        second = Spec("torch.relu", [b], [np.maximum(b, 0)])
        grad_a, grad_b = array(8, 8, seed=3), array(8, 8, seed=4)
        leaving = grad_a if fault else grad_a * (a > 0)
        back_first = Spec("torch.relu", [grad_a], [leaving], phase=Phase.BACKWARD, forward=first)
        back_second = Spec("torch.relu", [grad_b], [grad_b * (b > 0)], phase=Phase.BACKWARD, forward=second)
        return [first, second, *([back_first, back_second] if swap else [back_second, back_first])]

    report = compare(tmp_path / "x", calls(False, False), calls(True, False))
    assert report.verdict is Verdict.PASS
    report = compare(tmp_path / "y", calls(False, False), calls(False, True))
    assert report.first_divergence is not None
    assert report.first_divergence.phase is Phase.BACKWARD
    assert report.first_divergence.forward_id == 0


def test_other_random_numbers_are_told_as_the_origin(tmp_path: Path) -> None:
    x = array(64, 64)
    masks = [np.random.default_rng(seed).random(x.shape) > 0.1 for seed in (1, 2)]
    left, right = ((x * mask / np.float32(0.9)).astype(np.float32) for mask in masks)
    spec = "torch.nn.functional.dropout"
    report = compare(tmp_path / "x", [Spec(spec, [x, 0.1], [left])], [Spec(spec, [x, 0.1], [right])])
    assert report.verdict is Verdict.FAIL
    assert report.origin is not None and report.origin.kind == "randomness"
    assert "seeds" in report.calls[0].reason
    unscaled = (left * np.float32(0.9)).astype(np.float32)
    for data in ("tensors", "stats"):
        report = compare(tmp_path / data, [Spec(spec, [x, 0.1], [left])], [Spec(spec, [x, 0.1], [unscaled])], data)
        assert report.verdict is Verdict.FAIL
        assert "scaled" in report.calls[0].reason


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_backward_follows_the_numbers_that_its_forward_drew(tmp_path: Path, data: str) -> None:
    def calls(seed: int, gradient_seed: int) -> list[Spec]:
        x, arrives = array(64, 64), array(64, 64, seed=9)
        masks = [
            ((np.random.default_rng(one).random(x.shape) > 0.1) / 0.9).astype(np.float32)
            for one in (seed, gradient_seed)
        ]
        forward = Spec("torch.nn.functional.dropout", [x, 0.1], [x * masks[0]])
        return [forward, Spec(forward.api, [arrives], [arrives * masks[1]], phase=Phase.BACKWARD, forward=forward)]

    report = compare(tmp_path / "other seed", calls(1, 1), calls(2, 2), data)
    assert [call.verdict for call in report.calls] == [Verdict.FAIL, Verdict.WARN]
    assert report.origin is not None and report.origin.kind == "randomness"
    report = compare(tmp_path / "other mask", calls(1, 1), calls(1, 2), data)
    assert [call.verdict for call in report.calls] == [Verdict.PASS, Verdict.FAIL]


def test_one_wrong_element_among_many_is_found(tmp_path: Path) -> None:
    x = array(512, 512, seed=1)
    y = (x * 3).astype(np.float32)
    spoiled = y.copy()
    spoiled[100, 100] += 0.01
    for data in ("tensors", "stats"):
        report = compare(
            tmp_path / data, [Spec("torch.mul", [x, 3], [y])], [Spec("torch.mul", [x, 3], [spoiled])], data
        )
        assert report.verdict is Verdict.FAIL


def test_steps_and_ranks_can_be_chosen(tmp_path: Path) -> None:
    report = compare(tmp_path, program(steps=3), program("layers.0.add", steps=3), steps=[1])
    assert {row.call.step for row in report.calls} == {1}
    with pytest.raises(UsageError, match="no step in common"):
        compare_runs(tmp_path / "a", tmp_path / "b", steps=[9])
    with pytest.raises(UsageError, match="no rank in common"):
        compare_runs(tmp_path / "a", tmp_path / "b", ranks=[5])


def test_runs_that_cannot_be_compared_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(runs, "open_run", lambda path: opened.append(open_run(path)) or opened[-1])
    with pytest.raises(UsageError, match="no step in common"):
        compare(tmp_path, program(), program(), steps=[7])
    assert len(opened) == 2 and not any(run._readers for run in opened)
    with compare(tmp_path / "again", program(), program()):
        assert all(run._readers for run in opened[2:])  # a comparison reads on
    assert len(opened) == 4 and not any(run._readers for run in opened)


def test_values_without_tensors(tmp_path: Path) -> None:
    x = array(4)
    same = Spec("torch.Tensor.size", [x], [[4]])
    report = compare(tmp_path, [same, Spec("torch.barrier")], [same, Spec("torch.barrier")])
    assert [row.verdict for row in report.calls] == [Verdict.PASS, Verdict.NOT_COMPARED]
    assert report.verdict is Verdict.PASS


def test_series_and_measurements(tmp_path: Path) -> None:
    report = compare(tmp_path, program(), program("layers.1.matmul"))
    series = report.series()
    assert len(series["output_distance"]) == len(report.calls)
    assert series["api"][3] == "torch.matmul"
    row = report.calls[3]
    assert row.output_distance == pytest.approx(0.002, rel=1e-3)
    (output,) = [tensor for tensor in row.tensors if tensor.role.value == "output"]
    assert output.measurement is not None
    assert output.measurement.max_rel == pytest.approx(0.002, rel=1e-2)
    assert output.limit is not None and 0.0 < output.limit < 1e-4
    assert output.reference is not None and output.reference.path == "out"
    report.close()


def test_ptdbg_looks_at_outputs_alone(tmp_path: Path) -> None:
    assert compare(tmp_path, program(), program("layers.1.matmul"), standard="ptdbg").verdict is Verdict.PASS
    x = array(64)
    folder = tmp_path / "sign"
    report = compare(folder, [Spec("torch.f", [x], [x * 2])], [Spec("torch.f", [x], [x * -2])], standard="ptdbg")
    assert report.verdict is Verdict.FAIL
    with pytest.raises(UsageError, match="honest, ptdbg"):
        compare_runs(tmp_path / "a", tmp_path / "b", standard="nonsense")


@pytest.mark.parametrize("data", MODES)
def test_nothing_is_relative_to_zero(tmp_path: Path, data: str) -> None:
    """Where a sum vanishes, what is left of it is measured by what was summed."""
    x, zero = array(32, 32), np.zeros((32, 32), np.float32)
    for left_over, verdict in ((1e-9, Verdict.PASS), (1e-3, Verdict.FAIL), (100.0, Verdict.FAIL)):
        specs = [Spec("torch.sub", [x, x], [out]) for out in (zero, np.full_like(zero, left_over))]
        report = compare(tmp_path / str(left_over), [specs[0]], [specs[1]], data)
        assert report.verdict is verdict, report.calls[0].reason


def test_outputs_of_another_dtype_or_shape_are_faults_whatever_their_numbers(tmp_path: Path) -> None:
    x = array(8, 8)
    for name, other, words in (("dtype", x.astype(np.float64), "is float64"), ("shape", x.reshape(4, 16), "[4, 16]")):
        report = compare(tmp_path / name, [Spec("torch.relu", [x], [x])], [Spec("torch.relu", [x], [other])])
        assert report.verdict is Verdict.FAIL
        assert words in report.calls[0].reason
    half = bfloat16(x)
    report = compare(tmp_path / "cast", [Spec("torch.Tensor.to", [x], [x])], [Spec("torch.Tensor.to", [x], [half])])
    assert report.verdict is Verdict.PASS
    asked = [Spec("torch.sum", [x], [out], kwargs={"dtype": {"$dtype": name}}) for name, out in
             (("float32", x.sum(0)), ("float64", x.sum(0).astype(np.float64)))]  # fmt: skip
    assert compare(tmp_path / "asked", [asked[0]], [asked[1]]).verdict is Verdict.PASS
