"""Rows of ``paddle.nn.functional``: convolutions and poolings."""

from __future__ import annotations

from typing import Any

from trueline.ops.mapping.nn import FLOAT32_ROOT, FLOAT32_SHARE, NAN_LOST, nn_row
from trueline.ops.mapping.rows import Row, aliases


def _convolution(name: str, like: str, *examples: str, **rest: Any) -> Row:
    names = "x weight bias stride padding dilation groups data_format"
    return nn_row(name, f"composite.{name}", names, *examples, like=f"torch.nn.functional.{like}", **rest)


def _transposed(name: str, like: str, names: str, *examples: str) -> Row:
    return nn_row(name, f"composite.{name}", names, *examples, like=f"torch.nn.functional.{like}")


def _pooling(name: str, composite: str, names: str, *examples: str, like: str = "", **rest: Any) -> Row:
    like = like or f"torch.nn.functional.{name}"
    if "output_size" in names.split() and not rest.get("needs"):
        rest["needs"] = "output_size=uniform(1,3)"
    return nn_row(name, f"composite.{composite}", names, *examples, like=like, **rest)


_DILATION_LOST = "With padding SAME Paddle sets the dilation to 1 without a word"
_CONV1D = _convolution(
    "conv1d", "conv1d", "(f[2,3,8], f[4,3,3])", "(f[2,4,9], f[6,2,3], f[6], 2, 1, 1, 2)",
    '(f[2,3,8], f[4,3,4], padding="SAME", stride=3)', '(d[2,3,8], d[4,3,3], None, 1, "VALID")',
    '(f[2,8,3], f[4,3,3], f[4], padding=[1,2], data_format="NLC")', "(f[1,2,9], f[2,2,3], dilation=2)",
    differs=('(f[1,2,9], f[3,2,3], padding="SAME", dilation=2)',), disagreement=_DILATION_LOST,
)  # fmt: skip
_CONV2D = _convolution(
    "conv2d", "conv2d", "(f[2,3,6,7], f[4,3,3,3])", "(f[2,4,6,6], f[4,1,3,3], f[4], 1, 1, 1, 4)",
    "(f[2,3,6,7], f[4,3,2,3], f[4], [2,1], [1,0], [1,2])",
    '(f[2,3,7,7], f[4,3,4,3], padding="SAME", stride=2)', '(d[1,2,5,5], d[3,2,3,3], padding="VALID")',
    "(f[1,2,5,6], f[3,2,3,3], None, 1, [1,0,2,1])",
    '(f[2,6,7,3], f[4,3,3,3], f[4], 2, 1, data_format="NHWC")',
    "(f[1,2,5,6], f[3,2,3,3], padding=[[0,0],[0,0],[1,2],[0,1]])",
    '(f[1,5,6,2], f[3,2,3,3], padding=[[0,0],[1,2],[0,1],[0,0]], data_format="NHWC")',
    differs=('(f[1,2,9,9], f[3,2,3,3], padding="SAME", dilation=2)',), disagreement=_DILATION_LOST,
)  # fmt: skip
_CONV3D = _convolution(
    "conv3d", "conv3d", "(f[1,2,4,5,4], f[3,2,2,3,2])", "(f[1,4,4,4,4], f[4,2,3,3,3], f[4], 2, 1, 1, 2)",
    '(f[1,2,5,4,4], f[3,2,2,3,3], padding="SAME")', "(d[1,2,4,4,4], d[2,2,2,2,2], padding=[1,0,0,1,2,0])",
    '(f[1,4,5,4,2], f[3,2,2,3,2], f[3], dilation=[1,2,1], data_format="NDHWC")',
    differs=('(f[1,2,7,7,7], f[3,2,3,3,3], padding="SAME", dilation=2)',), disagreement=_DILATION_LOST,
)  # fmt: skip
_ADAPTIVE1D = _pooling("adaptive_avg_pool1d", "adaptive_avg_pool1d", "x output_size", "(f[2,3,8], 3)",
                       "(d[1,2,7], output_size=7)", "(f[2,3,8], [5])", differs=("(d[2,3,8], 3)",),
                       disagreement=FLOAT32_SHARE)  # fmt: skip

ROWS = (
    _CONV1D, _CONV2D, _CONV3D, _ADAPTIVE1D,
    *aliases(_CONV1D, ["paddle.conv1d"]), *aliases(_CONV2D, ["paddle.conv2d"]), *aliases(_CONV3D, ["paddle.conv3d"]),
    *aliases(_ADAPTIVE1D, ["paddle.adaptive_avg_pool1d"]),
    _transposed("conv1d_transpose", "conv_transpose1d",
        "x weight bias stride padding output_padding groups dilation output_size data_format",
        "(f[2,3,6], f[3,4,3])", "(f[2,4,6], f[4,2,3], f[4], 2, 1, 1, 2)",
        "(f[2,3,6], f[3,4,3], None, 2, 0, 0, 1, 2)", "(f[1,2,5], f[2,3,3], stride=2, output_size=[12])",
        '(d[2,6,3], d[3,4,3], padding=[1,0], data_format="NLC")',
        '(f[2,3,6], f[3,4,3], stride=2, padding="VALID")'),
    _transposed("conv2d_transpose", "conv_transpose2d",
        "x weight bias stride padding output_padding dilation groups output_size data_format",
        "(f[2,3,4,5], f[3,4,3,3])", "(f[2,4,4,4], f[4,1,3,3], f[4], 2, 1, 1, 1, 4)",
        "(f[1,3,4,5], f[3,2,2,3], None, [2,1], [1,0], 0, [1,2])",
        "(f[1,2,4,4], f[2,3,3,3], stride=2, padding=1, output_size=[8,7])",
        '(f[1,4,5,3], f[3,2,3,3], f[2], 2, data_format="NHWC")',
        "(d[1,2,4,4], d[2,3,3,3], padding=[1,0,2,1])", '(f[1,2,4,5], f[2,3,4,3], stride=2, padding="SAME")'),
    _transposed("conv3d_transpose", "conv_transpose3d",
        "x weight bias stride padding output_padding groups dilation output_size data_format",
        "(f[1,2,3,4,3], f[2,3,2,2,3])", "(f[1,4,3,3,3], f[4,2,3,3,3], f[4], 2, 1, 1, 2)",
        "(f[1,2,3,3,3], f[2,3,3,3,3], stride=2, padding=1, output_size=[6,5,6])",
        '(d[1,3,3,4,2], d[2,2,2,2,2], d[2], data_format="NDHWC")'),
    _pooling("max_pool1d", "max_pool1d", "x kernel_size stride padding return_mask ceil_mode", "(f[2,3,8], 3)",
        "(f[2,3,8], 3, 2, 1, True)", "(f[1,2,9], 2, 2, 0, False, True)", "(d[1,2,8], [3], padding=[1,1])"),
    _pooling("max_pool2d", "max_pool2d", "x kernel_size stride padding return_mask ceil_mode data_format",
        "(f[2,3,6,7], 2)", "(f[2,3,6,7], 3, 2, 1, True)", "(f[1,2,6,7], [2,3], 2, [1,0], False, True)",
        '(f[1,6,7,2], 3, 2, data_format="NHWC")', '(f[1,2,7,7], 3, 2, "SAME")',
        "(d[1,2,6,7], 2, padding=[1,0,0,1])", '(f[1,2,5,5], 2, padding="VALID")',
        "(f[1,2,7,7], 3, 2, 1, return_mask=True, ceil_mode=True)", differs=('(f[1,2,7,7], 3, 2, "SAME", True)',
        "(f[1,2,6,6], 2) x=normal(0,1)nan(0.5)"),
        disagreement=f"With return_mask Paddle takes the padding SAME for none at all. {NAN_LOST}"),
    _pooling("max_pool3d", "max_pool3d", "x kernel_size stride padding return_mask ceil_mode data_format",
        "(f[1,2,4,5,4], 2)", "(f[1,2,4,5,4], 3, 2, 1, True)", "(f[1,2,5,5,4], 2, 2, 0, False, True)",
        '(d[1,4,5,4,2], 2, 1, data_format="NDHWC")',
        differs=("(f[1,2,4,4,4], 2) x=normal(0,1)nan(0.5)",), disagreement=NAN_LOST),
    _pooling("avg_pool1d", "avg_pool1d", "x kernel_size stride padding exclusive ceil_mode", "(f[2,3,8], 3)",
        "(f[2,3,8], 3, 2, 1)", "(f[2,3,8], 3, 2, 1, False)", "(f[1,2,9], 2, 2, 0, True, True)",
        "(d[1,2,8], 4, padding=2)", differs=("(d[2,3,8], 3)",), disagreement=FLOAT32_SHARE),
    _pooling("avg_pool2d", "avg_pool2d",
        "x kernel_size stride padding ceil_mode exclusive divisor_override data_format",
        "(f[2,3,6,7], 2)", "(f[2,3,6,7], 3, 2, 1)", "(f[2,3,6,7], 3, 2, 1, False, False)",
        "(f[1,2,7,7], [2,3], 2, [1,0], True)", '(f[1,6,7,2], 3, 2, 1, data_format="NHWC")',
        "(f[1,2,6,6], 2, divisor_override=3)", '(f[1,2,7,7], 3, 2, "SAME")', '(d[1,2,7,7], 4, padding="VALID")',
        "(f[1,2,6,7], 2, padding=[1,0,0,1])",
        differs=("(d[2,3,9,9], 3)", "(f[1,2,6,6], 3, 2, 1, divisor_override=4)"),
        disagreement="Paddle's backward divides in float32 also for float64, and divisor_override multiplies the mean "
        "without the padding by the size of the whole window, which is wrong at the borders"),
    _pooling("avg_pool3d", "avg_pool3d",
        "x kernel_size stride padding ceil_mode exclusive divisor_override data_format",
        "(f[1,2,4,5,4], 2)", "(f[1,2,4,5,4], 3, 2, 1)", "(f[1,2,4,5,4], 3, 2, 1, False, False)",
        "(f[1,2,5,5,5], 2, 2, 0, True)", '(d[1,4,5,4,2], 2, 1, data_format="NDHWC")',
        differs=("(d[1,2,6,6,6], 3)",), disagreement=FLOAT32_SHARE),
    _pooling("lp_pool1d", "lp_pool1d", "x norm_type kernel_size stride padding ceil_mode data_format",
        "(f[2,3,8], 2.0, 3)", "(f[2,3,8], 4.0, 3, 2)", "(f[2,3,8], 1.0, 3, 2, 1)", "(f[2,3,8], math.inf, 3)",
        "(f[1,2,9], 2.0, 2, 2, 0, True)", '(f[1,9,2], 2.0, 2, data_format="NLC")', needs="x=positive",
        differs=("(d[2,3,8], 3.0, 2)",), disagreement=FLOAT32_ROOT),
    _pooling("lp_pool2d", "lp_pool2d", "x norm_type kernel_size stride padding ceil_mode data_format",
        "(f[2,3,6,7], 2.0, 2)", "(f[1,2,6,7], 4.0, [2,3], 2, 1)", "(f[1,2,6,7], math.inf, 2)",
        "(f[1,2,7,7], 2.0, 2, 2, 0, True)", '(f[1,7,7,2], 2.0, 2, data_format="NHWC")', needs="x=positive",
        differs=("(d[2,3,6,7], 3.0, 2)",), disagreement=FLOAT32_ROOT),
    _pooling("adaptive_avg_pool2d", "adaptive_avg_pool2d", "x output_size data_format", "(f[2,3,6,7], 3)",
        "(f[2,3,6,7], [3,4])", "(f[2,3,6,7], (None,2,))", '(f[2,6,7,3], [4,3], "NHWC")',
        differs=("(d[2,3,6,7], [4,3])",), disagreement=FLOAT32_SHARE),
    _pooling("adaptive_avg_pool3d", "adaptive_avg_pool3d", "x output_size data_format", "(f[1,2,4,5,6], 2)",
        "(f[1,2,4,5,6], [2,None,4])", '(f[1,4,5,6,2], [3,2,1], "NDHWC")',
        differs=("(d[1,2,4,5,6], [3,2,1])",), disagreement=FLOAT32_SHARE),
    _pooling("adaptive_max_pool1d", "adaptive_max_pool", "x output_size return_mask", "(f[2,3,8], 3)",
        "(f[2,3,8], 5, True)", "(d[1,2,7], output_size=[4])"),
    _pooling("adaptive_max_pool2d", "adaptive_max_pool", "x output_size return_mask", "(f[2,3,6,7], 3)",
        "(f[2,3,6,7], [4,3], True)", "(f[2,3,6,7], (None,2,))"),
    _pooling("adaptive_max_pool3d", "adaptive_max_pool", "x output_size return_mask", "(f[1,2,4,5,6], 2)",
        "(f[1,2,4,5,6], [3,2,4], True)", "(d[1,2,4,5,6], [None,3,None])"),
    _pooling("max_unpool1d", "max_unpool", "x indices kernel_size stride padding data_format output_size",
        "(f[2,3,4], j[2,3,4], 2)", "(f[1,2,4], i[1,2,4], 3, 2, 1)", "(f[1,2,4], j[1,2,4], 2, output_size=[1,2,9])",
        needs="indices=plane_distinct({x.2},1)"),
    _pooling("max_unpool2d", "max_unpool", "x indices kernel_size stride padding data_format output_size",
        "(f[2,3,3,4], j[2,3,3,4], 2)", "(d[1,2,3,3], i[1,2,3,3], 3, 2, 1)",
        "(f[1,2,3,3], j[1,2,3,3], 2, output_size=[7,7])", needs="indices=plane_distinct({x.2*x.3},2)"),
    _pooling("max_unpool3d", "max_unpool", "x indices kernel_size stride padding data_format output_size",
        "(f[1,2,2,3,2], j[1,2,2,3,2], 2)", "(f[1,2,3,3,3], j[1,2,3,3,3], 3, 2, 1)",
        needs="indices=plane_distinct({x.2*x.3*x.4},3)"),
    _pooling("fractional_max_pool2d", "fractional_max_pool", "x output_size kernel_size random_u return_mask",
        "(f[2,3,7,8], 3, None, 0.3)", "(f[2,3,7,8], [3,4], 2, 0.6, True)", "(d[1,2,9,9], (4,None,), random_u=0.9)",
        like="torch.nn.functional.max_pool2d"),
    _pooling("fractional_max_pool3d", "fractional_max_pool", "x output_size kernel_size random_u return_mask",
        "(f[1,2,7,8,6], 3, None, 0.3)", "(f[1,2,7,8,6], [3,4,2], 2, 0.6, True)", like="torch.nn.functional.max_pool3d"),
)  # fmt: skip
