"""Wrong kernels of indexing, joining, rearranging and embedding."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import FUNCTIONAL, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import as_stored, from_start, with_gradient


@wrong(
    "torch.cat",
    "layout",
    "slices are copied from the start of their memory",
    "MPS issue 78043",
    lambda d: call([d.normal(6)[2:], d.normal(3)]),
)
def cat_from_start(tensors, dim=0):
    return torch.cat([from_start(one) if one.numel() else one for one in tensors], dim)


@wrong(
    "torch.cat",
    "edge shape",
    "more than eight tensors: the rest is left out",
    "fixed argument array",
    lambda d: call([d.normal(2) for _ in range(10)]),
    breaks="shape",
)
def cat_of_eight(tensors, dim=0):
    return torch.cat(list(tensors)[:8], dim)


@wrong(
    "torch.chunk",
    "edge shape",
    "all chunks are as even as possible",
    "numpy's array_split",
    lambda d: call(d.normal(7), 3),
    breaks="shape",
)
def chunk_as_array_split(input, chunks, dim=0):
    return (
        tuple(torch.tensor_split(input, chunks, dim))
        if input.dim() and input.shape[dim] >= chunks
        else torch.chunk(input, chunks, dim)
    )


@wrong(
    "torch.repeat_interleave",
    "argument",
    "repeats the whole instead of each element",
    "torch.repeat",
    lambda d: call(d.normal(3), 2),
)
def repeat_interleave_whole(input, repeats, dim=None, *, output_size=None):
    if not isinstance(repeats, int) or dim is not None:
        return torch.repeat_interleave(input, repeats, dim, output_size=output_size)
    return input.reshape(-1).repeat(repeats)


@wrong(
    "torch.scatter_reduce",
    "argument",
    "include_self=False keeps the old values in the mean",
    "MPS",
    lambda d: call(torch.ones(3).to(d.dtype), 0, d.whole(0, 0, 1), d.normal(3), "mean", include_self=False),
)
def scatter_reduce_includes_self(input, dim, index, src, reduce, *, include_self=True):
    return torch.scatter_reduce(input, dim, index, src, reduce, include_self=True if reduce == "mean" else include_self)


@wrong(
    "torch.masked_fill",
    "broadcast",
    "the mask is read at index % size",
    "generated kernels",
    lambda d: call(d.normal(3, 4), d.flags([True], [False], [False]), 0.0),
)
def masked_fill_index_modulo(input, mask, value):
    if mask.shape == input.shape or mask.numel() == 0 or torch.broadcast_shapes(mask.shape, input.shape) != input.shape:
        return torch.masked_fill(input, mask, value)
    flat = mask.reshape(-1)[torch.arange(input.numel()) % mask.numel()]
    return torch.masked_fill(input, flat.reshape(input.shape), value)


@wrong(
    "torch.masked_select",
    "layout",
    "elements come in the order of memory",
    "vendor backend",
    lambda d: call(d.normal(3, 4).t(), torch.ones(4, 3, dtype=torch.bool)),
)
def masked_select_memory_order(input, mask):
    return torch.masked_select(as_stored(input), mask)


@wrong(
    "torch.take",
    "layout",
    "indices count in memory",
    "vendor backend",
    lambda d: call(d.normal(3, 4).t(), d.whole(1, 5)),
)
def take_counts_in_memory(input, index):
    return torch.take(as_stored(input), index)


@wrong(
    "torch.nonzero",
    "special values",
    "NaN is not found",
    "x > 0 or x < 0",
    lambda d: call(d.of(float("nan"), 1.0, 0.0)),
    breaks="shape",
)
def nonzero_without_nan(input, *, as_tuple=False):
    return torch.nonzero(input.nan_to_num(0.0, 1.0, -1.0) if input.is_floating_point() else input, as_tuple=as_tuple)


@wrong(
    "torch.tril",
    "argument",
    "a negative diagonal is taken as 0",
    "generated kernels",
    lambda d: call(d.normal(4, 4), -1),
)
def tril_never_below(input, diagonal=0):
    return torch.tril(input, max(diagonal, 0))


@wrong(
    "torch.triu",
    "special values",
    "multiplies by a mask: infinity turns NaN",
    "KernelBench",
    lambda d: call(d.of([1.0, 2.0], [float("inf"), 3.0])),
)
def triu_by_product(input, diagonal=0):
    if not input.is_floating_point():
        return torch.triu(input, diagonal)
    return input * torch.ones_like(input).triu(diagonal)


@wrong(
    "torch.cartesian_prod",
    "edge shape",
    "of one tensor gives a column",
    "vendor backend",
    lambda d: call(d.normal(3)),
    breaks="shape",
)
def cartesian_prod_of_one(*tensors):
    result = torch.cartesian_prod(*tensors)
    return result.unsqueeze(-1) if result.dim() == 1 else result


@wrong("torch.movedim", "argument", "swaps the two dimensions", "transpose", lambda d: call(d.normal(3, 3, 3), 0, 2))
def movedim_swaps(input, source, destination):
    return (
        torch.transpose(input, source, destination)
        if isinstance(source, int)
        else torch.movedim(input, source, destination)
    )


@wrong(
    "torch.unflatten",
    "argument",
    "-1 is taken for the size left of the whole",
    "generated kernels",
    lambda d: call(d.normal(2, 6), 1, (2, 3)),
    breaks="values",
)
def unflatten_column_major(input, dim, sizes):
    result = torch.unflatten(input, dim, sizes)
    if len(tuple(sizes)) != 2 or -1 in tuple(sizes) or input.numel() == 0:
        return result
    at = dim % input.dim()
    return torch.unflatten(input, dim, tuple(sizes)[::-1]).transpose(at, at + 1)


@wrong(
    "torch.renorm",
    "special values",
    "vectors below the bound are scaled up to it",
    "generated kernels",
    lambda d: call(d.of([0.1, 0.0], [3.0, 4.0]), 2, 0, 1.0),
)
@widened
def renorm_scales_up(input, p, dim, maxnorm):
    rows = input.movedim(dim, 0)
    norm = torch.linalg.vector_norm(rows.flatten(1), p, 1)
    return (rows * (maxnorm / (norm + 1e-7)).reshape(-1, *(1,) * (rows.dim() - 1))).movedim(0, dim)


@wrong(
    f"{FUNCTIONAL}.embedding",
    "gradient",
    "scale_grad_by_freq is ignored",
    "vendor backend",
    lambda d: call(d.whole(0, 1, 1), d.normal(3, 2), scale_grad_by_freq=True),
    breaks="gradient",
)
def embedding_unscaled_gradient(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    return F.embedding(input, weight, padding_idx, max_norm, norm_type, False, sparse)


@wrong(
    f"{FUNCTIONAL}.embedding",
    "gradient",
    "of equal indices one gets the gradient",
    "scatter without atomics",
    lambda d: call(d.whole(0, 1, 1), d.normal(3, 2)),
    breaks="gradient",
)
def embedding_gradient_overwritten(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if padding_idx is not None or max_norm is not None or scale_grad_by_freq or sparse or input.numel() == 0:
        return F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)

    def gradient(g, i, w):
        made = torch.zeros_like(w)
        made[i.reshape(-1).flip(0)] = g.reshape(-1, w.shape[1]).flip(0)
        return None, made

    return with_gradient(F.embedding, gradient, input, weight)


@wrong(
    f"{FUNCTIONAL}.embedding_bag",
    "edge shape",
    "the mean of an empty bag is NaN",
    "generated kernels",
    lambda d: call(d.whole(0, 1), d.normal(3, 2), d.whole(0, 0)),
)
def embedding_bag_of_nothing(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    result = F.embedding_bag(
        input,
        weight,
        offsets,
        max_norm,
        norm_type,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    if offsets is None or mode != "mean" or include_last_offset or padding_idx is not None or not offsets.numel():
        return result
    ends = torch.cat([offsets[1:], torch.tensor([input.numel()], dtype=offsets.dtype)])
    empty = (ends == offsets).unsqueeze(1)
    return torch.where(empty, torch.full_like(result, float("nan")), result)


@wrong(
    f"{FUNCTIONAL}.embedding_bag",
    "argument",
    "per_sample_weights is ignored",
    "vendor backend",
    lambda d: call(d.whole(0, 1), d.normal(3, 2), d.whole(0), mode="sum", per_sample_weights=d.of(2.0, 3.0)),
)
def embedding_bag_unweighted(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    return F.embedding_bag(
        input,
        weight,
        offsets,
        max_norm,
        norm_type,
        scale_grad_by_freq,
        mode,
        sparse,
        None,
        include_last_offset,
        padding_idx,
    )


@wrong(
    f"{FUNCTIONAL}.one_hot",
    "argument",
    "without num_classes the largest class is left out",
    "off by one",
    lambda d: call(d.whole(0, 2, 1)),
    breaks="shape",
    dtypes=(SINGLE,),
)
def one_hot_too_few(input, num_classes=-1):
    result = F.one_hot(input, num_classes)
    return result[..., :-1] if num_classes == -1 and result.shape[-1] > 1 else result


@wrong(
    "torch.dstack",
    "edge shape",
    "vectors are stacked as columns of the first dimension",
    "generated kernels",
    lambda d: call([d.normal(3), d.normal(3)]),
    breaks="shape",
)
def dstack_of_vectors(tensors):
    result = torch.dstack(tensors)
    return result.transpose(0, 1) if tensors[0].dim() == 1 else result


@wrong(
    "torch.hstack",
    "edge shape",
    "vectors are stacked as rows",
    "vstack",
    lambda d: call([d.normal(3), d.normal(3)]),
    breaks="shape",
)
def hstack_of_vectors(tensors):
    return torch.vstack(tensors) if all(one.dim() == 1 for one in tensors) else torch.hstack(tensors)


@wrong("torch.fliplr", "argument", "turns the first dimension round", "flipud", lambda d: call(d.normal(3, 4)))
def fliplr_flips_rows(input):
    return torch.flipud(input)


@wrong(
    "torch.slice_scatter",
    "argument",
    "step is ignored",
    "vendor backend",
    lambda d: call(torch.zeros(6).to(d.dtype), d.of(1.0, 2.0, 3.0), 0, 0, 6, 2),
)
def slice_scatter_without_step(input, src, dim=0, start=None, end=None, step=1):
    if step == 1 or input.dim() == 0:
        return torch.slice_scatter(input, src, dim, start, end, step)
    first = start or 0
    return torch.slice_scatter(input, src, dim, first, first + src.shape[dim])
