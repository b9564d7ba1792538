"""Sources: every line of a file is accounted for, in pieces, from any mark on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from trueline.campaign.sources import ConfigPart, Skip, parts_of, plan_of
from trueline.cases import Case, Target
from trueline.errors import UsageError

TARGET = Target.parse("torch:cpu")
GOOD = 'torch.relu(Tensor([{}, 3],"float32"), )'


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Two that are the same, one that cannot be read, one that cannot be executed, a comment and empty lines."""
    texts = [GOOD.format(1), "", "# comment", GOOD.format(2), "torch.relu(((", GOOD.format(1), "   ",
             'torch.distributed.all_reduce(Tensor([3],"float32"), )', "torch.relu(\xff)"]  # fmt: skip
    path = tmp_path / "lines.txt"
    path.write_bytes("\r\n".join(texts).encode("latin-1"))
    return path


def test_every_line_is_accounted_for_with_its_number(lines: Path) -> None:
    (part,) = parts_of([lines], [], 0, TARGET)
    items = list(part.items())
    assert [item.mark[0] for item in items] == [1, 4, 5, 6, 8, 9]
    assert part.calls() == 6
    skips = [item.content for item in items if isinstance(item.content, Skip)]
    assert [skip.place for skip in skips] == [f"{lines}:{number}" for number in (5, 8, 9)]
    assert skips[0].reason.startswith(f"{lines}:5 cannot be read: line 5") and "UTF-8" in skips[2].reason
    plan = plan_of([part])
    assert sum(case.count for case in plan.cases) + sum(plan.skipped.values()) == plan.calls == 6
    assert [(case.count, case.calls) for case in plan.cases] == [(2, (f"{lines}:1",)), (1, (f"{lines}:4",))]


def test_a_part_goes_on_from_any_mark(lines: Path) -> None:
    (part,) = parts_of([lines], [], 0, TARGET)
    items = list(part.items())
    for position, item in enumerate(items):
        assert list(part.items(item.mark)) == items[position + 1 :]
        assert part.calls(item.mark) == len(items) - position - 1


def test_a_line_gives_the_same_case_wherever_it_stands(tmp_path: Path) -> None:
    texts = [GOOD.format(number) for number in range(1, 20)]
    keys = []
    for name in ("a", "b"):
        random.Random(name).shuffle(texts)
        (tmp_path / name).write_text("\n".join(texts))
        (part,) = parts_of([tmp_path / name], [], 0, TARGET)
        keys.append({item.content.key for item in part.items() if isinstance(item.content, Case)})
    assert keys[0] == keys[1] and len(keys[0]) == 19


def test_a_file_that_changed_is_another_source(lines: Path) -> None:
    before = ConfigPart.of(lines, 0, TARGET).identity
    assert ConfigPart.of(lines, 0, TARGET).identity == before
    lines.write_bytes(lines.read_bytes() + b"\n")
    assert ConfigPart.of(lines, 0, TARGET).identity != before


def test_what_is_no_source_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear all\n")
    with pytest.raises(UsageError, match="no line that can be read"):
        parts_of([tmp_path / "letter"], [], 0, TARGET)
    with pytest.raises(UsageError, match="nothing matches"):
        parts_of([str(tmp_path / "*.none")], [], 0, TARGET)
