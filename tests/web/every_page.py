"""One of each kind of page, both ways in, from small data that is real, and hostile wherever a name can be chosen."""

from __future__ import annotations

import contextlib
import io
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from tests.helpers.profiles import info, result, side, timed
from tests.report.browser import Browser
from trueline.pipelines import (
    Change,
    CheckKind,
    Command,
    NumberFinding,
    PipelineInfo,
    PipelineReport,
    Plan,
    Remark,
    Stage,
    StageKind,
    StageResult,
    StageStatus,
)
from trueline.profiles import Ratio
from trueline.records import Verdict
from trueline.report.check_html import write_check_html
from trueline.report.comparison_html import write_html
from trueline.report.overflow_html import write_overflow_html
from trueline.report.pipeline_html import write_pipeline_html
from trueline.web.server import View, ViewServer

SCRIPT = "</script><script>hacked=1</script>"
IMAGE = "<img src=x onerror=hacked=1>"
BOLD = "<b>&amp;<!--"
PROGRAM = f"""
import torch, trueline

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module({IMAGE!r}, torch.nn.Linear(4, 4))
        self.half()

    def forward(self, x):
        for inner in self.children():
            return inner(x) * x

def record(path, last):
    torch.manual_seed(0)
    net = Net()
    with trueline.capture(path, data="tensors") as capture:
        for size in (1.0, 30.0, last):
            net(torch.full((2, 4), size, dtype=torch.float16)).sum()
            capture.step()
"""
"""Its own file has a hostile name, so every stack has; the last step overflows where it is asked to."""


KINDS = ("comparison", "run", "overflow", "check", "campaign", "profile", "pipeline")
FILES = tuple(name for name in KINDS if name != "campaign")
"""A campaign whose cases stay with its server has no file."""


@dataclass(frozen=True)
class Kind:
    """A kind of page: writes it as a file, and opens what the server shows."""

    name: str
    write: Callable[[TextIO], None] | None
    view: Callable[[], AbstractContextManager[View]]

    @contextlib.contextmanager
    def served(self) -> Iterator[ViewServer]:
        with self.view() as view, served_by(view) as server:
            yield server

    def file(self, folder: Path) -> Path:
        assert self.write is not None
        stream = io.StringIO()
        self.write(stream)
        path = folder / f"{self.name}.html"
        path.write_text(stream.getvalue(), encoding="utf-8")
        return path


@contextlib.contextmanager
def served_by(view: View) -> Iterator[ViewServer]:
    """A server of a view, in a thread of its own."""
    with ViewServer(view) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)


def every_kind(folder: Path) -> dict[str, Kind]:
    """All kinds of pages, with their data below ``folder``."""
    home = folder / IMAGE
    home.mkdir(parents=True)
    kinds = [*_of_runs(home), *_of_checks(home), _profile(home), _pipeline(home)]
    return {kind.name: kind for kind in kinds}


def _of_runs(home: Path) -> Iterator[Kind]:
    pytest.importorskip("torch")
    from trueline.diagnose import compare_runs
    from trueline.diagnose.overflow import overflow
    from trueline.store import open_run
    from trueline.web.comparison_page import comparison_page
    from trueline.web.overflow_page import overflow_page
    from trueline.web.run_page import run_page, write_run_file

    place: dict[str, Callable[[Path, float], None]] = {}
    exec(compile(PROGRAM, f"/models/{BOLD}.py", "exec"), place)  # the one way to have such a name in a stack
    good, bad = home / "good", home / "bad"
    place["record"](good, 40.0)
    place["record"](bad, 30000.0)

    @contextlib.contextmanager
    def compared() -> Iterator[View]:
        with compare_runs(good, bad) as comparison:
            yield comparison_page(comparison)

    @contextlib.contextmanager
    def opened() -> Iterator[View]:
        with open_run(bad) as run:
            yield run_page(run)

    def write_comparison(stream: TextIO) -> None:
        with compare_runs(good, bad) as comparison:
            write_html(comparison, stream)

    def write_run(stream: TextIO) -> None:
        with open_run(bad) as run:
            write_run_file(run, stream)

    yield Kind("comparison", write_comparison, compared)
    yield Kind("run", write_run, opened)
    yield Kind(
        "overflow",
        lambda stream: write_overflow_html(overflow(bad), stream),
        lambda: contextlib.nullcontext(overflow_page(bad)),
    )


def _of_checks(home: Path) -> Iterator[Kind]:
    from benchmarks.view_ledger import make_ledger

    from trueline.campaign import load_check
    from trueline.store.seal import seal_database
    from trueline.web import check_page

    folder = make_ledger(home / "check", 120)
    with sqlite3.connect(folder / "ledger.db") as ledger:
        name = SCRIPT.replace('"', "")
        ledger.execute(
            "UPDATE cases SET api = replace(api, 'torch.linalg', ?), reason = reason || ?,"
            " case_json = replace(case_json, 'torch.linalg', ?)",
            (name, IMAGE, name),
        )
    ledger.close()
    seal_database(folder / "ledger.db")

    def write(stream: TextIO) -> None:
        report = load_check(folder)
        write_check_html(report.info, report.results, stream, folder=folder)

    def campaign() -> AbstractContextManager[View]:
        """The same as a page whose cases stay with the server."""
        before, check_page.WINDOWED_FROM = check_page.WINDOWED_FROM, 10
        try:
            return contextlib.nullcontext(check_page.check_page(folder))
        finally:
            check_page.WINDOWED_FROM = before

    yield Kind("check", write, lambda: contextlib.nullcontext(check_page.check_page(folder)))
    yield Kind("campaign", None, campaign)


def _profile(home: Path) -> Kind:
    from trueline.report.profile_json import write_profile_json
    from trueline.web.profile_page import profile_page, write_profile_file

    slow = timed(
        side(2e-3, 1e-3), side(1e-3, 1e-3), Ratio(2.0, 1.95, 2.05), Ratio(1.0, 0.99, 1.01), api=f"torch.{IMAGE}"
    )
    equal = timed(side(4e-4), side(4e-4), Ratio(1.0, 0.99, 1.01), api=f"torch.{SCRIPT}")
    cases = [result(one) for one in (slow, equal)]
    path = home / "profile.json"
    with path.open("w", encoding="utf-8") as stream:
        write_profile_json(info(), cases, Verdict.FAIL, stream)
    return Kind(
        "profile",
        lambda stream: write_profile_file(path, stream),
        lambda: contextlib.nullcontext(profile_page(path)),
    )


def _pipeline(home: Path) -> Kind:
    from trueline.web.pipeline_page import pipeline_page

    folder = home / "pipeline"
    log = folder / "train.log"
    folder.mkdir()
    log.write_text(f"step 1\n{SCRIPT}\n", encoding="utf-8")
    report = _report(folder, log)
    return Kind(
        "pipeline",
        lambda stream: write_pipeline_html(report, stream, folder=folder),
        lambda: contextlib.nullcontext(pipeline_page(report, folder)),
    )


def _report(folder: Path, log: Path) -> PipelineReport:
    """Two stages and the check between them, which failed."""
    names = {"chain": BOLD, "trainer": IMAGE, "devices": "-1"}
    train = Stage(f"train {IMAGE}", StageKind.TRAIN, Command(f"python train.py {SCRIPT}"), **names)  # type: ignore[arg-type]
    infer = Stage(f"infer {SCRIPT}", StageKind.INFER, Command("python infer.py"), (train.name,), **names)  # type: ignore[arg-type]
    check = Stage(
        f"check {IMAGE}", StageKind.CHECK, after=(infer.name,), check=CheckKind.NEIGHBOURS, reference=train.name,
        candidate=infer.name, **names,  # type: ignore[arg-type]
    )  # fmt: skip
    finding = NumberFinding(
        f"outputs {BOLD}", Verdict.FAIL, f"they differ {SCRIPT}", infer.name, {"error": 0.4, "limit": 0.1}
    )
    results = (
        StageResult(train, StageStatus.DONE, Verdict.PASS, "", 0, 2.5, 3 << 20, str(folder), str(log)),
        StageResult(infer, StageStatus.DONE, Verdict.PASS, "", 0, 1.0, 1 << 20),
        StageResult(check, StageStatus.DONE, Verdict.FAIL, finding.reason, findings=(finding,)),
    )
    plan = Plan(
        "a.txt", "tipc-32", IMAGE, "lite_train_lite_infer", str(folder), (train, infer, check), (Remark(3, BOLD),)
    )
    made = PipelineInfo("2026-01-02T03:04:05+00:00", "1.0", 5.0, 2, IMAGE, "3.12", {"torch": BOLD}, {}, str(folder))
    return PipelineReport(plan, results, made, (Change(check.name, "new failure", "PASS", "FAIL"),))


def visit(browser: Browser, url: str) -> None:
    """Opens a page anew, and forgets what the browser saw before."""
    browser.send("Page.navigate", url="about:blank")
    browser.requests.clear()
    browser.complaints.clear()
    browser.send("Page.navigate", url=url)
    browser.wait("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined")


def look_around(browser: Browser) -> None:
    """Opens what a visitor opens: rows, and whatever can be pressed in them and on the page."""
    browser.run(
        "(async () => { const pause = () => new Promise((done) => setTimeout(done, 20));"
        " const press = async (found) => { for (const one of found) { one.click(); await pause(); } };"
        " for (const row of [...document.querySelectorAll('.body .row:not([hidden])')].slice(0, 3)) {"
        " await press([row]); await press([...document.querySelectorAll('#drawer button:not(.close)')].slice(0, 12)); }"
        " const buttons = [...document.querySelectorAll('main button')].filter((one) => !/^(clear|copy)/.test(one.id));"
        " await press(buttons.slice(0, 16)); })()"
    )


def texts_of(browser: Browser) -> list[str]:
    """All that the page says in words, what only a screen reader says among it: commands, calls and keys are none."""
    found: list[str] = browser.run(
        "(() => { const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);"
        " for (let node = walker.nextNode(); node; node = walker.nextNode())"
        " if (!/^(SCRIPT|STYLE|NOSCRIPT|CODE|PRE|KBD)$/.test(node.parentElement.tagName) && node.nodeValue.trim())"
        " found.push(node.nodeValue.trim());"
        " for (const name of ['aria-label', 'placeholder']) for (const node of document.querySelectorAll(`[${name}]`))"
        " found.push(node.getAttribute(name)); return found; })()"
    )
    return found
