"""What the benchmark with the real msprobe calls good: it can fail in every column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import foreign

IN = {"direction": "from msprobe", "data": "tensors", "named_the_planted_call": True, "shown": True, "wrong_bits": 0}
IN |= {"left_out": {}}
OUT = {"direction": "to msprobe", "data": "stats", "returncode": 0, "errors": 0, "rows": 9, "lonely_rows": 0}
OUT |= {"tensors_without_row": 0, "calls_matched_otherwise": 0}


def test_good_rows_are_good() -> None:
    assert foreign._good(IN) and foreign._good(OUT)
    assert foreign._good(IN | {"data": "stats", "named_the_planted_call": False})


@pytest.mark.parametrize(
    "row",
    [
        IN | {"named_the_planted_call": False},
        IN | {"shown": False},
        IN | {"wrong_bits": 1},
        IN | {"left_out": {"something": 1}},
        OUT | {"rows": 0},
        *(OUT | {name: 1} for name in OUT if OUT[name] == 0),
    ],
    ids=str,
)
def test_bad_rows_are_bad(row: dict[str, object]) -> None:
    assert not foreign._good(row)


def test_names_are_those_of_msprobe(tmp_path: Path) -> None:
    leaf = {"type": "torch.Tensor", "shape": [2]}
    kept = {**leaf, "data_name": "Torch.cat.0.forward.kwargs.out.pt"}
    record = {
        "input_args": [[leaf, {"type": "int", "value": 1}], leaf],
        "input_kwargs": {"out": kept},
        "output": [leaf],
    }
    (tmp_path / "dump.json").write_text(json.dumps({"data": {"Torch.cat.0.forward": record}}))
    assert foreign._names(tmp_path / "dump.json") == {
        "Torch.cat.0.forward.input.0.0", "Torch.cat.0.forward.input.1", "Torch.cat.0.forward.kwargs.out",
        "Torch.cat.0.forward.output.0",
    }  # fmt: skip
    assert foreign._ours("Functional.linear.3.backward.output.0") == "torch.nn.functional.linear.3.backward"
