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
from trueline.numerics.cuda_kernels import _load_bits, _offsets, _tile_pointers

__all__ = ["BLOCKS_PER_TENSOR", "BLOCK_ELEMENTS", "RESULT_WORDS", "ROWS_PER_TABLE", "SPAN_ELEMENTS", "look_at_blocks"]

RESULT_WORDS = 8
"""The int64 words of a result: the largest finite magnitude and the inverse of the smallest, both as bits; NaN, +Inf,
-Inf, zeros, subnormals, saturated."""

SEARCH = tl.constexpr(32)
LIGHT_TILE = tl.constexpr(2048)
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
def _tile(size, most, least, zeros):
    """Takes the magnitudes of a tile in; zero, which does not count, becomes the largest of those less one."""
    return tl.maximum(most, size), tl.minimum(least, size - 1), zeros + (size == 0).to(tl.int32)


@triton.jit
def _straight(pointer, start, stop, row, MASK: tl.constexpr, NORMAL: tl.constexpr, LARGEST: tl.constexpr, out):
    """Reads a block of an aligned tensor that lies in a row; true if it has to be read once more."""
    most = tl.zeros([TILE // 8, 8], tl.uint32)
    least = tl.full([TILE // 8, 8], 0xFFFFFFFF, tl.uint32)
    zeros = tl.zeros([TILE // 8, 8], tl.int32)
    while start + SPAN <= stop:
        # all loads of a span are in flight before the first is used
        x0 = tl.load(_tile_pointers(pointer, start, row, 1, False)).to(tl.uint32)
        x1 = tl.load(_tile_pointers(pointer, start + TILE, row, 1, False)).to(tl.uint32)
        x2 = tl.load(_tile_pointers(pointer, start + 2 * TILE, row, 1, False)).to(tl.uint32)
        x3 = tl.load(_tile_pointers(pointer, start + 3 * TILE, row, 1, False)).to(tl.uint32)
        most, least, zeros = _tile(x0 & MASK, most, least, zeros)
        most, least, zeros = _tile(x1 & MASK, most, least, zeros)
        most, least, zeros = _tile(x2 & MASK, most, least, zeros)
        most, least, zeros = _tile(x3 & MASK, most, least, zeros)
        start += SPAN
    padding = 0
    while start < stop:
        inside = (tl.arange(0, TILE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]) < stop - start
        x = tl.load(_tile_pointers(pointer, start, row, 1, False), mask=inside, other=0).to(tl.uint32)
        padding += tl.maximum(TILE - (stop - start), 0).to(tl.int32)
        most, least, zeros = _tile(x & MASK, most, least, zeros)
        start += TILE
    top = tl.max(tl.reshape(most, [TILE]), 0)
    bottom = tl.min(tl.reshape(least, [TILE]), 0)
    more = (top >= LARGEST) | (bottom < NORMAL - 1)
    if more == 0:
        tl.atomic_max(out, top.to(tl.int64))
        if bottom != 0xFFFFFFFF:
            tl.atomic_max(out + 1, INVERSE - (bottom.to(tl.int64) + 1))
        tl.atomic_add(out + 5, (tl.sum(tl.reshape(zeros, [TILE]), 0) - padding).to(tl.int64))
    return more


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
    more = True
    if (ndim == 1) & (tl.load(row + (3 + DIMENSIONS)) == 1) & ((address & 15) == 0):
        if dtype == 0:
            words = address.to(tl.pointer_type(tl.uint32))
            more = _straight(words, start, stop, row, 0x7FFFFFFF, 0x00800000, 0x7F7FFFFF, out)
        elif dtype == 2:
            more = _straight(address.to(tl.pointer_type(tl.uint16)), start, stop, row, 0x7FFF, 0x0400, 0x7BFF, out)
        elif dtype == 3:
            more = _straight(address.to(tl.pointer_type(tl.uint16)), start, stop, row, 0x7FFF, 0x0080, 0x7F7F, out)
    if more:
        _count_all(address, row, numel, ndim, dtype, halves, start, stop, out)
