"""Bits in, tensors out, and back: how the content of a Case enters torch and how results leave it.

Layouts are kept: a tensor that was a slice, a transposition or an expansion is one again. Every change of dtype is
asserted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Bits
from trueline.frameworks.layouts import contiguous_strides, in_memory, number_array
from trueline.frameworks.rounding import widened_bits
from trueline.frameworks.torch.rebuild import Unreplayable, dtype_name, tensor_of, torch_dtype

_DIRECT = frozenset(("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"))
"""Types whose storage numpy takes from torch as it is, where nothing about a tensor is peculiar."""


def cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in another dtype; nothing is believed."""
    made = value.to(dtype)
    assert made.dtype is dtype, f"a cast to {dtype} gave {made.dtype}"
    return made


def enter(array: ArrayIn, strides: tuple[int, ...] | None, device: torch.device, *, wide: bool) -> torch.Tensor:
    """A tensor with this content and layout, of its own memory; ``wide`` makes floats float64."""
    kind = dtype_named(array.dtype)
    bits, name = array.bits, kind.name
    if wide and not kind.is_exact:
        bits, name = widened_bits(array), "complex128" if kind.is_complex else "float64"
    made = _laid_out(bits, name, strides, given=bits is not array.bits)
    assert made.dtype is torch_dtype(name)
    return made.to(device) if made.is_contiguous() else _moved(made, device)


def _laid_out(bits: Bits, dtype: str, strides: tuple[int, ...] | None, *, given: bool) -> torch.Tensor:
    memory = in_memory(bits, strides)
    if memory is None or strides is None:
        return tensor_of(bits, dtype, given=given)
    # What is not contiguous begins after something else, as views of larger tensors do.
    memory = np.concatenate((memory[-1:], memory))
    return tensor_of(memory, dtype, given=True).as_strided(bits.shape, strides, 1)


def _moved(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """On another device with the same strides, which ``to`` does not promise."""
    if value.device == device or value.numel() == 0:
        return value.to(device)
    length = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.as_strided((length,), (1,)).to(device).as_strided(value.shape, value.stride())


def rounded(array: ArrayIn, dtype: str) -> ArrayIn:
    """The array in another floating dtype, each number rounded once."""
    if array.dtype == dtype:
        return array
    made = cast(tensor_of(array.bits, array.dtype), torch_dtype(dtype))
    return ArrayIn(bits_of(made), dtype)


def bits_of(value: torch.Tensor, *, shared: bool = False) -> Bits:
    """The elements of a tensor, from any device, as an array of the storage type, in C order; of its own memory, or of
    that of the tensor where it may be ``shared``."""
    name = dtype_name(value.dtype)
    if name not in DTYPES:
        raise Unreplayable(f"it gives a tensor of {name}, which is not known here")
    storage = np.dtype(DTYPES[name].storage)
    value = value.detach()
    if name in _DIRECT and type(value) is torch.Tensor and _is_plain(value):
        return (np.asarray if shared else np.array)(value.numpy(), dtype=storage, order="C")
    if value._is_zerotensor():
        value = value.clone()
    if value.layout is not torch.strided:
        value = value.to_dense()
    if value.is_complex():
        value = value.resolve_conj()
    value = value.resolve_neg().contiguous()
    if value.numel() == 0:
        return np.empty(tuple(value.shape), dtype=storage)
    flat = value.reshape(-1)
    if flat.stride(0) != 1:  # a single element, expanded
        flat = flat.clone(memory_format=torch.contiguous_format)
    raw: Bits = flat.view(torch.uint8).cpu().numpy()
    bits: Bits = raw.view(storage).reshape(tuple(value.shape))
    return bits if shared else bits.copy()


def _is_plain(value: torch.Tensor) -> bool:
    strided = value.layout is torch.strided and value.device.type == "cpu"
    return strided and not (value.is_neg() or value._is_zerotensor())


def leave(value: Any, alias: str = "", *, shared: bool = False) -> ArrayOut:
    """A result as bits: a tensor, whose memory may be ``shared``, or a plain number."""
    if not isinstance(value, torch.Tensor):
        bits, name = number_array(value)
        return ArrayOut(bits, name, bits.shape, contiguous_strides(bits.shape), "")
    strided = value.layout is torch.strided
    strides = tuple(value.stride()) if strided else contiguous_strides(tuple(value.shape))
    note = "" if strided else f"layout {value.layout}"
    name, shape, device = dtype_name(value.dtype), tuple(value.shape), value.device.type
    if hasattr(value, "array"):  # a wide gold
        from trueline.frameworks.torch.wide import narrow

        high, low = narrow(value)
        return ArrayOut(np.array(high, order="C"), name, shape, strides, device, note, alias, np.array(low, order="C"))
    bits, tracked = bits_of(value, shared=shared), value.requires_grad
    return ArrayOut(bits, name, shape, strides, device, note, alias, tracked=tracked)
