"""One call of a Run as a source of checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, array, write_run
from trueline.errors import UsageError
from trueline.records import Phase
from trueline.replay.cases import cases_from_run
from trueline.replay.selection import Selection, split_source


@pytest.mark.parametrize(
    ("text", "path", "selection"),
    [
        ("runs/a", "runs/a", None),
        ("runs/a::torch.relu.3", "runs/a", Selection("torch.relu.3")),
        ("runs/a::torch.relu.3.forward@step=2", "runs/a", Selection("torch.relu.3.forward", 2)),
        ("runs/a::torch.relu.3@rank=1,step=2", "runs/a", Selection("torch.relu.3", 2, 1)),
        ("runs/a::#812@rank=0", "runs/a", Selection("#812", None, 0)),
    ],
)
def test_a_source_names_a_call(text: str, path: str, selection: Selection | None) -> None:
    assert split_source(text) == (path, selection)
    if selection is not None:
        assert split_source(f"{path}::{selection}") == (path, selection), "it is written as it is read"


@pytest.mark.parametrize(
    "text", ["::x", "a::", "a::x@", "a::x@step", "a::x@step=-1", "a::x@step=1,step=2", "a::x@nth=1", "a::x@step=²"]
)
def test_what_names_no_call_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write RUN::"):
        split_source(text)


def test_a_folder_of_such_a_name_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a::b").mkdir()
    assert split_source(str(tmp_path / "a::b")) == (str(tmp_path / "a::b"), None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    def calls(seed: int) -> list[Spec]:
        found = []
        for step in range(2):
            x = array(4, 4, seed=seed + step)
            forward = Spec("torch.tanh", [x], [np.tanh(x)], step=step)
            gradient = array(4, 4, seed=9)
            back = Spec("torch.tanh", [gradient], [gradient], step=step, phase=Phase.BACKWARD, forward=forward)
            found += [forward, back, Spec("torch.relu", [x], [np.maximum(x, 0)], step=step)]
        return found

    return write_run(tmp_path / "run", {0: calls(0), 1: calls(5)})


def test_only_that_call_becomes_a_case_with_its_own_tensors(run: Path) -> None:
    everything = cases_from_run(run)
    assert everything.calls == 8 and everything.backward_calls == 4
    kept = set()
    for step in (0, 1):
        planned = cases_from_run(run, only=Selection("torch.tanh.0.forward", step, 1))
        (case,) = planned.cases
        assert planned.calls == case.count == planned.backward_calls == 1 and not planned.skipped
        assert case.tensors[0].stored is not None and case.tensors[0].stored.rank == 1
        kept.add(case.tensors[0].stored.tensor_id)
    assert len(kept) == 2, "another step has other numbers"


def test_a_backward_call_stands_for_its_forward_call(run: Path) -> None:
    planned = cases_from_run(run, only=Selection("torch.tanh.0.backward", 1, 0))
    assert [case.calls for case in planned.cases] == [("torch.tanh.0.forward",)] and planned.backward_calls == 1


def test_without_step_and_rank_all_of_the_name_are_meant(run: Path) -> None:
    assert cases_from_run(run, only=Selection("torch.relu.0")).calls == 4


@pytest.mark.parametrize("only", [Selection("torch.gelu"), Selection("torch.relu", 7), Selection("torch.relu", 0, 3)])
def test_a_call_that_is_not_there_is_an_error(run: Path, only: Selection) -> None:
    with pytest.raises(UsageError, match="has no forward call"):
        cases_from_run(run, only=only)
