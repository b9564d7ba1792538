# mypy: ignore-errors
# (Triton compiles these functions itself: their arguments are values on the device, not Python objects.)
"""What the Triton kernels of stage 1 and stage 2 share: the table, the blocks, the rows of partial results. Importing
this module imports Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from trueline.numerics.layout import DESCRIPTOR, MAX_DIMENSIONS

ROWS_PER_TABLE = 1024
"""The most tensors in one launch."""
BLOCK_ELEMENTS = 16384
"""The elements of a block, for tensors that need no more than ``BLOCKS_PER_TENSOR`` of them."""
BLOCKS_PER_TENSOR = 1024
SPAN_ELEMENTS = 4096
"""What a straight program reads at once; a block is a whole number of spans."""
PARTIAL_WORDS = 80
"""The float64 words of a row of partial results: 64 sketch sums, then the columns named below."""

TABLE_ROWS = tl.constexpr(ROWS_PER_TABLE)
BLOCK = tl.constexpr(BLOCK_ELEMENTS)
BLOCKS = tl.constexpr(BLOCKS_PER_TENSOR)
SPAN = tl.constexpr(SPAN_ELEMENTS)
TILE_ROWS = tl.constexpr(32)
TILE = tl.constexpr(1024)
CAREFUL_TILE = tl.constexpr(512)
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
LARGEST_SAFE = tl.constexpr(2.0**50)
SMALLEST_SAFE = tl.constexpr(2.0**-40)
LARGEST_SAFE_DOUBLE = tl.constexpr(2.0**480)
SMALLEST_SAFE_DOUBLE = tl.constexpr(2.0**-400)
SCALE_UP = tl.constexpr(2.0**560)
SCALE_DOWN = tl.constexpr(2.0**-560)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def block_size(components):
    """Whole spans, at least ``BLOCK`` elements, so many that no tensor has more than ``BLOCKS`` blocks."""
    spans = (components + (BLOCKS * SPAN - 1)) // (BLOCKS * SPAN)
    return tl.maximum(spans * SPAN, BLOCK)


@triton.jit
def component_type(dtype):
    """A complex dtype as the dtype of its two components, and how many bits of the index name the component."""
    halves = tl.where(dtype == 18, 0, tl.where(dtype == 19, 1, tl.where(dtype == 20, 2, dtype)))
    return halves, tl.where(dtype >= 18, 1, 0)


@triton.jit
def sign_words(words):
    words = words ^ (words >> 16)
    words = words * 0x7FEB352D
    words = words ^ (words >> 15)
    words = words * 0x846CA68B
    return words ^ (words >> 16)


@triton.jit
def store_partial(out, sketch, total, squares, minimum, maximum, smallest, nan, positive, negative, zeros):
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
def strided(index, row, ndim, GROUP: tl.constexpr):
    """The offset, in elements, of a logical index; division in the width of ``index``.

    The index counts groups of ``GROUP`` elements, which lie side by side in the last dimension.
    """
    axis = ndim - 1
    size = (tl.load(row + (3 + axis)) // GROUP).to(index.dtype)
    step = tl.load(row + (3 + DIMENSIONS + axis)) * GROUP
    offset = tl.zeros(index.shape, tl.int64)
    while axis > 0:
        rest = index // size
        offset += (index - rest * size).to(tl.int64) * step
        index = rest
        axis -= 1
        size = tl.load(row + (3 + axis)).to(index.dtype)
        step = tl.load(row + (3 + DIMENSIONS + axis))
    return offset + index.to(tl.int64) * step


@triton.jit
def moderate(squares, lowest, highest):
    """Whether float32 arithmetic was good enough for a block; written so that NaN is trouble."""
    largest = tl.maximum(tl.abs(lowest), tl.abs(highest))
    fits = (largest <= LARGEST_SAFE) & ((largest >= SMALLEST_SAFE) | (largest == 0.0))
    return (squares < INFINITY) & fits
