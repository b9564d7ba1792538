"""Do our standards under msprobe's names say what msprobe itself says? On random tensors, verdict by verdict.

    python -m benchmarks.standards [--cases N]

Each tensor is given to msprobe's own code (its metrics, its ``api_precision_compare`` and the status of ``acc_check``)
and to our standards of the same names. They must agree on every one; the exit code is 1 where they do not. Runs in the
peer's environment, which is made on first use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import peer

DTYPES = ("float16", "bfloat16", "float32")
APIS = ("gelu", "matmul", "embedding", "sum")
TOLD = {"pass": "PASS", "warning": "WARN", "error": "FAIL"}
Array = np.ndarray[Any, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=900)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options.cases)
    try:
        interpreter = peer.ensure()
    except peer.PeerUnavailable as reason:
        print(f"the peer is not available: {reason}")
        return 2
    path = os.pathsep.join([str(peer.ROOT / "src"), str(peer.ROOT)])
    command = [
        str(interpreter),
        "-W",
        "ignore",
        "-m",
        "benchmarks.standards",
        "--inside",
        "--cases",
        str(options.cases),
    ]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=peer.ROOT, check=False).returncode


def inside(cases: int) -> int:
    counts: Counter[tuple[str, str, str]] = Counter()
    for number, (dtype, gold, honest, candidate) in enumerate(samples(cases)):
        api = APIS[number % len(APIS)]
        for standard, theirs, ours in verdicts(api, dtype, gold, honest, candidate):
            counts[standard, theirs, ours] += 1
    print(f"{'standard':<20}{'msprobe':<10}{'ours':<8}tensors")
    for (standard, theirs, ours), amount in sorted(counts.items()):
        print(f"{standard:<20}{theirs:<10}{ours:<8}{amount:>7,}{'' if theirs == ours else '   DISAGREE'}")
    wrong = sum(amount for (_, theirs, ours), amount in counts.items() if theirs != ours)
    print(f"{sum(counts.values()):,} verdicts, {wrong:,} disagree")
    return 1 if wrong else 0


def samples(cases: int) -> Iterator[tuple[str, Array, Array, Array]]:
    """Gold with an honest and a candidate result: errors of all sizes, zeros, single wrong elements, NaN, Inf."""
    random = np.random.default_rng(1)
    for number in range(cases):
        dtype = DTYPES[number % 3]
        count = int(random.integers(2, 2500))
        gold = random.normal(size=count)
        if number % 2:
            gold *= 10.0 ** random.uniform(-6, 3, count)
        if number % 5 == 0:
            gold[: count // 10] = 0.0
        unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[dtype]
        honest = gold * (1 + unit * 10.0 ** random.uniform(-1, 3) * random.normal(size=count))
        candidate = gold * (1 + unit * 10.0 ** random.uniform(-1, 4) * random.normal(size=count))
        if number % 7 == 0:
            candidate = np.where(random.uniform(size=count) < 0.001, 2 * candidate, honest)
        if number % 11 == 0:
            gold[1], honest[1], candidate[1] = np.nan, np.nan, (np.nan, 1.0)[number % 2]
        if number % 13 == 0:
            gold[0], honest[0], candidate[0] = np.inf, np.inf, (np.inf, -np.inf, 3.0, np.nan)[number % 4]
        yield dtype, gold, honest, candidate


def verdicts(api: str, dtype: str, gold: Array, honest: Array, candidate: Array) -> Iterator[tuple[str, str, str]]:
    """(standard, what msprobe says, what we say)."""
    import torch

    kind = getattr(torch, dtype)
    bench = torch.from_numpy(gold).to(torch.float64 if dtype == "float32" else torch.float32)
    mine, theirs = torch.from_numpy(candidate).to(kind), torch.from_numpy(honest).to(kind)
    ours = _our_verdicts(api, dtype, gold, theirs.double().numpy(), mine.double().numpy())
    for standard, status in _peer_verdicts(api, kind, bench, theirs, mine):
        yield standard, TOLD[status], ours(standard)


def _our_verdicts(api: str, dtype: str, gold: Array, honest: Array, candidate: Array) -> Callable[[str], str]:
    from trueline.cases import Case, Evidence
    from trueline.dtypes import DTYPES as KNOWN
    from trueline.judge.checks import check_standard_named
    from trueline.numerics import compare
    from trueline.numerics.predecessors import predecessor_numbers

    wide = KNOWN["float64"]
    evidence = Evidence(
        "output", "out", dtype, gold.shape, gold=compare(gold, wide, candidate, wide),
        honest=compare(gold, wide, honest, wide), direct=compare(honest, wide, candidate, wide),
        numbers=predecessor_numbers(candidate, honest, gold, dtype),
    )  # fmt: skip
    case = Case(f"torch.{api}", {})
    return lambda standard: check_standard_named(standard).judge_tensor(evidence, case).verdict.name


def _peer_verdicts(api: str, kind: Any, bench: Any, honest: Any, candidate: Any) -> Iterator[tuple[str, str]]:
    from msprobe.pytorch.api_accuracy_checker.compare import api_precision_compare as later
    from msprobe.pytorch.api_accuracy_checker.compare.compare import Comparator
    from msprobe.pytorch.api_accuracy_checker.compare.compare_column import ApiPrecisionOutputColumn, CompareColumn
    from msprobe.pytorch.api_accuracy_checker.compare.compare_input import PrecisionCompareInput
    from msprobe.pytorch.api_accuracy_checker.precision_standard.absolute_threshold import AbsolutethdCompare
    from msprobe.pytorch.api_accuracy_checker.precision_standard.benchmark_compare import BenchmarkCompare
    from msprobe.pytorch.api_accuracy_checker.precision_standard.ulp_compare import UlpCompare

    rules = (
        ("msprobe-absolute", AbsolutethdCompare, later.record_absolute_threshold_result),
        ("msprobe-benchmark", BenchmarkCompare, later.record_benchmark_compare_result),
        ("msprobe-ulp", UlpCompare, later.record_ulp_compare_result),
    )
    for standard, metrics, record in rules:
        rows = [_peer_row(metrics, kind, bench, values) for values in (candidate, honest)]
        column = ApiPrecisionOutputColumn()
        column.compare_message = ""
        yield standard, record(PrecisionCompareInput(*rows, str(kind), column, api_name=api))
    checker = Comparator.__new__(Comparator)  # without the files that it writes
    checker.registry = checker._register_compare_func()
    with np.errstate(all="ignore"):
        status, _, _ = checker._compare_torch_tensor(api, bench, candidate, CompareColumn(), False)
    yield "msprobe-acc-check", status


def _peer_row(metrics: Any, kind: Any, bench: Any, values: Any) -> dict[str, str]:
    """A row of ``accuracy_checking_details``, as api_precision_compare reads it."""
    import torch
    from msprobe.pytorch.api_accuracy_checker.compare import algorithm
    from msprobe.pytorch.api_accuracy_checker.compare.compare_column import CompareColumn
    from msprobe.pytorch.api_accuracy_checker.compare.compare_input import CompareInput
    from msprobe.pytorch.api_accuracy_checker.compare.compare_utils import DETAIL_TEST_ROWS

    device = (values.to(torch.float32) if kind is torch.bfloat16 else values).numpy()
    column = CompareColumn()
    column.npu_type = str(kind)
    with np.errstate(all="ignore"):
        error = algorithm.get_abs_err(bench.numpy(), device)
        _, size = algorithm.get_abs_bench_with_eps(bench.numpy(), kind)
        metrics(CompareInput(bench.numpy(), device, column, kind, error / size)).compare()
    return dict(zip(DETAIL_TEST_ROWS[0][1:], map(str, column.to_column_value("", "")), strict=True))


if __name__ == "__main__":
    sys.exit(main())
