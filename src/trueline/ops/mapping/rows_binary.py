"""Rows: functions of the elements at one place of two or more tensors."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, row

_REAL = ("(f[3, 4], f[4])", "(d[2, 3], d[2, 3])")
_ANY = (*_REAL, "(i[3, 4], i[4])", "(c[3], c[3])")
_COMPARED = ("(f[3, 4], f[4])", "(i[30], i[30])", "(b[8], b[8])")
_ORDERED = ("(f[3, 4], f[4])", "(i[30], i[30])", "(d[2, 3], d[2, 3])")
_INTEGERS = ("(i[3, 4], i[4])", "(j[5], j[5])")
_LOGICAL = ("(b[3, 4], b[4])", "(f[3], f[3])", "(i[8], i[8])")


def _binary(names: str, examples: tuple[str, ...], parameters: str = "x:input y:other name- out!",
            needs: str = "") -> tuple[Row, ...]:  # fmt: skip
    """``paddle's name:torch's name``, one name where they are the same; the first that names a torch function is the
    one to which torch's calls go."""
    made, seen = [], set()
    for text in names.split():
        ours, _, theirs = text.partition(":")
        theirs = theirs or ours
        made.append(row(f"paddle.{ours}", f"torch.{theirs}", parameters, *examples, needs=needs,
                        inverse=theirs not in seen))  # fmt: skip
        seen.add(theirs)
    return tuple(made)


ROWS: tuple[Row, ...] = (
    *_binary("add subtract:sub sub", (*_ANY, "(f[3], f[3], alpha=2)"), "x:input y:other name- alpha out!"),
    *_binary("multiply:mul mul", _ANY),
    *_binary("divide:div div", (*_REAL, "(c[3], c[3])", '(f[3, 4], f[4], rounding_mode="floor")'),
             "x:input y:other name- rounding_mode out!"),
    row("paddle.true_divide", "torch.true_divide", "input other out!", *_REAL, needs="other=nonzero"),
    row("paddle.floor_divide", "composite.floor_divide", "x y name- out!", "(f[3, 4], f[4])", "(i[3, 4], i[4])",
        needs="y=nonzero", like="torch.floor_divide"),
    *_binary("remainder mod:remainder floor_mod:remainder", ("(f[3, 4], f[4])", "(i[3, 4], i[4])"),
             needs="y=nonzero"),
    *_binary("maximum minimum fmax fmin", (*_REAL, "(i[5], i[5])")),
    *_binary("hypot logaddexp", _REAL),
    row("paddle.atan2", "composite.atan2", "x y name-", *_REAL, like="torch.atan2", differs=("(i[5], i[5])",),
        disagreement="Paddle computes the angle of integers in float32 and gives it as float64"),
    row("paddle.copysign", "composite.copysign", "x y name-", *_REAL, "(i[5], i[5])", "(b[5], b[5])",
        like="torch.copysign"),
    *_binary("gcd lcm", ("(i[3, 4], i[4])", "(j[5], j[5])")),
    row("paddle.pow", "torch.pow", "x:input y:exponent name- out!", "(f[3, 4], 2)", "(f[3, 4], 0.5)", "(f[3, 4], f[4])",
        "(i[5], 2)", "(d[3], -1.5)"),
    row("paddle.ldexp", "composite.ldexp", "x y name-", "(f[3, 4], i[4])", "(d[3], j[3])", needs="y=uniform(-3,4)",
        like="torch.ldexp"),
    row("paddle.nextafter", "torch.nextafter", "x:input y:other name-",
        disagreement="Paddle has no gradient of nextafter",
        differs=_REAL),
    row("paddle.heaviside", "composite.heaviside", "x y name-", *_REAL, "(f[30], f[30]) x=uniform(-1,1)zeros(0.4)",
        like="torch.heaviside"),
    *(row(f"paddle.{name}", f"torch.special.{name}", "x:input y:other name-", "(d[2, 3], d[2, 3])", "(f[4], f[4])",
          needs="x=positive y=positive", constant="x", differs=("(f[3, 4], f[4])",),
          disagreement="Paddle does not broadcast here: it reads beyond the end of the smaller tensor")
      for name in ("gammainc", "gammaincc")),
    *(row(f"paddle.bitwise_{name}", f"torch.bitwise_{name}", "x:input y:other out name-", *_INTEGERS, "(b[8], b[8])",
          disagreement="Paddle takes a tensor out and does not write to it", differs=("(i[3], i[3], i[3])",))
      for name in ("and", "or", "xor")),
    *(row(f"paddle.bitwise_{side}_shift", f"composite.{side}_shift", "x y is_arithmetic out! name-", *_INTEGERS,
          "(i[9], i[9], False)", needs="x=uniform(-60,60) y=uniform(0,5)", like=f"torch.bitwise_{side}_shift")
      for side in ("left", "right")),
    *_binary("logical_and logical_or logical_xor", _LOGICAL),
    *_binary("equal:eq eq not_equal:ne ne", _COMPARED),
    *_binary("greater_than:gt gt greater:gt greater_equal:ge ge less_than:lt lt less:lt less_equal:le le", _ORDERED),
    row("paddle.isclose", "torch.isclose", "x:input y:other rtol atol equal_nan name-", "(f[3, 4], f[3, 4])",
        "(f[3, 4], f[3, 4], 0.5, 0.5)", needs="x=uniform(1,1.00002) y=uniform(1,1.00002)"),
    row("paddle.allclose", "composite.allclose", "x y rtol atol equal_nan name-", "(f[3, 4], f[3, 4])",
        "(d[3], d[3], 0.5, 10.0)", like="torch.allclose"),
    row("paddle.equal_all", "composite.equal_all", "x y name-", "(f[3, 4], f[3, 4])", "(i[1], i[1])",
        needs="x=constant(2) y=constant(2)", like="torch.equal"),
    row("paddle.add_n", "composite.add_n", "inputs name-", "([f[3, 4], f[3, 4], f[3, 4]])", "(f[3])", like="torch.add"),
    row("paddle.lerp", "torch.lerp", "x:input y:end weight name-", "(f[3, 4], f[3, 4], 0.3)",
        disagreement="Paddle gives a tensor weight no gradient", differs=("(d[3], d[3], d[3])",)),
    row("paddle.addmm", "torch.addmm", "input x:mat1 y:mat2 beta alpha name-", "(f[3, 5], f[3, 4], f[4, 5])",
        "(d[3, 5], d[3, 4], d[4, 5], 0.5, 2.0)"),
    row("paddle.baddbmm", "torch.baddbmm", "input x:batch1 y:batch2 beta alpha name-",
        "(f[2, 3, 5], f[2, 3, 4], f[2, 4, 5])", "(f[2, 3, 5], f[2, 3, 4], f[2, 4, 5], 0.5, 2.0)"),
    row("paddle.isin", "torch.isin", "x:elements test_x:test_elements assume_unique invert name-", "(i[3, 4], i[5])",
        "(f[3, 4], f[5], invert=True)", "(i[30], i[4])"),
    row("paddle.multiplex", "composite.multiplex", "inputs index name-", "([f[4, 3], f[4, 3], f[4, 3]], j[4, 1])",
        needs="index=index({inputs.items})", like="torch.gather"),
    row("paddle.where", "composite.where", "condition x y name- out!", "(b[3, 4], f[3, 4], f[3, 4])",
        "(b[3, 4], f[3, 4], f[1])", "(b[4], 1.0, -2.0)", "(b[4], f[4], 0.0)", "(b[3, 4])", like="torch.where"),
    row("paddle.masked_fill", "composite.masked_fill", "x mask value name-", "(f[3, 4], b[3, 4], 0.5)",
        "(f[3, 4], b[4], 2.0)", like="torch.masked_fill",
        disagreement="Paddle gives a tensor value no gradient", differs=("(f[3, 4], b[3, 4], f[])",
        "(f[3, 4], b[3, 4], f[1])")),
)  # fmt: skip

FROM_TORCH: tuple[Row, ...] = (
    row("paddle.where", "torch.where", "condition x:input y:other"),
    row("paddle.where", "torch.Tensor.where", "x:input condition y:other", order="input condition other"),
    *(row(f"composite.{name}", f"torch.{name}", "input other alpha", inverse=True) for name in ("add", "sub")),
    *(row(f"paddle.Tensor.__{name}__", f"torch.{name}", "self:input other")
      for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    row("composite.mul", "torch.mul", "input other", inverse=True),
    row("composite.div", "torch.div", "input other rounding_mode", inverse=True),
    row("composite.pow", "torch.pow", "input exponent", inverse=True),
    row("composite.clamp", "torch.clamp", "input min max", inverse=True),
    row("paddle.atan2", "torch.atan2", "x:input y:other"),
    row("paddle.floor_divide", "torch.floor_divide", "x:input y:other"),
    row("paddle.heaviside", "torch.heaviside", "x:input y:values"),
    row("paddle.copysign", "torch.copysign", "x:input y:other"),
    row("paddle.masked_fill", "torch.masked_fill", "x:input mask value"),
    row("paddle.bitwise_left_shift", "torch.bitwise_left_shift", "x:input y:other"),
    row("paddle.bitwise_right_shift", "torch.bitwise_right_shift", "x:input y:other"),
)  # fmt: skip
