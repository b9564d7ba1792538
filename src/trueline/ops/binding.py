"""The arguments of a call by the names of their parameters, whether they were passed by position or by keyword.

Only operators about which something has to be known are listed; ``bind`` knows the keywords of all others, and
``parameter`` gives None for a position that no row names. Everything is plain data: values are those of an argument
tree (``tree.py``), tensors are known by their path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from trueline.ops.mapping.rows import row_for
from trueline.ops.names import canonical
from trueline.tree import Tree, tensor_paths

_SIGNATURES = """
_fused_adagrad: self grads state_sums state_steps
_fused_adam _fused_adamw: self grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d: input output_size return_indices=false
adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices: input output_size return_indices=false
adaptive_max_pool3d_with_indices: input output_size return_indices=false
addbmm baddbmm: input batch1 batch2
addcdiv: input tensor1 tensor2
addmm: input mat1 mat2
addmv: input mat vec
alpha_dropout feature_alpha_dropout: input p=0.5 training=false inplace=false
amax amin argmax argmin max mean median min nanmean nanmedian nansum prod sum: input dim=null keepdim=false
argsort sort: input dim=-1 descending=false stable=false
avg_pool1d avg_pool2d avg_pool3d: input kernel_size
batch_norm: input running_mean running_var weight=null bias=null training=false momentum=0.1 eps=1e-05
bernoulli: input p=null
bilinear: input1 input2 weight bias
binary_cross_entropy: input target weight=null size_average=null reduce=null reduction="mean"
bincount: input weights=null minlength=0
binomial: count prob
bucketize: input boundaries right=false
cauchy: input median=0 sigma=1
cholesky cholesky_inverse: input upper=false
cholesky_solve: input input2 upper=false
conv: input weight bias=null stride=1 padding=0 dilation=1 groups=1
conv_transpose1d conv_transpose2d: input weight bias=null stride=1 padding=0 output_padding=0 groups=1 dilation=1
conv_transpose3d: input weight bias=null stride=1 padding=0 output_padding=0 groups=1 dilation=1
cosine_embedding_loss margin_ranking_loss: input1 input2 target
cross_entropy nll_loss: input target weight=null size_average=null ignore_index=-100 reduce=null reduction="mean"
ctc_loss: log_probs targets input_lengths target_lengths blank=0 reduction="mean" zero_infinity=false
cummax cummin cumprod cumsum log_softmax logcumsumexp softmax: input dim
div dot floor_divide fmod igamma igammac inner matmul remainder xlog1py xlogy zeta: input other
dropout dropout1d dropout2d dropout3d: input p=0.5 training=true inplace=false
acos acosh asin atanh cholesky_ex cond det digamma eig eigvals entr erfinv: input
geqrf inv inv_ex ldl_factor ldl_factor_ex lgamma lobpcg log log10 log1p log2 logdet logit lu: input
lu_factor_ex matrix_power matrix_rank mvlgamma ndtri orgqr pca_lowrank pinv pinverse poisson: input
reciprocal rsqrt slogdet sqrt svd_lowrank svdvals symeig: input
eigh eigvalsh: input UPLO="L"
embedding: input weight padding_idx=null max_norm=null
embedding_bag: input weight offsets=null max_norm=null norm_type=2 scale_grad_by_freq=false mode="mean" sparse=false
exponential: input lambd=1
feature_dropout: input p=0.5 training=true
fractional_max_pool2d_with_indices: input kernel_size output_size=null output_ratio=null return_indices=false
fractional_max_pool3d_with_indices: input kernel_size output_size=null output_ratio=null return_indices=false
fractional_max_pool2d: input kernel_size output_size=null output_ratio=null return_indices=false
fractional_max_pool3d: input kernel_size output_size=null output_ratio=null return_indices=false
gather index_select: input dim index
gaussian_nll_loss: input target var
geometric: input p
grid_sample: input grid
gelu: input approximate="none"
group_norm: input num_groups weight=null bias=null eps=1e-05
gumbel_softmax: logits tau=1 hard=false eps=1e-10 dim=-1
binary_cross_entropy_with_logits hinge_embedding_loss multi_margin_loss multilabel_margin_loss: input target
multilabel_soft_margin_loss soft_margin_loss: input target
householder_product: input tau
index: input indices
index_add index_copy: input dim index source
index_fill: input dim index value
index_put: input indices values accumulate=false
index_reduce: input dim index source reduce
instance_norm: input running_mean=null running_var=null weight=null bias=null use_input_stats=true
isin: elements test_elements
kl_div: input target size_average=null reduce=null reduction="mean" log_target=false
kthvalue: input k dim=-1 keepdim=false
layer_norm: input normalized_shape weight=null bias=null eps=1e-05
linear: input weight bias
huber_loss: input target reduction="mean"
l1_loss mse_loss smooth_l1_loss: input target size_average=null reduce=null reduction="mean"
log_normal: input mean=1 std=2
logsumexp: input dim keepdim=false
lp_pool1d lp_pool2d lp_pool3d: input norm_type kernel_size
gru lstm rnn_relu rnn_tanh: input hx params has_biases num_layers dropout train bidirectional batch_first
lstsq: input b
lu_factor: input pivot=true
lu_solve: LU pivots B
lu_unpack: LU_data LU_pivots
masked_fill: input mask value
masked_scatter: input mask source
masked_select: input mask
max_pool1d max_pool2d: input kernel_size stride=null padding=0 dilation=1 ceil_mode=false return_indices=false
max_pool2d_with_indices: input kernel_size stride=null padding=0 dilation=1 ceil_mode=false
max_pool3d_with_indices: input kernel_size stride=null padding=0 dilation=1 ceil_mode=false
max_pool3d: input kernel_size stride=null padding=0 dilation=1 ceil_mode=false return_indices=false
max_unpool1d max_unpool2d max_unpool3d: input indices kernel_size stride=null padding=0 output_size=null
mode: input dim=-1 keepdim=false
msort: input
aminmax: input dim=null keepdim=false
multinomial: input num_samples replacement=false
mv: input vec
native_dropout: input p train
norm: input p=2 dim=null keepdim=false
normal: mean=0 std=1 size=null
one_hot: input num_classes=-1
ormqr: input tau other
poisson_nll_loss: input target log_input=true
polar: abs angle
polygamma: n input
float_power pow: input exponent
put: input index source accumulate=false
qr: input mode="reduced"
rand: size
randint: low high=null size=null
randint_like: input low high=null
random: input from=0 to=null
randperm: n
repeat_interleave: input repeats
rms_norm: input normalized_shape weight=null eps=null
rrelu: input lower=0.125 upper=0.3333333333333333 training=false inplace=false
scaled_dot_product_attention: query key value attn_mask=null dropout_p=0.0 is_causal=false
scatter scatter_add: input dim index src
scatter_reduce: input dim index src reduce include_self=true
searchsorted: sorted_sequence input right=false
segment_reduce: data reduce
solve solve_ex solve_triangular tensorsolve: A B
std std_mean var var_mean: input dim=null
svd: input full_matrices=true
take: input index
take_along_dim: input indices dim=null
tensordot: a b dims=2
tensorinv: A
topk: input k dim=-1 largest=true sorted=true
trapezoid: y x=null
triangular_solve: b A upper=true transpose=false unitriangular=false
triplet_margin_loss triplet_margin_with_distance_loss: anchor positive negative
uniform: input from=0 to=1
unique: input sorted=true return_inverse=false return_counts=false dim=null
torch.Tensor.normal_ torch.nn.init.normal_: input mean=0 std=1
torch.batch_norm torch.native_batch_norm torch._native_batch_norm_legit: \
    input weight bias running_mean running_var training momentum eps
torch.cudnn_batch_norm torch.miopen_batch_norm: input weight bias running_mean running_var training momentum eps
torch.instance_norm: input weight bias running_mean running_var use_input_stats momentum eps
torch.bilinear: input1 input2 weight bias
torch.dropout: input p training
torch.embedding: weight input padding_idx=-1
torch.linalg.matrix_norm: input p="fro" dim=[-2,-1] keepdim=false
torch.linalg.vector_norm: input p=2 dim=null keepdim=false
torch.lu_solve torch.Tensor.lu_solve: B LU pivots
torch.max_pool1d_with_indices: input kernel_size stride=[] padding=0 dilation=1 ceil_mode=false
max_pool1d_with_indices: input kernel_size stride=null padding=0 dilation=1 ceil_mode=false
torch.nn.functional.softmax: input dim=null
torch.qr torch.Tensor.qr: input some=true
torch.randn: size
torch.svd torch.Tensor.svd: input some=true compute_uv=true
torch.triangular_solve: b A upper=true
torch.nn.functional.multi_head_attention_forward: query key value embed_dim_to_check num_heads in_proj_weight \
    in_proj_bias bias_k bias_v add_zero_attn dropout_p out_proj_weight out_proj_bias training=true
"""
"""``operators: parameter parameter=default ...`` by canonical name, or by full name where the places differ. Defaults
are JSON; a default of null also stands for "there is none"."""

_KERNELS = """
conv2d conv3d: input weight stride padding padding_algorithm dilation groups data_format
depthwise_conv2d: input weight stride padding padding_algorithm groups dilation data_format
"""
"""The same of kernels of Paddle's (``paddle._C_ops``) that no row of the mapping names."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments by parameter name. ``paths`` says where in the tree each of them is (``args.0``, ``kwargs.dim``)."""

    api: str
    values: Mapping[str, Tree]
    paths: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        """A numeric argument; the default where it is absent, None or a tensor."""
        value = self.values.get(name)
        return float(value) if isinstance(value, bool | int | float) else default

    def tensor(self, name: str) -> str | None:
        """The path of a parameter that is one tensor; None where it is something else or absent."""
        value = self.values.get(name)
        return self.paths[name] if isinstance(value, dict) and "$t" in value else None

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An integer or a sequence of integers as a tuple; None where it is neither."""
        return integers_of(self.values.get(name))


def integers_of(value: Tree) -> tuple[int, ...] | None:
    """``3``, ``[3, 4]``, ``{"$tuple": [3, 4]}`` and ``{"$size": [3, 4]}`` as a tuple of integers; else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, dict):
        value = value.get("$tuple", value.get("$size"))
    if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return tuple(value)
    return None


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[tuple[str, Tree], ...]]:
    return _parsed(_SIGNATURES)


@lru_cache(maxsize=1)
def _kernels() -> dict[str, tuple[tuple[str, Tree], ...]]:
    return {f"paddle._C_ops.{name}": parameters for name, parameters in _parsed(_KERNELS).items()}


def _parsed(lines: str) -> dict[str, tuple[tuple[str, Tree], ...]]:
    rows: dict[str, tuple[tuple[str, Tree], ...]] = {}
    for line in lines.strip().splitlines():
        names, _, parameters = line.partition(": ")
        rows.update(dict.fromkeys(names.split(), tuple(_parameter(text) for text in parameters.split())))
    return rows


def _parameter(text: str) -> tuple[str, Tree]:
    name, given, default = text.partition("=")
    return name, json.loads(default) if given else None


def signature(api: str) -> tuple[tuple[str, Tree], ...]:
    """The parameters of an operator with their defaults, in order; empty where no row names it."""
    rows = _table()
    if api.startswith("paddle."):
        return _paddle_signature(api)
    return rows.get(api) or rows.get(f"torch.{_aten_name(api)}") or rows.get(canonical(api), ())


def _aten_name(api: str) -> str:
    """``embedding`` of ``torch.ops.aten.embedding.default``: what torch exports of its kernels takes its arguments as
    they do, where functions of ``torch.nn.functional`` may order them differently. Empty for names of no kernel."""
    name = api.removeprefix("torch.ops.")
    return name.split(".")[1] if name.startswith("aten.") else ""


@lru_cache(maxsize=4096)
def _paddle_signature(api: str) -> tuple[tuple[str, Tree], ...]:
    """The parameters of a function of Paddle's in its own order, under the names that torch has for them."""
    row = row_for(api)
    if row is None:
        return _kernels().get(api) or _table().get(canonical(api), ())
    known = dict(_table().get(row.operator) or _table().get(canonical(api), ()))
    return tuple(
        (name, row.defaults.get(ours, known.get(name)))
        for ours, name in ((ours, row.torch_name(ours)) for ours in row.names if not ours.startswith("*"))
    )


@lru_cache(maxsize=4096)
def _keywords(api: str) -> Mapping[str, str]:
    """The keywords of a call that mean a parameter of another name."""
    row = row_for(api) if api.startswith("paddle.") else None
    return _KEYWORDS if row is None else {**_KEYWORDS, **{ours: row.torch_name(ours) for ours in row.names}}


def listed_signatures() -> Iterator[str]:
    """The names of all rows, for tests."""
    return iter(_table())


def bind(api: str, arguments: Tree) -> Bound:
    """Arguments of a call by name. A default fills what was not passed; keywords are taken as they are."""
    positional, keywords = arguments.get("args", []), arguments.get("kwargs", {})
    known, other = signature(api), _keywords(api)
    values: dict[str, Tree] = dict(known)
    paths: dict[str, str] = {}
    for position, ((name, _), value) in enumerate(zip(known, positional, strict=False)):
        values[name], paths[name] = value, f"args.{position}"
    for name, value in keywords.items():
        # Tensor methods and a few functions say self, axis or keepdims for what the rows call input, dim and keepdim.
        plain = name if name in values or other.get(name) not in values else other[name]
        values[plain], paths[plain] = value, f"kwargs.{name}"
    return Bound(api, values, paths)


_KEYWORDS = {
    "self": "input",
    "axis": "dim",
    "keepdims": "keepdim",
    "A": "input",
    "x": "input",
    "tensor": "input",
    "a": "from",
    "b": "to",
}


def parameter(api: str, path: str) -> str | None:
    """The parameter to which a path belongs: ``args.1`` of ``embedding`` is ``weight``; None where no row says."""
    parts = path.split(".")
    known = signature(api)
    if parts[0] == "kwargs" and len(parts) > 1:
        names = {name for name, _ in known}
        return parts[1] if parts[1] in names or not names else _keywords(api).get(parts[1], parts[1])
    if parts[0] == "args" and len(parts) > 1 and parts[1].isdigit() and int(parts[1]) < len(known):
        return known[int(parts[1])][0]
    return None


def leaf_paths(arguments: Tree) -> list[str]:
    """The paths of the tensor leaves of an argument tree, in the order of the tree."""
    return [path for _, path in tensor_paths(arguments)]
