"""A check on a terminal: what is said first, that the counts add up, what cannot be smuggled in."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.checks import case_of, evidence_of, info_of, result_of
from tests.report.fake_check import fake_check
from trueline.cases import Status
from trueline.records import Verdict
from trueline.report.check_text import check_blocks
from trueline.report.check_wording import call_words, check_command, failures_of, position_of, tally_of, worst_element
from trueline.report.terminal import plain


def text_of(*check: object, **options: object) -> str:
    return plain(check_blocks(*check, **options))  # type: ignore[arg-type]


def test_the_verdict_comes_first() -> None:
    first = text_of(*fake_check()).splitlines()[0]
    assert first == "ERROR  7 of 106 cases are wrong; the worst: torch.matmul in encoder.layers.3.mlp"
    assert text_of(*fake_check(30, faults=False)).splitlines()[0] == "PASS  30 cases checked, none wrong"


def test_the_counts_add_up() -> None:
    text = text_of(*fake_check())
    for label in ("calls", "cases"):
        found = re.search(rf"^  {label} +([\d,]+) = (.*)$", text, re.MULTILINE)
        assert found, text
        parts = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) [a-z]", found[2])]
        assert len(parts) > 3 and sum(parts) == int(found[1].replace(",", ""))


def test_calls_that_were_not_executed_are_counted() -> None:
    info, results = fake_check()
    tally = tally_of(info, results[:50])
    assert tally.left > 0
    assert tally.checked + tally.merged + tally.skipped + tally.left == tally.calls == info.calls
    assert f"{tally.left} not executed" in text_of(info, results[:50])


def test_a_failure_tells_call_numbers_place_and_source() -> None:
    info, results = fake_check()
    text = text_of(info, [result for result in results if result.case.seed != 33])  # which is worse, of the same API
    told = text[text.index("41.2 times the limit") - 40 : text.index("besides")]
    assert "FAIL  torch.nn.functional.gelu" in told
    assert "(float32[8, 16, 128], float32[128, 128], eps=1e-05, mode='none')" in told
    assert "output out (float32): RMSE 3.2e-03 against the gold, 41 times" in told
    assert "worst    [7, 26]: -3.2839527 instead of -3.2514384" in told
    assert "encoder.layers.9.mlp, model.py:49 in forward" in text
    assert "torch.nn.functional.gelu.9.forward and 2 more" in text


def test_errors_come_before_failures_and_worse_before_better() -> None:
    _, results = fake_check()
    wrong = failures_of(results)
    assert [result.verdict for result in wrong[:3]] == [Verdict.ERROR, Verdict.ERROR, Verdict.FAIL]
    assert [result.case.seed for result in wrong[2:5]] == [33, 9, 25]


def test_reasons_are_told_with_their_numbers() -> None:
    text = text_of(*fake_check())
    assert "2  returned nothing that could be compared" in text
    assert "12  optimizer step: nothing is returned" in text
    assert "1  torch.nn.functional.linear: out: 2 of 256 elements are off by 9 ULP" in text


def test_many_failures_are_told_by_api() -> None:
    text = text_of(*fake_check(), rows=2)
    assert re.search(r"torch\.nn\.functional\.gelu +3 +beyond any limit", text)
    assert "Failures by API" not in text_of(*fake_check(), rows=20)


def test_failures_that_are_alike_are_told_once() -> None:
    crash = "crashed: killed by signal 11 (SIGSEGV)"
    same = [
        result_of(Verdict.ERROR, case_of("torch.relu", seed=n), status=Status.CRASHED, reason=crash) for n in range(9)
    ]
    other = result_of(Verdict.FAIL, case_of("torch.gelu"), score=3.0)
    text = text_of(info_of(calls=10), [*same, other], rows=2)
    assert text.count("SIGSEGV") == 1 and "8 more cases of this API, wrong in the same way" in text
    assert "FAIL  torch.gelu  3 times the limit" in text


def test_it_fits_a_hundred_columns_but_for_commands() -> None:
    _, results = fake_check()
    long = result_of(Verdict.FAIL, case_of("torch.x", module="layer." * 30, source="a/very" * 20 + ".py:1 in f"),
                     reason="word " * 60)  # fmt: skip
    text = text_of(info_of(calls=200), [*results, long])
    body = text[: text.index("Next\n")]
    assert max(len(row) for row in body.splitlines()) <= 100


def test_next_is_the_script_of_the_failure_where_it_was_kept(tmp_path: Path) -> None:
    info, results = fake_check()
    assert "--out check --save-failures" in text_of(info, results)
    script = tmp_path / "failures" / failures_of(results)[0].case.key / "repro.py"
    script.parent.mkdir(parents=True)
    script.write_text("print()\n", encoding="utf-8")
    text = text_of(info, results, folder=tmp_path)
    assert f"python {script}" in text and "--save-failures" not in text
    assert f"trueline report {tmp_path} --html check.html" in text
    assert "--html" not in text_of(info, results, folder=tmp_path, html_written=True)


def test_nothing_executed_and_nothing_compared() -> None:
    assert text_of(info_of(calls=3, skipped={"why not": 3}), []).startswith("NOT COMPARED  No case was executed")
    one = result_of(Verdict.NOT_COMPARED, reason="nothing")
    assert text_of(info_of(calls=1), [one]).startswith("NOT COMPARED  None of 1 case could be compared")


def test_escape_sequences_do_not_reach_the_terminal() -> None:
    case = case_of("torch.\x1b[31mrelu", module="\x1b]0;title\x07", source="\u202eevil.py:1")
    text = text_of(info_of(calls=1), [result_of(Verdict.FAIL, case, reason="\x1b[2J")])
    assert not re.search("[\x1b\x07\u202e]", text)
    assert "\\x1b[31mrelu" in text


def test_the_worst_element_is_the_one_that_is_least_explained() -> None:
    gold = np.array([[1.0, 1000.0], [2.0, 4.0]])
    evidence = evidence_of(gold + np.array([[0.1, 1.0], [0.0, 0.0]]), gold, gold)
    assert str(worst_element(evidence)) == "[0, 1]: 1001 instead of 1000"
    peak = {"peak": 9.0, "peak_at": 0.0, "peak_candidate": 1.1, "peak_gold": 1.0}
    assert str(worst_element(replace(evidence, numbers=peak))) == "[0, 0]: 1.1 instead of 1"
    broken = {**peak, "nan_wrong": 1.0, "infinity_wrong": 0.0, "not_finite_at": 3.0}
    assert str(worst_element(replace(evidence, numbers=broken))).startswith("[1, 1]: NaN or Inf")
    assert worst_element(evidence_of(gold, gold, gold)) is None


@pytest.mark.parametrize(
    ("flat", "shape", "told"), [(0, (3,), (0,)), (7, (2, 4), (1, 3)), (0, (), ()), (5, (1, 6), (0, 5))]
)
def test_positions(flat: int, shape: tuple[int, ...], told: tuple[int, ...]) -> None:
    assert position_of(flat, shape) == told


def test_calls_are_written_as_they_were_made() -> None:
    case = case_of("torch.add", dtypes=("float32", "int64"), autocast="bfloat16")
    assert call_words(case) == "torch.add(float32[8, 32], int64[8, 32], approximate='none') under autocast bfloat16"


def test_the_command_makes_the_same_check_again() -> None:
    info = info_of(
        sources=("runs/a b", "ops torch.nn.*"), seed=3, standard="allclose(rtol=0.1)", overrides={"torch.relu": "m:f"}
    )
    assert check_command(info) == (
        "trueline check 'runs/a b' --ops 'torch.nn.*' --target torch:cuda:0/bfloat16 --reference torch:cpu "
        "--standard 'allclose(rtol=0.1)' --seed 3 --override torch.relu=m:f"
    )
