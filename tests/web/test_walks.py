"""Ten planted faults, each walked to as a new user would, with nothing but the page: from opening it until the source
line of the fault can be read, in at most three clicks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.report.browser import Browser
from tests.web.every_page import served_by, visit

pytest.importorskip("torch")

import torch

from tests.web.walk_program import line_of, planted, train
from trueline.diagnose import compare_runs
from trueline.report.comparison_html import write_html
from trueline.store import open_run
from trueline.web.comparison_page import comparison_page
from trueline.web.overflow_page import overflow_page
from trueline.web.run_page import run_page

MOST_CLICKS = 3
READABLE = (
    "(text) => { const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);"
    " for (let node = walker.nextNode(); node; node = walker.nextNode()) {"
    " if (!node.nodeValue.includes(text)) continue; const range = document.createRange(); range.selectNode(node);"
    " const box = range.getBoundingClientRect(), x = box.x + Math.min(box.width / 2, 200), y = box.y + box.height / 2;"
    " if (!box.width || x < 0 || y < 0 || x > innerWidth || y > innerHeight) continue;"
    " const top = document.elementFromPoint(x, y); if (top && top.contains(node)) return true; } return false; }"
)
"""Whether a text can be read without scrolling: it is in the window, and nothing lies over it."""


@dataclass
class Walk:
    """A visitor who counts clicks."""

    browser: Browser
    clicks: list[str] = field(default_factory=list)

    def reads(self, text: str) -> bool:
        return bool(self.browser.run(f"({READABLE})({text!r})"))

    def click(self, selector: str) -> None:
        self.clicks.append(selector)
        self.browser.click_on(selector)
        self.browser.run("new Promise((done) => setTimeout(done, 60))")


class Runs:
    """Records each program once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, fault: str = "", *, half: bool = False, ranks: tuple[str, ...] = ()) -> Path:
        """A Run with a fault; with ``ranks`` one whose ranks have these faults."""
        path = self.folder / (
            "-".join((fault or "good", *(["half"] if half else []), *(one or "good" for one in ranks)))
        )
        if not path.exists():
            for rank, one in enumerate(ranks or (fault,)):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setenv("RANK", str(rank))
                    patch.setenv("WORLD_SIZE", str(max(1, len(ranks))))
                    _record(path, one, torch.bfloat16 if half else torch.float32)
        return path


def _record(path: Path, fault: str, dtype: torch.dtype) -> None:
    import trueline

    with planted(fault), trueline.capture(path, data="tensors") as capture:
        for _ in train(fault, dtype=dtype):
            capture.step()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("walks"))


@contextlib.contextmanager
def opened(browser: Browser, reference: Path, candidate: Path, *, served: bool) -> Iterator[Walk]:
    """The page of a comparison, from its server or from a file."""
    with compare_runs(reference, candidate) as comparison:
        if not served:
            file = candidate.with_suffix(".html")
            with file.open("w", encoding="utf-8") as stream:
                write_html(comparison, stream)
            visit(browser, f"file://{file}")
            yield Walk(browser)
            return
        with served_by(comparison_page(comparison)) as server:
            visit(browser, server.url)
            yield Walk(browser)


def nowhere(walk: Walk) -> None:
    """The line stands in the first sentences."""


def over_the_extra(walk: Walk) -> None:
    """Calls that only one side makes are named below the verdict; whoever clicks there sees the first of them."""
    walk.click("#verdict button[data-kind=extra]")


def over_the_missing(walk: Walk) -> None:
    walk.click("#verdict button[data-kind=missing]")


@dataclass(frozen=True)
class Fault:
    name: str
    way: Callable[[Walk], None]
    served: bool
    half: bool = False
    ranks: tuple[str, ...] = ()


FAULTS = (
    Fault("kernel", nowhere, served=True),
    Fault("backward kernel", nowhere, served=False),
    Fault("bf16 kernel", nowhere, served=True, half=True),
    Fault("update", nowhere, served=False),
    Fault("dropout", nowhere, served=True),
    Fault("data", nowhere, served=False),
    Fault("extra call", over_the_extra, served=True),
    Fault("missing call", over_the_missing, served=False),
    Fault("wrong dtype", over_the_extra, served=True),
    Fault("kernel", nowhere, served=False, ranks=("", "kernel")),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name} {'rank 1' if fault.ranks else ''}".strip())
def test_three_clicks_lead_to_the_line(browser: Browser, runs: Runs, fault: Fault) -> None:
    reference = runs.of(half=fault.half, ranks=("",) * len(fault.ranks))
    candidate = runs.of("" if fault.ranks else fault.name, half=fault.half, ranks=fault.ranks)
    with opened(browser, reference, candidate, served=fault.served) as walk:
        fault.way(walk)
        assert walk.reads(line_of(fault.name)), f"{line_of(fault.name)} is not seen after {walk.clicks}"
        assert len(walk.clicks) <= MOST_CLICKS
        if fault.ranks:
            assert walk.reads("rank 1")
        assert browser.complaints == []


@pytest.mark.parametrize("page", ["overflow", "run"])
def test_the_line_where_infinity_was_born_is_read_too(browser: Browser, runs: Runs, page: str) -> None:
    with open_run(runs.of("overflow")) as run:
        view = overflow_page(run.path) if page == "overflow" else run_page(run)
        with served_by(view) as server:
            visit(browser, server.url)
            walk = Walk(browser)
            assert walk.reads(line_of("overflow"))
            assert browser.complaints == []


def test_a_line_that_is_hidden_is_not_read(browser: Browser, runs: Runs) -> None:
    """The walks above could fail: of a Run without a fault no line is told, and what lies below the window is not
    read."""
    again = runs.of(ranks=("",))
    with opened(browser, runs.of(), again, served=False) as walk:
        assert not walk.reads("walk_program.py")
        below = (
            "(() => { const node = document.querySelector('#about'); return node.textContent.trim().slice(0, 5); })()"
        )
        assert not walk.reads(walk.browser.run(below))
