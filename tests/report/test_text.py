"""The verdict on a terminal: what is said first, what is dimmed, what cannot be smuggled in."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from tests.report.fake_comparison import FakeComparison
from trueline.records import Verdict
from trueline.report.blocks import Fields, Paragraph, Row, Span, Table
from trueline.report.origin_wording import why
from trueline.report.terminal import plain, visible, write
from trueline.report.text import comparison_blocks, divergent_positions
from trueline.report.wording import number, size


def text_of(comparison: FakeComparison, **options: object) -> str:
    return plain(comparison_blocks(comparison, **options))  # type: ignore[arg-type]


def test_verdict_comes_first_with_call_and_module() -> None:
    first = text_of(FakeComparison(fault=150)).splitlines()[0]
    assert first == "FAIL  torch.nn.functional.gelu.18.backward in encoder.layers.2.mlp went wrong first"


def test_origin_tells_source_numbers_and_proof() -> None:
    text = text_of(FakeComparison(fault=150))
    assert "model.py:41 in forward" in text
    assert "output differs by 1.3e-04" in text
    assert "confirmed by replaying" in text
    for run in ("good", "bad"):
        assert f"trueline show runs/{run} torch.nn.functional.gelu.18.backward --step 1" in text


def test_table_names_the_origin_and_what_follows_and_says_how_many_are_left() -> None:
    comparison = FakeComparison(fault=150)
    text = text_of(comparison, rows=3)
    assert "FAIL, origin" in text
    assert text.count("PASS, follows") == 2 and "victim" not in text
    assert f"and {len(divergent_positions(comparison)) - 3:,} more" in text


def test_what_follows_is_dimmed_and_the_origin_is_not() -> None:
    (table,) = [block for block in comparison_blocks(FakeComparison(fault=150)) if isinstance(block, Table)]
    assert table.rows[0].style == "bad"
    assert {row.style for row in table.rows[1:]} == {"dim"}


def test_clean_comparison_counts_what_was_not_compared() -> None:
    comparison = FakeComparison(fault=None)
    text = text_of(comparison)
    missed = comparison.counts["NOT_COMPARED"]
    assert missed > 0
    assert text.startswith("PASS  396 calls compared, none wrong; 4 could not be compared")
    assert "First calls that differ" not in text


def test_stats_run_names_the_command_that_keeps_tensors() -> None:
    text = text_of(FakeComparison(fault=150, mode="stats"))
    assert "not confirmed: a replay needs the tensors, these Runs hold stats" in text
    for run in ("good", "bad"):
        kept = f"--out runs/{run}-tensors --data tensors --steps 1"
        assert f"trueline capture {kept} -- python train.py --lr 1e-3" in text


def test_unmatched_calls_and_notes_are_said() -> None:
    text = text_of(FakeComparison())
    assert "1 call only in the candidate" in text
    assert "note: torch 2.12.0 and 2.13.0 are compared" in text


def test_plain_text_has_no_escape_sequences_even_from_hostile_names() -> None:
    text = text_of(FakeComparison(api="torch.\x1b[31mevil\x07\u202e"))
    assert "\x1b" not in text
    assert "\\x1b[31mevil\\x07\\u202e" in text


def test_plain_output_survives_a_narrow_encoding() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write([Paragraph((Span("schön ÷"),))], stream)
    stream.seek(0)
    assert stream.read() == "sch\\xf6n \\xf7\n"


def test_plain_table_aligns_numbers_right_and_fields_below_each_other() -> None:
    table = Table(("name", "count"), (Row(("a", "1")), Row(("bb", "200"))), frozenset({"count"}), indent=0)
    assert plain([table]).splitlines() == ["name  count", "a         1", "bb      200"]
    assert plain([Fields((("a", "1\n2"), ("long", "3")), indent=0)]).splitlines() == ["a     1", "      2", "long  3"]


def test_terminal_gets_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    write(comparison_blocks(FakeComparison(fault=150)), stream)
    assert "\x1b[1;31m" in stream.getvalue()
    assert "went wrong first" in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (0.0, "0"), (1.3e-4, "1.3e-04"), (float("nan"), "nan"), (float("-inf"), "-inf")],
)
def test_numbers(value: float | None, expected: str) -> None:
    assert number(value) == expected


def test_sizes() -> None:
    assert [size(999), size(3_200_000), size(2e15)] == ["999 bytes", "3.2 MB", "2000.0 TB"]


def test_visible_keeps_line_breaks_and_ordinary_text() -> None:
    assert visible("a\nü") == "a\nü"


def test_runs_that_part_without_a_fault_are_a_warning_with_a_place() -> None:
    class Parting(FakeComparison):
        verdict = Verdict.WARN

    place = "torch.nn.functional.gelu.18.backward in encoder.layers.2.mlp"
    text = text_of(Parting(fault=150))
    assert text.startswith(f"WARN  {place} deserves a look first; 396 calls compared, none wrong")
    assert "follow" not in text


def test_module_without_letters_is_told_by_its_class() -> None:
    first = text_of(FakeComparison(fault=150, module="3")).splitlines()[0]
    assert first.endswith("gelu.18.backward in 3 (EncoderLayer) went wrong first")


def test_explanation_is_not_said_twice() -> None:
    comparison = FakeComparison(fault=150)
    origin = comparison.origin
    assert origin is not None
    name = origin.comparison.call.name
    assert (
        why(replace(origin, explanation=f"{name} in x (a.py:1 in f), step 1: out differs: much")) == "out differs: much"
    )
    assert why(replace(origin, explanation="its inputs differ: data")) == "its inputs differ: data"
