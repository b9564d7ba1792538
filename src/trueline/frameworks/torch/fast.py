"""Loads the C extension that looks at tensors, and shows it the way into torch.

There is none where the gate says so (``gate.py``), where torch lacks the C interface it goes through, or where what it
says of a few tensors is not what torch says. Then Python does the same, slower.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from importlib import import_module
from typing import Any

import torch

from trueline.dtypes import DTYPES
from trueline.frameworks.torch import gate
from trueline.frameworks.torch.unseen import Unseen

Known = tuple[str, int, int]
"""Name, code and size of a dtype."""

KNOWN_DTYPES: dict[torch.dtype, Known] = {
    getattr(torch, name): (name, row.code, row.itemsize) for name, row in DTYPES.items() if hasattr(torch, name)
}

_LIBRARIES = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}
_FUNCTIONS = (
    "dim", "storage_size", "storage_offset", "dtype", "device_type", "device_index", "sizes", "strides", "data_ptr",
)  # fmt: skip

_IMPLEMENTATION_WORDS = (22, 24)
"""The words in which both are searched for: all that the implementation of a plain tensor has in torch 2.13, and in
the versions before it."""

_COUNTER_BYTES = 32
"""As far as a version counter may reach."""

_ODD_KEYS = (
    "Negative", "Conjugate", "ZeroTensor", "Python", "FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize",
)  # fmt: skip
"""The dispatch keys of tensors that do not hold what lies in their memory, or have none."""


def fast_looks() -> Any:
    """The extension, ready to be used; None where there is none."""
    return _load() if gate.way().fast else None


@cache
def _load() -> Any:
    try:
        look = import_module("trueline.frameworks.torch._look")
        library = ctypes.CDLL(_LIBRARIES[sys.platform], mode=getattr(os, "RTLD_NOLOAD", 0) | ctypes.DEFAULT_MODE)
        addresses = tuple(
            ctypes.cast(getattr(library, f"aoti_torch_get_{name}"), ctypes.c_void_p).value for name in _FUNCTIONS
        )
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            samples = [
                (torch.empty(0, dtype=dtype), known, DTYPES[known[0]].is_exact)
                for dtype, known in KNOWN_DTYPES.items()
                if dtype is not torch.complex32  # torch warns of each one that is made
            ]
            look.prepare(addresses, _words(), _more_words(), torch.empty(2, 3), torch.nn.Parameter, samples, copy_of)
            plain = all(_agrees(look, tensor) for tensor in _trials())
            return look if plain and all(look.facts(tensor) is None for tensor in _odd_trials()) else None
    except (ImportError, OSError, AttributeError, KeyError, TypeError, RuntimeError):
        return None


def _words() -> tuple[int, int, int, int]:
    """Where in a tensor's implementation its storage and its dispatch keys lie, in words, the keys of tensors that are
    not what lies in their memory, and the key of those that have one stretch of it. Raises where there is not exactly
    one such place."""
    for size in _IMPLEMENTATION_WORDS:
        found = _places_of_words(size)
        if found is not None:
            break
    else:
        raise RuntimeError("a tensor of this torch is not laid out as expected")
    odd = 0
    for name in _ODD_KEYS:
        odd |= _bits(name)
    odd |= _bits("Meta") & ~_bits("Dense")  # empty ones are as whole as others, but for a device that reads nothing
    return *found, odd, _bits("Dense")


def _bits(key: str) -> int:
    return int(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)).raw_repr())


def _places_of_words(size: int) -> tuple[int, int] | None:
    """The places of the storage and of the dispatch keys among the first ``size`` words; None where there is not
    exactly one of each that holds for every kind of tensor."""
    storage, keys = set(range(size)), set(range(size))
    for tensor in _trials() + _odd_trials():
        words = (ctypes.c_uint64 * size).from_address(tensor._cdata)
        place, key_set = tensor.untyped_storage()._cdata, torch._C._dispatch_keys(tensor).raw_repr()
        storage = {word for word in storage if words[word] == place}
        keys = {word for word in keys if words[word] == key_set}
    return (storage.pop(), keys.pop()) if len(storage) == 1 and len(keys) == 1 else None


_NOT_FOUND = (-1, -1, -1, -1)


def _more_words() -> tuple[int, int, int, int]:
    """Where the implementation's address lies in the Python object of a tensor; in the implementation that of its
    version counter, and in that the count; and the word that is zero where autograd knows nothing of the tensor. Each
    must be the only one that fits many tensors; else, and where memory cannot be read safely, none is used."""
    tensors = [torch.zeros(2) for _ in range(4)] + [torch.zeros(2, requires_grad=True) for _ in range(3)]
    for count, tensor in zip((0, 1, 3, 11, 2, 5, 130), tensors, strict=True):
        for _ in range(count):
            tensor.detach().zero_()
    size = torch.Tensor.__basicsize__ // 8
    objects = [
        word for word in range(2, size) if all(_words_at(id(tensor), size)[word] == tensor._cdata for tensor in tensors)
    ]
    bodies = [_words_at(tensor._cdata, _IMPLEMENTATION_WORDS[0]) for tensor in tensors]
    known = [
        word
        for word in range(_IMPLEMENTATION_WORDS[0])
        if all((body[word] != 0) == tensor.requires_grad for body, tensor in zip(bodies, tensors, strict=True))
    ]
    versions = _version_places(bodies, [tensor._version for tensor in tensors])
    if len(objects) != 1 or len(known) != 1 or len(versions) != 1:
        return _NOT_FOUND
    return objects[0], *versions[0], known[0]


def _version_places(bodies: list[list[int]], versions: list[int]) -> list[tuple[int, int]]:
    """The words that point to where the versions stand, and how far behind that address they do."""
    found: list[tuple[int, int]] = []
    if not os.access("/proc/self/mem", os.R_OK):
        return found
    with open("/proc/self/mem", "rb", buffering=0) as memory:  # unlike a pointer, a file can be asked for anything
        for word in range(_IMPLEMENTATION_WORDS[0]):
            behind = [_bytes_at(memory, body[word]) for body in bodies]
            for offset in range(8, _COUNTER_BYTES, 4):
                read = [int.from_bytes(raw[offset : offset + 4], sys.byteorder) for raw in behind if len(raw) > offset]
                if read == versions:
                    found.append((word, offset))
    return found


def _bytes_at(memory: Any, address: int) -> bytes:
    try:
        return os.pread(memory.fileno(), _COUNTER_BYTES, address) if 0 < address < 2**47 else b""
    except OSError:
        return b""


def _words_at(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _trials() -> list[torch.Tensor]:
    """Tensors of many kinds, all of them as they lie in memory."""
    base = torch.zeros(4, 5, 6)
    base.add_(1)
    views = [base, base[1:, 2], base.transpose(0, 2), base.expand(3, 4, 5, 6)[:, ::2]]
    parameter = torch.nn.Parameter(base.clone())
    kinds = [torch.zeros(3, dtype=torch.bfloat16), torch.arange(7), torch.zeros(2, dtype=torch.complex64)]
    return [*views, torch.zeros(()), torch.zeros(0, 3), parameter, parameter * 2, *kinds]


def _odd_trials() -> list[torch.Tensor]:
    """Tensors that are not what lies in their memory."""
    pair = torch.zeros(3, dtype=torch.complex64)
    return [torch._neg_view(torch.zeros(3)), pair.conj(), pair.conj().imag, torch._efficientzerotensor(3)]


def _agrees(look: Any, tensor: torch.Tensor) -> bool:
    return bool(
        look.facts(tensor)
        == (
            tensor.untyped_storage()._cdata,
            tensor._version,
            tensor.data_ptr(),
            tensor.numel(),
            KNOWN_DTYPES[tensor.dtype],
            tensor.is_contiguous(),
            tensor.untyped_storage().nbytes(),
            tensor.storage_offset(),
            tuple(tensor.shape),
            tensor.stride(),
        )
    )


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy that nobody else knows of; the witness does not count it either."""
    with Unseen():
        return tensor.detach().clone(memory_format=torch.contiguous_format)
