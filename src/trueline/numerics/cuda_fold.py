# mypy: ignore-errors
# (Triton compiles these functions itself: their arguments are values on the device, not Python objects.)
"""Stage 2 of the Triton kernels behind ``cuda.GroupedReducer``. Importing this module imports Triton.

One program per tensor folds the rows that ``cuda_kernels.reduce_blocks`` wrote for its blocks, in a fixed order and in
float64, and writes the ``STATISTICS`` row.
"""

from __future__ import annotations

import triton
import triton.language as tl

from trueline.numerics.cuda_common import (
    DESCRIPTOR_WORDS,
    DIGEST,
    FLOAT_COLUMNS,
    INFINITY,
    MAXIMUM,
    MINIMUM,
    NAN,
    NEGATIVE,
    PARTIAL,
    POSITIVE,
    SCALE_DOWN,
    SCALE_UP,
    SMALLEST,
    SQUARES,
    SQUARES_LARGE,
    SQUARES_TINY,
    SUM,
    TABLE_ROWS,
    ZEROS,
    block_size,
    component_type,
)
from trueline.numerics.layout import STATISTICS

FOLD = tl.constexpr(64)
"""The rows of blocks read at once."""


def _word(field: str, size: int = 8) -> tl.constexpr:
    return tl.constexpr(STATISTICS.fields[field][1] // size)


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
    _, halves = component_type((kinds & 0xFFFFFFFF).to(tl.int32))
    components = components << halves
    size = block_size(components)
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
