"""Activations, softmax and linear layers of torch.nn.functional."""

from __future__ import annotations

from trueline.ops.catalogue.language import Row, T, dtype, forward, op, unary

_F = "torch.nn.functional."
_PLAIN = """relu relu6 gelu silu mish selu celu elu leaky_relu hardtanh hardswish hardsigmoid softplus softsign
    tanhshrink logsigmoid hardshrink softshrink tanh sigmoid"""
_EXTREMES = ("uniform(-100, 100)", "normal nan inf", "tiny", "small")

_SOFTMAXES = ["torch.softmax", "torch.log_softmax", "torch.Tensor.softmax", "torch.Tensor.log_softmax"]
_SOFTMAXES += [_F + "softmax", _F + "log_softmax", _F + "softmin", "torch.special.softmax", "torch.special.log_softmax"]

POINTWISE: list[Row] = [
    *unary(" ".join(_F + name for name in _PLAIN.split()), extremes=_EXTREMES),
    op(_F + "gelu", T(32, 65), approximate="tanh"),
    op(_F + "gelu", T(16, 33, of="uniform(-8, 8)"), approximate="tanh"),
    op(_F + "gelu", T(16, 33, of="uniform(-8, 8)")),
    op(_F + "elu", T(6, 11), 0.5),
    op(_F + "celu", T(6, 11), 2.0),
    op(_F + "leaky_relu", T(6, 11), 0.2),
    op(_F + "leaky_relu", T(6, 11, of="normal zeros(0.3)"), 0.01),
    op(_F + "hardtanh", T(6, 11), -0.5, 0.7),
    op(_F + "softplus", T(6, 11, of="uniform(-30, 30)"), 2.0, 10.0),
    op(_F + "softplus", T(6, 11, of="uniform(15, 25)")),
    op(_F + "hardshrink", T(6, 11), 0.3),
    op(_F + "softshrink", T(6, 11), 0.3),
    op(_F + "threshold", T(6, 11), 0.1, 20.0),
    op(_F + "threshold", T(6, 11, of="halves"), 0.5, 0.0),
    op("torch.threshold", T(6, 11), -0.2, 1.0),
    op(_F + "prelu", T(4, 8, 5), T(8)),
    op(_F + "prelu", T(4, 8), T(1)),
    op("torch.prelu", T(4, 8, 3, 3), T(8)),
    op(_F + "glu", T(6, 32)),
    op(_F + "glu", T(8, 5, 3), 0),
    op(_F + "rrelu", T(6, 11)),
    forward(_F + "rrelu", T(40, 50), 0.1, 0.3, True),
    *[
        row
        for name in ("relu_", "leaky_relu_", "elu_", "hardtanh_", "threshold_", "selu_", "celu_")
        for row in [op(_F + name, T(6, 11), *((0.1, 2.0) if name == "threshold_" else ()))]
    ],
    op(_F + "relu", T(6, 11), inplace=True),
    op(_F + "silu", T(6, 11), inplace=True),
]

SOFTMAX: list[Row] = [
    row
    for api in _SOFTMAXES
    for row in (
        op(api, T(16, 65), dim=-1),
        op(api, T(6, 11, 5), dim=1),
        op(api, T(3, 4000), dim=1),
        op(api, T(12, 10, layout="turned"), dim=-1),
        op(api, T(6, 33, of="uniform(-100, 100)"), dim=-1),
        op(api, T(6, 33, of="large"), dim=-1),
        op(api, T(6, 33, of="attention_mask"), dim=-1),
        op(api, T(5, 1), dim=1),
        op(api, T(0, 4), dim=1),
    )
]

LINEAR: list[Row] = [
    op(_F + "softmax", T(6, 33), dim=-1, dtype=dtype("float32")),
    op(_F + "linear", T(32, 48), T(24, 48), T(24)),
    op(_F + "linear", T(4, 9, 33), T(17, 33), T(17)),
    op(_F + "linear", T(4, 9, 33), T(17, 33)),
    op(_F + "linear", T(33), T(17, 33), T(17)),
    op(_F + "linear", T(4, 4096), T(8, 4096), T(8)),
    op(_F + "linear", T(4, 2048, of="positive"), T(8, 2048, of="positive")),
    op(_F + "linear", T(9, 8, layout="turned"), T(5, 8), T(5)),
    op(_F + "linear", T(0, 8), T(5, 8), T(5)),
    op(_F + "bilinear", T(6, 9), T(6, 7), T(5, 9, 7), T(5)),
    op(_F + "bilinear", T(2, 3, 4), T(2, 3, 5), T(6, 4, 5)),
    op("torch.bilinear", T(6, 9), T(6, 7), T(5, 9, 7), T(5)),
]

ROWS = [*POINTWISE, *SOFTMAX, *LINEAR]
