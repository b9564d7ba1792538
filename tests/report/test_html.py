"""The HTML page as a file: self-contained, escaped, small. ``test_page.py`` opens it in a browser."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from tests.report.fake_comparison import FakeComparison
from trueline.report import comparison_html
from trueline.report import html as page
from trueline.report.page_data import DETAILED_CALLS, encode, page_data

HOSTILE = "torch.</script><script>alert(1)</script><!--<b>&amp;\u2028"


def written(comparison: FakeComparison) -> str:
    stream = io.StringIO()
    comparison_html.write_html(comparison, stream)
    return stream.getvalue()


class Tags(HTMLParser):
    """Collects tags and the text of script elements, the way a browser would split the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)
            self._inside = False


def data_of(text: str) -> Any:
    return json.loads(Tags(text).scripts[0])


def test_no_request_leaves_the_page() -> None:
    text = written(FakeComparison())
    for _, attributes in Tags(text).tags:
        assert not {"src", "srcset", "data", "action"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text


def test_only_our_own_program_may_run() -> None:
    text = written(FakeComparison(api=HOSTILE))
    tags = Tags(text)
    assert [tag for tag, _ in tags.tags].count("script") == 2
    policy = next(a["content"] for t, a in tags.tags if t == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert page._hash(tags.scripts[1]) in policy


def test_hostile_names_come_back_as_they_were() -> None:
    text = written(FakeComparison(api=HOSTILE, module=HOSTILE))
    assert "<script>alert" not in text
    content = data_of(text)
    assert HOSTILE in content["names"]["api"]
    assert HOSTILE in content["names"]["module"]


def test_columns_come_back_as_they_were() -> None:
    comparison = FakeComparison(size=500, fault=20)
    content = data_of(written(comparison))
    series = comparison.series()
    kinds = {"Uint8Array": "u1", "Uint16Array": "<u2", "Uint32Array": "<u4", "Int32Array": "<i4", "Float32Array": "<f4"}

    def column(name: str) -> Any:
        stored = content["columns"][name]
        return np.frombuffer(base64.b64decode(stored["data"]), kinds[stored["type"]])

    np.testing.assert_array_equal(column("step"), series["step"])
    np.testing.assert_array_equal(column("index"), series["index"])
    np.testing.assert_array_equal(column("backward"), series["phase"] == "backward")
    np.testing.assert_allclose(column("output_distance"), series["output_distance"], rtol=1e-6)
    assert [content["names"]["api"][code] for code in column("api")] == list(series["api"])
    assert content["head"]["position"] == 20


def test_calls_without_numbers_and_sources_get_them_from_their_details() -> None:
    comparison = FakeComparison(size=30, fault=20)
    index = comparison._columns.pop("index")
    pair = comparison.pair
    comparison._columns = {**comparison._columns}

    def with_index(position: int) -> Any:
        comparison._columns["index"] = index
        try:
            return pair(position)
        finally:
            del comparison._columns["index"]

    comparison.pair = with_index  # type: ignore[method-assign]
    content = page_data(comparison)
    stored = content["columns"]["index"]
    assert list(base64.b64decode(stored["data"])) == index.tolist()
    assert content["names"]["source"] == ["model.py:41 in forward"]


def test_column_types_are_the_smallest() -> None:
    assert encode(np.array([0, 255]))["type"] == "Uint8Array"
    assert encode(np.array([0, 256]))["type"] == "Uint16Array"
    assert encode(np.array([0, 70_000]))["type"] == "Uint32Array"
    assert encode(np.array([-1, 5]))["type"] == "Int32Array"
    assert encode(np.array([], dtype=np.int64))["type"] == "Uint8Array"
    with pytest.raises(OverflowError, match="4294967295"):
        encode(np.array([2**40]))


def test_details_are_bounded_and_the_origin_is_among_them() -> None:
    content = page_data(FakeComparison(size=6_000, fault=5_000))
    assert len(content["details"]) == DETAILED_CALLS
    assert "5000" in content["details"]
    assert content["details"]["5000"]["stack"] == ["model.py:41 in forward", "train.py:12 in main"]


def test_200_000_calls_stay_small() -> None:
    assert len(written(FakeComparison(size=200_000, fault=73_021))) < 20_000_000


def test_every_place_is_filled() -> None:
    assert not re.search(r"\{\{\w+\}\}", written(FakeComparison()))
