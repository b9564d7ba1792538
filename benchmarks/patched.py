"""Measures whether ``check`` finds a kernel of torch that is wrong, by torch itself, on the CPU.

    python -m benchmarks.patched [--every N] [--only PART ...] [--plain]

For each operator of the catalogue, every kernel that its cases call is made wrong in turn, in all dtypes: results are
1 % too large, whole numbers one too large in one element, one bool is the other. Candidate, honest implementation and
gold are all executed with that kernel, as a program with such a torch would. ``--plain`` takes the gold from torch's
float64 instead of an implementation of its own, to show what that is worth. ``--every N`` takes one kernel in N.
Writes ``results/patched.json`` and ``results/patched.md``.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trueline.cases import Case, Target
from trueline.frameworks.execution import inside
from trueline.judge.checks import check_standard_named, judge_case
from trueline.ops.catalogue import catalogue_apis, catalogue_cases
from trueline.records import Verdict
from trueline.replay.worker import Options, measure_case

RESULTS = Path(__file__).resolve().parent / "results"
TARGET = Target("torch", "cpu")
APART = Target.parse("torch:cpu/float64+independent")
PLAIN = Target.parse("torch:cpu/float64")
SCALE = 1.01
_LARGEST = 20_000
"""Elements of a case up to which it is taken: larger ones take longer and find nothing else."""

NO_ARITHMETIC = frozenset(
    """zeros zeros_like new_zeros zero_ clone copy_ _to_copy empty empty_like empty_strided empty_permuted new_empty
    new_empty_strided _efficientzerotensor item scalar_tensor _local_scalar_dense lift_fresh detach _unsafe_view set_
    resize_ record_stream is_same_size equal _linalg_check_errors""".split()
)
"""Kernels that compute nothing: they make memory or zeros, hand it on, or say something about tensors."""


class Kernels(TorchDispatchMode):
    """Notes the kernels that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if computes(function):
            self.names[str(function)] = None
        return function(*args, **(kwargs or {}))


class Wrong(TorchDispatchMode):
    """Makes one kernel wrong."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if str(function) == self.name:
            spoil(result)
        return result


def computes(function: Any) -> bool:
    schema = function._schema
    name = schema.name.removeprefix("aten::")
    view = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
    return name not in NO_ARITHMETIC and not view and torch.Tag.inplace_view not in function.tags


def spoil(result: Any) -> None:
    """Makes results wrong where they lie, so that what was written in place or into ``out=`` is wrong too."""
    for one in result if isinstance(result, list | tuple) else [result]:
        if not isinstance(one, torch.Tensor) or not one.numel() or type(one) is not torch.Tensor:
            continue
        if one.is_floating_point() or one.is_complex():
            one.mul_(SCALE)
        elif one.dtype is torch.bool:
            _first(one).logical_not_()
        else:
            _first(one).add_(1)


def _first(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[(0,) * tensor.dim()] if tensor.dim() else tensor


@contextmanager
def around(mode: TorchDispatchMode) -> Iterator[None]:
    with inside(lambda: mode):
        yield


def kernels_of(case: Case) -> list[str]:
    """The kernels that a case calls, backward included."""
    noted = Kernels()
    with around(noted):
        measure_case(case, TARGET, PLAIN, Options(perturbations=0, predecessors=False))
    return list(noted.names)


def verdict_of(case: Case, reference: Target) -> Verdict:
    measured = measure_case(case, TARGET, reference, Options(predecessors=False))
    return judge_case(case, measured, check_standard_named("calibrated")).verdict


def small_cases(api: str) -> list[Case]:
    cases = [case for case in catalogue_cases(api) if case.api == api]
    return [case for case in cases if all(_count(spec.shape) <= _LARGEST for spec in case.tensors)] or cases[:1]


def _count(shape: Sequence[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def patched(api: str, every: int, reference: Target) -> Iterator[tuple[str, bool]]:
    """Each kernel of an operator, and whether a check of the operator finds it wrong."""
    cases = small_cases(api)
    calling: dict[str, list[Case]] = {}
    for case in cases:
        for name in kernels_of(case):
            calling.setdefault(name, []).append(case)
    for name, concerned in calling.items():
        if zlib.crc32(f"{api} {name}".encode()) % every:
            continue
        with around(Wrong(name)):
            yield name, any(verdict_of(case, reference) >= Verdict.FAIL for case in concerned)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one kernel in N")
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="operators whose name has it")
    parser.add_argument("--plain", action="store_true", help="golds of torch's own float64")
    parser.add_argument("--json", type=Path, default=RESULTS / "patched.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    reference = PLAIN if arguments.plain else APART
    started, found, missed, operators = time.process_time(), 0, [], 0
    for api in catalogue_apis():
        if not api.startswith("torch.") or (arguments.only and not any(part in api for part in arguments.only)):
            continue
        operators += 1
        for name, is_found in patched(api, arguments.every, reference):
            found += is_found
            if not is_found:
                missed.append([api, name])
                print(f"missed  {api}  {name}", flush=True)
    seconds = round(time.process_time() - started)
    document = {
        "torch": torch.__version__, "operators": operators, "every": arguments.every, "gold": str(reference),
        "patched": found + len(missed), "found": found, "seconds": seconds, "missed": missed,
    }  # fmt: skip
    if not arguments.only and not arguments.plain:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{found} of {found + len(missed)} wrong kernels of {operators} operators found, {seconds} CPU s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
