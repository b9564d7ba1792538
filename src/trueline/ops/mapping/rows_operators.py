"""Rows: operators and methods of Paddle's tensors that are no functions of ``paddle``, or have other parameters."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, row

_REAL = ("(f[3, 4], f[4])", "(d[3], 2.0)", "(f[3, 4], 0.5)")
_INTEGERS = ("(i[3, 4], i[4])",)


def _operators(names: str, *examples: str, needs: str = "") -> tuple[Row, ...]:
    """Operators of two that Python spells alike in both frameworks."""
    return tuple(row(f"paddle.Tensor.__{name}__", f"torch.Tensor.__{name}__", "self:0 other:1", *examples, needs=needs)
                 for name in names.split())  # fmt: skip


def _casts(names: str) -> tuple[Row, ...]:
    return tuple(row(f"paddle.Tensor.{name}", f"composite.to_{name}", "x", "(i[3])",
    *(() if name in _EXACT else ("(f[3])",)),
                     like="torch.Tensor.to", needs="x=uniform(0,9)", disagreement=_CASTS if name in _EXACT else "",
                     differs=("(f[3])",) if name in _EXACT else ())
                 for name in names.split())  # fmt: skip


_CASTS = "in Paddle a cast from float to integer or bool hands gradients on; in torch it ends them"
_EXACT = {"byte", "char", "int16", "int32", "int64", "int8", "long", "short", "uint8"}

ROWS: tuple[Row, ...] = (
    *_operators("add sub mul radd rsub rmul", *_REAL, "(i[3, 4], i[4])", "(c[3], c[3])"),
    *_operators("truediv rtruediv", "(f[3, 4], f[4])", "(d[3], 2.0)", needs="self=nonzero other=nonzero"),
    *_operators("mod rmod", "(f[3, 4], f[4])", "(i[3, 4], i[4])", "(i[5], 3)", needs="self=nonzero other=nonzero"),
    row("paddle.Tensor.__floordiv__", "torch.Tensor.__floordiv__", "self:0 other:1", "(f[3, 4], f[4])",
        "(i[3, 4], i[4])",
        "(i[5], 3)", needs="other=nonzero", differs=("(i[], 3)",),
        disagreement="Paddle gives a tensor without dimensions one when it is divided by a number"),
    row("paddle.Tensor.__rfloordiv__", "torch.Tensor.__rfloordiv__", "self:0 other:1", "(i[5], 3)", "(f[5], 3.0)",
        needs="self=nonzero"),
    *_operators("pow", "(f[3, 4], 2)", "(f[3, 4], f[4])", "(d[3], 0.5)", "(i[4], 2)", needs="self=positive"),
    *_operators("rpow", "(f[3, 4], 2.0)", "(d[3], 0.5)"),
    *_operators("matmul rmatmul", "(f[4, 4], f[4, 4])", "(d[2, 3, 3], d[3, 3])"),
    *_operators("and or xor", *_INTEGERS, "(b[8], b[8])"),
    *(row(f"paddle.Tensor.__{name[0]}shift__", f"composite.{name}_shift", "x y is_arithmetic out! name-", *_INTEGERS,
          "(i[9], i[9], False)", needs="x=uniform(-60,60) y=uniform(0,5)", like=f"torch.bitwise_{name}_shift")
      for name in ("left", "right")),
    *_operators("eq ne", "(f[3, 4], f[4])", "(i[30], i[30])", "(i[20], 2)"),
    *_operators("lt le gt ge", "(f[3, 4], f[4])", "(i[30], i[30])", "(f[20], 0.5)"),
    row("paddle.Tensor.__rand__", "composite.bitwise_and", "x y", "(i[3, 4], 3)", like="torch.bitwise_and"),
    row("paddle.Tensor.__ror__", "composite.bitwise_or", "x y", "(i[3, 4], 3)", like="torch.bitwise_or"),
    row("paddle.Tensor.__rxor__", "composite.bitwise_xor", "x y", "(i[3, 4], 3)", like="torch.bitwise_xor"),
    row("paddle.Tensor.__rlshift__", "composite.reflected_left_shift", "x y", *_INTEGERS,
        needs="x=uniform(0,5) y=uniform(0,60)", like="torch.bitwise_left_shift"),
    row("paddle.Tensor.__rrshift__", "composite.reflected_right_shift", "x y", *_INTEGERS,
        needs="x=uniform(0,5) y=uniform(0,60)", like="torch.bitwise_right_shift"),
    row("paddle.Tensor.__div__", "torch.Tensor.__truediv__", "self:0 other:1", "(f[3, 4], f[4])", needs="other=nonzero",
        inverse=False),
    row("paddle.Tensor.__rdiv__", "torch.Tensor.__rtruediv__", "self:0 other:1", "(f[3, 4], f[4])",
        needs="self=nonzero",
        inverse=False),
    row("paddle.Tensor.__neg__", "torch.Tensor.__neg__", "self:0", "(f[3, 4])", "(i[3])"),
    row("paddle.Tensor.__pos__", "torch.Tensor.__pos__", "self:0", "(f[3, 4])"),
    row("paddle.Tensor.__abs__", "torch.Tensor.__abs__", "self:0", "(f[3, 4])", "(i[3])"),
    row("paddle.Tensor.__invert__", "torch.bitwise_not", "self:input out", "(i[3, 4])", "(b[3])", inverse=False,
        disagreement="Paddle takes a tensor out and does not write to it", differs=("(i[3], i[3])",)),
    row("paddle.Tensor.__len__", "torch.Tensor.__len__", "self:0", "(f[3, 4])"),
    *(row(f"paddle.Tensor.__{name}__", f"torch.Tensor.__{name}__", "self:0", "(b[])", "(b[1])",
        needs="self=constant(-3)",
          disagreement="in Paddle negative numbers are false", differs=("(i[1])", "(f[])"))
      for name in ("bool", "nonzero")),
    row("paddle.Tensor.__float__", "torch.Tensor.__float__", "self:0", "(f[])", "(d[])"),
    row("paddle.Tensor.__int__", "torch.Tensor.__int__", "self:0", "(i[])", "(f[])"),
    row("paddle.Tensor.__index__", "torch.Tensor.__index__", "self:0", "(i[])"),
    row("paddle.Tensor.__complex__", "torch.Tensor.__complex__", "self:0", "(c[])"),
    row("paddle.Tensor.__getitem__", "torch.Tensor.__getitem__", "self:0 index:1", "(f[3, 4], 1)",
        "(d[3, 4], (slice(None,None,None), 1))", "(f[3, 4], (Ellipsis, slice(-1,None,None)))",
        "(f[3, 4], slice(0,3,2))",
        "(f[3, 4], (None, 1))", "(f[5, 4], i[3])", "(f[5, 4], b[5])", "(d[5, 4], (i[3], i[3]))", "(f[3, 4], [0, 2])",
        needs="index=index({self.1})"),
    row("paddle.Tensor.__setitem__", "torch.Tensor.__setitem__", "self:0 index:1 value:2", "(f[3, 4], 1, 0.5)",
        "(f[3, 4], (slice(None,None,None), 1), f[3])", "(i[5, 4], slice(1,3,None), 7)", "(f[5, 4], b[5], 2.0)",
        "(f[5, 4], i[3], f[3, 4])", needs="index=distinct({self.0})"),
    row("paddle.Tensor.astype", "composite.cast", "x dtype", "(f[3, 4], Dtype(float64))", '(i[3], "float32")',
        "(f[3], type(float))", like="torch.Tensor.to"),
    row("paddle.Tensor.type_as", "torch.Tensor.type_as", "x:0 other:1", "(f[3], d[2])"),
    *_casts("bool byte char int int16 int32 int64 int8 long short uint8 float float32 float64 double half float16"),
    *_casts("bfloat16"),
    row("paddle.Tensor.cfloat", "composite.to_cfloat", "x", "(f[3])", like="torch.Tensor.to"),
    row("paddle.Tensor.cdouble", "composite.to_cdouble", "x", "(f[3])", like="torch.Tensor.to"),
    row("paddle.Tensor.complex64", "composite.to_complex64", "x", "(f[3])", like="torch.Tensor.to"),
    row("paddle.Tensor.complex128", "composite.to_complex128", "x", "(f[3])", like="torch.Tensor.to"),
    row("paddle.Tensor.detach", "torch.Tensor.detach", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.contiguous", "torch.Tensor.contiguous", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.cpu", "torch.Tensor.cpu", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.item", "composite.item", "x:0 *args", "(f[1])", "(i[])", "(f[3, 4], 5)", "(f[3, 4], 1, 2)",
        like="torch.Tensor.item"),
    row("paddle.Tensor.dim", "torch.Tensor.dim", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.ndimension", "torch.Tensor.ndimension", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.element_size", "composite.element_size", "x", "(i[3, 4])"),
    row("paddle.Tensor.is_contiguous", "torch.Tensor.is_contiguous", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.is_same_shape", "torch.Tensor.is_same_size", "x:0 y:1", "(f[3, 4], f[3, 4])"),
    row("paddle.Tensor.T", "composite.reversed_dimensions", "x", "(f[3, 4])", "(f[2, 3, 4])", like="torch.permute"),
    row("paddle.Tensor.mT", "composite.matrix_transpose", "x", "(f[2, 3, 4])", like="torch.transpose"),
    row("paddle.Tensor.fill_", "torch.Tensor.fill_", "x:0 value", "(f[3, 4], 0.5)", "(i[3], 2)"),
    row("paddle.Tensor.zero_", "torch.Tensor.zero_", "x:0", "(f[3, 4])"),
    row("paddle.Tensor.copy_", "torch.Tensor.copy_", "x:0 other non_blocking-", "(i[3, 4], i[3, 4])",
        disagreement="Paddle's copy_ is outside of autograd", differs=("(f[3, 4], f[3, 4])",)),
    row("paddle.Tensor.fill_diagonal_", "composite.fill_diagonal_", "x value offset wrap name-", "(f[4, 4], 0.5)",
        "(f[5, 3], 2.0, 0, True)", "(d[4, 4], 1.0, 1)", like="torch.Tensor.fill_diagonal_"),
    row("paddle.Tensor.fill_diagonal_tensor", "composite.fill_diagonal_tensor", "x y offset dim1 dim2 name-",
        "(i[4, 4], i[4])", disagreement="Paddle gives y no gradient",
        differs=("(f[4, 4], f[4])", "(d[2, 4, 3], d[2, 2], 1, 1, 2)"), like="torch.diagonal_scatter"),
    row("paddle.Tensor.fill_diagonal_tensor_", "composite.fill_diagonal_tensor_", "x y offset dim1 dim2 name-",
        "(i[4, 4], i[4])", disagreement="Paddle gives y no gradient", differs=("(f[4, 4], f[4])",),
        like="torch.diagonal_scatter"),
    row("paddle.Tensor.repeat", "torch.Tensor.repeat", "x:0 *repeats", "(f[2, 3], 2, 2)"),
    row("paddle.Tensor.new_zeros", "torch.Tensor.new_zeros", "x:0 size dtype", "(f[3], [2, 3])"),
    row("paddle.Tensor.new_ones", "torch.Tensor.new_ones", "x:0 size dtype", "(f[3], [2, 3])"),
    row("paddle.Tensor.new_full", "torch.Tensor.new_full", "x:0 size fill_value dtype", "(f[3], [2, 3], 0.5)"),
    row("paddle.Tensor.split_with_sizes", "torch.split_with_sizes", "x:input split_sizes dim", "(f[6, 3], [1, 2, 3])"),
)  # fmt: skip

FROM_TORCH: tuple[Row, ...] = (row("paddle.Tensor.__invert__", "torch.Tensor.__invert__", "self:0"),)
