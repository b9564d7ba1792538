"""Faults and clean pairs as one thing: two sides of a comparison, each a program ready for its captured step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks.faults.catalogue import Fault, faults
from benchmarks.faults.honest import Clean, clean_pairs
from benchmarks.faults.models import PROGRAMS, Batch, Program
from benchmarks.faults.planting import ModuleTracker, Plant, resolve

Pair = Fault | Clean


@dataclass
class Side:
    """A program after its warm-up step, with what differs in the step to be captured."""

    program: Program
    batch: Batch
    plant: Plant | None
    threads: int

    def step(self) -> float:
        return self.program.train_step(self.batch)

    @contextlib.contextmanager
    def conditions(self) -> Iterator[None]:
        """Threads and plant of this side; enter a recorder inside it, not around it."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            with self.plant or contextlib.nullcontext():
                yield
        finally:
            torch.set_num_threads(before)


def pairs(names: list[str] | None = None) -> list[Pair]:
    """All pairs, or those whose names contain one of the given texts. Call it before a tool replaces names."""
    everything: list[Pair] = [*faults(), *clean_pairs()]
    for pair in everything:
        for api in (pair.api,) if isinstance(pair, Fault) else pair.table:
            resolve(api)
    if not names:
        return everything
    return [pair for pair in everything if any(name in pair.name for name in names)]


def reference_key(pair: Pair) -> str:
    """Pairs with the same key share their reference side."""
    return pair.model if pair.setup is None else f"{pair.model}_{pair.setup.__name__.strip('_')}"


def reference(pair: Pair) -> Side:
    program = PROGRAMS[pair.model]()
    program.train_step(program.batch())
    return _ready(program, pair, None, 1)


def candidate(pair: Pair) -> Side:
    program = PROGRAMS[pair.model]()
    if isinstance(pair, Fault):
        program.train_step(program.batch())
        _apply(program, pair)
        return _ready(program, pair, Plant({pair.api: pair.implementation}, pair.index), 1)
    threads = pair.threads or 1
    if pair.from_start:
        _apply(program, pair)
        warm = Side(program, program.batch(), Plant(pair.table), threads)
        with warm.conditions():
            warm.step()
        return _ready(program, pair, Plant(pair.table), threads)
    program.train_step(program.batch())
    _apply(program, pair)
    return _ready(program, pair, Plant(pair.table), threads)


def without_fault(fault: Fault) -> Side:
    """The candidate's side with its honest difference alone."""
    program = PROGRAMS[fault.model]()
    program.train_step(program.batch())
    _apply(program, fault)
    return _ready(program, fault, None, 1)


def _apply(program: Program, pair: Pair) -> None:
    if pair.change is not None:
        pair.change(program)


def _ready(program: Program, pair: Pair, plant: Plant | None, threads: int) -> Side:
    if pair.setup is not None:
        pair.setup(program)
    if plant is not None:
        plant.where = ModuleTracker(program.model).current
    return Side(program, program.batch(), plant, threads)
