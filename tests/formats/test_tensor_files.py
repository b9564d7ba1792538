"""Tensors in the files of numpy, torch and Paddle: exact bits both ways, and files that lie are refused."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType
from trueline.formats import npy, paddle_files, torch_files
from trueline.formats.limits import ForeignFileError
from trueline.formats.tensor_files import read_tensor

NAMES = [name for name in DTYPES if name != "complex32"]


def bits(dtype: DType, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, Any]:
    """Any bits, but for bools."""
    count = int(np.prod(shape))
    if dtype.name == "bool":
        return (np.arange(count) % 3 == 0).reshape(shape)
    raw = np.random.default_rng(dtype.code).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype.storage).reshape(shape)


@pytest.mark.parametrize("shape", [(3, 4), (), (0, 5), (7,)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_torch_files_keep_every_bit(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = bits(DTYPES[name], shape)
    torch_files.write_tensor(tmp_path / "x.pt", array, DTYPES[name])
    found, dtype, remark = read_tensor(tmp_path / "x.pt", name, shape)
    assert (dtype.name, found.shape, remark) == (name, shape, "")
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("uz") and name != "float8_e8m0fnu"])
def test_torch_reads_what_we_write_and_we_read_what_torch_writes(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, name)
    array = bits(DTYPES[name])
    torch_files.write_tensor(tmp_path / "ours.pt", array, DTYPES[name], requires_grad=False)
    loaded = torch.load(tmp_path / "ours.pt", weights_only=True)
    assert loaded.dtype is kind and tuple(loaded.shape) == (3, 4)
    assert loaded.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() == array.tobytes()
    torch.save(loaded.t(), tmp_path / "theirs.pt")  # a view: strides count
    found, dtype, _ = read_tensor(tmp_path / "theirs.pt")
    assert dtype.name == name and found.shape == (4, 3)
    assert np.ascontiguousarray(found.T).tobytes() == array.tobytes()


def test_what_torch_saves_besides_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    content = {"a": [torch.ones(2, 2), torch.nn.Parameter(torch.zeros(3))], "b": (1, "x", None), "n": torch.Size([1])}
    torch.save(content, tmp_path / "x.pt")
    found = torch_files.read_torch(tmp_path / "x.pt")
    assert found["b"] == (1, "x", None) and found["n"] == (1,)
    assert found["a"][0].array().tolist() == [[1, 1], [1, 1]] and found["a"][1].requires_grad
    with pytest.raises(ForeignFileError, match="not one tensor"):
        read_tensor(tmp_path / "x.pt")


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int64", "bool", "uint8", "float64", "complex64"])
def test_paddle_reads_what_we_write_and_we_read_what_paddle_writes(name: str, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle")
    array = bits(DTYPES[name])
    paddle_files.write_tensor(tmp_path / "ours.pt", "w", array, DTYPES[name])
    loaded = paddle.load(str(tmp_path / "ours.pt"), return_numpy=True)
    assert np.asarray(loaded).tobytes() == array.tobytes()
    values = paddle.to_tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).astype(name)
    for protocol in (2, 3, 4):
        path = tmp_path / f"theirs{protocol}.pt"
        paddle.save(values, str(path), protocol=protocol)
        found, dtype, remark = read_tensor(path, name, (2, 3))
        assert (dtype.name, remark) == (name, "")
        assert found.tobytes() == np.asarray(values.numpy()).tobytes()


def test_npy_files_as_numpy_writes_them(tmp_path: Path) -> None:
    for place, array in enumerate(
        (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(3 + 4j),
         np.arange(4, dtype=">f4"), np.zeros((0, 2), np.float16), np.array([True, False]))
    ):  # fmt: skip
        path = tmp_path / f"{place}.npy"
        np.save(path, array)
        found, dtype = npy.read_npy(path)
        assert np.array_equal(found, array) and dtype.name == array.dtype.newbyteorder("=").name
        npy.write_npy(tmp_path / f"again{place}.npy", found)
        assert np.array_equal(np.load(tmp_path / f"again{place}.npy"), array)


def test_what_numpy_cannot_say_comes_back_as_it_was(tmp_path: Path) -> None:
    half = bits(DTYPES["bfloat16"])
    half[half & 0x7F80 == 0x7F80] = 0x3F80  # NaN has many bits
    wide = (half.astype(np.uint32) << 16).view(np.float32)
    npy.write_npy(tmp_path / "x.npy", wide)
    found, dtype, remark = read_tensor(tmp_path / "x.npy", "bfloat16", (3, 4))
    assert dtype.name == "bfloat16" and not remark and found.tobytes() == half.tobytes()
    npy.write_npy(tmp_path / "y.npy", wide + np.float32(1e-3))
    found, dtype, remark = read_tensor(tmp_path / "y.npy", "bfloat16")
    assert dtype.name == "float32" and "though the dump says bfloat16" in remark
    npy.write_npy(tmp_path / "z.npy", np.arange(4, dtype=np.float32))
    assert read_tensor(tmp_path / "z.npy", "int64")[1].name == "int64"


def npy_bytes(shape: str, descr: str = "'<f4'", content: bytes = b"\x00" * 16, version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + content
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy_bytes("(4,)")[:40], "ends in its header"),
        (npy_bytes("(4,)")[:-1], "was it cut off"),
        (npy_bytes("(1000000000000,)"), "would take"),
        (npy_bytes("(400000000000000000000,)"), "not a shape"),
        (npy_bytes("(4294967296, 4294967296)"), "absurd"),
        (npy_bytes("(-4,)"), "not a shape"),
        (npy_bytes("(4,)", "'|O'"), "not a plain number"),
        (npy_bytes("(4,)", "[('a', '<f4')]"), "not a plain number"),
        (npy_bytes("__import__('os').system('true')"), "header cannot be read"),
        (npy_bytes(r"'\N{DIGIT FOUR}'"), "header cannot be read"),
        (npy_bytes("(" * 5000 + ")" * 5000), "header cannot be read"),
        (npy_bytes("(4,)", version=9), "version 9"),
        (b"\x93NUMPY", "version 0"),
        (b"not numpy at all", "neither a .npy file"),
        (b"", "neither a .npy file"),
    ],
    ids=range(15),
)
def test_npy_files_that_lie(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=says):
        read_tensor(path)


def archive(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return stream.getvalue()


def tensor_archive(size: bytes, stride: bytes, count: int = 4, method: int = zipfile.ZIP_STORED) -> bytes:
    """A tensor over ``count`` floats with a size and strides of one's own."""
    description = torch_files._description((count,), DTYPES["float32"], False)
    start = description.index(b"tQK\x00") + 4
    end = description.index(b"\x89", start)
    changed = description[:start] + size + stride + description[end:]
    return archive({"archive/data.pkl": changed, "archive/data/0": bytes(4 * count), "archive/version": b"3"}, method)


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (tensor_archive(numbers(4), numbers(1), method=zipfile.ZIP_DEFLATED), "is compressed"),
        (tensor_archive(numbers(5), numbers(1)), "more numbers than are stored"),
        (tensor_archive(numbers(2), numbers(-1)), "not a shape"),
        (tensor_archive(numbers(2, 2), numbers(1)), "differ in length"),
        (tensor_archive(numbers(1 << 28), numbers(0)), "is made from 16 that are stored"),
        (tensor_archive(numbers(1 << 40), numbers(0)), "would take"),
        (tensor_archive(numbers(1 << 60), numbers(0)), "absurd"),
        (tensor_archive(numbers(4), numbers(1))[:-30], "no end|damaged"),
        (tensor_archive(numbers(4), numbers(1))[:60], "no end|damaged"),
        (archive({"archive/data.pkl": b"cos\nsystem\n(X\x04\x00\x00\x00truetR."}), "os.system"),
        (archive({"../../evil/data.pkl": b"N."}), "not one tensor"),
        (archive({"x": b""}), "not one of torch.save"),
        (archive({"a/data.pkl": b"N.", "a/byteorder": b"big"}), "big-endian"),
        (b"PK\x03\x04" + b"\x00" * 40, "no end"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "before 1.6"),
    ],
    ids=range(15),
)
def test_torch_files_that_lie(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=says):
        read_tensor(path)
    assert sorted(tmp_path.iterdir()) == [path]


def test_an_expanded_tensor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(tensor_archive(numbers(3, 4), numbers(0, 1)))
    assert read_tensor(path)[0].shape == (3, 4)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\x04cbuiltins\neval\n(X\x0e\x00\x00\x00__import__(1+1}tR.", "evaluate an expression|ends in the middle"),
        (b"\x80\x04cbuiltins\neval\nX\x03\x00\x00\x001+1}\x86R.", "evaluate an expression"),
        (b"\x80\x04cposix\nsystem\nX\x04\x00\x00\x00true\x85R.", "posix.system"),
        (b"\x80\x04]K\x01a.", "not one tensor"),
        (b"\x80\x04X\x01\x00\x00\x00xK\x01\x86.", "not one tensor"),
    ],
    ids=range(5),
)
def test_paddle_files_that_lie(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=says):
        read_tensor(path)


def test_a_paddle_array_that_is_larger_than_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    paddle_files.write_tensor(path, "x", np.zeros(4, np.float32), DTYPES["float32"])
    good = path.read_bytes()
    path.write_bytes(good.replace(struct.pack("<q", 4), struct.pack("<q", 1 << 50), 1))
    with pytest.raises(ForeignFileError, match="does not fit its 16 bytes"):
        read_tensor(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    import os

    with pytest.raises(ForeignFileError, match="not a file"):
        read_tensor(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFileError, match="not a file"):
        read_tensor(tmp_path / "pipe")
    with pytest.raises(ForeignFileError, match="No such file"):
        read_tensor(tmp_path / "nothing")


def test_a_shape_that_the_dump_does_not_say(tmp_path: Path) -> None:
    npy.write_npy(tmp_path / "x.npy", np.zeros(6, np.float32))
    assert read_tensor(tmp_path / "x.npy", "float32", (2, 3))[0].shape == (2, 3)
    with pytest.raises(ForeignFileError, match="the dump says"):
        read_tensor(tmp_path / "x.npy", "float32", (7,))
