"""Calls of two replays that cannot be compared: a row and a line for each, so that none is lost silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trueline.compat.paddleapex.outputs import key_of
from trueline.records import Call, CallComparison, Level, Phase, Verdict

COMPARE_WARNINGS = "compare_warning.txt"
_SIDES = ("bench", "device")
_WARNINGS = ("Warning_list.txt", "warning_log.txt")
"""What a replay says of its calls: by the document, and by the old tool's last version."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one rule says of a comparison, and of how many calls."""

    verdict: Verdict
    measured: int

    @property
    def word(self) -> str:
        """In the old tool's words."""
        if self.verdict is Verdict.NOT_COMPARED:
            return "not all could be compared" if self.measured else "nothing compared"
        return {Verdict.PASS: "pass", Verdict.WARN: "warning"}.get(self.verdict, "error")


NOTHING = Side(Verdict.NOT_COMPARED, 0)


def all_of(sides: Sequence[Side]) -> Side:
    """What is said of several dtypes together."""
    compared = [side.verdict for side in sides if side.measured]
    return Side(max(compared, default=Verdict.NOT_COMPARED), sum(side.measured for side in sides))


def without_outputs(
    keys: Iterable[str], calls: Sequence[CallComparison], folders: Sequence[Path]
) -> list[CallComparison]:
    """Calls that gave nothing on either side, each as a call that was not compared, with what the replays say."""
    there = {key_of(pair.call.name) for pair in calls}
    said = [reasons_in(folder) for folder in folders]
    found: list[CallComparison] = []
    for key in keys:
        if key in there:
            continue
        reason = next((one[key] for one in said if key in one), "it has no output on either side")
        api, _, number = key.rpartition("*")
        call = Call(len(calls) + len(found), api, int(number), 0, 0, Phase.FORWARD, Level.API)
        found.append(CallComparison(None, call, Verdict.NOT_COMPARED, reason))
    return found


def explained(calls: Iterable[CallComparison], folders: Sequence[Path]) -> list[CallComparison]:
    """The calls, those that gave something on one side alone with what the other says of them."""
    said = [reasons_in(folder) for folder in folders]
    return [_explained(pair, said) for pair in calls]


def _explained(pair: CallComparison, said: Sequence[Mapping[str, str]]) -> CallComparison:
    if pair.reference is not None and pair.candidate is not None:
        return pair
    side = 0 if pair.reference is None else 1
    reason = said[side].get(key_of(pair.call.name), "")
    return replace(pair, reason=f"the {_SIDES[side]} has no {_what(pair)} of it{f': {reason}' if reason else ''}")


def _what(pair: CallComparison) -> str:
    return "output" if pair.call.phase is Phase.FORWARD else "gradient"


def reasons_in(folder: Path) -> Mapping[str, str]:
    """Key -> why it did not return, as the replay has written it down; of one dtype of several it stands above."""
    found: dict[str, str] = {}
    for path in (place / name for place in (folder, folder.parent) for name in _WARNINGS):
        if not path.is_file():
            continue
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            word, _, rest = line.partition(" ")
            text = rest if word == folder.name else line
            key, colon, reason = text.partition(": ")
            if colon and "*" in key and " " not in key:
                found.setdefault(key, reason)
    return found


def write_warnings(folder: Path, missing: Sequence[CallComparison], calls: Sequence[CallComparison]) -> None:
    """``compare_warning.txt``, in the old tool's words."""
    lines = [f"{key_of(pair.call.name)} has no output: {pair.reason}" for pair in missing]
    told = {id(pair) for pair in missing}
    one_sided = [pair for pair in calls if (pair.reference is None or pair.candidate is None) and id(pair) not in told]
    lines += [f"{key_of(pair.call.name)}: {pair.reason}" for pair in one_sided]
    (folder / COMPARE_WARNINGS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
