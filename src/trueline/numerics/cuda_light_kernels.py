# mypy: ignore-errors
# (Triton compiles these functions itself: their arguments are values on the device, not Python objects.)
"""The Triton kernel behind ``cuda_light.LightReducer``. Importing this module imports Triton.

One program reads one block of one tensor, found as in ``cuda_kernels``. Magnitudes are compared as integers, which
order finite numbers as their values do. The straight pass keeps the largest magnitude, the smallest that is not zero,
and counts zeros; where these say that there is more to count (NaN, infinity, subnormals, saturation) the block is read
once more. Blocks add their answers to the row of their tensor by atomic sums and maxima of integers, which give the
same in any order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from trueline.numerics.cuda_common import (
    BLOCK_ELEMENTS,
    BLOCKS_PER_TENSOR,
    DESCRIPTOR_WORDS,
    DIMENSIONS,
    ROWS_PER_TABLE,
    SPAN,
    SPAN_ELEMENTS,
    TABLE_ROWS,
    TILE,
    block_size,
    component_type,
)
from trueline.numerics.cuda_kernels import _in_rows as in_rows
from trueline.numerics.cuda_kernels import _load_bits, _offsets, _tile_pointers

__all__ = ["BLOCKS_PER_TENSOR", "BLOCK_ELEMENTS", "RESULT_WORDS", "ROWS_PER_TABLE", "SPAN_ELEMENTS", "look_at_blocks"]

RESULT_WORDS = 8
"""The int64 words of a result: the largest finite magnitude and the inverse of the smallest, both as bits; NaN, +Inf,
-Inf, zeros, subnormals, saturated."""

SEARCH = tl.constexpr(32)
LIGHT_TILE = tl.constexpr(512)
WORDS = tl.constexpr(RESULT_WORDS)
INVERSE = tl.constexpr(0x7FFFFFFFFFFFFFFF)


@triton.jit
def _limits(dtype):
    """Of a floating dtype: the bits of a magnitude, infinity, the smallest normal number."""
    mask = tl.where(dtype == 1, 0x7FFFFFFFFFFFFFFF, tl.where(dtype == 0, 0x7FFFFFFF, 0x7FFF).to(tl.int64))
    infinity = tl.where(dtype == 0, 0x7F800000, tl.where(dtype == 2, 0x7C00, 0x7F80)).to(tl.int64)
    normal = tl.where(dtype == 0, 0x00800000, tl.where(dtype == 2, 0x0400, 0x0080)).to(tl.int64)
    infinity = tl.where(dtype == 1, 0x7FF0000000000000, infinity)
    normal = tl.where(dtype == 1, 0x0010000000000000, normal)
    return mask, infinity, normal


@triton.jit
def _count_all(address, row, numel, ndim, dtype, halves, start, stop, out):
    """Reads a block of any floating tensor and counts everything."""
    mask, infinity, normal = _limits(dtype)
    lanes = tl.arange(0, LIGHT_TILE)
    most = tl.zeros([LIGHT_TILE], tl.int64)
    least = tl.zeros([LIGHT_TILE], tl.int64)
    nan = tl.zeros([LIGHT_TILE], tl.int32)
    positive = tl.zeros([LIGHT_TILE], tl.int32)
    negative = tl.zeros([LIGHT_TILE], tl.int32)
    zeros = tl.zeros([LIGHT_TILE], tl.int32)
    small = tl.zeros([LIGHT_TILE], tl.int32)
    saturated = tl.zeros([LIGHT_TILE], tl.int32)
    first = start
    while first < stop:
        index = first + lanes
        inside = index < stop
        bits = _load_bits(address, _offsets(index, row, numel, ndim, halves), inside, dtype)
        size = bits & mask
        finite = inside & (size < infinity)
        most = tl.maximum(most, tl.where(finite, size, 0))
        least = tl.maximum(least, tl.where(finite & (size > 0), INVERSE - size, 0))
        endless = inside & (size == infinity)
        nan += (inside & (size > infinity)).to(tl.int32)
        positive += (endless & (bits == size)).to(tl.int32)
        negative += (endless & (bits != size)).to(tl.int32)
        zeros += (finite & (size == 0)).to(tl.int32)
        small += (finite & (size > 0) & (size < normal)).to(tl.int32)
        saturated += (finite & (size == infinity - 1)).to(tl.int32)
        first += LIGHT_TILE
    tl.atomic_max(out, tl.max(most, 0))
    tl.atomic_max(out + 1, tl.max(least, 0))
    tl.atomic_add(out + 2, tl.sum(nan, 0).to(tl.int64))
    tl.atomic_add(out + 3, tl.sum(positive, 0).to(tl.int64))
    tl.atomic_add(out + 4, tl.sum(negative, 0).to(tl.int64))
    tl.atomic_add(out + 5, tl.sum(zeros, 0).to(tl.int64))
    tl.atomic_add(out + 6, tl.sum(small, 0).to(tl.int64))
    tl.atomic_add(out + 7, tl.sum(saturated, 0).to(tl.int64))


@triton.jit
def _bits(pointer, start, stop, row, ndim, IN_ROWS: tl.constexpr, MASKED: tl.constexpr):
    """A tile of words; those beyond the end are zero."""
    pointers = _tile_pointers(pointer, start, row, ndim, IN_ROWS)
    if MASKED:
        inside = (tl.arange(0, TILE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]) < stop - start
        return tl.load(pointers, mask=inside, other=0).to(tl.uint32)
    return tl.load(pointers).to(tl.uint32)


@triton.jit
def _tile(size, most, least, zeros):
    """Takes the magnitudes of a tile in; zero, which does not count, becomes the largest of those less one."""
    return tl.maximum(most, size), tl.minimum(least, size - 1), zeros + (size == 0).to(tl.int32)


@triton.jit
def _straight(
    pointer, start, stop, row, ndim, IN_ROWS: tl.constexpr, MASK: tl.constexpr, NORMAL: tl.constexpr,
    LARGEST: tl.constexpr, out,
):  # fmt: skip
    """Reads a block of an aligned tensor that lies in rows; where there is more to count, the block is read again."""
    most = tl.zeros([TILE // 8, 8], tl.uint32)
    least = tl.full([TILE // 8, 8], 0xFFFFFFFF, tl.uint32)
    zeros = tl.zeros([TILE // 8, 8], tl.int32)
    first = start
    while first + SPAN <= stop:
        # all loads of a span are in flight before the first is used
        x0 = _bits(pointer, first, stop, row, ndim, IN_ROWS, False)
        x1 = _bits(pointer, first + TILE, stop, row, ndim, IN_ROWS, False)
        x2 = _bits(pointer, first + 2 * TILE, stop, row, ndim, IN_ROWS, False)
        x3 = _bits(pointer, first + 3 * TILE, stop, row, ndim, IN_ROWS, False)
        most, least, zeros = _tile(x0 & MASK, most, least, zeros)
        most, least, zeros = _tile(x1 & MASK, most, least, zeros)
        most, least, zeros = _tile(x2 & MASK, most, least, zeros)
        most, least, zeros = _tile(x3 & MASK, most, least, zeros)
        first += SPAN
    padding = 0
    while first < stop:
        padding += tl.maximum(TILE - (stop - first), 0).to(tl.int32)
        x = _bits(pointer, first, stop, row, ndim, IN_ROWS, True)
        most, least, zeros = _tile(x & MASK, most, least, zeros)
        first += TILE
    top = tl.max(tl.reshape(most, [TILE]), 0)
    bottom = tl.min(tl.reshape(least, [TILE]), 0)
    tl.atomic_add(out + 5, (tl.sum(tl.reshape(zeros, [TILE]), 0) - padding).to(tl.int64))
    if (top >= LARGEST) | (bottom < NORMAL - 1):
        _straight_again(pointer, start, stop, row, ndim, IN_ROWS, MASK, NORMAL, LARGEST, out)
    else:
        tl.atomic_max(out, top.to(tl.int64))
        if bottom != 0xFFFFFFFF:
            tl.atomic_max(out + 1, INVERSE - (bottom.to(tl.int64) + 1))


@triton.jit
def _straight_again(
    pointer, start, stop, row, ndim, IN_ROWS: tl.constexpr, MASK: tl.constexpr, NORMAL: tl.constexpr,
    LARGEST: tl.constexpr, out,
):  # fmt: skip
    """Counts what is rare, in a block that has some of it; the extremes are those of finite numbers."""
    most = tl.zeros([TILE // 8, 8], tl.uint32)
    least = tl.full([TILE // 8, 8], 0xFFFFFFFF, tl.uint32)
    # two counts to a word: a block has no more than 2**16 words of a thread
    odd = tl.zeros([TILE // 8, 8], tl.int32)
    endless = tl.zeros([TILE // 8, 8], tl.int32)
    small = tl.zeros([TILE // 8, 8], tl.int32)
    while start < stop:
        x = _bits(pointer, start, stop, row, ndim, IN_ROWS, True)
        size = x & MASK
        finite = size <= LARGEST
        most = tl.maximum(most, tl.where(finite, size, 0))
        least = tl.minimum(least, tl.where(finite, size - 1, 0xFFFFFFFF))
        odd += tl.where(size > LARGEST + 1, 1, 0) + tl.where(size == LARGEST, 65536, 0)
        endless += tl.where(size == LARGEST + 1, tl.where(x == size, 1, 65536), 0)
        small += (size - 1 < NORMAL - 1).to(tl.int32)
        start += TILE
    top = tl.max(tl.reshape(most, [TILE]), 0)
    bottom = tl.min(tl.reshape(least, [TILE]), 0)
    tl.atomic_max(out, top.to(tl.int64))
    if bottom != 0xFFFFFFFF:
        tl.atomic_max(out + 1, INVERSE - (bottom.to(tl.int64) + 1))
    odd = tl.reshape(odd, [TILE])
    endless = tl.reshape(endless, [TILE])
    tl.atomic_add(out + 2, tl.sum(odd & 0xFFFF, 0).to(tl.int64))
    tl.atomic_add(out + 3, tl.sum(endless & 0xFFFF, 0).to(tl.int64))
    tl.atomic_add(out + 4, tl.sum(endless >> 16, 0).to(tl.int64))
    tl.atomic_add(out + 6, tl.sum(tl.reshape(small, [TILE]), 0).to(tl.int64))
    tl.atomic_add(out + 7, tl.sum(odd >> 16, 0).to(tl.int64))


@triton.jit
def _in_words(address, start, stop, row, ndim, dtype, IN_ROWS: tl.constexpr, out):
    """The block of a tensor of 32-bit or 16-bit floats."""
    if dtype == 0:
        words = address.to(tl.pointer_type(tl.uint32))
        _straight(words, start, stop, row, ndim, IN_ROWS, 0x7FFFFFFF, 0x00800000, 0x7F7FFFFF, out)
    elif dtype == 2:
        halves = address.to(tl.pointer_type(tl.uint16))
        _straight(halves, start, stop, row, ndim, IN_ROWS, 0x7FFF, 0x0400, 0x7BFF, out)
    else:
        halves = address.to(tl.pointer_type(tl.uint16))
        _straight(halves, start, stop, row, ndim, IN_ROWS, 0x7FFF, 0x0080, 0x7F7F, out)


@triton.jit(do_not_specialize=["table", "results"])
def look_at_blocks(table, results):
    """The grid is the number of blocks of all tensors in the table."""
    number = tl.program_id(0)
    ends = table.to(tl.pointer_type(tl.int32))
    near = SEARCH * tl.sum((tl.load(ends + (tl.arange(0, SEARCH) * SEARCH + (SEARCH - 1))) <= number).to(tl.int32), 0)
    index = near + tl.sum((tl.load(ends + (near + tl.arange(0, SEARCH))) <= number).to(tl.int32), 0)
    row = (table + TABLE_ROWS * 4).to(tl.pointer_type(tl.int64)) + index * DESCRIPTOR_WORDS
    address = tl.load(row)
    numel = tl.load(row + 1)
    kinds = tl.load(row + 2)
    dtype, halves = component_type((kinds & 0xFFFFFFFF).to(tl.int32))
    ndim = (kinds >> 32).to(tl.int32)
    components = numel << halves
    size = block_size(components)
    block = number - (tl.load(ends + index) - ((components + size - 1) // size).to(tl.int32))
    start = tl.multiple_of(block * size, 4096)
    stop = tl.minimum(start + size, components)
    out = results.to(tl.pointer_type(tl.int64)) + index * WORDS
    is_words = ((dtype == 0) | (dtype == 2) | (dtype == 3)) & ((address & 15) == 0)
    if is_words & (ndim == 1) & (tl.load(row + (3 + DIMENSIONS)) == 1):
        _in_words(address, start, stop, row, ndim, dtype, False, out)
    elif is_words & (ndim > 1) & (halves == 0) & in_rows(row, numel, ndim):
        _in_words(address, start, stop, row, ndim, dtype, True, out)
    else:
        _count_all(address, row, numel, ndim, dtype, halves, start, stop, out)
