"""Failures in groups, for a page: those of a triage where one was made, with likely cause, what was tried and the
script that shows it; else those that look alike by their API, dtype, ending and reason.

A triage lies in files that may have come from anywhere: what they say is checked to be of the right kind, and a script
is read only where a triage writes one, below the folder of the check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trueline.cases import Ending
from trueline.groups import Group, Label, Look, Member, Opinion, Signature
from trueline.report.check_cells import Dtypes, Failing
from trueline.report.kept_scripts import kept_script, sealed_json
from trueline.report.triage import opinion_words, what_of
from trueline.report.wording import command
from trueline.store.intact import damaged

TRIAGE_FOLDER = "triage"
MOST_GROUPS = 200
_MOST_MEMBERS = 8
_MOST_DETAIL = 300
_STRIPPED = (
    (re.compile(r"0x[0-9a-fA-F]+"), "#"),
    (re.compile(r"\[[-\d,\s.]*\]|\((?=[-\d])[-\d,\s.]*\)"), "[#]"),
    (re.compile(r"(?<![A-Za-z_\d])[-+]?\d+(\.\d+)?([eE][-+]?\d+)?"), "#"),
    (re.compile(r"'[^']{40,}'|\"[^\"]{40,}\""), "'...'"),
    (re.compile(r"/\S+/"), ""),
    (re.compile(r"\s+"), " "),
)
_NAME = re.compile(r"[\w-]{1,120}")


def stripped(text: str) -> str:
    """An error without what differs from case to case: numbers, shapes, addresses, long quotations, folders."""
    for pattern, by in _STRIPPED:
        text = pattern.sub(by, text)
    return text.strip()[:_MOST_DETAIL]


def groups_data(folder: Path | None, failing: Iterable[Failing], dtypes: Dtypes) -> dict[str, Any]:
    """What the page shows of groups. ``made`` says that a triage made them."""
    found = None if folder is None else triage_groups(folder / TRIAGE_FOLDER)
    if folder is not None and found is not None:
        told = [_of_triage(group, folder) for group in found[:MOST_GROUPS]]
        return {"made": True, "command": "", "groups": told, "more": max(0, len(found) - MOST_GROUPS)}
    looks = alike(failing, dtypes)
    asked = "" if folder is None or not looks else command("trueline", "triage", folder)
    return {"made": False, "command": asked, "groups": looks[:MOST_GROUPS], "more": max(0, len(looks) - MOST_GROUPS)}


def alike(failing: Iterable[Failing], dtypes: Dtypes) -> list[dict[str, Any]]:
    """Failures by API, dtype, ending and reason, the largest group first."""
    groups: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for one in failing:
        dtype = dtypes.shown(one.dtype)
        group = groups.setdefault((one.api, dtype, one.ending, stripped(one.reason)), {
            "what": one.api, "apis": [one.api], "dtype": dtype, "ending": one.ending, "why": one.reason, "size": 0,
            "members": [],
        })  # fmt: skip
        group["size"] += one.cases
        if len(group["members"]) < _MOST_MEMBERS:
            group["members"].append({"key": one.key, "api": one.api, "line": "", "reason": one.reason})
    return sorted(groups.values(), key=lambda group: -group["size"])


def triage_groups(folder: Path) -> list[Group] | None:
    """The groups that a triage left in its folder; None where there is no triage."""
    file = folder / "groups.json"
    try:
        content = sealed_json(file, folder.parent)
    except FileNotFoundError:
        return None
    if content.get("format") != "trueline-triage":
        return None
    try:
        return [_group(one, folder) for one in content["groups"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        damaged(file, f"it has no groups of a triage ({type(error).__name__}: {error})", "make the triage again")


def _group(content: Mapping[str, Any], folder: Path) -> Group:
    name, signature = str(content["name"]), content["signature"]
    own = folder / "groups" / name
    return Group(
        name=name,
        signature=Signature(
            str(signature["family"]), str(signature["dtype"]), str(signature["direction"]), Look(signature["look"]),
            str(signature.get("detail", "")),
        ),
        ending=Ending(content["ending"]),
        size=int(content["size"]),
        of=int(content["of"]),
        members=tuple(Member(str(one["key"]), str(one["api"]), str(one["line"]), str(one["reason"]))
                      for one in content["members"]),
        apis=tuple(map(str, content["apis"])),
        label=Label(content["label"]),
        why=str(content["why"]),
        opinions=tuple(_opinion(one) for one in content.get("opinions", ())),
        folder=own if _NAME.fullmatch(name) and own.is_dir() else None,
        reproduced=bool(content.get("reproduced")),
        note=str(content.get("note", "")),
    )  # fmt: skip


def _opinion(content: Mapping[str, Any]) -> Opinion:
    numbers = {str(name): float(value) for name, value in content.get("numbers", {}).items()}
    return Opinion(
        str(content["key"]), str(content["line"]), str(content.get("again", "")),
        tuple(map(str, content.get("seeds", ()))), str(content.get("single", "")), str(content.get("double", "")),
        str(content.get("own", "")), numbers,
    )  # fmt: skip


def _of_triage(group: Group, folder: Path) -> dict[str, Any]:
    told = next((words for opinion in group.opinions if (words := opinion_words(opinion))), "")
    script = None if group.folder is None else kept_script(group.folder, folder)
    return {
        "name": group.name,
        "what": what_of(group),
        "apis": list(group.apis[:_MOST_MEMBERS]),
        "dtype": group.signature.dtype,
        "ending": group.ending.value,
        "label": group.label.value,
        "why": group.why,
        "tried": told,
        "size": group.size,
        "of": group.of,
        "members": [{"key": one.key, "api": one.api, "line": one.line, "reason": one.reason}
                    for one in group.members[:_MOST_MEMBERS]],
        "script": "" if script is None else script.command or script.fault,
        "text": "" if script is None else script.shown,
        "shown": group.reproduced,
        "note": group.note,
    }  # fmt: skip

