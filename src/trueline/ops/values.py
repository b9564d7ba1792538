"""Values that matter: what the numbers of a drawn tensor are, so that a wrong implementation shows.

A case is drawn once or several times; the number of the draw says which values:

    plain     well conditioned and where the operator has something to do: across the limits of ``relu6``, with halves
              for ``round``, zeros for ``logical_and``, equal elements for ``eq``, NaN for ``isnan``
    edges     zeros of both signs, ones, the smallest and the largest magnitudes that the operator bears, ends of the
              domain, first and last indices, extremes of integers, equal elements
    wide      magnitudes spread evenly over many powers of two, with both signs where the domain has both
    special   NaN and infinities in some places, for operators that say what becomes of them; else as plain

and so on around again, each with a seed of its own. What an operator needs (``ops.needs``) holds in every draw: values
of a range stay in it, and what is more than a range (a permutation, a factor of a matrix) is as it is. Values are made
of random integers by exact operations alone, so that they are the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType, dtype_named
from trueline.ops.domains import draw as draw_domain
from trueline.ops.domains import parse
from trueline.ops.few import FEW, few_elements
from trueline.ops.mapping.rows import row_for
from trueline.ops.names import canonical
from trueline.ops.needs import is_structural
from trueline.ops.spans import Span, span_of
from trueline.tree import Tree

Array = NDArray[Any]
Generator = np.random.Generator
Shape = tuple[int, ...]
Maker = Callable[[Generator, Shape], Array]

DRAWS = ("plain", "edges", "wide", "special")


def kind_of_draw(number: int) -> str:
    """Which values a draw has: draw 4 those of draw 0, with another seed."""
    return DRAWS[number % len(DRAWS)]


def values_for(
    api: str, domain: str, dtype: str, draw: int, arguments: Tree = None, *, position: int = 0, seed: int = 0
) -> Maker | None:
    """Who makes the values of a tensor of a call in a draw; None where the domain alone says it all. Floats come as
    float64 and complex numbers as complex128, still to be rounded; integers and bools in their own type. ``position``
    counts the tensors of the call; few elements of several tensors are made to meet by it."""
    maker = _maker(api, domain, dtype, kind_of_draw(draw))
    if draw or domain not in _ANYTHING:
        return maker
    name = canonical(api)
    if arguments is not None and name in _LIMITED:
        maker = _across_limits(arguments, dtype) or maker
    few = few_elements(name, dtype_named(dtype), position, seed)
    if few is None:
        return maker
    usual = maker if maker is not None else _base(name, domain, dtype_named(dtype))
    return lambda generator, shape: few(generator, shape) if math.prod(shape) <= FEW else usual(generator, shape)


@lru_cache(maxsize=16384)
def _maker(api: str, domain: str, dtype: str, kind_of_values: str) -> Maker | None:
    kind, name = dtype_named(dtype), canonical(api)
    if kind_of_values == "special" and (kind.is_exact or not _bears(name, kind)):
        kind_of_values = "plain"
    if kind_of_values == "plain" or not _is_itself(api, name):
        return _plain(name, domain, kind)
    if is_structural(domain):
        return None
    if kind_of_values == "special":
        return _special(_base(name, domain, kind), kind)
    if kind.kind == "b":
        return _bools(0.85 if kind_of_values == "edges" else 0.15)
    span = _span(api, name, domain, kind)
    if span is None or (kind_of_values == "edges" and name in _NO_TIES):
        return None
    if kind.is_exact:
        return _integers(span, kind) if kind_of_values == "edges" else None
    if kind_of_values == "wide":
        return _of_parts(span.wide, kind)
    return _edged(_base(name, domain, kind), span, kind)


def takes_complex(api: str) -> bool:
    """Whether an operator that was given real numbers takes complex ones as well."""
    return canonical(api) in _TAKES_COMPLEX


# The plain draw: an operator whose interesting values are not those of a bell around zero has a row.

_ANYTHING = ("", "normal")
"""Domains that say nothing: the operator bears any number."""


def _plain(name: str, domain: str, kind: DType) -> Maker | None:
    if domain not in _ANYTHING or kind.kind == "b":
        return None
    row = _PLAIN.get(name)
    return None if row is None else _of_parts(lambda generator, shape: row(generator, shape, kind), kind)


def _base(name: str, domain: str, kind: DType) -> Maker:
    """The values of the plain draw."""
    plain = _plain(name, domain, kind)
    return plain if plain is not None else lambda generator, shape: draw_domain(domain, generator, shape, kind.name)


def _of_parts(make: Maker, kind: DType) -> Maker:
    """Complex numbers as two real ones."""
    if not kind.is_complex:
        return make

    def made(generator: Generator, shape: Shape) -> Array:
        values = np.empty(shape, np.complex128)
        values.real, values.imag = make(generator, shape), make(generator, shape)
        return values

    return made


def _few(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Three different values, so that elements are equal within a tensor and between tensors."""
    pool = np.array([0, 2, 1]) if kind.kind == "u" else np.array([-1, 2, 0]) if kind.is_exact else _FEW
    chosen = pool[generator.integers(0, len(pool), shape)]
    return chosen.astype(kind.storage) if kind.is_exact else chosen


_FEW = np.array([-1.0, 2.0, 0.5])


def _half_zeros(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Zeros and others in equal shares."""
    others = draw_domain("normal", generator, shape, _real(kind))
    return np.where(generator.random(shape) < 0.5, np.zeros((), others.dtype), others)


def _some_zeros(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Mostly not zero; at least one zero where there are a few elements."""
    values = draw_domain("normal", generator, shape, _real(kind))
    zeros = np.asarray(generator.random(shape) < 0.1)
    if zeros.size > 3 and not zeros.any():
        zeros.reshape(-1)[int(generator.integers(0, zeros.size))] = True
    return np.where(zeros, np.zeros((), values.dtype), values)


def _broad(generator: Generator, shape: Shape, kind: DType) -> Array:
    """From -9 to 9: wide enough for what bends at 6 or levels off at 3."""
    if kind.is_exact:
        return draw_domain("normal", generator, shape, kind.name)
    return 18.0 * generator.random(shape) - 9.0


def _halves(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Multiples of one half, where rounding has to choose, among others."""
    if kind.is_exact:
        return draw_domain("normal", generator, shape, kind.name)
    halves = generator.integers(-12, 13, shape) / 2.0
    return np.where(generator.random(shape) < 0.4, halves, 12.0 * generator.random(shape) - 6.0)


def _with_nan(generator: Generator, shape: Shape, kind: DType) -> Array:
    values = draw_domain("normal", generator, shape, _real(kind))
    return values if kind.is_exact else np.where(_places(generator, shape, 0.25), np.nan, values)


def _not_finite(generator: Generator, shape: Shape, kind: DType) -> Array:
    """NaN and both infinities, each in a good share of the elements."""
    values = draw_domain("normal", generator, shape, _real(kind))
    if kind.is_exact:
        return values
    chosen = np.array([np.nan, np.inf, -np.inf])[generator.integers(0, 3, shape)]
    return np.where(_places(generator, shape, 0.6), chosen, values)


def _real(kind: DType) -> str:
    return "float64" if kind.is_complex else kind.name


def _places(generator: Generator, shape: Shape, share: float) -> NDArray[np.bool_]:
    return np.asarray(generator.random(shape) < share)


_Row = Callable[[Generator, Shape, DType], Array]


def _rows(rows: dict[str, _Row]) -> dict[str, _Row]:
    return {name: row for names, row in rows.items() for name in names.split()}


_PLAIN: dict[str, _Row] = _rows({
    "eq ne gt ge lt le equal isin unique unique_consecutive mode": _few,
    "logical_and logical_or logical_xor logical_not any all nonzero count_nonzero argwhere "
    "bool is_nonzero": _half_zeros,
    "abs sign relu heaviside copysign signbit": _some_zeros,
    "relu6 hardswish hardsigmoid hardtanh softplus softshrink hardshrink tanhshrink logsigmoid softsign mish "
    "selu gelu silu sigmoid sin cos threshold thresholded_relu": _broad,
    "round ceil floor trunc frac": _halves,
    "isnan isinf isfinite isposinf isneginf": _not_finite,
    "nan_to_num nansum nanmean nanmedian nanquantile": _with_nan,
})  # fmt: skip

_LIMITED = frozenset("clamp clamp_min clamp_max hardtanh threshold thresholded_relu hardshrink softshrink".split())
"""Operators whose arguments say where they begin to do something."""


def _across_limits(arguments: Tree, dtype: str) -> Maker | None:
    """Values on both sides of the numbers that a call was given; None where there are none that can be crossed."""
    kind = dtype_named(dtype)
    numbers = [*arguments.get("args", []), *arguments.get("kwargs", {}).values()]
    limits = [float(one) for one in numbers if isinstance(one, int | float) and not isinstance(one, bool)]
    limits = [one for one in limits if math.isfinite(one) and abs(one) < 2.0 ** min(kind.exponent_max or 15, 20)]
    if not limits or kind.kind == "b":
        return None
    low, high = min(limits), max(limits)
    margin = max((high - low) / 2, abs(high) / 2, 1.0)
    low, high = low - margin, high + margin

    def made(generator: Generator, shape: Shape) -> Array:
        if kind.is_exact:
            ends = np.iinfo(kind.storage)
            first = max(math.floor(low), int(ends.min))
            return generator.integers(first, min(math.ceil(high), int(ends.max)), shape, endpoint=True)
        return low + (high - low) * generator.random(shape)

    return _of_parts(made, kind)


# The other draws


def _span(api: str, name: str, domain: str, kind: DType) -> Span | None:
    (source, numbers), *changes = parse(domain)
    if changes:
        return None
    if source == "index":
        size, low = numbers[0], numbers[1] if len(numbers) > 1 else 0.0
        return Span(low, max(size - 1, low), 1.0)
    if kind.is_exact and not (source == "normal" and domain and name in _COUNTS):
        return None
    return span_of(api, name, source, numbers, kind)


def _bools(share: float) -> Maker:
    return lambda generator, shape: _places(generator, shape, share)


def _integers(span: Span, kind: DType) -> Maker:
    """The ends, and minus one, zero and one where they lie between, in half of the places."""
    limits = np.iinfo(kind.storage)
    low, high = max(int(span.low), int(limits.min)), min(int(span.high), int(limits.max))
    pool = np.array(sorted({low, high, *(one for one in (-1, 0, 1) if low <= one <= high)}), kind.storage)
    first, last = (low, high) if high - low < _MANY else (max(low, -9), min(high, 9))

    def made(generator: Generator, shape: Shape) -> Array:
        inner = generator.integers(first, last, shape, endpoint=True).astype(kind.storage)
        return np.where(_places(generator, shape, 0.5), pool[generator.integers(0, len(pool), shape)], inner)

    return made


_MANY = 2**31
"""Beyond so many whole numbers the others are small ones."""


def _edged(base: Maker, span: Span, kind: DType) -> Maker:
    """Plain values and edges, half and half; of complex numbers each part by itself."""
    pool = span.edges(kind)

    def real(values: Array, generator: Generator, shape: Shape) -> Array:
        chosen = pool[generator.integers(0, len(pool), shape)]
        return np.where(_places(generator, shape, 0.5), chosen, values)

    def made(generator: Generator, shape: Shape) -> Array:
        values = base(generator, shape)
        if not kind.is_complex:
            return real(values, generator, shape)
        result = np.empty(shape, np.complex128)
        result.real = real(values.real, generator, shape)
        result.imag = real(values.imag, generator, shape)
        return result

    return made


def _special(base: Maker, kind: DType) -> Maker:
    """Plain values with a NaN, an infinity or minus infinity in one of ten places, in one at least."""
    specials = np.array([np.nan, np.inf, -np.inf])

    def made(generator: Generator, shape: Shape) -> Array:
        values = base(generator, shape)
        places = _places(generator, shape, 0.1)
        if places.size and not places.any():
            places.reshape(-1)[int(generator.integers(0, places.size))] = True
        return np.where(places, specials[generator.integers(0, 3, shape)], values)

    return made


_NO_TIES = frozenset("norm dist cdist pdist scatter_reduce index_reduce".split())
"""Which of the equal largest elements gets the gradient is free; edges, many of them equal, are not drawn."""

_COUNTS = frozenset(
    """eq ne gt ge lt le equal isin maximum minimum fmax fmin max min amax amin sort argsort topk add sub mul neg abs
    bitwise_and bitwise_or bitwise_xor bitwise_not and or xor invert logical_and logical_or logical_xor logical_not
    where cat stack concat reshape transpose permute flip roll tile gather index_select square clone clamp argmax argmin
    unsqueeze squeeze expand broadcast_to index take_along_dim masked_select masked_fill any all sum unique
    """.split()
)
"""Operators to which an integer is a number and not a size, a position or a count."""


def _is_itself(api: str, name: str) -> bool:
    """Whether an API is the operator, and not only like it in its tolerances: a decoder that takes maxima is no max."""
    row = row_for(api) if api.startswith("paddle.") else None
    return row is None or not row.composite or canonical(f"torch.{api.rpartition('.')[2]}") == name


def _bears(name: str, kind: DType) -> bool:
    return name in _MOVED or name in _ASKED or (not kind.is_complex and (name in _COMPUTED or name in _VALUES_ONLY))


def differs_in_draw(api: str, domain: str, dtype: str, draw: int) -> bool:
    """Whether a draw has other kinds of values than the plain one."""
    kind = dtype_named(dtype)
    if kind_of_draw(draw) == "special" and (kind.is_exact or not _bears(canonical(api), kind)):
        return False
    return kind_of_draw(draw) != "plain" and values_for(api, domain, dtype, draw) is not None


def differentiable_in_draw(api: str, draw: int) -> bool:
    """Whether gradients mean something in a draw: the slope of a maximum at NaN is nobody's promise."""
    return kind_of_draw(draw) != "special" or canonical(api) not in _VALUES_ONLY


_MOVED = frozenset(
    """reshape transpose permute cat stack flip roll tile gather index_select squeeze unsqueeze expand broadcast_to
    where index clone flatten split chunk unbind tril triu diagonal repeat repeat_interleave movedim rot90
    take_along_dim masked_select pad unfold""".split()
)
"""What is only moved stays what it is, NaN or not."""
_ASKED = frozenset(
    "eq ne isnan isinf isfinite isposinf isneginf logical_and logical_or logical_not logical_xor".split()
)
"""Questions that NaN has an answer to, also as a part of a complex number."""
_COMPUTED = frozenset(
    "gt ge lt le nan_to_num nansum nanmean add sub mul neg square sqrt exp log sum mean signbit".split()
)
"""Arithmetic of which IEEE 754, or its own name, says what becomes of NaN and infinities. Not of complex numbers, where
the C standard leaves it open which parts become NaN."""
_VALUES_ONLY = frozenset("abs maximum minimum fmax fmin max min amax amin isclose allclose any all".split())
"""The values are defined, the gradients are not."""

_TAKES_COMPLEX = frozenset(
    """add sub mul div neg abs square reciprocal sqrt rsqrt exp expm1 log log2 log10 log1p sin cos tan sinh cosh tanh
    asin acos atan asinh acosh atanh sigmoid matmul dot inner outer kron tensordot einsum sum mean cumsum prod cumprod
    conj real imag angle reshape transpose permute flip roll tile cat stack split chunk squeeze unsqueeze expand
    broadcast_to gather index_select index where eq ne isnan isinf isfinite tril triu diag diagonal trace fft ifft fft2
    ifft2 fftn ifftn fftshift ifftshift inv det solve cholesky qr svd eigvals pow lerp addmm""".split()
)
