"""What a light watch holds in the place of a program's tensors; with the C extension and without."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tests.frameworks.test_torch_light import Watching, way  # noqa: E402, F401
from trueline.frameworks.torch.light_calls import FORWARD_FIELDS  # noqa: E402
from trueline.frameworks.torch.light_hold import maker_of, wants_grad  # noqa: E402
from trueline.frameworks.torch.light_leaves import leaves_of, place_of  # noqa: E402


def held(watching: Watching) -> list[tuple[list[Any], list[Any]]]:
    """The tensors that each call was given and gave, as they are held."""
    entries = [entry for entry in watching.watcher.watch.entries if len(entry) == FORWARD_FIELDS]
    return [(leaves_of(entry[3], entry[4]), leaves_of((entry[5],), None)) for entry in entries]


def test_what_the_program_lets_go_of_dies_while_its_memory_is_held() -> None:
    said: list[str] = []
    with Watching() as watching:
        batch, weight = torch.randn(3, 8), torch.randn(8, 8, requires_grad=True)
        hidden = torch.tanh(torch.mm(batch, weight))
        largest = torch.max(hidden, dim=1)
        total = torch.cat([hidden, hidden * 2], dim=1).sum()
        for name, one in (("batch", batch), ("hidden", hidden), ("largest", largest.values), ("total", total)):
            weakref.finalize(one, said.append, name)
        total.backward()
        del one, batch, hidden, largest, total
        assert sorted(said) == ["batch", "hidden", "largest", "total"]
        product, maximum = held(watching)[2], held(watching)[4]
        assert all(place_of(tensor) for tensor in (*product[0], *product[1])), "their memory is there"
        assert product[0][1] is weight, "one that has a gradient is asked for it"
        assert [wants_grad(tensor) for tensor in product[0]] == [False, True]
        assert maker_of(product[1][0]) == "MmBackward0"
        assert [wants_grad(tensor) for tensor in maximum[1]] == [True, False]


def test_the_graph_of_a_result_dies_with_it() -> None:
    class Noted:
        def __call__(self, *gradients: Any) -> None: ...

    weight = torch.ones(2, requires_grad=True)
    with Watching():
        result, hook = torch.exp(weight * 2), Noted()
        result.register_hook(hook)
        known = weakref.ref(hook)
        del result, hook
        gc.collect()
        assert known() is None


def test_what_is_held_counts_the_versions_of_what_it_stands_for() -> None:
    with Watching() as watching:
        x = torch.full((4,), 2.0)
        y = torch.exp(x)
        x.view(2, 2).fill_(math.inf)
        del x
        calls = watching.watcher.examine(0).calls
    given = next(call for call in calls if call.api == "torch.exp").tensors[0]
    assert given.missing == "changed in place since" and torch.isfinite(y).all()


def test_an_object_that_is_given_and_given_back_is_held_once() -> None:
    with Watching() as watching:
        x = torch.ones(3)
        x.mul_(x)
        (inputs, outputs) = held(watching)[1]
    assert inputs[0] is inputs[1] is outputs[0] and inputs[0] is not x


class Kernels(TorchDispatchMode):
    """Is told of every kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("seen", [torch.autograd.profiler.profile, Kernels])
def test_nobody_sees_how_another_tensor_is_made(seen: Any) -> None:
    with Watching() as watching, seen() as one:
        x = torch.ones(4)
        torch.exp(x)
        assert held(watching)[1][0][0] is x
    names = one.log if seen is Kernels else [event.name for event in one.function_events]
    assert names and not any("detach" in name for name in names)


def test_inside_of_a_transform_tensors_are_held_themselves() -> None:
    plain = torch.arange(3.0)
    with Watching() as watching:
        found = torch.func.grad(lambda x: (torch.vmap(lambda y: y * plain)(x) * plain).sum())(torch.ones(2, 3))
        torch.exp(plain)
        assert all(type(tensor) is torch.Tensor for pair in held(watching) for part in pair for tensor in part)
    assert torch.equal(found, (plain * plain).expand(2, 3))


def test_values_of_the_programs_own_types_and_odd_tensors_die_with_their_last_use() -> None:
    class Sizes(list[int]):
        pass

    class Kind(torch.Tensor):
        pass

    said: list[str] = []
    with Watching() as watching:
        sizes, generator = Sizes([2, 2]), torch.Generator()
        of_kind, sparse = torch.ones(2).as_subclass(Kind), torch.eye(2).to_sparse()
        made = torch.zeros(sizes), torch.rand(2, generator=generator), of_kind * 2, sparse * 2
        for name, one in (("sizes", sizes), ("generator", generator), ("kind", of_kind), ("sparse", sparse)):
            weakref.finalize(one, said.append, name)
        del one, sizes, generator, of_kind, sparse, made
        assert sorted(said) == ["generator", "kind", "sizes", "sparse"]
        calls = {call.api: call for call in watching.watcher.examine(0).calls}
    assert calls["torch.zeros"].arguments["args"] == [[2, 2]], "what they were is told all the same"
    assert calls["torch.rand"].arguments["kwargs"]["generator"]["$object"] == "torch._C.Generator"
