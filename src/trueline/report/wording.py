"""The sentences that all reports share: the verdict in one line, where the origin is, what to run next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueline.records import Call, Origin, Verdict
from trueline.report.phrases import Phrase, Phrases, counted
from trueline.report.subject import ComparisonView

_REPLAYED = ("candidate_error", "reference_error", "candidate_honest")
_COUNT_WORDS = (
    ("PASS", "passed"),
    ("WARN", "to look at"),
    ("FAIL", "failed"),
    ("ERROR", "with errors"),
    ("NOT_COMPARED", "not compared"),
)


def number(value: float | None) -> str:
    """A distance or an error, short: ``1.3e-04``, ``0``, ``nan``; a dash where there is none."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:.1e}"


def statistic(value: float | None) -> str:
    """A minimum, mean or norm, readable: ``-2.944``, ``1.7e-12``."""
    if value is None:
        return "-"
    return f"{value:.5g}"


def size(count: float) -> str:
    """A number of bytes: ``3.2 MB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def count_of(counts: Mapping[str, int], verdict: Verdict) -> int:
    return int(counts.get(verdict.name, 0))


def measured(counts: Mapping[str, int]) -> int:
    """How many calls were compared at all."""
    return sum(count_of(counts, verdict) for verdict in Verdict if verdict is not Verdict.NOT_COMPARED)


def verdict_sentence(comparison: ComparisonView) -> str:
    """The whole comparison in one sentence."""
    counts = comparison.counts
    if comparison.verdict >= Verdict.FAIL:
        return _fault_sentence(comparison)
    if not measured(counts):
        return Phrase("Nothing could be compared")
    agree = counted(measured(counts), "{n} call compared, none wrong", "{n} calls compared, none wrong")
    return Phrases("; ", [agree, *_remarks(comparison)])


def _remarks(comparison: ComparisonView) -> Iterator[str]:
    if comparison.origin is not None:
        yield Phrase("the Runs part in {call}", call=name_and_module(comparison.origin.comparison.call))
    elif warned := count_of(comparison.counts, Verdict.WARN):
        yield counted(warned, "{n} deserves a look", "{n} deserve a look")
    elif missed := count_of(comparison.counts, Verdict.NOT_COMPARED):
        yield Phrase("{n} could not be compared", n=missed)


def _fault_sentence(comparison: ComparisonView) -> str:
    if comparison.origin is not None:
        return Phrase("{call} went wrong first", call=name_and_module(comparison.origin.comparison.call))
    bad = count_of(comparison.counts, Verdict.FAIL) + count_of(comparison.counts, Verdict.ERROR)
    return counted(
        bad,
        "{n} call differs beyond honest arithmetic; no single origin could be named",
        "{n} calls differ beyond honest arithmetic; no single origin could be named",
    )


def name_and_module(call: Call) -> str:
    """``torch.relu.3.forward in encoder.mlp``; a module that has only a number is told by its class too."""
    if not call.module:
        return call.name
    telling = any(letter.isalpha() for letter in call.module)
    return Phrase("{call} in {module}", call=call.name, module=call.module if telling else module_of(call))


def counts_sentence(counts: Mapping[str, int]) -> str:
    """``412 calls: 300 passed, 2 failed``."""
    parts = [f"{counts[name]:,} {word}" for name, word in _COUNT_WORDS if counts.get(name)]
    total = sum(int(counts.get(name, 0)) for name, _ in _COUNT_WORDS)
    return f"{plural(total, 'call')}: {', '.join(parts)}" if parts else "no calls"


def why(origin: Origin) -> str:
    """The explanation without the name and place of the call, which every report says above it."""
    text = origin.explanation or origin.comparison.reason
    place, _, rest = text.partition(": ")
    return rest if rest and place.startswith(origin.comparison.call.name) else text


def finding(origin: Origin) -> str:
    """What the numbers say about an origin, of which ``why`` is the whole story in English."""
    pair, evidence = origin.comparison, origin.evidence
    if pair.reference is None:
        return Phrase("only the candidate makes this call")
    if pair.candidate is None:
        return Phrase("only the reference makes this call")
    told: list[str] = []
    if pair.output_distance is not None:
        inputs, outputs = number(pair.input_distance), number(pair.output_distance)
        told.append(Phrase("the inputs are {inputs} apart, the outputs {outputs}", inputs=inputs, outputs=outputs))
    if pair.limit is not None and pair.limit > 0:
        told.append(Phrase("honest arithmetic explains {limit}", limit=number(pair.limit)))
    if evidence.keys() >= set(_REPLAYED):
        told.append(_replay_said(*(number(evidence[name]) for name in _REPLAYED)))
    return Phrases("; ", told)


def _replay_said(candidate: str, reference: str, honest: str) -> str:
    return Phrase(
        "replayed in float64, the candidate is off by {candidate} and the reference by {reference}, where an honest "
        "implementation is off by {honest}",
        candidate=candidate,
        reference=reference,
        honest=honest,
    )


def confirmation(origin: Origin, mode: str, *, baseline: bool = False) -> str:
    """Whether replaying the call proved the fault."""
    if baseline:
        return Phrase("the baseline does the same call with a smaller error against the gold")
    if origin.confirmed:
        return Phrase("confirmed by replaying the call in float64 on its recorded inputs")
    if origin.confirmed is False:
        return Phrase("not confirmed: replayed in float64 on its recorded inputs, the call computes right")
    if mode == "tensors":
        return Phrase("not confirmed by a replay")
    return Phrase("not confirmed: a replay needs the tensors, these Runs hold {mode}", mode=mode)


def place(call: Call) -> str:
    """``step 2, rank 0``, with what else tells this call from others."""
    return f"step {call.step}, rank {call.rank}" + (f", in {call.context}" if call.context else "")


def module_of(call: Call) -> str:
    if not call.module:
        return "(outside any module)"
    return f"{call.module} ({call.module_class})" if call.module_class else call.module


def next_commands(comparison: ComparisonView, *, html_written: bool = False) -> list[tuple[str, str]]:
    """What to run next, as (why, command)."""
    reference, candidate = comparison.reference.path, comparison.candidate.path
    commands: list[tuple[str, str]] = []
    origin = comparison.origin
    if origin is not None:
        call = origin.comparison.call
        side = candidate if origin.comparison.candidate is not None else reference
        commands.append((Phrase("see this call"), show_command(side, call, ranks=comparison.candidate.ranks)))
        if origin.confirmed is None and comparison.mode != "tensors" and comparison.baseline is None:
            commands.append((Phrase("keep its tensors on both sides to confirm"), _recapture(comparison, call)))
    if not html_written:
        third = ("--baseline", comparison.baseline.path) if comparison.baseline is not None else ()
        page = command("trueline", "compare", reference, candidate, *third, "--html", "report.html")
        commands.append((Phrase("see all calls"), page))
    return commands


def show_command(run: Path, call: Call, *, ranks: Sequence[int] = ()) -> str:
    words: list[Any] = ["trueline", "show", run, call.name, "--step", call.step]
    if len(ranks) > 1:
        words += ["--rank", call.rank]
    return command(*words)


def command(*words: object) -> str:
    return shlex.join(str(word) for word in words)


def _recapture(comparison: ComparisonView, call: Call) -> str:
    program = comparison.candidate.info.command or ("python", "train.py")
    return command(
        "trueline", "capture", "--out", f"{comparison.candidate.path}-tensors", "--data", "tensors",
        "--steps", call.step, "--", *program,
    )  # fmt: skip


def unmatched_lines(comparison: ComparisonView) -> list[str]:
    """What could not be matched, one sentence each; by rank where there are several."""
    ranks: Mapping[int, Mapping[str, int]] = comparison.unmatched.get("ranks", {})
    if len(ranks) < 2:
        return list(_unmatched_sentences(comparison.unmatched))
    return [
        Phrase("rank {rank}: {sentence}", rank=rank, sentence=sentence)
        for rank, sides in ranks.items()
        for sentence in _unmatched_sentences(sides)
    ]


def _unmatched_sentences(sides: Mapping[str, Any]) -> Iterator[str]:
    if amount := sides.get("extra", 0):
        yield counted(amount, "{n} call only in the candidate", "{n} calls only in the candidate")
    if amount := sides.get("missing", 0):
        yield counted(amount, "{n} call only in the reference", "{n} calls only in the reference")
