"""Three Runs: a gold, a candidate, and a peer whose errors say what is to be expected of the candidate's."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trueline
from tests.helpers.synthetic import Spec, bfloat16, write_run
from trueline.cli import main
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.numerics import widen
from trueline.records import Phase, Verdict

Array = np.ndarray[Any, Any]
BFLOAT16 = dtype_named("bfloat16")


def rounded(values: Array) -> Array:
    """Numbers that bfloat16 holds, as float32."""
    return np.asarray(widen(bfloat16(values).bits, BFLOAT16)).astype(np.float32)


def product(x: Array, w: Array, order: int) -> Array:
    """A matrix product in float32, summed in another order for every number."""
    places = np.random.default_rng(order).permutation(x.shape[-1])
    return (x[:, places] @ w[places]).astype(np.float32)


def mean(x: Array, order: int) -> Array:
    weights = np.full((x.size, 1), 1 / x.size, dtype=np.float32)
    return np.array(product(x.reshape(1, -1), weights, order).item(), dtype=np.float32)


def calls(kind: str, order: int = 0, worse: float = 1.0, seed: int = 0) -> list[Spec]:
    """matmul with its gradients, softmax, transpose, argmax and a mean; ``kind`` is gold, float32 or bfloat16,
    ``worse`` multiplies the errors of the product."""
    random = np.random.default_rng(seed)
    x, w = (rounded(random.standard_normal(shape).astype(np.float32)) for shape in ((48, 64), (64, 40)))
    arrives = rounded(random.standard_normal((48, 40)).astype(np.float32))

    def keep(exact: Array, computed: Array) -> Any:
        if kind == "gold":
            return np.asarray(exact, dtype=np.float32)
        made = rounded(computed) if kind == "bfloat16" else computed
        made = np.asarray(exact + worse * (made.astype(np.float64) - exact), dtype=np.float32)
        return bfloat16(made) if kind == "bfloat16" else made

    def given(values: Array) -> Any:
        return bfloat16(values) if kind == "bfloat16" else values

    exact = x.astype(np.float64) @ w
    forward = Spec("paddle.matmul", [given(x), given(w)], [keep(exact, product(x, w, order))])
    gradients = [arrives.astype(np.float64) @ w.T, x.T.astype(np.float64) @ arrives]
    computed = [product(arrives, w.T.copy(), order), product(x.T.copy(), arrives, order)]
    backward = Spec("paddle.matmul", [given(arrives)], [keep(*pair) for pair in zip(gradients, computed, strict=True)],
                    phase=Phase.BACKWARD, forward=forward)  # fmt: skip
    e = np.exp(x.astype(np.float64) - x.max())
    soft = e / e.sum(-1, keepdims=True)
    return [
        forward,
        Spec("paddle.nn.functional.softmax", [given(x)], [keep(soft, soft.astype(np.float32))]),
        Spec("paddle.transpose", [given(x), [1, 0]], [given(np.ascontiguousarray(x.T))]),
        Spec("paddle.argmax", [given(x)], [np.array(int(x.argmax()))]),
        Spec("paddle.mean", [given(x)], [keep(np.array(x.mean(dtype=np.float64)), mean(x, order))]),
        backward,
    ]


def three(tmp_path: Path, gold: list[Spec], candidate: list[Spec], baseline: list[Spec]) -> tuple[Path, Path, Path]:
    names = ("gold", "candidate", "baseline")
    made = [write_run(tmp_path / name, one) for name, one in zip(names, (gold, candidate, baseline), strict=True)]
    return made[0], made[1], made[2]


@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
@pytest.mark.parametrize("seed", range(6))
def test_two_equally_good_devices_are_quiet(tmp_path: Path, kind: str, seed: int) -> None:
    runs = three(tmp_path, calls("gold", seed=seed), calls(kind, 1, seed=seed), calls(kind, 2, seed=seed))
    for candidate, baseline in ((runs[1], runs[2]), (runs[2], runs[1])):
        with trueline.compare(runs[0], candidate, baseline=baseline) as report:
            assert report.verdict is Verdict.PASS, [(row.call.name, row.reason) for row in report.calls]
            assert report.standard == "peer"
            assert report.counts["PASS"] == len(report.calls) == 6


def test_three_times_the_error_fails_in_the_calls_that_make_it(tmp_path: Path) -> None:
    runs = three(tmp_path, calls("gold"), calls("bfloat16", 1, worse=3.0), calls("bfloat16", 2))
    with trueline.compare(runs[0], runs[1], baseline=runs[2]) as report:
        failed = {row.call.name for row in report.calls if row.verdict is Verdict.FAIL}
        assert failed == {
            "paddle.matmul.0.forward", "paddle.matmul.0.backward", "paddle.nn.functional.softmax.0.forward",
        }  # fmt: skip
        assert report.first_divergence is not None and report.first_divergence.name == "paddle.matmul.0.forward"
        (output,) = [tensor for tensor in report.calls[0].tensors if tensor.errors]
        ratios = {error.metric: error.ratio for error in output.errors}
        assert ratios["RMSE"] == pytest.approx(3.0, rel=0.2)
        assert ratios["distance"] == pytest.approx(3.0, rel=0.2)
        assert "the peer's" in output.reason
        assert output.baseline is not None and output.baseline.dtype == "bfloat16"


def test_a_clearly_larger_error_is_a_warning(tmp_path: Path) -> None:
    """In bfloat16 there is no reason for it: both compute in float32 and round once."""
    shape = (128, 64)
    random = np.random.default_rng(5)
    exact = random.standard_normal(shape)
    off = exact * 2.0**-8 * 0.6 * random.standard_normal(shape)
    given = [bfloat16(one.astype(np.float32)) for one in (exact, exact + off)]
    x = bfloat16(random.standard_normal(shape).astype(np.float32))
    outputs = (exact.astype(np.float32), given[1], given[0])
    runs = three(tmp_path, *([Spec("paddle.tanh", [x], [out])] for out in outputs))
    with trueline.compare(runs[0], runs[1], baseline=runs[2]) as report:
        assert report.verdict is Verdict.WARN
        assert "1.74 times" in report.calls[0].reason


def test_apex_multi_has_its_own_rules(tmp_path: Path) -> None:
    gold, worse, peer = three(tmp_path, calls("gold"), calls("bfloat16", 1, worse=3.0), calls("bfloat16", 2))
    with trueline.compare(gold, worse, baseline=peer, standard="apex-multi") as report:
        verdicts = {row.call.name: row.verdict for row in report.calls}
        assert verdicts["paddle.matmul.0.forward"] is Verdict.FAIL
        assert "RMSE" in report.calls[0].reason
        assert verdicts["paddle.argmax.0.forward"] is Verdict.PASS
    little = write_run(tmp_path / "little", calls("bfloat16", 1, worse=2.2))
    with trueline.compare(gold, little, baseline=peer, standard="apex-multi") as report:
        assert report.verdict >= Verdict.WARN  # its warnings above a ratio of 1


def test_wrong_integers_and_not_finite_numbers(tmp_path: Path) -> None:
    broken = calls("bfloat16", 1)
    bits = broken[0].outputs[0].bits.copy()
    bits[3, 3] = 0x7FC0
    broken[0] = Spec(broken[0].api, broken[0].inputs, [type(broken[0].outputs[0])(bits, "bfloat16")])
    broken[3] = Spec(broken[3].api, broken[3].inputs, [np.array(1)])
    runs = three(tmp_path, calls("gold")[:5], broken[:5], calls("bfloat16", 2)[:5])
    with trueline.compare(runs[0], runs[1], baseline=runs[2]) as report:
        assert [row.verdict for row in report.calls] == [Verdict.FAIL, *[Verdict.PASS] * 2, Verdict.FAIL, Verdict.PASS]
        assert "NaN" in report.calls[0].reason


def test_a_peer_that_is_as_wrong_explains_it(tmp_path: Path) -> None:
    worse = [calls("bfloat16", order, worse=3.0) for order in (1, 2)]
    runs = three(tmp_path, calls("gold"), *worse)
    with trueline.compare(runs[0], runs[1], baseline=runs[2]) as report:
        assert report.counts["FAIL"] == 0


def test_what_the_peer_lacks_is_not_compared(tmp_path: Path) -> None:
    runs = three(tmp_path, calls("gold"), calls("bfloat16", 1), calls("bfloat16", 2)[1:5])
    with trueline.compare(runs[0], runs[1], baseline=runs[2]) as report:
        missing = [row for row in report.calls if row.verdict is Verdict.NOT_COMPARED]
        assert {row.call.api for row in missing} == {"paddle.matmul"}
        assert all("the baseline has no such tensor" in row.reason for row in missing)
        assert report.verdict is Verdict.NOT_COMPARED


def test_without_tensors_nothing_passes(tmp_path: Path) -> None:
    gold = write_run(tmp_path / "gold", calls("gold"), data="stats")
    others = [write_run(tmp_path / name, calls("bfloat16", 1)) for name in ("a", "b")]
    with trueline.compare(gold, others[0], baseline=others[1]) as report:
        assert report.verdict is Verdict.NOT_COMPARED
        assert "did not keep this tensor" in report.calls[0].reason


def test_standards_that_need_a_third_run_say_so(tmp_path: Path) -> None:
    runs = three(tmp_path, calls("gold"), calls("bfloat16", 1), calls("bfloat16", 2))
    with pytest.raises(UsageError, match="--baseline"):
        trueline.compare(runs[0], runs[1], standard="apex-multi")
    with pytest.raises(UsageError, match="peer"):
        trueline.compare(runs[0], runs[1], baseline=runs[2], standard="ptdbg")


def test_the_command_writes_every_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, worse, peer = map(str, three(tmp_path, calls("gold"), calls("bfloat16", 1, worse=3.0), calls("bfloat16", 2)))
    files = {name: str(tmp_path / f"report.{name}") for name in ("html", "csv", "json")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    assert main(["compare", gold, worse, "--baseline", peer, *options]) == 1
    text = capsys.readouterr().out
    assert "x RMSE" in text and "by the errors of the baseline" in text and "standard peer" in text
    content = json.loads(Path(files["json"]).read_text(encoding="utf-8"))
    assert content["baseline"]["path"] == peer
    output = content["calls"][0]["tensors"][-1]
    assert {error["metric"] for error in output["errors"]} >= {"RMSE", "balance", "small value share", "distance"}
    with open(files["csv"], encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    first = next(row for row in rows if row["Ratio of RMSE"] != "N/A")
    assert math.isclose(float(first["Ratio of RMSE"]), float(first["Candidate RMSE"]) / float(first["Baseline RMSE"]))
    assert "by the errors of" in Path(files["html"]).read_text(encoding="utf-8")
