"""Tests the fault set itself: ``python -m benchmarks.faults.check``.

With a recorder of a dozen lines: every fault fires exactly once, leaves the sequence of calls as it was, and the first
call whose tensors change is the planted one (for a gradient: no forward call changes, the parameters do). Every clean
pair changes some number (except the identical rerun) but no sequence, and ends near the reference.
"""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from benchmarks.faults.catalogue import Fault
from benchmarks.faults.honest import Clean
from benchmarks.faults.pairs import Pair, Side, candidate, pairs, reference, reference_key, without_fault


class Recorder(TorchFunctionMode):
    """Name and checksum of all tensors, arguments after the call included, of every call that touches a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.sums: list[int] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not hasattr(func, "__self__") or func.__name__ not in ("__get__", "__set__"):
            self.names.append(getattr(func, "__name__", str(func)))
            with torch._C.DisableTorchFunction():
                self.sums.append(checksum((out, args, list((kwargs or {}).values()))))
        return out


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def checksum(value: Any) -> int:
    total = 0
    for tensor in _tensors(value):
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        total = zlib.crc32(plain.view(torch.uint8).numpy().tobytes(), total)
    return total


def record(side: Side) -> Recorder:
    with side.conditions(), Recorder() as recorder:
        side.step()
    return recorder


def _parameters(side: Side) -> Tensor:
    with torch.no_grad():
        return torch.cat([one.detach().double().cpu().reshape(-1) for one in side.program.model.parameters()])


def _first_difference(left: Recorder, right: Recorder) -> int | None:
    return next((i for i, sums in enumerate(zip(left.sums, right.sums, strict=True)) if sums[0] != sums[1]), None)


def check_fault(fault: Fault, known: Recorder, before: Tensor) -> str:
    """Empty if the fault is what it says, else what is wrong with it."""
    side = candidate(fault)
    seen = record(side)
    assert side.plant is not None
    if side.plant.fired != 1:
        return f"fired {side.plant.fired} times; the API was called {side.plant.counts}"
    if seen.names != known.names:
        return "the sequence of calls changed"
    place = _first_difference(known, seen)
    if fault.phase == "backward":
        backward = seen.names.index("backward")
        if place is not None and place < backward:
            return f"a forward call changed: {seen.names[place]}"
        return "" if not torch.equal(_parameters(side), before) else "no parameter changed"
    if place is None:
        return "nothing changed"
    name = seen.names[place]
    index = Counter(seen.names[:place])[name]
    expected = fault.api.rpartition(".")[2]
    return "" if (name, index) == (expected, fault.index) else f"first change is {name}.{index}"


def check_clean(pair: Clean, known: Recorder, before: Tensor) -> str:
    side = candidate(pair)
    seen = record(side)
    if seen.names != known.names:
        return "the sequence of calls changed"
    if pair.table and side.plant is not None and not side.plant.fired:
        return "no call was replaced"
    distance = float((_parameters(side) - before).norm() / before.norm())
    return "" if distance < 1e-2 else f"parameters moved by {distance:.1e}"


def main(argv: list[str]) -> int:
    torch.set_num_threads(1)
    references: dict[str, tuple[Recorder, Tensor]] = {}
    problems = 0
    chosen: list[Pair] = pairs(argv)
    for pair in chosen:
        if isinstance(pair, Clean) and pair.skip:
            print(f"skip  {pair.name}: {pair.skip}")
            continue
        key = reference_key(pair)
        alone = isinstance(pair, Fault) and pair.change is not None
        if alone:
            key = f"{key} without the fault"
        if key not in references:
            side = without_fault(pair) if isinstance(pair, Fault) and alone else reference(pair)
            references[key] = record(side), _parameters(side)
        known, parameters = references[key]
        try:
            if isinstance(pair, Fault):
                problem = check_fault(pair, known, parameters)
            else:
                problem = check_clean(pair, known, parameters)
        except (RuntimeError, TypeError, LookupError) as error:
            problem = f"{type(error).__name__}: {error}"
        problems += bool(problem)
        if problem:
            print(f"BAD   {pair.name}: {problem}")
    counts = Counter(type(pair).__name__ for pair in chosen)
    print(f"{counts['Fault']} faults, {counts['Clean']} clean pairs, {problems} with problems")
    return 1 if problems or not chosen else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
