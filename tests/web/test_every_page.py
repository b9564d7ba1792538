"""Every page, both ways in: hostile names are text, nothing runs that is not ours, nothing is asked of anybody else or
told to anybody else."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

import pytest

from tests.report.browser import Browser
from tests.web.every_page import FILES, KINDS, Kind, look_around, texts_of, visit
from trueline.report import html
from trueline.web.server import ViewServer

OUTSIDE = (
    "../../etc/passwd", "%2e%2e%2fledger.db", "data/../ledger.db", "data/log?position=../../etc/passwd", "run.json",
    "data/detail?position=-1", "data/detail?position=99999999", "data/detail?position=0x1", "data/__class__",
)  # fmt: skip
MAYBE_NONE = ("data/changes", "data/gold")
"""Answers that there are only for some data: an earlier check, a call that can be executed again."""
every_kind = pytest.mark.parametrize("name", KINDS)
every_file = pytest.mark.parametrize("name", FILES)


@every_kind
def test_a_served_page_shows_hostile_names_as_text_and_asks_only_its_server(
    browser: Browser, kinds: dict[str, Kind], name: str
) -> None:
    with kinds[name].served() as server:
        visit(browser, server.url)
        look_around(browser)
        assert browser.run("globalThis.hacked") is None
        assert browser.run("document.querySelectorAll('img, iframe, object, main script, aside script').length") == 0
        assert browser.complaints == []
        assert browser.requests and all(address.startswith(server.url) for address in browser.requests)
        assert "<" in "".join(texts_of(browser))


@every_file
def test_a_file_shows_hostile_names_as_text_and_asks_nobody(
    browser: Browser, kinds: dict[str, Kind], name: str, tmp_path: Path
) -> None:
    file = kinds[name].file(tmp_path)
    visit(browser, f"file://{file}")
    look_around(browser)
    assert browser.run("globalThis.hacked") is None
    assert browser.run("document.querySelectorAll('img, iframe, object, main script, aside script').length") == 0
    assert browser.complaints == []
    assert {address.partition("#")[0] for address in browser.requests} == {f"file://{file}"}


def asked(port: int, path: str, host: str, method: str = "GET") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path, headers={"Host": host})
    status = connection.getresponse().status
    connection.close()
    return status


@every_kind
def test_every_answer_of_every_page_is_for_those_who_have_the_address(kinds: dict[str, Kind], name: str) -> None:
    with kinds[name].served() as server:
        port, own, start = server.server_port, f"127.0.0.1:{server.server_port}", f"/{server.token}/"
        for answer in ("", *answers_of(server)):
            path = f"{answer}?position=0&place=0&from=0&size=5"
            assert asked(port, start + path, own) == 200 or answer in MAYBE_NONE, f"{answer} answers nobody"
            assert asked(port, start + path, own, "POST") == 405
            assert asked(port, start + path, "evil.example") == 403
            assert asked(port, f"/{'x' * len(server.token)}/{path}", own) == 403
            assert asked(port, f"/{path}", own) == 403
        for outside in OUTSIDE:
            assert asked(port, start + outside, own) == 404


def answers_of(server: ViewServer) -> list[str]:
    """The names that the view of a server answers to."""
    return list(server.view._answers)  # type: ignore[attr-defined]


def test_every_question_of_the_scripts_has_an_answer(kinds: dict[str, Kind]) -> None:
    """Names of answers that stand in the scripts: each is known to the server of some page."""
    scripts = "".join(html.asset(file.name) for file in (Path(html.__file__).parent / "assets").glob("*.js"))
    named = set(re.findall(r"data/(\w+)", scripts))
    assert {"detail", "rows", "progress"} <= named
    known = set()
    for kind in kinds.values():
        with kind.served() as server:
            known |= {answer.removeprefix("data/") for answer in answers_of(server)}
    assert named <= known
