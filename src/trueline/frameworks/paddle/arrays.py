"""Bits in, tensors out, and back: how the content of a Case enters Paddle and how results leave it.

Layouts are kept: a tensor that was a slice, a transposition or an expansion is one again. Every change of dtype is
asserted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Bits, CannotExecute
from trueline.frameworks.layouts import contiguous_strides, in_memory, number_array
from trueline.frameworks.paddle.rebuild import dtype_name, paddle_dtype
from trueline.frameworks.rounding import widened_bits

_DIRECT = {
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
}  # fmt: skip
"""Types that Paddle takes from numpy with the very same bits (bfloat16 as uint16). Others enter as bytes, which are
then looked at as that type: Paddle 3.0 dies of this with complex ones."""


def cast(value: Any, name: str) -> Any:
    """The tensor in another dtype; nothing is believed."""
    made = value.astype(paddle_dtype(name))
    assert dtype_name(made.dtype) == name, f"a cast to {name} gave {made.dtype}"
    return made


def as_fed(array: ArrayIn, *, wide: bool) -> ArrayIn:
    """The content of a tensor as a call is given it: ``wide`` makes floats float64."""
    kind = dtype_named(array.dtype)
    if not wide or kind.is_exact:
        return array
    name = "complex128" if kind.is_complex else "float64"
    return ArrayIn(widened_bits(array).astype(np.dtype(DTYPES[name].storage), copy=False), name)


def enter(array: ArrayIn, strides: tuple[int, ...] | None, place: Any) -> Any:
    """A tensor with this content and layout, of its own memory."""
    bits, name = array
    memory = in_memory(bits, strides)
    if memory is None:
        made = tensor_of(bits, name, place)
    else:
        made = paddle.as_strided(tensor_of(memory, name, place), list(bits.shape), list(strides or ()))
    assert dtype_name(made.dtype) == name, f"{name} became {made.dtype}"
    return made


def tensor_of(bits: Bits, name: str, place: Any) -> Any:
    """A contiguous tensor of its own with these bits."""
    wanted, shape = paddle_dtype(name), list(bits.shape)
    if not bits.size:
        return paddle.empty(shape, dtype=wanted)
    if name in _DIRECT:
        storage = np.ascontiguousarray(bits, dtype=np.dtype(DTYPES[name].storage)).reshape(bits.shape)
        return paddle.to_tensor(storage, place=place)
    raw = np.array(bits, order="C").reshape(-1).view(np.uint8)
    return paddle.to_tensor(raw, place=place).view(wanted).reshape(shape)


def bits_of(value: Any, *, shared: bool = False) -> Bits:
    """The elements of a tensor, from any device, as an array of the storage type, in C order; of its own memory, or of
    that of the tensor where it may be ``shared``."""
    name = dtype_name(value.dtype)
    if name not in DTYPES:
        raise CannotExecute(f"it gives a tensor of {name}, which is not known here")
    storage = np.dtype(DTYPES[name].storage)
    value = dense(value.detach())
    shape = tuple(value.shape)
    if 0 in shape:
        return np.empty(shape, dtype=storage)
    if shared and value.place.is_cpu_place() and value.is_contiguous():
        return np.asarray(_Memory(value, storage, shape))
    bits: Bits = np.ascontiguousarray(value.numpy())
    return bits.view(storage).reshape(shape)


def is_made(value: Any) -> bool:
    """Whether a kernel made this result: an optional one that was not asked for lies nowhere, and Paddle cannot say
    where. An empty one lies somewhere, though it has no memory."""
    if value._is_initialized():
        return True
    try:
        return value.place is not None
    except RuntimeError:
        return False


class _Memory:
    """Lets numpy see the memory of a tensor, which lives as long as the array. Paddle itself only makes copies."""

    def __init__(self, value: Any, storage: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._value = value
        self.__array_interface__ = {
            "version": 3, "typestr": storage.str, "data": (value.data_ptr(), True), "shape": shape,
        }  # fmt: skip


def dense(value: Any) -> Any:
    """A sparse tensor, or the rows of a gradient that is otherwise zero, as a plain one."""
    if value.is_selected_rows():
        rows = value.get_selected_rows()
        made = paddle.zeros([rows.height(), *value.shape[1:]], dtype=value.dtype)
        index = paddle.to_tensor(np.array(rows.rows(), dtype=np.int64))
        return paddle.index_add(made, index, 0, value._get_tensor_from_selected_rows())
    return value.to_dense() if value.is_sparse() else value


def leave(value: Any, alias: str = "", *, shared: bool = False) -> ArrayOut:
    """A result as bits: a tensor, whose memory may be ``shared``, or a plain number."""
    if not isinstance(value, paddle.Tensor):
        bits, name = number_array(value)
        return ArrayOut(bits, name, bits.shape, contiguous_strides(bits.shape), "")
    plain = value.is_dense()
    bits, name = bits_of(value, shared=shared), dtype_name(value.dtype)
    strides = tuple(value.strides) if plain and bits.size else contiguous_strides(bits.shape)
    note = "" if plain else ("layout selected rows" if value.is_selected_rows() else "layout sparse")
    return ArrayOut(bits, name, bits.shape, strides, device_of(value), note, alias)


def device_of(value: Any) -> str:
    """The kind of device that a tensor lies on: ``cpu``, ``gpu``, ``npu``."""
    place = value.place
    if place.is_cpu_place() or place.is_cuda_pinned_place():
        return "cpu"
    if place.is_gpu_place():
        return "gpu"
    return str(place.custom_device_type()) if place.is_custom_place() else "xpu"
