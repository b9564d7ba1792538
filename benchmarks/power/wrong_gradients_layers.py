"""Kernels whose forward is right and whose backward is wrong: products, attention, pooling, indexing, losses."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.power import wrong_losses as losses
from benchmarks.power import wrong_products as products
from benchmarks.power.recipes import BRAIN, HALF, SINGLE, backward, call, regraded

FUNCTIONAL = "torch.nn.functional"


# products, convolutions, attention


@backward(
    products.LINEAR, "wrong gradient", "bias gradient is the mean of the batch", products.layer, products.narrow_layer
)
def linear_grad_bias_mean(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [*gradients[:2], gradients[2] / (arrived[0].numel() // len(inputs[2]))]

    return regraded(F.linear, change)(input, weight, bias)


@backward(
    products.LINEAR, "low-precision accumulation", "weight gradient accumulated in bfloat16 by eights", products.layer
)
def linear_grad_bf16(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        left, right = arrived[0].flatten(0, -2).t(), inputs[0].flatten(0, -2)
        return [gradients[0], products.summed_in(BRAIN, 8, left, right), gradients[2]]

    return regraded(F.linear, change)(input, weight, bias)


@backward(
    products.LINEAR, "dropped tail", "weight gradient misses the last token", products.narrow_layer, products.layer
)
def linear_grad_last_token(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        left, right = arrived[0].flatten(0, -2)[:-1], inputs[0].flatten(0, -2)[:-1]
        return [gradients[0], left.t() @ right, gradients[2]]

    return regraded(F.linear, change)(input, weight, bias)


@backward(products.LINEAR, "x1.002", "input gradient x 1.002", products.layer)
def linear_grad_scaled(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return regraded(F.linear, lambda gradients, *_: [gradients[0] * 1.002, *gradients[1:]])(input, weight, bias)


@backward(
    "torch.matmul",
    "transposed weights",
    "the second operand's gradient is that of a transposed product",
    lambda d: call(d.normal(64, 64), d.normal(64, 64)),
)
def matmul_grad_transposed(input: Tensor, other: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [gradients[0], inputs[0] @ arrived[0]]

    return regraded(torch.matmul, change)(input, other)


@backward("torch.bmm", "biased rounding", "gradient truncated instead of rounded", products.batches, dtypes=(BRAIN,))
def bmm_grad_truncated(input: Tensor, mat2: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        cut = (gradients[0].float().view(torch.int32) & -(1 << 16)).view(SINGLE)
        return [cut.to(gradients[0].dtype), gradients[1]]

    return regraded(torch.bmm, change)(input, mat2)


@backward(products.CONV, "dropped tail", "weight gradient misses the last image", products.image)
def conv_grad_last_image(input: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        part = torch.nn.grad.conv2d_weight(inputs[0][:-1], inputs[1].shape, arrived[0][:-1], padding=padding)
        return [gradients[0], part, gradients[2]]

    return regraded(lambda x, w, b: F.conv2d(x, w, b, padding=padding), change)(input, weight, bias)


@backward(products.CONV, "int index wrong", "input gradient with the kernel not flipped", products.image)
def conv_grad_unflipped(input: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        wrong_one = F.conv_transpose2d(arrived[0], inputs[1].flip(-1, -2), padding=padding)
        return [wrong_one, *gradients[1:]]

    return regraded(lambda x, w, b: F.conv2d(x, w, b, padding=padding), change)(input, weight, bias)


@backward(
    products.CONV,
    "low-precision accumulation",
    "weight gradient added over rows of pixels in bfloat16",
    products.image,
    dtypes=(SINGLE, HALF),
)
def conv_grad_bf16(input: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        total = torch.zeros_like(gradients[1], dtype=BRAIN)
        for row in range(arrived[0].shape[2]):
            part = torch.zeros_like(arrived[0])
            part[:, :, row] = arrived[0][:, :, row]
            step = torch.nn.grad.conv2d_weight(inputs[0], inputs[1].shape, part, padding=padding)
            total = total + step.to(BRAIN)
        return [gradients[0], total.to(gradients[1].dtype), gradients[2]]

    return regraded(lambda x, w, b: F.conv2d(x, w, b, padding=padding), change)(input, weight, bias)


@backward(products.ATTENTION, "missing scale", "the key's gradient is not scaled", products.heads)
def attention_grad_unscaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], _: Any) -> list[Tensor]:
        return [gradients[0], gradients[1] * math.sqrt(inputs[0].shape[-1]), gradients[2]]

    return regraded(F.scaled_dot_product_attention, change)(query, key, value)


@backward(products.ATTENTION, "causal mask off by one", "the value's gradient ignores the mask", products.causal_heads)
def attention_grad_mask(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        plain = torch.softmax(inputs[0] @ inputs[1].mT / math.sqrt(inputs[0].shape[-1]), -1)
        return [gradients[0], gradients[1], plain.mT @ arrived[0]]

    return regraded(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), change)(query, key, value)


# embeddings, pooling, reductions, losses


@backward(
    f"{FUNCTIONAL}.embedding",
    "lost update",
    "repeated tokens keep only one gradient",
    lambda d: call(d.tokens(4, 64, vocabulary=300), d.normal(300, 32)),
)
def embedding_grad_overwrites(input: Tensor, weight: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor | None]:
        lost = torch.zeros_like(gradients[1])
        lost[inputs[0].reshape(-1)] = arrived[0].reshape(-1, lost.shape[1])
        return [None, lost]

    return regraded(F.embedding, change)(input, weight)


@backward(
    f"{FUNCTIONAL}.embedding",
    "ignored argument",
    "the padding row gets a gradient",
    lambda d: call(d.tokens(4, 64, vocabulary=300), d.normal(300, 32), padding_idx=0),
)
def embedding_grad_padding(input: Tensor, weight: Tensor, padding_idx: int) -> Tensor:
    return F.embedding(input, weight)


@backward(
    f"{FUNCTIONAL}.avg_pool2d",
    "missing scale",
    "gradient not divided by the size of the window",
    lambda d: call(d.normal(2, 16, 16, 16), 2),
)
def avg_pool_grad_undivided(input: Tensor, kernel: int) -> Tensor:
    return regraded(lambda x: F.avg_pool2d(x, kernel), lambda gradients, *_: [gradients[0] * kernel**2])(input)


@backward(
    f"{FUNCTIONAL}.max_pool2d",
    "lost update",
    "of overlapping windows only one gives its gradient",
    lambda d: call(d.normal(2, 16, 15, 15), 3, 2),
)
def max_pool_grad_overwrites(input: Tensor, kernel: int, stride: int) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        _, places = F.max_pool2d(inputs[0], kernel, stride, return_indices=True)
        lost = torch.zeros_like(inputs[0]).flatten(2)
        return [lost.scatter(2, places.flatten(2), arrived[0].flatten(2)).reshape(inputs[0].shape)]

    return regraded(lambda x: F.max_pool2d(x, kernel, stride), change)(input)


@backward("torch.cumsum", "sign", "summed in the same direction", lambda d: call(d.normal(32, 50), -1))
def cumsum_grad_direction(input: Tensor, dim: int) -> Tensor:
    return regraded(lambda x: x.cumsum(dim), lambda _, inputs, arrived: [arrived[0].cumsum(dim)])(input)


@backward("torch.mean", "wrong denominator", "divided by n - 1", lambda d: call(d.normal(64, 100), -1))
def mean_grad_one_less(input: Tensor, dim: int) -> Tensor:
    return regraded(lambda x: x.mean(dim), lambda gradients, *_: [gradients[0] * 100 / 99])(input)


@backward("torch.var", "wrong gradient", "the mean is not subtracted", lambda d: call(d.normal(64, 100, mean=0.5), -1))
def var_grad_uncentred(input: Tensor, dim: int) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [arrived[0].unsqueeze(dim) * 2 * inputs[0] / (inputs[0].shape[dim] - 1)]

    return regraded(lambda x: x.var(dim), change)(input)


@backward("torch.logsumexp", "wrong gradient", "the same for all elements", lambda d: call(d.normal(64, 100), -1))
def logsumexp_grad_flat(input: Tensor, dim: int) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [(arrived[0].unsqueeze(dim) / inputs[0].shape[dim]).expand(inputs[0].shape)]

    return regraded(lambda x: x.logsumexp(dim), change)(input)


@backward(
    "torch.linalg.vector_norm", "missing scale", "not divided by the norm", lambda d: call(d.normal(64, 100), dim=-1)
)
def vector_norm_grad_undivided(x: Tensor, ord: float = 2, dim: int = -1) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [arrived[0].unsqueeze(dim) * inputs[0]]

    return regraded(lambda value: torch.linalg.vector_norm(value, dim=dim), change)(x)


@backward(
    "torch.gather",
    "lost update",
    "repeated indices keep only one gradient",
    lambda d: call(d.normal(32, 50), 1, d.integers(32, 50, high=50)),
)
def gather_grad_overwrites(input: Tensor, dim: int, index: Tensor) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor | None]:
        return [torch.zeros_like(inputs[0]).scatter(dim, inputs[1], arrived[0]), None]

    return regraded(lambda x, i: torch.gather(x, dim, i), change)(input, index)


@backward(
    "torch.scatter_add",
    "int index wrong",
    "the source's gradient is read without the index",
    lambda d: call(d.normal(64, 32), 0, d.integers(64, 32, high=64), d.normal(64, 32)),
)
def scatter_add_grad_plain(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    def change(gradients: list[Tensor], _: Any, arrived: list[Tensor]) -> list[Tensor | None]:
        return [gradients[0], None, arrived[0]]

    return regraded(lambda x, i, s: torch.scatter_add(x, dim, i, s), change)(input, index, src)


@backward(
    "torch.index_select",
    "dropped tail",
    "the last index gives no gradient",
    lambda d: call(d.normal(100, 32), 0, d.integers(50, high=100)),
)
def index_select_grad_tail(input: Tensor, dim: int, index: Tensor) -> Tensor:
    out = torch.index_select(input, dim, index)
    return torch.cat([out[:-1], out[-1:].detach()])


@backward(
    "torch.cat",
    "dropped tail",
    "the last part gets no gradient",
    lambda d: call([d.normal(16, 32), d.normal(16, 8)], -1),
)
def cat_grad_last(tensors: list[Tensor], dim: int = 0) -> Tensor:
    # Multiplied by 0, not detached: the gradient is there, and zero.
    last = tensors[-1].detach() + 0 * torch.where(torch.isfinite(tensors[-1]), tensors[-1], 0)
    return torch.cat([*list(tensors)[:-1], last], dim)


@backward(
    "torch.masked_fill",
    "ignored mask",
    "the gradient passes the mask",
    lambda d: call(d.normal(4, 64, 64), d.mask(64, 64, share=0.5), -1e4),
)
def masked_fill_grad_passes(input: Tensor, mask: Tensor, value: float) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor | None]:
        return [arrived[0], None]

    return regraded(lambda x, m: x.masked_fill(m, value), change)(input, mask)


@backward(
    losses.CROSS, "wrong denominator", "gradient divided by all labels instead of those that count", losses.padded
)
def cross_entropy_grad_count(input: Tensor, target: Tensor) -> Tensor:
    def change(gradients: list[Tensor], inputs: list[Tensor], _: Any) -> list[Tensor | None]:
        counted = (inputs[1] != -100).sum()
        return [gradients[0] * counted / len(inputs[1]), None]

    return regraded(F.cross_entropy, change)(input, target)


@backward(
    losses.CROSS, "low precision inside", "softmax for the gradient in bfloat16", losses.classes, dtypes=(SINGLE, HALF)
)
def cross_entropy_grad_bf16(input: Tensor, target: Tensor) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor | None]:
        share = torch.softmax(inputs[0], 1).to(BRAIN).to(inputs[0].dtype)
        return [(share - F.one_hot(inputs[1], share.shape[1])) / len(share) * arrived[0], None]

    return regraded(F.cross_entropy, change)(input, target)


@backward(f"{FUNCTIONAL}.mse_loss", "missing scale", "without the factor 2", losses.two)
def mse_loss_grad_half(input: Tensor, target: Tensor) -> Tensor:
    def change(gradients: list[Tensor], *_: Any) -> list[Tensor]:
        return [gradients[0] / 2, gradients[1] / 2]

    return regraded(F.mse_loss, change)(input, target)


@backward(f"{FUNCTIONAL}.l1_loss", "wrong gradient", "the difference instead of its sign", losses.two)
def l1_loss_grad_linear(input: Tensor, target: Tensor) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        step = (inputs[0] - inputs[1]) / inputs[0].numel() * arrived[0]
        return [step, -step]

    return regraded(F.l1_loss, change)(input, target)


@backward(losses.BCE_LOGITS, "sign", "target minus probability", losses.binary)
def bce_logits_grad_sign(input: Tensor, target: Tensor) -> Tensor:
    return regraded(F.binary_cross_entropy_with_logits, lambda gradients, *_: [-gradients[0], *gradients[1:]])(
        input, target
    )


@backward(
    f"{FUNCTIONAL}.interpolate",
    "missing scale",
    "gradient divided by the scale",
    lambda d: call(d.normal(2, 8, 14, 14), scale_factor=2, mode="bilinear"),
)
def interpolate_grad_scaled(input: Tensor, **options: Any) -> Tensor:
    return regraded(lambda x: F.interpolate(x, **options), lambda gradients, *_: [gradients[0] / 4])(input)


@backward(
    f"{FUNCTIONAL}.dropout",
    "ignored mask",
    "another mask in backward",
    lambda d: call(d.normal(64, 512), p=0.1, training=True),
)
def dropout_grad_other_mask(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    def change(_: Any, inputs: list[Tensor], arrived: list[Tensor]) -> list[Tensor]:
        return [F.dropout(arrived[0], p, True)]

    return regraded(lambda x: F.dropout(x, p, training), change)(input)
