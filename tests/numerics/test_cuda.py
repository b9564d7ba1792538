"""The grouped GPU statistics and the plain torch ones against the CPU kernels.

With a GPU the Triton kernels are compiled and everything runs. Without one, but with Triton installed, a child process
runs the tests that are small enough in Triton's interpreter, on the CPU.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType, dtype_named
from trueline.errors import UsageError
from trueline.numerics import cpu
from trueline.numerics.cuda import Fetched, GroupedReducer, float8_values, plain_statistics, supported
from trueline.numerics.layout import DESCRIPTOR, STATISTICS, pack_descriptor

from .conftest import ALL_DTYPES, ordinary, random_bits

torch = pytest.importorskip("torch")

HAS_GPU = torch.cuda.is_available()
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
HAS_TRITON = importlib.util.find_spec("triton") is not None
DEVICE = "cuda" if HAS_GPU and not INTERPRETING else "cpu"

kernels = pytest.mark.skipif(
    not (HAS_TRITON and (HAS_GPU or INTERPRETING)), reason="needs Triton and a GPU (or TRITON_INTERPRET=1)"
)
gpu = pytest.mark.skipif(not (HAS_TRITON and HAS_GPU) or INTERPRETING, reason="needs Triton and a GPU")


@pytest.fixture(scope="module")
def reducer() -> GroupedReducer:
    return GroupedReducer(DEVICE)


def to_torch(array: np.ndarray, dtype: DType) -> Any:
    """A tensor on the test device with these storage bits; None if this torch has no such dtype."""
    kind = getattr(torch, dtype.name, None)
    if kind is None:
        return None
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy())
    return raw.view(kind).reshape(array.shape).to(DEVICE)


def describe(tensors: list[Any]) -> np.ndarray:
    table = np.zeros(len(tensors), DESCRIPTOR)
    for row, tensor in enumerate(tensors):
        code = dtype_named(str(tensor.dtype)).code
        assert pack_descriptor(table, row, tensor.data_ptr(), code, tensor.shape, tensor.stride())
    return table


def on_device(reducer: GroupedReducer, tensors: list[Any], *, digest: bool = False) -> np.ndarray:
    reducer.launch(describe(tensors), 0, digest=digest)
    rows = reducer.fetch().wait()
    assert rows.dtype == STATISTICS and len(rows) == len(tensors)
    return rows


def on_cpu(tensors: list[Any], *, digest: bool = False) -> np.ndarray:
    copies = [tensor.cpu().contiguous() for tensor in tensors]
    rows = np.zeros(len(tensors), STATISTICS)
    cpu.reduce_batch(describe(copies), rows, digest=digest)
    return rows


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    for name in [name for name in STATISTICS.names if name not in ("mean", "norm", "sketch")]:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    for row, reference in zip(found, expected, strict=True):
        finite = reference["count"] - reference["nan"] - reference["positive_infinity"] - reference["negative_infinity"]
        size = reference["norm"]
        assert row["norm"] == pytest.approx(size, rel=3e-6)
        if np.isfinite(reference["mean"]):
            assert abs(row["mean"] - reference["mean"]) <= 3e-6 * (size / np.sqrt(finite) + abs(reference["mean"]))
        else:
            np.testing.assert_array_equal(row["mean"], reference["mean"])
        if np.isfinite(reference["sketch"]).all():
            sketch, wanted = row["sketch"].astype(np.float64), reference["sketch"].astype(np.float64)
            assert np.linalg.norm(sketch - wanted) <= 3e-6 * max(np.linalg.norm(wanted), size)


@kernels
@ALL_DTYPES
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_every_dtype(dtype: DType, reducer: GroupedReducer) -> None:
    tensors = [to_torch(ordinary(dtype, count, count), dtype) for count in (1, 31, 64, 1000, 1024, 4100)]
    if tensors[0] is None:
        pytest.skip(f"this torch has no {dtype.name}")
    assert_same(on_device(reducer, tensors, digest=True), on_cpu(tensors, digest=True))


@kernels
@ALL_DTYPES
def test_every_bit_pattern(dtype: DType, reducer: GroupedReducer) -> None:
    tensor = to_torch(random_bits(dtype, 5000, seed=7), dtype)
    if tensor is None:
        pytest.skip(f"this torch has no {dtype.name}")
    found, expected = on_device(reducer, [tensor], digest=True), on_cpu([tensor], digest=True)
    if dtype.name in ("float64", "complex128"):
        # sums of numbers near the largest one overflow; in which order they do is nobody's business
        for rows in (found, expected):
            rows["mean"] = 0.0
            rows["sketch"] = 0.0
    assert_same(found, expected)


@kernels
@pytest.mark.parametrize("name", ["float32", "bfloat16", "int16", "complex64", "float64"])
def test_strides(name: str, reducer: GroupedReducer) -> None:
    base = to_torch(ordinary(DTYPES[name], 4 * 6 * 8 * 10), DTYPES[name]).reshape(4, 6, 8, 10)
    tensors = [
        base.permute(3, 1, 0, 2),
        base.transpose(1, 2),
        base[:, 1:5, ::2, 3:],
        base[1:, :, :, 1],
        base.flatten()[1:],
        base.flatten()[::3],
        base[:1, :1, :1].expand(3, 6, 8, 10),
        base.reshape(2, 2, 2, 3, 2, 4, 10).select(6, 0).permute(5, 3, 1, 0, 2, 4),
        base[0, 0, 0, 0],
    ]
    rows = to_torch(ordinary(DTYPES[name], 3 * 40 * 5 * 16, seed=1), DTYPES[name]).reshape(3, 40, 5, 16)
    tensors += [
        rows.transpose(1, 2),
        rows[:, ::2],
        rows.permute(2, 0, 1, 3)[..., 8:],
        rows.permute(2, 0, 1, 3)[..., 4:12],
        rows[..., 1:9],
    ]
    assert_same(on_device(reducer, tensors, digest=True), on_cpu(tensors, digest=True))


@kernels
def test_special_values(reducer: GroupedReducer) -> None:
    generator = torch.Generator().manual_seed(1)
    mixed = torch.randn(9000, generator=generator)
    mixed[3], mixed[100:110], mixed[5000], mixed[200:300] = float("nan"), -float("inf"), float("inf"), 0.0
    singles = [
        mixed,
        mixed.bfloat16(),
        mixed.half(),
        torch.zeros(0),
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(4097),
        -torch.zeros(10),
        torch.full((33,), float("nan")),
        torch.full((4096,), -float("inf")).bfloat16(),
        torch.full((5000,), torch.finfo(torch.float32).min),
        torch.full((5000,), torch.finfo(torch.bfloat16).min).bfloat16(),
        torch.full((100,), 1e-42),
        torch.full((4096,), 1e-30),
        torch.full((10,), 5e-324, dtype=torch.float64),
        torch.full((10,), 1e300, dtype=torch.float64),
        torch.full((10,), 1e-200, dtype=torch.float64),
        torch.tensor([2**63 - 1, -(2**63), 5]),
    ]
    tensors = [tensor.to(DEVICE) for tensor in singles]
    assert_same(on_device(reducer, tensors), on_cpu(tensors))


@kernels
def test_a_block_that_needs_care_does_not_spoil_the_others(reducer: GroupedReducer) -> None:
    tensor = torch.randn(3 * 16384 + 77, generator=torch.Generator().manual_seed(2))
    tensor[20000] = float("nan")
    tensor[40000] = 1e30
    tensors = [tensor.to(DEVICE), tensor[:49152].reshape(3, 512, 32).to(DEVICE).transpose(0, 1)]
    assert_same(on_device(reducer, tensors), on_cpu(tensors))


@kernels
def test_results_do_not_depend_on_the_batch(reducer: GroupedReducer) -> None:
    generator = torch.Generator().manual_seed(3)
    tensors = [torch.randn(count, generator=generator).to(DEVICE) for count in (5, 20000, 300, 64, 8192)]
    together = on_device(reducer, tensors, digest=True)
    again = on_device(reducer, tensors, digest=True)
    alone = [on_device(reducer, [tensor], digest=True)[0].tobytes() for tensor in tensors]
    assert together.tobytes() == again.tobytes()
    assert [row.tobytes() for row in together] == alone


@kernels
def test_slots_and_steps(reducer: GroupedReducer) -> None:
    generator = torch.Generator().manual_seed(4)
    tensors = [torch.randn(20, generator=generator).to(DEVICE) for _ in range(6)]
    table = describe(tensors)
    reducer.launch(table[:2], 4)
    reducer.launch(table[2:], 0)
    first = reducer.fetch()
    reducer.launch(table[5:], 0)
    second = reducer.fetch()
    third = reducer.fetch()
    expected = on_cpu(tensors)
    assert_same(first.wait(), expected[[2, 3, 4, 5, 0, 1]])
    assert_same(second.wait(), expected[5:])
    assert len(third.wait()) == 0


@kernels
def test_more_rows_than_the_buffers_hold_at_first() -> None:
    reducer = GroupedReducer(DEVICE)
    tensor = torch.arange(1.0, 4.0).to(DEVICE)
    reducer.launch(describe([tensor]), 0)
    reducer.launch(describe([tensor]), 5000)
    rows = reducer.fetch().wait()
    assert len(rows) == 5001
    assert_same(rows[[0, 5000]], on_cpu([tensor, tensor]))


@kernels
def test_wrong_tables_are_refused(reducer: GroupedReducer) -> None:
    with pytest.raises(UsageError, match="DESCRIPTOR"):
        reducer.launch(np.zeros(3, np.int64), 0)
    unknown = describe([torch.zeros(3).to(DEVICE)])
    unknown["dtype"] = 99
    with pytest.raises(UsageError, match="dtype"):
        reducer.launch(unknown, 0)


@gpu
def test_many_small_ones(reducer: GroupedReducer) -> None:
    generator = torch.Generator().manual_seed(5)
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    tensors = [
        torch.randn(int(count), generator=generator).to(kinds[count % 3]).to(DEVICE)
        for count in np.random.default_rng(5).integers(0, 3000, 2500)
    ]
    assert_same(on_device(reducer, tensors, digest=True), on_cpu(tensors, digest=True))


@gpu
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64", "int32"])
def test_large(name: str, reducer: GroupedReducer) -> None:
    """More elements than 1024 blocks of the usual size hold."""
    tensor = (torch.randn(37_000_001, device=DEVICE) * 50).to(getattr(torch, name))
    tensors = [tensor, tensor[1:], tensor[:36_000_000].reshape(6000, 6000).t()]
    found = on_device(reducer, tensors, digest=True)
    assert_same(found, on_cpu(tensors, digest=True))
    assert found.tobytes() == on_device(reducer, tensors, digest=True).tobytes()


@gpu
def test_more_blocks_than_the_scratch_holds(reducer: GroupedReducer) -> None:
    tensor = torch.randn(20_000_000, device=DEVICE)
    rows = on_device(reducer, [tensor] * 200)
    assert len({row.tobytes() for row in rows}) == 1
    assert_same(rows[:1], on_cpu([tensor]))


@gpu
def test_more_than_two_billion_elements(reducer: GroupedReducer) -> None:
    count = 2**31 + 4096 + 5
    tensor = torch.randint(-100, 100, (count,), dtype=torch.int8, device=DEVICE)
    tensors = [tensor, tensor[:-1].reshape(-1, 2).t()]
    assert_same(on_device(reducer, tensors), on_cpu(tensors))
    wide = tensor.to(torch.bfloat16)
    found = on_device(reducer, [wide])
    assert found["count"][0] == count
    assert found["zeros"][0] == int((tensor == 0).sum())
    assert found["norm"][0] == pytest.approx(float(tensor.double().norm()), rel=1e-6)


@gpu
def test_launches_follow_the_order_of_their_stream(reducer: GroupedReducer) -> None:
    tensor = torch.zeros(4_000_000, device=DEVICE)
    table = describe([tensor])
    for step in range(300):  # more launches than the ring has tables at first
        tensor.fill_(float(step))
        reducer.launch(table, step)
    rows = reducer.fetch().wait()
    np.testing.assert_array_equal(rows["maximum"], np.arange(300.0))


@gpu
def test_several_streams_in_one_step() -> None:
    reducer = GroupedReducer(DEVICE)
    tensors = [torch.full((3_000_000,), float(number), device=DEVICE) for number in range(4)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in tensors]
    for step in range(20):
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                reducer.launch(describe([tensors[number]]), number if step else 5000 + number)
                reducer.launch(describe([tensors[number]]), number)
        fetched = reducer.fetch()
        rows: list[np.ndarray] = []
        waiting = threading.Thread(target=lambda to=rows, of=fetched: to.append(of.wait()))
        waiting.start()
        waiting.join()
        np.testing.assert_array_equal(rows[0]["minimum"][:4], np.arange(4.0))


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "complex32"])
def test_plain_statistics(name: str) -> None:
    dtype = DTYPES[name]
    tensor = to_torch(ordinary(dtype, 5000), dtype)
    if tensor is None:
        pytest.skip(f"this torch has no {name}")
    tensors = [tensor, tensor[1::3], tensor[:4900].reshape(70, 70).t(), tensor[:0]]
    found = np.array([plain_statistics(tensor, digest=True) for tensor in tensors])
    assert_same(found, on_cpu(tensors, digest=True))


def test_plain_statistics_of_special_values_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueline.numerics.plain.PIECE", 128)
    tensor = torch.randn(1000, generator=torch.Generator().manual_seed(6))
    tensor[3], tensor[100:110], tensor[500], tensor[200:300] = float("nan"), -float("inf"), float("inf"), 0.0
    tensors = [tensor, tensor.double() * 1e300, tensor[:4] * float("nan"), tensor * 0.0]
    found = np.array([plain_statistics(tensor, digest=True) for tensor in tensors])
    assert_same(found, on_cpu(tensors, digest=True))


def test_float8_values_are_those_of_torch() -> None:
    names = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    for values, name in zip(float8_values(), names, strict=True):
        if hasattr(torch, name):
            expected = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).float().numpy()
            np.testing.assert_array_equal(values, expected, err_msg=name)


def test_the_cpu_is_not_a_device_for_the_kernels() -> None:
    assert not supported("cpu")
    assert len(Fetched(torch.empty(0, dtype=torch.uint8), None).wait()) == 0


def test_importing_imports_neither_torch_nor_triton() -> None:
    code = "import sys, trueline.numerics.cuda; print({'torch', 'triton'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.skipif(HAS_GPU or INTERPRETING or not HAS_TRITON, reason="runs where Triton is, but no GPU")
def test_the_kernels_in_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
