"""A profile as text, CSV and JSON: what adds up, what is named, the columns that others read."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.helpers.profiles import info, result, side, timed
from trueline.judge.speed import judge_speed
from trueline.profiles import CaseProfile, Limits, Ratio, totals
from trueline.records import Verdict
from trueline.report import profile_csv
from trueline.report.profile_json import write_profile_json
from trueline.report.profile_text import profile_blocks
from trueline.report.profile_wording import duration, explained_line, rate
from trueline.report.terminal import plain

EQUAL = Ratio(1.0, 0.99, 1.01)
TWICE = Ratio(2.0, 1.95, 2.05)


def judged(measured: object, accuracy: Verdict | None = None) -> CaseProfile:
    verdict, reason, findings = judge_speed(measured, Limits())  # type: ignore[arg-type]
    return CaseProfile(measured, verdict, reason, findings, accuracy)  # type: ignore[arg-type]


@pytest.fixture
def results() -> list[CaseProfile]:
    slow = timed(side(2e-3, 1e-3, launch=2e-5), side(1e-3, 1e-3, launch=1e-5), TWICE, EQUAL)
    equal = timed(side(4e-4, peak=10), side(4e-4, peak=10), EQUAL, api="torch.relu")
    broken = timed(side(None), side(1e-3), api="torch.frobnicate")
    return [judged(slow, Verdict.FAIL), judged(equal, Verdict.PASS), judged(broken)]


def text(found: list[CaseProfile], **more: object) -> str:
    about = info(**more)  # type: ignore[arg-type]
    verdict = max((one.verdict for one in found), default=Verdict.NOT_COMPARED)
    return plain(profile_blocks(about, found, verdict))


def test_sums_are_of_all_calls_of_one_step(results: list[CaseProfile]) -> None:
    found = totals(results, info(steps=2))
    assert found["forward"] == pytest.approx(3 * (2e-3 + 4e-4) / 2)
    assert found["backward"] == pytest.approx(3 * 1e-3 / 2)
    assert found["seconds"] == pytest.approx(found["forward"] + found["backward"])
    assert found["lost"] == pytest.approx(3 * 1e-3 / 2)
    assert found["launch"] == pytest.approx(3 * 4e-5 / 2)


def test_the_text_names_what_is_slow_and_says_what_was_not_compared(results: list[CaseProfile]) -> None:
    said = text(results, step_seconds=1.2e-2, check="checks/a", calls=9, skipped={"a module": 1})
    assert said.startswith("FAIL  1 of 2 cases is beyond the limits: torch.nn.functional.gelu in net.layers.0")
    assert "1 case with wrong numbers" in " ".join(said.split())
    assert "10.2 ms = 7.2 ms forward + 3 ms backward; the host is busy for 120 µs" in said
    assert "85 % of the 12 ms that the step takes" in said
    assert "forward takes 2.00 times as long (spread 1.95 to 2.05, limit 1.2)" in said
    assert "torch.frobnicate: raised: RuntimeError: no kernel" in said
    assert "10 = 2 timed + 4 the same as these + 3 that did not return + 1 skipped" in said
    assert "50 % memory" in said and "50 GFLOP/s in float32, 20 GB/s" in said
    assert said.index("torch.nn.functional.gelu ") < said.index("torch.relu ")


def test_without_another_side_there_are_times_and_no_verdicts() -> None:
    said = text([judged(timed(side(1e-3), None))], against="")
    assert said.startswith("TIMED  1 case of 1 timed on torch:cuda")
    assert "ratio" not in said and "NOT COMPARED" not in said


def test_nothing_executed_is_said() -> None:
    assert text([]).startswith("NOT COMPARED  No case was executed")


def test_control_characters_of_a_name_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in text([judged(timed(side(1e-3), side(1e-3), EQUAL, api="torch.\x1b[31mrelu"))])


def rows(writer: object, *arguments: object) -> list[dict[str, str]]:
    stream = io.StringIO(newline="")
    writer(*arguments, stream)  # type: ignore[operator]
    return list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))


def test_the_csv_has_a_row_for_each_direction_and_for_what_was_not_timed(results: list[CaseProfile]) -> None:
    found = rows(profile_csv.write_profile_csv, results)
    assert [(row["API"], row["Phase"], row["Verdict"]) for row in found] == [
        ("torch.nn.functional.gelu", "forward", "FAIL"),
        ("torch.nn.functional.gelu", "backward", "PASS"),
        ("torch.relu", "forward", "PASS"),
        ("torch.frobnicate", "N/A", "NOT_COMPARED"),
    ]
    assert tuple(found[0]) == profile_csv.COLUMNS
    assert float(found[0]["Ratio"]) == 2.0 and float(found[0]["Lost Seconds"]) == pytest.approx(3e-3)
    assert found[0]["Accuracy"] == "FAIL" and found[3]["Accuracy"] == "N/A" and found[3]["Seconds"] == "N/A"


def test_the_tables_of_paddleapex_have_its_columns(results: list[CaseProfile]) -> None:
    found = rows(profile_csv.write_prof_csv, results)
    assert list(found[0]) == [
        "API Name", "dtype", "input shape", "output shape", "direction", "Bench Time(us)", "Device Time(us)",
        "Device/Bench Time Ratio",
    ]  # fmt: skip
    assert found[0]["API Name"] == "torch.nn.functional.gelu*2.forward"  # as its prof_cmp names it
    assert float(found[0]["Device Time(us)"]) == pytest.approx(2000)
    assert float(found[0]["Device/Bench Time Ratio"]) == pytest.approx(2.0)
    assert (found[0]["input shape"], found[0]["output shape"]) == ("[[4, 8]]", "[[4, 8]]")
    memory = rows(profile_csv.write_memory_csv, results)
    names = ["API Name", "Bench Memory Usage (B)", "Device Memory Usage (B)", "Memory Difference"]
    assert list(memory[0]) == names and memory[0]["Memory Difference"] == "0"
    summary = rows(profile_csv.write_summary_csv, results)
    assert [row["Acc_status"] for row in summary] == ["error", "error", "pass"]
    alone = rows(profile_csv.write_prof_csv, [judged(timed(side(1e-3), None))])
    assert (alone[0]["Bench Time(us)"], alone[0]["Device/Bench Time Ratio"]) == ("None", "None")


def test_the_json_is_strict_and_whole(results: list[CaseProfile]) -> None:
    stream = io.StringIO()
    about = info(step_seconds=1.2e-2)
    assert write_profile_json(about, results, Verdict.FAIL, stream) == 3
    found = json.loads(stream.getvalue())
    assert (found["format"], found["verdict"], found["counts"]["FAIL"]) == ("trueline-profile", "FAIL", 1)
    assert found["totals"]["explained"] == pytest.approx(0.85)
    first = found["cases"][0]
    assert first["ratios"]["forward"] == {"value": 2.0, "low": 1.95, "high": 2.05, "floor": 0.0}
    assert first["target"]["phases"]["forward"]["memory"] == {"peak": 4096, "retained": 4096}
    assert first["findings"][0]["verdict"] == "FAIL" and found["cases"][2]["target"]["phases"] == {}


def test_numbers_are_readable() -> None:
    assert [duration(one) for one in (0.0, 2e-9, 1.5e-6, -2e-3, 0.9996e-3, 12.0)] == [
        "0", "2 ns", "1.5 µs", "-2 ms", "1000 µs", "12 s",
    ]  # fmt: skip
    assert (rate(8.87e10, "FLOP/s"), rate(12.0, "B/s")) == ("88.7 GFLOP/s", "12 B/s")
    assert explained_line(info(), []) == ""
    assert result(timed(side(1e-3), None)).total == pytest.approx(3e-3)
