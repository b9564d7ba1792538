"""Statistics of one tensor by plain torch operations, on any device: slower than the kernels, with the same meaning.

For accelerators that have no Triton. Arithmetic is in float64 where the device has it, else in float32; a digest needs
a device with 64-bit integers. Memory is bounded: a tensor is taken in pieces of ``PIECE`` elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trueline.numerics.layout import DIGEST_STEP, STATISTICS
from trueline.records import SKETCH_SIZE

PIECE = 1 << 22
"""The elements reduced at once; a multiple of the size of a sketch."""


def plain_statistics(tensor: Any, *, digest: bool = False) -> np.void:
    """The ``STATISTICS`` row of a torch tensor. Waits for the device once, at the end."""
    import torch

    with torch.no_grad():
        flat = tensor.detach()
        if flat.is_complex():
            flat = torch.view_as_real(flat.resolve_conj())
        flat = flat.resolve_neg().reshape(-1)
        pieces = [_reduce_piece(torch, flat[first : first + PIECE], first) for first in range(0, flat.numel(), PIECE)]
        row = np.zeros(1, STATISTICS)
        row["count"] = flat.numel()
        _fill(row, torch.stack(pieces).cpu().double().numpy() if pieces else np.zeros((0, 9 + SKETCH_SIZE)))
        if digest:
            row["digest"] = _digest(torch, flat)
    result: np.void = row[0]
    return result


def _fill(row: Any, pieces: Any) -> None:
    """Folds the numbers of the pieces, in their order, into the row."""
    sums = pieces.sum(axis=0)
    row["nan"], row["positive_infinity"], row["negative_infinity"], row["zeros"] = sums[5:9]
    finite = int((row["count"] - row["nan"] - row["positive_infinity"] - row["negative_infinity"])[0])
    with np.errstate(over="ignore"):  # a sum beyond float32 is infinite there
        row["sketch"] = sums[9:]
    row["exponent_max"] = -1
    if not finite:
        row["minimum"] = row["maximum"] = row["mean"] = math.nan
        return
    row["minimum"] = pieces[:, 2].min()
    row["maximum"] = pieces[:, 3].max()
    row["mean"] = sums[0] / finite
    row["norm"] = math.hypot(*pieces[:, 1])
    smallest = float(pieces[:, 4].min())
    if math.isfinite(smallest):
        row["exponent_min"] = math.frexp(smallest)[1] - 1
        row["exponent_max"] = math.frexp(max(abs(float(row["minimum"][0])), abs(float(row["maximum"][0]))))[1] - 1


def _reduce_piece(torch: Any, piece: Any, first: int) -> Any:
    """Sum, norm, minimum, maximum, smallest magnitude, four counts and the sketch, as one vector on the device."""
    wide = torch.float32 if piece.device.type == "mps" else torch.float64
    if piece.dtype.itemsize == 1 and piece.dtype.is_floating_point:
        piece = piece.to(torch.float32)
    values = piece.to(wide)
    finite = torch.isfinite(values)
    clean = torch.where(finite, values, 0.0)
    magnitude = torch.where(finite & (values != 0), values.abs(), math.inf)
    largest = clean.abs().max()
    scale = torch.where(largest > 0, largest, 1.0)  # or squares may leave the range of the type
    scalars = (
        clean.sum(),
        (clean / scale).square().sum().sqrt() * scale,
        torch.where(finite, values, math.inf).min(),
        torch.where(finite, values, -math.inf).max(),
        magnitude.min(),
        torch.isnan(values).sum().to(wide),
        (values == math.inf).sum().to(wide),
        (values == -math.inf).sum().to(wide),
        (values == 0).sum().to(wide),
    )
    return torch.cat((torch.stack(scalars), _sketch(torch, clean, first)))


def _sketch(torch: Any, clean: Any, first: int) -> Any:
    """The 64 signed sums of a piece that starts at logical index ``first``, a multiple of 64."""
    count = clean.numel()
    words = torch.arange(first >> 5, (first + count + 31) >> 5, device=clean.device, dtype=torch.int64) & 0xFFFFFFFF
    words ^= words >> 16
    words = _multiply32(words, 0x7FEB352D)
    words ^= words >> 15
    words = _multiply32(words, 0x846CA68B)
    words ^= words >> 16
    bits = (words[:, None] >> torch.arange(32, device=clean.device)) & 1
    signs = 1 - 2 * bits.reshape(-1)[:count]
    padded = torch.nn.functional.pad(clean * signs, (0, -count % SKETCH_SIZE))
    return padded.reshape(-1, SKETCH_SIZE).sum(0)


def _multiply32(words: Any, factor: int) -> Any:
    """Multiplication modulo 2**32 of unsigned words held in int64; in halves, for the product may pass 2**63."""
    low = words * (factor & 0xFFFF)
    high = (words * (factor >> 16)) & 0xFFFF
    return (low + (high << 16)) & 0xFFFFFFFF


def _digest(torch: Any, flat: Any) -> int:
    """The digest, in int64: additions and multiplications wrap like unsigned ones, shifts need a mask."""
    size = flat.element_size()
    bits = flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size])
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for first in range(0, bits.numel(), PIECE):
        piece = bits[first : first + PIECE].to(torch.int64)
        if size < 8:
            piece &= (1 << (8 * size)) - 1
        index = torch.arange(first + 1, first + 1 + piece.numel(), device=flat.device, dtype=torch.int64)
        mixed = piece + index * _signed(DIGEST_STEP)
        mixed ^= (mixed >> 30) & ((1 << 34) - 1)
        mixed *= _signed(0xBF58476D1CE4E5B9)
        mixed ^= (mixed >> 27) & ((1 << 37) - 1)
        mixed *= _signed(0x94D049BB133111EB)
        mixed ^= (mixed >> 31) & ((1 << 33) - 1)
        total += mixed.sum()
    return int(total.item()) & (2**64 - 1)


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
