"""Rows: methods of Paddle's tensors that are functions of ``paddle`` as well, and functions that write into their first
argument. They are made from the rows of those functions, and tested like them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trueline.ops.mapping import (
    rows_binary,
    rows_creation,
    rows_elementwise,
    rows_fourier,
    rows_indexing,
    rows_linear_algebra,
    rows_reductions,
    rows_shapes,
)
from trueline.ops.mapping.rows import Row, renamed, row

_HOMES = (rows_elementwise, rows_binary, rows_reductions, rows_shapes, rows_indexing, rows_creation,
          rows_linear_algebra, rows_fourier)  # fmt: skip

_METHODS = """
abs acos acosh add addmm all allclose amax amin angle any argmax argmin argsort argwhere as_complex as_real as_strided
asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d baddbmm bincount bitwise_and bitwise_invert
bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to bucketize cast cdist ceil
cholesky cholesky_inverse cholesky_solve chunk clamp clip clone combinations cond conj copysign corrcoef cos cosh
count_nonzero cov cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad diag diag_embed diagflat diagonal
diagonal_scatter diff digamma dist div divide dot dsplit eig eigvals eigvalsh eq equal equal_all erf erfinv exp expand
expand_as expm1 flatten flip floor floor_divide floor_mod fmax fmin frac frexp gammainc gammaincc gammaln gather
gather_nd gcd ge greater greater_equal greater_than gt heaviside histogram histogram_bin_edges histogramdd
householder_product hsplit hypot i0 i0e i1 i1e imag increment index_add index_fill index_put index_sample index_select
inner inverse is_complex is_empty is_floating_point is_integer isclose isfinite isin isinf isnan isneginf isposinf
isreal istft kron kthvalue lcm ldexp le lerp less less_equal less_than lgamma log log10 log1p log2 logaddexp
logcumsumexp logical_and logical_not logical_or logical_xor logit logsumexp lstsq lt lu lu_unpack masked_fill
masked_scatter masked_select matmul
matrix_power matrix_transpose max maximum mean median min minimum mm mod mode moveaxis msort mul
multigammaln multiply mv nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative nextafter nonzero norm
not_equal numel ormqr outer permute pinv polar polygamma pow prod put_along_axis qr quantile rad2deg rank ravel real
reciprocal reduce_as remainder renorm repeat_interleave reshape reverse roll rot90 round rsqrt scale scatter scatter_add
scatter_nd_add scatter_reduce select_scatter sgn shard_index sigmoid sign signbit sin sinc sinh slice slice_scatter
slogdet solve sort split sqrt square squeeze stanh std stft strided_slice sub subtract sum swapaxes swapdims t take
take_along_axis take_along_dim tan tanh tensor_split tensordot tile tolist topk trace transpose trapezoid tril triu
true_divide trunc unbind unflatten unfold unique unique_consecutive unsqueeze unstack vander var view view_as
view_as_complex view_as_real vsplit where
"""
"""Functions that are methods of a tensor too."""

_IN_PLACE = """
abs acos acosh addmm asin asinh atan atanh baddbmm bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor copysign cos cosh cumprod cumsum digamma div divide equal flatten floor_divide floor_mod
frac gammainc gammaincc gammaln gcd greater_equal greater_than hypot i0 index_add index_fill index_put lcm ldexp less
less_equal less_than lgamma log10 log1p log2 log logical_and logical_not logical_or logical_xor logit masked_fill
masked_scatter mod multigammaln multiply nan_to_num neg not_equal polygamma pow remainder renorm reshape scatter
scatter_add sin sinc sinh square squeeze sub subtract t tan tanh transpose tril triu trunc unsqueeze where
"""
"""Functions with an in-place form that is a function and a method."""

_FUNCTIONS_ONLY = "erf expm1"
_METHODS_ONLY = "add ceil clamp clip erfinv exp floor lerp mul put_along_axis reciprocal round rsqrt scale sigmoid sqrt"
"""Functions whose in-place form is only the one or only the other."""

_BASE = {one.paddle.rpartition(".")[2]: one for home in reversed(_HOMES) for one in reversed(home.ROWS)}
_OWN_NAMES = {"torch.special.gammainc": "torch.igamma", "torch.special.gammaincc": "torch.igammac",
              **{f"torch.{name}": f"composite.{name}" for name in ("flatten", "acosh", "asinh", "atanh")}}  # fmt: skip
"""Where the in-place form in torch has another name than the function, or there is none, or none with a gradient."""


_COMPARISONS = "equal not_equal less less_equal less_than greater_equal greater_than".split()
_LOGICAL = "logical_and logical_or logical_xor logical_not".split()
_TURNS_BOOL = "Paddle's in-place form turns the tensor into one of bools; torch's keeps its dtype"
_IDENTITY = "Paddle's gradient of an in-place floor is that of doing nothing; it should be zero"
_OWN_EXAMPLES: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    **dict.fromkeys(_COMPARISONS, (("(b[8], b[8])",), _TURNS_BOOL, ("(f[3, 4], f[4])", "(i[30], i[30])"))),
    **dict.fromkeys(_LOGICAL, (("(b[8], b[8])",), _TURNS_BOOL, ("(f[3], f[3])", "(i[8], i[8])"))),
    "logical_not": (("(b[8])",), _TURNS_BOOL, ("(f[3])", "(i[8])")),
    "abs": (("(f[3, 4])", "(i[5])"), "", ()),
    "pow": (("(f[3, 4], 2)", "(d[3], -1.5)"), "", ()),
    "where": (("(b[3, 4], f[3, 4], f[3, 4])",), "", ()),
    "cumsum": (("(f[3, 4], 1)", "(d[3, 4], -1)", "(i[3, 4], 0)"), "", ()),
    "cumprod": (("(f[3, 4], 1)", "(d[3, 4], -1)"), "", ()),
    **dict.fromkeys(("div", "divide"), (("(f[3, 4], f[4])", "(d[2, 3], d[2, 3])"), _IDENTITY,
                                        ('(f[3, 4], f[4], rounding_mode="floor")',))),
    "floor_divide": (("(i[3, 4], i[4])",), _IDENTITY, ("(f[3, 4], f[4])",)),
    "scale": (("(f[3, 4], 2.0, 0.5)", "(i[3], 2)"), "Paddle's in-place scale forgets its act",
              ('(f[3], 0.5, act="tanh")',)),
}  # fmt: skip
"""The in-place forms that take less than the function, or differ where it does not: examples, why, where."""


def _in_place(base: Row, paddle: str) -> Row:
    """The in-place form of a row: torch's method with an underscore, or the composite's."""
    home, _, name = _OWN_NAMES.get(base.torch, base.torch).rpartition(".")
    made = renamed(base, paddle, f"composite.{name}_" if home == "composite" else f"torch.Tensor.{name}_",
                   inverse=home != "composite" and paddle.startswith("paddle.Tensor."))  # fmt: skip
    written = next(iter(base.names))  # where it carries no gradient, what is written to it carries none either
    made = replace(made, constant=tuple(name for name in base.constant if name != written))
    if base.names.get("out"):  # the tensor itself is what is written to
        names, forbidden = {**base.names, "out": ""}, {**base.forbidden, "out": None}
        base = replace(base, names=names, forbidden=forbidden)
        made = replace(made, names=names, forbidden=forbidden, disagreement="", differs=())
    own = _OWN_EXAMPLES.get(paddle.rpartition(".")[2].rstrip("_"))
    if own is not None:
        given = row(paddle, made.torch, "", *own[0], differs=own[2])
        made = replace(made, examples=given.examples, disagreement=own[1], differs=given.differs)
    if home == "composite":
        names = {ours: ours if theirs else "" for ours, theirs in base.names.items()}
        return replace(made, names=names, like=base.operator)
    (first, _), *others = base.names.items()
    order = tuple("0" if name == base.names[first] else name for name in base.order)
    return replace(made, names={first: "0", **dict(others)}, order=order)


def _made() -> Iterator[Row]:
    for name in _METHODS.split():
        yield renamed(_BASE[name], f"paddle.Tensor.{name}")
    for names, homes in ((_IN_PLACE, ("paddle", "paddle.Tensor")), (_FUNCTIONS_ONLY, ("paddle",)),
                         (_METHODS_ONLY, ("paddle.Tensor",))):  # fmt: skip
        for name in names.split():
            for home in homes:
                yield _in_place(_BASE[name], f"{home}.{name}_")


ROWS: tuple[Row, ...] = tuple(_made())
