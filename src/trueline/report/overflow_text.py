"""An overflow report for a terminal: the origin, why, the way it took, what helps; what was meant; what comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trueline.overflows import Birth, Forecast, Nature, OverflowReport
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.wording import command, module_of, name_and_module, place, plural

_LONG_CHAIN = 8
_COLUMNS = ("call", "step", "rank", "module", "what", "kind", "nature", "ends in")
_NATURE_STYLE = {Nature.ABNORMAL: "bad", Nature.EXPECTED: "warn", Nature.MEANT: "dim", Nature.INHERITED: "dim"}


def overflow_blocks(report: OverflowReport, *, rows: int = 12) -> list[Block]:
    """The whole report; ``rows`` bounds the tables."""
    origin = report.origin
    word, style = ("OVERFLOW", "bad") if origin is not None else ("CLEAN", "good")
    blocks: list[Block] = [Paragraph((Span(word, style), Span(f"  {sentence(report)}", "strong"))), BLANK]
    if origin is not None:
        blocks += [_origin(origin), BLANK]
    blocks.append(line(_scope(report), indent=2))
    blocks += [Paragraph((Span("note: ", "warn"), Span(note)), 2) for note in report.notes]
    others = [birth for birth in report.births if birth is not origin]
    blocks += _table("Others", [birth for birth in others if birth.nature is not Nature.MEANT], rows)
    blocks += _meant([birth for birth in others if birth.nature is Nature.MEANT], rows)
    blocks += _forecasts(report.forecasts, rows)
    if origin is not None:
        blocks += [BLANK, heading("Go on"), Fields(tuple(_next(report, origin)))]
    return blocks


def sentence(report: OverflowReport) -> str:
    """What was found, in one sentence."""
    origin = report.origin
    if origin is None:
        if report.births:
            return f"infinity or NaN in {plural(len(report.births), 'place')}, all of it meant"
        return "nothing but numbers"
    return (
        f"{name_and_module(origin.call)} is the first to give {_what(origin)}: {origin.kind.value}, "
        f"{origin.nature.value}"
    )


def _what(birth: Birth) -> str:
    if birth.counts.nan:
        return "NaN"
    return "infinity" if birth.counts.infinite else "something bad"


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


def _next(report: OverflowReport, origin: Birth) -> list[tuple[str, str]]:
    shown = command("trueline", "show", report.path, origin.call.name, "--step", origin.call.step)
    return [("look", shown), ("check", command("trueline", "check", report.path, "--target", "torch:cpu"))]
