"""What a program returned as plain Python, so that two runs in two processes can be compared bit for bit."""

from __future__ import annotations

import hashlib
import re
import struct
from typing import Any

import torch

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def without_addresses(text: str) -> str:
    """Texts without the addresses of objects."""
    return _ADDRESS.sub("0x…", text)


def _bits(x: torch.Tensor) -> tuple[Any, ...]:
    """The bytes of the elements: their digest, and how the first ones look."""
    plain = x.resolve_conj().resolve_neg().contiguous().view(-1)
    data = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return hashlib.sha256(data).hexdigest()[:16], repr(plain[:4].tolist()), data[:32].hex()


def _elements(x: torch.Tensor) -> Any:
    x = x.detach()
    if x.device.type != "cpu":
        return None
    if x.layout is torch.jagged or x.is_nested:
        return [describe(part) for part in x.unbind()]
    if x.layout is not torch.strided:
        return _bits(x.to_dense())
    if x.is_quantized:
        return _bits(x.int_repr()), repr(x.qscheme())
    return _bits(x)


def _tensor(x: torch.Tensor) -> tuple[Any, ...]:
    try:
        with torch._C.DisableTorchFunctionSubclass():
            facts = (
                type(x).__name__,
                str(x.dtype),
                str(tuple(x.shape)) if not x.is_nested else "nested",
                x.stride() if x.layout is torch.strided and not x.is_nested else str(x.layout),
                x.requires_grad,
                type(x.grad_fn).__name__,
                x.is_conj() or x.is_neg(),
            )
            return "tensor", *facts, _elements(x)
    except Exception as error:
        return (
            "tensor",
            type(x).__name__,
            f"cannot be read: {type(error).__name__} {without_addresses(str(error))[:80]}",
        )


def describe(value: Any) -> Any:
    """Nested tuples of numbers and texts; equal exactly if the values are the same bits."""
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, float):
        return "float", repr(value), struct.pack("<d", value).hex()
    if value is None or type(value) in (bool, int, bytes, complex):
        return type(value).__name__, value
    if isinstance(value, str):
        return "text", without_addresses(value)
    if isinstance(value, dict):
        return type(value).__name__, tuple((describe(key), describe(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(describe(item) for item in value)
    return type(value).__name__, without_addresses(repr(value))


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """Where two descriptions part first; empty where they are equal."""
    if one == other:
        return ""
    if isinstance(one, tuple) and isinstance(other, tuple):
        for place, (left, right) in enumerate(zip(one, other, strict=False)):
            if found := first_difference(left, right, f"{path}.{place}" if path else str(place)):
                longer = f" (of {len(one)} against {len(other)})" if len(one) != len(other) else ""
                return found + longer
        rest = (one[len(other) :] or other[len(one) :])[0]
        return f"{path}: {len(one)} against {len(other)} items, first alone {rest!r:.200}"
    if isinstance(one, str) and isinstance(other, str):
        same = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        start = max(0, same - 30)
        return f"{path}: {one[start:]!r:.160} became {other[start:]!r:.160}"
    return f"{path}: {one!r:.160} became {other!r:.160}"
