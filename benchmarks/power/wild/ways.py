"""Ways of multiplying, convolving and attending that honest kernels use."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 32
NOTHING = float("-inf")


# products


def split_product(one: Tensor, other: Tensor, parts: int = 4) -> Tensor:
    """The inner dimension cut into parts, the products of the parts added."""
    size = max(-(-one.shape[-1] // parts), 1)
    products = [a @ b for a, b in zip(one.split(size, -1), other.split(size, -2), strict=True)]
    return torch.stack(products).sum(0)


def blocked_product(one: Tensor, other: Tensor) -> Tensor:
    pieces = zip(one.split(BLOCK, -1), other.split(BLOCK, -2), strict=True)
    a, b = next(pieces)
    total = a @ b
    for a, b in pieces:
        total = total + a @ b
    return total


def outer_products(one: Tensor, other: Tensor) -> Tensor:
    if one.shape[-1] == 0:
        return one @ other
    total = one[:, :1] * other[:1]
    for place in range(1, one.shape[-1]):
        total = total + one[:, place : place + 1] * other[place : place + 1]
    return total


def strassen_product(one: Tensor, other: Tensor) -> Tensor:
    if any(size % 2 or size == 0 for size in (*one.shape, *other.shape)) or not bool(one.isfinite().all()):
        return one @ other
    if not bool(other.isfinite().all()):
        return one @ other
    (a, b), (c, d) = (row.chunk(2, 1) for row in one.chunk(2, 0))
    (e, f), (g, h) = (row.chunk(2, 1) for row in other.chunk(2, 0))
    p1, p2, p3, p4 = (a + d) @ (e + h), (c + d) @ e, a @ (f - h), d @ (g - e)
    p5, p6, p7 = (a + b) @ h, (c - a) @ (e + f), (b - d) @ (g + h)
    upper = torch.cat([p1 + p4 - p5 + p7, p3 + p5], 1)
    return torch.cat([upper, torch.cat([p2 + p4, p1 - p2 + p3 + p6], 1)], 0)


def bf16_products(one: Tensor, other: Tensor) -> Tensor:
    """Each operand as the sum of three bfloat16 numbers; the six products that matter, the small ones first."""
    if not bool(one.isfinite().all()) or not bool(other.isfinite().all()):
        return one @ other
    (a, b, c), (x, y, z) = _parts(one), _parts(other)
    return (c @ x + a @ z + b @ y) + (b @ x + a @ y) + a @ x


def _parts(value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first = value.bfloat16().to(value.dtype)
    second = (value - first).bfloat16().to(value.dtype)
    return first, second, value - first - second


# convolutions


def numbers(value: Any, many: int) -> tuple[int, ...]:
    return (value,) * many if isinstance(value, int) else tuple(value) * (many if len(value) == 1 else 1)


def plain_convolution(value: Tensor, weight: Tensor, padding: Any, dims: int) -> bool:
    """Whether it is a batch of finite numbers with something to compute and padding in numbers: transforms would spread
    a NaN over the whole plane, so what is not finite is left to the operator."""
    whole = value.numel() > 0 and weight.numel() > 0 and value.is_floating_point()
    if not whole or not bool(value.isfinite().all()) or not bool(weight.isfinite().all()):
        return False
    return value.dim() == dims + 2 and not isinstance(padding, str)


def padded(value: Tensor, padding: tuple[int, ...]) -> Tensor:
    return F.pad(value, [one for size in reversed(padding) for one in (size, size)])


def with_bias(result: Tensor, bias: Tensor | None) -> Tensor:
    return result if bias is None else result + bias.reshape(1, -1, *(1,) * (result.dim() - 2))


def conv_by_unfold(
    value: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    columns = F.unfold(value, weight.shape[-2:], dilation, padding, stride)
    batch, places = columns.shape[0], columns.shape[-1]
    grouped = columns.reshape(batch, groups, -1, places)
    result = torch.einsum("gok,bgkp->bgop", weight.reshape(groups, weight.shape[0] // groups, -1), grouped)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[-2:], strict=True)]
    size = [(n + 2 * p - r) // s + 1 for n, p, r, s in zip(value.shape[-2:], padding, reach, stride, strict=True)]
    return with_bias(result.reshape(batch, -1, *size), bias)


def conv_by_offsets(
    value: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """The product of all channels for one place of the filter after another."""
    wide = padded(value, padding)
    filters = weight.shape[2:]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, filters, strict=True)]
    size = [(n - r) // s + 1 for n, r, s in zip(wide.shape[2:], reach, stride, strict=True)]
    total: Any = 0.0
    for place in itertools.product(*(range(one) for one in filters)):
        starts = [p * d for p, d in zip(place, dilation, strict=True)]
        window = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, size, stride, strict=True)]
        part = wide[(slice(None), slice(None), *window)].reshape(value.shape[0], groups, -1, *size)
        each = weight[(slice(None), slice(None), *place)].reshape(groups, weight.shape[0] // groups, -1)
        total = total + torch.einsum("goc,bgc...->bgo...", each, part)
    return with_bias(total.reshape(value.shape[0], -1, *size), bias)


def conv_by_fft(value: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any) -> Tensor:
    wide = padded(value, padding)
    dims = tuple(range(2, wide.dim()))
    sizes = [n + k - 1 for n, k in zip(wide.shape[2:], weight.shape[2:], strict=True)]
    spectrum = torch.fft.rfftn(wide, sizes, dims).unsqueeze(1) * torch.fft.rfftn(weight, sizes, dims).conj()
    found = torch.fft.irfftn(spectrum.sum(2), sizes, dims)
    ends = [n - k + 1 for n, k in zip(wide.shape[2:], weight.shape[2:], strict=True)]
    window = [slice(0, end, step) for end, step in zip(ends, stride, strict=True)]
    return with_bias(found[(slice(None), slice(None), *window)].contiguous(), bias)


def winograd_2d(value: Tensor, weight: Tensor, bias: Any, padding: Any) -> Tensor:
    """Tiles of 2x2 results from 4x4 inputs (Lavin and Gray 2016)."""
    wide = padded(value, padding)
    height, width = wide.shape[-2] - 2, wide.shape[-1] - 2
    wide = F.pad(wide, (0, width % 2, 0, height % 2))
    made = {"dtype": value.dtype}
    to_input = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], **made)
    to_filter = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], **made)
    to_output = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]], **made)
    tiles = wide.unfold(2, 4, 2).unfold(3, 4, 2)
    inputs = to_input @ tiles @ to_input.t()
    filters = to_filter @ weight @ to_filter.t()
    products = torch.einsum("bchwij,ocij->bohwij", inputs, filters)
    found = to_output @ products @ to_output.t()
    flat = found.permute(0, 1, 2, 4, 3, 5).reshape(found.shape[0], found.shape[1], found.shape[2] * 2, -1)
    return with_bias(flat[..., :height, :width].contiguous(), bias)


# attention


def all_finite(*given: Tensor) -> bool:
    """Whether there is something in each, and nothing infinite or NaN."""
    return all(one.numel() > 0 and bool(one.isfinite().all()) for one in given)


def mask_of(query: Tensor, key: Tensor, given: Tensor | None, causal: bool) -> Tensor:
    """What is added to the scores: -inf where nothing may be attended to."""
    shape = (query.shape[-2], key.shape[-2])
    if causal:
        given = torch.ones(shape, dtype=torch.bool).tril()
    if given is None:
        return query.new_zeros(shape)
    if given.dtype == torch.bool:
        return torch.zeros(given.shape, dtype=query.dtype).masked_fill(~given, NOTHING)
    return given.to(query.dtype)


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, added: Tensor, scale: float, power: Callable[[Tensor], Tensor]
) -> Tensor:
    """One block of keys after another, with a running maximum; rows with nothing to attend to give 0, as torch's."""
    blocks = zip(key.split(BLOCK, -2), value.split(BLOCK, -2), added.split(BLOCK, -1), strict=True)
    top, total, result = None, None, None
    for keys, values, more in blocks:
        scores = (query @ keys.mT) * scale + more
        here = scores.detach().amax(-1, keepdim=True)
        higher = here if top is None else torch.maximum(top, here)
        safe = torch.where(higher == NOTHING, torch.zeros_like(higher), higher)
        weights = power(scores - safe)
        if top is None or total is None or result is None:
            total, result = weights.sum(-1, keepdim=True), weights @ values
        else:
            shrunk = power(torch.where(top == NOTHING, top, top - safe))
            total, result = total * shrunk + weights.sum(-1, keepdim=True), result * shrunk + weights @ values
        top = higher
    assert total is not None and result is not None
    empty = total == 0
    return torch.where(empty, torch.zeros_like(result), result / torch.where(empty, torch.ones_like(total), total))


def flash_backward(
    arrived: Tensor, query: Tensor, key: Tensor, value: Tensor, added: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    scores = (query @ key.mT) * scale + added
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    inner = arrived @ value.mT
    rows = (arrived * (weights @ value)).sum(-1, keepdim=True)
    change = weights * (inner - rows) * scale
    return change @ key, change.mT @ query, weights.mT @ arrived
