"""What the tests of pages ask a browser again and again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.report.browser import Browser

WIDTHS = (390, 1280, 2560)


def opened(browser: Browser, file: Path, fragment: str = "") -> None:
    """Opens a file anew, and forgets what the browser saw before."""
    browser.send("Page.navigate", url="about:blank")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(file, fragment)


def plain(text: str) -> str:
    """A text in letters of a keyboard: the signs of multiplication and of nothing are not x and -."""
    return text.replace("\u00d7", "x").replace("\u2013", "-")


def text(browser: Browser, selector: str) -> str:
    """What is shown there, in one line, plain."""
    found = browser.run(f"document.querySelector({json.dumps(selector)}).innerText")
    return plain(" ".join(str(found).split()))


def shown(browser: Browser, selector: str) -> bool:
    return bool(browser.run(f"document.querySelector({json.dumps(selector)})?.getClientRects().length"))


def choose(browser: Browser, control: str, value: str) -> None:
    """Sets a control of the table and lets it know."""
    browser.run(
        f"(() => {{ const control = document.getElementById({json.dumps(control)});"
        f" control.value = {json.dumps(value)};"
        " control.dispatchEvent(new Event(control.tagName === 'SELECT' ? 'change' : 'input')); })()"
    )
    browser.run("new Promise((done) => setTimeout(done, 130))")


def rows(browser: Browser, cell: str = ".name") -> list[str]:
    """That cell of all rows in view, from the top down."""
    found: list[str] = browser.run(
        "[...document.querySelectorAll('.body .row:not([hidden])')]"
        ".sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))"
        f".map((row) => row.querySelector({json.dumps(cell)}).textContent)"
    )
    return found


def fits(browser: Browser) -> bool:
    """Whether the page itself cannot be scrolled sideways, whatever its width."""
    return bool(browser.run("document.documentElement.scrollWidth <= window.innerWidth"))


def asks_only(browser: Browser, start: str) -> None:
    assert browser.complaints == []
    assert all(address.startswith((start, "about:")) for address in browser.requests)
