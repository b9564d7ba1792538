"""What a call cannot do without: floating-point operations, and bytes to and from memory.

Counted is what the mathematics needs, not what a kernel does: every input that must be read is read once, every output
written once, nothing is computed twice. A product and a sum are two operations; a transcendental function is one. What
nobody has said is unknown, with the reason, and never zero.

Products of matrices, convolutions and attention have rules of their own; the others follow from the kind of their
operator (``ops.facts``) and, for the number of operations for each element, from a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from trueline.cases import Case, TensorSpec
from trueline.dtypes import dtype_named
from trueline.ops.binding import Bound, bind
from trueline.ops.facts import Facts, Kind, facts_of
from trueline.profiles import Cost, OutputSpec
from trueline.records import Phase

_PER_ELEMENT = """
gelu 5; silu 4; mish 5; sigmoid 4; hardswish 5; hardsigmoid 4; softplus 4; softsign 3; elu 3; selu 4; celu 4; glu 5;
logsigmoid 4; tanhshrink 2; softmax 5; log_softmax 5; softmin 6; logsumexp 4; addcmul 3; addcdiv 3; lerp 3;
layer_norm 8; batch_norm 8; group_norm 8; instance_norm 8; rms_norm 5; normalize 4; dropout 2; cross_entropy 6;
mse_loss 3; l1_loss 3; smooth_l1_loss 5; huber_loss 5; binary_cross_entropy 6; binary_cross_entropy_with_logits 8;
kl_div 4; var 4; std 4; var_mean 4; std_mean 4; norm 2
"""
"""Operations for each element, where it is not one."""

_EACH = {name: int(count) for name, count in (entry.split() for entry in _PER_ELEMENT.split(";"))}

_STEPS = {
    "_fused_adam": 14, "_fused_adamw": 16, "_fused_sgd": 4, "_fused_adagrad": 6, "adam": 14, "adamw": 16, "sgd": 2,
    "momentum": 4, "adagrad": 6,
}  # fmt: skip
"""Steps of an optimizer in one call: operations for each element of the parameters, their first argument."""

_GATHERS = frozenset(
    "index index_select gather take take_along_dim embedding masked_select slice select narrow diagonal".split()
)
"""They read as much as they give, not all they were given."""
_FILLS = frozenset(
    "zeros ones full arange eye zero fill zeros_like ones_like full_like new_zeros new_ones new_full one_hot "
    "tril_indices triu_indices normal uniform exponential geometric cauchy log_normal random rand randn randint "
    "rand_like randn_like randint_like randperm".split()
)
"""They write without reading."""
_SORTS = frozenset("topk sort kthvalue median nanmedian mode msort argsort unique unique_consecutive".split())
"""How many comparisons they make depends on the numbers."""

_ELEMENTWISE = (Kind.SELECT, Kind.DISCRETE, Kind.SUM, Kind.PRODUCT, Kind.SINGULAR, Kind.SMOOTH, Kind.EXPONENTIAL)
_KNOWN = (*_ELEMENTWISE, Kind.NORMALIZATION, Kind.REDUCTION, Kind.MOVE, Kind.RANDOM, Kind.CONTRACTION, Kind.ATTENTION)


def cost_of(case: Case, outputs: Sequence[OutputSpec], phase: Phase) -> Cost:
    """What one direction of a Case needs; ``outputs`` are what its call gave."""
    call = _Call(case, tuple(outputs))
    if call.facts.kind is Kind.UNDEFINED:
        return Cost(0.0, 0.0)
    if call.facts.kind not in _KNOWN and call.facts.name not in _STEPS:
        return Cost(reason=f"nobody has said what {call.facts.name} needs")
    forward = _operations(call)
    if phase is Phase.FORWARD:
        flops, moved = forward, _bytes_forward(call)
    else:
        flops, moved = _operations_back(call, forward), _bytes_backward(call)
    return Cost(flops, moved, "" if flops is not None else f"the operations of {call.facts.name} are not known")


def working_dtype(case: Case, outputs: Sequence[OutputSpec]) -> str:
    """The coarsest floating dtype that a call touches; empty where there is none."""
    names = {spec.dtype for spec in case.tensors} | {output.dtype for output in outputs}
    floats = [name for name in names if dtype_named(name).is_float]
    return min(floats, key=lambda name: dtype_named(name).digits, default="")


@dataclass(frozen=True)
class _Call:
    """One call, with its tensors by the names of their parameters."""

    case: Case
    outputs: tuple[OutputSpec, ...]

    @cached_property
    def facts(self) -> Facts:
        return facts_of(self.case.api)

    @cached_property
    def bound(self) -> Bound:
        return bind(self.case.api, self.case.arguments)

    @cached_property
    def inputs(self) -> Mapping[str, TensorSpec]:
        return {spec.path: spec for spec in self.case.tensors}

    def shape(self, *names: str, place: int) -> tuple[int, ...] | None:
        """The shape of a parameter that is a tensor, by its name, else of the tensor at a place."""
        for name in names:
            path = self.bound.tensor(name)
            if path is not None and path in self.inputs:
                return self.inputs[path].shape
        plain = [spec for spec in self.case.tensors if spec.path == f"args.{place}"]
        return plain[0].shape if plain else None

    @property
    def given(self) -> int:
        """Elements that come out."""
        return sum(math.prod(output.shape) for output in self.outputs)

    @property
    def taken(self) -> int:
        """Elements that go in, of the largest tensors: what a reduction runs over."""
        return max((math.prod(spec.shape) for spec in self.case.tensors), default=0)

    @property
    def is_view(self) -> bool:
        return bool(self.outputs) and all(output.shared for output in self.outputs)

    @property
    def wanted(self) -> list[TensorSpec]:
        """The inputs that get a gradient."""
        return [spec for spec in self.case.tensors if spec.requires_grad]


Rule = Callable[[_Call], float | None]


def _matmul(call: _Call) -> float | None:
    left = call.shape("input", "x", "mat1", "batch1", "mat", place=0)
    if left is None or not left:
        return None
    inner = left[-2] if call.bound.get("transpose_x") is True and len(left) > 1 else left[-1]
    return 2.0 * call.given * inner


def _added_matmul(call: _Call) -> float | None:
    left = call.shape("mat1", "batch1", "mat", "x", place=1)
    return None if not left else 2.0 * call.given * left[-1] + call.given


def _linear(call: _Call) -> float | None:
    given = call.shape("input", "x", place=0)
    if not given:
        return None
    bias = call.shape("bias", place=2)
    return 2.0 * call.given * given[-1] + (call.given if bias else 0)


def _conv(call: _Call) -> float | None:
    weight = call.shape("weight", place=1)
    return None if not weight else 2.0 * call.given * math.prod(weight[1:])


def _conv_transpose(call: _Call) -> float | None:
    given, weight = call.shape("input", "x", place=0), call.shape("weight", place=1)
    return None if given is None or not weight else 2.0 * math.prod(given) * math.prod(weight[1:])


def _attention(call: _Call) -> float | None:
    query, key = call.shape("query", place=0), call.shape("key", place=1)
    value = call.shape("value", place=2)
    if query is None or key is None or value is None or len(query) < 3:
        return None
    heads_inside = call.case.api.startswith("paddle.") and len(query) == 4  # (batch, length, heads, size)
    along = 1 if heads_inside else -2
    pairs = math.prod(query[:-1]) * key[along]
    causal = call.bound.get("is_causal") is True or call.bound.get("causal") is True
    return 2.0 * pairs * (query[-1] + value[-1]) * (0.5 if causal else 1.0)


def _recurrent(call: _Call) -> float | None:
    given = call.shape("input", place=0)
    matrices = [spec.shape for spec in call.case.tensors if len(spec.shape) == 2]
    if given is None or len(given) != 3 or not matrices:
        return None
    return 2.0 * given[0] * given[1] * sum(math.prod(shape) for shape in matrices)


def _twice_the_largest(call: _Call) -> float | None:
    return 2.0 * call.taken


_RULES: dict[str, Rule] = {
    "matmul": _matmul,
    "inner": _matmul,
    "addmm": _added_matmul,
    "baddbmm": _added_matmul,
    "addmv": _added_matmul,
    "linear": _linear,
    "conv": _conv,
    "conv_transpose1d": _conv_transpose,
    "conv_transpose2d": _conv_transpose,
    "conv_transpose3d": _conv_transpose,
    "scaled_dot_product_attention": _attention,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn_tanh": _recurrent,
    "rnn_relu": _recurrent,
    "dot": _twice_the_largest,
    "vdot": _twice_the_largest,
    "vecdot": _twice_the_largest,
    "mv": _twice_the_largest,
}

_ATTENTION_BACK = 2.5
"""Five products where the forward has two: the weights are computed again, as all do that never store them."""


def _operations(call: _Call) -> float | None:
    name, kind = call.facts.name, call.facts.kind
    if name in _RULES:
        return _RULES[name](call)
    if name in _STEPS:
        return float(_STEPS[name] * sum(math.prod(spec.shape) for spec in call.case.tensors if _is_first(spec)))
    if kind in (Kind.CONTRACTION, Kind.ATTENTION) or name in _SORTS:
        return None
    if kind is Kind.MOVE or (kind is Kind.RANDOM and name not in _EACH):
        return 0.0
    elements = call.taken if kind is Kind.REDUCTION else call.given
    return float(elements * _EACH.get(name, 1))


def _is_first(spec: TensorSpec) -> bool:
    return spec.path == "args.0" or spec.path.startswith("args.0.")


def _operations_back(call: _Call, forward: float | None) -> float | None:
    if forward is None:
        return None
    kind = call.facts.kind
    if kind is Kind.ATTENTION:
        return _ATTENTION_BACK * forward
    if kind is Kind.CONTRACTION:
        matrices = [spec for spec in call.wanted if len(spec.shape) > 1]
        return forward * min(len(matrices), 2) if call.facts.name in ("matmul", "linear", "conv") else 2.0 * forward
    return forward if kind is Kind.REDUCTION else 2.0 * forward


def _bytes_forward(call: _Call) -> float:
    name, kind = call.facts.name, call.facts.kind
    changed = any(output.path in call.inputs for output in call.outputs)
    if call.is_view and not changed and not call.facts.in_place:
        return 0.0
    written = float(sum(_size(output.dtype, output.shape) for output in call.outputs if not output.shared))
    if name in _FILLS:
        return written
    if kind is Kind.MOVE and name in _GATHERS:
        indices = sum(_read(spec) for spec in call.case.tensors if dtype_named(spec.dtype).is_exact)
        return 2 * written + indices
    return written + sum(_read(spec) for spec in call.case.tensors)


def _bytes_backward(call: _Call) -> float:
    kind = call.facts.kind
    arriving = float(sum(_size(one.dtype, one.shape) for one in call.outputs if not dtype_named(one.dtype).is_exact))
    leaving = float(sum(_size(spec.dtype, spec.shape) for spec in call.wanted))
    if call.is_view:
        return 0.0
    if kind is Kind.SUM:  # what arrives is what leaves, but where it must be summed up
        shapes = {output.shape for output in call.outputs}
        summed = [spec for spec in call.wanted if spec.shape not in shapes]
        return sum(arriving + _size(spec.dtype, spec.shape) for spec in summed)
    if kind is Kind.MOVE or (kind is Kind.REDUCTION and call.facts.name in ("sum", "mean", "nansum")):
        return arriving + leaving
    if kind in (Kind.CONTRACTION, Kind.ATTENTION, Kind.PRODUCT, Kind.NORMALIZATION):
        return arriving + leaving + sum(_read(spec) for spec in call.case.tensors)
    return arriving + leaving + max((_read(spec) for spec in call.case.tensors), default=0.0)


def _read(spec: TensorSpec) -> float:
    """Bytes of a tensor; what an expanded one repeats is read once."""
    shape = spec.shape
    if spec.strides is not None:
        shape = tuple(1 if stride == 0 else size for size, stride in zip(spec.shape, spec.strides, strict=True))
    return _size(spec.dtype, shape)


def _size(dtype: str, shape: Sequence[int]) -> float:
    return float(math.prod(shape) * dtype_named(dtype).itemsize)
