"""Rows: functions of one element."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, row

_REAL = ("(f[3, 4])", "(d[2, 3])")
_ANY = ("(f[3, 4])", "(d[2, 3])", "(c[4])")
_WITH_INTEGERS = ("(f[3, 4])", "(d[2, 3])", "(i[5])")
_IGNORED = "Paddle takes a tensor out and does not write to it"


def _unary(names: str, examples: tuple[str, ...], home: str = "torch") -> tuple[Row, ...]:
    """Functions of one tensor that have the same name on both sides."""
    return tuple(row(f"paddle.{name}", f"{home}.{name}", "x:input name- out!", *examples) for name in names.split())


ROWS: tuple[Row, ...] = (
    row("paddle.acosh", "torch.acosh", "x:input name- out!", *_ANY, differs=("(c[5]) x=normal(-2,0.3)",),
        disagreement="Paddle's gradient has the wrong sign for complex numbers with a negative real part"),
    *_unary("acos asin asinh atan atanh cos cosh exp expm1 log log10 log2 reciprocal", _ANY),
    *_unary("sigmoid sin sinh sqrt tan tanh", _ANY),
    *_unary("rsqrt erf erfinv i0 log1p lgamma", _REAL),
    row("paddle.sinc", "composite.sinc", "x name-", *_REAL, like="torch.sinc"),
    *_unary("i0e i1 i1e", _REAL, home="torch.special"),
    *_unary("deg2rad rad2deg", _REAL),
    *_unary("ceil floor sign", _REAL),
    *_unary("abs square neg negative positive", ("(f[3, 4])", "(d[2, 3])", "(i[5])", "(c[4])")),
    *_unary("angle sgn", ("(f[3, 4])", "(c[2, 3])")),
    *_unary("conj", ("(c[3, 4])", "(f[3])")),
    *_unary("isfinite isinf isnan signbit isneginf isposinf", _WITH_INTEGERS),
    *_unary("isreal", ("(f[3, 4])", "(c[2, 3])")),
    *_unary("real imag", ("(c[3, 4])", "(z[2])")),
    *_unary("logical_not", ("(b[3, 4])", "(f[3])", "(i[4])")),
    row("paddle.digamma", "torch.digamma", "x:input name-", "(f[3, 4])",
        disagreement="torch's trigamma, the gradient of digamma, is right to about 1e-9 only in float64",
        differs=("(d[2, 3])",)),
    row("paddle.frexp", "composite.frexp", "x name-", *_REAL),
    row("paddle.frac", "composite.frac", "x name- out!", *_REAL, "(i[5])", like="torch.frac"),
    row("paddle.trunc", "torch.trunc", "input name-", "(f[3, 4])", "(d[2, 3])", "(i[5])"),
    row("paddle.gammaln", "torch.lgamma", "x:input name-", *_REAL, needs="x=positive", inverse=False),
    row("paddle.bitwise_not", "torch.bitwise_not", "x:input out name-", "(i[3, 4])", "(b[3])", disagreement=_IGNORED,
        differs=("(i[3], i[3])",)),
    row("paddle.bitwise_invert", "torch.bitwise_not", "x:input out name-", "(i[3, 4])", "(b[3])", inverse=False,
        disagreement=_IGNORED, differs=("(i[3], i[3])",)),
    row("paddle.round", "torch.round", "x:input decimals name- out!", "(f[3, 4])", "(d[3, 4], decimals=2)"),
    row("paddle.logit", "torch.logit", "x:input eps name-", "(f[3, 4])", "(d[3], 0.1)", needs="x=probability"),
    row("paddle.nan_to_num", "torch.nan_to_num", "x:input nan posinf neginf name-", "(f[3, 4])",
        "(d[3, 4], nan=1.0, posinf=5.0)", needs="x=normal"),
    row("paddle.polygamma", "torch.polygamma", "x:input n name-", "(f[3, 4], 1)", needs="x=positive", order="n input",
        disagreement="torch's float64 polygamma of order 1 is right to about 1e-9 only", differs=("(d[9], 1)",)),
    row("paddle.multigammaln", "torch.mvlgamma", "x:input p name-", "(f[3, 4], 2)", "(d[3], 3)",
        needs="x=uniform(2,8)"),
    row("paddle.stanh", "composite.stanh", "x scale_a scale_b name-", "(f[3, 4])", "(f[3, 4], 0.5, 2.0)",
        disagreement="Paddle rounds the two scales to float32 also for float64", differs=("(d[3, 4])",)),
    row("paddle.scale", "composite.scale", "x scale bias bias_after_scale act name-", "(f[3, 4], 2.0, 0.5)",
        "(f[3, 4], 2.0, 0.5, False)", "(i[3], 2)", '(f[3], 0.5, act="tanh")',
        disagreement="Paddle takes the tensor scale as a constant: it gets no gradient",
        differs=("(f[3, 4], scale=f[1])",)),
    row("paddle.increment", "composite.increment_", "x value name-", "(f[1])", "(f[1], 2.5)", "(i[1])"),
    row("paddle.clip", "torch.clamp", "x:input min max name- out!", "(f[3, 4], -0.5, 0.5)", "(f[3, 4], min=0.1)",
        "(d[3], max=0.2)", "(i[5], 0, 3)"),
    row("paddle.clamp", "torch.clamp", "x:input min max name- out!", "(f[3, 4], -0.5, 0.5)", "(d[3], max=0.2)",
        inverse=False),
    row("paddle.complex", "torch.complex", "real imag name- out!", "(f[3, 4], f[3, 4])", "(d[3], d[3])"),
    row("paddle.polar", "torch.polar", "abs angle name- out!", "(f[3, 4], f[3, 4])", "(d[3], d[3])"),
    row("paddle.as_complex", "torch.view_as_complex", "x:input name-", "(f[3, 2])", "(d[2, 3, 2])"),
    row("paddle.as_real", "torch.view_as_real", "x:input name-", "(c[3, 2])", "(z[2])"),
    row("paddle.view_as_complex", "torch.view_as_complex", "input", "(f[3, 2])", inverse=False),
    row("paddle.view_as_real", "torch.view_as_real", "input", "(c[3, 2])", inverse=False),
    row("paddle.cast", "composite.cast", "x dtype", "(f[3, 4], Dtype(float64))", '(i[3], "float32")',
        '(i[3], "int32")', '(c[3], "complex128")', like="torch.Tensor.to",
        disagreement="in Paddle a cast from float to integer or bool hands gradients on; in torch it ends them",
        differs=('(f[3], "int32")', '(f[30], "bool")')),
    row("paddle.clone", "torch.clone", "x:input name-", "(f[3, 4])", "(i[3])"),
    row("paddle.assign", "composite.assign_", "x output", "(f[3, 4])", "(i[3])", "([1.5, 2.5])", "(2)", "(f[3], f[3])",
        like="torch.clone", differs=("(1.5, f[1])",),
        disagreement="Paddle turns the tensor that it is to write a number to into one of float64"),
    row("paddle.is_complex", "torch.is_complex", "x:input", "(f[3])", "(c[3])"),
    row("paddle.is_floating_point", "torch.is_floating_point", "x:input", "(f[3])", "(i[3])"),
    row("paddle.is_integer", "composite.is_integer", "x", "(f[3])", "(i[3])", "(b[3])"),
    row("paddle.is_tensor", "torch.is_tensor", "x:0", "(f[3])", "(1.0)"),
    row("paddle.is_empty", "composite.is_empty", "x name-", "(f[3])", "(f[0, 3])"),
)  # fmt: skip

FROM_TORCH: tuple[Row, ...] = (row("paddle.sinc", "torch.sinc", "x:input"),)
