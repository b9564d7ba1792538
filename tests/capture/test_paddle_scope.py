"""What is recorded of a Paddle program is what was asked for: steps, APIs, Layers, calls, targets; two frameworks."""

from __future__ import annotations

import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402 - only where paddle is
from tests.capture.paddle_capturing import calls, captured  # noqa: E402
from tests.helpers.paddle_models import train  # noqa: E402
from trueline.capture.targets import read_targets  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.records import Phase  # noqa: E402
from trueline.store import open_run  # noqa: E402


class Own(paddle.optimizer.SGD):
    """Steps in its own way."""

    def step(self) -> None:
        super().step()


def loop(capture: Any = None, *, steps: int = 4, kind: Any = paddle.optimizer.SGD, scaler: bool = False) -> None:
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 1))
    optimizer = kind(0.1, parameters=model.parameters())
    scale = paddle.amp.GradScaler(init_loss_scaling=8.0) if scaler else None
    for _ in range(steps):
        loss = model(paddle.ones([2, 4])).sum()
        if scale is None:
            loss.backward()
            optimizer.step()
        else:
            scale.scale(loss).backward()
            scale.step(optimizer)
            scale.update()
        optimizer.clear_grad()
        if capture is not None:
            capture.step()


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(("asked", "expected"), [(None, (0, 1, 2, 3)), ("0,2-3", (0, 2, 3)), (2, (2,))])
def test_steps_are_found_or_told(told: bool, asked: Any, expected: tuple[int, ...], tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", steps=asked, framework="paddle") as capture:
        loop(capture if told else None)
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.steps == expected
    for step in expected:
        linear = [c for c in reader.trace(step) if c.api.endswith("functional.linear") and c.phase is Phase.FORWARD]
        assert [call.index for call in linear] == [0, 1], "calls are counted anew in each step"
        assert any(call.context == "optimizer" for call in reader.trace(step))


@pytest.mark.parametrize("kind", [paddle.optimizer.AdamW, paddle.optimizer.Momentum, Own])
@pytest.mark.parametrize("scaler", [False, True])
def test_every_kind_of_optimizer_ends_a_step(kind: Any, scaler: bool, tmp_path: Path) -> None:
    reader = captured(tmp_path, lambda: loop(steps=2, kind=kind, scaler=scaler), data="structure")
    trace = [call for call in reader.trace() if call.api.endswith("functional.linear") and call.phase is Phase.FORWARD]
    assert [call.step for call in trace] == [0, 0, 1, 1]
    inside = {(call.module, call.module_class) for call in reader.trace() if call.context == "optimizer"}
    assert inside == {("optimizer", kind.__name__)}


def test_an_optimizer_that_is_defined_during_the_capture(tmp_path: Path) -> None:
    def program() -> None:
        class Late(paddle.optimizer.SGD):
            def step(self) -> None:
                super().step()

        loop(steps=2, kind=Late)

    assert captured(tmp_path, program, data="structure").steps[:2] == (0, 1)


def test_minimize_is_a_step(tmp_path: Path) -> None:
    layer = paddle.nn.Linear(2, 1)
    optimizer = paddle.optimizer.Adam(0.1, parameters=layer.parameters())

    def program() -> None:
        for _ in range(2):
            loss = layer(paddle.ones([1, 2])).sum()
            loss.backward()
            optimizer.minimize(loss)
            layer.clear_gradients()

    assert captured(tmp_path, program).steps[:2] == (0, 1)


def test_apis_layers_calls_and_ranges(tmp_path: Path) -> None:
    def names(**options: Any) -> list[str]:
        found = calls(tmp_path, lambda: train("transformer", steps=1, keep=False), backward=False, **options)
        return [call.name for call in found]

    assert {name.split(".")[3] for name in names(apis="paddle.nn.functional.*")} >= {"linear", "softmax", "layer_norm"}
    assert all(name.startswith("paddle.nn.functional.") for name in names(apis=["paddle.nn.functional.*"]))
    assert {name.rsplit(".", 2)[0] for name in names(apis="matmul")} == {"paddle.Tensor.matmul"}
    inside = calls(tmp_path, lambda: train("transformer", steps=1, keep=False), modules=["blocks.1.*"])
    assert {call.module.split(".")[1] for call in inside} == {"1"}
    assert any(call.phase is Phase.BACKWARD for call in inside)
    assert names(calls=["paddle.nn.functional.linear.2"]) == ["paddle.nn.functional.linear.2.forward"]
    between = names(between=["paddle.nn.functional.linear.2", "paddle.nn.functional.linear.3"])
    assert [between[0], between[-1]] == [f"paddle.nn.functional.linear.{n}.forward" for n in (2, 3)]
    assert len(between) > 2


def test_integers_and_stacks_can_be_left_out(tmp_path: Path) -> None:
    (call,) = calls(tmp_path, lambda: paddle.arange(4), integers=False, stacks=False)
    assert call.stack == () and call.outputs[0].missing == "integers were not asked for"


def test_threads_are_told_apart(tmp_path: Path) -> None:
    def program() -> None:
        threads = [threading.Thread(target=lambda: [paddle.ones([2]).exp() for _ in range(20)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = [call for call in calls(tmp_path, program) if call.api == "paddle.Tensor.exp"]
    assert len(found) == 40 and len({call.thread for call in found}) == 2


# Functions of other libraries.

library = types.ModuleType("fusion_library")
exec("def fused(x, y):\n    return x * y + 1\n\nclass Thing: pass\n", library.__dict__)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Any:
    import sys

    monkeypatch.setitem(sys.modules, "fusion_library", library)
    return library.fused


@pytest.mark.parametrize("key", ["target_op", "target op"])
def test_targets_from_a_file(key: str, fused: Any, tmp_path: Path) -> None:
    listed = tmp_path / "op_target.yaml"
    listed.write_text(
        f"# ours\n{key}:\n  - fusion_library.fused  # one\n"
        "  - 'paddle.distributed.fleet.layers.mpu.mp_ops._c_identity'\n"
        "ignored_op:\n  - paddle.exp\n"
    )
    x = paddle.ones([2])
    found = calls(tmp_path, lambda: (fused(x, x), paddle.exp(x)), targets=str(listed))
    assert [call.api for call in found] == ["fusion_library.fused", "paddle._C_ops.exp"]


def test_a_target_is_found_when_the_program_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of names has nothing imported."""
    (tmp_path / "late_library.py").write_text("def fused(x, y):\n    return x * y + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    x = paddle.ones([2])

    def program() -> None:
        assert "late_library" not in sys.modules
        import late_library

        late_library.fused(x, x)

    found = calls(tmp_path, program, targets=["late_library.fused"])
    assert [call.api for call in found] == ["late_library.fused"]


def test_a_target_that_is_not_there_is_said(fused: Any, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="fusion_library has no 'missing'"):
        reader = captured(tmp_path, lambda: None, targets=["fusion_library.missing"])
    assert list(reader.certificate.not_recorded) == ["target fusion_library.missing: fusion_library has no 'missing'"]
    with pytest.warns(RuntimeWarning, match="it is not a function"):
        captured(tmp_path, lambda: None, targets=["fusion_library.Thing"])
    with pytest.warns(RuntimeWarning, match="the program imported no module of its name"):
        captured(tmp_path, lambda: None, targets=["nowhere_at_all.function"])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("target_op:\n  - not a name\n", "line 2: 'not a name' is not the full name"),
        ("something: 3\n", "line 1: expected target_op"),
        ("target_op: word\n", "line 1: expected a list"),
    ],
)
def test_a_list_that_cannot_be_read(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=fault):
        read_targets([str(path)])
    with pytest.raises(UsageError, match="cannot read"):
        read_targets([str(tmp_path / "nothing.yaml")])
    with pytest.raises(UsageError, match="neither a function's full name"):
        read_targets(["word"])


def test_inline_lists_and_doubles(tmp_path: Path) -> None:
    path = tmp_path / "list.yml"
    path.write_text("---\ntarget_op: [a.b, 'a.c', a.b]\n")
    assert read_targets([str(path), "a.d"]) == (("a.b", "a.c", "a.d"), ())


# Two frameworks.


def test_a_program_that_uses_both(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with trueline.capture(tmp_path / "run", data="tensors"):
        x = torch.ones(3).exp()
        paddle.to_tensor(x.numpy()).exp()
    run = open_run(tmp_path / "run")
    apis = [call.api for call in run.rank(0).trace()]
    assert apis.index("torch.Tensor.exp") < apis.index("paddle.Tensor.exp")
    assert run.info.framework == "torch, paddle"
    with trueline.capture(tmp_path / "one", framework="torch"):
        paddle.ones([2])
    assert list(open_run(tmp_path / "one").rank(0).trace()) == []


def test_an_unknown_framework(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown framework 'jax'"):
        trueline.capture(tmp_path / "run", framework="jax")
