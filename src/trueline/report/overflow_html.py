"""An overflow report as one HTML page that opens from disk. It holds no program: every text is put in as text."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from typing import TextIO

from trueline.overflows import Birth, Forecast, OverflowReport
from trueline.report.overflow_text import forecast_sentence, sentence
from trueline.report.wording import module_of, place, plural

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c62828; --good: #2e7d32; --warn: #b26a00; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.bad { color: var(--bad); } .good { color: var(--good); } .warn { color: var(--warn); } .dim { opacity: .7; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: 8rem 1fr; gap: .25rem 1rem; } dt { opacity: .7; } dd { margin: 0; }
ol.way { padding-left: 1.4rem; }
"""
_COLUMNS = ("call", "step", "rank", "module", "counts", "kind", "nature", "why", "source")
_MOST_ROWS = 500


def write_overflow_html(report: OverflowReport, stream: TextIO) -> None:
    """Writes the page."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    word, style = ("Overflow", "bad") if report.wrong else ("Clean", "good")
    stream.write(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(word)}: {_text(report.path)}</title><style>{_STYLE}</style></head><body>\n"
        f'<h1><span class="{style}">{word}</span> {_text(sentence(report))}</h1>\n'
        f'<p class="dim">{_text(_scope(report))}</p>\n'
    )
    stream.writelines(_parts(report))
    stream.write("</body></html>\n")


def _parts(report: OverflowReport) -> Iterable[str]:
    origin = report.origin
    if origin is not None:
        yield _origin(origin)
    if report.notes:
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{_text(note)}</li>" for note in report.notes) + "</ul>\n"
    messages = [message for one in report.watched for message in one.messages]
    if messages:
        yield "<h2>What the watch found</h2><ul>"
        yield "".join(f"<li>{_text(message)}</li>" for message in messages[:_MOST_ROWS]) + "</ul>\n"
    yield _forecasts(report.forecasts)
    alarms = [birth for birth in report.births if birth.alarm and birth is not origin]
    others = [birth for birth in report.births if not birth.alarm]
    yield _births("Other alarms", alarms)
    yield _births("Meant or inherited", others)


def _origin(birth: Birth) -> str:
    element = "" if birth.element is None else f"[{', '.join(map(str, birth.element))}]"
    given = ", ".join(f"{name} = {value:.6g}" for name, value in birth.operands.items())
    fields = (
        ("call", birth.call.name),
        ("module", module_of(birth.call)),
        ("source", birth.call.source or "(no stack was kept)"),
        ("where", f"{place(birth.call)}; {birth.path}, {birth.dtype}{list(birth.shape)}: {birth.counts}"),
        ("element", f"{element} {given}".strip()),
        ("kind", birth.kind.value),
        ("nature", birth.nature.value),
        ("why", birth.why),
        ("ends in", f"{birth.ends or '-'}; {plural(birth.victims, 'call')} inherited it"),
        ("what helps", birth.advice),
    )
    rows = "".join(f"<dt>{name}</dt><dd><code>{_text(value)}</code></dd>" for name, value in fields if value)
    stack = "".join(f"<li><code>{_text(str(frame))}</code></li>" for frame in birth.call.stack)
    way = "".join(f"<li><code>{_text(name)}</code></li>" for name in birth.chain)
    return (
        f"<h2>Origin</h2><dl>{rows}</dl>\n"
        + (f'<h2>The way it took</h2><ol class="way">{way}</ol>\n' if way else "")
        + (f"<h2>Stack</h2><ol>{stack}</ol>\n" if len(birth.call.stack) > 1 else "")
    )


def _births(title: str, births: Sequence[Birth]) -> str:
    if not births:
        return ""
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = []
    for birth in births[:_MOST_ROWS]:
        call = birth.call
        cells = (call.name, call.step, call.rank, call.module, birth.counts, birth.kind.value, birth.nature.value,
                 birth.why, call.source)  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{_text(str(cell))}</td>" for cell in cells) + "</tr>")
    more = f'<p class="dim">and {len(births) - _MOST_ROWS:,} more</p>' if len(births) > _MOST_ROWS else ""
    return f"<h2>{title}</h2><table><tr>{head}</tr>{''.join(rows)}</table>{more}\n"


def _forecasts(forecasts: Sequence[Forecast]) -> str:
    if not forecasts:
        return ""
    items = "".join(f'<li class="warn">{_text(forecast_sentence(one))}</li>' for one in forecasts)
    return f"<h2>Will overflow if the trend holds</h2><ul>{items}</ul>\n"


def _scope(report: OverflowReport) -> str:
    watched = "".join(f"; rank {one.rank} watched for {plural(one.steps, 'step')}" for one in report.watched)
    return (
        f"{report.path}: {plural(report.calls, 'call')} and {plural(report.tensors, 'tensor')} of "
        f"{plural(len(report.ranks), 'rank')}{watched}"
    )


def _text(text: str) -> str:
    return html.escape(text)
