"""The way into custom functions where ``apply`` is written in Python and where it is a builtin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trueline.frameworks.torch import functions  # noqa: E402
from trueline.frameworks.torch.functions import Door, custom_functions  # noqa: E402

KIND = torch.autograd.Function
BUILTIN = vars(torch._C._FunctionBase)["apply"]


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


@pytest.fixture(params=["as it is", "a builtin"])
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A door whose handler notes the classes it was called with; on every torch also for a builtin, as torch 2.15 has
    it."""
    if request.param == "a builtin":
        monkeypatch.setattr(KIND, "apply", BUILTIN)
    seen: list[Any] = []

    def handler(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen.append(args[0])
        return original(*args, **kwargs)

    made = custom_functions(handler)
    made.seen = seen  # type: ignore[attr-defined]
    yield made
    made.off()
    assert vars(KIND)["apply"] is not None


def test_calls_are_seen_while_it_is_on(door: Any) -> None:
    x = torch.ones(2, requires_grad=True)
    Twice.apply(x)
    door.on()
    Twice.apply(x).sum().backward()
    door.off()
    Twice.apply(x)
    assert door.seen == [Twice]
    assert x.grad.tolist() == [2, 2]


def test_whoever_took_apply_before_is_heard_too_and_has_it_back(door: Any) -> None:
    taken = {"in a dictionary": Twice.apply, "in a list": [Twice.apply]}
    holder = torch.nn.Module()
    holder.apply_it = Twice.apply
    cell = Twice.apply

    def call(x: Any) -> Any:
        return cell(x)

    x = torch.ones(2)
    before = (taken["in a dictionary"], taken["in a list"][0], holder.apply_it, cell)
    door.on()
    for one in (taken["in a dictionary"], taken["in a list"][0], holder.apply_it, call):
        assert one(x).tolist() == [2, 2]
    door.off()
    assert door.seen == [Twice] * 4
    after = (taken["in a dictionary"], taken["in a list"][0], holder.apply_it, cell)
    assert after == before
    call(x)
    assert door.seen == [Twice] * 4


def test_whoever_takes_apply_meanwhile_holds_nothing_of_ours(door: Any) -> None:
    door.on()
    holder = {"apply": Twice.apply}
    door.off()
    assert holder["apply"] == Twice.apply
    assert holder["apply"](torch.ones(1)).tolist() == [2] and door.seen == []


def test_what_stood_there_stands_there_again(door: Any) -> None:
    before = vars(KIND)["apply"]
    for _ in range(3):
        door.on()
        door.off()
    assert vars(KIND)["apply"] is before
    assert not gc_holds_ours(door)


def gc_holds_ours(door: Door) -> bool:
    """Whether anybody but the door holds what stands in for the builtin."""
    if not isinstance(door, functions._Builtin):
        return False
    return door._count() > door._uses
