"""Paddle's tensors on disk: exact bits of every kind, as they were before and after a call, stored once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from tests.capture.paddle_capturing import captured  # noqa: E402 - only where paddle is
from trueline.dtypes import DTYPES  # noqa: E402
from trueline.frameworks.paddle.flatten import device_name, place_of  # noqa: E402
from trueline.frameworks.paddle.reading import to_host  # noqa: E402
from trueline.frameworks.paddle.tensors import TensorDesk  # noqa: E402
from trueline.numerics import cpu  # noqa: E402
from trueline.records import Call, Statistics, TensorRecord  # noqa: E402
from trueline.store import RankReader  # noqa: E402


def stored(reader: RankReader, record: TensorRecord) -> bytes:
    assert record.stored, record
    return np.ascontiguousarray(reader.tensor(record)).tobytes()


def the_call(reader: RankReader, api: str, nth: int = 0) -> Call:
    (found,) = [call for call in reader.trace() if call.api == api and call.index == nth and call.phase == "forward"]
    return found


def samples() -> Iterator[tuple[str, Any, bytes]]:
    """Name, tensor, and what it holds, in C order."""
    generator = np.random.default_rng(1)
    for name, row in DTYPES.items():
        if not hasattr(paddle, name) or name.startswith(("float8", "uint16", "uint32", "uint64", "complex32")):
            continue
        raw = generator.integers(0, 256, 24 * row.itemsize, dtype=np.uint8)  # NaNs and all
        if name == "bool":
            raw = (raw < 128).astype(np.uint8)
        if name == "bfloat16":
            wide = np.frombuffer(raw.tobytes(), np.uint16).astype(np.uint32) << 16
            tensor = paddle.to_tensor(wide.view(np.float32).reshape(6, 4)).astype("bfloat16")
            yield name, tensor, tensor.numpy().tobytes()
            continue
        array = np.frombuffer(raw.tobytes(), np.dtype(row.storage)).reshape(6, 4)
        yield name, paddle.to_tensor(array), array.tobytes()
    plain = generator.standard_normal((6, 4, 5)).astype(np.float32)
    whole = paddle.to_tensor(plain)
    yield "scalar", paddle.to_tensor(-0.0), np.float32(-0.0).tobytes()
    yield "empty", paddle.zeros([0, 3]), b""
    yield "strided", whole[::2, 1:], plain[::2, 1:].tobytes()
    yield "transposed", whole.transpose([2, 0, 1]), plain.transpose(2, 0, 1).tobytes()
    yield "expanded", whole[:, :1].expand([6, 7, 5]), np.broadcast_to(plain[:, :1], (6, 7, 5)).tobytes()
    seven = generator.standard_normal((2,) * 7).astype(np.float32)
    order = [6, 4, 2, 0, 1, 3, 5]
    yield "seven dimensions", paddle.to_tensor(seven).transpose(order), seven.transpose(order).tobytes()
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45], np.float32)
    yield "special values", paddle.to_tensor(special), special.tobytes()


def _plain(statistics: Statistics) -> list[float]:
    values = [getattr(statistics, name) for name in statistics.__slots__]
    return [float(item) for value in values for item in (value if isinstance(value, tuple) else (value,))]


SAMPLES = {name: (tensor, content) for name, tensor, content in samples()}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_kind_of_tensor_keeps_its_bits(name: str, tmp_path: Path) -> None:
    tensor, content = SAMPLES[name]
    reader = captured(tmp_path, lambda: tensor.clone(), data="tensors")
    call = the_call(reader, "paddle.Tensor.clone")
    assert stored(reader, call.inputs[0]) == content
    assert stored(reader, call.outputs[0]) == content
    assert call.inputs[0].shape == tuple(tensor.shape)
    assert call.inputs[0].dtype == str(tensor.dtype).rpartition(".")[2]
    kind = DTYPES[call.inputs[0].dtype]
    array = np.frombuffer(content, np.dtype(kind.storage)).reshape(tuple(tensor.shape))
    expected = cpu.statistics(array, kind)
    assert call.inputs[0].statistics is not None
    assert np.array_equal(_plain(call.inputs[0].statistics), _plain(expected), equal_nan=True)
    assert (call.inputs[0].digest or 0) == cpu.digest(array, kind)


def test_what_a_call_changes_is_kept_before_and_after(tmp_path: Path) -> None:
    def program() -> None:
        x = paddle.zeros([3])
        x.add_(paddle.ones([3]))
        x[1] = 5.0
        x.set_value(np.full(3, 7.0, np.float32))
        x.fill_(8.0)

    reader = captured(tmp_path, program, data="tensors")
    seen = {}
    for name in ("add_", "__setitem__", "set_value", "fill_"):
        call = the_call(reader, f"paddle.Tensor.{name}")
        seen[name] = reader.tensor(call.inputs[0]).tolist(), reader.tensor(call.outputs[0]).tolist()
    assert seen == {
        "add_": ([0, 0, 0], [1, 1, 1]),
        "__setitem__": ([1, 1, 1], [1, 5, 1]),
        "set_value": ([1, 5, 1], [7, 7, 7]),
        "fill_": ([7, 7, 7], [8, 8, 8]),
    }


def test_a_view_that_is_changed_changes_what_it_is_a_view_of(tmp_path: Path) -> None:
    def program() -> None:
        x = paddle.zeros([2, 2])
        x.exp()
        x[0].add_(paddle.ones([2]))
        x.exp()

    reader = captured(tmp_path, program, data="tensors")
    before, after = (the_call(reader, "paddle.Tensor.exp", nth).inputs[0] for nth in range(2))
    assert before.tensor_id != after.tensor_id
    assert reader.tensor(after).tolist() == [[1, 1], [0, 0]]


def test_running_statistics_are_seen_to_change(tmp_path: Path) -> None:
    """Their version counters do not move."""
    mean, variance, x = paddle.zeros([2]), paddle.ones([2]), paddle.to_tensor([[1.0, 2.0], [3.0, 8.0]])

    def program() -> None:
        for _ in range(2):
            paddle.nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.5)

    reader = captured(tmp_path, program, data="tensors")
    first, second = (the_call(reader, "paddle.nn.functional.batch_norm", nth) for nth in range(2))
    after = {record.path: record for record in first.outputs}
    assert reader.tensor(after["args.1"]).tolist() == [1.0, 2.5]
    assert {r.path: r for r in second.inputs}["args.1"].tensor_id == after["args.1"].tensor_id


def test_a_result_is_the_argument_of_the_next_call(tmp_path: Path) -> None:
    x = paddle.ones([4, 4])
    reader = captured(tmp_path, lambda: x.exp().reshape([16]).sum())
    exp, reshape, total = (the_call(reader, f"paddle.Tensor.{name}") for name in ("exp", "reshape", "sum"))
    assert exp.outputs[0].tensor_id == reshape.inputs[0].tensor_id
    assert reshape.outputs[0].tensor_id == total.inputs[0].tensor_id == exp.outputs[0].tensor_id, "the same content"


def test_memory_that_is_given_to_another_tensor_is_another_tensor(tmp_path: Path) -> None:
    """Paddle hands freed memory out again at once."""

    def program() -> None:
        for value in range(50):
            paddle.full([1000], float(value)).exp()

    reader = captured(tmp_path, program)
    exps = [call for call in reader.trace() if call.api == "paddle.Tensor.exp"]
    assert len({call.inputs[0].tensor_id for call in exps}) == 50
    assert [call.inputs[0].statistics.maximum for call in exps] == [float(value) for value in range(50)]


def test_modes_keep_what_they_say(tmp_path: Path) -> None:
    x = paddle.ones([3])
    records = {
        mode: the_call(captured(tmp_path, lambda: x.exp(), data=mode), "paddle.Tensor.exp").inputs[0]
        for mode in ("structure", "stats", "digest", "tensors")
    }
    assert [record.statistics is not None for record in records.values()] == [False, True, True, True]
    assert [record.digest is not None for record in records.values()] == [False, False, True, True]
    assert [record.stored for record in records.values()] == [False, False, False, True]


def test_memory_that_a_call_gave_to_a_tensor_was_written_by_it() -> None:
    """Its version counter says nothing of that; Paddle 3.0 gives a compiled function such tensors to fill."""
    empty, filled = paddle.base.core.eager.Tensor(), paddle.ones([2])
    before = TensorDesk.versions(None, [empty, filled])
    filled._share_buffer_to(empty)
    after = TensorDesk.versions(None, [empty, filled])
    assert before[0] != after[0] and before[1] == after[1]


def test_a_tensor_that_never_had_memory_lies_on_the_cpu() -> None:
    """Paddle 3.0 raises of its place; a compiled function is given such tensors for what it leaves behind."""

    class Nowhere:
        @property
        def _place_str(self) -> str:
            raise RuntimeError("Tensor not initialized yet when DenseTensor::place() is called.")

    assert device_name(place_of(Nowhere())) == "cpu"
    assert device_name(place_of(paddle.ones([1]))) == device_name(paddle.ones([1]).place)
    assert device_name(place_of(paddle.base.core.eager.Tensor())) == "cpu"


def test_sparse_tensors_are_said_not_to_be_read(tmp_path: Path) -> None:
    def program() -> None:
        paddle.ones([2, 2]).to_sparse_coo(2)

    reader = captured(tmp_path, program)
    record = the_call(reader, "paddle.Tensor.to_sparse_coo").outputs[0]
    assert record.statistics is None and record.missing == "sparse tensors are not read"
    assert reader.certificate.not_recorded == {"sparse tensors are not read": 1}


def test_the_way_from_a_device(tmp_path: Path) -> None:
    """There is none here; but the host is a place like any other."""
    x = paddle.arange(6, dtype="float32").reshape([2, 3])
    x.stop_gradient = False
    copy = to_host(x.transpose([1, 0]))
    assert copy.is_contiguous() and copy.stop_gradient and copy.tolist() == x.transpose([1, 0]).tolist()
    assert copy.data_ptr() != x.data_ptr()
