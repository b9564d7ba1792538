"""How many terms an operator adds up for one element of its output, and how many roundings follow each other.

Rounding grows with that number, with its square root in the mean; an accumulator that is too narrow shows from a few
hundred terms on. ``terms_of`` gives it for the operators whose arguments tell it, None for all others.

``roundings_of`` is for operators of which torch's kernel for CPUs is no measure, since it does more than honesty asks
for, or does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2, prod

from trueline.ops.binding import Bound, bind
from trueline.ops.names import canonical
from trueline.tree import Tree

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
"""Shapes of the tensors of a call by their path."""
Count = Callable[[Bound, Shapes], int | None]


def terms_of(api: str, arguments: Tree, shapes: Shapes) -> int | None:
    """The number of terms behind one element of the output; None where no row knows it."""
    count = _COUNTS.get(canonical(api))
    return None if count is None else count(bind(api, arguments), shapes)


def _shape(bound: Bound, shapes: Shapes, name: str) -> Shape | None:
    return shapes.get(bound.tensor(name) or "")


def _reduced(bound: Bound, shapes: Shapes) -> int | None:
    """Over the given dimensions, or over all."""
    shape, dims = _shape(bound, shapes, "input"), bound.integers("dim")
    if shape is None or dims is None:
        return None if shape is None else prod(shape)
    return prod(shape[dim] for dim in dims if -len(shape) <= dim < len(shape))


def _last_of(name: str) -> Count:
    """The last dimension of a factor: what a product of matrices sums over."""

    def count(bound: Bound, shapes: Shapes) -> int | None:
        shape = _shape(bound, shapes, name)
        return None if not shape else shape[-1]

    return count


def _window(bound: Bound, shapes: Shapes) -> int | None:
    """Input channels of a group times the size of the kernel."""
    weight = _shape(bound, shapes, "weight")
    return None if weight is None else prod(weight[1:])


def _transposed_window(bound: Bound, shapes: Shapes) -> int | None:
    weight = _shape(bound, shapes, "weight")
    return None if weight is None else weight[0] // max(1, int(bound.number("groups", 1))) * prod(weight[2:])


def _pooled(bound: Bound, shapes: Shapes) -> int | None:
    kernel, shape = bound.integers("kernel_size"), _shape(bound, shapes, "input")
    rank = int(canonical(bound.api)[-2])
    if kernel is None or shape is None:
        return None
    return prod(kernel * rank if len(kernel) == 1 else kernel)


def _normalized(bound: Bound, shapes: Shapes) -> int | None:
    sizes = bound.integers("normalized_shape")
    return None if sizes is None else prod(sizes)


def _group(bound: Bound, shapes: Shapes) -> int | None:
    shape = _shape(bound, shapes, "input")
    return None if shape is None else prod(shape[1:]) // max(1, int(bound.number("num_groups", 1)))


def _channel(bound: Bound, shapes: Shapes) -> int | None:
    """All elements of a channel; where running statistics are used nothing is added up."""
    shape = _shape(bound, shapes, "input")
    if shape is None or len(shape) < 2 or not bound.get("training"):
        return None
    return prod(shape) // max(1, shape[1])


def _plane(bound: Bound, shapes: Shapes) -> int | None:
    shape = _shape(bound, shapes, "input")
    return None if shape is None else prod(shape[2:])


def _keys(bound: Bound, shapes: Shapes) -> int | None:
    """An average over the keys, whose weights are sums over the width."""
    key = _shape(bound, shapes, "key")
    return None if key is None or len(key) < 2 else max(key[-2], key[-1])


def _loss(bound: Bound, shapes: Shapes) -> int | None:
    """All elements, unless none are to be reduced."""
    shape = _shape(bound, shapes, "input")
    return None if shape is None or bound.get("reduction") == "none" else prod(shape)


def _collected(bound: Bound, shapes: Shapes) -> int | None:
    """Everything that is added may fall onto one place."""
    index = _shape(bound, shapes, "index")
    dim = int(bound.number("dim"))
    if index is None:
        return None
    return 1 + (index[dim] if -len(index) <= dim < len(index) and len(index) > 1 else prod(index))


_ROWS: tuple[tuple[str, Count], ...] = (
    ("sum mean nansum nanmean prod var std var_mean std_mean logsumexp norm", _reduced),
    ("softmax log_softmax cumsum cumprod logcumsumexp", _reduced),
    ("matmul linear mv dot inner", _last_of("input")),
    ("addmm", _last_of("mat1")),
    ("addmv", _last_of("mat")),
    ("baddbmm", _last_of("batch1")),
    ("conv", _window),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", _transposed_window),
    ("avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d", _pooled),
    ("layer_norm rms_norm", _normalized),
    ("group_norm", _group),
    ("batch_norm", _channel),
    ("instance_norm", _plane),
    ("scaled_dot_product_attention", _keys),
    ("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div", _loss),
    ("index_add scatter_add", _collected),
)

_COUNTS = {name: count for names, count in _ROWS for name in names.split()}

_SCANS = frozenset("cumsum cumprod logcumsumexp cumulative_trapezoid".split())
"""They add one after another, each sum to be rounded because each is a result. Torch's kernels for CPUs keep the sum
in float64; in float32 honesty asks for no more than float32."""
_TRANSFORMS = frozenset(
    """fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn stft
    istft""".split()
)
"""In half precision they exist on accelerators alone, which round in each of their stages."""
_BUTTERFLY = 3
"""Roundings of a stage of a fast Fourier transform: a product, a sum within it, and the sum with the other half."""
_FACTORIZATIONS = frozenset("cond svd svdvals eigh eigvalsh eig eigvals pinv lstsq matrix_rank".split())
"""Sequences of rotations or reflections, one for each row: their error is bounded by the size of the matrix as a whole,
where moving the inputs moves each element by its own."""
_SINGLE_DIGITS = 24


def roundings_of(api: str, arguments: Tree, shapes: Shapes, digits: int) -> float:
    """How many roundings follow each other in an honest kernel that works in a type of so many digits, where torch's
    own kernel for CPUs does not show it; 1 for all others."""
    name = canonical(api)
    largest = max((max(shape, default=1) for shape in shapes.values()), default=1)
    if name in _SCANS and digits >= _SINGLE_DIGITS:
        return float(_reduced(bind(api, arguments), shapes) or largest)
    if name in _TRANSFORMS and digits < _SINGLE_DIGITS:
        count = max((prod(shape) for shape in shapes.values()), default=1)
        return max(1.0, _BUTTERFLY * log2(max(count, 1)))
    return float(largest) if name in _FACTORIZATIONS else 1.0


def listed_operators() -> tuple[str, ...]:
    """The operators that have a row, for tests."""
    return tuple(_COUNTS)
