# mypy: ignore-errors
# (Triton compiles these functions itself: their arguments are values on the device, not Python objects.)
"""The straight path of stage 1 for 16-bit floats, on devices that compute with pairs of 16-bit numbers. Importing this
module imports Triton.

Two elements lie in a word. What needs no rounding (extremes and counts) is done for both at once. Sums are those of
``cuda_kernels``, taken in the same order, so that the same bits come out. While one span is added up the next one is
on its way. ``BRAIN`` is true for bfloat16 and false for float16.
"""

from __future__ import annotations

import triton
import triton.language as tl

from trueline.numerics.cuda_common import (
    INFINITY,
    SPAN,
    TILE,
    TILE_ROWS,
    moderate,
    sign_words,
    store_partial,
    strided,
)

ADDED = tl.constexpr("add.u16x2 $0, $1, $2;")
SMALLER = tl.constexpr("min.u16x2 $0, $1, $2;")
SMALLER_BFLOAT16 = tl.constexpr("min.bf16x2 $0, $1, $2;")
LARGER_BFLOAT16 = tl.constexpr("max.bf16x2 $0, $1, $2;")
SMALLER_FLOAT16 = tl.constexpr("min.f16x2 $0, $1, $2;")
LARGER_FLOAT16 = tl.constexpr("max.f16x2 $0, $1, $2;")
BFLOAT16_INFINITY = tl.constexpr(0x7F80)
FLOAT16_INFINITY = tl.constexpr(0x7C00)
NO_MAGNITUDE = tl.constexpr(0xFFFF)
"""Magnitudes are kept as their bits less one, so that zero, which does not count, becomes the largest."""


@triton.jit
def _of_pairs(first, second, ASSEMBLY: tl.constexpr):
    return tl.inline_asm_elementwise(ASSEMBLY, "=r,r,r", [first, second], tl.uint32, True, 1)


@triton.jit
def _low(words, BRAIN: tl.constexpr):
    """The elements in the lower halves, as float32."""
    if BRAIN:
        values = (words << 16).to(tl.float32, bitcast=True)
    else:
        values = (words & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
    return values


@triton.jit
def _high(words, BRAIN: tl.constexpr):
    """The elements in the upper halves, as float32."""
    if BRAIN:
        values = (words & 0xFFFF0000).to(tl.float32, bitcast=True)
    else:
        values = (words >> 16).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
    return values


@triton.jit
def _signed(values, quarters, HALF: tl.constexpr):
    """The values [rows, 4, 4] of one half of all words, negated where the bit of their element is set."""
    signs = (quarters[:, :, None] << (7 - HALF - 2 * tl.arange(0, 4)).to(tl.uint32)[None, None, :]) & 0x80000000
    return (values.to(tl.uint32, bitcast=True) ^ signs).to(tl.float32, bitcast=True)


@triton.jit
def _add(words, group, total, total2, squares, squares2, sketch, sketch2, smallest, counted, BRAIN: tl.constexpr):
    """Adds a tile of words [rows, 4, 4] up: the lower halves, and then the upper ones."""
    low = _low(words, BRAIN)
    high = _high(words, BRAIN)
    signs = sign_words(tl.arange(0, TILE_ROWS).to(tl.uint32) + group)
    quarters = signs[:, None] << (24 - 8 * tl.arange(0, 4)).to(tl.uint32)[None, :]
    magnitudes = words & 0x7FFF7FFF
    less = _of_pairs(magnitudes, tl.full(magnitudes.shape, 0xFFFFFFFF, tl.uint32), ADDED)
    some = _of_pairs(magnitudes, tl.full(magnitudes.shape, 0x00010001, tl.uint32), SMALLER)
    return (
        total + low,
        total2 + high,
        squares + low * low,
        squares2 + high * high,
        sketch + _signed(low, quarters, 0),
        sketch2 + _signed(high, quarters, 1),
        _of_pairs(smallest, less, SMALLER),
        _of_pairs(counted, some, ADDED),
    )


@triton.jit
def _smaller(first, second, BRAIN: tl.constexpr):
    if BRAIN:
        words = _of_pairs(first, second, SMALLER_BFLOAT16)
    else:
        words = _of_pairs(first, second, SMALLER_FLOAT16)
    return words


@triton.jit
def _larger(first, second, BRAIN: tl.constexpr):
    if BRAIN:
        words = _of_pairs(first, second, LARGER_BFLOAT16)
    else:
        words = _of_pairs(first, second, LARGER_FLOAT16)
    return words


@triton.jit
def _places(pointer, start, row, ndim, IN_ROWS: tl.constexpr):
    """Pointers to the eights of a tile; those of a tensor in rows lie side by side as well."""
    eights = tl.arange(0, TILE // 8)
    if IN_ROWS:
        offsets = strided(eights.to(tl.uint32) + (start >> 3).to(tl.uint32), row, ndim, 8)
    else:
        offsets = eights * 8 + start
    return pointer + offsets


@triton.jit
def _load(pointer, start, row, ndim, there, IN_ROWS: tl.constexpr):
    """The words of a whole tile; anything where it is not there. The hints make a load 16 bytes wide."""
    eights = _places(pointer, start, row, ndim, IN_ROWS).to(tl.pointer_type(tl.uint32), bitcast=True)
    words = tl.max_contiguous(tl.multiple_of(eights[:, None] + tl.arange(0, 4)[None, :], [1, 16]), [1, 4])
    return tl.reshape(tl.load(words, mask=there), [TILE_ROWS, 4, 4])


@triton.jit
def _joined(bits):
    """Words [rows, 4, 4] of the bits [eights, 8] of elements."""
    low, high = tl.split(tl.reshape(bits, [TILE // 8, 4, 2]))
    return tl.reshape(low | (high << 16), [TILE_ROWS, 4, 4])


@triton.jit
def _flat(low, high):
    """The values of all elements, in their order."""
    return tl.reshape(tl.join(low, high), [TILE])


@triton.jit
def _magnitude(bits, BRAIN: tl.constexpr):
    return tl.where(bits == NO_MAGNITUDE, INFINITY, _low((bits + 1) & 0xFFFF, BRAIN))


@triton.jit
def _both(total, squares, lowest, highest, smallest, zeros, total2, squares2, lowest2, highest2, smallest2, zeros2):
    """What is known of two parts of a block, together."""
    return (
        total + total2,
        squares + squares2,
        tl.minimum(lowest, lowest2),
        tl.maximum(highest, highest2),
        tl.minimum(smallest, smallest2),
        zeros + zeros2,
    )


@triton.jit
def paired_block(pointer, start, stop, row, ndim, out, IN_ROWS: tl.constexpr):
    """As ``cuda_kernels._straight_block``: reduces elements ``start`` to ``stop``; true if they need more care."""
    BRAIN: tl.constexpr = pointer.dtype.element_ty == tl.bfloat16
    top: tl.constexpr = BFLOAT16_INFINITY if BRAIN else FLOAT16_INFINITY
    total = tl.zeros([TILE_ROWS, 4, 4], tl.float32)
    squares = tl.zeros([TILE_ROWS, 4, 4], tl.float32)
    sketch = tl.zeros([TILE_ROWS, 4, 4], tl.float32)
    total2, squares2, sketch2 = total, squares, sketch
    minimum = tl.full([TILE_ROWS, 4, 4], top | (top << 16), tl.uint32)
    maximum = minimum | 0x80008000
    smallest = tl.full([TILE_ROWS, 4, 4], NO_MAGNITUDE | (NO_MAGNITUDE << 16), tl.uint32)
    counted = tl.zeros([TILE_ROWS, 4, 4], tl.uint32)
    group = (start >> 5).to(tl.uint32)
    count = (stop - start).to(tl.int32)
    left = count
    there = left >= SPAN
    x0 = _load(pointer, start, row, ndim, there, IN_ROWS)
    x1 = _load(pointer, start + TILE, row, ndim, there, IN_ROWS)
    x2 = _load(pointer, start + 2 * TILE, row, ndim, there, IN_ROWS)
    x3 = _load(pointer, start + 3 * TILE, row, ndim, there, IN_ROWS)
    while left >= SPAN:
        start += SPAN
        left -= SPAN
        there = left >= SPAN
        y0 = _load(pointer, start, row, ndim, there, IN_ROWS)
        y1 = _load(pointer, start + TILE, row, ndim, there, IN_ROWS)
        y2 = _load(pointer, start + 2 * TILE, row, ndim, there, IN_ROWS)
        y3 = _load(pointer, start + 3 * TILE, row, ndim, there, IN_ROWS)
        minimum = _smaller(_smaller(_smaller(_smaller(minimum, x0, BRAIN), x1, BRAIN), x2, BRAIN), x3, BRAIN)
        maximum = _larger(_larger(_larger(_larger(maximum, x0, BRAIN), x1, BRAIN), x2, BRAIN), x3, BRAIN)
        total, total2, squares, squares2, sketch, sketch2, smallest, counted = _add(
            x0, group, total, total2, squares, squares2, sketch, sketch2, smallest, counted, BRAIN
        )
        total, total2, squares, squares2, sketch, sketch2, smallest, counted = _add(
            x1, group + 32, total, total2, squares, squares2, sketch, sketch2, smallest, counted, BRAIN
        )
        total, total2, squares, squares2, sketch, sketch2, smallest, counted = _add(
            x2, group + 64, total, total2, squares, squares2, sketch, sketch2, smallest, counted, BRAIN
        )
        total, total2, squares, squares2, sketch, sketch2, smallest, counted = _add(
            x3, group + 96, total, total2, squares, squares2, sketch, sketch2, smallest, counted, BRAIN
        )
        group += SPAN // 32
        x0, x1, x2, x3 = y0, y1, y2, y3
    while left > 0:
        inside = (tl.arange(0, TILE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]) < left
        elements = _places(pointer, start, row, ndim, IN_ROWS)[:, None] + tl.arange(0, 8)[None, :]
        elements = tl.max_contiguous(tl.multiple_of(elements, [1, 16]), [1, 8])
        bits = tl.load(elements, mask=inside, other=0.0).to(tl.uint16, bitcast=True).to(tl.uint32)
        minimum = _smaller(minimum, _joined(tl.where(inside, bits, top)), BRAIN)
        maximum = _larger(maximum, _joined(tl.where(inside, bits, top | 0x8000)), BRAIN)
        total, total2, squares, squares2, sketch, sketch2, smallest, counted = _add(
            _joined(bits), group, total, total2, squares, squares2, sketch, sketch2, smallest, counted, BRAIN
        )
        start += TILE
        group += TILE // 32
        left -= TILE
    buckets = tl.sum(tl.reshape(_flat(sketch, sketch2), [TILE_ROWS // 2, 64]), 0)
    all_total, all_squares, lowest, highest, least, some = tl.reduce(
        (
            _flat(total, total2),
            _flat(squares, squares2),
            _flat(_low(minimum, BRAIN), _high(minimum, BRAIN)),
            _flat(_low(maximum, BRAIN), _high(maximum, BRAIN)),
            _flat(_magnitude(smallest & 0xFFFF, BRAIN), _magnitude(smallest >> 16, BRAIN)),
            _flat((counted & 0xFFFF).to(tl.int32), (counted >> 16).to(tl.int32)),
        ),
        0,
        _both,
    )
    zeros = (count - some).to(tl.float64)
    store_partial(out, buckets, all_total, all_squares, lowest, highest, least, 0.0, 0.0, 0.0, zeros)
    return moderate(all_squares, lowest, highest).to(tl.int32) == 0
