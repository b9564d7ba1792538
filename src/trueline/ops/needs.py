"""Which domain a tensor of a call needs, so that data made up for it mean something to the operator.

An index must point into what it indexes, a probability must be one, a matrix that is factorized must have a factor.
Rows name the operator by its canonical name and the parameter by its own; a need is a domain (``ops.domains``) or a
small function of the call that gives one, empty where anything will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from trueline.cases import TensorSpec
from trueline.dtypes import dtype_named
from trueline.ops.binding import Bound, bind, parameter
from trueline.ops.mapping.domains import need_of_row, question_for_torch
from trueline.ops.mapping.rows import row_for
from trueline.ops.names import canonical
from trueline.tree import Tree, tensor_paths


@dataclass(frozen=True, slots=True)
class Question:
    """One tensor of a call, and all that the call says about it."""

    bound: Bound
    spec: TensorSpec
    tensors: Mapping[str, TensorSpec]
    paths: Mapping[int, str]
    """Number of a leaf of the argument tree -> its path."""

    @property
    def integral(self) -> bool:
        return dtype_named(self.spec.dtype).kind in "iu"

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of the tensor that a parameter is; None where it is none."""
        path = self.bound.tensor(name)
        return self.tensors[path].shape if path is not None and path in self.tensors else None

    def size(self, name: str, dim: int) -> int:
        """The size of a parameter's tensor along a dimension; 1 where there is no such thing."""
        shape = self.shape(name)
        if not shape:
            return 1
        return shape[dim] if -len(shape) <= dim < len(shape) else 1

    def dim(self, default: int = 0) -> int:
        return int(self.bound.number("dim", default))


Need = str | Callable[[Question], str]


def domain_for(api: str, path: str, arguments: Tree, tensors: Sequence[TensorSpec]) -> str:
    """The domain that the tensor at ``path`` of a call needs; empty where no operator's row asks for anything.

    ``tensors`` are those of the call, in any order; they are known by their paths. What a row says holds whatever the
    statistics of the tensor were; see ``is_structural``.
    """
    if api.startswith("paddle."):
        return _paddle_domain(api, path, arguments, tensors)
    row = _NEEDS.get(api) or _NEEDS.get(canonical(api))
    if row is None:
        return ""
    name = parameter(api, path)
    need = row.get(name or "", "")
    if isinstance(need, str):
        return need
    by_path = {spec.path: spec for spec in tensors}
    return need(Question(bind(api, arguments), by_path[path], by_path, dict(tensor_paths(arguments))))


def _paddle_domain(api: str, path: str, arguments: Tree, tensors: Sequence[TensorSpec]) -> str:
    """What the mapping's row asks for, else what the torch function needs that the row names."""
    row = row_for(api)
    if row is None:
        return ""
    need = need_of_row(row, path, arguments, tensors)
    if need is not None:
        return need
    asked = question_for_torch(row, path, arguments, tensors)
    return domain_for(asked.api, asked.calls[0], asked.arguments, asked.tensors) if asked is not None else ""


def is_structural(domain: str) -> bool:
    """Whether a range of values does not say it all: a permutation, a sorted list, a matrix that has a factor. Numbers
    drawn between the recorded minimum and maximum do for all other domains."""
    return domain.partition("(")[0].split(" ")[0] in _STRUCTURAL


_STRUCTURAL = frozenset(
    """distinct distinct_along plane_distinct permutation sorted lengths offsets boxes orthogonal positive_definite
    symmetric invertible lower_triangular upper_triangular triangular packed_factors pivots log_probability simplex
    simplex_along one_hot labels classes segments parts sizes attention_mask signs chosen""".split()
)


def _rows_of_weight(question: Question) -> str:
    return f"index({question.size('weight', 0)})"


def _along_dim(question: Question) -> str:
    return f"index({question.size('input', question.dim())})"


def _along_dim_or_flat(question: Question) -> str:
    if question.bound.get("dim") is None:
        return _anywhere(question)
    return _along_dim(question)


def _anywhere(question: Question) -> str:
    return f"index({prod(question.shape('input') or (1,))})"


def _anywhere_once(question: Question) -> str:
    size = prod(question.shape("input") or (1,))
    fits = len(question.spec.shape) <= 1 and prod(question.spec.shape) <= size
    return f"distinct({size})" if fits and not question.bound.get("accumulate") else f"index({size})"


def _once_along_dim(question: Question) -> str:
    """No position written twice, where there are enough of them: which of two writes stays is nobody's promise."""
    size, shape, dim = question.size("input", question.dim()), question.spec.shape, question.dim()
    dim = dim if len(shape) > 1 else 0
    count = shape[dim] if shape and -len(shape) <= dim < len(shape) else 1
    return f"distinct_along({size}, {dim})" if shape and count <= size else f"index({size})"


def _classes(question: Question) -> str:
    """Labels of a loss: class numbers, or probabilities where the target is not integral."""
    shape = question.shape("input") or (1,)
    classes = shape[1] if len(shape) > 1 else shape[0]
    if not question.integral:
        return f"simplex_along({1 if len(shape) > 1 else 0})"
    share = _ignored_share(question, classes)
    ignored = int(question.bound.number("ignore_index", -100))
    return f"labels({classes}, {ignored}, {share:.3g})" if share else f"index({classes})"


def _ignored_share(question: Question, classes: int) -> float:
    """How many labels are ignored: the share of ``ignore_index`` that, mixed with classes evenly, has the mean."""
    statistics, ignored = question.spec.statistics, question.bound.number("ignore_index", -100)
    if statistics is None or 0 <= ignored < classes or not statistics.minimum <= ignored <= statistics.maximum:
        return 0.0
    typical = (classes - 1) / 2
    return min(1.0, max(0.01, (statistics.mean - typical) / (ignored - typical)))


def _indexed_dimension(question: Question) -> str:
    """An index tensor of ``x[...]``: it points into the dimension at which it stands."""
    shape = question.shape("input") or (1,)
    if not question.integral or question.spec.dtype == "uint8":
        return _mask(question)
    indices = question.bound.get("indices")
    items = indices.get("$tuple", [indices]) if isinstance(indices, dict) else indices
    items = items if isinstance(items, list) else [items]
    leaf = int(question.spec.path.rpartition(".")[2]) if question.spec.path.count(".") > 1 else 0
    before = sum(_consumed(item, question) for item in items[:leaf])
    if any(isinstance(item, dict) and "$ellipsis" in item for item in items[:leaf]):
        before = len(shape) - sum(_consumed(item, question) for item in items[leaf:])
    return f"index({shape[before]})" if 0 <= before < len(shape) else "index(1)"


def _consumed(item: Tree, question: Question) -> int:
    """How many dimensions an item of an index takes up; a mask takes as many as it has."""
    if item is None or isinstance(item, bool) or (isinstance(item, dict) and "$ellipsis" in item):
        return 0
    if not isinstance(item, dict) or "$t" not in item:
        return 1
    spec = question.tensors.get(question.paths.get(item["$t"], ""))
    return len(spec.shape) if spec is not None and spec.dtype in ("bool", "uint8") else 1


def _target_of_kl(question: Question) -> str:
    return "log_probability" if question.bound.get("log_target") else "simplex"


def _factor(question: Question) -> str:
    return "upper_triangular" if question.bound.get("upper") else "lower_triangular"


def _number_of_classes(question: Question) -> str:
    classes = int(question.bound.number("num_classes", -1))
    return f"index({classes})" if classes > 0 else "index(10)"


def _bags(question: Question) -> str:
    closed = 1 if question.bound.get("include_last_offset") else 0
    return f"offsets({prod(question.shape('input') or (1,))}, {closed})"


def _ctc_labels(question: Question) -> str:
    return f"index({question.size('log_probs', -1)}, 1)"


def _ctc_input_lengths(question: Question) -> str:
    frames = question.size("log_probs", 0)
    return f"lengths({frames}, {frames})"


def _ctc_target_lengths(question: Question) -> str:
    shape = question.shape("targets") or (1,)
    if len(shape) > 1:
        return f"lengths(1, {shape[-1]})"
    each = shape[0] // max(1, prod(question.spec.shape))
    return f"lengths({each}, {each})"


def _attention_mask(question: Question) -> str:
    """Keys that are masked, as many as were; a mask that only adds numbers needs nothing."""
    statistics = question.spec.statistics
    if statistics is None or not statistics.count:
        return "attention_mask"
    masked = statistics.zeros if question.spec.dtype == "bool" else statistics.negative_infinity
    return f"attention_mask({masked / statistics.count:.3g})" if masked else ""


def _mask(question: Question) -> str:
    """As many elements as were chosen: what is written to them has to fit."""
    statistics = question.spec.statistics
    if statistics is None or question.spec.dtype not in ("bool", "uint8"):
        return ""
    return f"chosen({statistics.count - statistics.zeros})"


def _several_classes(question: Question) -> str:
    """Class numbers up to the first -1."""
    shape = question.shape("input") or (1,)
    return f"labels({shape[-1]}, -1, 0.4)"


def _unpooled(question: Question) -> str:
    """Positions in the plane that the result will have; it is ``kernel_size`` times larger where nothing says more."""
    rank = int(canonical(question.bound.api)[-2])
    wanted = question.bound.integers("output_size")
    shape = question.spec.shape[-rank:]
    kernel = question.bound.integers("kernel_size") or (1,)
    stride = question.bound.integers("stride") or kernel
    padding = question.bound.integers("padding") or (0,)
    spread = [value * rank if len(value) == 1 else value for value in (kernel, stride, padding)]
    sizes = [(size - 1) * spread[1][i] - 2 * spread[2][i] + spread[0][i] for i, size in enumerate(shape)]
    return f"plane_distinct({prod(wanted[-rank:] if wanted else sizes)}, {rank})"


def _pivots(question: Question) -> str:
    return f"pivots({question.spec.shape[-1] if question.spec.shape else 1})"


_POSITIVE_INPUT = "log log2 log10 sqrt rsqrt lgamma digamma polygamma mvlgamma entr"
_OPEN_UNIT_INPUT = "asin acos atanh erfinv"
_INVERTIBLE_INPUT = """inv inv_ex det slogdet pinv pinverse svd svdvals qr lstsq lu_factor lu_factor_ex lu
    matrix_power matrix_rank cond eig eigvals tensorinv ldl_factor ldl_factor_ex geqrf pca_lowrank svd_lowrank"""
_POSITIVE_DEFINITE_INPUT = "cholesky cholesky_ex logdet lobpcg"
_SYMMETRIC_INPUT = "eigh eigvalsh symeig"
_SIGNED_TARGET = "soft_margin_loss hinge_embedding_loss cosine_embedding_loss margin_ranking_loss"


def _same(names: str, needs: dict[str, Need]) -> dict[str, dict[str, Need]]:
    return dict.fromkeys(names.split(), needs)


_NEEDS: dict[str, dict[str, Need]] = {
    # Indices
    **_same("embedding", {"input": _rows_of_weight}),
    **_same("embedding_bag", {"input": _rows_of_weight, "offsets": _bags}),
    **_same("gather index_select index_add index_fill scatter_add scatter_reduce index_reduce", {"index": _along_dim}),
    **_same("scatter index_copy", {"index": _once_along_dim}),
    **_same("take_along_dim", {"indices": _along_dim_or_flat}),
    **_same("take", {"index": _anywhere}),
    **_same("put", {"index": _anywhere_once}),
    **_same("index index_put", {"indices": _indexed_dimension}),
    **_same("max_unpool1d max_unpool2d max_unpool3d", {"indices": _unpooled}),
    **_same("masked_scatter masked_select", {"mask": _mask}),
    **_same("one_hot", {"input": _number_of_classes}),
    **_same("bincount", {"input": "index(16)"}),
    **_same("repeat_interleave", {"repeats": "index(4)"}),
    # Losses
    **_same("nll_loss cross_entropy multi_margin_loss", {"target": _classes}),
    **_same("multilabel_margin_loss", {"target": _several_classes}),
    **_same("multilabel_soft_margin_loss binary_cross_entropy_with_logits", {"target": "uniform(0, 1)"}),
    **_same("binary_cross_entropy", {"input": "probability", "target": "uniform(0, 1)"}),
    **_same("kl_div", {"input": "log_probability", "target": _target_of_kl}),
    **_same("gaussian_nll_loss", {"var": "positive"}),
    **_same("poisson_nll_loss", {"target": "index(10)"}),
    **_same(_SIGNED_TARGET, {"target": "signs"}),
    "ctc_loss": {
        "log_probs": "log_probability",
        "targets": _ctc_labels,
        "input_lengths": _ctc_input_lengths,
        "target_lengths": _ctc_target_lengths,
    },
    # Functions that are not defined everywhere
    **_same(_POSITIVE_INPUT, {"input": "positive"}),
    **_same(_OPEN_UNIT_INPUT, {"input": "unit_open"}),
    **_same("acosh", {"input": "above_one"}),
    **_same("log1p", {"input": "uniform(-0.9, 8)"}),
    **_same("logit ndtri", {"input": "probability"}),
    **_same("pow float_power", {"input": "positive"}),
    **_same("xlogy", {"other": "positive"}),
    **_same("xlog1py", {"other": "uniform(-0.9, 8)"}),
    **_same("zeta", {"input": "above_one", "other": "positive"}),
    **_same("igamma igammac", {"input": "positive", "other": "positive"}),
    **_same("div floor_divide remainder fmod", {"other": "nonzero"}),
    **_same("reciprocal", {"input": "nonzero"}),
    **_same("addcdiv", {"tensor2": "nonzero"}),
    **_same("polar", {"abs": "positive"}),
    **_same("batch_norm instance_norm", {"running_var": "positive"}),
    # Random numbers with given parameters
    **_same("bernoulli", {"input": "probability", "p": "probability"}),
    **_same("multinomial poisson", {"input": "positive"}),
    **_same("normal", {"std": "positive"}),
    **_same("binomial", {"count": "index(20, 1)", "prob": "probability"}),
    # Matrices
    **_same(_INVERTIBLE_INPUT, {"input": "invertible", "A": "invertible"}),
    **_same(_POSITIVE_DEFINITE_INPUT, {"input": "positive_definite"}),
    **_same(_SYMMETRIC_INPUT, {"input": "symmetric"}),
    **_same("cholesky_solve", {"input2": _factor}),
    **_same("cholesky_inverse", {"input": _factor}),
    **_same("triangular_solve solve_triangular", {"A": _factor}),
    **_same("solve solve_ex tensorsolve", {"A": "invertible"}),
    **_same("lu_solve", {"LU": "packed_factors", "pivots": _pivots}),
    **_same("lu_unpack", {"LU_data": "packed_factors", "LU_pivots": _pivots}),
    **_same("householder_product orgqr ormqr", {"input": "packed_factors"}),
    # Order
    **_same("searchsorted", {"sorted_sequence": "sorted"}),
    **_same("bucketize", {"boundaries": "sorted"}),
    # Attention
    **_same("scaled_dot_product_attention", {"attn_mask": _attention_mask}),
    # Optimizers: a running mean of squares is not negative, a count of steps neither
    **_same(
        "_fused_adam _fused_adamw",
        {"exp_avg_sqs": "positive", "max_exp_avg_sqs": "positive", "state_steps": "constant(3)"},
    ),
    **_same("_fused_adagrad", {"state_sums": "positive", "state_steps": "constant(3)"}),
    **_same("grid_sample", {"grid": "uniform(-1.1, 1.1)"}),
}


def listed_needs() -> Mapping[str, Mapping[str, Need]]:
    """All rows, for tests."""
    return _NEEDS
