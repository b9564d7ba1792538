"""The catalogue: every row is a call that torch accepts, forward and backward."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from trueline.cases import Case, Status, Target
from trueline.errors import UsageError
from trueline.ops.catalogue import FAMILIES, catalogue_apis, catalogue_cases
from trueline.ops.catalogue.language import Row, T, cases_of, cut, dtype, op, strides_of
from trueline.ops.domains import domain_for, parse
from trueline.tree import tensor_paths

DISTINCT_APIS = 940
"""What the README may claim, at least."""

REFUSES_THE_DTYPE = re.compile(
    r"not implemented for|Low precision dtypes not supported|types other than float and double|must be either float or"
    r"|but got (?:BFloat16|Half|a tensor of scalar type)|doesn't support tensors of type|of float, double, cfloat"
    r"|not supported for|to have the same dtype|Expected both inputs to be|expected .*float",
    re.IGNORECASE,
)


def test_the_count_of_operators() -> None:
    assert len(catalogue_apis()) >= DISTINCT_APIS
    rooms = Counter(".".join(api.split(".")[:-1]) for api in catalogue_apis())
    assert rooms["torch"] > 300
    assert rooms["torch.nn.functional"] > 100
    assert rooms["torch.Tensor"] > 150
    assert rooms["torch.linalg"] > 30
    assert rooms["torch.special"] > 40
    assert rooms["torch.fft"] > 15


def test_operators_have_several_cases() -> None:
    counts = Counter(case.api for case in catalogue_cases())
    assert sum(counts.values()) > 3.5 * len(counts)


def test_cases_are_well_formed() -> None:
    keys = set()
    for case in catalogue_cases():
        assert [path for _, path in tensor_paths(case.arguments)] == [spec.path for spec in case.tensors]
        assert all(parse(spec.domain) for spec in case.tensors)
        assert case.backward == any(spec.requires_grad for spec in case.tensors)
        keys.add(case.key)
    assert len(keys) == len(catalogue_cases())


def test_a_glob_and_a_dtype_choose() -> None:
    cases = catalogue_cases("torch.nn.functional.*", "bfloat16")
    assert {case.api.rpartition(".")[0] for case in cases} == {"torch.nn.functional"}
    assert {spec.dtype for case in cases for spec in case.tensors} <= {"bfloat16", "int64", "int32", "bool"}
    assert catalogue_cases("torch.nn.functional.layer_norm") and len(catalogue_cases("torch.linalg.*")) > 80
    with pytest.raises(UsageError, match="no operator of the catalogue matches"):
        catalogue_cases("torch.nothing")
    with pytest.raises(UsageError, match="floating dtypes"):
        catalogue_cases("*", "int32")


def test_seeds_stay_when_other_rows_come() -> None:
    row = op("torch.exp", T(3))
    assert cases_of([row], "float32")[0].seed == cases_of([op("torch.sin", T(2)), row], "float32")[1].seed


def test_the_language() -> None:
    row = op("torch.f", T(2, of="positive"), (cut(1), 2), dtype("int8"), [T(3, grad=False)], scale=float("inf"))
    (case,) = cases_of([row], "float16")
    assert case.arguments == {
        "args": [{"$t": 0}, {"$tuple": [{"$slice": [1, None, None]}, 2]}, {"$dtype": "int8"}, [{"$t": 1}]],
        "kwargs": {"scale": {"$float": "inf"}},
    }
    assert [spec.path for spec in case.tensors] == ["args.0", "args.3.0"]
    assert [spec.requires_grad for spec in case.tensors] == [True, False]
    with pytest.raises(UsageError, match="cannot be written"):
        cases_of([Row("torch.f", (object(),))], "float32")


def test_layouts() -> None:
    assert strides_of((4, 6), "") is None
    assert strides_of((4, 6), "turned") == (1, 4)
    assert strides_of((4, 6), "strided") == (12, 2)
    assert strides_of((4, 6), "expanded") == (0, 1)
    assert strides_of((2, 3, 4, 5), "channels_last") == (60, 1, 15, 3)
    with pytest.raises(UsageError, match="unknown layout"):
        strides_of((4, 6), "round")


def test_the_catalogue_needs_no_framework() -> None:
    code = "import sys, trueline.ops.catalogue as c; c.catalogue_cases(); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert answer.stdout.strip() == "False", answer.stderr


def unaccepted(case: Case, target: Target) -> str:
    """Why torch does not accept a case; empty where it does, or has no kernel for the dtype."""
    from trueline.frameworks.torch.execute import TorchExecutor
    from trueline.replay.inputs import inputs_for

    executed = TorchExecutor(target).run(case, inputs_for(case), mode="honest")
    for outcome in (executed.outcome, executed.backward):
        if outcome is None or outcome.status in (Status.RETURNED, Status.UNSUPPORTED):
            continue
        if not REFUSES_THE_DTYPE.search(outcome.reason):
            return outcome.reason
    went_back = executed.backward is not None and executed.backward.status is Status.RETURNED
    return "no gradient came back" if case.backward and went_back and not executed.gradients else ""


@pytest.mark.parametrize("dtype_name", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_torch_accepts_every_row(family: str, dtype_name: str) -> None:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        target = Target.parse(f"torch:cpu/{dtype_name}")
        found = {
            f"{case.api} {case.arguments}": unaccepted(case, target) for case in cases_of(FAMILIES[family], dtype_name)
        }
    finally:
        torch.set_num_threads(threads)
    assert not {call: reason for call, reason in found.items() if reason}


def test_every_row_runs_in_full_precision() -> None:
    """In float32 nothing may be refused: a row that torch has no kernel for on a CPU is a row that nobody can check."""
    pytest.importorskip("torch")
    from trueline.frameworks.torch.execute import TorchExecutor
    from trueline.replay.inputs import inputs_for

    executor = TorchExecutor(Target.parse("torch:cpu"))
    for case in {case.api: case for case in catalogue_cases()}.values():
        executed = executor.run(case, inputs_for(case), mode="honest")
        assert executed.returned, f"{case.api}: {executed.outcome.reason}"


def test_data_made_up_for_a_call_mean_something_to_it() -> None:
    """The catalogue's calls with the domains that a captured call would get: no index out of range, no logarithm of
    nothing, no factor of a matrix that has none."""
    pytest.importorskip("torch")
    from trueline.frameworks.torch.execute import TorchExecutor
    from trueline.replay.inputs import inputs_for

    executor, tried = TorchExecutor(Target.parse("torch:cpu")), 0
    for case in catalogue_cases():
        needs = {spec.path: domain_for(case.api, spec.path, case.arguments, case.tensors) for spec in case.tensors}
        if not any(needs.values()):
            continue
        specs = tuple(replace(spec, domain=needs[spec.path] or spec.domain) for spec in case.tensors)
        made_up = replace(case, tensors=specs)
        executed = executor.run(made_up, inputs_for(made_up), mode="honest")
        call = f"{case.api} {case.arguments} {needs}"
        assert executed.returned, f"{call}: {executed.outcome.reason}"
        special = any(word in spec.domain for spec in specs for word in ("nan", "inf"))
        for array in executed.outputs.values():
            if array.bits is not None and array.dtype == "float32" and not special:
                assert not np.isnan(array.bits).any(), call
        tried += 1
    assert tried > 700
