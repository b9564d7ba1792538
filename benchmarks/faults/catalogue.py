"""The planted faults: which program, which call, what is wrong with it.

``api`` and ``index`` say the call, counted from 0 within the step as a recorder counts it; ``phase`` says whether its
forward result or its gradient is wrong. ``published`` marks the 14 faults on which the peer was measured before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from benchmarks.faults import gradients, wrong
from benchmarks.faults.models import Program
from benchmarks.faults.planting import Implementation, effect, gradient, instead, result

FUNCTIONAL = "torch.nn.functional"


@dataclass(frozen=True)
class Fault:
    """One wrong call. ``setup`` changes the program on both sides before the captured step. ``peer_index`` is the
    index by the peer's own count, where that is another: it counts ``x += y`` apart from ``x.add_(y)``. ``change`` is
    a further, honest difference of the candidate's side, among whose noise the fault has to be found."""

    name: str
    model: str
    api: str
    index: int
    implementation: Implementation
    description: str
    phase: str = "forward"
    published: bool = False
    setup: Callable[[Program], None] | None = None
    peer_index: int | None = None
    change: Callable[[Program], None] | None = None


def _published() -> list[Fault]:
    """The peer's published list: the third call of one operator in the encoder."""
    rows: list[tuple[str, str, Implementation, str]] = [
        ("gelu_tanh", "gelu", instead(wrong.tanh_gelu), "tanh approximation for erf"),
        ("gelu_negated", "gelu", result(wrong.negated), "sign flipped"),
        ("softmax_1_01", "softmax", result(wrong.scaled(1.01)), "softmax x 1.01"),
        ("softmax_1_5", "softmax", result(wrong.scaled(1.5)), "softmax x 1.5"),
        ("layer_norm_eps", "layer_norm", instead(wrong.layer_norm_eps(1e-2)), "epsilon 1e-2 for 1e-5"),
        ("linear_bf16", "linear", instead(wrong.linear_in(torch.bfloat16)), "computed in bfloat16"),
        ("linear_fp16", "linear", instead(wrong.linear_in(torch.float16)), "computed in float16"),
        ("linear_no_bias", "linear", instead(wrong.linear_without_bias), "bias dropped"),
        ("matmul_rows", "matmul", result(wrong.zero_rows(0.05)), "5 % of the rows zero"),
        ("matmul_40", "matmul", result(wrong.some_scaled(0.4, 1.01)), "40 % of the elements + 1 %"),
        ("matmul_70", "matmul", result(wrong.some_scaled(0.7, 1.01)), "70 % of the elements + 1 %"),
        ("linear_one_nan", "linear", result(wrong.element(math.nan)), "one NaN"),
        ("linear_one_huge", "linear", result(wrong.element(add=1e30)), "one element + 1e30"),
        ("gelu_offset", "gelu", result(wrong.shifted(1e-3)), "every element + 1e-3"),
    ]
    return [
        Fault(
            name=f"encoder_{name}",
            model="encoder",
            api="torch.matmul" if api == "matmul" else f"{FUNCTIONAL}.{api}",
            index=2,
            implementation=implementation,
            description=description,
            published=True,
        )
        for name, api, implementation, description in rows
    ]


Row = tuple[str, str, int, Implementation, str]


def _rows(model: str, phase: str, rows: list[Row]) -> list[Fault]:
    return [
        Fault(f"{model}_{name}", model, api, index, implementation, description, phase)
        for name, api, index, implementation, description in rows
    ]


def _encoder() -> list[Fault]:
    forward: list[Row] = [
        ("no_scale", "torch.div", 1, instead(wrong.first_argument), "attention scores not scaled"),
        ("dropout_scale", f"{FUNCTIONAL}.dropout", 4, result(wrong.scaled(0.9)), "dropout does not rescale"),
        (
            "no_smoothing",
            f"{FUNCTIONAL}.cross_entropy",
            0,
            instead(wrong.cross_entropy_unsmoothed),
            "label smoothing ignored",
        ),
        (
            "no_ignore_index",
            f"{FUNCTIONAL}.cross_entropy",
            0,
            instead(wrong.cross_entropy_counting_all),
            "ignore_index ignored",
        ),
        ("transposed", f"{FUNCTIONAL}.linear", 9, instead(wrong.linear_transposed), "square weight transposed"),
        (
            "matmul_bf16_sum",
            "torch.matmul",
            5,
            instead(wrong.matmul_accumulated(torch.bfloat16)),
            "partial sums added in bfloat16",
        ),
        ("adam_skipped", "torch._fused_adamw_", 0, effect(wrong.without(7)), "one parameter not updated"),
        ("adam_eps", "torch._fused_adamw_", 0, effect(wrong.with_keyword(eps=1e-5)), "epsilon 1e-5 for 1e-8"),
    ]
    backward: list[Row] = [
        (
            "embedding_grad",
            f"{FUNCTIONAL}.embedding",
            0,
            gradient("EmbeddingBackward", gradients.embedding_without_repeats),
            "repeated tokens lose gradient",
        ),
        (
            "softmax_grad",
            f"{FUNCTIONAL}.softmax",
            1,
            gradient("SoftmaxBackward", gradients.softmax_without_sum),
            "sum term missing in the gradient",
        ),
        (
            "layer_norm_grad",
            f"{FUNCTIONAL}.layer_norm",
            5,
            gradient("NativeLayerNormBackward", gradients.layer_norm_weight_without_mean),
            "mean missing in the weight's gradient",
        ),
        (
            "gelu_grad",
            f"{FUNCTIONAL}.gelu",
            1,
            gradient("GeluBackward", gradients.gelu_without_density),
            "density term missing in the gradient",
        ),
        (
            "linear_grad_half",
            f"{FUNCTIONAL}.linear",
            10,
            gradient("AddmmBackward", gradients.scaled(2, 0.5)),
            "weight gradient x 0.5",
        ),
        (
            "loss_grad",
            f"{FUNCTIONAL}.cross_entropy",
            0,
            gradient("LogSoftmaxBackward", gradients.scaled(0, 27 / 32)),
            "gradient divided by all tokens instead of those that count",
        ),
    ]
    return _rows("encoder", "forward", forward) + _rows("encoder", "backward", backward)


def _convnet() -> list[Fault]:
    conv, norm = f"{FUNCTIONAL}.conv2d", f"{FUNCTIONAL}.batch_norm"
    forward: list[Row] = [
        ("conv_bf16_sum", conv, 2, instead(wrong.conv_accumulated(torch.bfloat16)), "bfloat16 accumulation"),
        ("conv_border", conv, 1, instead(wrong.conv_replicated_border), "border replicated instead of zero"),
        ("conv_no_bias", conv, 0, instead(wrong.conv_without_bias), "bias dropped"),
        ("conv_tile", conv, 4, result(wrong.tile(4)), "one tile of another place"),
        ("bn_eps", norm, 1, instead(wrong.batch_norm_eps(1e-3)), "epsilon 1e-3 for 1e-5"),
        ("bn_stale", norm, 3, effect(wrong.batch_norm_stale), "running statistics not updated"),
        ("bn_momentum", norm, 2, effect(wrong.batch_norm_momentum(0.01)), "momentum 0.01 for 0.1"),
        ("bn_unbiased", norm, 6, instead(wrong.batch_norm_unbiased), "unbiased variance"),
        ("max_pool_padding", f"{FUNCTIONAL}.max_pool2d", 0, instead(wrong.max_pool_zero_padding), "padded with 0"),
        (
            "avg_pool_padding",
            f"{FUNCTIONAL}.avg_pool2d",
            0,
            instead(wrong.avg_pool_uncounted_padding),
            "padding not counted",
        ),
        ("pool_fp16_sum", f"{FUNCTIONAL}.adaptive_avg_pool2d", 0, instead(wrong.pool_in_half), "float16 sum"),
        ("add_1_002", "torch.add", 1, result(wrong.scaled(1.002)), "residual sum x 1.002"),
        ("sgd_skipped", "torch._foreach_add_", 1, effect(wrong.without(5)), "one parameter not updated"),
        ("sgd_momentum", "torch._foreach_mul_", 0, effect(wrong.with_argument(1, 0.99)), "momentum 0.99 for 0.9"),
        ("sgd_no_decay", "torch._foreach_add", 0, effect(wrong.with_keyword(alpha=0.0)), "weight decay missing"),
    ]
    backward: list[Row] = [
        (
            "relu_grad",
            f"{FUNCTIONAL}.relu",
            2,
            gradient("ReluBackward", gradients.passed_through),
            "gradient passes where the input is negative",
        ),
        (
            "conv_grad",
            conv,
            3,
            gradient("ConvolutionBackward", gradients.conv_weight_without_last_image),
            "last image missing in the weight's gradient",
        ),
        (
            "bn_grad",
            norm,
            4,
            gradient("NativeBatchNormBackward", gradients.batch_norm_without_means),
            "statistics treated as constants",
        ),
    ]
    return _rows("convnet", "forward", forward) + _rows("convnet", "backward", backward)


def _decoder() -> list[Fault]:
    linear = f"{FUNCTIONAL}.linear"
    forward: list[Row] = [
        ("mask", "torch.masked_fill", 1, instead(wrong.mask_off_by_one), "causal mask off by one"),
        ("no_scale", "torch.mul", 10, instead(wrong.first_argument), "attention scores not scaled"),
        ("rms_eps", f"{FUNCTIONAL}.rms_norm", 2, instead(wrong.rms_norm_eps(1e-3)), "epsilon 1e-3 for 1e-6"),
        ("rotary_stale", "torch.mul", 6, instead(wrong.rolled_table), "stale rotary table"),
        ("rotary_swapped", "torch.cat", 3, instead(wrong.cat_swapped), "halves swapped"),
        ("hard_silu", f"{FUNCTIONAL}.silu", 1, instead(wrong.hard_silu), "hard sigmoid in silu"),
        ("embedding_row", f"{FUNCTIONAL}.embedding", 0, instead(wrong.embedding_off_by_one), "one wrong row"),
        ("matmul_element", "torch.matmul", 3, result(wrong.element(add=0.5)), "one element + 0.5"),
        ("matmul_tile", "torch.matmul", 4, result(wrong.tile(16)), "one tile of another place"),
        ("linear_1_002", linear, 8, result(wrong.scaled(1.002)), "x 1.002"),
        ("linear_fp16_sum", linear, 13, instead(wrong.linear_accumulated(torch.float16)), "float16 accumulation"),
        ("linear_rows", linear, 21, result(wrong.zero_rows(0.02)), "2 % of the rows zero"),
        ("adam_skipped", "torch._foreach_addcdiv_", 0, effect(wrong.without(9)), "one parameter not updated"),
        (
            "adam_bias_correction",
            "torch._foreach_addcdiv_",
            0,
            effect(wrong.step_size_without_correction),
            "bias correction missing",
        ),
        ("adam_eps", "torch._foreach_add_", 1, effect(wrong.with_argument(1, 1e-5)), "epsilon 1e-5 for 1e-8"),
        ("adam_decay", "torch._foreach_mul_", 0, effect(wrong.without(4)), "one parameter without decay"),
    ]
    backward: list[Row] = [
        (
            "head_grad",
            linear,
            21,
            gradient("MmBackward", gradients.scaled(1, 0.0)),
            "no gradient for the shared weight from the head",
        ),
        ("rotary_grad", "torch.mul", 12, gradient("MulBackward", gradients.passed_through), "factor missing"),
        (
            "silu_grad",
            f"{FUNCTIONAL}.silu",
            0,
            gradient("SiluBackward", gradients.silu_without_product),
            "product term missing in the gradient",
        ),
        (
            "matmul_grad_bf16",
            "torch.matmul",
            2,
            gradient("BmmBackward", gradients.rounded(torch.bfloat16)),
            "gradients rounded to bfloat16",
        ),
        (
            "rms_grad",
            f"{FUNCTIONAL}.rms_norm",
            4,
            gradient("RsqrtBackward", gradients.zeroed),
            "projection term missing in the gradient",
        ),
    ]
    return _rows("decoder", "forward", forward) + _rows("decoder", "backward", backward)


def _shift_energies(program: Program) -> None:
    """Moves the attention energies by 100, which changes nothing in exact arithmetic."""
    with torch.no_grad():
        program.model.shift.fill_(100.0)  # type: ignore[operator]


def _recurrent() -> list[Fault]:
    forward: list[Row] = [
        ("hard_sigmoid", "torch.sigmoid", 20, instead(torch.nn.functional.hardsigmoid), "hard sigmoid"),
        ("gru_stale", "torch.gru", 0, effect(wrong.gru_stale_state), "last state is one step old"),
        ("sum_mean", "torch.sum", 0, result(wrong.scaled(1 / 16)), "mean instead of sum"),
        ("sum_dim", "torch.sum", 0, instead(wrong.summed_over(2)), "wrong dimension summed"),
        ("cumsum", "torch.cumsum", 0, instead(wrong.cumsum_exclusive), "exclusive instead of inclusive"),
        ("var_bias", "torch.var", 0, instead(wrong.variance_other_bias), "unbiased variance"),
        (
            "no_pos_weight",
            f"{FUNCTIONAL}.binary_cross_entropy_with_logits",
            0,
            instead(wrong.unscaled_bce),
            "pos_weight ignored",
        ),
        ("clip_norm", "torch._foreach_norm", 0, effect(wrong.norms_without(2)), "one gradient left out of the norm"),
        (
            "adam_bias_correction",
            "torch.Tensor.addcdiv_",
            6,
            effect(wrong.with_keyword(value=-2e-3)),
            "bias correction missing",
        ),
        ("adam_no_decay", "torch.Tensor.mul_", 8, effect(wrong.nothing_in_place), "weight decay skipped"),
        ("adam_beta2", "torch.Tensor.mul_", 11, effect(wrong.with_argument(1, 0.99)), "beta2 0.99 for 0.999"),
    ]
    backward: list[Row] = [
        (
            "tanh_grad",
            "torch.tanh",
            9,
            gradient("TanhBackward", gradients.tanh_without_square),
            "1 - y for 1 - y^2",
        ),
        (
            "padding_grad",
            f"{FUNCTIONAL}.embedding",
            0,
            gradient("EmbeddingBackward", gradients.embedding_with_padding),
            "padding row gets a gradient",
        ),
        (
            "cumsum_grad",
            "torch.cumsum",
            0,
            gradient("CumsumBackward", gradients.cumsum_not_reversed),
            "gradient summed in the wrong direction",
        ),
    ]
    epsilon = Fault(
        name="recurrent_adam_eps",
        model="recurrent",
        api="torch.Tensor.add_",
        index=15,
        implementation=effect(wrong.with_argument(1, 1e-4)),
        description="epsilon 1e-4 for 1e-8",
        peer_index=7,
    )
    unshifted = Fault(
        name="recurrent_softmax_unshifted",
        model="recurrent",
        api="torch.softmax",
        index=0,
        implementation=instead(wrong.softmax_unshifted),
        description="maximum not subtracted, inputs around 100",
        setup=_shift_energies,
    )
    return [*_rows("recurrent", "forward", forward), epsilon, unshifted, *_rows("recurrent", "backward", backward)]


def _vision() -> list[Fault]:
    attend = f"{FUNCTIONAL}.scaled_dot_product_attention"
    forward: list[Row] = [
        ("no_scale", attend, 1, instead(wrong.attention(scale=1.0)), "attention scores not scaled"),
        ("causal", attend, 0, instead(wrong.attention(causal=True)), "treated as causal"),
        ("cast", "torch.Tensor.bfloat16", 1, instead(wrong.truncated_to_bfloat16), "cut instead of rounded"),
        ("group_count", f"{FUNCTIONAL}.group_norm", 0, instead(wrong.group_norm_other(groups=4)), "4 groups for 8"),
        ("group_eps", f"{FUNCTIONAL}.group_norm", 0, instead(wrong.group_norm_other(eps=1e-3)), "epsilon 1e-3"),
        (
            "layer_norm_bf16",
            f"{FUNCTIONAL}.layer_norm",
            3,
            instead(wrong.layer_norm_one_pass_half),
            "statistics in bfloat16",
        ),
        ("gelu_erf", f"{FUNCTIONAL}.gelu", 2, instead(wrong.tanh_gelu), "erf where tanh was asked for"),
        ("conv_flipped", f"{FUNCTIONAL}.conv2d", 0, instead(wrong.conv_flipped), "kernel flipped"),
        ("sum_bf16", "torch.sum", 0, instead(wrong.sum_accumulated(torch.bfloat16)), "bfloat16 accumulation"),
        ("normalize", f"{FUNCTIONAL}.normalize", 0, instead(wrong.normalized_by_sum), "1-norm for 2-norm"),
        ("no_weight", f"{FUNCTIONAL}.nll_loss", 0, instead(wrong.unweighted_nll), "class weights ignored"),
        ("log_softmax", f"{FUNCTIONAL}.log_softmax", 0, instead(wrong.log_softmax_in_bfloat16), "in bfloat16"),
        ("adam_skipped", "torch._fused_adamw_", 0, effect(wrong.without(11)), "one parameter not updated"),
    ]
    backward: list[Row] = [
        (
            "attention_grad",
            attend,
            1,
            gradient("ScaledDotProduct", gradients.scaled(1, 4.0)),
            "key gradient not scaled",
        ),
        (
            "layer_norm_grad",
            f"{FUNCTIONAL}.layer_norm",
            2,
            gradient("NativeLayerNormBackward", gradients.layer_norm_input_without_means),
            "statistics treated as constants",
        ),
        (
            "linear_grad_rows",
            f"{FUNCTIONAL}.linear",
            6,
            gradient("AddmmBackward", gradients.shifted_rows),
            "bias gradient shifted by one row",
        ),
    ]
    return _rows("vision", "forward", forward) + _rows("vision", "backward", backward)


def _use_autocast(program: Program) -> None:
    program.autocast = torch.bfloat16


MIXED = (
    "encoder_gelu_negated",
    "encoder_softmax_1_5",
    "encoder_matmul_rows",
    "encoder_no_scale",
    "encoder_transposed",
    "encoder_gelu_grad",
    "encoder_softmax_grad",
    "convnet_conv_border",
    "convnet_avg_pool_padding",
    "convnet_relu_grad",
    "decoder_mask",
    "decoder_rotary_stale",
    "decoder_rotary_swapped",
    "recurrent_sum_dim",
    "recurrent_cumsum",
    "vision_no_scale",
    "vision_conv_flipped",
    "vision_normalize",
)
"""Faults that are far larger than the difference between float32 and bfloat16."""


def _mixed(known: list[Fault]) -> list[Fault]:
    """Large faults again, in a candidate that runs under bfloat16 autocast against a float32 reference: a tool that
    kept quiet about clean pairs by not comparing across precisions would miss them."""
    by_name = {fault.name: fault for fault in known}
    return [
        replace(by_name[name], name=f"mixed_{name}", published=False, change=_use_autocast) for name in MIXED
    ]


def faults() -> list[Fault]:
    """All planted faults, the published ones first, those across precisions last."""
    plain = [*_published(), *_encoder(), *_convnet(), *_decoder(), *_recurrent(), *_vision()]
    return [*plain, *_mixed(plain)]
