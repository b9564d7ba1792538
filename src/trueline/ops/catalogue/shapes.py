"""Moving data without arithmetic: views, joins, repetitions, casts and new tensors."""

from __future__ import annotations

from trueline.ops.catalogue.language import B, I, Row, T, Z, dtype, each, forward, op

VIEWS: list[Row] = [
    *each("torch.reshape torch.Tensor.reshape", T(6, 10), [4, 15]),
    *each("torch.reshape torch.Tensor.reshape", T(6, 10, layout="turned"), [-1]),
    op("torch.Tensor.view", T(6, 10), 4, 15),
    op("torch.Tensor.view", T(6, 10), -1, 5),
    op("torch.Tensor.view", T(0, 10), 5, 0),
    op("torch.Tensor.view_as", T(6, 10), T(4, 15)),
    op("torch.Tensor.reshape_as", T(6, 10), T(4, 15)),
    *each("torch.flatten torch.Tensor.flatten", T(2, 3, 4, 5), 1, 2),
    *each("torch.flatten torch.ravel torch.Tensor.ravel", T(6, 10, layout="turned")),
    *each("torch.unflatten torch.Tensor.unflatten", T(6, 10), 1, [2, 5]),
    *each("torch.transpose torch.Tensor.transpose torch.swapaxes torch.swapdims", T(2, 3, 5), 0, 2),
    *each("torch.t torch.Tensor.t torch.adjoint", T(6, 10)),
    op("torch.adjoint", Z(2, 3, 5)),
    *each("torch.permute torch.Tensor.permute", T(2, 3, 5), [2, 0, 1]),
    *each("torch.movedim torch.moveaxis torch.Tensor.movedim", T(2, 3, 5), 0, -1),
    *each("torch.unsqueeze torch.Tensor.unsqueeze", T(6, 10), 1),
    *each("torch.squeeze torch.Tensor.squeeze", T(1, 6, 1, 10)),
    *each("torch.squeeze torch.Tensor.squeeze", T(1, 6, 1, 10), 2),
    *each("torch.Tensor.expand torch.broadcast_to torch.Tensor.broadcast_to", T(6, 1), [4, 6, 5]),
    op("torch.Tensor.expand", T(1), 700),
    op("torch.Tensor.expand_as", T(6, 1), T(4, 6, 5)),
    *each("torch.narrow torch.Tensor.narrow", T(6, 10), 1, 2, 5),
    op("torch.narrow_copy", T(6, 10), 0, 1, 3),
    *each("torch.select torch.Tensor.select", T(6, 10), 1, 3),
    *each("torch.diagonal torch.Tensor.diagonal torch.linalg.diagonal", T(2, 6, 10)),
    op("torch.diagonal", T(6, 10), 2),
    *each("torch.diag torch.Tensor.diag", T(6)),
    op("torch.diag", T(6, 10), 1),
    op("torch.diag_embed", T(3, 5), 1),
    op("torch.diagflat", T(5), -1),
    *each("torch.tril torch.triu torch.Tensor.tril torch.Tensor.triu", T(2, 7, 9)),
    *each("torch.tril torch.triu", T(7, 9), 2),
    *each("torch.Tensor.tril_ torch.Tensor.triu_", T(7, 9), -1),
    op("torch.Tensor.unfold", T(6, 20), 1, 5, 3),
    op("torch.as_strided", T(6, 10), [3, 4], [2, 5]),
    op("torch.as_strided", T(40), [5, 6], [3, 2], 1),
    *each("torch.real torch.imag torch.view_as_real", Z(6, 5)),
    op("torch.view_as_complex", T(6, 5, 2)),
    *each("torch.Tensor.contiguous torch.clone torch.Tensor.clone", T(6, 10, layout="turned")),
    *each("torch.Tensor.detach torch.detach", T(6, 10)),
    *each("torch.atleast_1d torch.atleast_2d torch.atleast_3d", T()),
    *each("torch.Tensor.chunk torch.chunk", T(6, 10), 3, 1),
    *each("torch.split torch.Tensor.split", T(6, 10), 4, 1),
    op("torch.split", T(6, 10), [3, 7], 1),
    *each("torch.tensor_split torch.Tensor.tensor_split", T(6, 10), 4, 1),
    *each("torch.unbind torch.Tensor.unbind", T(4, 10)),
    *each("torch.hsplit torch.vsplit", T(6, 10), 2),
    op("torch.dsplit", T(2, 3, 6), 3),
    *each("torch.view_copy", T(6, 10), [4, 15]),
    *each("torch.permute_copy", T(2, 3, 5), [2, 0, 1]),
    *each("torch.expand_copy", T(6, 1), [4, 6, 5]),
    *each("torch.transpose_copy", T(2, 3, 5), 0, 2),
    *each("torch.t_copy torch.diagonal_copy torch.alias_copy torch.unbind_copy", T(6, 10)),
    *each("torch.select_copy", T(6, 10), 1, 3),
    *each("torch.slice_copy", T(6, 10), 1, 2, 9, 3),
    *each("torch.squeeze_copy", T(1, 6, 1)),
    *each("torch.unsqueeze_copy", T(6, 10), 1),
    *each("torch.split_copy", T(6, 10), 4, 1),
    *each("torch.unfold_copy", T(6, 20), 1, 5, 3),
    *each("torch.as_strided_copy", T(6, 10), [3, 4], [2, 5]),
    forward("torch.detach_copy", T(6, 10)),
    op("torch.view_as_real_copy", Z(6, 5)),
    op("torch.as_strided_scatter", T(6, 10), T(3, 4), [3, 4], [20, 2]),
    *each("torch.split_with_sizes torch.Tensor.split_with_sizes torch.unsafe_split_with_sizes", T(6, 10), [3, 7], 1),
    op("torch.Tensor.sum_to_size", T(4, 6, 5), 6, 1),
    op("torch.unsafe_chunk", T(6, 10), 2),
    op("torch.unsafe_split", T(6, 10), 4),
]

JOINS: list[Row] = [
    *[
        row
        for api in ("torch.cat", "torch.concat", "torch.concatenate")
        for row in (
            op(api, [T(6, 10), T(2, 10), T(1, 10)]),
            op(api, [T(6, 3), T(6, 4, layout="turned"), T(6, 0)], 1),
            op(api, [T(6, 3), I(6, 2, of="normal")], dim=1),
        )
    ],
    *each(
        "torch.stack torch.hstack torch.vstack torch.dstack torch.column_stack torch.row_stack", [T(6, 10), T(6, 10)]
    ),
    op("torch.stack", [T(6, 10), T(6, 10), T(6, 10)], -1),
    op("torch.block_diag", T(3, 4), T(2, 2), T(5)),
    *each("torch.broadcast_tensors", T(6, 1), T(10)),
    op("torch.meshgrid", T(5), T(7), indexing="ij"),
    op("torch.meshgrid", T(5), T(7), indexing="xy"),
]

REPEATS: list[Row] = [
    op("torch.Tensor.repeat", T(3, 4), 2, 1, 3),
    op("torch.Tensor.repeat", T(3, 1), 100, 4),
    *each("torch.tile torch.Tensor.tile", T(3, 4), [2, 3]),
    *each("torch.repeat_interleave torch.Tensor.repeat_interleave", T(3, 4), 3, 1),
    op("torch.repeat_interleave", T(3, 4), I(3, of="index(4)"), dim=0),
    *each("torch.flip torch.Tensor.flip", T(3, 4, 5), [0, 2]),
    *each("torch.fliplr torch.flipud torch.rot90", T(6, 10)),
    op("torch.rot90", T(2, 3, 5), 3, [1, 2]),
    *each("torch.roll torch.Tensor.roll", T(6, 10), 3, 1),
    op("torch.roll", T(6, 10), [1, -2], [0, 1]),
]

CASTS: list[Row] = [
    *[
        op("torch.Tensor.to", T(6, 10, of=of), dtype(name))
        for name in ("float16", "bfloat16", "float32", "float64")
        for of in ("normal", "wide", "normal nan inf", "tiny")
    ],
    *[
        forward("torch.Tensor.to", T(6, 10, of="uniform(0, 100)"), dtype(name))
        for name in ("int64", "int32", "uint8", "bool")
    ],
    *[op("torch.Tensor.to", I(6, 10, of="normal"), dtype(name)) for name in ("float32", "bfloat16", "int8", "bool")],
    op("torch.Tensor.to", T(6, 10), T(1, grad=False)),
    *each("torch.Tensor.float torch.Tensor.half torch.Tensor.bfloat16 torch.Tensor.double", T(6, 10)),
    *[
        forward(f"torch.Tensor.{name}", T(6, 10, of="uniform(0, 100)"))
        for name in ("int", "long", "short", "char", "bool")
    ],
    *each("torch.Tensor.cfloat torch.Tensor.cdouble", T(6, 10)),
    op("torch.Tensor.type_as", T(6, 10), T(1, grad=False)),
]

NEW: list[Row] = [
    *[forward(f"torch.{name}", T(6, 10)) for name in ("zeros_like", "ones_like", "empty_like")],
    forward("torch.full_like", T(6, 10), 2.5),
    forward("torch.full_like", I(6, 10, of="normal"), 3),
    forward("torch.zeros", [6, 10]),
    forward("torch.ones", [6, 10]),
    forward("torch.empty", [6, 10]),
    forward("torch.full", [6, 10], 1.5),
    forward("torch.eye", 6),
    forward("torch.eye", 6, 10),
    forward("torch.arange", 10),
    forward("torch.arange", 1, 10, 2),
    forward("torch.arange", 0.0, 1.0, 0.1),
    forward("torch.linspace", 0.0, 1.0, 33),
    forward("torch.linspace", -3.0, 7.0, 1000),
    forward("torch.logspace", -2.0, 2.0, 33),
    forward("torch.logspace", 0.0, 8.0, 9, base=2.0),
    forward("torch.Tensor.new_zeros", T(3), [2, 5]),
    forward("torch.Tensor.new_ones", T(3), [2, 5]),
    forward("torch.Tensor.new_full", T(3), [2, 5], 0.25),
    forward("torch.Tensor.new_empty", T(3), [2, 5]),
    *[
        forward(f"torch.{name}_window", size)
        for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
        for size in (33, 64)
    ],
    forward("torch.zeros_like", B(6, 10)),
]

ROWS = [*VIEWS, *JOINS, *REPEATS, *CASTS, *NEW]
