"""``overflow_check`` counts APIs, at the call: in loops without an optimizer, around one step, forward and backward."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from trueline.compat import ptdbg_ascend as ptdbg  # noqa: E402
from trueline.compat.api_accuracy_checker.run_overflow_check import main as run_overflow_check  # noqa: E402
from trueline.compat.ptdbg_ascend import dumping  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program that has asked for nothing yet, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dumping, "session", dumping.Session())
    yield
    if dumping.session.overflow is not None:
        dumping.session.overflow._close()


def files() -> list[Path]:
    return sorted(Path("ptdbg_dump_v1.0/rank0").glob("Overflow_info_*.pkl"))


def apis(file: Path) -> set[str]:
    names = (json.loads(line)[0] for line in file.read_text(encoding="utf-8").splitlines())
    return {name.partition("_input")[0].partition("_output")[0] for name in names if not name.endswith("stack_info")}


def register(number: int) -> None:
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.overflow_check, overflow_nums=number)


def overflows(times: int, begun: list[int]) -> None:
    for turn in range(times):
        begun.append(turn)
        torch.full((3,), 1000.0).exp()


def trained(factors: list[float]) -> int:
    """How many steps of a training ended; each overflows once where its factor is large."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], 0.0)
    for done, factor in enumerate(factors):
        try:
            with torch.no_grad():
                weight.fill_(1.0)  # an optimizer has made NaN of it
            (weight * factor).exp().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        except ValueError:
            return done
    return len(factors)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.enable_grad])
def test_a_program_without_an_optimizer_is_dumped_and_stopped(guard: Callable[[], torch.no_grad]) -> None:
    register(1)
    begun: list[int] = []
    with pytest.raises(ValueError, match=r"^\[overflow 1 times\]: dump file is saved in '.*\.pkl'\.$"), guard():
        overflows(15, begun)
    assert begun == [0]
    (file,) = files()
    assert apis(file) == {"Tensor_exp_0_forward"}
    assert (file.with_suffix("") / "Tensor_exp_0_forward_input.0.npy").is_file()
    assert not list(Path().rglob(".trueline*"))


def test_each_overflow_is_counted_and_has_its_own_dump() -> None:
    register(3)
    begun: list[int] = []
    with pytest.raises(ValueError, match=r"\[overflow 3 times\]"):
        overflows(15, begun)
    assert begun == [0, 1, 2]
    assert [apis(file) for file in files()] == [{f"Tensor_exp_{turn}_forward"} for turn in range(3)]
    assert all(file.with_suffix("").is_dir() for file in files())
    (forward,) = Path().glob("forward_info_*.json")
    assert set(json.loads(forward.read_text(encoding="utf-8"))) == {f"Tensor*exp*{turn}" for turn in range(3)}


@pytest.mark.parametrize("factors", [[900, 1, 900, 1, 900, 1], [900, 900, 900, 900]])
def test_bad_steps_apart_or_side_by_side_are_counted_alike(factors: list[float]) -> None:
    register(3)
    assert trained(factors) == [place for place, factor in enumerate(factors) if factor > 1][2]
    assert len(files()) == 3


def test_one_step_between_the_switches() -> None:
    register(1)
    ptdbg.set_overflow_check_switch("OFF")
    overflows(2, [])
    assert not files()
    ptdbg.set_overflow_check_switch("ON")
    with pytest.raises(ValueError, match="overflow 1 times"):
        overflows(2, [])
    ptdbg.set_overflow_check_switch("OFF")
    assert len(files()) == 1


def test_several_overflows_of_one_step_are_several() -> None:
    register(2)
    with pytest.raises(ValueError, match="overflow 2 times"):
        torch.full((3,), 900.0).exp().sum() + torch.full((3,), 3e38).mul(10).sum()
    assert [apis(file) for file in files()] == [{"Tensor_exp_0_forward"}, {"Tensor_mul_0_forward"}]


def test_what_was_bad_before_or_is_meant_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    register(1)
    bad = torch.tensor([float("inf"), float("nan")])
    (bad * 2).relu()
    torch.zeros(2, 2).masked_fill(torch.ones(2, 2).bool(), float("-inf")).softmax(-1)
    ptdbg.set_overflow_check_switch("OFF")
    assert not files()
    assert "overflow 1" not in capsys.readouterr().err


def test_an_overflow_in_place_counts() -> None:
    register(1)
    with pytest.raises(ValueError, match="overflow 1 times"):
        torch.full((3,), 3e38).mul_(10)
    assert apis(files()[0]) == {"Tensor_mul__0_forward"}


def test_an_overflow_of_a_backward(capsys: pytest.CaptureFixture[str]) -> None:
    """sqrt has an infinite slope at zero: its backward overflows, its forward does not."""
    register(1)
    value = torch.zeros(3, requires_grad=True)
    loss = value.sqrt().sum()
    with pytest.raises(ValueError, match="overflow 1 times"):
        loss.backward()
    (file,) = files()
    assert apis(file) == {"Tensor_sqrt_0_backward"}
    assert (file.with_suffix("") / "Tensor_sqrt_0_backward_input.0.npy").is_file()
    (forward,) = Path().glob("forward_info_*.json")
    (backward,) = Path().glob("backward_info_*.json")
    assert "Tensor*sqrt*0" in json.loads(backward.read_text(encoding="utf-8"))
    capsys.readouterr()
    assert run_overflow_check(["-forward", str(forward), "-backward", str(backward)]) == 0
    said = capsys.readouterr().out
    assert "[Tensor*sqrt*0] does not overflow" in said
    assert "[Tensor*sqrt*0 backward] is a normal overflow" in said


def test_nothing_of_the_check_changes_the_training() -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found = []
        for _ in range(3):
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    without = losses()
    register(1)
    assert losses() == without
