"""Seeded cases and clean runs that were written after the diagnosis, by somebody who had not written it.

Nothing was tuned on them before they were run for the first time: origin 21 of 28, class 22 of 28, one false alarm in
10 clean runs. Of what was wrong then, five were cases that were seeded or labelled wrongly (two gradients that a relu
or torch itself makes zeros of, a convolution that did not overflow, twice ``p * log(p)``, whose first bad call is the
logarithm): they were corrected. Three were faults of the diagnosis, which were mended afterwards: a square that
overflows below a fraction line was taken as meant, -inf in the data of a recurrent cell as a mask, and infinite
gradients that arrive at the scaler by a way that was not recorded were an alarm though the scaler skipped the step.
One more was mended later: the slope of a length of zero was called a division by zero, and is 0/0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.planting import result
from benchmarks.overflow.cases import Clean, Seeded
from trueline.overflows import Nature, OverflowKind

K = OverflowKind
E, A, I = Nature.EXPECTED, Nature.ABNORMAL, Nature.INHERITED  # noqa: E741 - one letter each, as in ``cases``
H, B = torch.float16, torch.bfloat16
INFINITY = float("inf")


def _cosine(value: Tensor) -> Tensor:
    """The similarity of each row with itself shifted, by hand and without a guard."""
    other = value.roll(1, -1)
    return value * ((value * other).sum(-1) / (value.norm(dim=-1) * other.norm(dim=-1))).unsqueeze(-1)


def _deviation_of_one(value: Tensor) -> Tensor:
    return value / (value[:1].std(0) + 1.0)


def _no_weight(logits: Tensor) -> Tensor:
    return F.cross_entropy(logits, torch.arange(len(logits)) % 4, weight=torch.zeros(4))


def _log_sum_exp(scores: Tensor) -> Tensor:
    """Written out, with a row in which everything is hidden."""
    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool)
    hidden[0] = True
    scores = scores.masked_fill(hidden, -INFINITY)
    return scores - scores.max(-1, keepdim=True).values


def _entropy(logits: Tensor) -> Tensor:
    shares = F.relu(logits) / F.relu(logits).sum(-1, keepdim=True).clamp(min=1e-6)
    return -(shares * shares.log()).sum()


def _softplus(value: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(value * 0 + 95.0))


def _root_mean_square(value: Tensor) -> Tensor:
    value = value * 0 + 300
    return value / value.pow(2).mean(-1, keepdim=True).sqrt()


def _sine_from_cosine(value: Tensor) -> Tensor:
    cosine = value / value.detach().abs().max() * 1.0001
    return (1 - cosine**2).sqrt() + value


def _through_bfloat(value: Tensor) -> Tensor:
    return (value * 0 + 1e5).to(B).to(H).float() + value


def _running_sum(value: Tensor) -> Tensor:
    return (value * 0 + 6000).cumsum(-1) * 1e-4


def _filled_later(value: Tensor) -> Tensor:
    return torch.empty(value.shape).add_(value.detach()) + value


def _root_by_power(value: Tensor) -> Tensor:
    return (value * 0).pow(0.5) + value


def _length(value: Tensor) -> Tensor:
    return torch.hypot(value * 0, value * 0) + value


def _foreign(batch: Any) -> Any:
    """A batch as it comes from a file: no call of the framework made what is bad in it."""
    sequences, lengths = batch
    spoiled = sequences.clone()
    spoiled[2, 1, 3] = -INFINITY
    return torch.frombuffer(bytearray(spoiled.numpy().tobytes()), dtype=torch.float32).reshape(spoiled.shape), lengths


def _put(path: str, value: float) -> Callable[[Any], None]:
    def put(model: Any) -> None:
        with torch.no_grad():
            dict(model.named_parameters())[path].view(-1)[:40] = value

    return put


def _last_is_nan(out: Tensor) -> Tensor:
    wrong = out.clone()
    wrong.view(-1)[-1] = float("nan")
    return wrong


SEEDED: tuple[Seeded, ...] = (
    Seeded("cosine of a zero row", "contrastive", "div", (K.ZERO_BY_ZERO,), E, sites={"normalise": _cosine}),
    Seeded("deviation of one sample", "mlp", "std", (K.ZERO_BY_ZERO,), E, sites={"hidden": _deviation_of_one}),
    Seeded("no class has weight", "recurrent", "cross_entropy", (K.ZERO_BY_ZERO,), E, sites={"loss": _no_weight}),
    Seeded("length of nothing, backward", "mlp", "hypot", (K.ZERO_BY_ZERO,), E, phase="backward",
           sites={"hidden": _length}),
    Seeded("logsumexp of a hidden row", "attention", "sub", (K.INFINITY_MINUS_INFINITY,), E,
           sites={"mask": _log_sum_exp}),
    Seeded("entropy with an empty class", "recurrent", "log", (K.DIVISION_BY_ZERO,), E, sites={"loss": _entropy}),
    Seeded("softplus by hand", "vae", "exp", (K.EXPONENTIAL,), E, sites={"deviation": _softplus}),
    Seeded("rms norm in fp16", "attention", "pow", (K.EXPONENTIAL,), E, dtype=H, sites={"logits": _root_mean_square}),
    Seeded("sine from cosine", "contrastive", "sqrt", (K.OUTSIDE_DOMAIN,), E, sites={"normalise": _sine_from_cosine}),
    Seeded("arc sine in bf16", "mlp", "asin", (K.OUTSIDE_DOMAIN,), E, dtype=B,
           sites={"hidden": lambda value: (value + 3).asin()}),
    Seeded("bf16 to fp16", "convnet", "to", (K.CAST,), E, sites={"features": _through_bfloat}),
    Seeded("running sum in fp16", "mlp", "cumsum", (K.ACCUMULATION,), E, dtype=H, sites={"hidden": _running_sum}),
    Seeded("convolution in fp16", "convnet", "conv2d", (K.ACCUMULATION,), E, dtype=H,
           feed=lambda images: (images * 0 + 6e4).to(H), before=_put("first.weight", 1.0)),
    Seeded("root by power, backward", "mlp", "pow", (K.DIVISION_BY_ZERO,), E, phase="backward",
           sites={"hidden": _root_by_power}),
    Seeded("loss scaled by hand, images", "convnet", "", (K.GRADIENT_SCALED,), E, phase="backward", autocast=H,
           scale=2.0**30),
    Seeded("empty filled by adding", "mlp", "empty", (K.UNINITIALISED,), E, sites={"hidden": _filled_later},
           deterministic=True),
    Seeded("embedding loaded bad", "attention", "embedding", (K.PARAMETER,), I, before=_put("embed.weight", INFINITY)),
    Seeded("-inf in a sequence", "recurrent", "gru", (K.INPUT,), I, feed=_foreign),
    Seeded("NaN in the gru's weights", "recurrent", "gru", (K.PARAMETER,), I,
           before=_put("cell.weight_hh_l0", float("nan"))),
    Seeded("RMSprop without epsilon", "contrastive", "addcdiv_", (K.ZERO_BY_ZERO,), E, optimizer="rmsprop",
           options={"eps": 0.0}, sites={"loss": lambda value: value.mean() * 0.0}),
    Seeded("sigmoid kernel gives NaN", "vae", "sigmoid", (K.UNKNOWN, K.EXPONENTIAL, K.ZERO_BY_ZERO), A,
           plant={"torch.sigmoid": result(lambda out, *_, **__: _last_is_nan(out))}),
)  # fmt: skip


def _online_softmax(scores: Tensor) -> Tensor:
    """As flash attention does it: the largest so far begins at -inf."""
    largest = torch.full(scores.shape[:-1], -INFINITY, dtype=scores.dtype)
    total = torch.zeros_like(largest)
    for part in scores.split(4, -1):
        following = torch.maximum(largest, part.max(-1).values)
        total = total * (largest - following).exp() + (part - following.unsqueeze(-1)).exp().sum(-1)
        largest = following
    return (scores - largest.unsqueeze(-1)).exp() / total.unsqueeze(-1)


def _padded_pool(features: Tensor) -> Tensor:
    return F.max_pool2d(F.pad(features, (1, 1, 1, 1), value=-INFINITY), 3, 1)


def _hidden_keys(logits: Tensor) -> Tensor:
    seen = torch.ones(12, 12, dtype=torch.bool)
    seen[:, 9:] = False
    x = logits.unsqueeze(1)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=seen).squeeze(1)


def _safe_log(value: Tensor) -> Tensor:
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, torch.ones_like(value)).log(), torch.zeros_like(value))


CLEAN: tuple[Clean, ...] = (
    Clean("online softmax", "attention", sites={"softmax": _online_softmax}),
    Clean("pooling padded with -inf", "convnet", sites={"features": _padded_pool}),
    Clean("hidden keys", "attention", sites={"logits": _hidden_keys}),
    Clean("log of what is positive", "mlp", sites={"hidden": _safe_log}),
    Clean("smallest of masked distances", "contrastive",
          sites={"temperature": lambda value: value - value.masked_fill(torch.eye(8, dtype=torch.bool), INFINITY)
                 .min(-1, keepdim=True).values}),
    Clean("loss scaler on a gru", "recurrent", autocast=H, scaler=2.0**34, optimizer="adam"),
    Clean("loss scaler on the autoencoder", "vae", autocast=H, scaler=2.0**24),
    Clean("mixed precision, bf16 images", "convnet", autocast=B, seed=3),
)  # fmt: skip
