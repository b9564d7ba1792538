# mypy: ignore-errors
# (Triton compiles these functions itself: their arguments are values on the device, not Python objects.)
"""The Triton kernels behind ``cuda.GroupedReducer``. Importing this module imports Triton.

**Stage 1** (``reduce_blocks``): one program per block of one tensor. A program finds its tensor by its own number in
the running sum of block counts, and writes one row of partial results, in float64. How a tensor is cut into blocks
depends on its number of elements alone, so its statistics do not depend on the tensors it shares a launch with.

- The *straight* path reads aligned, contiguous float32, float16 and bfloat16 in float32 arithmetic and takes every
  element to be finite and of moderate size. That costs about a dozen instructions per element, which is what a
  memory-bound pass over bfloat16 can afford.
- The *careful* path takes any dtype and any strides in float64 and sorts out what is not finite. A straight block
  whose sum of squares is not finite, or whose largest magnitude is so large or small that squares may leave the
  range of float32, is done again by the careful path.

**Stage 2** (``fold_blocks``): one program per tensor folds the rows of its blocks, in a fixed order and in float64,
and writes the ``STATISTICS`` row. There are no atomics: the same bits come out of every launch.

All arguments are integers, addresses included, and none is specialised, so that one compiled kernel serves every
launch. The table of a launch holds ``TABLE_ROWS`` int32 running sums of block counts, padded with the largest int32,
then the ``DESCRIPTOR`` rows. Dtypes are the codes of ``dtypes.DTYPES``, which never change.
"""

from __future__ import annotations

import triton
import triton.language as tl

from trueline.numerics.layout import DESCRIPTOR, MAX_DIMENSIONS, STATISTICS

ROWS_PER_TABLE = 1024
"""The most tensors in one launch."""
BLOCK_ELEMENTS = 16384
"""The elements of a block, for tensors that need no more than ``BLOCKS_PER_TENSOR`` of them."""
BLOCKS_PER_TENSOR = 1024
SPAN_ELEMENTS = 4096
"""What a straight program reads at once; a block is a whole number of spans."""
PARTIAL_WORDS = 80
"""The float64 words of a row of partial results: 64 sketch sums, then the columns named below."""


def _word(field: str, size: int = 8) -> tl.constexpr:
    return tl.constexpr(STATISTICS.fields[field][1] // size)


TABLE_ROWS = tl.constexpr(ROWS_PER_TABLE)
BLOCK = tl.constexpr(BLOCK_ELEMENTS)
BLOCKS = tl.constexpr(BLOCKS_PER_TENSOR)
SPAN = tl.constexpr(SPAN_ELEMENTS)
TILE_ROWS = tl.constexpr(32)
TILE = tl.constexpr(1024)
CAREFUL_TILE = tl.constexpr(512)
FOLD = tl.constexpr(64)
DIMENSIONS = tl.constexpr(MAX_DIMENSIONS)

PARTIAL = tl.constexpr(PARTIAL_WORDS)
SUM = tl.constexpr(64)
SQUARES = tl.constexpr(65)
MINIMUM = tl.constexpr(66)
MAXIMUM = tl.constexpr(67)
SMALLEST = tl.constexpr(68)
NAN = tl.constexpr(69)
POSITIVE = tl.constexpr(70)
NEGATIVE = tl.constexpr(71)
ZEROS = tl.constexpr(72)
SQUARES_LARGE = tl.constexpr(73)
SQUARES_TINY = tl.constexpr(74)
DIGEST = tl.constexpr(75)
FLOAT_COLUMNS = tl.constexpr(11)

DESCRIPTOR_WORDS = tl.constexpr(DESCRIPTOR.itemsize // 8)
RESULT_WORDS = tl.constexpr(STATISTICS.itemsize // 8)
RESULT_MINIMUM = _word("minimum")
RESULT_MAXIMUM = _word("maximum")
RESULT_MEAN = _word("mean")
RESULT_NORM = _word("norm")
RESULT_NAN = _word("nan")
RESULT_POSITIVE = _word("positive_infinity")
RESULT_NEGATIVE = _word("negative_infinity")
RESULT_ZEROS = _word("zeros")
RESULT_EXPONENT_MIN = _word("exponent_min", 4)
RESULT_EXPONENT_MAX = _word("exponent_max", 4)
RESULT_DIGEST = _word("digest")
RESULT_SKETCH = _word("sketch", 4)

LARGEST_SAFE = tl.constexpr(2.0**50)
SMALLEST_SAFE = tl.constexpr(2.0**-40)
LARGEST_SAFE_DOUBLE = tl.constexpr(2.0**480)
SMALLEST_SAFE_DOUBLE = tl.constexpr(2.0**-400)
SCALE_UP = tl.constexpr(2.0**560)
SCALE_DOWN = tl.constexpr(2.0**-560)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def _block_size(components):
    """Whole spans, at least ``BLOCK`` elements, so many that no tensor has more than ``BLOCKS`` blocks."""
    spans = (components + (BLOCKS * SPAN - 1)) // (BLOCKS * SPAN)
    return tl.maximum(spans * SPAN, BLOCK)


@triton.jit
def _component_type(dtype):
    """A complex dtype as the dtype of its two components, and how many bits of the index name the component."""
    halves = tl.where(dtype == 18, 0, tl.where(dtype == 19, 1, tl.where(dtype == 20, 2, dtype)))
    return halves, tl.where(dtype >= 18, 1, 0)


@triton.jit
def _sign_words(words):
    words = words ^ (words >> 16)
    words = words * 0x7FEB352D
    words = words ^ (words >> 15)
    words = words * 0x846CA68B
    return words ^ (words >> 16)


@triton.jit
def _mix64(values):
    values = values ^ (values >> 30)
    values = values * 0xBF58476D1CE4E5B9
    values = values ^ (values >> 27)
    values = values * 0x94D049BB133111EB
    return values ^ (values >> 31)


@triton.jit
def _flip(values, words, quarter, lane):
    """Negates the float32 values [rows, 4, 8] whose bit is set in the sign word of their row.

    The bit is brought to the top in two shifts: a thread holds all eight lanes of a quarter, so the second one is by
    a constant, and the first is shared by eight elements.
    """
    quarters = words[:, None] << (24 - 8 * quarter).to(tl.uint32)[None, :]
    signs = (quarters[:, :, None] << (7 - lane).to(tl.uint32)[None, None, :]) & 0x80000000
    return (values.to(tl.uint32, bitcast=True) ^ signs).to(tl.float32, bitcast=True)


@triton.jit
def _store_partial(out, sketch, total, squares, minimum, maximum, smallest, nan, positive, negative, zeros):
    tl.store(out + tl.arange(0, 64), sketch.to(tl.float64))
    tl.store(out + SUM, total.to(tl.float64))
    tl.store(out + SQUARES, squares.to(tl.float64))
    tl.store(out + MINIMUM, minimum.to(tl.float64))
    tl.store(out + MAXIMUM, maximum.to(tl.float64))
    tl.store(out + SMALLEST, smallest.to(tl.float64))
    tl.store(out + NAN, nan)
    tl.store(out + POSITIVE, positive)
    tl.store(out + NEGATIVE, negative)
    tl.store(out + ZEROS, zeros.to(tl.float64))
    tl.store(out + SQUARES_LARGE, 0.0)
    tl.store(out + SQUARES_TINY, 0.0)


@triton.jit
def _straight_tile(x, words, quarter, lane, total, squares, minimum, maximum, smallest, zeros, sketch):
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
        sketch + _flip(x, words, quarter, lane),
    )


@triton.jit
def _all_sum(values):
    return tl.sum(tl.reshape(values, [TILE]), 0)


@triton.jit
def _straight_block(pointer, start, stop, out):
    """Reduces elements ``start`` to ``stop`` of an aligned contiguous tensor; true if the block needs more care.

    Every thread keeps its own sums over whole tiles, so a float32 sum is over few elements; they are added up once.
    """
    rows = tl.arange(0, TILE_ROWS).to(tl.uint32)
    quarter = tl.arange(0, 4)
    lane = tl.arange(0, 8)
    offsets = tl.arange(0, TILE)
    total = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    squares = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    zeros = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    sketch = tl.zeros([TILE_ROWS, 4, 8], tl.float32)
    minimum = tl.full([TILE_ROWS, 4, 8], INFINITY, tl.float32)
    maximum = tl.full([TILE_ROWS, 4, 8], -INFINITY, tl.float32)
    smallest = tl.full([TILE_ROWS, 4, 8], INFINITY, tl.float32)
    group = (start >> 5).to(tl.uint32)
    here = pointer + start
    left = (stop - start).to(tl.int32)
    while left >= SPAN:
        # all loads of a span are in flight before the first is used; the hint makes them 16 bytes wide
        tiles = tl.multiple_of(here + offsets, 16)
        x0 = tl.load(tiles)
        x1 = tl.load(tiles + TILE)
        x2 = tl.load(tiles + 2 * TILE)
        x3 = tl.load(tiles + 3 * TILE)
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x0, _sign_words(rows + group), quarter, lane, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x1, _sign_words(rows + (group + 32)), quarter, lane, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x2, _sign_words(rows + (group + 64)), quarter, lane, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        total, squares, minimum, maximum, smallest, zeros, sketch = _straight_tile(
            x3, _sign_words(rows + (group + 96)), quarter, lane, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        here += SPAN
        group += SPAN // 32
        left -= SPAN
    padding = 0
    while left > 0:
        inside = offsets < left
        tiles = tl.multiple_of(here + offsets, 16)
        x = tl.load(tiles, mask=inside, other=0.0)
        padding += tl.maximum(TILE - left, 0)
        total, squares, low, high, smallest, zeros, sketch = _straight_tile(
            x, _sign_words(rows + group), quarter, lane, total, squares, minimum, maximum, smallest, zeros, sketch
        )
        inside = tl.reshape(inside, [TILE_ROWS, 4, 8])
        minimum = tl.where(inside, low, minimum)
        maximum = tl.where(inside, high, maximum)
        here += TILE
        group += TILE // 32
        left -= TILE
    all_squares = _all_sum(squares)
    lowest = tl.min(tl.reshape(minimum, [TILE]), 0)
    highest = tl.max(tl.reshape(maximum, [TILE]), 0)
    _store_partial(
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
        _all_sum(zeros).to(tl.float64) - padding,
    )
    largest = tl.maximum(tl.abs(lowest), tl.abs(highest))
    moderate = (largest <= LARGEST_SAFE) & ((largest >= SMALLEST_SAFE) | (largest == 0.0))
    # written so that NaN is trouble
    return ((all_squares < INFINITY) & moderate).to(tl.int32) == 0


@triton.jit
def _strided(index, row, ndim):
    """The offset, in elements, of a logical index; division in the width of ``index``."""
    offset = tl.zeros(index.shape, tl.int64)
    axis = ndim - 1
    while axis > 0:
        size = tl.load(row + (3 + axis)).to(index.dtype)
        rest = index // size
        offset += (index - rest * size).to(tl.int64) * tl.load(row + (3 + DIMENSIONS + axis))
        index = rest
        axis -= 1
    return offset + index.to(tl.int64) * tl.load(row + (3 + DIMENSIONS))


@triton.jit
def _offsets(index, row, numel, ndim, halves):
    """The offset of a component, in components, from its logical index."""
    if ndim > 1:
        if numel < 2147483648:
            offset = _strided((index >> halves).to(tl.uint32), row, ndim)
        else:
            offset = _strided(index >> halves, row, ndim)
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
        words = _sign_words((index >> 5).to(tl.uint32))
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
    _store_partial(
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
def reduce_blocks(table, partials, float8, digest):
    """Stage 1; the grid is the number of blocks of all tensors in the table."""
    number = tl.program_id(0)
    ends = table.to(tl.pointer_type(tl.int32))
    index = tl.sum((tl.load(ends + tl.arange(0, TABLE_ROWS)) <= number).to(tl.int32), 0)
    row = (table + TABLE_ROWS * 4).to(tl.pointer_type(tl.int64)) + index * DESCRIPTOR_WORDS
    address = tl.load(row)
    numel = tl.load(row + 1)
    kinds = tl.load(row + 2)
    dtype, halves = _component_type((kinds & 0xFFFFFFFF).to(tl.int32))
    ndim = (kinds >> 32).to(tl.int32)
    components = numel << halves
    size = _block_size(components)
    block = number - (tl.load(ends + index) - ((components + size - 1) // size).to(tl.int32))
    start = tl.multiple_of(block * size, 4096)
    stop = tl.minimum(start + size, components)
    out = partials.to(tl.pointer_type(tl.float64)) + number.to(tl.int64) * PARTIAL
    dense = (ndim == 1) & (tl.load(row + (3 + DIMENSIONS)) == 1) & ((address & 15) == 0)
    careful = True
    if dense & (dtype == 0):
        careful = _straight_block(address.to(tl.pointer_type(tl.float32)), start, stop, out)
    elif dense & (dtype == 2):
        careful = _straight_block(address.to(tl.pointer_type(tl.float16)), start, stop, out)
    elif dense & (dtype == 3):
        careful = _straight_block(address.to(tl.pointer_type(tl.bfloat16)), start, stop, out)
    if careful:
        tl.debug_barrier()  # the row that the straight path may have written is written again
        largest = _careful_block(address, row, numel, ndim, dtype, halves, start, stop, float8, out)
        if dtype == 1:
            tl.debug_barrier()
            _scaled_squares_block(address, row, numel, ndim, dtype, halves, start, stop, largest, out)
    if digest != 0:
        _digest_block(address, row, numel, ndim, dtype, halves, start, stop, out)


@triton.jit
def _exponent(magnitude):
    """The exponent of a positive finite float64; subnormal ones are scaled up first."""
    scaled = tl.where(magnitude < 2.2250738585072014e-308, magnitude * 18014398509481984.0, magnitude)
    exponent = ((scaled.to(tl.int64, bitcast=True) >> 52) & 2047).to(tl.int32) - 1023
    return tl.where(magnitude < 2.2250738585072014e-308, exponent - 54, exponent)


@triton.jit
def _column(values, column):
    return tl.sum(tl.where(tl.arange(0, 16) + 64 == column, values, 0.0), 0)


@triton.jit
def _norm(sums):
    """The root of the squares of all blocks: plain, scaled down and scaled up ones. The largest kind decides."""
    squares = _column(sums, SQUARES)
    large = _column(sums, SQUARES_LARGE)
    tiny = _column(sums, SQUARES_TINY)
    norm = tl.where(squares > 0.0, tl.sqrt(squares), tl.sqrt(tiny) * SCALE_DOWN)
    return tl.where(large > 0.0, tl.sqrt(large + squares * SCALE_DOWN * SCALE_DOWN) * SCALE_UP, norm)


@triton.jit(do_not_specialize=["table", "partials", "results", "digest"])
def fold_blocks(table, partials, results, digest):
    """Stage 2; the grid is the number of tensors in the table."""
    index = tl.program_id(0)
    row = (table + TABLE_ROWS * 4).to(tl.pointer_type(tl.int64)) + index * DESCRIPTOR_WORDS
    components = tl.load(row + 1)
    kinds = tl.load(row + 2)
    dtype, halves = _component_type((kinds & 0xFFFFFFFF).to(tl.int32))
    components = components << halves
    size = _block_size(components)
    blocks = ((components + size - 1) // size).to(tl.int32)
    first = tl.load(table.to(tl.pointer_type(tl.int32)) + index) - blocks
    base = partials.to(tl.pointer_type(tl.float64)) + first.to(tl.int64) * PARTIAL
    members = tl.arange(0, FOLD)
    buckets = tl.arange(0, 64)
    columns = tl.arange(0, 16)
    sketch = tl.zeros([FOLD, 64], tl.float64)
    added = tl.zeros([FOLD, 16], tl.float64)
    lowest = tl.full([FOLD, 16], INFINITY, tl.float64)
    highest = tl.full([FOLD, 16], -INFINITY, tl.float64)
    mixed = tl.zeros([FOLD], tl.uint64)
    done = 0
    while done < blocks:
        inside = (members + done) < blocks
        rows = base + (members + done)[:, None] * PARTIAL
        sketch += tl.load(rows + buckets[None, :], mask=inside[:, None], other=0.0)
        written = inside[:, None] & (columns < FLOAT_COLUMNS)[None, :]
        others = tl.load(rows + (columns + 64)[None, :], mask=written, other=0.0)
        added += others
        lowest = tl.minimum(lowest, tl.where(written, others, INFINITY))
        highest = tl.maximum(highest, tl.where(written, others, -INFINITY))
        if digest != 0:
            words = base.to(tl.pointer_type(tl.uint64), bitcast=True) + (members + done) * PARTIAL + DIGEST
            mixed += tl.load(words, mask=inside, other=0)
        done += FOLD
    sums = tl.sum(added, 0)
    low = tl.min(lowest, 0)
    high = tl.max(highest, 0)
    nan = _column(sums, NAN)
    positive = _column(sums, POSITIVE)
    negative = _column(sums, NEGATIVE)
    finite = components.to(tl.float64) - nan - positive - negative
    some = finite > 0.0
    minimum = tl.where(some, _column(low, MINIMUM), float("nan"))
    maximum = tl.where(some, _column(high, MAXIMUM), float("nan"))
    smallest = _column(low, SMALLEST)
    nonzero = smallest < INFINITY
    largest = tl.maximum(tl.abs(minimum), tl.abs(maximum))
    out = results.to(tl.pointer_type(tl.float64)) + index.to(tl.int64) * RESULT_WORDS
    whole = out.to(tl.pointer_type(tl.int64), bitcast=True)
    small = out.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(whole, components)
    tl.store(out + RESULT_MINIMUM, minimum)
    tl.store(out + RESULT_MAXIMUM, maximum)
    tl.store(out + RESULT_MEAN, tl.where(some, _column(sums, SUM) / finite, float("nan")))
    tl.store(out + RESULT_NORM, _norm(sums))
    tl.store(whole + RESULT_NAN, nan.to(tl.int64))
    tl.store(whole + RESULT_POSITIVE, positive.to(tl.int64))
    tl.store(whole + RESULT_NEGATIVE, negative.to(tl.int64))
    tl.store(whole + RESULT_ZEROS, _column(sums, ZEROS).to(tl.int64))
    tl.store(small + RESULT_EXPONENT_MIN, tl.where(nonzero, _exponent(smallest), 0))
    tl.store(small + RESULT_EXPONENT_MAX, tl.where(nonzero, _exponent(largest), -1))
    tl.store(whole + RESULT_DIGEST, tl.sum(mixed, 0).to(tl.int64, bitcast=True))
    singles = out.to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(singles + (buckets + RESULT_SKETCH), tl.sum(sketch, 0).to(tl.float32))
