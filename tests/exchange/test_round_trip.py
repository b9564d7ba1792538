"""A Run goes out into each format and comes back: the same calls, the same places, the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Bits, Spec, array, bfloat16, write_run
from trueline.errors import UsageError
from trueline.exchange import (
    export_run,
    import_apex,
    import_checker_json,
    import_run,
    write_apex,
    write_checker_json,
    write_msprobe,
    write_ptdbg,
)
from trueline.formats import ptdbg
from trueline.records import Call, Level, Phase, Verdict
from trueline.store import open_run

Places = dict[tuple[str, str], Any]


def torch_calls(step: int = 0, api: str = "torch") -> list[Spec]:
    """Everything that a dump can hold: nests, keywords, plain values, odd types, gradients, what was changed."""
    x, weight, bias = array(8, 4, seed=1), array(3, 4, seed=2), array(3, seed=3)
    y = (x @ weight.T + bias).astype(np.float32)
    linear = Spec(
        f"{api}.nn.functional.linear", [x, weight, bias], [y], module="fc", step=step, source=("m.py", 7, "f")
    )
    half = bfloat16(y)
    index = np.arange(24).reshape(8, 3)
    flags = Bits(np.array([[True, False, True]] * 8), "bool")
    eights = Bits(np.arange(24, dtype=np.uint8).reshape(8, 3), "float8_e4m3fn")
    joined = np.concatenate([y, y])
    return [
        linear,
        Spec(f"{api}.Tensor.to", [y], [half], {"dtype": {"$dtype": "bfloat16"}}, step=step),
        Spec(f"{api}.cat", [[y, y], 0], [joined], step=step),
        Spec(f"{api}.where", [flags, y, 0.5], [y], {"out": None, "scale": {"$float": "inf"}}, step=step),
        Spec(
            f"{api}.gather",
            [y, 1, index],
            [y],
            {"sizes": {"$size": [2, 3]}, "pick": {"$slice": [0, None, 2]}},
            step=step,
        ),
        Spec(f"{api}.topk", [y], [y, index], {"k": 3}, step=step),
        Spec(f"{api}.ops.quantize", [eights], [y], step=step),
        Spec(f"{api}.Tensor.add_", [y, 1], [y * 2], mutated={"args.0": y * 2}, step=step),
        Spec(f"{api}.nn.functional.linear", [y], [x, weight, bias], phase=Phase.BACKWARD, forward=linear, step=step),
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("exchange") / "run", torch_calls(), framework="torch")


@pytest.fixture(scope="module")
def paddle_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    calls = [call for call in torch_calls(api="paddle") if call.api != "paddle.ops.quantize"]
    return write_run(tmp_path_factory.mktemp("exchange") / "run", calls, framework="paddle")


def calls_in(path: Path) -> tuple[list[Call], list[Places]]:
    """The calls of rank 0, and the bits (else the shape) of their tensors by role and path."""
    with open_run(path) as opened:
        reader = opened.rank(opened.ranks[0])
        calls = list(reader.trace())
        places: list[Places] = []
        for call in calls:
            places.append({})
            for one in call.tensors:
                bits = reader.tensor(one).tobytes() if one.stored else b""
                places[-1][one.role.value, one.path] = (one.dtype, one.shape, bits)
        return calls, places


@pytest.mark.parametrize("format", ["msprobe", "ptdbg"])
def test_everything_comes_back(format: str, run: Path, tmp_path: Path) -> None:
    sent = export_run(run, tmp_path / "dump", format=format)
    assert sent.calls == 9 and not sent.left_out and all(file.is_file() for file in sent.files)
    back = import_run(tmp_path / "dump", tmp_path / "back")
    assert (back.format, back.calls, back.ranks, back.steps, dict(back.left_out)) == (format, 9, (0,), (0,), {})
    (before, sides), (after, others) = calls_in(run), calls_in(tmp_path / "back")
    assert [call.name for call in after] == [call.name for call in before]
    for call, again, side, other in zip(before, after, sides, others, strict=True):
        expected = dict(side)
        if format == "msprobe" and call.api.endswith("add_"):
            expected.pop(("output", "args.0"))
        if format == "ptdbg" and call.api.endswith("quantize"):  # numpy has no such type: the numbers, as float32
            assert other["input", "args.0"][:2] == ("float32", (8, 3))
            expected["input", "args.0"] = other["input", "args.0"]
        assert other == expected, call.name
        assert again.stack == call.stack and (again.forward_id is None) == (call.forward_id is None)
    assert after[-1].forward_id == after[0].id


def test_arguments_come_back_as_values(run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "dump", format="msprobe")
    import_run(tmp_path / "dump", tmp_path / "back")
    found = {call.api: call.arguments for call in calls_in(tmp_path / "back")[0] if call.phase is Phase.FORWARD}
    assert found["torch.Tensor.to"]["kwargs"] == {"dtype": {"$dtype": "bfloat16"}}
    assert found["torch.where"]["kwargs"] == {"out": None, "scale": {"$float": "inf"}}
    assert found["torch.where"]["args"][2] == 0.5
    assert found["torch.gather"]["kwargs"] == {"sizes": {"$size": [2, 3]}, "pick": {"$slice": [0, None, 2]}}
    assert found["torch.cat"]["args"] == [[{"$t": 0}, {"$t": 1}], 0]


def test_the_same_run_compares_as_equal_and_another_does_not(tmp_path: Path) -> None:
    from trueline.diagnose.runs import compare_runs

    def calls() -> list[Spec]:  # without what a dump cannot say
        return [one for one in torch_calls() if not one.api.endswith(("add_", "quantize"))]

    run = write_run(tmp_path / "run", calls(), framework="torch")
    export_run(run, tmp_path / "dump", format="msprobe")
    import_run(tmp_path / "dump", tmp_path / "back")
    assert compare_runs(run, tmp_path / "back").verdict is Verdict.PASS
    other = calls()
    other[0].outputs = [other[0].outputs[0] * np.float32(1.01)]
    bad = write_run(tmp_path / "bad", other, framework="torch")
    export_run(bad, tmp_path / "bad_dump", format="ptdbg")
    import_run(tmp_path / "bad_dump", tmp_path / "bad_back")
    found = compare_runs(tmp_path / "back", tmp_path / "bad_back")
    assert found.verdict is Verdict.FAIL and found.first_divergence is not None
    assert found.first_divergence.name == "torch.nn.functional.linear.0.forward"


def test_statistics_alone_never_pass_as_measured(run: Path, tmp_path: Path) -> None:
    """Four numbers are not a comparison of elements: what only they could tell is NOT_COMPARED."""
    from trueline.diagnose.runs import compare_runs

    for name in ("a", "b"):
        export_run(run, tmp_path / f"{name}_dump", format="msprobe", tensors=False)
        import_run(tmp_path / f"{name}_dump", tmp_path / name)
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert found.verdict is Verdict.NOT_COMPARED
    first = calls_in(tmp_path / "a")[0][0].outputs[0]
    original = calls_in(run)[0][0].outputs[0]
    assert first.statistics is not None and original.statistics is not None
    assert first.statistics.maximum == original.statistics.maximum
    assert first.statistics.norm == original.statistics.norm
    assert np.isnan(first.statistics.sketch).all() if first.statistics.sketch else False


def test_nan_and_infinity_are_said_in_the_numbers(tmp_path: Path) -> None:
    bad = np.array([[1.0, np.inf] * 10, [-2.0, 3.0] * 10], np.float32)
    worse = bad.copy()
    worse[0, 0] = np.nan
    run = write_run(tmp_path / "run", [Spec("torch.exp", [bad], [worse])])
    export_run(run, tmp_path / "dump", format="msprobe", tensors=False)
    record = json.loads((tmp_path / "dump/step0/rank0/dump.json").read_text())["data"]["Torch.exp.0.forward"]
    assert record["input_args"][0]["Max"] == float("inf") and record["input_args"][0]["Min"] == -2.0
    assert np.isnan(record["output"][0]["Max"]) and np.isnan(record["output"][0]["Norm"])
    import_run(tmp_path / "dump", tmp_path / "back")
    call = calls_in(tmp_path / "back")[0][0]
    assert [one.statistics.positive_infinity for one in call.tensors if one.statistics] == [1, 0]
    assert [one.statistics.nan for one in call.tensors if one.statistics] == [0, 1]


def test_what_went_in_comes_back_from_the_checker_files(run: Path, tmp_path: Path) -> None:
    sent = write_checker_json(run, tmp_path / "dump", real=True, process=2039)
    assert sorted(p.name for p in (tmp_path / "dump").glob("*.json")) == [
        "backward_info_2039.json", "forward_info_2039.json", "stack_info_2039.json",
    ]  # fmt: skip
    assert sent.calls == 9
    import_run(tmp_path / "dump", tmp_path / "back")
    (before, sides), (after, others) = calls_in(run), calls_in(tmp_path / "back")
    assert [call.name for call in after] == [call.name for call in before]
    for side, other in zip(sides, others, strict=True):
        assert other == {key: value for key, value in side.items() if key[0] == "input"}
    stats = write_checker_json(run, tmp_path / "stats")
    entry = json.loads(stats.files[0].read_text())["Functional*linear*0"]
    assert entry["args"][0]["dtype"] == "torch.float32" and entry["args"][0]["shape"] == [8, 4]
    assert set(entry["args"][0]) == {"type", "dtype", "shape", "Max", "Min", "requires_grad"}


def test_files_of_the_checker_in_other_places(run: Path, tmp_path: Path) -> None:
    write_checker_json(run, tmp_path / "dump", process=0)
    (tmp_path / "b").mkdir()
    backward = (tmp_path / "dump/backward_info_0.json").rename(tmp_path / "b" / "grads.json")
    forward = (tmp_path / "dump/forward_info_0.json").rename(tmp_path / "b" / "some.json")
    assert import_checker_json(forward, tmp_path / "one").calls == 8
    assert import_checker_json(forward, tmp_path / "two", backward=backward).calls == 9
    names = [call.name for call in calls_in(tmp_path / "two")[0]]
    assert names[-1] == "torch.nn.functional.linear.0.backward"


def test_what_went_in_comes_back_from_apex_files(paddle_run: Path, tmp_path: Path) -> None:
    sent = write_apex(paddle_run, tmp_path / "dump", real=True)
    folder = tmp_path / "dump/rank0_step0"
    assert sent.files == [folder / "forward_rank0_all.json"]
    back = import_run(tmp_path / "dump", tmp_path / "back")
    assert back.format == "apex" and back.calls == sent.calls == 8
    (before, sides), (after, others) = calls_in(paddle_run), calls_in(tmp_path / "back")
    by_name = dict(zip([call.name for call in before], sides, strict=True))
    for call, other in zip(after, others, strict=True):
        assert other == {key: value for key, value in by_name[call.name].items() if key[0] == "input"}
    halves = json.loads((folder / "forward_rank0_half.json").read_text())
    others_file = json.loads((folder / "forward_rank0_other.json").read_text())
    assert list(halves) == ["paddle.Tensor.to*0"] and not set(halves) & set(others_file)
    entry = json.loads(sent.files[0].read_text())["paddle.nn.functional.linear*0"]
    assert entry["args"][0]["dtype"] == "FLOAT32" and entry["args"][0]["real_data_path"].endswith("linear*0.0.pt")
    assert entry["dout_list"][0]["shape"] == [8, 3]
    moved = tmp_path / "remote"
    write_apex(paddle_run, tmp_path / "dump2", real=True, tensors=moved)
    assert not list((tmp_path / "dump2").rglob("*.pt")) and list(moved.rglob("*.pt"))
    found = import_apex(tmp_path / "dump2", tmp_path / "back2", tensors=moved / "rank0_step0")
    assert found.stored_bytes == back.stored_bytes


def test_entries_that_are_alike_are_kept_once(tmp_path: Path) -> None:
    calls = [Spec("paddle.abs", [array(20, seed=seed)], [array(20, seed=seed)]) for seed in range(5)]
    run = write_run(tmp_path / "run", calls, framework="paddle")
    write_apex(run, tmp_path / "dump", unique=True)
    entries = json.loads((tmp_path / "dump/rank0_step0/forward_rank0_all.json").read_text())
    leaf = entries["paddle.abs*0"]["args"][0]
    assert len(entries) < 5 and leaf["Max"] in (1.0, 10.0) and leaf["Min"] in (-1.0, -10.0)
    assert leaf["Min"] <= leaf["Min_origin"] <= leaf["Max_origin"] <= leaf["Max"]


def test_several_steps_and_ranks(tmp_path: Path) -> None:
    steps = {rank: [*torch_calls(0), *torch_calls(2)] for rank in (0, 3)}
    run = write_run(tmp_path / "run", steps, framework="torch")
    assert import_run(write_msprobe(run, tmp_path / "a").path, tmp_path / "a_back").steps == (0, 2)
    assert import_run(tmp_path / "a", tmp_path / "again").ranks == (0, 3)
    sent = write_ptdbg(run, tmp_path / "b", name="npu_dump", ranks=[3], stacks=False)
    assert [str(file.relative_to(tmp_path)) for file in sent.files] == ["b/rank3/npu_dump.pkl"]
    names = [line.name for line in ptdbg.read_lines(sent.files[0])]
    assert "Functional_linear_1_forward_input.0" in names  # numbered on from step to step
    assert sorted(p.name for p in write_checker_json(run, tmp_path / "c").path.iterdir()) == ["step0", "step2"]
    with pytest.raises(UsageError, match="no step"):
        write_msprobe(run, tmp_path / "d", steps=[1])
    assert not (tmp_path / "d").exists()


def test_ptdbg_lines_as_documented(run: Path, tmp_path: Path) -> None:
    sent = write_ptdbg(run, tmp_path / "dump", name="myDump", values=3, integers=False)
    lines = [json.loads(line) for line in sent.files[0].read_text().splitlines()]
    assert lines[0][:5] == ["Functional_linear_0_forward_input.0", 0, [], "torch.float32", [8, 4]]
    assert len(lines[0][5]) == 3 and lines[4] == ["Functional_linear_0_forward_stack_info", [["m.py", "7", "f", ""]]]
    assert not any("int64" in str(line) or "class" in str(line) for line in lines)
    assert (tmp_path / "dump/rank0/myDump/Functional_linear_0_forward_input.0.npy").is_file()
    assert (tmp_path / "dump/rank0/myDump/Functional_linear_0_backward_output.0.npy").is_file()
    only = write_ptdbg(run, tmp_path / "stacks", tensors=False, choose=lambda call: call.api.endswith("linear"))
    assert [line.name for line in ptdbg.read_lines(only.files[0])] == ["Functional_linear_0_forward_stack_info"]
    assert only.left_out == {"not asked for": 7}


def test_modules_are_named_and_hold_their_calls(tmp_path: Path) -> None:
    x = array(4, 4)
    module = Spec("torch.nn.modules.linear.Linear", [x], [x * 2], module="fc", level=Level.MODULE)
    call = Spec("torch.nn.functional.linear", [x], [x * 2], module="fc")
    run = write_run(tmp_path / "run", [module, call])
    dump = write_msprobe(run, tmp_path / "dump").path / "step0/rank0"
    parents = json.loads((dump / "construct.json").read_text())
    (name,) = [key for key in parents if key.startswith("Module")]
    assert parents["Functional.linear.0.forward"] == name
    import_run(tmp_path / "dump", tmp_path / "back")
    after = calls_in(tmp_path / "back")[0]
    assert [one.level for one in after] == [Level.MODULE, Level.API] and after[1].module == "fc"


def test_what_a_format_cannot_say_is_counted(run: Path, paddle_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="PaddleAPEX knows Paddle alone"):
        write_apex(run, tmp_path / "x")
    with pytest.raises(UsageError, match="knows torch alone"):
        write_checker_json(paddle_run, tmp_path / "y")
    assert not (tmp_path / "x").exists() and not (tmp_path / "y").exists()
    sent = export_run(run, tmp_path / "z", format="msprobe")
    assert sent.unsaid == {"a tensor that a call changed besides what it returned": 1}
    with pytest.raises(UsageError, match="exists already"):
        export_run(run, tmp_path / "z", format="msprobe")
    with pytest.raises(UsageError, match="unknown format"):
        export_run(run, tmp_path / "w", format="xlsx")
