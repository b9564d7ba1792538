"""The documentation: its commands and programs run, its reference is up to date, its links lead somewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import Block, blocks, fenced

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHINESE = DOCS / "zh"
# Chinese pages show what the English ones show (a test below), so that running the English ones is enough.
PAGES = sorted(page for page in DOCS.rglob("*.md") if any(blocks(page)) and CHINESE not in page.parents)
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))


def environment() -> dict[str, str]:
    folder = str(Path(sys.executable).parent)
    return {
        **os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def ran(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )  # fmt: skip


def run_block(block: Block, folder: Path) -> None:
    if block.kind == "file":
        path = folder / block.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    elif block.kind == "python":
        ended = ran([sys.executable, "-c", block.text], folder)
        assert ended.returncode == 0, block.text + ended.stdout + ended.stderr
    else:
        for command in block.commands:
            ended = ran(["bash", "-c", command.replace("trueline ", f"{sys.executable} -m trueline ", 1)], folder)
            said = f"$ {command}\n{ended.stdout}{ended.stderr}"
            assert ended.returncode in (0, 1) and "Traceback" not in ended.stderr, said  # 1: it found something


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_a_page_says_runs(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if "paddle" in page.read_text(encoding="utf-8"):
        pytest.importorskip("paddle")
    for block in blocks(page):
        run_block(block, tmp_path)


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.name)
def test_a_chinese_page_shows_the_same_code(page: Path) -> None:
    translated = CHINESE / "how-to" / page.name
    assert translated.exists(), f"{page.relative_to(DOCS)} has no Chinese page: write {translated.relative_to(DOCS)}"
    assert fenced(translated) == fenced(page)
    assert any("\u4e00" <= character <= "\u9fff" for character in translated.read_text(encoding="utf-8"))


def test_no_chinese_page_is_left_over_or_runs_code_of_its_own() -> None:
    assert {page.name for page in (CHINESE / "how-to").glob("*.md")} <= {page.name for page in HOW_TO}
    assert not [page for page in CHINESE.glob("*.md") if any(blocks(page))]


def test_the_reference_is_up_to_date() -> None:
    ended = ran([sys.executable, str(DOCS / "generate.py"), "--check"], ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_site_is_built_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    source = tmp_path / "docs"
    shutil.copytree(DOCS, source)
    ended = ran([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(source), str(tmp_path / "site")], ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "site" / "zh" / "index.html").exists()
