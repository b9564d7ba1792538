"""The zoo's own rules: which half a case stands in, what its labels may say, what counts as a right answer."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from benchmarks.zoo import run, scoring
from benchmarks.zoo.spec import KINDS, PHASES, Change, Fault, Where, half

_HALVES = """
from benchmarks.zoo import bare
from benchmarks.zoo.spec import CASES, PROGRAMS, half
bare.load(("programs", {package!r}))
wrong = [name for name in CASES if half(name) != {package!r}]
strange = [case.name for case in CASES.values() if not {{case.reference, case.candidate}} <= PROGRAMS.keys()]
print(len(CASES), len(wrong), len(strange))
"""


@pytest.mark.parametrize("package", ["work", "counted"])
def test_every_case_stands_in_the_half_of_its_name(package: str) -> None:
    """And nothing but names decides; the libraries are not needed to know."""
    done = subprocess.run([sys.executable, "-c", _HALVES.format(package=package)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    count, wrong, strange = map(int, done.stdout.split())
    assert count > 300 and wrong == 0 and strange == 0


def test_a_name_decides_its_half() -> None:
    assert {half(f"case-{number}") for number in range(20)} == {"work", "counted"}
    assert half("case-1") == half("case-1")


def answer(**changed: Any) -> dict[str, Any]:
    origin = {
        "kind": "missing", "apis": ["torch.Tensor.__mul__"], "modules": ["layers.1.attn"], "names": [],
        "reference": 1, "candidate": 0, "phase": "forward", "step": 0, "call": "torch.Tensor.__mul__.3.forward",
    }  # fmt: skip
    return {"exit": 1, "verdict": "FAIL", "origin": {**origin, **changed}}


FAULT = Fault(
    "a-fault", "llama", "llama", "The scale is left out.", "https://example.org", Change(),
    (Where("missing", ("mul",), ("layers.*.attn",)),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({}, True),
        ({"apis": ["torch.add"]}, False),
        ({"modules": ["layers.1.mlp"]}, False),
        ({"step": 1}, False),
        ({"phase": "backward"}, False),
        ({"reference": 40}, False),
    ],
)
def test_a_right_answer_names_the_call_the_module_and_the_step(changed: dict[str, Any], right: bool) -> None:
    assert scoring.is_right(FAULT, answer(**changed)) is right


def test_an_answer_without_an_alarm_is_wrong() -> None:
    assert not scoring.is_right(FAULT, {**answer(), "exit": 0})
    assert not scoring.is_right(FAULT, {"exit": 0, "verdict": "PASS"})


def test_spellings_of_one_operator_are_one() -> None:
    assert scoring.spelled("torch.Tensor.__rmul__") == scoring.spelled("torch._foreach_mul_") == "mul"
    assert set(KINDS) >= {"call", "region", "precision"} and PHASES == ("forward", "backward")


def test_the_page_lists_cases_of_the_half_to_work_with_alone() -> None:
    rows = [
        {**answer(step=3), "case": "a-fault", "dtype": "float32", "data": "stats", "half": which}
        for which in ("work", "counted")
    ]
    page = scoring.page(rows, {"a-fault": FAULT}, "cpu")
    assert page.count("- a-fault (float32, stats): FAIL, missing") == 1 and "| counted | stats |" in page


@pytest.mark.parametrize(("woken", "wakes"), [(True, True), (False, False)])
def test_what_wakes_the_gpu_when_imported_is_imported_by_each_copy(
    monkeypatch: pytest.MonkeyPatch, woken: bool, wakes: bool
) -> None:
    awake: list[int] = []

    def touch() -> None:
        if awake and awake[0] != os.getpid():
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    monkeypatch.setattr(run, "warm", lambda program, ready: awake.append(os.getpid()) if woken else None)
    monkeypatch.setattr(run, "_touch_gpu", touch)
    assert run.wakes_the_gpu("any") is wakes


def test_portions_hold_every_case_once_and_none_holds_up_the_others() -> None:
    groups = [[f"long-{number}" for number in range(90)], ["short-0"], ["other-0", "other-1"]]
    found = run.portions(groups, 4)
    assert sorted(name for one in found for name in one) == sorted(name for group in groups for name in group)
    assert max(map(len, found)) <= 4
    assert run.portions(groups, 1) and max(map(len, run.portions(groups, 1))) == 90
