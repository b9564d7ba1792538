"""The page of a campaign in a real browser: cases that stay with the server, a campaign that is still running, what
changed since another one, groups of failures; from a file and served."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest
from benchmarks.view_ledger import make_ledger, measured_of

from tests.helpers.checks import case_of, info_of
from tests.report.browser import CHROMIUM, Browser
from tests.report.fake_check import fake_check
from trueline.campaign import load_check
from trueline.campaign.columns import Query
from trueline.campaign.diff import diff_checks
from trueline.campaign.ledger import Ledger
from trueline.campaign.overview import Progress
from trueline.campaign.shelf import Results, judge_name
from trueline.cases import Case, CaseResult, CheckInfo, Ending
from trueline.cli.main import main
from trueline.errors import CorruptRunError, UsageError
from trueline.groups import Group, Label, Look, Member, Opinion, Signature, Triage, as_plain
from trueline.judge.checks import check_standard_named, judge_case
from trueline.records import Verdict
from trueline.replay.serial import case_to_json
from trueline.report.check_cells import Dtypes
from trueline.report.check_groups import groups_data
from trueline.report.check_html import write_check_html
from trueline.web import check_page as pages
from trueline.web.check_page import CampaignView, Pace, check_page
from trueline.web.server import View, ViewServer

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
HOSTILE = "</script><img src=x onerror=document.title='owned'>"
CASES = 20_000
DRAWER = "document.getElementById('drawer')"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ledger(tmp_path_factory.mktemp("campaign") / "check", CASES, apis=400)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile"), 1280, 900) as made:
        yield made


@pytest.fixture
def browser(shared: Browser) -> Iterator[Browser]:
    """The browser; at the end nothing was complained about and nothing was asked of anybody else."""
    shared.requests.clear()
    shared.complaints.clear()
    yield shared
    assert shared.complaints == []
    assert all(one.startswith(("file://", "about:", "http://127.0.0.1:")) for one in shared.requests)


@contextmanager
def serving(view: View) -> Iterator[str]:
    with ViewServer(view) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join(5)


@pytest.fixture
def url(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The campaign, as one of a million cases is served."""
    monkeypatch.setattr(pages, "WINDOWED_FROM", 1_000)
    view = check_page(campaign)
    assert isinstance(view, CampaignView)
    with serving(view) as address:
        yield address


def visit(browser: Browser, url: str, fragment: str = "") -> None:
    browser.send("Page.navigate", url="about:blank")
    browser.send("Page.navigate", url=f"{url}#{fragment}" if fragment else url)
    browser.wait("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined")


def rows_came(browser: Browser) -> None:
    """All rows that can be seen are there."""
    browser.wait("!document.querySelector('.body').classList.contains('asking')"
                 " && document.querySelectorAll('.body .row:not([hidden])').length > 0"
                 " && !document.querySelector('.body .row.absent:not([hidden])')")  # fmt: skip


def texts(browser: Browser, selector: str) -> list[str]:
    found: list[str] = browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")
    return found


def names(browser: Browser) -> list[str]:
    return texts(browser, ".body .row:not([hidden]) .name")


def shown(browser: Browser) -> str:
    return str(browser.run("document.getElementById('shown').textContent"))


def choose(browser: Browser, control: str, value: str, event: str) -> None:
    browser.run(f"(() => {{ const c = document.getElementById('{control}'); c.value = {json.dumps(value)};"
                f" c.dispatchEvent(new Event('{event}')); }})()")  # fmt: skip


def ask(url: str, name: str, **words: str) -> object:
    return json.loads(build_opener(ProxyHandler({})).open(f"{url}data/{name}?{urlencode(words)}", timeout=20).read())


# cases that stay with the server


@needs_browser
def test_a_large_campaign_opens_without_its_cases(browser: Browser, url: str, campaign: Path) -> None:
    visit(browser, url)
    rows_came(browser)
    summary = load_check(campaign).summary
    wrong = summary.verdicts[Verdict.FAIL] + summary.verdicts[Verdict.ERROR]
    assert browser.run("document.querySelector('h1').textContent").startswith(f"{wrong} of 20,000 cases are wrong")
    told = dict(text.split(" ", 1)[::-1] for text in texts(browser, ".status b, .status") if " " in text.strip())
    assert told["pass"].lstrip("✓\n ") == f"{summary.endings[Ending.PASS]:,}"
    assert {name.split("\n")[-1] for name in told} >= {one.value for one, n in summary.endings.items() if n}
    assert shown(browser) == "20,000"
    assert browser.run("document.getElementById('data').textContent.length") < 1_000_000, "no case is in the page"
    assert set(texts(browser, ".body .row:not([hidden]) .tag")) <= {"timed out", "crashed", "out of memory"}
    browser.wait("document.getElementById('canvas').getContext('2d')"
                 ".getImageData(0, 0, 1200, 300).data.some((v, i) => i % 4 === 3 && v > 0)")  # fmt: skip


@needs_browser
def test_any_row_comes_when_it_is_scrolled_to(browser: Browser, url: str) -> None:
    visit(browser, url, "sort=position")
    rows_came(browser)
    assert names(browser)[0] != "" and browser.run("document.querySelectorAll('.body .row').length") < 60
    browser.run("document.getElementById('grid-body').scrollTop = 1e9")
    browser.wait("[...document.querySelectorAll('.body .row:not([hidden]) .position')]"
                 ".some(e => e.textContent === '19999')")  # fmt: skip
    rows_came(browser)
    browser.run("document.querySelector(\".body .row[data-call='19999']\").click()")
    browser.wait(f"{DRAWER}.textContent.includes('Inputs')")
    assert "case=19999" in browser.run("location.hash")


@needs_browser
def test_the_server_filters_and_sorts(browser: Browser, url: str, campaign: Path) -> None:
    results = load_check(campaign).results
    assert isinstance(results, Results)
    overview = results.overview()
    visit(browser, url)
    rows_came(browser)
    cell = browser.run("(() => { const cell = [...document.querySelectorAll('.matrix-space .cell.bad')][0];"
                       " const title = cell.title; cell.click(); return title; })()")  # fmt: skip
    api, dtype = cell.split(": ")[0].split(", ")
    expected = len(overview.order(Query(api=api, dtypes=(dtype,))))
    browser.wait(f"document.getElementById('shown').textContent === '{expected} of 20,000'")
    rows_came(browser)
    assert set(names(browser)) == {api}
    assert f"dtype={dtype}" in browser.run("location.hash") and f"api={api}" in browser.run("location.hash")
    browser.run("document.getElementById('clear').click()")
    browser.wait("document.getElementById('shown').textContent === '20,000'")
    browser.click_on(".status[data-ending='crashed']")
    crashed = load_check(campaign).summary.endings[Ending.CRASHED]
    browser.wait(f"document.getElementById('shown').textContent === '{crashed} of 20,000'")
    rows_came(browser)
    assert set(texts(browser, ".body .row:not([hidden]) .tag")) == {"crashed"}
    browser.run("document.getElementById('clear').click()")
    choose(browser, "search", "operator_33 mismatch-free", "input")
    browser.wait("document.getElementById('shown').textContent === '0 of 20,000'")
    assert "No case matches." in browser.run("document.querySelector('.body').textContent")


@needs_browser
def test_the_address_holds_filter_order_case_and_search(browser: Browser, url: str) -> None:
    visit(browser, url, "ending=mismatch&sort=-seconds&case=5&apis=fft")
    rows_came(browser)
    assert set(texts(browser, ".body .row:not([hidden]) .tag")) == {"mismatch"}
    assert texts(browser, ".row.head .sorted") == ["time ↓"]
    browser.wait(f"{DRAWER}.textContent.includes('Inputs')")
    assert texts(browser, "#drawer h2") != [""], "the case is told although no window had it"
    labels = texts(browser, ".matrix-space .matrix-row:not([hidden]) .label")
    assert labels and all("fft" in label for label in labels)


@needs_browser
@pytest.mark.parametrize("width", [390, 2560])
def test_it_fits_a_phone_and_a_wall(tmp_path: Path, url: str, width: int) -> None:
    with Browser(tmp_path / "profile", width, 900) as other:
        for theme in ("light", "dark"):
            visit(other, url, "case=5")
            other.wait(f"{DRAWER}.textContent.includes('Inputs')")
            if other.run("document.documentElement.dataset.theme") != theme:
                other.run("document.getElementById('theme').click()")
            assert other.run("document.documentElement.scrollWidth") <= width
            assert other.run(f"{DRAWER}.scrollWidth <= {DRAWER}.clientWidth")
            style = "getComputedStyle(document.querySelector('.cell.bad'))"
            assert other.run(f"{style}.color !== {style}.backgroundColor")
        assert other.complaints == []


@needs_browser
def test_in_chinese(browser: Browser, url: str) -> None:
    visit(browser, url, "lang=zh&ending=crashed")
    rows_came(browser)
    assert "API 与数据类型" in browser.run("document.body.innerText")
    assert set(texts(browser, ".body .row:not([hidden]) .tag")) == {"崩溃"}
    assert "个错误" in browser.run("document.querySelector('h1').textContent")


def test_requests_cannot_ask_for_more_than_rows(url: str, campaign: Path) -> None:
    found = ask(url, "rows", **{"from": "0", "size": "99999"})
    assert isinstance(found, dict) and found["total"] == CASES and len(found["rows"]) == 400
    for words in ({"from": "-1", "size": "5"}, {"from": "0"}, {"from": "1e9", "size": "5"}, {"from": "0", "size": "x"}):
        with pytest.raises(HTTPError, match="404"):
            ask(url, "rows", **words)
    with pytest.raises(HTTPError, match="404"):
        ask(url, "detail", position=str(CASES))
    with pytest.raises(HTTPError, match="404"):
        ask(url, "changes")
    hostile = "x' OR 1=1; DROP TABLE cases; --"
    for name in ("text", "api", "dtype", "ending"):
        found = ask(url, "rows", **{"from": "0", "size": "5", name: hostile})
        assert isinstance(found, dict) and found["total"] == 0
    assert len(load_check(campaign).results) == CASES


# a campaign that runs


def judged(kind: str, case: Case, seconds: float = 0.001, reason: str = "") -> CaseResult:
    """A case as a check records it: measured, and judged by the standard of the check."""
    measured = measured_of(kind, "float32")
    candidate = replace(measured.candidate, seconds=seconds, reason=reason or measured.candidate.reason)
    return judge_case(case, replace(measured, key=case.key, candidate=candidate), check_standard_named("calibrated"))


def _results(count: int) -> list[CaseResult]:
    return [
        judged("sound", case_of("torch.relu", seed=n), 0.001 * (n + 1)) if n % 4
        else judged("wrong", case_of("torch.tanh", seed=n)) for n in range(count)
    ]  # fmt: skip


@contextmanager
def running(folder: Path, results: list[CaseResult]) -> Iterator[Ledger]:
    """A campaign that was planned and runs: whoever has the ledger writes down what has ended."""
    with Ledger(folder, {"made by": "a test"}) as ledger:
        ledger.connection.executemany(
            "INSERT INTO cases (number, key, position, api, dtype, line, count, cost, bytes, case_json) "
            "VALUES (?, ?, ?, ?, 'float32', ?, 1, 0.1, 1, ?)",
            [(n + 1, one.case.key, n, one.case.api, f"line {n}", json.dumps(case_to_json(one.case)))
             for n, one in enumerate(results)],
        )  # fmt: skip
        ledger.put("judge", judge_name(check_standard_named("calibrated")))
        ledger.commit()
        ledger.write_info(info_of(calls=len(results), target="torch:cpu"))
        yield ledger


@needs_browser
def test_a_running_campaign_is_followed_to_its_end(browser: Browser, tmp_path: Path) -> None:
    results = _results(40)
    with running(tmp_path / "check", results) as ledger:
        for n in range(6):
            ledger.record(n + 1, results[n])
        ledger.commit()
        with serving(check_page(tmp_path / "check")) as address:
            visit(browser, address)
            browser.wait("document.getElementById('progress-facts').innerText.includes('6 of 40')")
            assert texts(browser, "#progress-title") == ["Running"]
            assert browser.run("document.getElementById('progress-bar').value") == pytest.approx(0.15)
            assert {"2 mismatch", "34 waiting"} <= {text.lstrip("✕✓…! ") for text in texts(browser, ".status")}
            for n in range(6, 20):
                ledger.record(n + 1, results[n])
            ledger.commit()
            browser.wait("document.getElementById('progress-facts').innerText.includes('20 of 40')")
            assert "5 of 40 cases are wrong" in browser.run("document.querySelector('h1').textContent")
            browser.wait("document.querySelectorAll('.body .row.fail:not([hidden])').length === 5")
            assert texts(browser, "#slowest .link")[0] == "torch.relu"
            cells = texts(browser, ".matrix-space .cell")
            assert "✕ 5/10" in cells and "… 15/30" in cells
            rate = browser.run("document.querySelectorAll('#progress-facts .value')[2].textContent")
            assert float(rate) > 0, "cases a second, after two looks"
            for n in range(20, 40):
                ledger.record(n + 1, results[n])
            ledger.close()
            browser.wait("document.getElementById('progress-title').innerText === 'Finished'")
            assert "40 of 40" in browser.run("document.getElementById('progress-facts').innerText")
            browser.wait("document.querySelectorAll('.body .row.fail:not([hidden])').length === 10")
            asked = len(browser.requests)
            browser.run("new Promise((done) => setTimeout(done, 2000))")
            assert len(browser.requests) == asked, "nobody asks for the progress of what has ended"
    assert isinstance(check_page(tmp_path / "check"), pages.Page), "small and done: the page holds it all"


@needs_browser
def test_a_campaign_that_was_stopped_says_so(browser: Browser, tmp_path: Path) -> None:
    results = _results(12)
    with running(tmp_path / "check", results) as ledger:
        ledger.record(1, results[0])
        ledger.commit()
        with serving(check_page(tmp_path / "check")) as address:
            visit(browser, address)
            browser.wait("document.getElementById('progress-title').innerText === 'Running'")
            ledger.close()
            browser.wait("document.getElementById('progress-title').innerText === 'Stopped'")


def test_a_check_that_is_being_planned_cannot_be_viewed_yet(tmp_path: Path) -> None:
    with Ledger(tmp_path / "check", {}), pytest.raises(UsageError, match="still being planned"):
        check_page(tmp_path / "check")


@needs_browser
def test_a_real_campaign_is_seen_while_it_runs(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import trueline

    folder, place = tmp_path / "check", "tests.web.slow_kernels"
    overrides = {"torch.nn.functional.relu": f"{place}:relu_slow",
                 "torch.nn.functional.gelu": f"{place}:gelu_slow_and_wrong"}  # fmt: skip
    work = threading.Thread(target=trueline.check, kwargs={
        "ops": ["torch.nn.functional.relu", "torch.nn.functional.gelu"], "target": "torch:cpu", "overrides": overrides,
        "out": folder, "workers": 0,
    })  # fmt: skip
    work.start()
    try:
        patience = time.monotonic() + 60
        while not (folder / "check.json").exists() and time.monotonic() < patience:
            time.sleep(0.02)
        with serving(check_page(folder)) as address:
            visit(browser, address)
            assert texts(browser, "#progress-title") == ["Running"]
            browser.wait("document.querySelectorAll('.body .row.fail:not([hidden])').length > 0")
            browser.wait("document.getElementById('progress-title').innerText === 'Finished'")
            report = load_check(folder)
            wrong = len(report.failures)
            browser.wait(f"document.querySelectorAll('.body .row.fail:not([hidden])').length === {wrong}")
            assert set(names(browser)[:wrong]) == {"torch.nn.functional.gelu"} and wrong > 0
    finally:
        work.join(120)


def test_pace_is_that_of_the_last_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(pages, "monotonic", lambda: clock[0])
    pace = Pace()
    assert pace.rate is None and pace.seconds_left is None
    pace.add(Progress(1000, 1000, 500.0))
    assert pace.rate is None and pace.seconds_left is None
    clock[0] = 10.0
    pace.add(Progress(1000, 900, 400.0))
    assert pace.rate == 10.0 and pace.seconds_left == 40.0, "the longest come first: by cost, not by number"
    for at in (40.0, 70.0, 100.0):
        clock[0] = at
        pace.add(Progress(1000, 890, 390.0))
    assert pace.rate == 0.0 and pace.seconds_left is None


# what changed


@needs_browser
@pytest.mark.parametrize("way", ["file", "view", "windowed"])
def test_what_changed_since_an_earlier_check(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    old = make_ledger(tmp_path / "old", 600, apis=30, faulty=60)
    new = make_ledger(tmp_path / "new", 600, apis=30, faulty=30)
    report = load_check(new)
    diff = diff_checks(old, report)
    assert diff.new_failures > 0
    if way == "file":
        with open(tmp_path / "check.html", "w", encoding="utf-8") as stream:
            write_check_html(report.info, report.results, stream, folder=new, against=("checks/old", diff))
        browser.open(tmp_path / "check.html")
        _look_at_changes(browser, diff.new_failures, diff.known)
        return
    if way == "windowed":
        monkeypatch.setattr(pages, "WINDOWED_FROM", 100)
    with serving(check_page(new, baseline=str(old))) as address:
        visit(browser, address)
        _look_at_changes(browser, diff.new_failures, diff.known)


def test_the_command_writes_what_changed_into_the_page(tmp_path: Path) -> None:
    old = make_ledger(tmp_path / "old", 120, apis=10, faulty=1_000_000)
    new = make_ledger(tmp_path / "new", 120, apis=10, faulty=12)
    page = tmp_path / "page.html"
    assert main(["report", str(new), "--baseline", str(old), "--html", str(page), "--rows", "1"]) == 1
    text = page.read_text(encoding="utf-8")
    data = json.loads(text[text.index('id="data">') + 10 : text.index("</script>")])
    assert data["changes"]["old"] == str(old) and data["changes"]["counts"]["new failure"] > 0
    assert main(["report", str(new), "--baseline", str(new), "--html", str(page), "--rows", "1"]) == 0
    assert main(["report", str(new), "--baseline", str(tmp_path / "none"), "--html", str(page)]) == 2


def _look_at_changes(browser: Browser, new: int, known: int) -> None:
    browser.wait("document.querySelectorAll('.change-list li').length > 0")
    text = browser.run("document.getElementById('changes-card').innerText")
    assert f"✕ new failures {new}" in text and f"{known} fail in both" in text
    assert len(texts(browser, ".change-list li")) == new
    assert "pass → " in texts(browser, ".change-list .way")[0]
    api = texts(browser, ".change-list .link")[0]
    browser.click_on(".change-list .link")
    browser.wait(f"{DRAWER}.textContent.includes('Inputs') || {DRAWER}.textContent.includes('Call')")
    assert texts(browser, "#drawer h2") == [api]


# groups of failures


def triaged(folder: Path, results: list[CaseResult], **changes: object) -> None:
    """What ``trueline triage`` leaves in the folder of a check."""
    member = results[9].case
    group = Group(
        "01-gelu-float32-forward", Signature("gelu", "float32", "forward", Look.FACTOR, "times 1.002"), Ending.MISMATCH,
        3, 14, (Member(member.key, member.api, "model.py:49", "41 times the honest error"),), (member.api,),
        Label.TARGET, "the same operator in float64 gives something else", (Opinion("k", "l", again="mismatch"),),
        folder / "triage" / "groups" / "01-gelu-float32-forward", True,
    )  # fmt: skip
    group = replace(group, **changes)  # type: ignore[arg-type]
    found = Triage(folder, folder / "triage", "torch:cpu", "torch:cpu/float64", 106, {"mismatch": 4}, (group,))
    script = folder / "triage" / "groups" / "01-gelu-float32-forward" / "repro.py"
    script.parent.mkdir(parents=True)
    script.write_text(f"import torch  # {HOSTILE}\n", encoding="utf-8")
    content = {"format": "trueline-triage", "version": 1, **as_plain(found), "labels": found.labels}
    (folder / "triage" / "groups.json").write_text(json.dumps(content), encoding="utf-8")


def written(folder: Path, info: CheckInfo, results: list[CaseResult]) -> Path:
    with open(folder / "check.html", "w", encoding="utf-8") as stream:
        write_check_html(info, results, stream, folder=folder)
    return folder / "check.html"


@needs_browser
def test_groups_of_a_triage_come_with_cause_command_and_script(browser: Browser, tmp_path: Path) -> None:
    info, results = fake_check()
    triaged(tmp_path, results)
    browser.open(written(tmp_path, info, results))
    assert texts(browser, ".group .pill") == ["target wrong"] and texts(browser, ".group .size") == ["3 cases"]
    browser.click_on(".group summary")
    browser.wait("document.querySelector('.group .script pre')")
    text = browser.run("document.querySelector('.group').innerText")
    assert "as it was: mismatch" in text and "groups/01-gelu-float32-forward/repro.py" in text
    assert "open=01-gelu" in browser.run("location.hash")
    assert "import torch" in browser.run("document.querySelector('.group .script pre').textContent")
    assert browser.run("document.querySelectorAll('img').length") == 0
    browser.click_on(".group .members .link")
    assert "41.2" in browser.run(f"{DRAWER}.innerText")


@needs_browser
def test_without_a_triage_failures_are_grouped_by_their_look(browser: Browser, tmp_path: Path) -> None:
    info, results = fake_check()
    results += [replace(results[9], case=replace(results[9].case, seed=1000 + n)) for n in range(3)]
    browser.open(written(tmp_path, info, results))
    assert texts(browser, ".group .size")[0] == "4 cases", "the largest first"
    assert f"trueline triage {tmp_path}" in browser.run("document.getElementById('groups-card').innerText")
    browser.click_on(".group summary")
    browser.wait("document.querySelector('.group .ghost')")
    browser.click_on(".group .ghost")
    browser.wait("document.getElementById('shown').textContent.includes(' of ')")
    assert set(names(browser)) == {"torch.nn.functional.gelu"}
    assert shown(browser).startswith("4 of") or shown(browser).startswith("6 of")


def test_a_triage_reads_nothing_from_elsewhere(tmp_path: Path) -> None:
    info, results = fake_check()
    folder = tmp_path / "check"
    folder.mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "repro.py").write_text("secret")
    triaged(folder, results, name="../../../secret")
    told = groups_data(folder, (), Dtypes(info))["groups"][0]
    assert told["script"] == "" and told["text"] == ""
    for damage in ("[]", "{", '{"format": "trueline-triage", "groups": [{"name": 3}]}', '{"checksum": "0"}'):
        (folder / "triage" / "groups.json").write_text(damage)
        with pytest.raises(CorruptRunError, match=r"groups\.json"):
            groups_data(folder, (), Dtypes(info))
    (folder / "triage" / "groups.json").write_text('{"format": "other"}')
    assert groups_data(folder, (), Dtypes(info))["made"] is False


@needs_browser
def test_hostile_names_are_text_in_every_part(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "WINDOWED_FROM", 1)
    case = case_of(HOSTILE, module=HOSTILE, source=HOSTILE)
    bad = judged("crash", case, reason=HOSTILE)
    results = [bad, *_results(4)]
    with running(tmp_path / "check", results) as ledger:
        for n, one in enumerate(results, 1):
            ledger.record(n, one)
    triaged(tmp_path / "check", [bad] * 10, why=HOSTILE, apis=(HOSTILE,))
    with serving(check_page(tmp_path / "check")) as address:
        visit(browser, address, urlencode({"api": HOSTILE, "open": "01-gelu-float32-forward", "case": "0"}))
        rows_came(browser)
        browser.wait(f"{DRAWER}.textContent.includes('Inputs')")
        assert names(browser) == [HOSTILE] and shown(browser) == "1 of 5"
        assert browser.run("document.title") != "owned" and browser.run("document.querySelectorAll('img').length") == 0
        for place in (".matrix", ".groups", "#drawer", ".lead"):
            assert HOSTILE in browser.run(f"document.querySelector('{place}').textContent"), place
