"""How many terms an operator adds up for one element of its output, and how many roundings follow each other.

Rounding grows with that number, with its square root in the mean; an accumulator that is too narrow shows from a few
hundred terms on. ``terms_of`` gives it for the operators whose arguments tell it, None for all others;
``gradient_terms`` gives it for the gradient of one input, which is a sum over all that the input had a part in.

``roundings_of`` is for operators of which torch's kernel for CPUs is no measure, since it does more than honesty asks
for, or does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, log2, prod

from trueline.ops.binding import Bound, bind, parameter
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


def gradient_terms(api: str, arguments: Tree, shapes: Shapes, path: str, elements: int) -> int:
    """How many terms the gradient of the input at ``path`` adds up: all products of the call are spread over the
    elements of that input. ``elements`` is how many the outputs have together."""
    forward = terms_of(api, arguments, shapes) or 1
    factors = 1 if parameter(api, path) == "bias" else forward  # a bias is added, not multiplied
    if elements == 1 and forward == 1:  # a loss: all that went in was added up, after it was spread over the largest
        factors = max((prod(shape) for shape in shapes.values()), default=1)
    spread = elements * factors // max(prod(shapes.get(path, ())), 1)
    return max(spread, forward if canonical(api) in _SUMS_AGAIN else 1)


def steps_of_position(api: str, shapes: Shapes) -> int:
    """As how many terms the rounding of positions counts where elements are taken from between others: a position is as
    large as the tensor is long, and its rounding that many units of the element found there. 1 for all others."""
    if canonical(api) not in _RESAMPLING:
        return 1
    return int(max((max(shape, default=1) for shape in shapes.values()), default=1)) ** 2


_RESAMPLING = frozenset("interpolate upsample grid_sample upsample_bilinear2d upsample_bicubic2d".split())


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
    ("matmul bmm mm linear mv dot inner", _last_of("input")),
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
_RECURSIONS = {"ctc_loss": (("log_probs", 0),), "rnnt_loss": (("input", 1), ("input", 2))}
"""They go from frame to frame, a rounding each: the tensors and dimensions whose sizes are the steps."""
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
_TWO_PASSES = frozenset("var std var_mean std_mean".split())
"""What the first sum lost is lost in each term of the second."""
_SUMS_AGAIN = frozenset(
    "prod cumprod var std var_mean std_mean norm logsumexp softmax log_softmax layer_norm rms_norm group_norm "
    "batch_norm instance_norm".split()
)
"""The gradient of each element has the sums of the forward in it, or sums of its own over the same elements."""
_LANES = 8
"""Sums that a vector register adds up side by side. A kernel that goes through the rest one after another is honest in
float32 and wider, if not as good as one that adds up pairs, as torch's do; narrower types are added up in float32."""

_IN_A_ROW = 29.0
"""A sum of n numbers, one after another: each partial sum is rounded by 0.29 units in the mean, and the partial sums of
numbers of one sign grow evenly, so that the sum is off by 0.29 sqrt(n / 3) of its units. So many terms count as one
rounding, since three times what n / 29 roundings make is just that."""
_CENTRED = frozenset("layer_norm batch_norm group_norm instance_norm".split())
_CENTRED_GRADIENTS = _CENTRED | frozenset("var std var_mean std_mean".split())
_TRANSFORMED = frozenset("conv conv_transpose1d conv_transpose2d conv_transpose3d".split())


def norm_counts(api: str, digits: int, *, gradient: bool) -> float:
    """The share of a result's root mean square below which its elements are known no better than at that size; 0.0
    where each is known by itself. A transform (Winograd's, Fourier's) is off by roundings of the whole. Where a mean
    is subtracted, the mean has been rounded, also for those elements that are next to it. Narrow types are computed
    in float32, whose roundings of the whole are far below their own."""
    name = canonical(api)
    if digits < _SINGLE_DIGITS:
        return 0.0
    if name in _TRANSFORMED:
        return 1.0
    return 1 / 16 if name in (_CENTRED_GRADIENTS if gradient else _CENTRED) else 0.0


def roundings_of(api: str, arguments: Tree, shapes: Shapes, digits: int, added: int = 0) -> float:
    """How many roundings follow each other in an honest kernel that works in a type of so many digits, where torch's
    own kernel for CPUs does not show it; 1 for all others. ``added`` is how many terms a gradient adds up, 0 for an
    output."""
    name = canonical(api)
    largest = max((max(shape, default=1) for shape in shapes.values()), default=1)
    if digits >= _SINGLE_DIGITS:
        if name in _SCANS:
            steps = float(_reduced(bind(api, arguments), shapes) or largest)
            return steps * _size_of_logarithm(steps) ** 2 if name == "logcumsumexp" else steps
        if name in _RECURSIONS:
            frames, classes = _frames(bind(api, arguments), shapes)
            return frames * _size_of_logarithm(classes) ** 2
        if name in _TWO_PASSES and not added:
            added = _reduced(bind(api, arguments), shapes) or 0
        if added > _LANES and name not in _FACTORIZATIONS:
            return added / _LANES
        if not added and name not in _FACTORIZATIONS:
            return max(1.0, (terms_of(api, arguments, shapes) or 1) / _IN_A_ROW)
    if name in _TRANSFORMS and digits < _SINGLE_DIGITS:
        count = max((prod(shape) for shape in shapes.values()), default=1)
        return max(1.0, _BUTTERFLY * log2(max(count, 1)))
    return float(largest) if name in _FACTORIZATIONS else 1.0


def _size_of_logarithm(count: float) -> float:
    """How large the logarithm of a sum of so many numbers around 1 is. What rounding takes from it is relative to its
    size, and what is made of it by the exponential function is off by as much."""
    return max(1.0, log(max(count, 1.0)))


def _frames(bound: Bound, shapes: Shapes) -> tuple[int, int]:
    """The steps of a recursion over frames, and the classes of each."""
    places = _RECURSIONS[canonical(bound.api)]
    shape = _shape(bound, shapes, places[0][0]) or (1,)
    return sum(shape[dim] for _, dim in places if dim < len(shape)), shape[-1]


def listed_operators() -> tuple[str, ...]:
    """The operators that have a row, for tests."""
    return tuple(_COUNTS)
