"""Reads the pages' own files: which texts they show, and which of them have Chinese words.

python -m tests.web.words           what has no Chinese words, by page
python -m tests.web.words FILE ...  puts the entries of such files in order
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from trueline import report
from trueline.report.html import FRAME, Layout, asset

SOURCE = Path(report.__file__).parents[1]
_STRING = r'"(?:[^"\\]|\\.)*"'
_ENTRY = re.compile(rf"^  ({_STRING}): ({_STRING}),$", re.MULTILINE)
_ATTRIBUTES = ("aria-label", "placeholder", "title")
_LETTERS = re.compile(r"[A-Za-z]{2,}")
NAMES = frozenset({"trueline", "true", "line"})
"""Texts that are the same in every language."""


def layouts() -> dict[str, Layout]:
    """Every page: the name of its body -> what it is made of."""
    found = {}
    for module in pkgutil.iter_modules(report.__path__):
        layout = getattr(importlib.import_module(f"trueline.report.{module.name}"), "LAYOUT", None)
        if isinstance(layout, Layout):
            found[layout.body.removesuffix(".html")] = layout
    return found


def own_scripts(layout: Layout) -> list[str]:
    return [name for name in layout.all_scripts if not name.startswith(("vendor/", "chinese"))]


def entries(name: str) -> list[tuple[str, str]]:
    """The words of one file, in its order."""
    return [(json.loads(english), json.loads(chinese)) for english, chinese in _ENTRY.findall(asset(name))]


def chinese_of(layout: Layout) -> dict[str, str]:
    """What a page can say in Chinese."""
    return dict(entry for name in layout.all_scripts if name.startswith("chinese") for entry in entries(name))


def arguments(text: str, start: int) -> list[str]:
    """The arguments of a call whose opening bracket ends at ``start``, as they are written."""
    depth, quote, begin, found, at = 0, "", start, [], start
    while at < len(text):
        letter = text[at]
        if quote:
            if letter == "\\":
                at += 1
            elif letter == quote:
                quote = ""
        elif letter in "\"'`":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            if depth == 0:
                return [*found, text[begin:at].strip()]
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    raise AssertionError("a call that never ends")


def said(name: str) -> Iterator[str]:
    """Every text that a script says. Each must be a literal, or a choice between literals."""
    text = asset(name)
    for opened in re.finditer(r"(?<!function )\b(say|several)\(", text):
        given = arguments(text, opened.end())
        for argument in given[:1] if opened[1] == "say" else given[1:3]:
            choices = re.fullmatch(rf"(?:[^?\"]+\? )?({_STRING})(?: : (?:[^?\"]+\? )?({_STRING}))*", argument)
            if name == "common.js" and argument in ("n === 1 ? one : many", "text"):
                continue
            assert choices, f"{name}: say({argument}): the text must stand there itself"
            yield from (json.loads(one) for one in re.findall(_STRING, argument))


def unsaid(name: str) -> Iterator[str]:
    """Texts that a script puts into the page without asking for their Chinese words."""
    text = asset(name)
    for opened in re.finditer(r"\belement\(", text):
        given = arguments(text, opened.end())
        if len(given) > 2 and re.match(r"[\"`]", given[2]) and _LETTERS.search(_plain(given[2])):
            yield given[2]
    for assigned in re.finditer(r"\.(?:textContent|title|placeholder)\s*=\s*([\"`][^\n;]*)", text):
        if _LETTERS.search(_plain(assigned[1])):
            yield assigned[1]
    for opened in re.finditer(r"setAttribute\(\"(?:aria-label|title)\", ([\"`][^\n;]*)", text):
        if _LETTERS.search(_plain(opened[1])):
            yield opened[1]


def _plain(template: str) -> str:
    """What a literal itself says: without the values that are put in."""
    return re.sub(r"\$\{[^}]*\}", "", template)


class _Texts(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent = tag in ("script", "style", "title")
        self.found += [value for name, value in attrs if name in _ATTRIBUTES and value]

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append(data.strip())


def static_texts(layout: Layout) -> list[str]:
    """What the HTML of a page says by itself."""
    text = asset(FRAME).replace("{{body}}", asset(layout.body)).replace("{{noun}}", layout.noun)
    texts = [one for one in _Texts(text).found if "{{" not in one]
    return [one for one in texts if _LETTERS.search(one) and one not in NAMES]


def phrases() -> Iterator[tuple[str, str]]:
    """Every template of a sentence that Python writes for a page, with the module that writes it."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if "report.phrases import" in text else "")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                given = {"Phrase": node.args[:1], "Phrases": node.args[:1], "counted": node.args[1:3]}
                for argument in given.get(node.func.id, []):
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield argument.value, path.name


def repeated(names: list[str]) -> list[str]:
    """Keys that stand more than once in these files."""
    counts = Counter(english for name in names for english, _ in entries(name))
    return [english for english, times in counts.items() if times > 1]


def missing(layout: Layout) -> dict[str, str]:
    """Texts of a page that have no Chinese words, with where they stand."""
    known = chinese_of(layout)
    found = {text: name for name in own_scripts(layout) for text in said(name)}
    found |= dict.fromkeys(static_texts(layout), layout.body)
    return {text: name for text, name in found.items() if text not in known}


def _put_in_order(name: str) -> None:
    file = SOURCE / "report" / "assets" / name
    text, found = file.read_text(encoding="utf-8"), dict(entries(name))
    lines = [f"  {_quoted(english)}: {_quoted(found[english])},\n" for english in sorted(found)]
    first, last = text.index("{\n") + 2, text.rindex("}")
    file.write_text(text[:first] + "".join(lines) + text[last:], encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main(files: list[str]) -> None:
    for file in files:
        _put_in_order(file)
    if files:
        return
    for page, layout in layouts().items():
        for text, name in missing(layout).items():
            print(f"{page}: {name}: {_quoted(text)}")
        for name in own_scripts(layout):
            for text in unsaid(name):
                print(f"{page}: {name}: not said: {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
