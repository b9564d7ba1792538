"""When things die: finalizers, weak references, contexts that clean up, memory that is counted, references held."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import program


def _dead(*references: Any) -> list[bool]:
    return [reference() is None for reference in references]


@program
def weak_references_to_arguments_and_results() -> Any:
    x, y = torch.ones(3), torch.ones(3)
    z = x + y
    refs = [weakref.ref(one) for one in (x, y, z)]
    del x
    one = _dead(*refs)
    del z, y
    return one, _dead(*refs)


@program
def finalizers_of_tensors_of_a_step_speak_in_order() -> Any:
    said: list[str] = []
    model = nn.Linear(3, 3)
    for number in range(2):
        x = torch.randn(2, 3)
        weakref.finalize(x, said.append, f"input {number}")
        out = model(x)
        weakref.finalize(out, said.append, f"output {number}")
        loss = out.sum()
        weakref.finalize(loss, said.append, f"loss {number}")
        said.append(f"backward {number}")
        loss.backward()
        del x, out
        said.append(f"end {number}")
        del loss
    return said


@program
def temporary_files_of_tensors_go_with_them() -> Any:
    class Scratch:
        alive = 0

        def __init__(self, data: torch.Tensor) -> None:
            Scratch.alive += 1
            self.data = data

        def __del__(self) -> None:
            Scratch.alive -= 1

    counts = []
    for number in range(3):
        scratch = Scratch(torch.full((4,), float(number)))
        value = scratch.data.exp()
        value.scratch = scratch  # type: ignore[attr-defined]
        del scratch
        counts.append(Scratch.alive)
        del value
        counts.append(Scratch.alive)
    return counts


@program
def contexts_of_custom_functions_die_after_backward() -> Any:
    dead: list[bool] = []
    kept: list[Any] = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.extra = token = Token()
            kept.append(weakref.ref(token))
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    class Token:
        pass

    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        y = Square.apply(x).sum()
        y.backward()
        dead += _dead(*kept)
        del y
        gc.collect()
        dead += _dead(*kept)
    return dead, x.grad


@program
def references_to_a_tensor_are_counted() -> Any:
    x = torch.ones(4)
    counts = [sys.getrefcount(x)]
    y = torch.relu(x)
    counts.append(sys.getrefcount(x))
    z = y * x
    counts += [sys.getrefcount(y), sys.getrefcount(x)]
    del y
    counts.append(sys.getrefcount(z))
    return counts


@program
def weak_dictionary_of_activations() -> Any:
    cache: weakref.WeakValueDictionary[str, torch.Tensor] = weakref.WeakValueDictionary()
    sizes = []
    for number in range(3):
        value = torch.randn(3).softmax(0)
        cache[str(number)] = value
        sizes.append(len(cache))
    del value
    sizes.append(len(cache))
    return sizes


@program
def weak_keys_of_tensors() -> Any:
    from torch.utils.weak import WeakTensorKeyDictionary

    known: Any = WeakTensorKeyDictionary()
    sizes = []
    for number in range(3):
        value = torch.full((2,), float(number)) + 1
        known[value] = number
        sizes.append(len(known))
    del value
    return sizes, len(known)


@program
def context_that_cleans_up_its_buffers() -> Any:
    log: list[Any] = []

    @contextlib.contextmanager
    def workspace(size: int) -> Iterator[torch.Tensor]:
        buffer = torch.zeros(size)
        ref = weakref.ref(buffer)
        try:
            yield buffer
        finally:
            del buffer
            log.append(ref)

    with workspace(4) as space:
        total = (space + 1).sum()
        del space
    log[0] = log[0]() is None
    return total, log


@program
def storages_are_given_back_and_reused() -> Any:
    owner = torch.ones(1000)
    view = owner[10:20]
    storage = weakref.ref(owner.untyped_storage())
    del owner
    gone = storage() is None
    view = view.clone()
    return gone, view.sum()


@program
def graph_dies_with_its_result() -> Any:
    token = nn.Linear(2, 2)
    x = torch.ones(1, 2, requires_grad=True)
    y = token(x)
    node = weakref.ref(y.grad_fn)  # type: ignore[arg-type]
    seen = []
    y.grad_fn.register_hook(_Noted(seen))  # type: ignore[union-attr]
    del y
    gc.collect()
    return node() is None, seen


class _Noted:
    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def __call__(self, *gradients: Any) -> None:
        self.seen.append("called")

    def __del__(self) -> None:
        self.seen.append("hook is gone")


@program
def modules_made_and_dropped_in_a_loop() -> Any:
    alive, said = [], []
    for number in range(3):
        model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        weakref.finalize(model, said.append, number)
        alive.append(weakref.ref(model[0].weight))
        model(torch.ones(1, 2)).sum().backward()
        del model
        gc.collect()
        said.append(_dead(*alive))
    return said


@program
def gradients_set_to_none_are_gone() -> Any:
    model = nn.Linear(3, 1)
    model(torch.ones(2, 3)).sum().backward()
    refs = [weakref.ref(parameter.grad) for parameter in model.parameters()]
    before = _dead(*refs)
    model.zero_grad(set_to_none=True)
    return before, _dead(*refs)


@program
def arguments_that_are_no_tensors_die_in_time() -> Any:
    class Sizes(list):  # type: ignore[type-arg]
        pass

    class Scale(float):
        pass

    sizes, scale = Sizes([2, 3]), Scale(2.0)
    refs = [weakref.ref(sizes), weakref.ref(scale)]
    x = torch.zeros(sizes) + 1
    y = x * scale
    del sizes, scale
    return y, _dead(*refs)


@program
def cycle_through_a_gradient_is_collected() -> Any:
    class Holder:
        pass

    gc.collect()
    holder = Holder()
    x = torch.ones(2, requires_grad=True)
    holder.result = (x * 2).exp()  # type: ignore[attr-defined]
    holder.me = holder  # type: ignore[attr-defined]
    holder.result.register_hook(lambda grad, holder=holder: grad * 2)  # type: ignore[attr-defined]
    ref = weakref.ref(holder)
    holder.result.sum().backward()  # type: ignore[attr-defined]
    del holder
    gc.collect()
    return ref() is None, x.grad


@program
def callbacks_of_weak_references_compute() -> Any:
    found: list[Any] = []
    x = torch.arange(3.0)
    ref = weakref.ref(x, lambda _: found.append(torch.tanh(torch.ones(2))))
    y = torch.exp(x)
    found.append("before")
    del x
    found.append("after")
    return y, found, ref() is None


@program
def buffers_of_a_ring_are_replaced() -> Any:
    ring: list[torch.Tensor] = [torch.zeros(2) for _ in range(2)]
    dead: list[int] = []
    for number in range(5):
        new = ring[number % 2] + number
        weakref.finalize(new, dead.append, number)
        ring[number % 2] = new
        del new
    return ring, list(dead)


@program
def exceptions_let_go_of_their_tensors() -> Any:
    refs: list[Any] = []

    def failing() -> None:
        local = torch.ones(3) * 2
        refs.append(weakref.ref(local))
        torch.mm(local, local)

    texts = []
    for _ in range(2):
        try:
            failing()
        except RuntimeError as error:
            texts.append(str(error))
    return texts, _dead(*refs)


@program
def subclass_with_a_finalizer() -> Any:
    said: list[str] = []

    class Named(torch.Tensor):
        def __del__(self) -> None:
            said.append(f"{tuple(self.shape)} is gone")

    x = torch.ones(2).as_subclass(Named)
    y = (x + 1).sum()
    said.append("made")
    del x
    said.append("x deleted")
    del y
    return said


@program
def hooks_hold_what_they_need_and_no_longer() -> Any:
    class Big:
        pass

    x = torch.ones(2, requires_grad=True)
    big = Big()
    handle = x.register_hook(lambda grad, big=big: grad * 2)
    ref = weakref.ref(big)
    del big
    (x * 3).sum().backward()
    held = ref() is None
    handle.remove()
    del handle
    return held, ref() is None, x.grad


@program
def data_of_a_generator_is_not_kept() -> Any:
    alive: list[Any] = []

    def batches() -> Iterator[torch.Tensor]:
        for number in range(4):
            batch = torch.full((2, 2), float(number))
            alive.append(weakref.ref(batch))
            yield batch
            del batch

    sums = []
    for batch in batches():
        sums.append(batch.mean())
        del batch
        sums.append(sum(ref() is not None for ref in alive))
    return sums


@program
def lists_given_to_calls_are_let_go() -> Any:
    parts = [torch.ones(2), torch.zeros(2)]
    refs = [weakref.ref(part) for part in parts]
    joined = torch.cat(parts)
    stacked = torch.stack(tuple(parts))
    del parts
    return joined, stacked, _dead(*refs)


@program
def loop_that_deletes_its_results_early() -> Any:
    x, peak, alive = torch.ones(8), [], []
    for _ in range(6):
        x = torch.sin(x)
        alive.append(weakref.ref(x))
        peak.append(sum(ref() is not None for ref in alive))
    return x, peak
