"""Every command that the README shows is understood by the parser."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from trueline.cli.main import COMMANDS, module_of

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SHOWN = [
    *re.findall(r"^\$ trueline (.+)$", README, re.MULTILINE),
    *re.findall(r"^\| `trueline (.+?)` \|", README, re.MULTILINE),
]


def test_every_command_is_in_the_readme() -> None:
    assert {shlex.split(text)[0] for text in SHOWN} == set(COMMANDS)


@pytest.mark.parametrize("text", SHOWN)
def test_shown_commands_are_understood(text: str) -> None:
    words = shlex.split(re.sub(r"\[(\w+)\]", r"\1", text))
    importlib.import_module(f"trueline.cli.{module_of(words[0])}").parser().parse(words[1:])
