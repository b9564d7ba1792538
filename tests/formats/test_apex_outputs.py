"""Outputs of replays: ours, and files of the real PaddleAPEX, which paddle.save writes as that tool calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trueline.formats.apex_outputs import find_outputs
from trueline.formats.limits import ForeignFileError
from trueline.records import Phase


def test_ours(tmp_path: Path) -> None:
    forward, backward = tmp_path / "backend_output", tmp_path / "backend_output_backward"
    forward.mkdir()
    backward.mkdir()
    values = np.array([[1.0, -2.5], [0.0, 3.0]], np.float32)
    np.save(forward / "paddle.split*0.1.npy", values)
    np.save(forward / "paddle.split*0.0.npy", np.arange(3))
    np.save(forward / "paddle.add*12.0.bfloat16.npy", values)
    np.save(backward / "paddle.split*0.0.npy", values * 2)
    (forward / "notes.txt").touch()
    found = find_outputs(tmp_path)
    assert found is not None
    assert found.keys == ["paddle.add*12", "paddle.split*0"] and [path.name for path in found.left_out] == ["notes.txt"]
    first, second = found.tensors(Phase.FORWARD, "paddle.split*0")
    assert (first.dtype, first.shape, second.dtype, second.shape) == ("int64", (3,), "float32", (2, 2))
    (half,) = found.tensors(Phase.FORWARD, "paddle.add*12")
    assert half.dtype == "bfloat16" and half.fetch is not None
    bits, dtype, remark = half.fetch()
    assert dtype.name == "bfloat16" and not remark
    assert np.array_equal(bits.astype(np.uint32) << 16, values.view(np.uint32))
    assert len(found.tensors(Phase.BACKWARD, "paddle.split*0")) == 1
    assert found.tensors(Phase.BACKWARD, "paddle.add*12") == []


def test_a_bfloat16_that_was_changed_is_what_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "backend_output").mkdir()
    np.save(tmp_path / "backend_output" / "paddle.add*0.0.bfloat16.npy", np.array([1.0 + 2.0**-12], np.float32))
    found = find_outputs(tmp_path)
    assert found is not None
    (tensor,) = found.tensors(Phase.FORWARD, "paddle.add*0")
    assert tensor.dtype == "float32" and tensor.fetch is not None
    assert "no bfloat16" in tensor.fetch()[2]


def test_those_of_the_real_tool(tmp_path: Path) -> None:
    """``paddle.save([flag, outputs])``: one tensor, several nested, some in bfloat16, which it casts to float32."""
    paddle = pytest.importorskip("paddle")
    (tmp_path / "output").mkdir()
    exact, inexact = paddle.to_tensor([1.0, 2.5]), paddle.to_tensor([0.1, 0.2])
    index = paddle.to_tensor([3, 4])
    for key, content in {
        "paddle.add*0": [False, exact],
        "paddle.topk*0": [True, [exact, index]],
        "paddle.split*3": [True, [[exact, None], [inexact]]],
        "paddle.abs*0": inexact,  # before July 2024
    }.items():
        paddle.save(content, str(tmp_path / "output" / key))
    found = find_outputs(tmp_path)
    assert found is not None
    said = {key: [(one.dtype, one.shape) for one in found.tensors(Phase.FORWARD, key)] for key in found.keys}
    assert said == {
        "paddle.add*0": [("float32", (2,))],
        "paddle.topk*0": [("bfloat16", (2,)), ("int64", (2,))],
        "paddle.split*3": [("bfloat16", (2,)), ("float32", (2,))],  # 0.1 is no bfloat16: it was none
        "paddle.abs*0": [("float32", (2,))],
    }


def test_what_is_no_output_is_refused(tmp_path: Path) -> None:
    assert find_outputs(tmp_path) is None
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "paddle.add*0").write_bytes(b"\x80\x04cposix\nsystem\nX\x04\x00\x00\x00true\x85R.")
    found = find_outputs(tmp_path)
    assert found is not None
    with pytest.raises(ForeignFileError, match="not data"):
        found.tensors(Phase.FORWARD, "paddle.add*0")
    (tmp_path / "output" / "paddle.add*0").write_bytes(b"\x80\x04}.")
    with pytest.raises(ForeignFileError, match="no output of a call"):
        found.tensors(Phase.FORWARD, "paddle.add*0")
