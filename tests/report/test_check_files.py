"""A check as CSV, JSON and JUnit: complete, readable by their own parsers, proof against hostile content."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.helpers.checks import case_of, evidence_of, finding_of, info_of, result_of
from tests.report.fake_check import fake_check
from trueline.cases import TensorFinding
from trueline.records import Verdict
from trueline.report.check_csv import (
    COLUMNS,
    DETAILS_COLUMNS,
    DETAILS_COLUMNS_ULP,
    RESULT_COLUMNS,
    write_check_csv,
    write_details_csv,
    write_result_csv,
)
from trueline.report.check_json import write_check_json
from trueline.report.junit import write_junit


def table(write: object, *check: object, **options: object) -> list[dict[str, str]]:
    stream = io.StringIO(newline="")
    written = write(*check, stream, **options)  # type: ignore[operator]
    text = stream.getvalue()
    assert text.startswith("\ufeff") is (write is not write_check_csv), "the predecessors' files have a mark"
    rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline="")))
    assert len(rows) == written
    assert all(None not in row and None not in row.values() for row in rows), "as many cells as columns"
    return rows


# our table


def test_one_row_for_each_tensor_and_for_each_case_without_any() -> None:
    info, results = fake_check()
    rows = table(write_check_csv, info, results)
    skipped = [row for row in rows if row["Ending"] == "skipped" and row["Case"] == "N/A"]
    assert {row["Reason"]: int(row["Calls"]) for row in skipped} == dict(info.skipped)
    assert {row["Verdict"] for row in skipped} == {"NOT_COMPARED"}
    rows = [row for row in rows if row not in skipped]
    assert len(rows) == sum(max(1, len(result.findings)) for result in results)
    assert {row["Case"] for row in rows} == {result.case.key for result in results}
    bad = next(row for row in rows if row["Score"] == "41.2")
    assert (bad["Verdict"], bad["Tensor Verdict"], bad["Part"], bad["Path"]) == ("FAIL", "FAIL", "output", "out")
    assert float(bad["RMSE"]) > 1e5 * float(bad["Honest RMSE"]) and bad["Worst Element"] == "[7, 26]"
    assert (bad["Module"], bad["Calls"]) == ("encoder.layers.9.mlp", "3")
    crashed = next(row for row in rows if row["Status"] == "crashed")
    assert crashed["Verdict"] == "ERROR" and crashed["Part"] == "N/A" and "SIGSEGV" in crashed["Status Reason"]


def test_our_columns_are_distinct() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS)


# the predecessors' tables


def test_the_headers_are_those_of_the_predecessors() -> None:
    assert ", ".join(RESULT_COLUMNS) == "API name, Forward Test Success, Backward Test Success, Message"
    assert ", ".join(DETAILS_COLUMNS) == (
        "API Name, Bench Dtype, DEVICE Dtype, Shape, 余弦相似度, 最大绝对误差, 双百指标, 双千指标, 双万指标, "
        "二进制一致错误率, 误差均衡性, 均方根误差, 小值域错误占比, 相对误差最大值, 相对误差平均值, inf/nan错误率, "
        "相对误差错误率, 绝对误差错误率, Status, Message"
    )
    assert len(DETAILS_COLUMNS) == 20
    more = [name for name in DETAILS_COLUMNS_ULP if name not in DETAILS_COLUMNS]
    assert more == ["ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比"]
    assert DETAILS_COLUMNS_ULP[-2:] == ("Status", "Message")


def test_results_by_direction() -> None:
    info, results = fake_check()
    rows = {row["API name"]: row for row in table(write_result_csv, info, results)}
    assert len(rows) == len(results)

    def told(name: str) -> tuple[str, str]:
        return rows[name]["Forward Test Success"], rows[name]["Backward Test Success"]

    assert told("Functional.linear.0") == ("pass", "pass")
    assert told("Functional.gelu.9") == ("error", "error")
    assert told("Functional.gelu.25") == ("pass", "error")
    assert told("Functional.linear.40") == ("warning", " ")
    assert told("Functional.embedding.6") == ("pass", " ")
    assert told("Torch.matmul.51") == ("error", " ") and "SIGSEGV" in rows["Torch.matmul.51"]["Message"]
    assert told("Functional.embedding.70") == ("SKIP", " ")


def test_cases_without_calls_are_numbered() -> None:
    results = [result_of(Verdict.PASS, case_of("torch.Tensor.add", seed=seed)) for seed in range(2)]
    rows = table(write_result_csv, info_of(calls=2), results)
    assert [row["API name"] for row in rows] == ["Tensor.add.0", "Tensor.add.1"]


@pytest.mark.parametrize("ulp", [True, False])
def test_details_hold_the_numbers_of_the_predecessors(ulp: bool) -> None:
    values = np.linspace(1, 2, 1000)
    off = evidence_of(values * 1.005, values, values, "float16")
    whole = evidence_of(np.arange(10) + (np.arange(10) == 3), np.arange(10), np.arange(10), "int64", path="out.1")
    gradient = evidence_of(values, values, values, "float16", part="gradient", path="args.0")
    findings = [
        TensorFinding(off, Verdict.WARN, "half a per cent"), TensorFinding(whole, Verdict.FAIL, "differs"),
        TensorFinding(gradient, Verdict.PASS, "well"),
    ]  # fmt: skip
    case = case_of(calls=("torch.nn.functional.gelu.4.forward",))
    rows = table(write_details_csv, info_of(calls=1), [result_of(Verdict.FAIL, case, findings=findings)], ulp=ulp)
    places = ["forward.output.0", "forward.output.1", "backward.output.0"]
    assert [row["API Name"] for row in rows] == [f"Functional.gelu.4.{place}" for place in places]
    first, second, third = rows
    assert (first["Bench Dtype"], first["DEVICE Dtype"], first["Shape"]) == (
        "torch.float32",
        "torch.float16",
        "(1000,)",
    )
    assert float(first["双百指标"]) == 1.0 and float(first["双千指标"]) == 0.0
    assert float(first["最大绝对误差"]) == pytest.approx(0.01, rel=0.1)
    assert float(first["相对误差平均值"]) == pytest.approx(0.005, rel=0.01)
    assert (first["Status"], second["Status"], third["Status"]) == ("warning", "error", "pass")
    assert second["二进制一致错误率"] == "0.10000000000000" and second["余弦相似度"] == " "
    assert ("ULP误差最大值" in first) is ulp


def test_formulas_are_not_formulas_to_a_spreadsheet() -> None:
    case = case_of("=cmd|'/C calc'!A0", module="@SUM(1)", source="+1", calls=("-1",))
    results = [result_of(Verdict.FAIL, case, reason="=1+1")]
    for write in (write_check_csv, write_result_csv, write_details_csv):
        for row in table(write, info_of(calls=1), results):
            assert not any(cell.startswith(("=", "@", "+")) for cell in row.values())


# JSON


def test_json_is_strict_and_complete() -> None:
    info, results = fake_check()
    stream = io.StringIO()
    assert write_check_json(info, results, stream) == len(results)

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    found = json.loads(stream.getvalue(), parse_constant=refuse)
    assert (found["format"], found["version"], found["verdict"]) == ("trueline-check", 1, "ERROR")
    calls = found["calls"]
    assert calls["total"] == calls["checked"] + calls["merged"] + calls["skipped"] + calls["left"] == info.calls
    assert sum(found["counts"].values()) == len(found["cases"]) == calls["checked"]
    assert sum(found["not_compared"].values()) == found["counts"]["NOT_COMPARED"] == 3
    endless = next(case for case in found["cases"] if case["score"] == "inf")
    assert endless["forward"] == "FAIL" and endless["backward"] is None
    bad = next(case for case in found["cases"] if case["score"] == 41.2)
    assert bad["key"] == results[9].case.key and bad["inputs"][0]["shape"] == [8, 16, 128]
    tensor = bad["tensors"][0]
    assert tensor["worst_element"]["position"] == [7, 26] and tensor["gold"]["rmse"] > tensor["honest"]["rmse"]
    assert tensor["numbers"]["bench_within_thousandth"] == 0.0
    assert all(line.startswith("{") for line in stream.getvalue().splitlines()[2:-1]), "one case a line"


# JUnit


def parsed(*check: object) -> ElementTree.Element:
    stream = io.StringIO()
    write_junit(*check, stream)  # type: ignore[arg-type]
    return ElementTree.fromstring(stream.getvalue().encode("utf-8"))


def test_junit_has_one_test_case_for_each_case() -> None:
    info, results = fake_check()
    root = parsed(info, results)
    assert root.attrib["tests"] == str(len(results)) == str(len(root.findall("testsuite/testcase")))
    assert (root.attrib["failures"], root.attrib["errors"], root.attrib["skipped"]) == ("5", "2", "3")
    for kind in ("failure", "error", "skipped"):
        total = sum(int(suite.attrib[{"failure": "failures", "error": "errors"}.get(kind, kind)]) for suite in root)
        assert len(root.findall(f"testsuite/testcase/{kind}")) == total
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    failure = next(node for node in root.iter("failure") if "41 times" in node.attrib["message"])
    assert failure.text is not None
    assert "torch.nn.functional.gelu(float32[8, 16, 128]" in failure.text
    assert "worst element [7, 26]: -3.2839527 instead of -3.2514384" in failure.text
    assert "model.py:49 in forward" in failure.text
    assert [node.attrib["type"] for node in root.iter("error")] == ["crashed", "timed out"]
    assert len(list(root.iter("system-out"))) == 1, "the warning"


@pytest.mark.parametrize(
    "evil", ['</failure><x a="1">', "]]>", "\x00\x1b[31m\x0c", "\ud800 lone", "&amp; \ufffe", "a\nb\t'\""]
)
def test_junit_survives_hostile_text(evil: str) -> None:
    case = case_of(f"torch.{evil}", module=evil, source=evil)
    finding = finding_of(Verdict.FAIL, path=evil, reason=evil, score=float("nan"))
    root = parsed(info_of(calls=1, target=evil), [result_of(Verdict.FAIL, case, findings=[finding], reason=evil)])
    assert [node.tag for node in root.iter()] == ["testsuites", "testsuite", "testcase", "failure"]


def test_junit_of_nothing_is_well_formed() -> None:
    assert parsed(info_of(), []).attrib["tests"] == "0"
