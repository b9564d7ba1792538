"""Stages without the hook: what they print and save."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.probing_helpers import Chain, failures, linear_model, pictures
from trueline.errors import UsageError
from trueline.pipeline.readers import _open
from trueline.pipelines import StageKind
from trueline.records import Verdict

PRINTED = {"regex": r"score: (\S+)", "every": True}


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.chdir(tmp_path)
    return Chain(tmp_path, monkeypatch)


def printed(chain: Chain, before: str, after: str) -> None:
    for name, kind, text in (("train", StageKind.TRAIN, before), ("infer", StageKind.INFER, after)):
        with chain.stage(name, kind):
            Path(f"{name}.log").write_text(text)


@pytest.mark.parametrize(
    ("number", "half"), [("3", 0.0), ("0.25", 0.005), ("1e-3", 0.0005), ("1.50e+2", 0.5), ("nan", 0.0)]
)
def test_printed_digits_leave_so_much_open(number: str, half: float) -> None:
    assert _open(number) == pytest.approx(half)


def test_printed_numbers_agree_within_their_digits(chain: Chain) -> None:
    printed(chain, "score: 0.123456\nscore: 2.5\n", "a line\nscore: 0.12\nscore: 2.5\n")
    found = chain.check("train", "infer", readers={"train": {"x": PRINTED}, "infer": {"x": PRINTED}})
    assert found["x"].verdict is Verdict.PASS and found["x"].numbers["count"] == 2


@pytest.mark.parametrize("text", ["score: 0.14\nscore: 2.5\n", "score: nan\nscore: 2.5\n"])
def test_other_numbers_fail(chain: Chain, text: str) -> None:
    printed(chain, "score: 0.123456\nscore: 2.5\n", text)
    found = chain.check("train", "infer", readers={"train": {"x": PRINTED}, "infer": {"x": PRINTED}})
    assert failures(found) == {"x": "infer"}


def test_a_printed_metric_is_compared_with_that_of_a_hook(chain: Chain) -> None:
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", linear_model(), [pictures()], metrics={"top1": 0.875})
    with chain.stage("infer", StageKind.INFER):
        Path("infer.log").write_text("epoch 1 top1 0.10\nepoch 2 top1 0.875\n")
    readers = {"infer": {"top1": {"regex": r"top1 (?P<value>[\d.]+)"}}}
    assert chain.check("train", "infer", readers=readers)["top1"].verdict is Verdict.PASS
    Path("infer.log").write_text("top1 0.500\n")
    assert failures(chain.check("train", "infer", readers=readers)) == {"top1": "infer"}


def test_saved_arrays_are_compared_with_the_outputs_of_a_hook(chain: Chain) -> None:
    model = linear_model()
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", model, [pictures()])
    with chain.stage("infer", StageKind.INFER):
        np.save("part0.npy", model(pictures())[:4])
        np.save("part1.npy", model(pictures())[4:])
        np.savez("labels.npz", labels=model(pictures()).argmax(-1))
    readers = {"infer": {"outputs": {"npy": "part*.npy"}, "labels": {"npy": "labels.npz"}}}
    found = chain.check("train", "infer", readers=readers)
    assert found["outputs"].verdict is Verdict.PASS and found["outputs"].numbers["count"] == 48
    assert found["labels"].verdict is Verdict.PASS


def test_json_is_read_by_path(chain: Chain) -> None:
    for name, kind in (("train", StageKind.TRAIN), ("infer", StageKind.INFER)):
        with chain.stage(name, kind):
            Path(f"{name}.json").write_text(json.dumps({"all": [{"scores": [1.0, 2.0]}]}))
    readers = {name: {"x": {"json": f"{name}.json", "path": "all.0.scores"}} for name in ("train", "infer")}
    assert chain.check("train", "infer", readers=readers)["x"].verdict is Verdict.PASS
    wrong = {name: {"x": {"json": f"{name}.json", "path": "all.3"}} for name in ("train", "infer")}
    assert chain.check("train", "infer", readers=wrong)["x"].verdict is Verdict.NOT_COMPARED


def test_a_stale_file_fails(chain: Chain) -> None:
    np.save("old.npy", linear_model()(pictures()))
    os.utime("old.npy", (1_000_000_000, 1_000_000_000))
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", linear_model(), [pictures()])
    with chain.stage("infer", StageKind.INFER):
        pass
    found = chain.check("train", "infer", readers={"infer": {"outputs": {"npy": "old.npy"}}})
    assert failures(found) == {"outputs": "infer"} and "stale" in found["outputs"].reason


def test_what_is_not_there_fails_where_the_stage_before_has_it(chain: Chain) -> None:
    printed(chain, "score: 1.5\n", "nothing at all\n")
    found = chain.check("train", "infer", readers={"train": {"x": PRINTED}, "infer": {"x": PRINTED}})
    assert failures(found) == {"x": "infer"} and "is like" in found["x"].reason and "train has 1" in found["x"].reason


def test_what_neither_has_is_not_compared(chain: Chain) -> None:
    printed(chain, "nothing\n", "nothing at all\n")
    found = chain.check("train", "infer", readers={"train": {"x": PRINTED}, "infer": {"x": PRINTED}})
    assert found["x"].verdict is Verdict.NOT_COMPARED and "is like" in found["x"].reason
    other = chain.check("train", "infer", readers={"train": {"x": PRINTED}, "infer": {"y": PRINTED}})
    assert other["y"].verdict is Verdict.NOT_COMPARED and "infer: nothing in" in other["y"].reason


READ = {name: {"x": PRINTED} for name in ("train", "infer")}


def three(chain: Chain, before: str, after: str) -> Any:
    """A training and an inference that print, and an export between them that does not."""
    for name, kind, text in (("train", StageKind.TRAIN, before), ("export", StageKind.EXPORT, "exported\n"),
                             ("infer", StageKind.INFER, after)):  # fmt: skip
        with chain.stage(name, kind):
            Path(f"{name}.log").write_text(text)
    return chain.check("export", "infer", readers=READ)


def test_numbers_are_compared_with_the_nearest_stage_that_has_some(chain: Chain) -> None:
    found = three(chain, "score: 0.25\nscore: 2.5\n", "score: 0.25\nscore: 2.5\n")
    assert found["x"].verdict is Verdict.PASS and "agree with train" in found["x"].reason
    bare = chain.check("train", "export", readers=READ, followers=["infer"])
    assert bare["outputs"].verdict is Verdict.PASS and "x of what comes after it" in bare["outputs"].reason
    nobody = chain.check("train", "export", readers=READ)
    assert nobody["outputs"].verdict is Verdict.NOT_COMPARED
    Path("infer.log").write_text("score: 0.25\nscore: 2.7\n")
    assert failures(chain.check("export", "infer", readers=READ)) == {"x": "infer"}


@pytest.mark.parametrize(
    ("before", "after", "blamed"),
    [
        ("score: 0.25\nscore: 2.5\nscore: 3.5\n", "score: 0.25\nscore: 2.5\n", "infer"),  # rows are counted
        ("score: 0.25\nscore: 2.5\n", "score: 0.25\nscore: 2.5\nscore: 3.5\n", "infer"),
        ("score: nan\nscore: 2.5\n", "score: nan\nscore: 2.5\n", "train"),  # NaN is no agreement
        ("score: inf\nscore: 2.5\n", "score: inf\nscore: 2.5\n", "train"),
        ("score: 0.25\nscore: 2.5\n", "score: inf\nscore: 2.5\n", "infer"),
        ("score: inf\nscore: 2.5\n", "score: 0.25\nscore: 2.5\n", "infer"),
    ],
)
def test_what_is_no_agreement(chain: Chain, before: str, after: str, blamed: str) -> None:
    printed(chain, before, after)
    assert failures(chain.check("train", "infer", readers=READ)) == {"x": blamed}


def test_an_empty_file_fails(chain: Chain) -> None:
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", linear_model(), [pictures()])
    with chain.stage("infer", StageKind.INFER):
        np.save("outputs.npy", np.zeros((0, 6)))
    found = chain.check("train", "infer", readers={"infer": {"outputs": {"npy": "outputs.npy"}}})
    assert failures(found) == {"outputs": "infer"} and "is empty" in found["outputs"].reason


def test_fewer_rows_than_a_hook_has_are_not_compared(chain: Chain) -> None:
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", linear_model(), [pictures()])
    with chain.stage("infer", StageKind.INFER):
        np.save("outputs.npy", linear_model()(pictures())[:1])
    found = chain.check("train", "infer", readers={"infer": {"outputs": {"npy": "outputs.npy"}}})
    assert found["outputs"].verdict is Verdict.NOT_COMPARED and "6 numbers, in train 48" in found["outputs"].reason


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        ({"regexp": "x"}, "give one of"),
        ({"regex": "(x", "every": True}, "no regular expression"),
        ({"regex": "x"}, "no group"),
        ({"npy": "x", "limit": "much"}, "relative error"),
        ("x", "give one of"),
    ],
)
def test_a_wrong_reader_is_said(chain: Chain, reader: Any, words: str) -> None:
    printed(chain, "score: 1.0\n", "score: 1.0\n")
    with pytest.raises(UsageError, match=words):
        chain.check("train", "infer", readers={"train": {"x": reader}, "infer": {"x": reader}})
