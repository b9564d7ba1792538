"""Frames of ours do not count towards the recursion limit; with the C extension and without."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueline.frameworks import depth

FAST = depth._extension()
WAYS = [pytest.param((depth._door, depth._Called, depth._left, depth._asked), id="python")]
if FAST is not None:
    WAYS.append(pytest.param((FAST.Door, FAST.Called, FAST.left, FAST.Asked), id="extension"))
pytestmark = pytest.mark.skipif(not depth.place()[0], reason="this Python does not say where it counts frames")


def deepest() -> int:
    """How often a function may call itself here."""

    def down(level: int) -> int:
        try:
            return down(level + 1)
        except RecursionError:
            return level

    return down(0)


def gated(enter: Callable[..., Any], *args: Any) -> Any:
    """As the gate of a splice: one frame."""
    return enter(args, {})


def handler(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return further(original, args, kwargs, 7)


def further(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frames: int) -> Any:
    return further(original, args, kwargs, frames - 1) if frames else original(*args, **kwargs)


def found() -> int:
    return deepest()


@pytest.mark.parametrize("way", WAYS)
def test_what_lies_behind_a_door_is_as_deep_as_without_it(way: Any) -> None:
    door = way[0](handler, found)
    bare = found()
    assert gated(door) == bare and deepest() - 1 == bare


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_has_room_where_the_program_has_none(way: Any) -> None:
    door = way[0](handler, lambda: None)

    def down() -> bool:
        try:
            return down()
        except RecursionError:
            return gated(door) is None  # needs more frames than are left here

    assert down()


@pytest.mark.parametrize("way", WAYS)
def test_the_count_is_whole_after_an_error_and_a_change_of_the_limit(way: Any) -> None:
    before, limit = deepest(), sys.getrecursionlimit()

    def fails() -> None:
        sys.setrecursionlimit(limit + 100)
        raise KeyError

    try:
        with pytest.raises(KeyError):
            gated(way[0](handler, fails))
        assert sys.getrecursionlimit() == limit + 100
        assert deepest() == before + 100
    finally:
        sys.setrecursionlimit(limit)
    assert deepest() == before


@pytest.mark.parametrize("way", WAYS)
def test_each_thread_has_a_count_of_its_own(way: Any) -> None:
    inside, free, other = threading.Event(), threading.Event(), []

    def waits() -> int:
        inside.set()
        free.wait(10)
        return deepest()

    thread = threading.Thread(target=lambda: other.append(gated(way[0](handler, waits))))
    before = deepest()
    thread.start()
    inside.wait(10)
    assert deepest() == before
    free.set()
    thread.join()
    assert 0 < other[0] < sys.getrecursionlimit()


@pytest.mark.parametrize("way", WAYS)
def test_one_that_is_asked_is_told_how_many_frames_were_left(way: Any) -> None:
    left, asked = way[2], way[3]
    here = left()
    told = asked(lambda before, value, *, name: (before, value, name))(1, name="two")
    assert told == (here, 1, "two")


def test_where_nothing_is_found_everything_is_called_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "place", lambda: (0, 1))
    assert gated(depth._door(handler, lambda: "called")) == "called"
    assert depth._Called(len, 0)("abc") == 3 and depth._asked(lambda left, one: one)(2) == 2
    with depth.Roomy():
        assert depth._left() == 0


NEST = """
import contextlib, sys, tempfile
import torch, trueline

class Layer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)

def runs(depth):
    net = torch.nn.ReLU()
    for _ in range(depth):
        net = Layer(net)
    try:
        net(torch.ones(2))
    except RecursionError:
        return False
    return True

def deepest():
    low, high = 1, 500
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(middle) else (low, middle)
    return low

def plain(level=0):
    try:
        return plain(level + 1)
    except RecursionError:
        return level

class Down(torch.autograd.Function):
    deepest = 0

    @staticmethod
    def forward(ctx, x, level):
        Down.deepest = max(Down.deepest, level)
        return Down.apply(x, level + 1)

    @staticmethod
    def backward(ctx, grad):
        return grad, None

def program():
    found, x = [deepest(), plain()], torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: found.append(plain()))
    y.sum().backward()
    with contextlib.suppress(RecursionError):
        Down.apply(x, 0)
    return (*found, Down.deepest, sys.getrecursionlimit())

program()
bare, ways = program(), [{}, {"level": "module"}, {"level": "kernel"}, {"level": "api+module"}, {"witness": True}, None]
for way in ways:
    with tempfile.TemporaryDirectory() as folder:
        with trueline.watch(folder + "/run") if way is None else trueline.capture(folder + "/run", **way):
            print(way, *(one - other for one, other in zip(program(), bare)))
"""


def differences(environment: dict[str, str]) -> dict[str, list[int]]:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NEST],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.rpartition("}")[::2] if "}" in line else line.split(" ", 1) for line in done.stdout.splitlines()]
    return {name: [int(word) for word in words.split()] for name, words in rows}


@pytest.mark.skipif(FAST is None, reason="the C extension is not there")
def test_a_program_reaches_its_limit_where_it_would_without_a_capture() -> None:
    """Modules, plain functions, hooks, functions of autograd. From Python 3.12 on a function of torch's that is written
    in Python takes one frame more while a mode is asked; so does every kernel where kernels are seen."""
    for way, found in differences({}).items():
        assert found[1:] == [0, 0, 0, 0], way
        assert found[0] in ((0, -1) if depth.C_CALL == 0 or "kernel" in way or "witness" in way else (0,)), way


def test_without_the_extension_it_comes_nearly_as_far() -> None:
    for way, found in differences({"TRUELINE_NO_KERNELS": "1"}).items():
        assert found[1:] == [0, 0, 0, 0] and found[0] >= -2, (way, found)


@pytest.mark.skipif(FAST is None, reason="the C extension is not there")
def test_a_call_of_ours_that_calls_itself_comes_to_an_end() -> None:
    here = FAST.left()

    def endless() -> None:
        FAST.Called(endless, here)()

    with pytest.raises(RecursionError):
        endless()
