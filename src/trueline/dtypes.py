"""The element types of tensors, named as torch and paddle name them, with the facts that other rooms need.

No framework and no numpy type is mentioned here besides the numpy type code, so that a Run can be read where
neither torch nor paddle is installed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trueline.errors import UsageError


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    ``code`` is the number by which kernels and files know the type and never changes. ``storage`` is the numpy
    type with the same bits (an unsigned integer where numpy has no such float). ``digits`` counts the bits of
    the significand, the hidden one included: 24 for float32, 0 for exact types.
    """

    name: str
    code: int
    itemsize: int
    kind: str
    storage: str
    safetensors: str | None
    digits: int = 0
    exponent_min: int = 0
    exponent_max: int = 0

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_exact(self) -> bool:
        """Whether equal means equal to the last bit: integers and bools."""
        return self.kind in "iub"

    @property
    def epsilon(self) -> float:
        """The distance from 1.0 to the next larger number; 0.0 for exact types."""
        return 2.0 ** (1 - self.digits) if self.digits else 0.0

    @property
    def largest(self) -> float:
        """The largest finite number of a float type."""
        lost = self.epsilon if self.name == "float8_e4m3fn" else 0.0  # its last pattern is NaN
        return (2.0 - self.epsilon - lost) * 2.0**self.exponent_max


_ROWS = (
    DType("float32", 0, 4, "f", "<f4", "F32", 24, -126, 127),
    DType("float64", 1, 8, "f", "<f8", "F64", 53, -1022, 1023),
    DType("float16", 2, 2, "f", "<f2", "F16", 11, -14, 15),
    DType("bfloat16", 3, 2, "f", "<u2", "BF16", 8, -126, 127),
    DType("float8_e4m3fn", 4, 1, "f", "|u1", "F8_E4M3", 4, -6, 8),
    DType("float8_e5m2", 5, 1, "f", "|u1", "F8_E5M2", 3, -14, 15),
    DType("float8_e4m3fnuz", 6, 1, "f", "|u1", None, 4, -7, 7),
    DType("float8_e5m2fnuz", 7, 1, "f", "|u1", None, 3, -15, 15),
    DType("float8_e8m0fnu", 8, 1, "f", "|u1", None, 1, -127, 127),
    DType("int64", 9, 8, "i", "<i8", "I64"),
    DType("int32", 10, 4, "i", "<i4", "I32"),
    DType("int16", 11, 2, "i", "<i2", "I16"),
    DType("int8", 12, 1, "i", "|i1", "I8"),
    DType("uint8", 13, 1, "u", "|u1", "U8"),
    DType("uint16", 14, 2, "u", "<u2", "U16"),
    DType("uint32", 15, 4, "u", "<u4", "U32"),
    DType("uint64", 16, 8, "u", "<u8", "U64"),
    DType("bool", 17, 1, "b", "|b1", "BOOL"),
    DType("complex64", 18, 8, "c", "<c8", None, 24, -126, 127),
    DType("complex128", 19, 16, "c", "<c16", None, 53, -1022, 1023),
    DType("complex32", 20, 4, "c", "<u4", None, 11, -14, 15),
)

DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
BY_CODE: dict[int, DType] = {row.code: row for row in _ROWS}


def dtype_named(name: str) -> DType:
    """Looks up a type by its name, with or without a framework's prefix (``torch.float32``)."""
    plain = name.rpartition(".")[2]
    try:
        return DTYPES[plain]
    except KeyError:
        raise UsageError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}") from None


def limit_of(name: str) -> float:
    """The base-2 logarithm of the largest number of a dtype; NaN for types that cannot overflow to infinity."""
    kind = DTYPES.get(name)
    return math.log2(kind.largest) if kind is not None and kind.is_float else math.nan
