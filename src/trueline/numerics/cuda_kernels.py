# mypy: ignore-errors
# (Triton compiles these functions itself: their arguments are values on the device, not Python objects.)
"""Stage 1 of the Triton kernels behind ``cuda.GroupedReducer``. Importing this module imports Triton.

**Stage 1** (``reduce_blocks``): one program per block of one tensor. A program finds its tensor by its own number in
the running sum of block counts, and writes one row of partial results, in float64. How a tensor is cut into blocks
depends on its number of elements alone, so its statistics do not depend on the tensors it shares a launch with.

- The *straight* path reads aligned float32, float16 and bfloat16, contiguous or permuted with whole rows of eight
  elements (as in attention), in float32 arithmetic and takes every element to be finite and of moderate size. That
  costs about a dozen instructions per element, which is what a memory-bound pass over bfloat16 can afford. Where the
  device computes with pairs of 16-bit numbers, ``cuda_pairs`` does the same with fewer.
- The *careful* path takes any dtype and any strides in float64 and sorts out what is not finite. A straight block
  whose sum of squares is not finite, or whose largest magnitude is so large or small that squares may leave the
  range of float32, is done again by the careful path.

**Stage 2** is in ``cuda_fold``. There are no atomics: the same bits come out of every launch.

All arguments are integers, addresses included, and none is specialised, so that one compiled kernel serves every
launch. The table of a launch holds ``TABLE_ROWS`` int32 running sums of block counts, padded with the largest int32,
then the ``DESCRIPTOR`` rows. Dtypes are the codes of ``dtypes.DTYPES``, which never change.
"""

from __future__ import annotations

import triton
import triton.language as tl

from trueline.numerics.cuda_common import (
    BLOCK_ELEMENTS,
    BLOCKS_PER_TENSOR,
    CAREFUL_TILE,
    DESCRIPTOR_WORDS,
    DIGEST,
    DIMENSIONS,
    INFINITY,
    LARGEST_SAFE_DOUBLE,
    PARTIAL,
    PARTIAL_WORDS,
    ROWS_PER_TABLE,
    SCALE_DOWN,
    SCALE_UP,
    SMALLEST_SAFE_DOUBLE,
    SPAN,
    SPAN_ELEMENTS,
    SQUARES,
    SQUARES_LARGE,
    SQUARES_TINY,
    TABLE_ROWS,
    TILE,
    TILE_ROWS,
    block_size,
    component_type,
    moderate,
    sign_words,
    store_partial,
    strided,
)
from trueline.numerics.cuda_pairs import paired_block

__all__ = ["BLOCKS_PER_TENSOR", "BLOCK_ELEMENTS", "PARTIAL_WORDS", "ROWS_PER_TABLE", "SPAN_ELEMENTS", "reduce_blocks"]

SEARCH = tl.constexpr(32)
"""A row is searched for among every 32nd, then among 32: the root of ``TABLE_ROWS``."""
MOST_STRAIGHT = tl.constexpr(2**36)
"""Components of a tensor that takes the straight path: threads count in 16 bits."""


@triton.jit
def _mix64(values):
    values = values ^ (values >> 30)
    values = values * 0xBF58476D1CE4E5B9
    values = values ^ (values >> 27)
    values = values * 0x94D049BB133111EB
    return values ^ (values >> 31)


@triton.jit
def _flip(values, group):
    """Negates the float32 values [rows, 4, 8] of ``TILE_ROWS`` groups of 32 elements whose sign bit is set.

    The bit is brought to the top in two shifts: a thread holds all eight lanes of a quarter, so the second one is by
    a constant, and the first is shared by eight elements.
    """
    words = sign_words(tl.arange(0, TILE_ROWS).to(tl.uint32) + group)
    quarters = words[:, None] << (24 - 8 * tl.arange(0, 4)).to(tl.uint32)[None, :]
    signs = (quarters[:, :, None] << (7 - tl.arange(0, 8)).to(tl.uint32)[None, None, :]) & 0x80000000
    return (values.to(tl.uint32, bitcast=True) ^ signs).to(tl.float32, bitcast=True)


@triton.jit
def _in_rows(row, numel, ndim):
    """Whether eight elements at a time lie side by side, aligned if the first one is."""
    axes = tl.arange(0, 8)
    outer = tl.load(row + (3 + DIMENSIONS) + axes, mask=axes < ndim - 1, other=0)
    size = tl.load(row + (2 + ndim))
    step = tl.load(row + (2 + DIMENSIONS + ndim))
    return (tl.max(outer & 7, 0) == 0) & ((size & 7) == 0) & (step == 1) & (numel < 17179869184)


@triton.jit
def _tile_pointers(pointer, start, row, ndim, IN_ROWS: tl.constexpr):
    """Pointers to ``TILE`` elements [groups, 8]; the hints make a load 16 bytes wide."""
    groups = tl.arange(0, TILE // 8)
    if IN_ROWS:
        offsets = strided(groups.to(tl.uint32) + (start >> 3).to(tl.uint32), row, ndim, 8)
    else:
        offsets = groups * 8 + start
    pointers = (pointer + offsets)[:, None] + tl.arange(0, 8)[None, :]
    return tl.max_contiguous(tl.multiple_of(pointers, [1, 16]), [1, 8])


@triton.jit
def _straight_tile(x, group, total, squares, minimum, maximum, smallest, zeros, sketch):
    x = tl.reshape(x, [TILE_ROWS, 4, 8]).to(tl.float32)
    zero = x == 0.0
    return (
        total + x,
        squares + x * x,
        tl.minimum(minimum, x),
        tl.maximum(maximum, x),
        # selecting the results, not the operands, compiles to one predicated instruction
        tl.where(zero, smallest, tl.minimum(smallest, tl.abs(x))),
        tl.where(zero, zeros + 1.0, zeros),
        sketch + _flip(x, group),
    )


@triton.jit
def _all_sum(values):
    return tl.sum(tl.reshape(values, [TILE]), 0)


@triton.jit
def _straight_block(pointer, start, stop, row, ndim, out, IN_ROWS: tl.constexpr):
    """Reduces elements ``start`` to ``stop`` of an aligned tensor, contiguous or in rows; true if they need more care.

    Every thread keeps its own sums over whole tiles, so a float32 sum is over few elements; they are added up once.
    """
    total = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    squares = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    zeros = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    sketch = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    minimum = tl.full([TILE_ROWS, 4, 8], INFINITY, tl.float32)
    maximum = tl.full([TILE_ROWS, 4, 8], -INFINITY, tl.float32)
    smallest = tl.full([TILE_ROWS, 4, 8], INFINITY, tl.float32)
    group = (start >> 5).to(tl.uint32)
    left = (stop - start).to(tl.int32)
    while left >= SPAN:
        # all loads of a span are in flight before the first is used
        x0 = tl.load(_tile_pointers(pointer, start, row, ndim, IN_ROWS))
        x1 = tl.load(_tile_pointers(pointer, start + TILE, row, ndim, IN_ROWS))
        x2 = tl.load(_tile_pointers(pointer, start + 2 * TILE, row, ndim, IN_ROWS))
        x3 = tl.load(_tile_pointers(pointer, start + 3 * TILE, row, ndim, IN_ROWS))
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x0, group, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x1, group + 32, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x2, group + 64, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x3, group + 96, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        start += SPAN
        group += SPAN // 32
        left -= SPAN
    padding = 0
    while left > 0:
        inside = (tl.arange(0, TILE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]) < left
        x = tl.load(_tile_pointers(pointer, start, row, ndim, IN_ROWS), mask=inside, other=0.0)
        padding += tl.maximum(TILE - left, 0)
        total, squares, low, high, smallest, zeros, sketch = _straight_tile(
            x, group, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        inside = tl.reshape(inside, [TILE_ROWS, 4, 8])
        minimum = tl.where(inside, low, minimum)
        maximum = tl.where(inside, high, maximum)
        start += TILE
        group += TILE // 32
        left -= TILE
    all_squares = _all_sum(squares)
    lowest = tl.min(tl.reshape(minimum, [TILE]), 0)
    highest = tl.max(tl.reshape(maximum, [TILE]), 0)
    store_partial(
        out,
        tl.sum(tl.reshape(sketch, [TILE_ROWS // 2, 64]), 0),
        _all_sum(total),
        all_squares,
        lowest,
        highest,
        tl.min(tl.reshape(smallest, [TILE]), 0),
        0.0,
        0.0,
        0.0,
        (_all_sum(zeros.to(tl.int32)) - padding).to(tl.float64),
    )
    return moderate(all_squares, lowest, highest).to(tl.int32) == 0


@triton.jit
def _straight(pointer, start, stop, row, ndim, out, PAIRS: tl.constexpr):
    if PAIRS:
        if ndim == 1:
            careful = paired_block(pointer, start, stop, row, ndim, out, False)
        else:
            careful = paired_block(pointer, start, stop, row, ndim, out, True)
    else:
        if ndim == 1:
            careful = _straight_block(pointer, start, stop, row, ndim, out, False)
        else:
            careful = _straight_block(pointer, start, stop, row, ndim, out, True)
    return careful


@triton.jit
def _offsets(index, row, numel, ndim, halves):
    """The offset of a component, in components, from its logical index."""
    if ndim > 1:
        if numel < 2147483648:
            offset = strided((index >> halves).to(tl.uint32), row, ndim, 1)
        else:
            offset = strided(index >> halves, row, ndim, 1)
    else:
        offset = (index >> halves) * tl.load(row + (3 + DIMENSIONS))
    return (offset << halves) + (index & halves)


@triton.jit
def _load_bits(address, offset, inside, dtype):
    """The raw bits of components, zero-extended."""
    if (dtype == 1) | (dtype == 9) | (dtype == 16):
        bits = tl.load(address.to(tl.pointer_type(tl.int64)) + offset, mask=inside, other=0)
    elif (dtype == 0) | (dtype == 10) | (dtype == 15):
        bits = tl.load(address.to(tl.pointer_type(tl.uint32)) + offset, mask=inside, other=0).to(tl.int64)
    elif (dtype == 2) | (dtype == 3) | (dtype == 11) | (dtype == 14):
        bits = tl.load(address.to(tl.pointer_type(tl.uint16)) + offset, mask=inside, other=0).to(tl.int64)
    else:
        bits = tl.load(address.to(tl.pointer_type(tl.uint8)) + offset, mask=inside, other=0).to(tl.int64)
    return bits


@triton.jit
def _to_float64(bits, dtype, float8):
    """The value of components from their raw bits; ``float8`` is the address of the 256 values of each such type."""
    # the bits above a signed integer, shifted out and in again to extend its sign
    unused = tl.where(dtype == 9, 0, tl.where(dtype == 10, 32, tl.where(dtype == 11, 48, 56))).to(tl.int64)
    if dtype == 0:
        value = bits.to(tl.int32).to(tl.float32, bitcast=True).to(tl.float64)
    elif dtype == 1:
        value = bits.to(tl.float64, bitcast=True)
    elif dtype == 2:
        value = bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float64)
    elif dtype == 3:
        value = (bits << 16).to(tl.int32).to(tl.float32, bitcast=True).to(tl.float64)
    elif dtype <= 8:
        value = tl.load(float8.to(tl.pointer_type(tl.float32)) + (dtype - 4) * 256 + bits).to(tl.float64)
    elif dtype <= 12:
        value = ((bits << unused) >> unused).to(tl.float64)
    elif dtype == 17:
        value = (bits != 0).to(tl.float64)
    else:
        value = bits.to(tl.uint64, bitcast=True).to(tl.float64)
    return value


@triton.jit
def _careful_block(address, row, numel, ndim, dtype, halves, start, stop, float8, out):
    """Reduces components ``start`` to ``stop`` of any tensor, in float64; gives the largest finite magnitude."""
    lanes = tl.arange(0, CAREFUL_TILE)
    total = tl.zeros([CAREFUL_TILE], tl.float64)
    squares = tl.zeros([CAREFUL_TILE], tl.float64)
    sketch = tl.zeros([CAREFUL_TILE], tl.float64)
    minimum = tl.full([CAREFUL_TILE], INFINITY, tl.float64)
    maximum = tl.full([CAREFUL_TILE], -INFINITY, tl.float64)
    smallest = tl.full([CAREFUL_TILE], INFINITY, tl.float64)
    nan = tl.zeros([CAREFUL_TILE], tl.int32)
    positive = tl.zeros([CAREFUL_TILE], tl.int32)
    negative = tl.zeros([CAREFUL_TILE], tl.int32)
    zeros = tl.zeros([CAREFUL_TILE], tl.int32)
    first = start
    while first < stop:
        index = first + lanes
        inside = index < stop
        offset = _offsets(index, row, numel, ndim, halves)
        value = _to_float64(_load_bits(address, offset, inside, dtype), dtype, float8)
        magnitude = tl.abs(value)
        finite = inside & (magnitude < INFINITY)
        clean = tl.where(finite, value, 0.0)
        words = sign_words((index >> 5).to(tl.uint32))
        minus = ((words >> (lanes & 31).to(tl.uint32)) & 1) != 0
        total += clean
        squares += clean * clean
        sketch += tl.where(minus, -clean, clean)
        minimum = tl.minimum(minimum, tl.where(finite, value, INFINITY))
        maximum = tl.maximum(maximum, tl.where(finite, value, -INFINITY))
        smallest = tl.minimum(smallest, tl.where(finite & (value != 0.0), magnitude, INFINITY))
        nan += (inside & (value != value)).to(tl.int32)
        positive += (inside & (value == INFINITY)).to(tl.int32)
        negative += (inside & (value == -INFINITY)).to(tl.int32)
        zeros += (inside & (value == 0.0)).to(tl.int32)
        first += CAREFUL_TILE
    lowest = tl.min(minimum, 0)
    highest = tl.max(maximum, 0)
    store_partial(
        out,
        tl.sum(tl.reshape(sketch, [CAREFUL_TILE // 64, 64]), 0),
        tl.sum(total, 0),
        tl.sum(squares, 0),
        lowest,
        highest,
        tl.min(smallest, 0),
        tl.sum(nan, 0),
        tl.sum(positive, 0),
        tl.sum(negative, 0),
        tl.sum(zeros, 0),
    )
    return tl.maximum(tl.abs(lowest), tl.abs(highest))


@triton.jit
def _scaled_squares_block(address, row, numel, ndim, dtype, halves, start, stop, largest, out):
    """Sums the squares of float64 components again, scaled, if they may have left the range of float64."""
    large = (largest > LARGEST_SAFE_DOUBLE) & (largest < INFINITY)
    if large | ((largest < SMALLEST_SAFE_DOUBLE) & (largest > 0.0)):
        scale = tl.where(large, SCALE_DOWN, SCALE_UP).to(tl.float64)
        lanes = tl.arange(0, CAREFUL_TILE)
        squares = tl.zeros([CAREFUL_TILE], tl.float64)
        first = start
        while first < stop:
            index = first + lanes
            bits = _load_bits(address, _offsets(index, row, numel, ndim, halves), index < stop, dtype)
            value = bits.to(tl.float64, bitcast=True)
            scaled = tl.where(tl.abs(value) < INFINITY, value, 0.0) * scale
            squares += scaled * scaled
            first += CAREFUL_TILE
        tl.store(out + SQUARES, 0.0)
        tl.store(out + tl.where(large, SQUARES_LARGE, SQUARES_TINY), tl.sum(squares, 0))


@triton.jit
def _digest_block(address, row, numel, ndim, dtype, halves, start, stop, out):
    lanes = tl.arange(0, CAREFUL_TILE)
    total = tl.zeros([CAREFUL_TILE], tl.uint64)
    first = start
    while first < stop:
        index = first + lanes
        inside = index < stop
        bits = _load_bits(address, _offsets(index, row, numel, ndim, halves), inside, dtype)
        number = (index + 1).to(tl.uint64)
        mixed = _mix64(bits.to(tl.uint64) + number * 0x9E3779B97F4A7C15)
        total += tl.where(inside, mixed, 0)
        first += CAREFUL_TILE
    tl.store(out.to(tl.pointer_type(tl.uint64), bitcast=True) + DIGEST, tl.sum(total, 0))


@triton.jit(do_not_specialize=["table", "partials", "float8", "digest"])
def reduce_blocks(table, partials, float8, digest, PAIRS: tl.constexpr):
    """Stage 1; the grid is the number of blocks of all tensors in the table."""
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
    out = partials.to(tl.pointer_type(tl.float64)) + number.to(tl.int64) * PARTIAL
    aligned = (address & 15) == 0
    dense = aligned & (ndim == 1) & (tl.load(row + (3 + DIMENSIONS)) == 1)
    rows = aligned & (ndim > 1) & _in_rows(row, numel, ndim) & (halves == 0)
    careful = True
    if (dense | rows) & (components < MOST_STRAIGHT):
        if dtype == 0:
            careful = _straight(address.to(tl.pointer_type(tl.float32)), start, stop, row, ndim, out, False)
        elif dtype == 2:
            careful = _straight(address.to(tl.pointer_type(tl.float16)), start, stop, row, ndim, out, PAIRS)
        elif dtype == 3:
            careful = _straight(address.to(tl.pointer_type(tl.bfloat16)), start, stop, row, ndim, out, PAIRS)
    if careful:
        tl.debug_barrier()  # the row that the straight path may have written is written again
        largest = _careful_block(address, row, numel, ndim, dtype, halves, start, stop, float8, out)
        if dtype == 1:
            tl.debug_barrier()
            _scaled_squares_block(address, row, numel, ndim, dtype, halves, start, stop, largest, out)
    if digest != 0:
        _digest_block(address, row, numel, ndim, dtype, halves, start, stop, out)
