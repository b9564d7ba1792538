"""What a case will cost, guessed before it is executed: seconds of one core, and bytes of memory.

Guessed is from shapes alone, in microseconds, without any framework: for the order of a campaign (the longest first),
for who may run at once, and for how long a case may take before something is wrong with it. A guess is right within a
factor of a few; whoever uses it leaves that much room.

What a call takes follows from its tensors. What it gives is as large as they are, broadcast against each other, unless
the table ``_RULES`` knows better: a product of matrices, ``one_hot``, ``expand``. All of it is computed several times:
by the candidate, honestly, and for golds of the inputs and of moved inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trueline.cases import Case, Target
from trueline.dtypes import dtype_named
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical

Shape = tuple[int, ...]

_EACH_CASE = 0.004
"""Seconds that a case takes whatever its size."""
_EACH_ELEMENT = 5e-8
"""Seconds for an element that goes in, comes out or has a gradient: drawn, copied, moved, computed and measured."""
_EACH_OPERATION = 3e-10
"""Seconds for a multiplication and an addition: by the candidate, honestly, and in float64."""
_WIDE = dict.fromkeys((Kind.MOVE, Kind.SELECT, Kind.DISCRETE, Kind.SUM, Kind.PRODUCT, Kind.REDUCTION), 3.0)
_OTHERWISE_WIDE = 8.0
"""How many times longer it takes where more digits than those of float64 are needed: functions are approximated by
series."""
_STEEP = 4.0
"""How many times longer an element takes with operators of which nothing is known."""
_EACH_PROCESS = 64 << 20
"""Bytes that a case takes whatever its size: what frameworks keep to themselves."""
_COPIES = 12
"""Numbers of eight bytes that live at once for an element: two results, golds of four inputs, what is measured."""
_MANY_ELEMENTS = 1 << 25
_COPIES_OF_MANY = 4.5
"""The same where the gold of one moved input has to do; results in narrow dtypes take less."""


_COMPILING = {"static": (0.03, 0), "cinn": (3.0, 1 << 30), "compile": (3.0, 1 << 30)}
"""Seconds and bytes that it takes to compile a call before it can be executed, by how a Target executes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a case is guessed to cost."""

    seconds: float
    bytes: int


def _widest(case: Case) -> int:
    """Bytes of an element of the widest tensor."""
    return max((dtype_named(spec.dtype).itemsize for spec in case.tensors), default=4)


def estimate(case: Case, target: Target, reference: Target) -> Cost:
    """Guesses the cost of a case on a target, judged by a reference."""
    shapes = [spec.shape for spec in case.tensors]
    taken = sum(math.prod(shape) for shape in shapes)
    facts = facts_of(case.api)
    given, operations = _work_of(_Call(case, shapes), canonical(case.api), facts.kind)
    elements = float(taken + given)
    if case.backward:
        elements *= 2
        operations *= 3
    wide = not target.dtype and any(dtype_named(spec.dtype).digits > _SINGLE for spec in case.tensors)
    times = _WIDE.get(facts.kind, _OTHERWISE_WIDE) if wide else 1.0
    steep = _STEEP if facts.kind is Kind.OTHER else 1.0
    seconds = _EACH_CASE + times * (_EACH_ELEMENT * elements * steep + _EACH_OPERATION * operations)
    compiling, compiler = _COMPILING.get(target.how, (0.0, 0))
    copies = _COPIES if elements < _MANY_ELEMENTS else _COPIES_OF_MANY + _widest(case) / 4
    return Cost(seconds + compiling, _EACH_PROCESS + compiler + int(8 * copies * elements * (2 if wide else 1)))


_SINGLE = 24
"""Digits of float32."""


@dataclass(slots=True)
class _Call:
    """One call with the shapes of its tensors, in order."""

    case: Case
    shapes: Sequence[Shape]

    def argument(self, place: int, *names: str) -> Any:
        """The tree of an argument by its place or by one of its names; None where it was not given."""
        positional = self.case.arguments.get("args", ())
        if place < len(positional):
            return positional[place]
        named = self.case.arguments.get("kwargs", {})
        return next((named[name] for name in names if name in named), None)

    def shape(self, place: int) -> Shape:
        """The shape of a tensor, by its place among the tensors."""
        return self.shapes[place] if place < len(self.shapes) else ()

    def numbers(self, place: int, *names: str) -> list[int]:
        """The whole numbers of an argument: itself, or the members of a list."""
        value = self.argument(place, *names)
        if isinstance(value, dict):
            value = value.get("$tuple", value.get("$size"))
        members = value if isinstance(value, list) else [value]
        return [one for one in members if isinstance(one, int) and not isinstance(one, bool)]


Work = tuple[float, float]
"""Elements that come out, and products and sums that it takes."""
Rule = Callable[[_Call], Work]


def _work_of(call: _Call, name: str, kind: Kind) -> Work:
    rule = _RULES.get(name)
    if rule is not None:
        return rule(call)
    if (kind is Kind.REDUCTION and name not in _FULL) or (name in _PICKS and len(call.shapes) == 1):
        return 1.0, 0.0
    return _broadcast(call)


_FULL = frozenset("cumsum cumprod logcumsumexp scatter_add index_add scatter_reduce index_reduce grid_sample".split())
"""Reductions that give as much as they take."""


_PICKS = frozenset("min max amin amax argmin argmax median nanmedian any all count_nonzero".split())
"""Of one tensor they give a few elements."""


def _broadcast(call: _Call) -> Work:
    """As large as the tensors broadcast against each other, where they can be."""
    largest = max((math.prod(shape) for shape in call.shapes), default=1)
    if len(call.shapes) < 2:
        return float(largest), 0.0
    sizes: list[int] = []
    for shape in call.shapes:
        for place, size in enumerate(reversed(shape)):
            if place == len(sizes):
                sizes.append(size)
            elif sizes[place] != size and 1 not in (sizes[place], size):
                return float(largest), 0.0
            else:
                sizes[place] = max(sizes[place], size)
    return float(max(math.prod(sizes), largest)), 0.0


def _matmul(call: _Call) -> Work:
    left, right = call.shape(0), call.shape(1)
    if not left or not right:
        return _broadcast(call)
    batch = max(math.prod(left[:-2]), math.prod(right[:-2]))
    rows = left[-2:] if len(left) > 1 else (1, left[-1])
    columns = right[-2:] if len(right) > 1 else (right[-1], 1)
    # Which of the sizes is summed over depends on what is transposed; it is the one that they share.
    inner = next((size for size in reversed(rows) if size in columns), rows[-1])
    given = batch * rows[0] * rows[1] * columns[0] * columns[1] / max(inner * inner, 1)
    return given, given * inner


def _added_matmul(call: _Call) -> Work:
    return _matmul(_Call(call.case, call.shapes[1:]))


def _conv(call: _Call) -> Work:
    given = call.shape(0)
    weight = call.shape(2 if "deform" in call.case.api else 1)  # there the offsets come first
    if len(weight) < 3 or not math.prod(weight):
        return _broadcast(call)
    strides = call.numbers(3, "stride")
    step = math.prod(strides) if len(strides) > 1 else (strides or [1])[0] ** (len(weight) - 2)
    channels = given[1] if len(given) > 1 else 1
    outputs = math.prod(given) / max(channels, 1) * weight[0] / max(step, 1)
    return outputs, outputs * math.prod(weight[1:])


def _conv_transpose(call: _Call) -> Work:
    given, weight = call.shape(0), call.shape(1)
    if len(weight) < 3 or not math.prod(weight):
        return _broadcast(call)
    strides = call.numbers(3, "stride")
    step = math.prod(strides) if len(strides) > 1 else (strides or [1])[0] ** (len(weight) - 2)
    channels = given[1] if len(given) > 1 else 1
    outputs = math.prod(given) / max(channels, 1) * weight[1] * max(step, 1)
    # Of each number of its columns, of which there are as many as products, a sum over the channels is made: over few
    # of them it takes no longer to multiply than to write it down and add it up.
    return outputs, float(math.prod(given) * math.prod(weight[1:])) * max(1.0, _ENOUGH_CHANNELS / max(channels, 1))


_ENOUGH_CHANNELS = 16


def _attention(call: _Call) -> Work:
    query, key = call.shape(0), call.shape(1)
    if len(query) < 3 or len(key) < 3:
        return _broadcast(call)
    lengths = (1, 1) if call.case.api.startswith("paddle.") else (-2, -2)
    pairs = math.prod(query) / max(query[-1], 1) * key[lengths[1]]
    return math.prod(query) + pairs, 2.0 * pairs * query[-1]


def _decomposed(call: _Call) -> Work:
    """Factorizations and what is made of them: some ten times the cube of the size of a matrix."""
    shape = call.shape(0)
    if len(shape) < 2:
        return _broadcast(call)
    return 2.0 * math.prod(shape), 10.0 * math.prod(shape) * min(shape[-2:])


def _by_shape(place: int, *names: str) -> Rule:
    """As large as an argument says; what it leaves open is as large as the tensors."""

    def rule(call: _Call) -> Work:
        sizes = [size for size in call.numbers(place, *names) if size > 0]
        return float(max(math.prod(sizes), *(math.prod(shape) for shape in call.shapes), 1)), 0.0

    return rule


def _expanded(call: _Call) -> Work:
    """As large as it is to be; -1 leaves a size as it is."""
    given = call.shape(0)
    wanted = call.numbers(1, "shape", "size", "out_shape")
    kept = (1,) * (len(wanted) - len(given)) + given
    sizes = [size if size >= 0 else own for size, own in zip(wanted, kept, strict=False)]
    return float(max(math.prod(sizes), math.prod(given))), 0.0


def _times(place: int, *names: str) -> Rule:
    """As many times as large as an argument says."""

    def rule(call: _Call) -> Work:
        return float(math.prod(call.shape(0)) * math.prod(max(size, 1) for size in call.numbers(place, *names))), 0.0

    return rule


def _all_pairs(call: _Call) -> Work:
    """Everything of the one with everything of the other."""
    sizes = [math.prod(shape) for shape in call.shapes] or [1]
    return float(sizes[0] * sizes[1] if len(sizes) > 1 else sizes[0] ** 2), 0.0


def _rows_by_rows(call: _Call) -> Work:
    """The distances of all rows of one to all rows of the other."""
    left = call.shape(0)
    right = call.shape(1) or left
    pairs = math.prod(left[:-1]) * (right[-2] if len(right) > 1 else 1)
    return float(pairs), float(pairs * (left[-1] if left else 1))


def _grid(call: _Call) -> Work:
    sizes = [math.prod(shape) for shape in call.shapes] or [1]
    return float(math.prod(sizes) * len(sizes)), 0.0


def _square(call: _Call) -> Work:
    sizes = call.numbers(0, "num_rows", "n", "row")
    other = call.numbers(1, "num_columns", "m", "col")
    rows = sizes[0] if sizes else 1
    return float(rows * (other[0] if other else rows)), 0.0


def _diagonal_matrix(call: _Call) -> Work:
    shape = call.shape(0)
    length = math.prod(shape)
    return float(length * length if len(shape) < 2 else length), 0.0


def _diagonal_matrices(call: _Call) -> Work:
    shape = call.shape(0)
    return float(math.prod(shape) * (shape[-1] if shape else 1)), 0.0


def _resized(call: _Call) -> Work:
    given = call.shape(0)
    size = call.numbers(1, "size")
    spatial = math.prod(given[2:])
    if size:
        wanted = math.prod(size) if len(size) > 1 else size[0] ** max(len(given) - 2, 1)
        return math.prod(given) / max(spatial, 1) * wanted, 0.0
    factor = call.argument(2, "scale_factor")
    factors = factor if isinstance(factor, list) else [factor] * max(len(given) - 2, 1)
    return math.prod(given) * math.prod(float(one) for one in factors if isinstance(one, int | float)), 0.0


def _unfolded(call: _Call) -> Work:
    kernel = call.numbers(1, "kernel_sizes", "kernel_size")
    window = math.prod(kernel) if len(kernel) > 1 else (kernel or [1])[0] ** 2
    return float(math.prod(call.shape(0)) * window), 0.0


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("matmul", "inner", "linear", "dot", "mv", "vecdot", "tensordot"), _matmul),
    **dict.fromkeys(("fused_matmul_bias", "fused_linear", "fused_linear_activation"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added_matmul),
    "conv": _conv,
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose),
    **dict.fromkeys(("scaled_dot_product_attention", "flash_attention"), _attention),
    **dict.fromkeys(
        """svd svdvals qr lu inv inverse pinv det slogdet cholesky eig eigh eigvals eigvalsh lstsq solve matrix_rank
        matrix_power matrix_exp cond triangular_solve cholesky_solve lu_unpack ormqr householder_product""".split(),
        _decomposed,
    ),
    **dict.fromkeys(("zeros", "ones", "full", "empty", "rand", "randn", "scatter_nd"), _by_shape(0, "shape", "size")),
    **dict.fromkeys(("expand", "broadcast_to", "affine_grid"), _expanded),
    **dict.fromkeys(("linspace", "logspace"), _by_shape(2, "num", "steps")),
    "arange": _by_shape(1, "end"),
    "tile": _times(1, "repeat_times", "dims"),
    "repeat": _times(1, "repeats"),
    "repeat_interleave": _times(1, "repeats"),
    "one_hot": _times(1, "num_classes"),
    "sequence_mask": _times(1, "maxlen"),
    "vander": _times(1, "n", "N"),
    **dict.fromkeys(("outer", "kron", "combinations"), _all_pairs),
    **dict.fromkeys(("cdist", "pdist"), _rows_by_rows),
    **dict.fromkeys(("meshgrid", "cartesian_prod"), _grid),
    **dict.fromkeys(("eye", "tril_indices", "triu_indices"), _square),
    **dict.fromkeys(("diag", "diagflat"), _diagonal_matrix),
    "diag_embed": _diagonal_matrices,
    **dict.fromkeys(("interpolate", "upsample"), _resized),
    "unfold": _unfolded,
}
