"""Wrong kernels of operators that move, pick, pool or resize: embeddings, gathers, padding, pooling, recurrence."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power.recipes import BRAIN, HALF, SINGLE, Arguments, Draw, call, wrong

FUNCTIONAL = "torch.nn.functional"


def table(d: Draw) -> Arguments:
    return call(d.tokens(8, 64, vocabulary=2000), d.normal(2000, 64))


def image(d: Draw) -> Arguments:
    return call(d.normal(2, 16, 16, 16), 2)


def padded_image(d: Draw) -> Arguments:
    return call(d.normal(2, 16, 15, 15), 3, 2, 1)


def added(d: Draw) -> Arguments:
    """Messages of a graph added into its nodes; many share a node."""
    return call(d.normal(200, 32), 0, d.integers(1000, 32, high=200), d.normal(1000, 32))


# embedding and indexing


@wrong(
    f"{FUNCTIONAL}.embedding",
    "int index wrong",
    "the last row of the table is read for the row before it",
    lambda d: call(d.integers(16, 64, high=500), d.normal(500, 64)),
)
def embedding_last_row(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    last = len(weight) - 1
    return F.embedding(torch.where(input == last - 1, last, input), weight)


@wrong(f"{FUNCTIONAL}.embedding", "low precision inside", "the table is kept in bfloat16", table, dtypes=(SINGLE, HALF))
def embedding_bf16_table(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    return F.embedding(input, weight.to(BRAIN).to(weight.dtype))


@wrong(
    f"{FUNCTIONAL}.embedding_bag",
    "wrong denominator",
    "mean divided by the longest bag",
    lambda d: call(d.integers(60, high=100), d.normal(100, 16), torch.tensor([0, 7, 20, 33, 50]), mode="mean"),
)
def embedding_bag_longest(input: Tensor, weight: Tensor, offsets: Tensor, mode: str = "mean") -> Tensor:
    total = F.embedding_bag(input, weight, offsets, mode="sum")
    ends = torch.cat([offsets[1:], torch.tensor([len(input)], device=offsets.device)])
    return total / int((ends - offsets).max())


@wrong(
    f"{FUNCTIONAL}.one_hot",
    "off by one",
    "class 0 is never marked",
    lambda d: call(d.integers(100, high=10), 10),
    dtypes=(SINGLE,),
)
def one_hot_without_zero(tensor: Tensor, num_classes: int = -1) -> Tensor:
    return F.one_hot(tensor, num_classes) * (tensor > 0).long()[:, None]


@wrong(
    "torch.gather",
    "wrong dimension",
    "index used along the other dimension",
    lambda d: call(d.normal(64, 64), 1, d.integers(64, 64, high=64)),
)
def gather_other_dimension(input: Tensor, dim: int, index: Tensor) -> Tensor:
    return torch.gather(input, 1 - dim, index)


@wrong(
    "torch.index_select",
    "dropped tail",
    "the last index is read as 0",
    lambda d: call(d.normal(100, 32), 0, d.integers(50, high=100, low=1)),
)
def index_select_last(input: Tensor, dim: int, index: Tensor) -> Tensor:
    return torch.index_select(input, dim, torch.cat([index[:-1], torch.zeros_like(index[-1:])]))


@wrong(
    "torch.take_along_dim",
    "int index wrong",
    "indices one too small",
    lambda d: call(d.normal(32, 100), d.integers(32, 5, high=100), 1),
)
def take_along_dim_shifted(input: Tensor, indices: Tensor, dim: int) -> Tensor:
    return torch.take_along_dim(input, (indices - 1).clamp_min(0), dim)


@wrong("torch.scatter_add", "lost update", "of repeated indices only the last counts", added)
def scatter_add_overwrites(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return input + torch.scatter(torch.zeros_like(input), dim, index, src)


@wrong("torch.scatter_add", "low-precision accumulation", "messages added in bfloat16", added, dtypes=(SINGLE, HALF))
def scatter_add_bf16(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return torch.scatter_add(input.to(BRAIN), dim, index, src.to(BRAIN)).to(input.dtype)


@wrong(
    "torch.index_add",
    "ignored argument",
    "alpha ignored",
    lambda d: call(d.normal(50, 16), 0, d.integers(200, high=50), d.normal(200, 16), alpha=0.5),
)
def index_add_without_alpha(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1.0) -> Tensor:
    return torch.index_add(input, dim, index, source)


@wrong(
    "torch.masked_fill",
    "ignored mask",
    "the last column is not masked",
    lambda d: call(d.normal(4, 64, 64), d.mask(64, 64, share=0.5), -1e4),
)
def masked_fill_last_column(input: Tensor, mask: Tensor, value: float) -> Tensor:
    kept = torch.cat([mask[..., :-1], torch.zeros_like(mask[..., -1:])], -1)
    return input.masked_fill(kept, value)


@wrong("torch.tril", "off by one", "the diagonal is not kept", lambda d: call(d.normal(4, 64, 64)))
def tril_without_diagonal(input: Tensor, diagonal: int = 0) -> Tensor:
    return torch.tril(input, diagonal - 1)


# moving


@wrong(
    "torch.cat",
    "swapped operands",
    "the halves are swapped",
    lambda d: call([d.normal(4, 32, 16), d.normal(4, 32, 16)], -1),
)
def cat_swapped(tensors: list[Tensor], dim: int = 0) -> Tensor:
    return torch.cat(list(tensors)[::-1], dim)


@wrong("torch.roll", "sign", "rolled the other way", lambda d: call(d.normal(2, 14, 14, 32), (3, 3), (1, 2)))
def roll_other_way(input: Tensor, shifts: Any, dims: Any) -> Tensor:
    return torch.roll(input, tuple(-shift for shift in shifts), dims)


@wrong("torch.flip", "wrong dimension", "another dimension", lambda d: call(d.normal(16, 32, 32), [1]))
def flip_other_dimension(input: Tensor, dims: list[int]) -> Tensor:
    return torch.flip(input, [dims[0] + 1])


@wrong(
    "torch.repeat_interleave",
    "other formula",
    "tiles instead of repeating each",
    lambda d: call(d.normal(16, 8), 4, dim=0),
)
def repeat_interleave_tiles(input: Tensor, repeats: int, dim: int) -> Tensor:
    return input.repeat(repeats, 1)


@wrong(
    f"{FUNCTIONAL}.pad",
    "ignored argument",
    "reflect padding repeats the border",
    lambda d: call(d.normal(2, 8, 16, 16), (1, 1, 1, 1), "reflect"),
)
def pad_replicates(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    return F.pad(input, pad, "replicate")


@wrong(
    f"{FUNCTIONAL}.pad",
    "ignored argument",
    "padded with 0 instead of the value",
    lambda d: call(d.normal(2, 8, 30), (2, 3), value=-1.0),
)
def pad_with_zero(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    return F.pad(input, pad)


@wrong(
    f"{FUNCTIONAL}.pixel_shuffle",
    "int index wrong",
    "rows and columns of a block swapped",
    lambda d: call(d.normal(2, 16, 8, 8), 2),
)
def pixel_shuffle_swapped(input: Tensor, upscale_factor: int) -> Tensor:
    batch, channels, height, width = input.shape
    apart = input.reshape(batch, channels // upscale_factor**2, upscale_factor, upscale_factor, height, width)
    return F.pixel_shuffle(apart.transpose(2, 3).reshape(input.shape), upscale_factor)


@wrong(
    f"{FUNCTIONAL}.unfold", "int index wrong", "kernel positions transposed", lambda d: call(d.normal(2, 8, 10, 10), 3)
)
def unfold_transposed(input: Tensor, kernel_size: int) -> Tensor:
    return F.unfold(input.transpose(2, 3).contiguous(), kernel_size)


@wrong(
    f"{FUNCTIONAL}.fold",
    "lost update",
    "overlaps are averaged instead of summed",
    lambda d: call(d.normal(2, 72, 64), (10, 10), 3),
)
def fold_averages(input: Tensor, output_size: Any, kernel_size: int) -> Tensor:
    total = F.fold(input, output_size, kernel_size)
    return total / F.fold(torch.ones_like(input), output_size, kernel_size)


# pooling and resizing


@wrong(f"{FUNCTIONAL}.avg_pool2d", "wrong denominator", "padding not counted", padded_image)
def avg_pool_uncounted(input: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    return F.avg_pool2d(input, kernel, stride, padding, count_include_pad=False)


@wrong(f"{FUNCTIONAL}.avg_pool2d", "x1.002", "result x 1.002", image, padded_image)
def avg_pool_scaled(input: Tensor, kernel: int, stride: int | None = None, padding: int = 0) -> Tensor:
    return F.avg_pool2d(input, kernel, stride, padding) * 1.002


@wrong(
    f"{FUNCTIONAL}.max_pool2d",
    "wrong border",
    "padded with 0 instead of minus infinity",
    lambda d: call(d.normal(2, 16, 15, 15, mean=-1.0), 3, 2, 1),
)
def max_pool_zero_padding(input: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    return F.max_pool2d(F.pad(input, (padding,) * 4), kernel, stride)


@wrong(f"{FUNCTIONAL}.max_pool2d", "off by one", "the last column of each window is not looked at", padded_image)
def max_pool_narrow(input: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    wide = F.pad(input, (padding,) * 4, value=-torch.inf)
    return F.max_pool2d(wide[..., :-1], (kernel, kernel - 1), stride)


@wrong(
    f"{FUNCTIONAL}.adaptive_avg_pool2d",
    "off by one",
    "windows end one pixel too early",
    lambda d: call(d.normal(2, 16, 14, 14), (3, 3)),
)
def adaptive_avg_pool_short(input: Tensor, output_size: Any) -> Tensor:
    rows, columns = output_size
    height, width = input.shape[-2:]
    cells = [
        input[..., r * height // rows : (r + 1) * height // rows, c * width // columns : (c + 1) * width // columns]
        for r in range(rows)
        for c in range(columns)
    ]
    return torch.stack([cell.mean((-1, -2)) for cell in cells], -1).reshape(*input.shape[:2], rows, columns)


@wrong(
    f"{FUNCTIONAL}.adaptive_avg_pool2d",
    "low-precision accumulation",
    "rows added in bfloat16",
    lambda d: call(d.relu(4, 64, 14, 14), (1, 1)),
)
def adaptive_avg_pool_bf16(input: Tensor, output_size: Any) -> Tensor:
    total = torch.zeros((), dtype=BRAIN, device=input.device)
    for row in input.unbind(-2):
        total = total + row.sum(-1).to(BRAIN)
    return (total.to(input.dtype) / (input.shape[-1] * input.shape[-2]))[..., None, None]


@wrong(f"{FUNCTIONAL}.lp_pool2d", "missing root", "sum of squares", lambda d: call(d.normal(2, 8, 12, 12), 2.0, 2))
def lp_pool_without_root(input: Tensor, norm_type: float, kernel_size: int) -> Tensor:
    return F.lp_pool2d(input, norm_type, kernel_size) ** 2


@wrong(
    f"{FUNCTIONAL}.interpolate",
    "ignored argument",
    "align_corners ignored",
    lambda d: call(d.normal(2, 8, 14, 14), scale_factor=2, mode="bilinear", align_corners=True),
)
def interpolate_unaligned(input: Tensor, **options: Any) -> Tensor:
    return F.interpolate(input, **{**options, "align_corners": False})


@wrong(
    f"{FUNCTIONAL}.interpolate",
    "off by one",
    "nearest rounds to the next pixel",
    lambda d: call(d.normal(2, 8, 14, 14), size=(20, 20), mode="nearest"),
)
def interpolate_rounds(input: Tensor, **options: Any) -> Tensor:
    return F.interpolate(input, **{**options, "mode": "nearest-exact"})


@wrong(
    f"{FUNCTIONAL}.grid_sample",
    "swapped operands",
    "x and y swapped",
    lambda d: call(d.normal(2, 8, 14, 14), d.uniform(2, 10, 10, 2, low=-0.9, high=0.9), align_corners=False),
    dtypes=(SINGLE,),
)
def grid_sample_swapped(input: Tensor, grid: Tensor, **options: Any) -> Tensor:
    return F.grid_sample(input, grid.flip(-1), **options)


@wrong(
    f"{FUNCTIONAL}.affine_grid",
    "ignored argument",
    "align_corners ignored",
    lambda d: call(d.normal(2, 2, 3), [2, 3, 12, 12], True),
    dtypes=(SINGLE,),
)
def affine_grid_unaligned(theta: Tensor, size: Any, align_corners: bool = False) -> Tensor:
    return F.affine_grid(theta, size, False)


# linear algebra


def _definite(d: Draw) -> Arguments:
    root = d.normal(4, 24, 24)
    return call(root @ root.mT / 24 + 0.1 * torch.eye(24, dtype=d.dtype))


@wrong("torch.linalg.cholesky", "transposed weights", "the upper factor", _definite, dtypes=(SINGLE,))
def cholesky_upper(A: Tensor) -> Tensor:
    return torch.linalg.cholesky(A, upper=True)


@wrong(
    "torch.linalg.inv",
    "low precision inside",
    "one refinement of the inverse of the float16 matrix",
    lambda d: call(d.normal(4, 24, 24) / 5 + torch.eye(24)),
    dtypes=(SINGLE,),
)
def inv_half(A: Tensor) -> Tensor:
    return torch.linalg.inv(A.half().to(A.dtype))


@wrong(
    "torch.linalg.solve",
    "transposed weights",
    "solves with the transposed matrix",
    lambda d: call(d.normal(4, 24, 24) / 5 + torch.eye(24), d.normal(4, 24, 3)),
    dtypes=(SINGLE,),
)
def solve_transposed(A: Tensor, B: Tensor) -> Tensor:
    return torch.linalg.solve(A.mT, B)


@wrong(
    "torch.linalg.det",
    "sign",
    "the sign of the permutation is lost",
    lambda d: call(d.normal(16, 8, 8)),
    dtypes=(SINGLE,),
)
def det_unsigned(A: Tensor) -> Tensor:
    return torch.linalg.det(A).abs()


@wrong(
    "torch.linalg.svdvals",
    "dropped tail",
    "the smallest singular value is 0",
    lambda d: call(d.normal(4, 16, 12)),
    dtypes=(SINGLE,),
)
def svdvals_without_last(A: Tensor) -> Tensor:
    values = torch.linalg.svdvals(A)
    return torch.cat([values[..., :-1], torch.zeros_like(values[..., -1:])], -1)
