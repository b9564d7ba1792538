"""Tables of a comparison, read again: what to advise of one, calls whose shapes do not match, several in one."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from trueline.report.csv import NOTHING

REACHED, MESSAGE = "Accuracy Reached or Not", "Err_message"
_NAMES, _SHAPES = ("NPU Name", "Bench Name"), ("Npu Tensor Shape", "Bench Tensor Shape")
_OF_BENCH = ("Bench Name", "Bench Tensor Dtype", "Bench Tensor Shape", "Bench max", "Bench min", "Bench mean",
             "Bench l2norm")  # fmt: skip
_OF_NPU = ("NPU Name", "Npu Tensor Dtype", "Npu Tensor Shape", "NPU max", "NPU min", "NPU mean", "NPU l2norm")
_ERRORS = ("Cosine", "MaxAbsError", "MaxRelativeError", "One Thousandth Err Ratio", "Five Thousandths Err Ratio",
           REACHED)  # fmt: skip
NO_MATCH = "shape_flag: the other side has no call of this name with the same shapes"


@dataclass(frozen=True, slots=True)
class Advice:
    """What ptdbg's advisor says: ``name`` is that of the first row that does not reach the accuracy, empty for none."""

    name: str
    lines: tuple[str, ...]


def advice_of(table: Path) -> Advice:
    """The first row that ptdbg's rule calls not reached, and what that means for a tensor of its kind."""
    compared = 0
    with open(table, encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), 2):
            if row[REACHED] == "No":
                name = row["NPU Name"]
                cause = f"Expert Advice: {_cause(name, victim=row['Victim'] == 'yes')}"
                return Advice(name, (f"Line: {number}", f"Suspect Nodes: {name}", cause))
            compared += row[REACHED] == "Yes"
    if not compared:
        words = "Expert Advice: nothing was compared: no tensor of one side has a counterpart with numbers on the other"
    else:
        words = f"Expert Advice: all {compared} tensors that were compared reach the accuracy of ptdbg's rule"
    return Advice("", ("Suspect Nodes: none", words))


def _cause(name: str, *, victim: bool) -> str:
    """What a row that is not reached says, by whether it is an input or an output, forward or backward."""
    backward = "_backward_" in name
    if "_input" in name.partition("_backward" if backward else "_forward")[2]:
        if backward:
            return "this is a gradient that arrived: see whether the forward results, or the backward before it, agree"
        return ("this is an input: the API itself is not to blame; see where it comes from (data, parameters, an "
                "operation in place that wrote over it)")  # fmt: skip
    what = "backward" if backward else "forward"
    if victim:
        return f"this is an output of the {what}, and what it was given was wrong already: look before it"
    return f"this is an output of the {what} and its inputs agree: the API itself is suspect"


def matched_by_shape(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """The rows of a table, in which calls whose shapes differ are no pair: each side has rows of its own."""
    head = next(rows)
    yield head
    places = {name: place for place, name in enumerate(head)}
    call = places["Call"], places["Step"], places["Rank"]
    for _, group in groupby(rows, key=lambda row: [row[place] for place in call]):
        pair = list(group)
        if all(_same_shape(row, places) for row in pair):
            yield from pair
            continue
        for names, others in ((_NAMES[0], _OF_BENCH), (_NAMES[1], _OF_NPU)):
            for row in pair:
                if row[places[names]] != NOTHING:
                    yield _alone(row, places, others)


def _same_shape(row: list[str], places: Mapping[str, int]) -> bool:
    ours, theirs = (row[places[name]] for name in _SHAPES)
    return NOTHING in (ours, theirs) or ours == theirs


def _alone(row: list[str], places: Mapping[str, int], others: tuple[str, ...]) -> list[str]:
    found = list(row)
    for name in (*others, *_ERRORS):
        found[places[name]] = NOTHING
    found[places[MESSAGE]] = NO_MATCH
    return found


def write_merged(tables: Mapping[str, Path], path: Path) -> None:
    """One table of several: the rank in front of every row, the ranks in their order."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for number, (rank, table) in enumerate(tables.items()):
            with open(table, encoding="utf-8", newline="") as reading:
                rows = csv.reader(reading)
                head = next(rows)
                if number == 0:
                    writer.writerow(["Rank folder", *head])
                writer.writerows([rank, *row] for row in rows)
