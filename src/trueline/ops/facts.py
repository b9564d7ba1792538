"""What kind of arithmetic an operator does.

A kind says three things to whoever judges an output: whether equal inputs must give equal bits, how rounding grows
inside, and how a difference of the inputs may show in the output. The table names operators by their canonical name;
whatever it does not name is ``Kind.OTHER``, which is judged with generous factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from trueline.ops.names import canonical


class Kind(Enum):
    """How an operator computes."""

    MOVE = "moves data"
    """No arithmetic: what comes out are elements of what went in, at most rounded to another dtype (a cast is fixed to
    the bit by its two types)."""
    SELECT = "selects"
    """Piecewise linear without rounding: relu, max, clamp. Its gradient jumps where the pieces meet."""
    DISCRETE = "decides"
    """Comparisons, arguments of maxima, rounding: a tiny difference of the input may change an element wholly."""
    SUM = "adds"
    """Sums of a few terms: large terms may cancel."""
    PRODUCT = "multiplies"
    SINGULAR = "divides"
    """Steep near zero: division, square roots, logarithms, powers, steps of adaptive optimizers."""
    CONTRACTION = "contracts"
    """Sums of products: matmul, convolution, recurrent cells."""
    ATTENTION = "attends"
    """Averages values with weights that are exponentials of products of queries and keys."""
    REDUCTION = "reduces"
    SMOOTH = "maps smoothly"
    """Element by element, with a slope around one at most."""
    EXPONENTIAL = "exponentiates"
    """A relative error of the output is an absolute error of the input."""
    NORMALIZATION = "normalizes"
    RANDOM = "draws random numbers"
    COLLECTIVE = "communicates"
    UNDEFINED = "hands out memory that nobody has written yet"
    OTHER = "computes"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one operator."""

    name: str
    kind: Kind
    in_place: bool = False

    @property
    def exact(self) -> bool:
        """Whether equal inputs must give equal bits, whatever the kernel."""
        return self.kind in (Kind.MOVE, Kind.SELECT, Kind.DISCRETE)

    @property
    def moves(self) -> bool:
        """Whether what comes out are elements of what went in, equal to the last bit. (Its backward may add.)"""
        return self.kind is Kind.MOVE

    @property
    def one_to_one(self) -> bool:
        """Whether each element of the arguments goes to one place at most, whatever they are, so that not even its
        backward adds anything up. (Where the same tensor is given twice, two gradients meet all the same.)"""
        return self.name in _ONE_TO_ONE

    @property
    def overwrites(self) -> bool:
        """Whether nothing of its first argument is left when it returns."""
        return self.in_place and self.name in _OVERWRITING

    @property
    def discontinuous(self) -> bool:
        """Whether a tiny difference of the input may change an element of the output wholly."""
        return self.kind is Kind.DISCRETE

    @property
    def composite(self) -> bool:
        """Whether autocast reaches inside without showing in the dtypes of inputs and outputs."""
        return self.kind is Kind.OTHER or self.name in _COMPOSITE


_TABLE: dict[Kind, str] = {
    Kind.MOVE: """
        reshape transpose permute movedim moveaxis contiguous clone detach alias expand expand_as broadcast_to unsqueeze
        squeeze flatten unflatten ravel narrow select slice split split_with_sizes chunk unbind tensor_split cat stack
        hstack vstack dstack index index_select gather take take_along_dim masked_select embedding roll flip fliplr
        flipud rot90 repeat repeat_interleave tile unfold view_as reshape_as as_strided diagonal diag diag_embed tril
        triu pad constant_pad_nd pixel_shuffle pixel_unshuffle data requires_grad item tolist numpy one_hot
        masked_fill fill zero zeros_like ones_like full_like new_zeros new_ones new_full zeros ones
        full arange as_tensor tensor real imag view_as_real view_as_complex index_fill
        index_copy scatter masked_scatter adjoint resolve_conj resolve_neg lift_fresh where copysign
        positive pin_memory identity narrow_copy unsafe_chunk unsafe_split meshgrid broadcast_tensors
        select_scatter slice_scatter diagonal_scatter diagflat hsplit vsplit dsplit fftshift ifftshift eye
        fill_diagonal conj complex max_unpool1d max_unpool2d max_unpool3d combinations cartesian_prod tril_indices
        triu_indices view_copy permute_copy expand_copy transpose_copy t_copy diagonal_copy detach_copy alias_copy
        unbind_copy select_copy slice_copy squeeze_copy unsqueeze_copy split_copy unfold_copy as_strided_copy
        view_as_real_copy as_strided_scatter unsafe_split_with_sizes to block_diag
        atleast_1d atleast_2d atleast_3d column_stack row_stack channel_shuffle
        """,
    Kind.SELECT: """
        relu leaky_relu hardtanh relu6 threshold clamp clamp_min clamp_max abs neg max min amax amin maximum minimum
        fmax fmin max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        max_pool2d_with_indices topk sort kthvalue median cummax cummin nan_to_num aminmax max_pool1d_with_indices
        max_pool3d_with_indices msort nanmedian mode hardshrink
        """,
    Kind.DISCRETE: """
        eq ne gt ge lt le isnan isinf isfinite isclose allclose equal logical_and logical_or logical_not logical_xor
        bitwise_and bitwise_or bitwise_not bitwise_xor argmax argmin argsort nonzero searchsorted bucketize round floor
        ceil trunc sign sgn heaviside floor_divide floordiv remainder mod fmod unique histc bincount any all
        isneginf isposinf isreal signbit isin frexp nextafter matrix_rank unique_consecutive histogram lshift rshift
        bitwise_left_shift bitwise_right_shift gcd lcm
        nonzero_static histogramdd count_nonzero and or xor invert is_nonzero bool len size numel dim stride argwhere
        rmod rfloordiv shard_index is_complex is_floating_point is_integer is_empty is_tensor is_contiguous is_same_size
        shape rank ndimension element_size
        """,
    Kind.SUM: "add sub lerp addcmul index_put put increment scale diff",
    Kind.PRODUCT: "mul square outer addr hadamard kron ldexp deg2rad rad2deg",
    Kind.SINGULAR: """
        div reciprocal rsqrt sqrt log log2 log10 log1p pow float_power addcdiv _fused_adamw _fused_adam _fused_sgd
        _fused_adagrad asin acos atanh acosh tan lgamma digamma erfinv logit
        clip_grad_norm hypot atan2 xlogy
        """,
    Kind.CONTRACTION: """
        matmul linear bilinear addmm addbmm baddbmm addmv mv dot vdot inner tensordot einsum conv conv_transpose1d
        conv_transpose2d conv_transpose3d conv_tbc multi_head_attention_forward
        chain_matmul multi_dot lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell cdist pairwise_distance
        fft rfft ifft irfft fft2 rfft2 fftn ifft2 ifftn rfftn irfft2 irfftn hfft hfft2 hfftn ihfft ihfft2 ihfftn stft
        istft vecdot rnn_relu_cell pdist grouped_mm scaled_mm _scaled_mm embedding_bag _native_multi_head_attention
        """,
    Kind.ATTENTION: "scaled_dot_product_attention",
    Kind.REDUCTION: """
        sum mean norm var std var_mean std_mean nansum nanmean logsumexp cumsum cumprod prod trace avg_pool1d avg_pool2d
        avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d index_add scatter_add scatter_reduce
        mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy binary_cross_entropy kl_div cov corrcoef
        binary_cross_entropy_with_logits interpolate upsample grid_sample lp_pool2d logcumsumexp ctc_loss
        lp_pool1d lp_pool3d trapezoid cumulative_trapezoid cosine_similarity cosine_embedding_loss gaussian_nll_loss
        hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
        poisson_nll_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss index_reduce dist fold
        """,
    Kind.SMOOTH: """
        gelu silu mish tanh sigmoid hardswish hardsigmoid softplus softsign elu selu celu erf erfc sin cos atan asinh
        tanhshrink logsigmoid glu prelu sinc stanh
        """,
    Kind.EXPONENTIAL: "softmax log_softmax exp exp2 expm1 softmin gumbel_softmax cosh sinh",
    Kind.NORMALIZATION: """
        normalize renorm
        layer_norm batch_norm group_norm instance_norm rms_norm local_response_norm weight_norm batch_norm_gather_stats
        """,
    Kind.RANDOM: """
        dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout native_dropout
        bernoulli rand randn randint rand_like randn_like randint_like randperm multinomial normal uniform exponential
        geometric cauchy log_normal random poisson rrelu trunc_normal xavier_uniform xavier_normal kaiming_uniform
        kaiming_normal orthogonal binomial _standard_gamma fractional_max_pool2d fractional_max_pool3d svd_lowrank
        pca_lowrank
        """,
    Kind.COLLECTIVE: """
        all_reduce all_gather all_gather_into_tensor all_gather_object reduce reduce_scatter reduce_scatter_tensor
        broadcast scatter_object_list broadcast_object_list all_to_all all_to_all_single send recv isend irecv barrier
        batch_isend_irecv all_reduce_coalesced all_gather_coalesced gather_object monitored_barrier
        """,
    Kind.UNDEFINED: "empty empty_like new_empty empty_strided new_empty_strided resize set",
}

_COMPOSITE = frozenset(
    {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}
    | {"multi_head_attention_forward", "_native_multi_head_attention", "bilinear", "einsum", "tensordot"}
)
"""Made of other operators, which autocast rounds one by one."""

_OVERWRITING = frozenset(
    "copy fill zero normal uniform random bernoulli exponential cauchy geometric log_normal".split()
)
_ONE_TO_ONE = frozenset(
    """
    reshape transpose permute movedim moveaxis contiguous clone alias unsqueeze squeeze flatten unflatten ravel narrow
    select slice split split_with_sizes chunk unbind tensor_split cat stack hstack vstack dstack masked_select roll flip
    fliplr flipud rot90 view_as reshape_as diagonal diag diag_embed diagflat tril triu constant_pad_nd pixel_shuffle
    pixel_unshuffle real imag view_as_real view_as_complex adjoint conj positive identity hsplit vsplit dsplit fftshift
    ifftshift fill_diagonal block_diag atleast_1d atleast_2d atleast_3d column_stack row_stack channel_shuffle
    relu relu6 hardtanh threshold hardshrink abs neg sort
    """.split()
)
"""Of the operators that move or select, those that neither repeat nor broadcast; what they fill up with has no
gradient."""

_KINDS = {name: kind for kind, names in _TABLE.items() for name in names.split()}

_COLLECTIVE_ROOMS = ("torch.distributed", "paddle.distributed", "c10d", "_c10d_functional")
"""Whatever lives here talks to other ranks, also where its name means something else elsewhere (scatter, gather)."""


@lru_cache(maxsize=8192)
def facts_of(api: str) -> Facts:
    """What is known of an API by its full name; ``Kind.OTHER`` where nothing is."""
    name = canonical(api)
    in_place = api.endswith("_") and not api.endswith("__")
    if any(room in api for room in _COLLECTIVE_ROOMS):
        return Facts(name, Kind.COLLECTIVE, in_place)
    return Facts(name, _KINDS.get(name, Kind.OTHER), in_place)
