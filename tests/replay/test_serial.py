"""What is written of a case and of its measurement comes back as it was."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest

from tests.campaign import records
from trueline.cases import Case, CaseMeasured, CheckInfo, Outcome, Status, Stored, Target, TensorSpec
from trueline.replay import serial


def through_json(content: object) -> object:
    return json.loads(json.dumps(content, allow_nan=False))


def test_a_case_comes_back_with_its_key() -> None:
    case = records.case(5)
    back = serial.case_from_json(through_json(serial.case_to_json(case)))  # type: ignore[arg-type]
    assert repr(back) == repr(case)  # by text: NaN is not equal to itself
    assert back.key == case.key


def test_no_field_of_a_case_is_forgotten() -> None:
    """They are written one by one."""
    spec = TensorSpec("args.0", "float32", (2,), (1,), True, None, "normal", Stored("runs/a", 0, 3))
    case = Case("torch.relu", {"args": [], "kwargs": {}}, (spec,), (spec,), True, "bfloat16", 7, 3, ("a",), "m", "s", 2)
    written = serial.case_to_json(case)
    assert written.keys() == {field.name for field in fields(Case)}
    assert written["tensors"][0].keys() == {field.name for field in fields(TensorSpec)} - {"statistics"}
    assert serial.case_from_json(through_json(written)) == case  # type: ignore[arg-type]


def test_the_barest_case_comes_back() -> None:
    case = Case("torch.relu", None)
    assert serial.case_from_json(through_json(serial.case_to_json(case))) == case  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "measured",
    [
        records.measured("k"),
        CaseMeasured("k", Outcome(Status.OUT_OF_MEMORY, "no room", 1.5, 7)),
        CaseMeasured("k", Outcome(Status.RAISED), skipped="not possible"),
    ],
)
def test_what_was_measured_comes_back(measured: CaseMeasured) -> None:
    back = serial.measured_from_json(through_json(serial.measured_to_json(measured)))  # type: ignore[arg-type]
    assert repr(back) == repr(measured)


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    assert serial.plain({"a": np.float32(0.5), "b": [np.int64(3), np.bool_(True), np.float64("inf")]}) == {
        "a": 0.5,
        "b": [3, True, "inf"],
    }


def test_unknown_things_are_refused() -> None:
    with pytest.raises(TypeError):
        serial.plain(object())


def test_targets_and_heads_come_back() -> None:
    target = Target.parse("torch:cuda:0/bfloat16", {"torch.relu": "kernels:relu"})
    assert serial.target_from_json(through_json(serial.target_to_json(target))) == target  # type: ignore[arg-type]
    info = CheckInfo(("runs/a",), "torch:cpu", "torch:cpu/float64", "calibrated", {}, 3, "now", "1", "2", 10, {"x": 2})
    assert serial.info_from_json(through_json(serial.info_to_json(info))) == info  # type: ignore[arg-type]


def test_fields_of_a_newer_version_are_passed_over() -> None:
    content = {**serial.case_to_json(records.case()), "colour": "red"}
    assert repr(serial.case_from_json(content)) == repr(records.case())
