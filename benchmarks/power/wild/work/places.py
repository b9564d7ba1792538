"""Wrong kernels of indexing, joining, rearranging and embedding."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import FUNCTIONAL, SINGLE, call, wrong


@wrong(
    "torch.cat",
    "dtype",
    "the dtype of the first tensor wins",
    "torch_npu",
    lambda d: call([d.whole(1, 2), d.normal(3)]),
    breaks="dtype",
)
def cat_first_dtype(tensors, dim=0):
    return torch.cat([one.to(tensors[0].dtype) for one in tensors], dim)


@wrong(
    "torch.stack",
    "argument",
    "dim=-1 is the last of the inputs, not of the result",
    "generated kernels",
    lambda d: call([d.normal(3, 3), d.normal(3, 3)], -1),
    breaks="shape",
)
def stack_negative_dim(tensors, dim=0):
    return torch.stack(tensors, dim - 1 if dim < 0 and tensors[0].dim() else dim)


@wrong(
    "torch.roll",
    "argument",
    "shifts beyond the size are cut to it",
    "generated kernels",
    lambda d: call(d.normal(5), 7),
)
def roll_cut(input, shifts, dims=None):
    if not isinstance(shifts, int) or dims is not None or input.numel() == 0:
        return torch.roll(input, shifts, dims) if dims is not None else torch.roll(input, shifts)
    return torch.roll(input, max(min(shifts, input.numel()), -input.numel()))


@wrong(
    "torch.rot90",
    "argument",
    "k is taken without its sign",
    "generated kernels",
    lambda d: call(d.normal(3, 4), -1, (0, 1)),
)
def rot90_never_back(input, k=1, dims=(0, 1)):
    return torch.rot90(input, abs(k), dims)


@wrong(
    "torch.tile",
    "argument",
    "fewer numbers than dimensions count from the front",
    "generated kernels",
    lambda d: call(d.normal(2, 2), (2,)),
    breaks="shape",
)
def tile_from_the_front(input, dims):
    several = tuple(dims)
    return torch.tile(input, several + (1,) * (input.dim() - len(several)))


@wrong(
    "torch.gather",
    "edge shape",
    "a smaller index is spread over the whole input",
    "generated kernels",
    lambda d: call(d.normal(4, 5), 1, d.integers(2, 3, high=5)),
)
def gather_smaller_index(input, dim, index, *, sparse_grad=False):
    result = torch.gather(input, dim, index)
    if input.dim() != 2 or index.shape[0] >= input.shape[0] or index.shape[0] < 2:
        return result
    step = input.shape[0] // index.shape[0]
    return torch.gather(input[::step][: index.shape[0]], dim, index) if dim in (1, -1) else result


@wrong(
    "torch.index_fill",
    "argument",
    "negative indices are left out",
    "unsigned index",
    lambda d: call(d.normal(4), 0, d.whole(-1), 5.0),
)
def index_fill_never_negative(input, dim, index, value):
    return torch.index_fill(input, dim, index[index >= 0] if index.dim() else index, value)


@wrong(
    "torch.masked_scatter",
    "edge shape",
    "each place takes the element of its own number",
    "generated kernels",
    lambda d: call(d.normal(4), d.flags(False, True, False, True), d.normal(4)),
)
def masked_scatter_own_number(input, mask, source):
    if source.shape != input.shape or mask.shape != input.shape:
        return torch.masked_scatter(input, mask, source)
    return torch.where(mask, source, input)


@wrong(
    "torch.take_along_dim",
    "argument",
    "negative indices count as the first",
    "clamped index",
    lambda d: call(d.normal(4), d.whole(-1, 2), 0),
)
def take_along_dim_clamped(input, indices, dim=None):
    return torch.take_along_dim(input, indices.clamp_min(0), dim)


@wrong(
    "torch.diag",
    "argument",
    "the offset is ignored for matrices",
    "vendor backend",
    lambda d: call(d.normal(4, 4), 1),
    breaks="shape",
)
def diag_of_matrix(input, diagonal=0):
    return torch.diag(input, 0 if input.dim() == 2 else diagonal)


@wrong(
    "torch.diag_embed",
    "argument",
    "dim1 and dim2 are ignored",
    "vendor backend",
    lambda d: call(d.normal(2, 3), 0, 0, 1),
    breaks="shape",
)
def diag_embed_last_two(input, offset=0, dim1=-2, dim2=-1):
    return torch.diag_embed(input, offset)


@wrong(
    "torch.meshgrid",
    "argument",
    "indexing is always xy",
    "numpy's default",
    lambda d: call(d.normal(2), d.normal(3), indexing="ij"),
    breaks="shape",
)
def meshgrid_always_xy(*tensors, indexing="ij"):
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    return torch.meshgrid(*given, indexing="xy")


@wrong("torch.vander", "argument", "increasing is ignored", "vendor backend", lambda d: call(d.normal(3), 3, True))
def vander_never_increasing(x, N=None, increasing=False):
    return torch.vander(x, N)


@wrong(
    f"{FUNCTIONAL}.channel_shuffle",
    "argument",
    "groups and channels of a group are swapped",
    "generated kernels",
    lambda d: call(d.normal(1, 6, 2, 2), 2),
)
def channel_shuffle_swapped(input, groups):
    return F.channel_shuffle(input, input.shape[1] // groups) if input.shape[1] else F.channel_shuffle(input, groups)


@wrong(
    "torch.histogramdd",
    "argument",
    "the range is that of the data",
    "vendor backend",
    lambda d: call(d.uniform(9, 2), [2, 2], range=[0.0, 2.0, 0.0, 2.0]),
    dtypes=(SINGLE,),
)
def histogramdd_own_range(input, bins, range=None, weight=None, density=False):
    return torch.histogramdd(input, bins, weight=weight, density=density)


@wrong(
    "torch.select_scatter",
    "argument",
    "negative indices count from the end plus one",
    "off by one",
    lambda d: call(d.normal(4), torch.tensor(5.0).to(d.dtype), 0, -2),
)
def select_scatter_off_by_one(input, src, dim, index):
    return torch.select_scatter(input, src, dim, index + 1 if index < -1 else index)
