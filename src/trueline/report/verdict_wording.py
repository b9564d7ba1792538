"""The verdict of a comparison in one line, what only one side has, and what to run next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from trueline.records import Call, Origin, Verdict
from trueline.report.given_away import given_away
from trueline.report.origin_wording import calls_of, headline, is_of_calls, is_of_structure, is_region
from trueline.report.phrases import Phrase, Phrases, counted
from trueline.report.sentences import as_phrase
from trueline.report.subject import ComparisonView
from trueline.report.wording import command, count_of, measured, name_and_module, show_command

_LISTED = 4
"""So many calls that only one side makes are named."""
_NEVER_REPLAYED = ("precision", "randomness", "update")
_NO_RANK = re.compile("the (reference|candidate) has no rank ")
_CANDIDATE, _REFERENCE = 1, 2
"""The column ``alone``."""


def verdict_sentence(comparison: ComparisonView) -> str:
    """The whole comparison in one sentence: the cause where there is one."""
    if comparison.verdict >= Verdict.FAIL:
        return _fault_sentence(comparison)
    told = _too_little(comparison)
    if told:
        return told
    if comparison.origin is not None:
        call = Phrase("{call} deserves a look first", call=name_and_module(comparison.origin.comparison.call))
        return Phrases("; ", [call, _agreement(comparison)])
    return Phrases("; ", [_agreement(comparison), *_remarks(comparison)])


def _agreement(comparison: ComparisonView) -> str:
    amount = measured(comparison.counts)
    if not amount:
        return Phrase("what the programs give away agrees")
    if count_of(comparison.counts, Verdict.WARN):
        return counted(amount, "{n} call compared, none failed", "{n} calls compared, none failed")
    return counted(amount, "{n} call compared, none wrong", "{n} calls compared, none wrong")


def _remarks(comparison: ComparisonView) -> Iterator[str]:
    if warned := count_of(comparison.counts, Verdict.WARN):
        yield counted(warned, "{n} deserves a look", "{n} deserve a look")
    elif missed := count_of(comparison.counts, Verdict.NOT_COMPARED):
        yield Phrase("{n} could not be compared", n=missed)


def _any_compared(comparison: ComparisonView) -> bool:
    return bool(measured(comparison.counts) or given_away(comparison).compared)


def _too_little(comparison: ComparisonView) -> str:
    """Exactly what could not be compared, where that is the verdict."""
    compared = measured(comparison.counts)
    if not _any_compared(comparison):
        return Phrase("Nothing could be compared")
    if comparison.verdict is not Verdict.NOT_COMPARED:
        return ""
    told = [as_phrase(text) for text in comparison.too_little[:2]]
    if (left := len(comparison.too_little) - len(told)) > 0:
        told.append(counted(left, "{n} more rank", "{n} more ranks"))
    told += [as_phrase(note) for note in _missing_ranks(comparison)]
    if told:
        return Phrases("; ", told)
    every = sum(int(amount) for amount in comparison.counts.values())
    share = f"{compared / every:.0%}"
    return Phrase("only {n} of {all} calls could be compared ({share})", n=compared, all=every, share=share)


def _fault_sentence(comparison: ComparisonView) -> str:
    if comparison.origin is not None:
        return headline(comparison.origin)
    bad = count_of(comparison.counts, Verdict.FAIL) + count_of(comparison.counts, Verdict.ERROR)
    return counted(
        bad,
        "{n} call differs beyond honest arithmetic; no single origin could be named",
        "{n} calls differ beyond honest arithmetic; no single origin could be named",
    )


def notes_of(comparison: ComparisonView) -> list[str]:
    """What else is to be known; not what the headline says already."""
    told = _said(comparison)
    return [as_phrase(note) for note in comparison.notes if note not in told]


def _said(comparison: ComparisonView) -> Sequence[str]:
    if comparison.verdict is not Verdict.NOT_COMPARED:
        return ()
    return [*comparison.too_little[:2], *_missing_ranks(comparison)]


def _missing_ranks(comparison: ComparisonView) -> Sequence[str]:
    return [note for note in comparison.notes if _NO_RANK.match(note)]


# What only one side has.


def unmatched_lines(comparison: ComparisonView) -> list[str]:
    """The calls that only one side makes, one sentence for each side: how many, and the first of them; by rank where
    there are several."""
    ranks: Mapping[int, Mapping[str, int]] = comparison.unmatched.get("ranks", {})
    names = _names_alone(comparison)
    found = []
    for rank, sides in ranks.items() if ranks else [(0, comparison.unmatched)]:
        for side, amount in ((_CANDIDATE, sides.get("extra", 0)), (_REFERENCE, sides.get("missing", 0))):
            if not amount:
                continue
            told: str = _only(side, amount, names.get((rank, side), []))
            found.append(Phrase("rank {rank}: {sentence}", rank=rank, sentence=told) if len(ranks) > 1 else told)
    return found


def _only(side: int, amount: int, names: Sequence[str]) -> str:
    one = (
        counted(amount, "{n} call only in the candidate", "{n} calls only in the candidate")
        if side == _CANDIDATE
        else counted(amount, "{n} call only in the reference", "{n} calls only in the reference")
    )
    if not names:
        return one
    shown = Phrases(", ", [*names, "…"] if amount > len(names) else names)
    return Phrase("{calls}: {names}", calls=one, names=shown)


def _names_alone(comparison: ComparisonView) -> dict[tuple[int, int], list[str]]:
    """The first calls of each rank and side that the other side does not make."""
    series = comparison.series()
    if "alone" not in series:
        return {}
    alone, ranks = np.asarray(series["alone"]), np.asarray(series["rank"])
    found: dict[tuple[int, int], list[str]] = {}
    for rank in np.unique(ranks).tolist():
        for side in (_CANDIDATE, _REFERENCE):
            rows = np.flatnonzero((alone == side) & (ranks == rank))[:_LISTED]
            if len(rows):
                found[int(rank), side] = [comparison.calls[int(row)].call.name for row in rows]
    return found


# What to run next.


def next_commands(
    comparison: ComparisonView, *, html_written: bool = False, partial: bool = False
) -> list[tuple[str, str]]:
    """What to run next, as (why, command). ``partial``: whether a part was said to be enough already."""
    reference, candidate = comparison.reference.path, comparison.candidate.path
    third = ("--baseline", comparison.baseline.path) if comparison.baseline is not None else ()
    both = ("trueline", "compare", reference, candidate, *third)
    commands: list[tuple[str, str]] = []
    origin = comparison.origin
    if origin is not None:
        commands += _to_see(comparison, origin)
        if _needs_tensors(comparison, origin):
            commands += _recapture(comparison, origin.comparison.call)
    elif comparison.verdict is Verdict.NOT_COMPARED and not partial and _any_compared(comparison):
        why = Phrase("take what was compared for enough (exit code 0; it is 1 without)")
        commands.append((why, command(*both, "--allow-partial")))
    if not html_written:
        commands.append((Phrase("see all calls"), command(*both, "--html", "report.html")))
    return commands


def _to_see(comparison: ComparisonView, origin: Origin) -> Iterator[tuple[str, str]]:
    """The commands that show the calls of an origin: that of the reference and that of the candidate."""
    if not is_of_calls(origin) and origin.kind != "data":
        return
    left, right = calls_of(origin)
    shown = []
    for run, calls in ((comparison.reference, left), (comparison.candidate, right)):
        if calls:
            shown.append(show_command(run.path, _telling(calls, origin), ranks=run.ranks))
        else:
            shown.append("")
    if all(shown):
        yield Phrase("see this call of the reference"), shown[0]
        yield Phrase("see this call of the candidate"), shown[1]
    elif any(shown):
        yield Phrase("see this call"), shown[0] or shown[1]


def _telling(calls: Sequence[Call], origin: Origin) -> Call:
    """Of a region the call in which it ends, whose value differs."""
    return calls[-1] if is_region(origin) else calls[0]


def _needs_tensors(comparison: ComparisonView, origin: Origin) -> bool:
    replayable = is_of_calls(origin) and origin.kind not in _NEVER_REPLAYED and not is_of_structure(origin)
    return origin.confirmed is None and replayable and comparison.mode != "tensors" and comparison.baseline is None


def _recapture(comparison: ComparisonView, call: Call) -> Iterator[tuple[str, str]]:
    """The commands that keep the tensors of a step on both sides."""
    words = (Phrase("keep its tensors to confirm: the reference"), Phrase("keep its tensors to confirm: the candidate"))
    for why, run in zip(words, (comparison.reference, comparison.candidate), strict=True):
        program = run.info.command or ("python", "train.py")
        yield why, command(
            "trueline", "capture", "--out", f"{run.path}-tensors", "--data", "tensors", "--steps", call.step,
            "--", *program,
        )  # fmt: skip
