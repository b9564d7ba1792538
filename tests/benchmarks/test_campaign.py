"""The campaign benchmark: its corpus, and how it reads what the engine beside it wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import benchmarks.corpus as corpus
import pytest
from benchmarks.engine import Engine, EngineUnavailable

from trueline.formats.configs import parse_config

FAKE = """
import argparse, datetime, os
parser = argparse.ArgumentParser()
for name in "accuracy test_cpu api_config_file num_workers_per_gpu required_memory log_dir".split():
    parser.add_argument(f"--{name}")
options = parser.parse_args()
os.mkdir(options.log_dir)
lines = open(options.api_config_file).read().splitlines()
with open(options.log_dir + "/log_inorder.log", "w") as log:
    for number, line in enumerate(lines):
        when = datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=number * 0.5 + (20 if number > 3 else 0))
        print(f"{when.isoformat(' ', 'microseconds')} GPU 0 77 test begin: {line}", file=log)
for name, part in (("pass", lines[1:]), ("timeout", lines[:1])):
    open(f"{options.log_dir}/api_config_{name}.txt", "w").write("".join(line + chr(10) for line in part))
"""


def test_an_engine_is_run_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engineV2.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.setattr("benchmarks.engine.NEEDED", ("json",))
    lines = [f'paddle.abs(Tensor([{size}],"float32"), )' for size in range(1, 7)]
    found = Engine(tmp_path, sys.executable).run(lines, workers=1).summary()
    assert found["lines"] == 6 and found["statuses"]["pass"] == 5 and found["statuses"]["timeout"] == 1
    assert found["per second and worker"] == pytest.approx(2.0), "the case of 20 s is not counted"
    assert found["longer than 10 s"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["engineV2.py"], "nothing is written where it lies"


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"no engineV2\.py"):
        Engine(tmp_path, sys.executable)


def test_the_corpus_is_in_normal_form(tmp_path: Path) -> None:
    assert corpus.normal('paddle.abs(Tensor([3,4],"float32"))') == 'paddle.abs(Tensor([3, 4],"float32"), )'
    file = tmp_path / "lines.txt"
    file.write_text('# comment\npaddle.abs(Tensor([3],"int8"), )\n\npaddle.abs(Tensor([3],"int8"), )\n' * 3)
    assert corpus.read(file) == ['paddle.abs(Tensor([3],"int8"), )']
    light = corpus.small(['paddle.abs(Tensor([200000],"int8"), )', 'paddle.abs(Tensor([200001],"int8"), )'])
    assert [parse_config(line).tensors[0].shape for line in light] == [(200_000,)]
