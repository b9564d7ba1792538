"""The HTML page: self-contained, escaped, small; and what a real browser makes of it."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.fake_comparison import FakeComparison
from trueline.report import html as page
from trueline.report.page_data import DETAILED_CALLS, encode, page_data

HOSTILE = "torch.</script><script>alert(1)</script><!--<b>&amp;\u2028"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def written(comparison: FakeComparison) -> str:
    stream = io.StringIO()
    page.write_html(comparison, stream)
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


def test_every_asset_ships_and_every_place_is_filled() -> None:
    assert not re.search(r"\{\{\w+\}\}", written(FakeComparison()))
    used = {*page.SCRIPTS, "page.html", "page.css"}
    folder = Path(page.__file__).parent / "assets"
    assert used == {file.name for file in folder.iterdir()}


def browse(folder: Path, comparison: FakeComparison, fragment: str = "", width: int = 1300) -> str:
    """Opens the page in Chromium; gives the document as it stands after the scripts ran."""
    file = folder / "page.html"
    file.write_text(written(comparison), encoding="utf-8")
    result = subprocess.run(
        [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr", f"--window-size={width},900", "--dump-dom", f"file://{file}#{fragment}",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    complaints = [row for row in result.stderr.splitlines() if ":CONSOLE" in row]
    assert not complaints, complaints
    assert 'data-ready="' in result.stdout, "the script of the page did not run to its end"
    return result.stdout


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@in_browser
def test_browser_shows_the_verdict_the_origin_and_its_row(tmp_path: Path) -> None:
    document = browse(tmp_path, FakeComparison(size=1200, fault=437))
    assert re.search(
        r'<h1 class="lead">torch.nn.functional.gelu.54.forward in encoder.layers.2.mlp went wrong', document
    )
    assert "model.py:41 in forward" in document
    assert re.search(r'class="row origin"[^>]*data-call="437"', document)
    rows = re.findall(r'data-call="(\d+)"', document)
    assert 5 < len(rows) < 60, "only the rows that can be seen are in the document"


@in_browser
def test_browser_opens_a_call_and_filters_from_the_address(tmp_path: Path) -> None:
    document = browse(tmp_path, FakeComparison(size=1200, fault=437), "text=softmax&kind=2&call=437")
    drawer = document[document.index('id="drawer"') :]
    assert "torch.nn.functional.gelu.54.forward" in drawer
    assert "distance 1.3e-4, limit 8.7e-7" in drawer
    assert "train.py:12 in main" in drawer
    names = re.findall(r'class="name"[^>]*>([^<]+)<', document)
    assert names
    assert all("softmax" in name for name in names)


@in_browser
def test_browser_shows_hostile_names_as_text(tmp_path: Path) -> None:
    document = browse(tmp_path, FakeComparison(size=50, fault=9, api="torch.<img src=x onerror=alert(1)>"), "call=9")
    assert "torch.&lt;img src=x onerror=alert(1)&gt;" in document
    assert "<img" not in document


@in_browser
@pytest.mark.parametrize("width", [390, 1300])
def test_browser_shows_a_clean_comparison_and_an_empty_one(tmp_path: Path, width: int) -> None:
    assert "none wrong" in browse(tmp_path, FakeComparison(size=300, fault=None), width=width)
    assert "No call matches." in browse(tmp_path, FakeComparison(size=0, fault=None), width=width)


@in_browser
def test_browser_opens_200_000_calls_within_three_seconds(tmp_path: Path) -> None:
    document = browse(tmp_path, FakeComparison(size=200_000, fault=73_021))
    ready = re.search(r'data-ready="(\d+)"', document)
    assert ready is not None
    assert int(ready[1]) < 3_000
