"""Modes of ptdbg's dump, to the letter: what is dumped, under which names, and what the program keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trueline.compat import ptdbg_ascend as ptdbg  # noqa: E402
from trueline.compat.ptdbg_ascend import dumping  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program that has asked for nothing yet, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dumping, "session", dumping.Session())
    yield
    dumping.session.end()


def train(weight: Any) -> float:
    hidden = torch.nn.functional.relu(torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4), weight))
    hidden = torch.nn.functional.leaky_relu(torch.nn.functional.relu6((hidden + 0).relu_()))
    loss = torch.nn.functional.dropout(hidden, 0.5).sum() + torch.nn.functional.conv2d(hidden, weight).sum()
    loss.backward()
    return float(loss.item())


def dumped(tag: str, **options: Any) -> list[str]:
    """The names in the pkl of a dump of one step, without inputs and outputs."""
    ptdbg.set_dump_path("./npu_dump.pkl", dump_tag=tag)
    ptdbg.register_hook(torch.nn.Linear(1, 1), ptdbg.acc_cmp_dump)
    ptdbg.set_dump_switch("ON", **options)
    train(torch.nn.Parameter(torch.ones(1, 1, 2, 2)))
    ptdbg.set_dump_switch("OFF")
    return [line[0] for line in lines(tag)]


def lines(tag: str) -> list[Any]:
    path = Path(f"{tag}_v1.0/rank0/npu_dump.pkl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def calls(names: list[str]) -> set[str]:
    return {name.rpartition("_stack")[0] or name.partition("_input")[0].partition("_output")[0] for name in names}


def test_a_list_of_forwards_has_no_backward() -> None:
    assert calls(dumped("list", mode="list", scope=["Functional_relu_0_forward"])) == {"Functional_relu_0_forward"}
    names = calls(dumped("both", mode="list", scope=["Functional_conv2d_0_forward", "Functional_relu_0_backward"]))
    assert names == {"Functional_conv2d_0_forward", "Functional_relu_0_backward"}


def test_a_range_is_what_lies_between_in_time() -> None:
    forward = calls(dumped("range", mode="range", scope=["Functional_relu_0_forward", "Functional_relu6_0_forward"]))
    assert forward == {
        "Functional_relu_0_forward", "Tensor_add_0_forward", "Tensor_relu__0_forward", "Functional_relu6_0_forward"
    }  # fmt: skip
    back = calls(dumped("back", mode="range", scope=["Functional_conv2d_1_forward", "Functional_dropout_0_backward"]))
    assert {"Functional_conv2d_1_forward", "Functional_conv2d_1_backward", "Functional_dropout_0_backward"} <= back
    assert not back & {"Functional_relu_0_forward", "Functional_conv2d_0_backward"}


def test_api_list_names_apis_not_parts_of_names() -> None:
    found = {name.partition("_forward")[0].partition("_backward")[0] for name in dumped(
        "api_list", mode="api_list", api_list=["relu"])}  # fmt: skip
    assert found == {"Functional_relu_0", "Tensor_relu__0"}


def test_gradients_have_the_names_of_the_document() -> None:
    assert "Functional_conv2d_1_backward_input.0" in dumped("whole")
    assert Path("whole_v1.0/rank0/npu_dump/Functional_conv2d_1_backward_input.0.npy").is_file()


def test_stacks_have_the_text_of_each_line() -> None:
    dumped("stack", mode="list", scope=["Functional_relu_0_forward"])
    (stack,) = [line[1] for line in lines("stack") if line[0].endswith("_stack_info")]
    assert stack[0][3].startswith("hidden = torch.nn.functional.relu(")


def test_parse_prints_as_ptdbg_does(capsys: pytest.CaptureFixture[str]) -> None:
    dumped("stack", mode="list", scope=["Functional_relu_0_forward"])
    capsys.readouterr()
    ptdbg.parse("stack_v1.0/rank0/npu_dump.pkl", "Functional_relu_0_forward")
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["", "Statistic Info:"]
    shape = "[dtype: torch.float32][shape: [1, 1, 3, 3]][max: 4.0][min: 4.0][mean: 4.0]"
    assert said[2:4] == [f"  [Functional_relu_0_forward_{what}]{shape}" for what in ("input.0", "output")]
    assert said[4:6] == ["", "Trace back(Functional_relu_0_forward_stack_info):"]
    assert said[-2].startswith('  File "') and said[-2].endswith(", in train") and "relu(" in said[-1]


def acl(scope: list[str], **options: Any) -> set[str]:
    """The kernels that a step leaves in acl mode."""
    ptdbg.set_dump_path("./npu_dump.pkl")
    ptdbg.register_hook(torch.nn.Linear(1, 1), ptdbg.acc_cmp_dump, **options)
    ptdbg.set_dump_switch("ON", mode="acl", scope=scope)
    train(torch.nn.Parameter(torch.ones(1, 1, 2, 2)))
    ptdbg.set_dump_switch("OFF")
    return {path.name.partition(".")[0] for path in Path().rglob("acl_dump/**/*.npy")}


def test_acl_without_a_dump_config(capsys: pytest.CaptureFixture[str]) -> None:
    """Example 4 of the modes: nothing but the switch says acl."""
    assert acl(["Functional_relu_0_forward"]) == {"relu"}
    assert "no dump_config was given: kernels are dumped into" in capsys.readouterr().err


def test_acl_dumps_the_kernels_of_the_api_alone() -> None:
    """None of those that make its inputs, read its results, or belong to the other direction."""
    assert acl(["Functional_conv2d_1_forward"]) == {"convolution"}


def test_acl_of_a_backward_takes_the_gradient_of_the_document() -> None:
    dumped("whole")
    ptdbg.set_backward_input(["whole_v1.0/rank0/npu_dump/Functional_conv2d_1_backward_input.0.npy"])
    assert acl(["Functional_conv2d_1_backward"]) == {"convolution_backward"}


@pytest.mark.parametrize("mode", ["acl", "api_stack"])
def test_a_dump_leaves_random_numbers_and_threads_alone(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 1: what the program draws after OFF is what it would have drawn."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    without = [train(torch.nn.Parameter(torch.ones(1, 1, 2, 2))) for _ in range(2)]
    torch.manual_seed(7)
    ptdbg.set_dump_path("./npu_dump.pkl")
    ptdbg.register_hook(torch.nn.Linear(1, 1), ptdbg.acc_cmp_dump)
    torch.manual_seed(7)
    ptdbg.set_dump_switch("ON", mode=mode, scope=["Functional_dropout_0_forward"] if mode == "acl" else [])
    first = train(torch.nn.Parameter(torch.ones(1, 1, 2, 2)))
    ptdbg.set_dump_switch("OFF")
    assert [first, train(torch.nn.Parameter(torch.ones(1, 1, 2, 2)))] == without
    assert torch.get_num_threads() == threads


def test_a_tensor_that_two_calls_share_is_written_once() -> None:
    """The output of one call is the input of the next: two names, one file on the disk."""
    dumped("whole")
    folder = Path("whole_v1.0/rank0/npu_dump")
    made, given = (folder / f"Functional_{name}.npy" for name in ("conv2d_0_forward_output", "relu_0_forward_input.0"))
    assert made.samefile(given)
    assert not list(Path().rglob(".trueline*"))
