"""Reading and writing at places given by indices and masks; embeddings; counting."""

from __future__ import annotations

from trueline.ops.catalogue.language import ELLIPSIS, B, I, Row, T, cut, forward, op

_F = "torch.nn.functional."

READING: list[Row] = [
    *[
        row
        for room in ("torch.", "torch.Tensor.")
        for row in (
            op(room + "gather", T(6, 11), 1, I(6, 4, of="index(11)")),
            op(room + "gather", T(6, 11, 3), 0, I(2, 11, 3, of="index(6)")),
            op(room + "gather", T(6, 11, layout="turned"), -1, I(6, 20, of="index(11)")),
            op(room + "gather", T(6, 11), 1, I(0, of="index(11)")),
            op(room + "index_select", T(6, 11), 1, I(20, of="index(11)")),
            op(room + "index_select", T(6, 11, 3), 0, I(4, of="index(6)", dtype="int32")),
            op(room + "take", T(6, 11), I(3, 7, of="index(66)")),
            op(room + "masked_select", T(6, 11), B(6, 11)),
            op(room + "masked_select", T(6, 11), B(11, of="boolean(0.3)")),
        )
    ],
    op("torch.take_along_dim", T(6, 11), I(6, 3, of="index(11)"), 1),
    op("torch.take_along_dim", T(6, 11), I(9, of="index(66)")),
    *[
        op("torch.Tensor.__getitem__", T(6, 11, 5), index)
        for index in (
            2,
            cut(1, 5),
            (cut(None, None, 2), 3),
            (ELLIPSIS, cut(None, -1)),
            (cut(), None, 1),
            (ELLIPSIS, -1),
            (2, 3, 4),
        )
    ],
    op("torch.Tensor.__getitem__", T(6, 11), I(8, of="index(6)")),
    op("torch.Tensor.__getitem__", T(6, 11), (cut(), I(8, of="index(11)"))),
    op("torch.Tensor.__getitem__", T(6, 11), (I(8, of="index(6)"), I(8, of="index(11)"))),
    op("torch.Tensor.__getitem__", T(6, 11), B(6, 11)),
    op("torch.Tensor.__getitem__", T(6, 11), B(6)),
    *[
        row
        for api in (_F + "embedding",)
        for row in (
            op(api, I(4, 9, of="index(50)"), T(50, 16)),
            op(api, I(64, of="index(5)"), T(5, 33)),
            op(api, I(4, 9, of="index(50)"), T(50, 16), padding_idx=0),
            op(api, I(64, of="index(5)"), T(5, 7), scale_grad_by_freq=True),
            op(api, I(0, 3, of="index(50)"), T(50, 16)),
            op(api, I(2000, of="index(3)"), T(3, 8)),
        )
    ],
    op("torch.embedding", T(50, 16), I(4, 9, of="index(50)")),
    *[
        op(_F + "embedding_bag", I(24, of="index(50)"), T(50, 16), I(5, of="offsets(24)"), mode=mode)
        for mode in ("sum", "mean", "max")
    ],
    op(_F + "embedding_bag", I(6, 9, of="index(50)"), T(50, 16), mode="mean"),
    op(_F + "embedding_bag", I(6, 9, of="index(50)"), T(50, 16), mode="sum", per_sample_weights=T(6, 9)),
    op(_F + "embedding_bag", I(6, 9, of="index(50)"), T(50, 16), mode="sum", padding_idx=3),
    forward(_F + "one_hot", I(4, 9, of="index(7)")),
    forward(_F + "one_hot", I(9, of="index(7)"), 10),
]

WRITING: list[Row] = [
    *[
        row
        for api in ("torch.scatter", "torch.Tensor.scatter", "torch.Tensor.scatter_")
        for row in (
            op(api, T(6, 11), 1, I(6, 4, of="distinct_along(11, 1)"), T(6, 4)),
            forward(api, T(6, 11), 0, I(3, 11, of="distinct_along(6, 0)"), T(5, 11)),
            op(api, T(6, 11), 1, I(6, 4, of="index(11)"), 2.5),
            forward(api, T(6, 11), 1, I(6, 30, of="index(11)"), T(6, 30)),
        )
    ],
    *[
        row
        for api in ("torch.scatter_add", "torch.Tensor.scatter_add", "torch.Tensor.scatter_add_")
        for row in (
            op(api, T(6, 11), 1, I(6, 4, of="index(11)"), T(6, 4)),
            op(api, T(3, 4), 1, I(3, 900, of="index(4)"), T(3, 900)),
        )
    ],
    *[
        op("torch.scatter_reduce", T(6, 11), 1, I(6, 30, of="index(11)"), T(6, 30, of="nonzero"), how, include_self=own)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
    op("torch.Tensor.scatter_reduce_", T(6, 11), 1, I(6, 30, of="index(11)"), T(6, 30), "sum"),
    *[
        row
        for api in ("torch.index_add", "torch.Tensor.index_add", "torch.Tensor.index_add_")
        for row in (
            op(api, T(6, 11), 0, I(20, of="index(6)"), T(20, 11)),
            op(api, T(6, 11), 1, I(4, of="index(11)"), T(6, 4), alpha=0.3),
            op(api, T(3, 5), 0, I(800, of="index(3)"), T(800, 5)),
        )
    ],
    *[
        op(api, T(6, 11), 0, I(4, of="distinct(6)"), T(4, 11))
        for api in ("torch.index_copy", "torch.Tensor.index_copy", "torch.Tensor.index_copy_")
    ],
    forward("torch.index_copy", T(6, 11), 0, I(20, of="index(6)"), T(20, 11)),
    *[
        op(api, T(6, 11), 1, I(4, of="index(11)"), -1.5)
        for api in ("torch.index_fill", "torch.Tensor.index_fill", "torch.Tensor.index_fill_")
    ],
    *[
        op("torch.index_reduce", T(6, 11), 0, I(20, of="index(6)"), T(20, 11, of="nonzero"), how)
        for how in ("prod", "mean", "amax", "amin")
    ],
    *[
        row
        for api in ("torch.index_put", "torch.Tensor.index_put", "torch.Tensor.index_put_")
        for row in (
            op(api, T(6, 11), (I(4, of="distinct(6)"),), T(4, 11)),
            op(api, T(6, 11), (I(9, of="index(6)"), I(9, of="index(11)")), T(9), accumulate=True),
            op(api, T(3, 5), (I(700, of="index(3)"),), T(700, 5), True),
            forward(api, T(6, 11), (I(40, of="index(6)"),), T(40, 11)),
        )
    ],
    op("torch.Tensor.__setitem__", T(6, 11), (cut(1, 4), cut(None, None, 2)), T(3, 6)),
    op("torch.Tensor.__setitem__", T(6, 11), 2, T(11)),
    op("torch.Tensor.__setitem__", T(6, 11), B(6, 11), 0.5),
    op("torch.Tensor.put_", T(6, 11), I(9, of="distinct(66)"), T(9)),
    op("torch.Tensor.put_", T(6, 11), I(200, of="index(66)"), T(200), accumulate=True),
    op("torch.put", T(6, 11), I(9, of="distinct(66)"), T(9)),
    *[
        row
        for api in ("torch.masked_fill", "torch.Tensor.masked_fill")
        for row in (
            op(api, T(6, 11), B(6, 11), -1e4),
            op(api, T(2, 3, 7, 7), B(7, 7, of="boolean(0.3)"), float("-inf")),
            op(api, T(6, 11), B(6, 1), T(of="constant(2)")),
        )
    ],
    op("torch.masked_scatter", T(6, 11), B(6, 11), T(66)),
    op("torch.Tensor.masked_scatter_", T(6, 11), B(6, 11), T(66)),
    op("torch.select_scatter", T(6, 11), T(11), 0, 2),
    op("torch.slice_scatter", T(6, 11), T(2, 11), 0, 1, 5, 2),
    op("torch.diagonal_scatter", T(6, 11), T(6), 0),
    op("torch.Tensor.fill_diagonal_", T(6, 6), 3.0),
    op("torch.fill", T(6, 11), 1.5),
]

COUNTING: list[Row] = [
    forward("torch.bincount", I(300, of="index(16)")),
    forward("torch.bincount", I(300, of="index(16)"), T(300), 20),
    forward("torch.histc", T(500, of="uniform(0, 1)"), 20, 0.0, 1.0),
    forward("torch.histc", T(500), 16),
    forward("torch.histogram", T(500), 16),
    forward("torch.histogram", T(500, of="uniform(0, 1)"), 8, range=(0.0, 1.0), density=True),
    forward("torch.histogramdd", T(200, 2), [5, 4]),
    forward("torch.tril_indices", 6, 11),
    forward("torch.triu_indices", 6, 11, 1),
    forward("torch.combinations", T(7), 2),
    forward("torch.cartesian_prod", T(4), T(5)),
]

ROWS = [*READING, *WRITING, *COUNTING]
