"""How the pages behave at the size that people have: measured in a real browser, held against limits.

    python -m benchmarks.view [--calls 200000] [--cases 1000000] [--rounds 3]

A training program is captured twice with a fault in a kernel, so that the comparison has as many calls as asked for;
its page is opened from disk and from ``trueline view``. A campaign of as many cases as asked for is opened in
``trueline view``. Taken are: the time from asking for a page until it is drawn, the time between frames while its table
scrolls, the time from a key in the search box until the filtered table is drawn, and the size of the file. Writes
``results/view.json`` and ``.md`` beside this file; ends with an error where a limit is exceeded. Needs torch and
Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.report.browser import Browser

from benchmarks.tables import table
from benchmarks.view_ledger import make_ledger

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FRAMES = 120
CALLS_A_STEP = 70
"""Calls that one step of the model makes, forward, backward and update."""
WAITING = ".body.asking, .body .row.absent:not([hidden])"
"""Rows that the server of a campaign has still to send."""
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Limit:
    """What a measured number must stay below."""

    what: str
    most: float
    unit: str


LIMITS = {
    "file_first_view": Limit("comparison from disk, until it is drawn", 3.0, "s"),
    "view_first_view": Limit("comparison in `view`, from the address until it is drawn", 3.0, "s"),
    "file_size": Limit("comparison, size of the file", 50.0, "MB"),
    "frame_p95": Limit("comparison, 95 % of the frames while scrolling", 50.0, "ms"),
    "filter_key": Limit("comparison, from a key in the search box until the table is drawn", 200.0, "ms"),
    "campaign_first_view": Limit("campaign in `view`, from the command until it is drawn", 3.0, "s"),
    "campaign_frame_p95": Limit("campaign, 95 % of the frames while scrolling", 50.0, "ms"),
    "campaign_filter_key": Limit("campaign, from a key in the search box until the table is drawn", 200.0, "ms"),
}


def record(folder: Path, calls: int, *, faulty: bool) -> int:
    """Captures a small model for as many steps as it takes; gives the number of calls."""
    import torch

    import trueline
    from benchmarks.faults.planting import Plant, result

    torch.manual_seed(1)
    layers = [module for _ in range(6) for module in (torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(2)
    fault = {"torch.nn.functional.gelu": result(lambda y, *_, **__: y * 1.01)}
    with Plant(fault if faulty else {}, calls // 40), trueline.capture(folder) as capture:
        made = 0
        while made < calls:
            model(torch.randn(4, 8, generator=generator)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            made += CALLS_A_STEP
            capture.step()
    assert capture.certificate is not None
    return sum(capture.certificate.calls.values())


def trueline_command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "trueline", *map(str, words)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@contextmanager
def served(*words: str | Path) -> Iterator[tuple[str, float]]:
    """What ``trueline view`` serves: the address, and the seconds until it was said."""
    start = time.perf_counter()
    command = trueline_command("view", *words, "--no-browser", "--json")
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield json.loads(line)["url"], time.perf_counter() - start
        finally:
            process.send_signal(signal.SIGTERM)


def first_view(browser: Browser, url: str) -> float:
    """Seconds from asking for a page until it is drawn."""
    browser.send("Page.navigate", url="about:blank")
    start = time.perf_counter()
    browser.send("Page.navigate", url=url)
    browser.wait("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined")
    browser.wait(f"!document.querySelector({json.dumps(WAITING)})")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seconds = time.perf_counter() - start
    assert browser.run("document.querySelectorAll('.body .row:not([hidden])').length") > 3, "no row was drawn"
    return seconds


def frame_times(browser: Browser) -> list[float]:
    """Milliseconds between frames while the table scrolls, at first slowly, then in long leaps."""
    found: list[float] = browser.run(
        "(async () => { const body = document.getElementById('grid-body'), times = [];"
        " const frame = () => new Promise(requestAnimationFrame); let last = await frame();"
        f" for (let n = 0; n < {FRAMES}; n++) {{"
        f" body.scrollTop = n < {FRAMES // 2} ? n * 340 : (body.scrollHeight * ((n * 7919) % {FRAMES})) / {FRAMES};"
        " const now = await frame(); times.push(now - last); last = now; } body.scrollTop = 0; return times; })()"
    )
    return found


def filter_key(browser: Browser, key: str) -> float:
    """Milliseconds from a key in the search box until the table that it leaves is drawn."""
    browser.run(
        "window.keyed = new Promise((done) => { const search = document.getElementById('search'); let start = 0;"
        " search.addEventListener('input', () => { start = performance.now(); }, {once: true, capture: true});"
        f" const waiting = () => document.querySelector({json.dumps(WAITING)});"
        " const drawn = () => requestAnimationFrame(() => setTimeout(() => { if (waiting()) drawn();"
        " else done(performance.now() - start); }));"
        " new MutationObserver((_, watching) => { watching.disconnect(); drawn(); })"
        ".observe(document.getElementById('shown'), {childList: true, characterData: true, subtree: true});"
        " search.focus(); }); null"
    )
    browser.press(key)
    taken: float = browser.run("window.keyed")
    return taken


def typed(browser: Browser, text: str) -> list[float]:
    return [filter_key(browser, key) for key in text]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def on_page(browser: Browser, text: str) -> dict[str, Any]:
    """What is measured on a page that is open: scrolling, and typing ``text`` into the search box."""
    frames, keys = frame_times(browser), typed(browser, text)
    return {
        "frame_p50": percentile(frames, 0.5),
        "frame_p95": percentile(frames, 0.95),
        "frame_worst": max(frames),
        "filter_keys": keys,
        "filter_key": max(keys),
        "rows": browser.run("document.querySelectorAll('.body .row').length"),
    }


def median_of(rounds: int, measure: Callable[[], float]) -> tuple[float, list[float]]:
    values = [measure() for _ in range(rounds)]
    return statistics.median(values), values


def comparison(folder: Path, calls: int, rounds: int) -> dict[str, Any]:
    made = [record(folder / name, calls, faulty=name == "bad") for name in ("good", "bad")]
    page = folder / "comparison.html"
    start = time.perf_counter()
    words = trueline_command("compare", folder / "good", folder / "bad", "--html", page)
    ended = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr[-2000:]
    found: dict[str, Any] = {"calls": min(made), "compare_seconds": time.perf_counter() - start}
    found["file_size"] = page.stat().st_size / _MEGABYTE
    with Browser(folder / "profile", 1400, 1000) as browser:
        found["file_first_view"], found["file_rounds"] = median_of(
            rounds, lambda: first_view(browser, f"file://{page}")
        )
        found |= on_page(browser, "gelu")
        found["shown"] = int(browser.run("document.getElementById('shown').textContent").split()[0].replace(",", ""))
        with served(folder / "good", folder / "bad") as (url, seconds):
            found["view_command"] = seconds
            found["view_first_view"], found["view_rounds"] = median_of(rounds, lambda: first_view(browser, url))
            browser.send("Page.navigate", url="about:blank")
        assert browser.complaints == [], browser.complaints
    return found


def campaign(folder: Path, cases: int, rounds: int) -> dict[str, Any]:
    ledger = make_ledger(folder / "campaign", cases)
    found: dict[str, Any] = {"cases": cases, "ledger_size": _size_of(ledger) / _MEGABYTE}
    totals: list[float] = []
    with Browser(folder / "campaign-profile", 1400, 1000) as browser:
        for number in range(rounds):
            with served(ledger) as (url, seconds):
                totals.append(seconds + first_view(browser, url))
                if number == rounds - 1:
                    found["campaign_first_view_parts"] = [seconds, totals[-1] - seconds]
                    found |= {f"campaign_{name}": value for name, value in on_page(browser, "gelu").items()}
                browser.send("Page.navigate", url="about:blank")  # a page whose server ends would complain of it
        assert browser.complaints == [], browser.complaints
    return found | {"campaign_first_view": statistics.median(totals), "campaign_rounds": totals}


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def machine() -> dict[str, Any]:
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return {"processor": names[0] if names else platform.processor(), "cores": os.cpu_count()}


def markdown(found: dict[str, Any]) -> str:
    rows = []
    for key, limit in LIMITS.items():
        word = "yes" if found[key] < limit.most else "**no**"
        rows.append([limit.what, f"{found[key]:.3g} {limit.unit}", f"< {limit.most:g} {limit.unit}", word])
    about = (
        f"A comparison of {found['calls']:,} calls (two captured Runs; `trueline compare` took "
        f"{found['compare_seconds']:.1f} s) and a campaign of {found['cases']:,} cases "
        f"({found['ledger_size']:.0f} MB), in Chromium without a GPU on {found['machine']['processor']}, "
        f"{found['machine']['cores']} cores. Medians of {len(found['file_rounds'])} openings."
    )
    return f"# The pages at size\n\n{about}\n\n" + table(("what", "measured", "limit", "kept"), rows)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--calls", type=int, default=200_000)
    options.add_argument("--cases", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--out", type=Path, default=RESULTS)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = {"machine": machine(), **comparison(Path(scratch), asked.calls, asked.rounds)}
        found |= campaign(Path(scratch), asked.cases, asked.rounds)
    (asked.out / "view.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (asked.out / "view.md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))
    return int(any(found[key] >= limit.most for key, limit in LIMITS.items()))


if __name__ == "__main__":
    raise SystemExit(main())
