"""Calls that give an argument another value than all others do: what is given but one way is asked of nobody."""

from __future__ import annotations

from trueline.ops.catalogue.language import I, Row, T, Z, arriving, cut, each, forward, op

_F = "torch.nn.functional"

INDEXED: list[Row] = [
    *each("torch.index_fill torch.Tensor.index_fill torch.Tensor.index_fill_", T(5, 7), 0, I(2, of="distinct(5)"), 2.5),
    *each("torch.scatter_add torch.Tensor.scatter_add torch.Tensor.scatter_add_",
          T(6, 11), 0, I(4, 11, of="index(6)"), T(4, 11)),
    *each("torch.scatter_add torch.Tensor.scatter_add torch.Tensor.scatter_add_",
          T(6, 11), 1, I(6, 4, of="index(11)"), T(6, 4)),
    *each("torch.scatter_reduce torch.Tensor.scatter_reduce_",
          T(6, 11), 0, I(4, 11, of="index(6)"), T(4, 11), "sum"),
    op("torch.index_reduce", T(6, 11), 1, I(20, of="index(11)"), T(6, 20, of="nonzero"), "prod"),
    op("torch.select_scatter", T(6, 11), T(6), 1, 2),
    op("torch.slice_scatter", T(6, 11), T(6, 3), 1, 2, 8, 2),
    op("torch.slice_scatter", T(6, 11), T(6, 3), 1, 2, 11, 3),
    *each("torch.narrow torch.Tensor.narrow", T(6, 11), 0, 1, 3),
    *each("torch.narrow torch.Tensor.narrow", T(6, 11), 1, 1, 3),
    op("torch.repeat_interleave", T(3, 4), I(4, of="index(4)"), dim=1),
    op("torch.Tensor.__setitem__", T(6, 11), cut(1, 4), -2.0),
    op("torch.Tensor.__setitem__", T(6, 11), cut(1, 4), 7.0),
]  # fmt: skip

JOINED: list[Row] = [
    *[row for dim in (0, 1) for row in each("torch.cat torch.concat torch.concatenate", [T(4, 4), T(4, 4)], dim)],
    *[row for dim in (0, 1) for row in each("torch.cat torch.concat torch.concatenate", [T(4, 4), T(4, 4)], dim=dim)],
    *[op("torch.Tensor.sum_to_size", T(6, 1, 11), *sizes) for sizes in ((1, 1, 11), (6, 1, 1), (6, 1, 11))],
    *[op(api, T(6, 6), dim, [2, 3]) for api in ("torch.unflatten", "torch.Tensor.unflatten") for dim in (0, 1)],
    *[op(api, T(6, 6), [2, 4], dim) for dim in (0, 1) for api in
      ("torch.split_with_sizes", "torch.Tensor.split_with_sizes", "torch.unsafe_split_with_sizes")],
    *[op("torch.pixel_shuffle", T(1, 36, 2, 3), factor) for factor in (2, 3)],
    *[op("torch.pixel_unshuffle", T(1, 2, 6, 12), factor) for factor in (2, 3)],
    op("torch.as_strided_scatter", T(6, 10), T(3, 4), [3, 4], [10, 1]),
]  # fmt: skip

WINDOWS: list[Row] = [
    *[op(f"torch.max_pool{rank}d", T(2, 3, *(8,) * rank), 3, 2, ceil_mode=ceil)
      for rank in (1, 2) for ceil in (False, True)],
    *[op("torch.avg_pool1d", T(2, 3, 8), 3, 2, ceil_mode=ceil) for ceil in (False, True)],
    *[op(f"{_F}.lp_pool{rank}d", T(2, 3, *(8,) * rank, of="positive"), 2.0, 3, 2, ceil)
      for rank in (1, 2) for ceil in (False, True)],
    *[op(f"{api}conv_transpose{rank}d", T(2, 4, *(5,) * rank), T(4, 3, *(3,) * rank), groups=groups)
      for api in ("torch.", f"{_F}.") for rank in (1, 2, 3) for groups in (1, 2)],
    *[forward(f"{_F}.max_unpool2d", T(1, 2, 3, 3), I(1, 2, 3, 3, of="plane_distinct(9, 2)"), 3, stride)
      for stride in (2, 3)],
    *[forward(f"{_F}.max_unpool2d", T(1, 2, 4, 4), I(1, 2, 4, 4, of="plane_distinct(49, 2)"), 3, 2, padding)
      for padding in (0, 1)],
    *[op(f"{_F}.fold", T(1, 8, 4), (stride + 2, stride + 2), 2, stride=stride) for stride in (1, 2)],
    op(f"{_F}.fold", T(1, 8, 4), (3, 3), 2, stride=1),
    op(f"{_F}.upsample", T(2, 3, 5, 4), scale_factor=2, mode="bilinear"),
    op("torch.stft", T(2, 200), 32, 8, 24, T(24, of="positive", grad=False), return_complex=True),
    op("torch.istft", Z(17, 26), 32, 8, 24, T(24, of="positive", grad=False)),
]  # fmt: skip

OTHERS: list[Row] = [
    *[forward("torch.allclose", T(6, 11, of="uniform(1, 1.1)"), T(6, 11, of="uniform(1, 1.1)"), **words)
      for words in ({"rtol": 0.2, "atol": 0.0}, {"rtol": 0.0, "atol": 0.2}, {"rtol": 0.0, "atol": 0.0})],
    *[forward("torch.allclose", T(4, of="constant(0)"), T(4, of="constant(0)"), equal_nan=equal)
      for equal in (False, True)],
    *[forward("torch.allclose", T(4, of="normal nan(1)"), T(4, of="normal nan(1)"), equal_nan=equal)
      for equal in (False, True)],
    *[row for value in (2.0, -1.0) for row in each("torch.eq torch.ne torch.not_equal", T(6, 11, grad=False), value)],
    *[op("torch.cross", T(3, 3), T(3, 3), dim=dim) for dim in (0, 1)],
    *[op("torch.frobenius_norm", T(6, 11), [dim]) for dim in (0, 1)],
    op("torch.linalg.solve", T(5, 5, of="invertible"), T(5, 5), left=False),
    *[op("torch.linalg.solve_triangular", T(5, 5, of="upper_triangular"), T(5, 5), upper=True, left=left)
      for left in (False, True)],
    *[op(f"{_F}.glu", T(6, 8), dim) for dim in (0, 1)],
    *[op(f"{_F}.scaled_dot_product_attention", T(2, 4, 5, 8), T(2, heads, 5, 8), T(2, heads, 5, 8), enable_gqa=gqa)
      for heads, gqa in ((2, True), (4, False))],
    *[forward(f"{_F}.ctc_loss", T(5, 2, 12, of="log_probability"), I(2, 8, of="index(12, 1)"), I(2, of="constant(5)"),
              I(2, of="constant(8)"), zero_infinity=zero) for zero in (False, True)],
    *[arriving(op("torch.svd", T(9, 5, of="invertible"), some=some), out_1=T(5)) for some in (True, False)],
]  # fmt: skip

ROWS = [*INDEXED, *JOINED, *WINDOWS, *OTHERS]
