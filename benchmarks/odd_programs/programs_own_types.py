"""Lifetimes of what is no plain tensor: numbers and lists of the program's own, generators, odd layouts, subclasses."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import program


@program
def numbers_of_the_users_own_as_arguments() -> Any:
    said: list[str] = []

    class Rate(float):
        def __del__(self) -> None:
            said.append("rate")

    class Axis(int):
        def __del__(self) -> None:
            said.append("axis")

    x = torch.ones(2, 3, requires_grad=True)
    y = torch.add(x, x, alpha=Rate(0.5))
    said.append("added")
    z = y.sum(dim=Axis(1))
    said.append("summed")
    z.sum().backward()
    return said, x.grad


@program
def own_number_types_as_arguments() -> Any:
    class Sizes(list):  # type: ignore[type-arg]
        pass

    def dead(value: Any, call: Any) -> bool:
        reference = weakref.ref(value)
        call(value)
        del value
        return reference() is None

    return dead(Sizes([2, 2]), torch.zeros), dead(Sizes([torch.ones(1)] * 2), torch.stack)


@program
def random_generators_die_with_their_last_use() -> Any:
    generator = torch.Generator()
    generator.manual_seed(3)
    reference = weakref.ref(generator)
    drawn = torch.rand(3, generator=generator)
    shuffled = torch.randperm(5, generator=generator)
    del generator
    return drawn, shuffled, reference() is None


@program
def modules_replaced_in_a_loop_die() -> Any:
    alive, references = [], []
    for number in range(4):
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4))
        references += [weakref.ref(net), weakref.ref(net[0].weight)]
        out = net(torch.ones(3, 4))
        if number % 2:
            out.sum().backward()
        del net, out
        alive.append(sum(reference() is not None for reference in references))
    return alive


@program
def gradients_die_with_their_parameters() -> Any:
    weight = nn.Parameter(torch.ones(2))
    (weight * 2).sum().backward()
    references = weakref.ref(weight), weakref.ref(weight.grad)
    del weight
    return [reference() is None for reference in references]


@program
def results_of_odd_layouts_die() -> Any:
    def dead(make: Any) -> bool:
        made = make()
        reference = weakref.ref(made)
        del made
        return reference() is None

    x = torch.ones(2, 2)
    with torch.inference_mode():
        inference = dead(lambda: torch.ones(2) + 1)
    return (
        inference,
        dead(lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,)) * 2),
        dead(lambda: x.to_sparse_csr()),
        dead(lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
        dead(lambda: torch.ones(2, device="meta") + 1),
        dead(lambda: torch.complex(x, x).conj()),
        dead(lambda: x.to_mkldnn()),
        dead(lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)])),
    )


class Finalized(torch.Tensor):
    said: list[str] = []

    def __del__(self) -> None:
        Finalized.said.append("gone")


@program
def subclass_instances_die_in_order() -> Any:
    said = Finalized.said = []
    x = torch.ones(2).as_subclass(Finalized)
    y = x + 1
    said.append("added")
    del y
    said.append("result deleted")
    z = (x * 2).sum()
    del x
    said.append("argument deleted")
    value = float(z)
    del z
    said.append("all deleted")
    Finalized.said = []
    return said, value
