"""The wild kernels are what they say: wrong ones break what they name, honest ones keep their bound."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from benchmarks.odd_programs.halves import half_of
from benchmarks.power.wild import __main__ as runner
from benchmarks.power.wild import kernels, verify

KERNELS = {kernel.name: kernel for kernel in kernels()}
WORK = {name: kernel for name, kernel in KERNELS.items() if kernel.half == "work"}
SINGLE = torch.float32


def first_that_breaks(word: str) -> verify.Kernel:
    return next(kernel for kernel in WORK.values() if kernel.breaks == word and SINGLE in kernel.dtypes)


def test_there_are_enough_of_them() -> None:
    wrong = [kernel for kernel in KERNELS.values() if kernel.is_wrong]
    assert len(wrong) >= verify.LEAST_WRONG and len(KERNELS) - len(wrong) >= verify.LEAST_HONEST
    assert len({kernel.api for kernel in wrong}) >= verify.LEAST_OPERATORS


def test_each_lies_in_the_folder_of_its_half() -> None:
    for name, kernel in KERNELS.items():
        assert kernel.module.split(".")[-2] == half_of(name) == kernel.half


@pytest.mark.parametrize("word", sorted({kernel.breaks for kernel in WORK.values() if kernel.is_wrong}))
def test_a_wrong_kernel_breaks_what_it_names(word: str) -> None:
    kernel = first_that_breaks(word)
    assert verify.is_broken(kernel, SINGLE)[0]


@pytest.mark.parametrize("word", sorted({kernel.breaks for kernel in WORK.values() if kernel.is_wrong}))
def test_the_operator_itself_breaks_nothing(word: str) -> None:
    """So the verification can fail: the right function in a wrong kernel's place is told."""
    kernel = first_that_breaks(word)
    right = dataclasses.replace(kernel, function=verify.operator_of(kernel.api))
    assert not verify.is_broken(right, SINGLE)[0]


def test_a_wrong_function_is_not_honest() -> None:
    kernel = WORK["softmax_online"] if "softmax_online" in WORK else next(k for k in WORK.values() if not k.is_wrong)
    operator = verify.operator_of(kernel.api)
    bent = dataclasses.replace(kernel, function=lambda *args, **kwargs: operator(*args, **kwargs) * 1.01)
    assert not list(verify.beyond(kernel, 0, SINGLE))
    assert any("times its bound" in text for text in verify.beyond(bent, 0, SINGLE))


def answer(api: str, *verdicts: str) -> dict[str, object]:
    return {"cases": [{"api": api, "call": f"{number}", "verdict": one} for number, one in enumerate(verdicts)]}


def rows_where(monkeypatch: pytest.MonkeyPatch, overridden: tuple[str, ...], usual: tuple[str, ...]) -> runner.Row:
    kernel = next(iter(WORK.values()))

    def checked(dtype: str, overrides: dict[str, str]) -> dict[str, object]:
        return answer(kernel.api, *(overridden if any(overrides.values()) else usual))

    monkeypatch.setattr(runner, "checked", checked)
    (row,) = runner.tried(("float32", [kernel]), runner.Usual([kernel.api]))
    return row


def test_what_fails_in_the_operator_itself_is_nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows_where(monkeypatch, ("PASS", "FAIL", "NOT_COMPARED"), ("PASS", "FAIL", "NOT_COMPARED"))
    assert (row.failed, row.checked) == (0, 2)


def test_what_fails_by_the_kernel_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows_where(monkeypatch, ("FAIL", "ERROR"), ("PASS", "FAIL"))
    assert (row.failed, row.checked) == (1, 2)


def test_kernels_share_a_command_where_they_cannot_touch_each_other() -> None:
    wanted = [(kernel, "float32") for kernel in WORK.values()]
    made = runner.batches(wanted, 16)
    assert sorted(kernel.name for _, held in made for kernel in held) == sorted(WORK)
    assert len(made) < len(wanted) / 3
    for _, held in made:
        assert len({kernel.api for kernel in held}) == len(held) <= 16
        assert len(held) == 1 or not any(kernel.kind in runner.ALONE for kernel in held)


def test_rows_of_the_counted_half_have_no_names() -> None:
    for name, kernel in KERNELS.items():
        assert (name in runner.row_key(kernel, "float32")) == (kernel.half == "work")
    row = runner.Row("name/float32", "counted", "wrong", "float32", 0, 3, "", 1.0)
    assert not list(runner.told([row]))


def test_shares_are_of_the_trials_of_each_half() -> None:
    rows = [
        runner.Row("a", "work", "wrong", "float32", 2, 5, "", 1.0),
        runner.Row("b", "work", "wrong", "float32", 0, 0, "no operator", 1.0),
        runner.Row("c", "work", "honest", "float32", 1, 4, "", 1.0),
        runner.Row("d", "counted", "honest", "bfloat16", 0, 6, "", 1.0),
    ]
    work, counted = (next(one for one in runner.sums(rows) if one["half"] == half) for half in ("work", "counted"))
    assert (work["wrong"], work["found"], work["not checked"]) == (2, 1, 1)
    assert (work["honest"], work["accused"], work["honest calls"], work["calls accused"]) == (1, 1, 4, 1)
    assert (counted["wrong"], counted["honest"], counted["honest calls"]) == (0, 1, 6)
