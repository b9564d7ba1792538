"""An overflow report for a terminal: the origin, why, the way it took, what helps; what was meant; what comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trueline.overflows import Birth, EventKind, Forecast, Nature, OverflowReport, Watched, WatchEvent
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.partial import partial_blocks, partial_paths
from trueline.report.phrases import Phrase, counted
from trueline.report.wording import command, module_of, name_and_module, place, plural

_LONG_CHAIN = 8
_COLUMNS = ("call", "step", "rank", "module", "what", "kind", "nature", "ends in")
_EVENT_STYLE = {EventKind.OVERFLOW: "bad", EventKind.MEANT: "dim", EventKind.FORECAST: "warn"}
_NATURE_STYLE = {Nature.ABNORMAL: "bad", Nature.EXPECTED: "warn", Nature.MEANT: "dim", Nature.INHERITED: "dim"}


def overflow_blocks(report: OverflowReport, *, rows: int = 12) -> list[Block]:
    """The whole report; ``rows`` bounds the tables."""
    origin = report.origin
    word, style = ("OVERFLOW", "bad") if report.wrong else ("CLEAN", "good")
    blocks = partial_blocks(partial_paths([report.path]))
    blocks += [Paragraph((Span(word, style), Span(f"  {sentence(report)}", "strong"))), BLANK]
    if origin is not None:
        blocks += [_origin(origin), BLANK]
    blocks.append(line(_scope(report), indent=2))
    blocks += [line(_watched(one), indent=2) for one in report.watched]
    blocks += [Paragraph((Span("note: ", "warn"), Span(note)), 2) for note in report.notes]
    others = [birth for birth in report.births if birth is not origin]
    blocks += _table("Others", [birth for birth in others if birth.nature is not Nature.MEANT], rows)
    blocks += _meant([birth for birth in others if birth.nature is Nature.MEANT], rows)
    blocks += _forecasts(report.forecasts, rows)
    if report.wrong:
        blocks += [BLANK, heading("Go on"), Fields(tuple(next_steps(report)))]
    return blocks


def sentence(report: OverflowReport) -> str:
    """What was found, in one sentence."""
    if report.origin is not None:
        return birth_sentence(report.origin)
    if report.births:
        one = "infinity or NaN in {n} place, all of it meant"
        many = "infinity or NaN in {n} places, all of it meant"
        return counted(len(report.births), one, many)
    seen = next((one for one in report.watched if one.overflows), None)
    if seen is not None:
        return Phrase("a watch found NaN or infinity, but did not hold the call that made it; {what}", what=seen.first)
    return Phrase("nothing but numbers")


def birth_sentence(birth: Birth) -> str:
    """Who is the first to give what, and why."""
    first = Phrase("{call} is the first to give {what}", call=name_and_module(birth.call), what=_what(birth))
    kind = Phrase(birth.kind.value)
    if birth.nature is Nature.UNKNOWN:
        return Phrase("{first}: {kind}", first=first, kind=kind)
    return Phrase("{first}: {kind}, {nature}", first=first, kind=kind, nature=Phrase(birth.nature.value))


def forecast_sentence(one: Forecast) -> str:
    """Which call will overflow, and when."""
    where = f" of {one.call.module}" if one.call.module else ""
    return (
        f"{one.call.name}{where} overflows {one.dtype} in about {max(one.step - one.call.step, 1)} steps "
        f"(step {one.step}, between {one.earliest} and {one.latest}) if its trend holds: {one.headroom:.1f} bits left, "
        f"{one.slope:+.3f} a step"
    )


def event_blocks(events: Sequence[WatchEvent], *, rows: int = 100) -> list[Block]:
    """What a watch found, the first events and the last."""
    shown = [*events[: rows // 2], *events[max(len(events) - rows // 2, rows // 2) :]]
    blocks: list[Block] = [heading("What the watch found")]
    blocks += [Paragraph((Span(f"{one.kind.value}: ", _EVENT_STYLE[one.kind]), Span(one.message)), 2) for one in shown]
    if len(shown) < len(events):
        blocks.append(line(f"and {len(events) - len(shown):,} more between them", "dim", indent=2))
    return blocks


def _what(birth: Birth) -> str:
    if birth.counts.nan:
        return "NaN"
    return Phrase("infinity") if birth.counts.infinite else Phrase("something bad")


def _origin(birth: Birth) -> Fields:
    element = "-" if birth.element is None else f"[{', '.join(map(str, birth.element))}]"
    given = ", ".join(f"{name} = {value:.6g}" for name, value in birth.operands.items())
    where = f"{birth.path}, {birth.dtype}{list(birth.shape)}: {birth.counts}"
    return Fields(
        (
            ("call", birth.call.name),
            ("module", module_of(birth.call)),
            ("source", birth.call.source or "(no stack was kept)"),
            ("where", f"{place(birth.call)}; {where}"),
            *([("element", f"{element}{': ' + given if given else ''}")] if birth.element is not None else []),
            ("kind", birth.kind.value),
            ("nature", birth.nature.value),
            ("why", birth.why),
            ("way", _way(birth.chain)),
            ("ends in", f"{birth.ends or '-'}; {plural(birth.victims, 'call')} inherited it"),
            ("what helps", birth.advice),
        )
    )


def _way(chain: Sequence[str]) -> str:
    if len(chain) <= _LONG_CHAIN:
        return " -> ".join(chain) or "-"
    return " -> ".join([*chain[:4], f"... {len(chain) - 7} more", *chain[-3:]])


def _scope(report: OverflowReport) -> str:
    alarms = len(report.alarms)
    meant = sum(birth.nature is Nature.MEANT for birth in report.births)
    return (
        f"{plural(report.calls, 'call')} and {plural(report.tensors, 'tensor')} of "
        f"{plural(len(report.ranks), 'rank')}: "
        f"{plural(alarms, 'alarm')}, {meant:,} meant, {len(report.births) - alarms - meant:,} inherited"
    )


def _watched(one: Watched) -> str:
    words = [f"rank {one.rank} was watched for {plural(one.steps, 'step')}, {plural(one.looks, 'look')} at tensors"]
    if one.overflows:
        words.append(f"overflows in {plural(len(one.overflows), 'step')}: {_numbers(one.overflows)}")
    if one.meant:
        words.append(f"meant in {plural(len(one.meant), 'step')}: {_numbers(one.meant)}")
    return "; ".join(words)


def _numbers(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:8]))
    return shown if len(steps) <= 8 else f"{shown}, ... {steps[-1]}"


def _table(title: str, births: Sequence[Birth], rows: int) -> list[Block]:
    if not births or rows < 1:
        return []
    shown = [
        Row(
            (
                birth.call.name,
                str(birth.call.step),
                str(birth.call.rank),
                birth.call.module,
                _what(birth),
                birth.kind.value,
                birth.nature.value,
                birth.ends or "-",
            ),
            _NATURE_STYLE.get(birth.nature, ""),
        )
        for birth in births[:rows]
    ]
    blocks: list[Block] = [BLANK, heading(title), Table(_COLUMNS, tuple(shown), frozenset({"step", "rank"}))]
    if len(births) > rows:
        blocks.append(line(f"and {len(births) - rows:,} more", "dim", indent=2))
    return blocks


def _meant(births: Sequence[Birth], rows: int) -> list[Block]:
    """The meant ones, the same call of several steps in one row."""
    counted = Counter((birth.call.name, birth.call.module, birth.why) for birth in births)
    if not counted or rows < 1:
        return []
    shown = [Row((name, module, f"{count:,}", why), "dim") for (name, module, why), count in counted.most_common(rows)]
    blocks: list[Block] = [
        BLANK, heading("Meant"), Table(("call", "module", "times", "why"), tuple(shown), frozenset({"times"}))
    ]  # fmt: skip
    if len(counted) > rows:
        blocks.append(line(f"and {len(counted) - rows:,} more", "dim", indent=2))
    return blocks


def _forecasts(forecasts: Sequence[Forecast], rows: int) -> list[Block]:
    if not forecasts or rows < 1:
        return []
    shown = [
        Row(
            (
                one.call.name,
                one.call.module,
                one.dtype,
                f"{one.headroom:.1f}",
                f"{one.slope:+.3f}",
                f"{one.step} ({one.earliest} to {one.latest})",
                one.call.source,
            ),
            "warn",
        )
        for one in forecasts[:rows]
    ]
    columns = ("call", "module", "dtype", "bits left", "bits a step", "overflows in step", "source")
    return [BLANK, heading("Will overflow if the trend holds"), Table(columns, tuple(shown), frozenset(columns[3:5]))]


def next_steps(report: OverflowReport) -> list[tuple[str, str]]:
    """What to do about it: why, and the command."""
    origin = report.origin
    if origin is not None:
        framework = origin.call.api.partition(".")[0]
        target = f"{framework}:cpu" if framework in ("torch", "paddle") else "torch:cpu"
        shown = command("trueline", "show", report.path, origin.call.name, "--step", origin.call.step)
        return [("look", shown), ("check", command("trueline", "check", report.path, "--target", target))]
    steps = [one.overflows[0] for one in report.watched if one.overflows]
    if not steps:
        return []
    run = f"{report.path}-step{min(steps)}"
    program = ("python", "train.py")
    recorded = command("trueline", "capture", "--out", run, "--steps", min(steps), "--", *program)
    return [("record that step", recorded), ("name the call", command("trueline", "overflow", run))]
