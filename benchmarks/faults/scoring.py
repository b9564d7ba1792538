"""What counts as a right answer, the same for both tools, and the table of all answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults.catalogue import Fault
from benchmarks.faults.pairs import Pair
from benchmarks.tables import table

BAD_VERDICTS = ("FAIL", "ERROR")


@dataclass(frozen=True)
class Named:
    """A call as a tool names it; ``api`` is the last part of the name."""

    api: str
    index: int
    phase: str
    module: str = ""

    def __str__(self) -> str:
        return f"{self.api}.{self.index}.{self.phase}"


@dataclass(frozen=True)
class Answer:
    """What a tool said about one pair. ``right`` is the origin named first, or no alarm on a clean pair; ``own`` says
    whether the planted call's own row was flagged, for tools that have rows."""

    pair: str
    right: bool
    verdict: str
    named: str = ""
    own: bool | None = None
    module: str = ""
    detail: str = ""
    seconds: float = 0.0


def expected(fault: Fault) -> Named:
    return Named(fault.api.rpartition(".")[2], fault.index, fault.phase)


def is_origin(wanted: Named, named: Named | None) -> bool:
    """The very call in the very phase."""
    return named is not None and (named.api, named.index, named.phase) == (wanted.api, wanted.index, wanted.phase)


def load(path: Path) -> dict[str, dict[str, Answer]]:
    """The answers of an earlier run, by column; none where there is no file."""
    result: dict[str, dict[str, Answer]] = {}
    if path.exists():
        for pair in json.loads(path.read_text())["pairs"]:
            for column, answer in pair["answers"].items():
                result.setdefault(column, {})[pair["name"]] = Answer(**answer)
    return result


def peer_notes(path: Path, measured_again: bool) -> list[str]:
    """Which peer the kept answers come from, where it is not measured again."""
    if measured_again or not path.exists():
        return []
    return [note for note in json.loads(path.read_text())["notes"] if note.startswith("The peer is")]


def merged(old: dict[str, dict[str, Answer]], new: dict[str, dict[str, Answer]]) -> dict[str, dict[str, Answer]]:
    """The old answers with the new ones over them."""
    columns = [*(column for column in old), *(column for column in new if column not in old)]
    return {column: {**old.get(column, {}), **new.get(column, {})} for column in columns}


def summary(pairs: Sequence[Pair], answers: dict[str, dict[str, Answer]]) -> list[dict[str, Any]]:
    """Totals for each tool and mode."""
    rows = []
    plain = [pair for pair in pairs if isinstance(pair, Fault) and pair.change is None]
    for column, given in answers.items():
        sets: dict[str, list[Pair]] = {
            "faults": list(plain),
            "published": [pair for pair in plain if pair.published],
            "forward": [pair for pair in plain if pair.phase == "forward"],
            "backward": [pair for pair in plain if pair.phase == "backward"],
            "mixed": [pair for pair in pairs if isinstance(pair, Fault) and pair.change is not None],
            "clean": [pair for pair in pairs if not isinstance(pair, Fault)],
        }
        row: dict[str, Any] = {"column": column}
        for name, members in sets.items():
            known = [given[pair.name] for pair in members if pair.name in given]
            row[name] = (sum(answer.right for answer in known), len(known))
            if name in ("faults", "published") and any(answer.own is not None for answer in known):
                row[f"{name} own row"] = (sum(bool(answer.own) for answer in known), len(known))
        clean = Counter(given[pair.name].verdict for pair in sets["clean"] if pair.name in given)
        row["clean verdicts"] = dict(clean) if column.startswith("ours") else {}
        row["seconds"] = sum(answer.seconds for answer in given.values())
        rows.append(row)
    return rows


def _share(pair: tuple[int, int] | None) -> str:
    return "-" if not pair or not pair[1] else f"{pair[0]} of {pair[1]} ({pair[0] / pair[1]:.0%})"


def _verdicts(counts: dict[str, int]) -> str:
    return ": " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) if counts else ""


def markdown(pairs: Sequence[Pair], answers: dict[str, dict[str, Answer]], notes: Sequence[str]) -> str:
    """Totals first, then every pair with what each column said."""
    header = [
        "",
        "origin named first",
        "of the 14 published",
        "forward",
        "backward",
        "float32 against bfloat16",
        "own row flagged",
        "own row, published",
        "clean pairs without alarm",
        "seconds",
    ]
    totals = [
        [
            row["column"],
            *(_share(row.get(name)) for name in ("faults", "published", "forward", "backward", "mixed")),
            *(_share(row.get(name)) for name in ("faults own row", "published own row")),
            _share(row["clean"]) + _verdicts(row["clean verdicts"]),
            f"{row['seconds']:.0f}",
        ]
        for row in summary(pairs, answers)
    ]
    columns = list(answers)
    rows = []
    for pair in pairs:
        if not any(pair.name in given for given in answers.values()):
            continue
        wanted = str(expected(pair)) if isinstance(pair, Fault) else "clean"
        cells = [_cell(answers[column].get(pair.name)) for column in columns]
        rows.append([pair.name, pair.description, wanted, *cells])
    text = "# Planted faults and clean pairs\n\n" + table(header, totals) + "\n"
    text += "".join(f"{note}\n\n" for note in notes)
    return text + table(["pair", "what differs", "planted call", *columns], rows)


def _cell(answer: Answer | None) -> str:
    if answer is None:
        return "-"
    said = answer.named or answer.verdict
    return f"right: {said}" if answer.right else f"**wrong**: {said}"


def document(pairs: Sequence[Pair], answers: dict[str, dict[str, Answer]], notes: Sequence[str]) -> dict[str, Any]:
    return {
        "summary": summary(pairs, answers),
        "notes": list(notes),
        "pairs": [
            {
                "name": pair.name,
                "model": pair.model,
                "description": pair.description,
                "expected": str(expected(pair)) if isinstance(pair, Fault) else None,
                "answers": {
                    column: asdict(given[pair.name]) for column, given in answers.items() if pair.name in given
                },
            }
            for pair in pairs
        ],
    }
