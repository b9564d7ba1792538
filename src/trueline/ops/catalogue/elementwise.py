"""Functions of one, two and three numbers, applied element by element."""

from __future__ import annotations

from trueline.ops.catalogue.language import (
    B,
    I,
    Row,
    T,
    Z,
    binary,
    each,
    first_constant,
    forward,
    op,
    unary,
    without_backward,
)

_EVERYWHERE = """torch.abs torch.absolute torch.neg torch.negative torch.positive torch.square torch.exp torch.exp2
    torch.expm1 torch.sin torch.cos torch.tan torch.sinh torch.cosh torch.tanh torch.asinh torch.arcsinh torch.atan
    torch.arctan torch.erf torch.erfc torch.sigmoid torch.sinc torch.sgn torch.deg2rad torch.rad2deg torch.relu
    torch.selu torch.frac torch.nan_to_num"""

_METHODS = """torch.Tensor.abs torch.Tensor.neg torch.Tensor.exp torch.Tensor.sin torch.Tensor.cos torch.Tensor.tanh
    torch.Tensor.sigmoid torch.Tensor.relu torch.Tensor.square torch.Tensor.erf torch.Tensor.__neg__
    torch.Tensor.__abs__ torch.Tensor.nan_to_num"""

_IN_PLACE = """torch.Tensor.abs_ torch.Tensor.neg_ torch.Tensor.exp_ torch.Tensor.sin_ torch.Tensor.cos_
    torch.Tensor.tanh_ torch.Tensor.sigmoid_ torch.Tensor.relu_ torch.Tensor.square_ torch.Tensor.erf_
    torch.Tensor.floor_ torch.Tensor.ceil_ torch.Tensor.round_ torch.Tensor.trunc_ torch.Tensor.sign_
    torch.Tensor.frac_ torch.Tensor.nan_to_num_ torch.Tensor.zero_ torch.Tensor.expm1_ torch.Tensor.atan_
    torch.Tensor.sinh_ torch.relu_ torch.selu_"""

_IN_PLACE_POSITIVE = """torch.Tensor.sqrt_ torch.Tensor.rsqrt_ torch.Tensor.log_ torch.Tensor.reciprocal_
    torch.Tensor.log2_"""
_IN_PLACE_OF_TWO = """torch.Tensor.add_ torch.Tensor.sub_ torch.Tensor.mul_ torch.Tensor.__iadd__
    torch.Tensor.__imul__"""

_ARITHMETIC = (
    "torch.add torch.sub torch.subtract torch.mul torch.multiply torch.maximum torch.minimum torch.fmax torch.fmin"
)
_OPERATORS = "torch.Tensor.__add__ torch.Tensor.__sub__ torch.Tensor.__mul__ torch.Tensor.__rsub__"
_METHODS_OF_TWO = """torch.Tensor.add torch.Tensor.sub torch.Tensor.mul torch.Tensor.maximum torch.Tensor.minimum"""
_DIVISIONS = "torch.div torch.divide torch.true_divide torch.Tensor.div torch.Tensor.__truediv__"
_REMAINDERS = "torch.remainder torch.fmod torch.Tensor.__mod__"

UNARY: list[Row] = [
    *unary(_EVERYWHERE),
    *unary("torch.reciprocal", of="nonzero"),
    *unary(
        "torch.floor torch.ceil torch.round torch.trunc torch.fix torch.sign",
        extremes=("wide", "halves", "normal nan inf"),
    ),
    *unary(
        "torch.sqrt torch.rsqrt torch.Tensor.sqrt torch.Tensor.rsqrt",
        of="positive",
        extremes=("wide magnitude", "normal"),
    ),
    *unary(
        "torch.log torch.log2 torch.log10 torch.Tensor.log torch.lgamma torch.digamma",
        of="positive",
        extremes=("wide magnitude", "normal zeros(0.1)", "uniform(0.9, 1.1)"),
    ),
    *unary(
        "torch.log1p torch.Tensor.log1p", of="uniform(-0.9, 8)", extremes=("small", "wide magnitude", "normal nan inf")
    ),
    *unary(
        "torch.asin torch.arcsin torch.acos torch.arccos torch.atanh torch.arctanh",
        of="unit_open",
        extremes=("normal", "small"),
    ),
    *unary("torch.erfinv", of="unit_open", extremes=("small", "uniform(0.99, 0.9999)")),
    *unary("torch.acosh torch.arccosh", of="above_one", extremes=("uniform(1, 1.01)", "large magnitude")),
    *unary("torch.logit", of="probability", extremes=("uniform(0, 0.001)",)),
    *unary("torch.i0", extremes=("uniform(-20, 20)",)),
    *unary("torch.exp torch.expm1 torch.sigmoid torch.tanh", extremes=("uniform(-100, 100)", "small")),
    *unary("torch.sin torch.cos torch.tan", of="angles", extremes=("uniform(-1000, 1000)",)),
    *unary(_METHODS, extremes=("normal nan inf",)),
    op("torch.logit", T(9, 9, of="uniform(0, 1)"), 0.01),
    op("torch.round", T(16, 16, of="uniform(-100, 100)"), decimals=1),
    op("torch.nan_to_num", T(8, 33, of="normal nan inf"), nan=1.0, posinf=2.0, neginf=-2.0),
    op("torch.polygamma", 1, T(8, 33, of="positive")),
    op("torch.polygamma", 2, T(8, 33, of="positive")),
    op("torch.polygamma", 0, T(8, of="positive")),
    op("torch.mvlgamma", T(8, 9, of="uniform(3, 8)"), 3),
    op("torch.mvlgamma", T(5, of="uniform(1, 4)"), 1),
    *each(
        "torch.angle torch.conj torch.real torch.imag torch.abs torch.sgn torch.conj_physical torch.resolve_conj",
        Z(6, 11),
    ),
    *each("torch.exp torch.log torch.sqrt torch.sin torch.tanh torch.reciprocal torch.square torch.neg", Z(6, 11)),
    *each("torch.angle torch.real torch.conj_physical torch.resolve_neg", T(6, 11)),
    op("torch.angle", T(9, of="normal nan zeros")),
    op("torch.frexp", T(6, 11, of="wide")),
    op("torch.frexp", T(5, of="normal zeros")),
    *each("torch.signbit torch.isneginf torch.isposinf torch.isreal", T(6, 11, of="normal nan inf zeros", grad=False)),
    *each("torch.neg torch.abs torch.square torch.sign torch.bitwise_not torch.positive", I(6, 11, of="normal")),
    *each("torch.neg torch.abs torch.bitwise_not", I(6, 11, of="normal", dtype="int8")),
    *each("torch.bitwise_not torch.logical_not", B(6, 11)),
]

IN_PLACE: list[Row] = [
    *[
        row
        for api in _IN_PLACE.split()
        for row in (op(api, T(32, 65)), op(api, T(17, 31, layout="turned")), op(api, T()))
    ],
    *[
        row
        for api in _IN_PLACE_POSITIVE.split()
        for row in (op(api, T(32, 65, of="positive")), op(api, T(5, 7, of="positive", layout="strided")))
    ],
    *[
        row
        for api in _IN_PLACE_OF_TWO.split()
        for row in (
            op(api, T(32, 65), T(32, 65)),
            op(api, T(6, 11), T(11)),
            op(api, T(6, 11), 3),
            op(api, T(6, 11, layout="turned"), T(6, 1)),
        )
    ],
    *[
        row
        for api in "torch.Tensor.div_ torch.Tensor.__itruediv__ torch.Tensor.remainder_ torch.Tensor.fmod_".split()
        for row in (op(api, T(32, 65), T(32, 65, of="nonzero")), op(api, T(6, 11), 2.5))
    ],
    op("torch.Tensor.add_", T(6, 11), T(6, 11), alpha=0.3),
    op("torch.Tensor.sub_", T(6, 11), T(6, 11), alpha=2),
    op("torch.Tensor.pow_", T(6, 11, of="positive"), 1.7),
    op("torch.Tensor.pow_", T(6, 11), 2),
    op("torch.Tensor.clamp_", T(6, 11), -0.5, 0.5),
    op("torch.Tensor.clamp_", T(6, 11), max=0.2),
    op("torch.Tensor.clamp_min_", T(6, 11), 0.1),
    op("torch.Tensor.clamp_max_", T(6, 11), 0.1),
    op("torch.Tensor.lerp_", T(6, 11), T(6, 11), 0.3),
    op("torch.Tensor.addcmul_", T(6, 11), T(6, 11), T(11), value=0.5),
    op("torch.Tensor.addcdiv_", T(6, 11), T(6, 11), T(11, of="nonzero"), value=-0.5),
    forward("torch.Tensor.asinh_", T(32, 65)),
    op("torch.Tensor.fill_", T(6, 11), 3.5),
    op("torch.Tensor.copy_", T(6, 11), T(11)),
    op("torch.Tensor.copy_", T(6, 11, layout="turned"), T(6, 11)),
    op("torch.Tensor.masked_fill_", T(6, 11), B(6, 11), -1.0),
    op("torch.Tensor.copysign_", T(6, 11), T(6, 11)),
    op("torch.Tensor.hypot_", T(6, 11), T(6, 11)),
    op("torch.Tensor.xlogy_", T(6, 11), T(6, 11, of="positive")),
]

BINARY: list[Row] = [
    *binary(_ARITHMETIC),
    *binary(_OPERATORS, extremes=()),
    *binary(_METHODS_OF_TWO, extremes=()),
    *binary(_DIVISIONS, other="nonzero", extremes=("wide", "normal zeros(0.2)")),
    *binary("torch.Tensor.__rtruediv__", of="nonzero", extremes=()),
    *binary(_REMAINDERS, other="nonzero", extremes=("halves zeros(0.1)",)),
    *binary("torch.pow torch.Tensor.pow torch.Tensor.__pow__ torch.float_power", of="positive", extremes=("normal",)),
    *binary("torch.atan2 torch.arctan2 torch.Tensor.atan2", extremes=("normal zeros(0.4)", "wide")),
    *binary("torch.hypot torch.copysign torch.logaddexp torch.logaddexp2", extremes=("large", "normal inf")),
    *without_backward(binary("torch.nextafter torch.heaviside", of="normal zeros(0.2)", extremes=("tiny",))),
    *without_backward(binary("torch.floor_divide torch.Tensor.__floordiv__", other="nonzero", extremes=("halves",))),
    *binary(
        "torch.xlogy torch.Tensor.xlogy", of="normal zeros(0.3)", other="positive", extremes=("normal zeros(0.3)",)
    ),
    *first_constant(
        binary("torch.igamma torch.igammac", of="positive", other="positive", extremes=("uniform(5, 20)",))
    ),
    *binary("torch.dist", extremes=("large",)),
    op("torch.add", T(6, 11), T(6, 11), alpha=0.1),
    op("torch.sub", T(6, 11), T(6, 11), alpha=3),
    op("torch.add", T(6, 11), 1e-3),
    op("torch.mul", T(6, 11), 1 / 3),
    op("torch.rsub", T(6, 11), T(6, 11), alpha=2),
    op("torch.rsub", T(6, 11), 1.5),
    op("torch.Tensor.__radd__", T(6, 11), 1.5),
    op("torch.Tensor.__rmul__", T(6, 11), 1.5),
    op("torch.Tensor.__rpow__", T(6, 11), 2.0),
    op("torch.div", T(6, 11), T(6, 11, of="nonzero"), rounding_mode="floor"),
    op("torch.div", T(6, 11), T(6, 11, of="nonzero"), rounding_mode="trunc"),
    op("torch.div", I(6, 11, of="normal"), I(6, 11, of="nonzero")),
    op("torch.div", I(6, 11, of="normal"), I(6, 11, of="nonzero"), rounding_mode="floor"),
    op("torch.pow", T(6, 11), 2),
    op("torch.pow", T(6, 11), 3),
    op("torch.pow", T(6, 11, of="positive"), -0.5),
    op("torch.pow", T(6, 11, of="positive"), 0.5),
    op("torch.pow", 2.0, T(6, 11)),
    op("torch.pow", I(6, 11, of="normal"), 3),
    op("torch.atan2", T(9, of="large"), T(9, of="small")),
    op("torch.ldexp", T(6, 11), I(6, 11, of="normal")),
    op("torch.hypot", T(9, of="near_overflow(0.4)"), T(9, of="near_overflow(0.4)")),
    op("torch.hypot", T(9, of="tiny"), T(9, of="tiny")),
    op("torch.logaddexp", T(9, of="uniform(-500, 500)"), T(9, of="uniform(-500, 500)")),
    *each("torch.add torch.sub torch.mul torch.maximum torch.minimum", I(6, 11, of="normal"), I(11, of="normal")),
    *each("torch.remainder torch.fmod torch.floor_divide", I(6, 11, of="normal"), I(11, of="nonzero")),
    *each("torch.gcd torch.lcm", I(6, 11, of="index(60)"), I(11, of="index(60)")),
    *each("torch.add torch.sub torch.mul torch.div", Z(6, 11), Z(11)),
    *each("torch.add torch.mul", T(6, 11), Z(11)),
    *each("torch.mul torch.add", T(6, 11), I(6, 11, of="normal")),
    op("torch.complex", T(6, 11), T(6, 11)),
    op("torch.polar", T(6, 11, of="positive"), T(6, 11, of="angles")),
    *[
        forward(f"torch.{name}", I(6, 11, of="index(64)"), I(11, of="index(64)"))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    ],
    *[forward(f"torch.{name}", B(6, 11), B(11)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")],
    *[forward(f"torch.Tensor.__{name}__", B(6, 11), B(11)) for name in ("and", "or", "xor")],
    forward("torch.Tensor.__invert__", B(6, 11)),
    *[
        forward(f"torch.bitwise_{name}_shift", I(6, 11, of="index(64)"), I(11, of="index(5)"))
        for name in ("left", "right")
    ],
    *[forward(f"torch.Tensor.__{name}shift__", I(6, 11, of="index(64)"), I(11, of="index(5)")) for name in ("l", "r")],
]

TERNARY: list[Row] = [
    *[
        row
        for api in ("torch.clamp", "torch.clip", "torch.Tensor.clamp")
        for row in (
            op(api, T(32, 65), -0.5, 0.5),
            op(api, T(6, 11), min=0.0),
            op(api, T(6, 11), max=0.3),
            op(api, T(6, 11), T(11), T(6, 1)),
            op(api, T(6, 11, of="normal nan inf"), -1.0, 1.0),
            op(api, T(6, 11, layout="turned"), 0.5, -0.5),
            op(api, T(0, 3), -1, 1),
        )
    ],
    op("torch.clamp", T(9, of="halves"), -1.5, 1.5),
    op("torch.clamp", I(6, 11, of="normal"), -2, 5),
    op("torch.clamp_min", T(6, 11), 0.2),
    op("torch.clamp_max", T(6, 11), 0.2),
    op("torch.Tensor.clamp_min", T(6, 11), 0.2),
    op("torch.Tensor.clamp_max", T(6, 11), T(11)),
    *[
        row
        for api in ("torch.lerp", "torch.Tensor.lerp")
        for row in (
            op(api, T(32, 65), T(32, 65), 0.3),
            op(api, T(6, 11), T(11), T(6, 11, of="probability")),
            op(api, T(6, 11), T(6, 11), 0.9),
            op(api, T(6, 11, of="large"), T(6, 11, of="large"), 0.5),
        )
    ],
    *[
        row
        for api in ("torch.addcmul", "torch.Tensor.addcmul")
        for row in (
            op(api, T(32, 65), T(32, 65), T(32, 65)),
            op(api, T(6, 1), T(11), T(6, 11), value=0.1),
            op(api, T(6, 11), T(6, 11, layout="turned"), T(6, 11), value=-2),
        )
    ],
    *[
        row
        for api in ("torch.addcdiv", "torch.Tensor.addcdiv")
        for row in (
            op(api, T(32, 65), T(32, 65), T(32, 65, of="nonzero")),
            op(api, T(6, 1), T(11), T(6, 11, of="nonzero"), value=0.1),
            op(api, T(6, 11), T(6, 11), T(6, 11, of="positive"), value=-1e-3),
        )
    ],
    *[
        row
        for api in ("torch.where",)
        for row in (
            op(api, B(32, 65), T(32, 65), T(32, 65)),
            op(api, B(6, 1), T(11), T(6, 11)),
            op(api, B(6, 11, of="boolean(0.1)"), T(6, 11), 0.0),
            op(api, B(6, 11), T(6, 11, of="normal nan"), T(6, 11)),
            op(api, B(0, 3), T(0, 3), T(3)),
        )
    ],
    op("torch.Tensor.where", T(6, 11), B(6, 11), T(11)),
]

ROWS = [*UNARY, *IN_PLACE, *BINARY, *TERNARY]
