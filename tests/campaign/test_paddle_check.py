"""``check`` and ``exec`` of Paddle: config lines, a captured Run, both frameworks against each other, dying kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402
from trueline.campaign.execute import execute, execute_each  # noqa: E402
from trueline.cli.main import main  # noqa: E402
from trueline.dtypes import dtype_named  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.numerics import widen  # noqa: E402
from trueline.records import Phase, Verdict  # noqa: E402

GELU = "paddle.nn.functional.gelu"
KERNELS = "tests.helpers.wrong_paddle_kernels"

LINES = """
# what a small model calls
paddle.nn.functional.gelu(Tensor([4, 16],"float32"), )
paddle.nn.functional.softmax(Tensor([4, 16],"float32"), -1, )
paddle.concat(list[Tensor([4, 16],"float32"),Tensor([4, 16],"float32"),], axis=0, )
paddle.transpose(Tensor([4, 16],"float32"), perm=list[1,0,], )
paddle.reshape(Tensor([4, 16],"float32"), list[16,4,], )
paddle.nn.functional.embedding(Tensor([4],"int64"), Tensor([16, 8],"float32"), )
"""


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Run of one training step."""
    path = tmp_path_factory.mktemp("runs") / "step"
    paddle.seed(0)
    functional = paddle.nn.functional
    weight, table = (paddle.create_parameter(shape, "float32") for shape in ([8, 12], [16, 8]))
    optimizer = paddle.optimizer.AdamW(parameters=[weight, table])
    with trueline.capture(path, data="tensors", framework="paddle"):
        hidden = functional.gelu(paddle.matmul(functional.embedding(paddle.to_tensor([[1, 2, 3]]), table), weight))
        hidden = paddle.concat([hidden, functional.softmax(hidden, -1)], axis=1)
        hidden = paddle.reshape(paddle.transpose(hidden, perm=[0, 2, 1]), [-1, 6])
        hidden.add_(paddle.ones([6]))
        hidden.mean().backward()
        optimizer.step()
    return path


@pytest.mark.parametrize("reference", ["paddle:cpu", "torch:cpu"])
def test_config_lines_pass(lines: Path, reference: str) -> None:
    if reference.startswith("torch"):
        pytest.importorskip("torch")
    report = trueline.check(lines, target="paddle:cpu", reference=reference, workers=0)
    assert report.counts["PASS"] == len(report.results) == 6, [result.reason for result in report.results]
    assert report.results[0].case.calls == (f"{lines}:3",)


def test_lines_that_cannot_be_read_are_told_and_the_others_are_checked(lines: Path) -> None:
    lines.write_text(LINES + "paddle.broken(((\nparticle.accelerate(1, )\n", encoding="utf-8")
    report = trueline.check(str(lines.parent / "*.txt"), target="paddle:cpu", workers=0)
    assert report.counts["PASS"] == 6
    assert report.info.calls == 8
    reasons = list(report.info.skipped)
    assert any(reason.startswith(f"{lines}:9 cannot be read: line 9") for reason in reasons)
    assert any("particle.accelerate" in reason for reason in reasons)


def test_a_file_of_something_else_is_an_error(lines: Path) -> None:
    lines.write_text("once upon a time\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no line that can be read"):
        trueline.check(lines, target="paddle:cpu", workers=0)
    lines.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="neither a Run nor a file of config lines"):
        trueline.check(lines, target="paddle:cpu", workers=0)
    with pytest.raises(UsageError, match="nothing matches"):
        trueline.check(str(lines.parent / "*.none"), target="paddle:cpu", workers=0)


def test_operators_come_from_the_mapping() -> None:
    report = trueline.check(ops=["paddle.nn.functional.gel?", "*.silu"], target="paddle:cpu", workers=0)
    assert {result.case.api for result in report.results} >= {GELU, "paddle.nn.functional.silu"}
    assert not report.failures and report.counts["PASS"] >= 2
    with pytest.raises(UsageError, match="no operator is called"):
        trueline.check(ops="paddle.none*", target="paddle:cpu", workers=0)


@pytest.mark.parametrize("standard", ["calibrated", "apex"])
def test_a_fault_in_a_captured_step_is_found(step: Path, standard: str) -> None:
    clean = trueline.check(step, target="paddle:cpu", standard=standard, workers=0)
    assert not clean.failures, [(one.case.api, one.reason) for one in clean.failures]
    assert clean.counts["PASS"] >= 6
    assert not clean.info.skipped, "every call of a step can be executed alone"
    faulty = trueline.check(
        step, target="paddle:cpu", standard=standard, overrides={GELU: f"{KERNELS}:negated"}, workers=0
    )
    assert [failure.case.api for failure in faulty.failures] == [GELU]


def test_an_override_that_replaces_nothing_is_an_error(lines: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean paddle\.nn\.functional\.gelu"):
        trueline.check(lines, target="paddle:cpu", overrides={"paddle.gelu": f"{KERNELS}:right"}, workers=0)


def test_a_kernel_of_torch_is_tested_with_calls_of_paddle(lines: Path) -> None:
    pytest.importorskip("torch")
    named = {"torch.nn.functional.softmax": "tests.campaign.test_paddle_check:uniform"}
    report = trueline.check(lines, target="torch:cpu", overrides=named, workers=0)
    assert [failure.case.api for failure in report.failures] == ["paddle.nn.functional.softmax"]
    assert report.counts["PASS"] == 5


def uniform(input: Any, dim: int | None = None, dtype: Any = None, **rest: Any) -> Any:
    """A softmax that does not look at its input."""
    return input * 0 + 1 / input.shape[-1]


def test_kernels_that_die_end_nothing_but_their_case(lines: Path) -> None:
    """One worker survives a crash, a hang and what eats all memory."""
    found = {}
    for kernel, timeout, memory in (("crashes", 60.0, None), ("hangs", 5.0, None), ("eats_memory", 60.0, 1.0)):
        report = trueline.check(
            lines, target="paddle:cpu", overrides={GELU: f"{KERNELS}:{kernel}"}, workers=1, timeout=timeout,
            memory=memory, limit=2,
        )  # fmt: skip
        found[kernel] = (report.results[0].measured.candidate.status.value, report.results[1].verdict)
    assert found == {
        "crashes": ("crashed", Verdict.PASS),
        "hangs": ("timed out", Verdict.PASS),
        "eats_memory": ("out of memory", Verdict.PASS),
    }


def test_a_list_of_dtypes_writes_a_run_each_and_nothing_is_lost(step: Path, tmp_path: Path) -> None:
    single, half = execute_each(
        step, target="paddle:cpu/float32,bfloat16+simulated", out=tmp_path / "out", workers=0
    )
    assert (single.folder, half.folder) == (tmp_path / "out" / "float32", tmp_path / "out" / "bfloat16")
    assert single.returned == single.cases == half.returned == half.cases
    assert any("no kernel matmul for bfloat16" in reason for reason in half.simulated)
    assert 0 < sum(half.simulated.values()) < half.cases
    with trueline.open_run(half.folder) as run, trueline.open_run(single.folder) as other:
        assert run.info.options["inputs_rounded_to"] == "bfloat16"
        assert run.info.options["target"] == "paddle:cpu/bfloat16+simulated"
        calls, plain = list(run.rank(0).trace()), list(other.rank(0).trace())
        assert [call.name for call in calls] == [call.name for call in plain]
        assert {call.api for call in calls if call.context == "simulated"} >= {"paddle.matmul", GELU}
        assert not any(call.context for call in plain)
        for ours, theirs in zip(calls, plain, strict=True):
            if ours.phase is Phase.FORWARD:
                for narrow, wide in zip(ours.inputs, theirs.inputs, strict=True):
                    first = widen(run.rank(0).tensor(narrow), dtype_named(narrow.dtype))
                    second = widen(other.rank(0).tensor(wide), dtype_named(wide.dtype))
                    assert (first == second).all(), ours.name


def test_without_simulation_a_missing_kernel_is_recorded_as_unsupported(step: Path, tmp_path: Path) -> None:
    report = execute(step, target="paddle:cpu/bfloat16", out=tmp_path / "run", workers=0)
    assert report.outcomes["unsupported"] > 0 < report.outcomes["returned"]
    assert report.outcomes["unsupported"] + report.outcomes["returned"] == report.cases
    with trueline.open_run(tmp_path / "run") as run:
        raised = [call for call in run.rank(0).trace() if call.raised]
    assert len(raised) == report.outcomes["unsupported"]
    assert all("no kernel" in call.raised for call in raised)


def test_exec_across_frameworks(lines: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report = execute(lines, target="torch:cpu", out=tmp_path / "torch", workers=0)
    assert report.returned == report.cases == 6, report.reasons
    with trueline.open_run(tmp_path / "torch") as run:
        assert {call.api for call in run.rank(0).trace()} >= {GELU, "paddle.concat"}


@pytest.mark.parametrize("target", ["paddle:cpu/float32,", "paddle:cpu/float32,float32", "paddle:cpu/float32,int8"])
def test_lists_that_make_no_sense_are_refused(lines: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(UsageError):
        execute_each(lines, target=target, out=tmp_path / "out", workers=0)


def test_the_command_line(lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["exec", str(lines), "--target", "paddle:cpu/float32,bfloat16+simulated", "--out", str(tmp_path / "out"),
             "--workers", "0"]  # fmt: skip
    assert main([*words, "--json", str(tmp_path / "exec.json")]) == 0
    told = capsys.readouterr().out
    assert "simulated: no kernel gelu for bfloat16 on CPU" in told
    assert "trueline compare" in told
    content = json.loads((tmp_path / "exec.json").read_text(encoding="utf-8"))
    assert [one["target"] for one in content] == ["paddle:cpu/float32", "paddle:cpu/bfloat16+simulated"]
    words = ["check", str(lines), "--target", "paddle:cpu/bfloat16+simulated", "--workers", "0"]
    files = {name: tmp_path / f"check.{name}" for name in ("csv", "json", "junit", "html")}
    assert main([*words, *(word for name, path in files.items() for word in (f"--{name}", str(path)))]) == 0
    assert "cases without a kernel in the dtype of the target" in " ".join(capsys.readouterr().out.split())
    for path in files.values():
        assert "no kernel gelu for bfloat16 on CPU" in path.read_text(encoding="utf-8"), path.name
    words = ["exec", str(lines), "--target", "paddle:gpu:9", "--out", str(tmp_path / "none"), "--workers", "0"]
    assert main(words) == 2
    assert "cannot use gpu:9" in capsys.readouterr().err
    assert not (tmp_path / "none").exists(), "a Run in which nothing was executed stands in the way of the next try"
