"""Replays of one program in several precisions, compared: every call appears, and none is wrong for being bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

import trueline
from tests.helpers.synthetic import array, bfloat16
from trueline.campaign.execute import execute
from trueline.cases import Case
from trueline.records import Verdict

torch = pytest.importorskip("torch")

GELU = "torch.nn.functional.gelu"
EXACT = ("__getitem__", "cat", "transpose", "reshape")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A captured step, executed in float32, in float32 on rounded inputs, and in bfloat16."""
    folder = tmp_path_factory.mktemp("replays")
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(24, 16, generator=generator).mul_(0.3).requires_grad_()
    x = torch.randn(8, 6, 16, generator=generator)
    target = torch.randint(0, 24, (48,), generator=generator)
    with trueline.capture(folder / "program", data="tensors"):
        hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight))
        hidden = torch.nn.functional.layer_norm(hidden, [24])
        hidden = torch.cat([hidden[:4], hidden[4:]]).transpose(0, 1).reshape(48, 24)
        loss = torch.nn.functional.cross_entropy(torch.softmax(hidden, -1) * 3.0 + hidden, target)
        loss.backward()
    program = folder / "program"
    execute(program, target="torch:cpu/float32", out=folder / "single", workers=0)
    execute(program, target="torch:cpu/float32", out=folder / "gold", workers=0, inputs_rounded_to="bfloat16")
    execute(program, target="torch:cpu/bfloat16", out=folder / "half", workers=0)
    return folder


def test_every_call_appears_and_exact_operators_are_equal(runs: Path) -> None:
    with trueline.compare(runs / "gold", runs / "half") as report:
        assert report.verdict is Verdict.PASS, [(row.call.name, row.reason) for row in report.calls]
        assert len(report.calls) == len(list(trueline.open_run(runs / "half").rank(0).trace()))
        exact = [row for row in report.calls if row.call.api.endswith(EXACT)]
        assert len(exact) == 10
        assert all(row.output_distance == 0.0 for row in exact)
        assert not any("same numbers" in note for note in report.notes)


def test_inputs_that_were_not_rounded_are_noted_and_blamed_on_nobody(runs: Path) -> None:
    with trueline.compare(runs / "single", runs / "half") as report:
        assert report.verdict is Verdict.PASS
        (note,) = [note for note in report.notes if "same numbers" in note]
        assert "--inputs-rounded-to bfloat16" in note


@pytest.mark.parametrize("reference", ["single", "gold"])
def test_a_fault_of_the_low_precision_side_is_found(runs: Path, tmp_path: Path, reference: str) -> None:
    wrong = {GELU: "tests.diagnose.kernels:gelu_two_percent"}
    execute(runs / "program", target="torch:cpu/bfloat16", out=tmp_path / "bad", overrides=wrong, workers=0)
    with trueline.compare(runs / reference, tmp_path / "bad") as report:
        assert report.verdict is Verdict.FAIL
        assert report.first_divergence is not None and report.first_divergence.api == GELU


def test_three_ways(runs: Path, tmp_path: Path) -> None:
    with trueline.compare(runs / "gold", runs / "half", baseline=runs / "half") as report:
        assert report.verdict is Verdict.PASS, [(row.call.name, row.reason) for row in report.calls]
    wrong = {GELU: "tests.diagnose.kernels:gelu_two_percent"}
    execute(runs / "program", target="torch:cpu/bfloat16", out=tmp_path / "bad", overrides=wrong, workers=0)
    with trueline.compare(runs / "gold", tmp_path / "bad", baseline=runs / "half") as report:
        assert {row.call.api for row in report.calls if row.verdict is Verdict.FAIL} == {GELU}


def test_what_did_not_return_appears_with_its_reason(runs: Path, tmp_path: Path) -> None:
    from trueline.campaign.run_writer import RunOfCases  # a Run of replays, as exec writes it
    from trueline.store.writer import RankWriter, write_run_info

    def replay(name: str, ends: dict[str, tuple[str, str]]) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        writer = RankWriter(folder, 0)
        run = RunOfCases(writer, folder)
        values = bfloat16(array(4, 4)).bits
        for number, api in enumerate(("paddle.add", "paddle.exp", "paddle.tanh", "paddle.sin", "paddle.cos")):
            raised, context = ends.get(api, ("", ""))
            case = Case(api, {"args": [{"$t": 0}], "kwargs": {}})
            (folder / str(number)).write_bytes(values.tobytes() * 2)
            leaves = [
                {"part": part, "path": path, "dtype": "bfloat16", "shape": (4, 4), "strides": (4, 1), "device": "cpu",
                 "offset": offset * values.nbytes}
                for offset, (part, path) in enumerate((("input", "args.0"), ("output", "out")))
            ]  # fmt: skip
            run.add(case, str(number), [] if raised else leaves, raised, context)
        writer.drain()
        writer.close({"complete": True})
        with trueline.open_run(runs / "half") as half:
            write_run_info(folder, half.info)
        return folder

    reference = replay("reference", {"paddle.cos": ("raised: ValueError: no", "")})
    candidate = replay(
        "candidate",
        {
            "paddle.add": ("unsupported: no kernel of add for bfloat16", ""),
            "paddle.exp": ("crashed: SIGSEGV", ""),
            "paddle.tanh": ("", "simulated"),
            "paddle.sin": ("raised: ValueError: no", ""),
        },
    )
    with trueline.compare(reference, candidate, replay=False) as report:
        found = {row.call.api: (row.verdict, row.reason) for row in report.calls}
    assert found["paddle.add"] == (Verdict.NOT_COMPARED, "unsupported: no kernel of add for bfloat16")
    assert found["paddle.exp"][0] is Verdict.ERROR and "SIGSEGV" in found["paddle.exp"][1]
    assert found["paddle.tanh"] == (Verdict.PASS, "equal (the candidate simulated)")
    assert found["paddle.sin"][0] is Verdict.FAIL and "did not return" in found["paddle.sin"][1]
    assert found["paddle.cos"][0] is Verdict.NOT_COMPARED and "the reference did not" in found["paddle.cos"][1]


def test_a_step_of_paddle_in_bfloat16(tmp_path: Path) -> None:
    """Paddle has few kernels for bfloat16 on the CPU: every call is compared, unsupported, or simulated and says so."""
    pytest.importorskip("paddle")
    from tests.helpers.twins import paddle_run

    program = paddle_run(tmp_path / "program", steps=1)
    execute(program, target="paddle:cpu/float32", out=tmp_path / "gold", workers=0, inputs_rounded_to="bfloat16")
    for name in ("bfloat16", "bfloat16+simulated"):
        execute(program, target=f"paddle:cpu/{name}", out=tmp_path / name, workers=0)
    with trueline.compare(tmp_path / "gold", tmp_path / "bfloat16") as report:
        assert report.counts["FAIL"] == report.counts["ERROR"] == 0
        total = len(report.calls)
        missing = [row for row in report.calls if row.verdict is Verdict.NOT_COMPARED]
        assert missing and all("no kernel" in row.reason for row in missing)
        exact = [row for row in report.calls if row.call.api.endswith(("reshape", "transpose", "embedding"))]
        assert exact and all(row.verdict is Verdict.PASS for row in exact)
        assert all(row.output_distance == 0.0 for row in exact if row.call.phase.value == "forward")
    with trueline.compare(tmp_path / "gold", tmp_path / "bfloat16+simulated") as report:
        assert report.verdict is Verdict.PASS, [(row.call.name, row.reason) for row in report.calls]
        assert report.counts["PASS"] == len(report.calls) == total
        simulated = [row for row in report.calls if "simulated" in row.reason]
        assert len(simulated) == len(missing)
        assert any("simulated" in note for note in report.notes)
