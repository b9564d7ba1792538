"""The observer of Paddle does not change the observed: the same bits with capture on and off, and nothing stays."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402 - only where paddle is
from tests.helpers.paddle_models import PROGRAMS, Doubled, bare, bits, train  # noqa: E402
from trueline.store import open_run  # noqa: E402

LEVELS = ("api", "module", "kernel", "api+module")
DATA = ("structure", "stats", "digest", "tensors")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_loss_gradients_and_parameters_keep_their_bits(name: str, level: str, tmp_path: Path) -> None:
    for data in DATA:
        if name == "resnet" and data != "tensors":
            continue  # takes long, and the others show the same
        capture = trueline.capture(tmp_path / data, level=level, data=data, framework="paddle")
        assert bare(name).differences(train(name, capture)) == []
        assert capture.certificate is not None and capture.certificate.complete
        assert capture.certificate.not_recorded == {}
        wanted = {f"{one} forward" for one in level.split("+")} | {f"{one} backward" for one in level.split("+")}
        assert wanted == set(capture.certificate.calls)


def test_the_comparison_can_fail() -> None:
    """One bit of one gradient is enough to be noticed."""
    first, second = train("mixed", steps=1), train("mixed", steps=1)
    assert first.differences(second) == []
    changed = bytearray(second.gradients[0]["matrix"])
    changed[0] ^= 1
    second.gradients[0]["matrix"] = bytes(changed)
    assert first.differences(second) == ["gradient of matrix in step 0"]


def test_a_watched_step_without_optimizer_keeps_its_bits_too(tmp_path: Path) -> None:
    """``paddle.grad``, gradients of gradients, and a graph that is used twice."""

    def numbers() -> list[bytes]:
        paddle.seed(2)
        x = paddle.randn([4, 4])
        x.stop_gradient = False
        y = (x.matmul(x).tanh() * x).sum()
        (once,) = paddle.grad(y, x, create_graph=True)
        twice = (once * once).sum()
        twice.backward(retain_graph=True)
        twice.backward()
        return [bits(y), bits(once), bits(x.grad)]

    expected = numbers()
    with trueline.capture(tmp_path / "run", data="tensors", framework="paddle"):
        assert numbers() == expected


# What is left of a capture: nothing.

Names = dict[tuple[Any, str], Any]
Codes = dict[int, tuple[Any, Any, Any, Any]]
CLASSES = (
    paddle.Tensor, paddle.base.framework.EagerParamBase, paddle.nn.Layer, paddle.autograd.PyLayer,
    paddle.base.core.eager.PyLayer, paddle.optimizer.Optimizer, paddle.optimizer.AdamW, paddle.amp.GradScaler, Doubled,
)  # fmt: skip


def everything() -> tuple[Names, Codes]:
    """Every attribute of every module of Paddle, of this module and of some classes; and the code of every function
    among them."""
    names: Names = {}
    for module_name, module in list(sys.modules.items()):
        ours = module_name == "paddle" or module_name.startswith("paddle.") or module_name == __name__
        if ours and isinstance(module, types.ModuleType):
            names.update(((module_name, name), item) for name, item in vars(module).items())
    for kind in CLASSES:
        names.update(((kind, name), item) for name, item in vars(kind).items())
    return names, {id(function): _code(function) for item in names.values() for function in _functions(item)}


def _functions(item: Any) -> Iterator[types.FunctionType]:
    for part in (item, getattr(item, "fget", None), getattr(item, "__func__", None)) if item is not None else ():
        if type(part) is types.FunctionType:
            yield part


def _code(function: types.FunctionType) -> tuple[Any, Any, Any, Any]:
    return function, function.__code__, function.__defaults__, function.__kwdefaults__


def differences(before: tuple[Names, Codes], after: tuple[Names, Codes]) -> list[Any]:
    names = [key for key in before[0] if key not in after[0] or after[0][key] is not before[0][key]]
    new = [key for key in after[0] if key not in before[0]]
    codes = [one[0] for key, one in before[1].items() if after[1].get(key, (None,) * 4)[1:] != one[1:]]
    return names + new + codes


taken: Any = None


@pytest.mark.parametrize("level", LEVELS)
def test_every_attribute_is_what_it_was(level: str, tmp_path: Path) -> None:
    global taken
    train("mixed", steps=1)  # what Paddle sets up by itself when it is used first
    before = everything()
    assert len(before[0]) > 10_000 and len(before[1]) > 3_000
    with trueline.capture(tmp_path / "run", level=level, framework="paddle"):
        train("mixed", steps=2)
        assert differences(before, everything())
        taken = paddle._C_ops.scale  # what user code takes while the capture runs
    assert taken is paddle._C_ops.scale
    taken = None
    assert differences(before, everything()) == []


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_observers_leave_nothing_in_whichever_order_they_end(first_ends_first: bool, tmp_path: Path) -> None:
    train("mixed", steps=1)
    before = everything()
    first = trueline.capture(tmp_path / "first", framework="paddle")
    second = trueline.capture(tmp_path / "second", framework="paddle")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fault of ours would be told as a warning
        first.start()
        second.start()
        train("mixed", steps=1)
        for one in (first, second) if first_ends_first else (second, first):
            one.stop()
    assert differences(before, everything()) == []


def test_what_was_taken_during_a_capture_is_given_back(tmp_path: Path) -> None:
    class Holder:
        pass

    held, listed, add = Holder(), [], paddle.Tensor.__add__
    with trueline.capture(tmp_path / "run", framework="paddle") as capture:
        held.add = paddle.Tensor.__add__  # type: ignore[attr-defined]
        listed.append(paddle._C_ops.add)
        inside = (lambda function: lambda: function)(paddle.Tensor.__add__)
        assert held.add is not add  # type: ignore[attr-defined]
    assert held.add is add and listed == [paddle._C_ops.add] and inside() is add  # type: ignore[attr-defined]
    assert capture.certificate is not None


def test_a_step_that_is_not_wanted_runs_as_if_nobody_watched(tmp_path: Path) -> None:
    """Between the wanted steps every function is Paddle's own; only optimizers are listened to."""
    layer, x = paddle.nn.Linear(4, 4), paddle.ones([2, 4])
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    add, code, call = paddle.Tensor.__add__, paddle.reshape.__code__, paddle.nn.Layer.__call__.__code__

    def own() -> bool:
        same = paddle.reshape.__code__ is code and paddle.nn.Layer.__call__.__code__ is call
        return same and paddle.Tensor.__add__ is add and "apply" not in vars(paddle.autograd.PyLayer)

    with trueline.capture(tmp_path / "run", steps=[1], framework="paddle"):
        assert own()
        layer(x).sum().backward()
        optimizer.step()
        assert not own()
        layer(x).sum().backward()
        optimizer.step()
        assert own()
    calls = list(open_run(tmp_path / "run").rank(0).trace())
    assert {call.step for call in calls} == {1}


def test_random_numbers_drawn_under_capture_are_the_same(tmp_path: Path) -> None:
    def draw() -> list[bytes]:
        paddle.seed(3)
        drawn = [paddle.rand([5]), paddle.randn([5]), paddle.randperm(9)]
        return [bits(tensor) for tensor in (*drawn, paddle.nn.functional.dropout(paddle.ones([50])))]

    expected = draw()
    with trueline.capture(tmp_path / "run", data="tensors", framework="paddle"):
        assert draw() == expected


def test_errors_of_the_program_leave_nothing_behind(tmp_path: Path) -> None:
    before = everything()

    def program() -> None:
        with trueline.capture(tmp_path / "run", framework="paddle"):
            paddle.matmul(paddle.ones([2, 3]), paddle.ones([2, 3]))

    with pytest.raises(ValueError):
        program()
    assert differences(before, everything()) == []


@pytest.mark.filterwarnings("ignore")  # Paddle's, about operators that it wants to be rid of
def test_operators_of_every_kind_keep_their_bits(tmp_path: Path) -> None:
    """One of each handful of the APIs that are mapped to torch, forward and backward: none of them minds our hooks."""
    harness = pytest.importorskip("tests.ops.mapping_harness")
    rows = list(harness.rows().values())[::7]
    cases = [harness.case_of(example) for row in rows for example in row.examples[:1]]
    cases = [case for case in cases if harness.is_in_this_paddle(case.api)]

    def numbers(case: Any) -> list[Any]:
        ran = harness.run_paddle(case, harness.inputs_for(case))
        leaves = [*ran.outputs.values(), *ran.gradients.values()]
        dense = [leaf for leaf in leaves if isinstance(leaf, paddle.Tensor) and leaf.is_dense()]
        return [(str(leaf.dtype), tuple(leaf.shape), bits(leaf)) for leaf in dense]

    first, second = [[numbers(case) for case in cases] for _ in range(2)]
    with trueline.capture(tmp_path / "run", data="digest", framework="paddle") as capture:
        watched = [numbers(case) for case in cases]
    steady = [number for number in range(len(cases)) if first[number] == second[number]]
    assert len(steady) > 100, "others draw numbers of their own"
    assert [cases[number].api for number in steady if watched[number] != first[number]] == []
    assert capture.certificate is not None
    assert not [reason for reason in capture.certificate.not_recorded if "internal fault" in reason]
