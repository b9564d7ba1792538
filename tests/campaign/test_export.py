"""``export``: a captured step of either framework becomes config lines, and these run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402
from trueline.campaign.export import export_configs, write_configs  # noqa: E402
from trueline.cli import export as command  # noqa: E402
from trueline.errors import TruelineError  # noqa: E402
from trueline.formats.configs import config_line, config_to_case, parse_config  # noqa: E402
from trueline.records import Verdict  # noqa: E402

PADDLE_STEP = """
import sys, paddle, trueline
paddle.seed(0)
net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 4, 3), paddle.nn.BatchNorm2D(4), paddle.nn.ReLU(), paddle.nn.Flatten(),
                           paddle.nn.Linear(4 * 36, 5))
optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
with trueline.capture(sys.argv[1], data="stats", framework="paddle"):
    loss = paddle.nn.functional.cross_entropy(net(paddle.randn([2, 3, 8, 8])), paddle.to_tensor([1, 4]))
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Run of a training step in torch, with a layout, an autocast and an argument that no line can say."""
    path = tmp_path_factory.mktemp("runs") / "torch"
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    with trueline.capture(path, data="stats"):
        for _ in range(2):
            batch = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
            loss = torch.nn.functional.cross_entropy(net(batch), torch.tensor([1, 4]), label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            torch.matmul(torch.ones(3, 2), torch.ones(2, 3))
            torch.randn(3, generator=torch.Generator())
            batch[..., 1:-1:2, [0, 1]]
    return path


def test_every_call_is_in_a_line_or_left_out_with_a_reason(step: Path) -> None:
    exported = export_configs(step)
    assert exported.calls == sum(exported.lines.values()) + sum(exported.left_out.values())
    assert exported.lines['torch.nn.functional.gelu(Tensor([2, 4, 6, 6],"float32"), approximate="none", )'] == 2
    assert any("memory_format=torch.channels_last" in line for line in exported.lines)
    assert any("tuple(Ellipsis,slice(1,-1,2),list[0,1,],)" in line for line in exported.lines)
    assert any("Generator" in reason for reason in exported.left_out)
    assert set(exported.simplified) == {
        "that it ran under autocast",
        "the layout of an input that is not contiguous",
    }
    for line in exported.lines:
        assert config_line(config_to_case(parse_config(line))) == line


def test_the_lines_of_a_torch_step_run(step: Path, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "step.txt"
    assert command.run(command.parser().parse([str(step), "--configs", str(file), "--counts"])) == 0
    told = capsys.readouterr().out
    assert f"into {file}" in told and "left out: 1 x" in told and "unsaid: 1 x that it ran under autocast" in told
    text = file.read_text().splitlines()
    assert text[0].startswith("# ") and len(text) == 2 * len(export_configs(step).lines)
    report = trueline.check(file, target="torch:cpu", workers=0)
    assert len(report.results) == len(text) // 2
    assert report.verdict <= Verdict.NOT_COMPARED, report.failures
    assert sum(result.verdict <= Verdict.WARN for result in report.results) > 0.7 * len(report.results)


def test_the_lines_of_a_paddle_step_run_against_torch(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("paddle")
    run = tmp_path / "run"
    subprocess.run([sys.executable, "-c", PADDLE_STEP, str(run)], check=True, capture_output=True, timeout=120)
    assert command.run(command.parser().parse([str(run), "--configs", "-"])) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == list(export_configs(run).lines)
    assert any(line.startswith('paddle._C_ops.conv2d(Tensor([2, 3, 8, 8],"float32"), ') for line in lines)
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines))
    report = trueline.check(file, target="paddle:cpu", reference="torch:cpu", workers=1)
    assert len(report.results) == len(lines) and not report.failures
    public = [result for result in report.results if not result.case.api.startswith("paddle._C_ops.")]
    assert len(public) > 5 and all(result.verdict <= Verdict.WARN for result in public)


def test_nothing_to_export_is_an_error(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", data="stats"):
        pass
    with pytest.raises(TruelineError, match="there are no calls"):
        command.run(command.parser().parse([str(tmp_path / "run"), "--configs", str(tmp_path / "x.txt")]))
    assert not (tmp_path / "x.txt").exists()


def test_several_runs_are_one_corpus(step: Path) -> None:
    import io

    once, twice = export_configs(step), export_configs([step, str(step)])
    assert {line: 2 * count for line, count in once.lines.items()} == dict(twice.lines)
    stream = io.StringIO()
    write_configs(once, stream)
    assert stream.getvalue().splitlines() == list(once.lines)
