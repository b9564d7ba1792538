"""The benchmark of faults on a corpus: the faults are faults, and the tables count what was tried."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trueline.cases import Outcome, Status
from trueline.frameworks.base import ArrayOut, Executed

pytest.importorskip("paddle")

from benchmarks.corpus_faults import (
    FAULTS,
    faithful,
    predecessor_accepts,
    predecessor_inputs,
    same_results,
    spoiled,
)

from benchmarks import corpus_power, corpus_wrong


def executed(values: object, dtype: str = "float32", wide: str = "") -> Executed:
    array = np.array(values, dtype=wide or dtype)
    out = ArrayOut(array, wide or dtype, array.shape, (1,) * array.ndim, "cpu")
    return Executed(Outcome(Status.RETURNED), {"out": out})


def bits(found: Executed | None) -> list[float]:
    assert found is not None
    content = found.outputs["out"].bits
    assert content is not None
    return list(content)


def test_faults_do_what_they_say() -> None:
    right = executed([1.0, -2.0, 4.0])
    assert bits(spoiled(right, "output", FAULTS["negated"])) == [-1, 2, -4]
    assert bits(spoiled(right, "output", FAULTS["rolled by one"])) == [4, 1, -2]
    assert bits(spoiled(right, "output", FAULTS["one element zeroed"])) == [1, 0, 4]
    assert bits(spoiled(right, "output", FAULTS["x1.02"])) == pytest.approx([1.02, -2.04, 4.08])
    assert bits(spoiled(executed([True, False], "bool"), "output", FAULTS["negated"])) == [False, True]


def test_a_fault_that_changes_nothing_is_none() -> None:
    right = executed([1.0, -2.0, 4.0])
    assert spoiled(right, "output", FAULTS["rounded to bfloat16"]) is None
    assert spoiled(right, "gradient", FAULTS["negated"]) is None
    assert spoiled(executed([0.0, 0.0]), "output", FAULTS["negated"]) is None  # -0.0 is 0.0
    assert spoiled(executed([3, 4], "int64"), "output", FAULTS["+0.005 everywhere"]) is None
    assert spoiled(executed([1.1]), "output", FAULTS["float64 rounded to float32"]) is None


def test_neighbours_of_the_exact_result_are_faithful() -> None:
    exact = executed([1 / 3], wide="float64")
    near = executed([np.float32(1 / 3)])
    assert faithful(near, exact, "output")
    assert faithful(executed([np.nextafter(np.float32(1 / 3), np.float32(0))]), exact, "output")
    assert not faithful(executed([np.float32(1 / 3) * np.float32(1.0001)]), exact, "output")


def test_the_predecessor_accepts_a_hundredth() -> None:
    right = executed([0.25, -0.5])
    assert predecessor_accepts(executed([0.255, -0.505]), right)
    assert not predecessor_accepts(executed([0.3, -0.5]), right)
    assert predecessor_accepts(executed([np.nan]), executed([np.nan]))


def test_the_predecessors_data_are_its_own() -> None:
    case = corpus_power._case('paddle.where(Tensor([50],"bool"), Tensor([50],"complex64"), Tensor([50],"float32"), )')
    assert case is not None
    drawn = predecessor_inputs(case).tensors
    assert drawn["args.0"].bits.all() and not drawn["args.1"].bits.imag.any()
    assert np.abs(drawn["args.2"].bits).max() <= 0.5


def test_every_wrong_implementation_can_be_planted() -> None:
    for name, faults in corpus_wrong.WRONG.items():
        assert all(callable(getattr(corpus_wrong, function)) for function in faults.values()), name
    assert len(corpus_wrong.WRONG) >= 60
    assert corpus_wrong.overrides_for("paddle.Tensor.sin") == {
        "ends its series after three terms": "benchmarks.corpus_wrong:short_sine"
    }
    assert corpus_wrong.overrides_for("torch.sin") == {}


def test_same_results_are_told_from_others() -> None:
    assert same_results(executed([1.0, np.nan]), executed([1.0, np.nan]))
    assert not same_results(executed([1.0]), executed([1.5]))
    assert not same_results(executed([1.0]), executed([1.0], "float64"))


def test_a_small_corpus_is_tried_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tmp_path / "lines.txt"
    corpus.write_text('paddle.logical_and(Tensor([9],"bool"), Tensor([9],"bool"), )\npaddle.nonsense(\n'
                      'paddle.tanh(Tensor([9],"float32"), )\n')  # fmt: skip
    monkeypatch.setattr(corpus_power, "RESULTS", tmp_path)
    assert corpus_power.main(["--corpus", str(corpus), "--workers", "0", "--name", "three lines"]) == 0
    record = json.loads((tmp_path / "corpus_power.json").read_text())["three lines"]
    assert record["tried"] == 2 and record["left out"] == {"cannot be read": 1}
    assert record["faults"]["wrong logical_and is or"]["ours"] == {"found": 1}
    assert record["faults"]["wrong logical_and is or"]["theirs"] == {"missed": 1}
    assert record["faults"]["value output: x1.005"] == {
        "ours": {"found": 1, "same": 1},
        "theirs": {"missed": 1, "same": 1},
    }
    page = (tmp_path / "corpus_power.md").read_text()
    assert "three lines" in page and "tanh ends its series" in page
