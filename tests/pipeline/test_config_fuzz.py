"""Whatever is done to a config: a plan with commands, or an error that names the file; never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.pipeline.test_plan import MODE, YAML_CONFIG
from tests.pipeline.tipc_project import LONG, SHORT
from trueline.errors import UsageError
from trueline.pipeline import pipeline
from trueline.pipelines import MODES

WORDS = (
    "",
    "null",
    ":",
    "::",
    "|",
    "##",
    "=",
    "-1",
    "0,1;",
    ";",
    "\r",
    "\x00",
    "x",
    "===eval_params===",
    "é",
    "{",
    "- a",
)


def mutated(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(lines))
        what = draw.randrange(6)
        if what == 0:
            del lines[place]
        elif what == 1:
            lines.insert(place, draw.choice(WORDS))
        elif what == 2:
            lines[place] = lines[place].partition(":")[0] + ":" + draw.choice(WORDS)
        elif what == 3:
            lines[place] = draw.choice(lines)
        elif what == 4:
            cut = draw.randint(0, len(lines[place]))
            lines[place] = lines[place][:cut] + draw.choice(WORDS) + lines[place][cut:]
        else:
            other = draw.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
        lines = lines or [""]
    return "\n".join(lines)


@pytest.mark.parametrize(("name", "text"), [("a.txt", SHORT), ("b.txt", LONG), ("c.yaml", YAML_CONFIG)])
def test_mutated_configs(tmp_path: Path, name: str, text: str) -> None:
    draw = random.Random(1)
    path = tmp_path / name
    planned = refused = 0
    unnamed: list[str] = []
    for _ in range(400):
        path.write_text(mutated(text, draw), encoding="utf-8")
        try:
            report = pipeline(path, draw.choice((MODE, *MODES)), plan=True)
        except UsageError as error:
            refused += 1
            unnamed += [] if name in str(error) else [str(error)]
        else:
            assert report.plan.commands
            assert len({stage.name for stage in report.plan.stages}) == len(report.plan.stages)
            planned += 1
    assert unnamed == []
    assert planned > 20 and refused > 20, (planned, refused)
