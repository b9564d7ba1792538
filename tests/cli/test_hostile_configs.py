"""Configs that somebody wrote to do harm: refused in words, quickly, and in little memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = "1" + "0" * 10_000

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghij", "bcdefghijk", strict=True)
)
YAMLS = {
    "aliases": LAUGHS,
    "a circle of aliases": "a: &a [*a]\n",
    "depth": "a: " + "[" * 20_000 + "]" * 20_000,
    "blocks in blocks": "".join(" " * depth + "a:\n" for depth in range(400)),
    "an integer": f"name: {DIGITS}\n",
    "a date": "name: 2026-99-99\n",
    "Python": "name: !!python/object/apply:os.system [true]\n",
    "size": "a: " + "x" * (2 << 20),
    "not text": "\ud800",
    "half a character": 'model: "\\ud800"\n',
    "NUL": 'model: "a\\0b"\n',
    "a mapping for a name": "{a: 1}: 2\n",
}
WHOLE = """
train: {command: train.py, checkpoint: last.pt}
infer: {command: infer.py, loops: {--batch-size: [1]}}
"""
NAMES = ("../../out", "/tmp/out", "a/../../b", "..", "a//b", "x" * 300, "/".join("abcdefghijk"))
OPTIONS = ("timeout: .inf", "timeout: 1e12", "retries: 1000000", "memory: 99999999999999999999 GB")
LINES = {
    "a shape": 'torch.add(Tensor([1000000000,1000000000],"float32"), 1, )',
    "an absurd shape": 'torch.add(Tensor([4611686018427387904,4611686018427387904],"float32"), 1, )',
    "a size": f'torch.add(Tensor([{DIGITS}],"float32"), 1, )',
    "dimensions": f'torch.add(Tensor([{"1," * 500}1],"float32"), 1, )',
    "an integer": f'torch.add(Tensor([3],"float32"), {DIGITS}, )',
    "a count": "torch.full(list[1000000000,1000000000,], 1.0, )",
    "depth": "torch.add(" + "list[" * 20_000 + "1" + "]" * 20_000 + ")",
    "length": "torch.add(" + "1," * 2_000_000 + ")",
}
TOMLS = {
    "an integer": f'[[rule]]\nfail = {{ "gold.max_ulp" = {DIGITS} }}\n',
    "a number": f'[[rule]]\nfail = {{ "gold.max_ulp" = {"1" + "0" * 400} }}\n',
    "depth": "name = " + "[" * 20_000 + "]" * 20_000,
    "size": "# " + "x" * (2 << 20),
}


def refused(folder: Path, *words: str) -> str:
    """What a command says when it refuses; it has a few seconds of the processor and little memory."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        signal.alarm(100)

    ended = subprocess.run(
        [sys.executable, "-m", "trueline", *words], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}, preexec_fn=bound,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 2, (ended.returncode, ended.stderr[-500:])
    return ended.stderr + ended.stdout


@pytest.mark.parametrize("name", YAMLS)
def test_yaml_of_a_pipeline(name: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "config.yaml").write_text(YAMLS[name], encoding="utf-8", errors="surrogatepass")
    assert "config.yaml" in refused(tmp_path, "pipeline", "config.yaml", "lite")


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_model_stays_below_the_output(name: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "config.yaml").write_text(f"model: {name}\n{WHOLE}")
    assert "the model name" in refused(tmp_path, "pipeline", "config.yaml", "lite_train_lite_infer", "--plan")


@pytest.mark.parametrize("line", OPTIONS)
def test_absurd_options_of_a_pipeline(line: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "config.yaml").write_text(f"model: m\n{line}\n{WHOLE}")
    said = refused(tmp_path, "pipeline", "config.yaml", "lite_train_lite_infer", "--plan")
    assert "config.yaml, line 2" in said


@pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
def test_a_config_that_is_no_file(place: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "config.txt").symlink_to(place)
    refused(tmp_path, "pipeline", "config.txt", "lite_train_lite_infer")


@pytest.mark.parametrize("name", LINES)
def test_config_lines(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "lines.txt").write_text(LINES[name] + "\n")
    refused(tmp_path, "check", "lines.txt", "--target", "torch:cpu", "--workers", "1", "--memory", "1")


@pytest.mark.parametrize("name", TOMLS)
def test_limits_in_toml(name: str, tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text(TOMLS[name])
    (tmp_path / "lines.txt").write_text('torch.cos(Tensor([3],"float32"), )\n')
    words = ["check", "lines.txt", "--target", "torch:cpu", "--standard", "limits.toml", "--workers", "0"]
    assert "limits.toml" in refused(tmp_path, *words)


@pytest.mark.parametrize("text", ["x" * (2 << 20), "target_op: " + "[" * 10_000])
def test_lists_of_targets(text: str, tmp_path: Path) -> None:
    (tmp_path / "op_target.yaml").write_text(text)
    (tmp_path / "program.py").write_text("")
    words = ["capture", "--out", "run", "--targets", "op_target.yaml", "--", sys.executable, "program.py"]
    assert "op_target.yaml" in refused(tmp_path, *words)


def test_more_combinations_than_anybody_runs(tmp_path: Path) -> None:
    from benchmarks.fuzz_readers import _TIPC_LINES

    many = "|".join(map(str, range(400)))
    text = _TIPC_LINES.replace("--cpu_threads:1|6", f"--cpu_threads:{many}")
    text = text.replace("--batch_size:1|16", f"--batch_size:{many}")
    (tmp_path / "config.txt").write_text(text)
    assert "more than the 100,000 that are planned" in refused(tmp_path, "pipeline", "config.txt", "whole_infer")
