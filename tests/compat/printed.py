"""The predecessors' own documents, where they lie beside the repository, and the tables of our guides.

A guide has a table of everything that its document prints: ``| typed | as written |`` or why not. Tests walk through
what is typed; here the table is held against the document, so that nothing printed there is forgotten.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "coming-from"
CHINESE = ROOT / "docs" / "zh"
_COMMANDS = ("bash ", "cd ", "cp ", "export ", "pip ", "pip3 ", "python ", "python3 ", "./run")
_HEADS = ("| what the document prints |", "| 文档中的内容 |")
_ROW = re.compile(r"^\| (?P<typed>`.+?`|[^|]+?) \| (?P<how>[^|]+?) \|$", re.M)
AS_WRITTEN = ("as written", "照原样")


def document(title: str) -> str:
    """The text of the document that begins with this title."""
    folder = next((one / "shared" / "seeds" for one in ROOT.parents if (one / "shared" / "seeds").is_dir()), None)
    if folder is None:
        pytest.skip("the predecessors' documents are not here")
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if title in text[:400]:
            return text
    pytest.skip(f"the document {title!r} is not here")


def commands(text: str) -> list[str]:
    """Every line that is typed into a shell: those that begin with a command. Prose does not."""
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return [line for line in lines if line.startswith(_COMMANDS)]


def table(guide: Path) -> dict[str, str]:
    """What is typed -> how it works, of the guide's table of the document."""
    text = guide.read_text(encoding="utf-8")
    start = min(text.index(head) for head in _HEADS if head in text)
    rows = _ROW.findall(text[start : text.index("\n\n", start)])[1:]
    return {typed.strip("`").replace("\\|", "|"): how for typed, how in rows}


def plain(command: str) -> str:
    """A command without what each user writes in its own way: spaces, brackets around places, quotes."""
    return re.sub(r"[\s\"'“”]+", " ", command).strip()


def check_guide(name: str, title: str) -> None:
    """Each command of the document stands in the tables of both guides, and both say the same of it."""
    english, chinese = (table(folder / f"{name}.md") for folder in (GUIDES, CHINESE))
    ours = {plain(typed) for typed in english}
    missing = [command for command in commands(document(title)) if plain(command) not in ours]
    assert not missing, "\n".join(missing)
    assert list(english) == list(chinese)


def check_languages(name: str) -> None:
    """The same rows in both languages, with the same answer, and a reason where it is not as written."""
    english, chinese = (table(folder / f"{name}.md") for folder in (GUIDES, CHINESE))
    assert english and list(english) == list(chinese)
    for typed, how in english.items():
        assert how.startswith(AS_WRITTEN[0]) == chinese[typed].startswith(AS_WRITTEN[1]), typed
        assert len(how) > 3, f"{typed} is not as written, and no reason is given"
