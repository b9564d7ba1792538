"""Which arguments of the catalogue's operators matter to no case.

    python -m benchmarks.parameters [--only PART ...]

Every argument that is no tensor is left out, and changed, in each case that gives it. Where the result is the same to
the bit in all cases, and no two cases give the argument otherwise, no wrong treatment of it can be found.
``IDLE`` has the reasons for those of which that must be so.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from trueline.cases import Case, Target
from trueline.frameworks.base import CannotExecute, Executed
from trueline.frameworks.machine import executor
from trueline.ops.binding import parameter
from trueline.ops.catalogue import catalogue_apis, catalogue_cases
from trueline.ops.facts import Kind, facts_of
from trueline.replay.inputs import inputs_for

TARGET = Target("torch", "cpu")
_MOST = 10_000
_LONGEST = 60
"""Seconds after which an operator is given up: a kernel may go on for ever with arguments that it should refuse."""
IDLE: dict[str, str] = {
    "eps": "where it is only a guard against division by zero, leaving it out changes the last digits at most",
    "memory_format": "changes how elements lie, not what they are; strides are compared where they are promised",
    "device": "where a result is",
    "layout": "how a result is stored",
    "pin_memory": "how memory is had",
    "non_blocking": "when a copy is made",
    "generator": "from where numbers are drawn",
    "sorted": "in which order equal results come",
    "inplace": "where a result is written, which the change of the argument shows",
    "driver": "which method is used",
    "hermitian": "which half is read, of matrices that have two equal ones",
    "unbiased": "the older word for correction",
}
"""By ``API argument`` or, for all operators, by the argument alone: why it changes no result."""


def idle_arguments(api: str) -> list[str]:
    """The arguments of an operator that change the result of no case, found in a process of its own: some kernels do
    not survive arguments that they should refuse. Where that happens before anything is told, there are none."""
    _get_ready()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            signal.alarm(_LONGEST)
            with os.fdopen(writing, "w") as stream, open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 2)
                for name in _idle_arguments(api):
                    stream.write(f"{name}\n")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        found = stream.read().split()
    os.waitpid(child, 0)
    return found


@cache
def _get_ready() -> None:
    """What every process would import for itself is imported before there are any. No backward is run: torch's threads
    for it do not outlive a fork."""
    _run(replace(catalogue_cases("torch.add")[0], backward=False))


def _idle_arguments(api: str) -> Iterator[str]:
    if facts_of(api).kind in (Kind.RANDOM, Kind.UNDEFINED):
        return
    alive: dict[str, bool] = {}
    cases = [case for case in catalogue_cases(api) if case.api == api]
    given: dict[str, set[str]] = {}
    for case in cases:
        for path in _arguments(case):
            given.setdefault(parameter(api, path) or path, set()).add(repr(_at(case, path)))
    alive.update({name: True for name, values in given.items() if len(values) > 1})
    for case in cases:
        if sum(_size(spec.shape) for spec in case.tensors) > _MOST:
            continue
        base: Executed | None = None
        for path in _arguments(case):
            name = parameter(api, path) or path
            if alive.get(name):
                continue
            base = base or _run(case)
            alive[name] = base is None or any(_differs(base, _run(other)) for other in _without(case, path))
    yield from (name for name, lives in alive.items() if not lives)


def _size(shape: tuple[int, ...]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def _arguments(case: Case) -> list[str]:
    """Paths of the arguments at the top that are no tensors; the first one is what the operator is about."""
    places = [f"args.{place}" for place, value in enumerate(case.arguments["args"]) if not _holds_tensor(value)]
    return places + [f"kwargs.{name}" for name, value in case.arguments["kwargs"].items() if not _holds_tensor(value)]


def _at(case: Case, path: str) -> Any:
    part, _, name = path.partition(".")
    return case.arguments[part][name if part == "kwargs" else int(name)]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        return "$t" in value or any(map(_holds_tensor, value.values()))
    return isinstance(value, list) and any(map(_holds_tensor, value))


def _without(case: Case, path: str) -> Iterator[Case]:
    """The case with an argument left out, and with other values of it."""
    part, _, name = path.partition(".")
    if part == "kwargs" or int(name) == len(case.arguments["args"]) - 1:
        tree = copy.deepcopy(case.arguments)
        del tree[part][name if part == "kwargs" else int(name)]
        yield replace(case, arguments=tree)
    key: Any = name if part == "kwargs" else int(name)
    for value in _others(case.arguments[part][key]):
        tree = copy.deepcopy(case.arguments)
        tree[part][key] = value
        yield replace(case, arguments=tree)


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 0)
    elif isinstance(value, float):
        yield from (value * 0.5, value + 1.0)
    elif isinstance(value, str):
        yield from ("none", "sum", "mean", "nearest", "floor", "reflect", "zeros")
    elif isinstance(value, list) and value and all(isinstance(one, int) for one in value):
        yield [one + 1 for one in value]
        yield [*value[:-1], value[-1] + 1]
        yield value[::-1]


def _run(case: Case) -> Executed | None:
    machine = executor(TARGET, None)
    try:
        done = machine.run(case, inputs_for(case), mode="honest")
    except CannotExecute:
        return None
    return done if done.returned else None


def _differs(base: Executed, other: Executed | None) -> bool:
    """Whether another call gives something else; one that is refused says nothing of the argument."""
    if other is None:
        return False
    ours, theirs = {**base.outputs, **base.gradients}, {**other.outputs, **other.gradients}
    if ours.keys() != theirs.keys():
        return True
    for path, one in ours.items():
        two = theirs[path]
        if (one.dtype, one.shape) != (two.dtype, two.shape) or (one.bits is None) != (two.bits is None):
            return True
        if one.bits is not None and two.bits is not None and one.bits.tobytes() != two.bits.tobytes():
            return True
    return False


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="operators whose name has it")
    arguments = parser.parse_args(argv)
    found = operators = 0
    for api in catalogue_apis():
        if not api.startswith("torch.") or (arguments.only and not any(part in api for part in arguments.only)):
            continue
        operators += 1
        for name in idle_arguments(api):
            known = IDLE.get(f"{api} {name}") or IDLE.get(name)
            found += known is None
            if known is None:
                print(f"{api} {name}", flush=True)
    print(f"{found} arguments of {operators} operators change the result of no case, and nothing says why")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
