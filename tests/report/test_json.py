"""The JSON report: strict, complete, streamed."""

from __future__ import annotations

import io
import json
from typing import Any

from tests.report.fake_comparison import FakeComparison
from trueline.records import Phase, Verdict
from trueline.report.json import dumps, plain, write_json


def strict(text: str) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def report(comparison: FakeComparison) -> Any:
    stream = io.StringIO()
    count = write_json(comparison, stream)
    content = strict(stream.getvalue())
    assert count == len(content["calls"])
    return content


def test_whole_comparison_is_there() -> None:
    content = report(FakeComparison(fault=150))
    assert (content["format"], content["version"], content["verdict"]) == ("trueline-comparison", 2, "FAIL")
    assert content["origin"]["call"]["name"] == "torch.nn.functional.gelu.18.backward"
    assert content["origin"]["call"]["source"] == "model.py:41 in forward"
    assert content["origin"]["confirmed"] is True
    assert content["first_divergence"]["id"] == 150
    assert content["counts"]["FAIL"] == 1
    assert content["candidate"]["command"] == ["python", "train.py", "--lr", "1e-3"]
    failed = [call for call in content["calls"] if call["verdict"] == "FAIL"]
    assert failed[0]["tensors"][1]["measurement"]["max_ulp"] == 40.0


def test_what_json_cannot_say_is_a_string() -> None:
    content = report(FakeComparison(size=100, fault=None))
    assert content["calls"][96]["output_distance"] == "nan"
    assert plain([float("inf"), float("-inf"), Phase.FORWARD, Verdict.WARN]) == ["inf", "-inf", "forward", "WARN"]


def test_clean_and_empty_comparisons_are_valid_json() -> None:
    assert report(FakeComparison(fault=None))["origin"] is None
    assert report(FakeComparison(size=0, fault=None))["calls"] == []


def test_text_is_kept_as_it_is() -> None:
    assert strict(dumps({"a": "<script>\u2028é"})) == {"a": "<script>\u2028é"}
