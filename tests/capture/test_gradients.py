"""The gradients of a call are its own: what ``torch.autograd.grad`` gives for that call alone, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from tests.capture.replaying import NotReplayable, gradients
from tests.helpers.models import THREE_MODELS, train
from trueline.records import Call, Phase
from trueline.store import RankReader

Captured = Callable[..., RankReader]


def replay_all(reader: RankReader, autocast: bool = False) -> tuple[int, dict[str, str], list[str]]:
    """Replays every backward call: how many were equal, which could not be replayed, which were not equal."""
    calls = {call.id: call for call in reader.trace()}
    equal, skipped, wrong = 0, {}, []
    for call in calls.values():
        if call.phase is not Phase.BACKWARD:
            continue
        forward = calls[call.forward_id]  # type: ignore[index]
        try:
            with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
                pairs = gradients(reader, forward, call)
        except NotReplayable as reason:
            skipped[call.name] = str(reason)
            continue
        unequal = [path for path, (kept, again) in pairs.items() if again is None or not torch.equal(kept, again)]
        wrong += [f"{call.name} {path}" for path in unequal]
        equal += not unequal
    return equal, skipped, wrong


@pytest.mark.parametrize("name", THREE_MODELS)
def test_recorded_gradients_are_those_of_the_call_alone(name: str, captured: Captured) -> None:
    reader = captured(lambda: train(name, steps=2, keep=False), data="tensors")
    equal, skipped, wrong = replay_all(reader, autocast=name == "convolution")
    assert wrong == []
    assert set(skipped.values()) <= {"random", "an argument is a builtins.method"}
    assert equal >= 0.9 * (equal + len(skipped)), skipped
    assert equal >= 20


def backward_of(calls: list[Call], api: str, nth: int = 0) -> list[Call]:
    return [call for call in calls if call.phase is Phase.BACKWARD and call.api == api and call.index == nth]


def odd_graphs() -> dict[str, Callable[[], Any]]:
    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, requires_grad=True)

    def twice() -> None:
        x = leaf(5)
        (x * x).sum().backward()

    def view_in_place() -> None:
        x = leaf(6, 4) * 1.0
        part = x[1:3, ::2]
        part.mul_(leaf(2, 2))
        (part.sin().sum() + x.cos().sum()).backward()

    def transposed_view_in_place() -> None:
        x = leaf(6, 4) * 1.0
        x.t()[1].exp_()
        (x.t() ** 2).sum().backward()

    def fresh_base() -> None:
        x = torch.zeros(4, 4)
        x[:2].copy_(leaf(2, 4))
        x[2:] = leaf(2, 4)
        x.sin().sum().backward()

    def many_outputs() -> None:
        parts = leaf(6, 4).unbind()
        (parts[0] * parts[3]).sum().backward()

    def some_gradients_only() -> None:
        values, _ = torch.max(leaf(6, 4), dim=1)
        torch.addmm(leaf(3), leaf(2, 6), values.reshape(6, 1).expand(6, 3)).sum().backward()

    def lists_of_inputs() -> None:
        torch.stack([leaf(3), leaf(3).detach(), leaf(3)]).cumsum(0).prod().backward()

    return {function.__name__: function for function in (
        twice, view_in_place, transposed_view_in_place, fresh_base, many_outputs, some_gradients_only, lists_of_inputs,
    )}  # fmt: skip


@pytest.mark.parametrize("name", odd_graphs())
def test_odd_graphs(name: str, captured: Captured) -> None:
    torch.manual_seed(0)
    equal, skipped, wrong = replay_all(captured(odd_graphs()[name], data="tensors"))
    assert (skipped, wrong) == ({}, [])
    assert equal >= 2


def test_a_call_on_a_view_has_its_own_gradients(calls: Callable[..., list[Call]]) -> None:
    """Autograd keeps one node for the base of the view; the gradients of the call are those of the view alone."""

    def program() -> None:
        x = torch.randn(6, 4, requires_grad=True) * 1.0
        x[1:3].mul_(0.5)
        (x**2).sum().backward()

    found = calls(program, data="tensors")
    (backward,) = backward_of(found, "torch.Tensor.mul_")
    assert [record.shape for record in backward.inputs + backward.outputs] == [(2, 4), (2, 4)]


def test_double_backward_is_recorded_as_far_as_it_belongs_to_a_call(captured: Captured) -> None:
    """The engine made the graph of the first backward itself: the witness says that its kernels belong to no call."""

    def program() -> None:
        x = torch.randn(5, requires_grad=True)
        (first,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
        first.exp().sum().backward()
        assert x.grad is not None

    reader = captured(program, data="tensors", witness=True)
    calls = list(reader.trace())
    assert len(backward_of(calls, "torch.Tensor.sin")) == 1
    assert len(backward_of(calls, "torch.Tensor.exp")) == 1
    outside = reader.certificate.kernels_outside
    assert outside and all("Backward" in name for name in outside)


def test_a_graph_used_twice_is_recorded_twice(calls: Callable[..., list[Call]]) -> None:
    def program() -> None:
        x = torch.randn(5, requires_grad=True)
        loss = x.sin().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        assert x.grad is not None

    found = calls(program)
    assert len(backward_of(found, "torch.Tensor.sin")) == 2
    assert len({call.forward_id for call in backward_of(found, "torch.Tensor.sin")}) == 1


@pytest.mark.parametrize("size", [4, 200])
def test_accumulated_gradients_are_not_taken_for_those_of_a_call(size: int, captured: Captured) -> None:
    """Both backwards add into the same memory; each call keeps what it sent, also where that is read later."""
    weight = torch.nn.Parameter(torch.randn(size, size))
    x = torch.randn(3, size)
    expected = []

    def program() -> None:
        for scale in (1.0, 3.0):
            (torch.nn.functional.linear(x, weight) * scale).sum().backward()

    reader = captured(program, data="tensors")
    for scale in (1.0, 3.0):
        (gradient,) = torch.autograd.grad((torch.nn.functional.linear(x, weight) * scale).sum(), weight)
        expected.append(gradient)
    assert reader.certificate.not_recorded == {}
    calls = list(reader.trace())
    for nth in range(2):
        (backward,) = backward_of(calls, "torch.nn.functional.linear", nth)
        found = torch.from_numpy(reader.tensor(backward.outputs[0]).copy())
        assert torch.equal(found, expected[nth])
    assert weight.grad is not None and torch.equal(weight.grad, expected[0] + expected[1])


def test_without_backward_there_is_none(calls: Callable[..., list[Call]]) -> None:
    def program() -> None:
        torch.randn(3, requires_grad=True).exp().sum().backward()

    assert {call.phase for call in calls(program, backward=False)} == {Phase.FORWARD}
