"""The second half of the calls that reach every entry of the wide table: layers, losses, indices, shapes."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from tests.frameworks.wide_inputs import Cases, aten, c, i, mask, n, p, u


def layers() -> Cases:
    yield "conv1d", F.conv1d, (n(2, 3, 8), n(4, 3, 3), n(4))
    yield "conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, dilation=2, groups=2), (
        n(2, 4, 9, 8), n(6, 2, 3, 3), n(6),
    )  # fmt: skip
    yield "conv3d", F.conv3d, (n(1, 2, 4, 4, 4), n(3, 2, 2, 2, 2))
    yield "conv2d without a batch", F.conv2d, (n(2, 5, 5), n(3, 2, 3, 3))
    yield "conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2, 1), (
        n(2, 4, 4, 4), n(4, 3, 3, 3), n(6),
    )  # fmt: skip
    yield "unfold", lambda x: F.unfold(x, (2, 3), padding=1, stride=2), (n(2, 3, 6, 7),)
    yield "fold", lambda x: F.fold(x, (4, 5), (2, 2)), (n(2, 12, 12),)
    yield "max_pool1d", lambda x: F.max_pool1d(x, 3, 2), (n(2, 3, 9),)
    yield "max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (n(2, 3, 7, 8),)
    yield "max_pool2d, ceil", lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True, dilation=2), (n(2, 3, 8, 8),)
    yield "max_pool3d", lambda x: F.max_pool3d(x, 2), (n(1, 2, 4, 4, 4),)
    yield "avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), (n(2, 3, 9),)
    yield "avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (n(2, 3, 7, 8),)
    yield "avg_pool3d", lambda x: F.avg_pool3d(x, 2, divisor_override=3), (n(1, 2, 4, 4, 4),)
    yield "adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (n(2, 3, 7, 8),)
    yield "adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, 2), (n(1, 2, 5, 4, 3),)
    yield "adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 2)), (n(2, 3, 7, 8),)
    yield "adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, 2), (n(1, 2, 5, 4, 3),)
    yield "fractional_max_pool2d", lambda x, s: F.fractional_max_pool2d(x, (2, 3), (3, 4), _random_samples=s), (
        n(2, 3, 8, 9), u(2, 3, 2, low=0.0, high=1.0).detach(),
    )  # fmt: skip
    yield "fractional_max_pool3d", lambda x, s: F.fractional_max_pool3d(x, 2, (2, 3, 2), _random_samples=s), (
        n(1, 2, 5, 6, 5), u(1, 2, 3, low=0.0, high=1.0).detach(),
    )  # fmt: skip
    yield "lp_pool2d", lambda x: F.lp_pool2d(x, 2, 2), (n(1, 2, 4, 4),)
    yield "max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (n(1, 2, 4, 4),)
    yield "max_unpool3d", lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), (n(1, 2, 4, 4, 4),)
    shapes = {1: (2, 3, 5), 2: (2, 3, 5, 4), 3: (1, 2, 3, 4, 3)}
    for dims, kinds in ((1, "nearest nearest-exact linear"), (2, "nearest nearest-exact bilinear bicubic")):
        for kind in kinds.split():
            yield f"interpolate {kind} {dims}d", lambda x, kind=kind: F.interpolate(x, scale_factor=1.7, mode=kind), (
                n(*shapes[dims]),
            )  # fmt: skip
    for kind in "nearest nearest-exact trilinear".split():
        yield (
            f"interpolate {kind} 3d",
            lambda x, kind=kind: F.interpolate(x, size=(5, 6, 2), mode=kind),
            (n(*shapes[3]),),
        )
    for kind in "bilinear bicubic".split():
        yield f"{kind} aligned", lambda x, kind=kind: F.interpolate(x, size=(7, 3), mode=kind, align_corners=True), (
            n(*shapes[2]),
        )  # fmt: skip
        yield f"{kind} antialiased", lambda x, kind=kind: F.interpolate(x, size=(3, 2), mode=kind, antialias=True), (
            n(*shapes[2]),
        )  # fmt: skip
    for kind in "constant reflect replicate circular".split():
        for dims in (1, 2, 3):
            yield f"pad {kind} {dims}d", lambda x, kind=kind, dims=dims: F.pad(x, [1, 2] * dims, mode=kind), (
                n(1, 2, *[4] * dims),
            )  # fmt: skip
    yield "pad that cuts", lambda x: F.pad(x, (-1, 2), value=0.5), (n(2, 4),)
    yield "grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), (n(1, 2, 4, 5), u(1, 3, 3, 2))
    for kind in "nearest bicubic".split():
        yield (
            f"grid_sample {kind}",
            lambda x, g, kind=kind: F.grid_sample(x, g, kind, padding_mode="reflection", align_corners=True),
            (n(1, 2, 4, 5), u(1, 3, 3, 2, low=-1.5, high=1.5)),
        )
    yield "pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (n(2, 8, 3, 3),)
    yield "pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (n(2, 2, 4, 6),)
    yield "channel_shuffle", lambda x: F.channel_shuffle(x, 2), (n(2, 4, 3, 3),)


def norms() -> Cases:
    yield "layer_norm", lambda x, w, b: F.layer_norm(x, (4, 5), w, b), (n(2, 3, 4, 5), n(4, 5), n(4, 5))
    yield "rms_norm", lambda x, w: F.rms_norm(x, (5,), w), (n(3, 5), n(5))
    yield "group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (n(2, 4, 3, 3), n(4), n(4))
    yield "group_norm of nothing", lambda x: F.group_norm(x, 2), (n(0, 4, 3),)
    yield "instance_norm", F.instance_norm, (n(2, 3, 4, 4),)
    statistics = (torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    yield "batch_norm", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, True), (n(4, 3, 5), *statistics, n(3), n(3))
    yield "batch_norm at rest", F.batch_norm, (n(4, 3, 5), n(3).detach(), p(3).detach(), n(3), n(3))
    yield "batch_norm alone", lambda x: F.batch_norm(x, None, None, training=True), (n(4, 3, 5),)
    yield "batch norm, legit", lambda x, m, v: aten._native_batch_norm_legit(x, None, None, m, v, True, 0.1, 1e-5), (
        n(4, 3, 5), *statistics,
    )  # fmt: skip
    without = aten._native_batch_norm_legit.no_stats
    yield "batch norm, no statistics", lambda x: without(x, None, None, True, 0.1, 1e-5), (n(4, 3, 5),)
    yield "batch norm, update", lambda x, m, v, w: aten._batch_norm_with_update(x, w, w, m, v, 0.1, 1e-5)[0], (
        n(4, 3, 5), *statistics, n(3),
    )  # fmt: skip
    yield "normalize", F.normalize, (n(3, 4),)
    yield "weight_norm", lambda v, g: torch._weight_norm(v, g, 0), (n(3, 4), n(3, 1))
    yield "local_response_norm", lambda x: F.local_response_norm(x, 2), (n(2, 4, 5),)


def losses() -> Cases:
    for kind in ("none", "mean", "sum"):
        yield f"mse {kind}", lambda x, y, kind=kind: F.mse_loss(x, y, reduction=kind), (n(3, 4), n(3, 4))
        yield f"l1 {kind}", lambda x, y, kind=kind: F.l1_loss(x, y, reduction=kind), (n(3, 4), n(3, 4))
        yield f"smooth_l1 {kind}", lambda x, y, kind=kind: F.smooth_l1_loss(x, y, reduction=kind, beta=0.7), (
            n(3, 4), n(3, 4),
        )  # fmt: skip
        yield f"huber {kind}", lambda x, y, kind=kind: F.huber_loss(x, y, reduction=kind, delta=0.7), (n(3, 4), n(3, 4))
        yield f"bce {kind}", lambda x, y, w, kind=kind: F.binary_cross_entropy(x, y, w, reduction=kind), (
            u(3, 4, low=0.1, high=0.9), u(3, 4, low=0.1, high=0.9).detach(), p(3, 4).detach(),
        )  # fmt: skip
        yield f"soft_margin {kind}", lambda x, kind=kind: F.soft_margin_loss(x, torch.ones_like(x), reduction=kind), (
            n(3, 4),
        )  # fmt: skip
        yield f"cross_entropy {kind}", lambda x, y, w, kind=kind: F.cross_entropy(x, y, w, -100, reduction=kind), (
            n(4, 5), torch.tensor([1, -100, 0, 4]), p(5).detach(),
        ) if kind == "" else (n(4, 5), torch.tensor([1, 2, 0, 4]), p(5).detach())  # fmt: skip
        yield f"nll2d {kind}", lambda x, y, kind=kind: F.nll_loss(x, y, ignore_index=2, reduction=kind), (
            n(2, 4, 3, 3), i(4, 2, 3, 3),
        )  # fmt: skip
        yield f"multi_margin {kind}", lambda x, y, kind=kind: F.multi_margin_loss(x, y, p=2, reduction=kind), (
            n(3, 4), i(4, 3),
        )  # fmt: skip
        yield f"multilabel {kind}", lambda x, y, kind=kind: F.multilabel_margin_loss(x, y, reduction=kind), (
            n(2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]]),
        )  # fmt: skip
    yield "bce with logits", lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w), (
        n(3, 4), u(3, 4, low=0.1, high=0.9).detach(), p(4).detach(),
    )  # fmt: skip
    yield "label smoothing", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), (n(4, 5), i(5, 4))
    yield "kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), (n(3, 4), u(3, 4, low=0.1, high=0.9))
    yield "gaussian_nll", lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True), (n(4), n(4), p(4))
    yield "poisson_nll", F.poisson_nll_loss, (n(4), p(4).detach())
    yield "triplet", F.triplet_margin_loss, (n(3, 4), n(3, 4), n(3, 4))
    yield "cosine_similarity", F.cosine_similarity, (n(3, 4), n(3, 4))
    yield "ctc", lambda x, y: F.ctc_loss(x.log_softmax(2), y, (6, 5), (3, 2)), (n(6, 2, 4), i(3, 2, 3) + 1)


def indexing() -> Cases:
    rows = torch.tensor([0, 2, 2, 1])
    yield "index", lambda x: x[rows, :, rows], (n(3, 4, 5),)
    yield "index_put", lambda x, v: x.index_put((rows,), v, accumulate=True), (n(3, 4), n(4, 4))
    yield "index_put in place", lambda x, v: x.clone().index_put_((torch.tensor([0, 2]),), v), (n(3, 4), n(2, 4))
    yield "gather", lambda x, y: torch.gather(x, 1, y), (n(3, 4), i(4, 3, 2))
    yield "scatter", lambda x, v: torch.scatter(x, 1, torch.tensor([[0], [2], [1]]), v), (n(3, 4), n(3, 1))
    yield "scatter a number", lambda x: torch.scatter(x, 1, torch.tensor([[0], [2], [1]]), 0.7), (n(3, 4),)
    yield "scatter with multiply", lambda x, v: torch.scatter(x, 0, rows[:2, None], v, reduce="multiply"), (
        n(3, 4).detach(), n(2, 1).detach(),
    )  # fmt: skip
    yield (
        "scatter a number with add",
        lambda x: torch.scatter(x, 0, rows[:2, None], 0.3, reduce="add"),
        (n(3, 4).detach(),),
    )
    yield "scatter_add", lambda x, y, v: torch.scatter_add(x, 0, y, v), (n(3, 4), i(3, 5, 4), n(5, 4))
    for kind in "sum prod mean amax amin".split():
        for own in (True, False):
            yield (
                f"scatter_reduce {kind} {own}",
                lambda x, y, v, kind=kind, own=own: torch.scatter_reduce(x, 0, y, v, kind, include_self=own),
                (p(3, 4), i(3, 5, 4), p(5, 4)),
            )
        if kind != "sum":
            yield f"index_reduce {kind}", lambda x, v, kind=kind: torch.index_reduce(x, 0, rows, v, kind), (
                p(3, 4), p(4, 4),
            )  # fmt: skip
    yield "index_select", lambda x: torch.index_select(x, 1, rows), (n(3, 4),)
    yield "index_add", lambda x, v: torch.index_add(x, 0, rows, v, alpha=0.3), (n(3, 4), n(4, 4))
    yield "index_copy", lambda x, v: torch.index_copy(x, 0, torch.tensor([2, 0]), v), (n(3, 4), n(2, 4))
    yield "index_fill", lambda x: torch.index_fill(x, 0, rows, 0.7), (n(3, 4),)
    yield "take", lambda x: torch.take(x, torch.tensor([0, 5, 7])), (n(3, 4),)
    yield "put", lambda x, v: torch.Tensor.put(x, torch.tensor([0, 5, 5]), v, accumulate=True), (n(3, 4), n(3))
    yield "masked_select", torch.masked_select, (n(3, 4), mask(3, 4))
    yield "masked_scatter", lambda x, m, v: torch.masked_scatter(x, m, v), (n(3, 4), mask(3, 4), n(3, 4))
    yield "nonzero", torch.nonzero, (n(3, 4).detach(),)
    yield "embedding", lambda w, x: F.embedding(x, w, padding_idx=2), (n(5, 3), i(5, 2, 4))
    yield "embedding by frequency", lambda w, x: F.embedding(x, w, scale_grad_by_freq=True), (n(5, 3), i(5, 2, 4))
    yield (
        "embedding, bounded",
        lambda w, x: F.embedding(x, w.detach() * 1, max_norm=0.5),
        (n(5, 3).detach(), i(5, 2, 4)),
    )
    for kind in "sum mean max".split():
        yield f"embedding_bag {kind}", lambda w, x, kind=kind: F.embedding_bag(x, w, torch.tensor([0, 3]), mode=kind), (
            n(5, 3), i(5, 7),
        )  # fmt: skip
    yield "embedding_bag at rest", lambda w, x: F.embedding_bag(x, w, torch.tensor([0, 3])), (n(5, 3).detach(), i(5, 7))
    yield (
        "embedding_bag weighted",
        lambda w, x, s: F.embedding_bag(x, w, torch.tensor([0, 3]), mode="sum", per_sample_weights=s),
        (n(5, 3), i(5, 7), n(7)),
    )
    yield (
        "_index_put_impl_",
        lambda x, v: aten._index_put_impl_(x.clone(), [rows], v, True),
        (n(3, 4).detach(), n(4, 4).detach()),
    )
    yield "_unsafe_index", lambda x: aten._unsafe_index.Tensor(x, [None, rows]), (n(3, 4),)
    yield "_unsafe_index_put", lambda x, v: aten._unsafe_index_put(x, [rows], v, True), (n(3, 4), n(4, 4))
    yield "_unsafe_masked_index", lambda x: aten._unsafe_masked_index(x, rows > 0, [rows], 0.0), (n(3).detach(),)
    yield "_unsafe_masked_index_put", lambda x, v: aten._unsafe_masked_index_put_accumulate(x, rows > 0, [rows], v), (
        n(3).detach(), n(4).detach(),
    )  # fmt: skip


def shapes() -> Cases:
    yield "view", lambda x: x.view(6, 2).t().unsqueeze(0).expand(2, -1, -1).permute(2, 0, 1), (n(3, 4),)
    yield "reshape of a transpose", lambda x: x.t().reshape(-1)[1:].unflatten(0, (11, 1)).squeeze(1), (n(3, 4),)
    yield "select and slice", lambda x: x[1] + x[:, 1:3].sum() + x.select(1, 0).sum(), (n(3, 4),)
    yield "diagonal", lambda x: x.diagonal(1), (n(3, 4),)
    yield "unfold view", lambda x: x.unfold(1, 3, 2), (n(3, 7),)
    yield "as_strided", lambda x: x.as_strided((2, 3), (4, 1), 1), (n(3, 4),)
    yield "split", lambda x: [*x.split(2, 1), *x.split([1, 2], 0), *x.unbind(1), *x.chunk(2, 1)], (n(3, 4),)
    yield "unsafe_split", lambda x: [*x.unsafe_split(2, 1), *x.unsafe_split_with_sizes([1, 2], 0)], (n(3, 4),)
    yield "view_as_real", torch.view_as_real, (c(3),)
    yield "view_as_complex", torch.view_as_complex, (n(3, 2),)
    yield "alias", aten.alias, (n(3),)
    yield "_conj", torch.conj, (c(3),)
    yield "_neg_view", torch._neg_view, (n(3),)
    yield "_reshape_alias", lambda x: aten._reshape_alias(x, [4, 3], [3, 1]), (n(3, 4),)
    copies: dict[str, tuple[Any, ...]] = {
        "view": ((4, 3),),
        "expand": ((2, 3, 4),),
        "permute": ((1, 0),),
        "transpose": (0, 1),
        "t": (),
        "unsqueeze": (1,),
        "squeeze": (),
        "select": (0, 1),
        "slice": (0, 1, 3),
        "diagonal": (),
        "unfold": (0, 2, 1),
        "alias": (),
        "as_strided": ((2, 2), (1, 4)),
        "unbind": (),
        "split": (2,),
        "split_with_sizes": ((1, 2),),
        "detach": (),
    }
    for name, rest in copies.items():
        yield (
            f"{name}_copy",
            lambda x, name=name, rest=rest: getattr(aten, f"{name}_copy")(x, *rest),
            (n(3, 4).detach(),),
        )
    yield "_neg_view_copy", aten._neg_view_copy, (n(3).detach(),)
    yield "_conj_copy", aten._conj_copy, (c(3).detach(),)
    yield "_reshape_alias_copy", lambda x: aten._reshape_alias_copy(x, [4, 3], [3, 1]), (n(3, 4).detach(),)
    yield "lift_fresh_copy", aten.lift_fresh_copy, (n(3).detach(),)
    yield "lift", aten.lift, (n(3).detach(),)
    yield "view_as_real_copy", aten.view_as_real_copy, (c(3).detach(),)
    yield "view_as_complex_copy", aten.view_as_complex_copy, (n(3, 2).detach(),)
    yield "_unsafe_view", lambda x: aten._unsafe_view(x, [4, 3]), (n(3, 4),)
    yield "cat", lambda x, y: torch.cat([x, y], 1), (n(3, 2), n(3, 4))
    yield "stack", lambda x, y: torch.stack([x, y], 1), (n(3, 2), n(3, 2))
    yield "flip", lambda x: x.flip(0, 1), (n(3, 2),)
    yield "roll", lambda x: x.roll((1, 2), (0, 1)) + x.roll(2), (n(3, 4),)
    yield "repeat", lambda x: x.repeat(2, 1, 3), (n(3, 2),)
    yield "rot90", torch.rot90, (n(3, 2),)
    yield "tril", lambda x: x.tril(-1) + x.triu(1), (n(3, 4),)
    yield "trace", torch.trace, (n(3, 4),)
    yield "diag_embed", lambda x: torch.diag_embed(x, 1), (n(3, 4),)
    yield "block_diag", torch.block_diag, (n(3, 2), n(1, 4))
    for name in "select_scatter slice_scatter diagonal_scatter".split():
        rest = {"select_scatter": (0, 1), "slice_scatter": (0, 1, 2), "diagonal_scatter": ()}[name]
        shape = {"select_scatter": (4,), "slice_scatter": (1, 4), "diagonal_scatter": (3,)}[name]
        yield name, lambda x, v, name=name, rest=rest: getattr(torch, name)(x, v, *rest), (n(3, 4), n(*shape))
    yield "as_strided_scatter", lambda x, v: torch.as_strided_scatter(x, v, (2, 2), (1, 4)), (
        n(3, 4).detach(), n(2, 2).detach(),
    )  # fmt: skip
    yield "narrow_copy", lambda x: torch.narrow_copy(x, 1, 1, 2), (n(3, 4).detach(),)
    yield "questions", lambda x: (x.sum().item() > -99, torch.equal(x, x), torch.allclose(x, x)), (n(3).detach(),)
    yield "is_same_size", lambda x: aten.is_same_size(x, x), (n(3).detach(),)
    yield "squeeze_", lambda x: x.clone().unsqueeze_(0).squeeze_(0).t_(), (n(3, 4),)


def made() -> Cases:
    like = n(2, 3).detach()
    yield "like", lambda x: [torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 0.1), x.new_zeros(2)], (like,)
    yield "new", lambda x: [x.new_ones(2), x.new_full((2,), 0.1), x.new_tensor([0.1])], (like,)
    yield "empty", lambda x: [one.zero_() for one in (torch.empty_like(x), x.new_empty(2), _empty(2))], (like,)
    yield (
        "empty_strided",
        lambda x: [
            one.fill_(0.1)
            for one in (x.new_empty_strided((2, 2), (1, 2)), torch.empty_strided((2,), (1,), dtype=x.dtype))
        ],
        (like,),
    )
    yield (
        "out of nothing",
        lambda: [
            torch.zeros(2, dtype=torch.float64),
            torch.ones(2, dtype=torch.float64),
            torch.full((2,), 0.1, dtype=torch.float64),
            torch.eye(2, dtype=torch.float64),
            torch.eye(2, 3, dtype=torch.float64),
            torch.arange(3, dtype=torch.float64),
            torch.arange(1, 3, dtype=torch.float64),
            torch.arange(1, 3, 0.3, dtype=torch.float64),
            torch.linspace(0.1, 3, 7, dtype=torch.float64),
            torch.logspace(0.1, 3, 7, dtype=torch.float64),
            torch.scalar_tensor(0.1, dtype=torch.float64),
            torch.tensor([0.1, 0.2], dtype=torch.float64),
        ],
        (),
    )
    yield (
        "copy",
        lambda x, y: [x.clone().copy_(y), aten.copy(x, y), aten.fill(x, 0.3), aten.zero(x)],
        (like, n(3).detach()),
    )
    yield (
        "draws",
        lambda x: [torch.rand_like(x), torch.randn(2, dtype=x.dtype), x.clone().uniform_(), F.dropout(x)],
        (like,),
    )


def _empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.float64)
