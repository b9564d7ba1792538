"""The light look: the C kernel, numpy and plain torch operations give the same rows, of every dtype and any strides."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType
from trueline.errors import UsageError
from trueline.numerics import cpu, light
from trueline.numerics.layout import DESCRIPTOR

FLOATS = [dtype for dtype in DTYPES.values() if not dtype.is_exact]
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
HAS_TRITON = importlib.util.find_spec("triton") is not None

compiled = pytest.mark.skipif(cpu.kernel("glance") is None, reason="the C extension is not built")


def random_bits(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Any bits at all, so that NaN, infinities, zeros and subnormals are among them."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)
    raw[: count // 8 // dtype.itemsize * dtype.itemsize] = 0
    return raw.view(np.dtype(dtype.storage)).reshape(shape)


def rows_of(arrays: list[np.ndarray], dtype: DType) -> np.ndarray:
    return np.concatenate([cpu.describe(array, dtype) for array in arrays])


def looked_at(arrays: list[np.ndarray], dtype: DType) -> np.ndarray:
    out = np.zeros(len(arrays), light.LOOK)
    light.look_batch(rows_of(arrays, dtype), out)
    return out


def by_numpy(arrays: list[np.ndarray], dtype: DType) -> np.ndarray:
    return np.array([light.look_at(array, dtype) for array in arrays], light.LOOK)


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    for name in light.LOOK.names:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@compiled
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_kernel_gives_what_numpy_gives(dtype: DType) -> None:
    sizes = [(0,), (1,), (7,), (4096,), (4097,), (3, 1000), (100_000,)]
    arrays = [random_bits(dtype, shape, seed) for seed, shape in enumerate(sizes)]
    assert_same(looked_at(arrays, dtype), by_numpy(arrays, dtype))


@compiled
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64", "complex64", "float8_e4m3fn"])
def test_strides_do_not_matter(name: str) -> None:
    dtype = DTYPES[name]
    base = random_bits(dtype, (6, 10, 130), seed=5)
    views = [
        base.transpose(2, 0, 1),
        base[::2, :, 3:],
        base[:, ::3, ::-1],
        np.broadcast_to(base[0, :, None], (10, 4, 130)),
    ]
    for view in views:
        assert_same(looked_at([view], dtype), by_numpy([view], dtype))


@compiled
def test_both_instruction_sets_agree() -> None:
    kernels = sys.modules["trueline.numerics._kernels"]
    arrays = {dtype.name: [random_bits(dtype, (10_001,), 3)] for dtype in FLOATS}
    fast = {name: looked_at(one, DTYPES[name]) for name, one in arrays.items()}
    kernels.instruction_set(True)
    try:
        slow = {name: looked_at(one, DTYPES[name]) for name, one in arrays.items()}
    finally:
        kernels.instruction_set(False)
    for name in arrays:
        assert_same(fast[name], slow[name])


@pytest.mark.parametrize("without", [False, True])
def test_what_it_says(without: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if without:
        monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    values = np.array([0.0, -0.0, 1.0, -65504.0, 65504.0, np.inf, -np.inf, np.inf, np.nan, 6e-8], np.float16)
    look = looked_at([values], DTYPES["float16"])[0]
    assert (look["count"], look["nan"], look["positive_infinity"], look["negative_infinity"]) == (10, 1, 2, 1)
    assert (look["zeros"], look["subnormals"], look["saturated"]) == (2, 1, 2)
    assert look["largest"] == 65504.0 and look["smallest"] == np.float64(np.float16(6e-8))
    nothing = looked_at([np.array([np.nan, np.inf], np.float32)], DTYPES["float32"])[0]
    assert np.isnan(nothing["largest"]) and np.isnan(nothing["smallest"])
    zero = looked_at([np.zeros(3, np.float32)], DTYPES["float32"])[0]
    assert zero["largest"] == 0.0 and np.isnan(zero["smallest"]) and zero["zeros"] == 3


@pytest.mark.parametrize("without", [False, True])
def test_integers_are_only_counted(without: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if without:
        monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    look = looked_at([np.arange(12).reshape(3, 4).T], DTYPES["int64"])[0]
    assert look["count"] == 12 and look["zeros"] == 0 and np.isnan(look["largest"])


def test_numpy_reads_through_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    dtype = DTYPES["bfloat16"]
    base = random_bits(dtype, (5, 8, 9))
    views = [base, base.transpose(2, 1, 0), base[1:, ::2], base[:0]]
    assert_same(looked_at(views, dtype), by_numpy(views, dtype))


@pytest.mark.parametrize("shape", [(131_072,), (500_000,), (1_000_003,), (700, 1000), (3, 200, 1024)])
@pytest.mark.parametrize("view", ["plain", "transposed", "sliced"])
def test_parts_hold_everything_in_the_end(shape: tuple[int, ...], view: str) -> None:
    outside = -1.0
    values = np.full([size + 8 * (view == "sliced") for size in shape], outside, np.float32)
    seen = values[tuple(slice(0, size) for size in shape)]
    seen[...] = np.arange(seen.size).reshape(shape)
    seen = seen.T if view == "transposed" else seen
    row = cpu.describe(seen, DTYPES["float32"])
    parts = min(seen.size // light.PART_LEAST, light.PART_MOST)
    times = np.zeros(seen.size, np.int64)
    for number in range(2 * parts):
        part = light.part_of(row, number)
        found = light._elements(part[0]).reshape(-1)
        assert len(found) == part["numel"][0] <= seen.size // parts * 1.2 + light.PART_BLOCK
        assert (found != outside).all()
        times += np.bincount(found.astype(np.int64), minlength=seen.size)
    assert times.min() >= 1, "an element was never looked at"
    assert times.max() <= 2


def test_small_tensors_have_no_parts() -> None:
    row = cpu.describe(np.zeros(131_071, np.float32), DTYPES["float32"])
    assert light.part_of(row, 3) is row


def test_wrong_tables_are_refused() -> None:
    with pytest.raises(UsageError, match="contiguous table"):
        light.look_batch(np.zeros(2, DESCRIPTOR), np.zeros(3, light.LOOK))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64", "float8_e5m2", "complex64"])
def test_plain_torch_operations_agree(name: str) -> None:
    torch = pytest.importorskip("torch")
    from trueline.frameworks.torch.light_groups import PlainGroup

    dtype = DTYPES[name]
    bits = random_bits(dtype, (37, 11), 9)
    tensor = torch.from_numpy(bits.view(np.uint8).copy()).view(getattr(torch, name)).reshape(37, 11)
    group = PlainGroup()
    group.read([tensor], cpu.describe(bits, dtype))
    assert_same(group.fetch().wait(), by_numpy([bits], dtype))


@pytest.mark.skipif(not (HAS_TRITON and INTERPRETING), reason="needs Triton and TRITON_INTERPRET=1")
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64", "complex64"])
def test_triton_kernel_agrees(name: str) -> None:
    from trueline.numerics.cuda_light import LightReducer

    dtype = DTYPES[name]
    ordinary = np.random.default_rng(1).standard_normal(40_000).astype(np.float32)
    arrays = [random_bits(dtype, (5000,), 1), random_bits(dtype, (40, 50), 2).T, random_bits(dtype, (1,), 3)]
    arrays += [random_bits(dtype, (40, 264), 4)[:, 8:136], random_bits(dtype, (3, 7, 32), 5)[:, ::2]]
    if name == "float32":
        arrays += [ordinary, ordinary[:2048], np.zeros(3000, np.float32)]
    reducer = LightReducer("cpu")
    for first, last in ((0, 2), (2, len(arrays))):
        reducer.launch(rows_of(arrays[first:last], dtype), first)
    found: Any = reducer.fetch()
    assert found.ready()
    assert_same(found.wait(), by_numpy(arrays, dtype))
    assert len(reducer.fetch().wait()) == 0


@pytest.mark.skipif(not HAS_TRITON or INTERPRETING, reason="needs Triton, whose interpreter runs in a child")
def test_triton_kernel_in_the_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", __file__, "-k", "test_triton_kernel_agrees"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "passed" in done.stdout


@pytest.mark.skipif(not HAS_TRITON or INTERPRETING, reason="needs Triton")
def test_triton_kernel_compiles_without_a_device() -> None:
    """For a device that is not here, into wide loads."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from trueline.numerics.cuda_light_kernels import look_at_blocks

    source = ASTSource(fn=look_at_blocks, signature={"table": "i64", "results": "i64"}, constexprs={})
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    assert "ld.global.v4.b32" in compiled.asm["ptx"]
