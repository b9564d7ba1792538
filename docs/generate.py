"""Writes the reference pages from what the commands, the public names and the standards say of themselves.

    python docs/generate.py [--check]

``--check`` writes nothing and ends with 1 where a page is not what it would write.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "src"))
_WIDTH = "100"


def commands_page() -> str:
    """Every command with its help, as it prints it."""
    import os

    os.environ["COLUMNS"] = _WIDTH  # argparse folds its help to the terminal
    from trueline.cli.main import COMMANDS, module_of

    parts = ["# Commands\n", "Made from `--help` by `python docs/generate.py`.\n"]
    for name, summary in COMMANDS.items():
        parser = importlib.import_module(f"trueline.cli.{module_of(name)}").parser()
        parts += [
            f"## trueline {name}\n",
            f"{summary[0].upper()}{summary[1:]}.\n",
            f"```text\n{parser.format_help().rstrip()}\n```\n",
        ]
    return "\n".join(parts)


def names_page() -> str:
    """Every public name with its signature and what it says of itself."""
    import trueline

    parts = ["# Python\n", "The public names, made from their docstrings by `python docs/generate.py`.\n"]
    for name in trueline.__all__:
        if not name.startswith("_"):
            parts += _described(name, getattr(trueline, name))
    return "\n".join(parts)


def _described(name: str, value: object) -> list[str]:
    lines = [f"## trueline.{name}\n"]
    if inspect.isclass(value) and issubclass(value, Exception):
        lines.append(f"```text\nclass {name}(Exception)\n```\n")
    elif inspect.isclass(value):
        lines.append(f"```text\nclass {name}\n```\n")
    elif callable(value):
        lines.append(f"```text\n{_signature(name, value)}\n```\n")
    lines.append((inspect.getdoc(value) or "").strip() + "\n")
    if inspect.isclass(value):
        lines += _members(value)
    return lines


def _signature(name: str, value: object) -> str:
    signature = inspect.signature(value)  # type: ignore[arg-type]
    whole = f"{name}{signature}"
    if len(whole) <= int(_WIDTH):
        return whole
    inside = "".join(f"    {parameter},\n" for parameter in _parameters(signature))
    returns = "" if signature.return_annotation is inspect.Signature.empty else f" -> {signature.return_annotation}"
    return f"{name}(\n{inside}){returns}"


def _parameters(signature: inspect.Signature) -> list[str]:
    shown: list[str] = []
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        shown.append(str(parameter))
    return shown


def _members(value: type) -> list[str]:
    """The methods and properties that a class has of its own, those with a docstring."""
    rows = []
    for name, member in vars(value).items():
        text = (
            inspect.getdoc(member.fget if isinstance(member, property) else member)
            if not name.startswith("_")
            else None
        )
        if text and (isinstance(member, property) or inspect.isfunction(member)):
            shown = name if isinstance(member, property) else f"{name}()"
            rows.append(f"| `{shown}` | {' '.join(text.split()).replace('|', chr(92) + '|')} |")
    return ["| member | |\n|---|---|\n" + "\n".join(rows) + "\n"] if rows else []


PAGES = {"reference/cli.md": commands_page, "reference/api.md": names_page}


def main() -> int:
    stale = 0
    for name, made in PAGES.items():
        path, text = FOLDER / name, made()
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                print(f"{path} is not what docs/generate.py writes; run it")
                stale = 1
        else:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
