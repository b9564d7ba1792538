"""The seeded cases: where each is to be found, of what kind it is, and whether it had to happen; and clean runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.planting import result
from trueline.overflows import Nature, OverflowKind

K = OverflowKind
INFINITY = float("inf")


@dataclass(frozen=True)
class Seeded:
    """One program that goes wrong. ``api`` is the end of the API's name; ``kinds`` are those that are right."""

    name: str
    model: str
    api: str
    kinds: tuple[OverflowKind, ...]
    nature: Nature
    phase: str = "forward"
    sites: Mapping[str, Callable[..., Tensor]] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    scale: float = 1.0
    optimizer: str = "sgd"
    options: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Any], None] | None = None
    feed: Callable[[Any], Any] | None = None
    plant: Mapping[str, Any] | None = None
    autocast: torch.dtype | None = None
    step: int = 0
    deterministic: bool = False


@dataclass(frozen=True)
class Clean:
    """One program in which nothing is wrong, though it holds infinities or a loss scaler."""

    name: str
    model: str
    sites: Mapping[str, Callable[..., Tensor]] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    scaler: float | None = None
    optimizer: str = "sgd"
    autocast: torch.dtype | None = None
    seed: int = 0


def _divide_by_norm(value: Tensor) -> Tensor:
    return value / value.norm(dim=-1, keepdim=True)


def _length(value: Tensor) -> Tensor:
    return value.pow(2).sum(-1, keepdim=True).sqrt() + value


def _everything_masked(scores: Tensor) -> Tensor:
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1)  # the first row sees nothing
    return scores.masked_fill(~seen, -INFINITY)


def _mask_times_infinity(scores: Tensor) -> Tensor:
    hidden = torch.ones(scores.shape[-2:]).triu(1).to(scores.dtype)
    return scores + hidden * -INFINITY


def _far_times_zero(value: Tensor) -> Tensor:
    far = torch.full_like(value, INFINITY).triu(1)
    near = torch.zeros_like(value)
    return value + far * near


def _far_minus_far(value: Tensor) -> Tensor:
    far = torch.full_like(value, INFINITY)
    return value + (far - far)


def _variance(value: Tensor) -> Tensor:
    apart = (value**2).mean(-1, keepdim=True) - (value.mean(-1, keepdim=True) ** 2 + 5.0)
    return value / (1 + apart.sqrt())


def _entropy_trap(value: Tensor) -> Tensor:
    kept = value * (value > 0)
    return torch.where(kept > 0, kept.log(), torch.zeros_like(kept)) + value


def _into_half(value: Tensor) -> Tensor:
    return (value * 1e6).half().float() * 1e-6


def _into_eight_bits(value: Tensor) -> Tensor:
    return (value * 1e5).to(torch.float8_e5m2).float() * 1e-5


def _copied_into_half(value: Tensor) -> Tensor:
    room = torch.zeros(value.shape, dtype=torch.float16)
    room.copy_(value.detach() * 1e6)
    return value + room.float()


def _read_unwritten(value: Tensor) -> Tensor:
    return value + torch.empty(value.shape[-1])


def _read_unwritten_like(value: Tensor) -> Tensor:
    return value * torch.empty_like(value)


def _nan_in(batch: Tensor) -> Tensor:
    batch = batch.clone()
    batch[1, 2] = float("nan")
    return torch.frombuffer(bytearray(batch.numpy().tobytes()), dtype=batch.dtype).reshape(batch.shape)


def _spoiled(batch: Tensor) -> Tensor:
    spoiled = batch.clone()
    spoiled[0, 0] = INFINITY
    return torch.frombuffer(bytearray(spoiled.numpy().tobytes()), dtype=batch.dtype).reshape(batch.shape)


def _spoil(path: str, value: float) -> Callable[[Any], None]:
    def spoil(model: Any) -> None:
        tensor = dict([*model.named_parameters(), *model.named_buffers()])[path]
        with torch.no_grad():
            tensor.view(-1)[0] = value

    return spoil


def _one_infinite(value: Tensor) -> Tensor:
    wrong = value.clone()
    wrong.view(-1)[5] = INFINITY
    return wrong


def _one_nan(value: Tensor) -> Tensor:
    wrong = value.clone()
    wrong.view(-1)[3] = float("nan")
    return wrong


E, A = Nature.EXPECTED, Nature.ABNORMAL
H, B = torch.float16, torch.bfloat16

SEEDED: tuple[Seeded, ...] = (
    # 0/0
    Seeded(
        "norm of a padded row", "contrastive", "Tensor.div", (K.ZERO_BY_ZERO,), E, sites={"normalise": _divide_by_norm}
    ),
    Seeded(
        "mean over no steps",
        "recurrent",
        "Tensor.div",
        (K.ZERO_BY_ZERO,),
        E,
        sites={"mean": lambda total, valid: total / valid.sum(1, keepdim=True)},
    ),
    Seeded(
        "hidden log of zero, backward",
        "mlp",
        "log",
        (K.ZERO_BY_ZERO,),
        E,
        phase="backward",
        sites={"hidden": _entropy_trap},
    ),
    Seeded(
        "layer norm without epsilon",
        "mlp",
        "layer_norm",
        (K.ZERO_BY_ZERO,),
        E,
        sites={
            "hidden": lambda value: F.layer_norm(torch.ones_like(value) * value.detach().mean(), (32,), eps=0.0) + value
        },
    ),
    Seeded(
        "every target ignored",
        "convnet",
        "cross_entropy",
        (K.ZERO_BY_ZERO,),
        E,
        sites={"loss": lambda value: F.cross_entropy(value, torch.full((len(value),), -100))},
    ),
    # division by zero
    Seeded(
        "length of a zero row, backward",
        "contrastive",
        "sqrt",
        (K.DIVISION_BY_ZERO,),
        E,
        phase="backward",
        sites={"normalise": _length},
    ),
    Seeded(
        "log of zero",
        "vae",
        "log",
        (K.DIVISION_BY_ZERO,),
        E,
        sites={"divergence": lambda mean, log_variance: F.relu(mean).log().sum(-1)},
    ),
    # inf - inf
    Seeded(
        "a row that sees nothing",
        "attention",
        "softmax",
        (K.INFINITY_MINUS_INFINITY,),
        E,
        sites={"mask": _everything_masked},
    ),
    Seeded(
        "a row that sees nothing, bf16",
        "attention",
        "softmax",
        (K.INFINITY_MINUS_INFINITY,),
        E,
        dtype=B,
        sites={"mask": _everything_masked},
    ),
    Seeded("far minus far", "mlp", "Tensor.sub", (K.INFINITY_MINUS_INFINITY,), E, sites={"hidden": _far_minus_far}),
    # 0 x inf
    Seeded(
        "mask times infinity",
        "attention",
        "Tensor.mul",
        (K.ZERO_TIMES_INFINITY,),
        E,
        sites={"mask": _mask_times_infinity},
    ),
    Seeded(
        "far times zero",
        "contrastive",
        "Tensor.mul",
        (K.ZERO_TIMES_INFINITY,),
        E,
        sites={"temperature": _far_times_zero},
    ),
    # exp or pow
    Seeded(
        "deviation of a wild variance",
        "vae",
        "exp",
        (K.EXPONENTIAL,),
        E,
        sites={"deviation": lambda value: torch.exp(100 + value)},
    ),
    Seeded(
        "unsafe softmax in fp16",
        "attention",
        "exp",
        (K.EXPONENTIAL,),
        E,
        dtype=H,
        sites={"softmax": lambda value: (value + 12).exp() / (value + 12).exp().sum(-1, keepdim=True)},
    ),
    Seeded(
        "tenth power in fp16",
        "mlp",
        "__pow__",
        (K.EXPONENTIAL,),
        E,
        dtype=H,
        sites={"hidden": lambda value: (value * 8) ** 12},
    ),
    # log or sqrt of a negative
    Seeded(
        "log of a negative",
        "vae",
        "log",
        (K.OUTSIDE_DOMAIN,),
        E,
        sites={"divergence": lambda mean, log_variance: (mean - 3.0).log().sum(-1)},
    ),
    Seeded(
        "root of a negative variance", "contrastive", "sqrt", (K.OUTSIDE_DOMAIN,), E, sites={"normalise": _variance}
    ),
    Seeded(
        "arc cosine beyond one",
        "recurrent",
        "acos",
        (K.OUTSIDE_DOMAIN,),
        E,
        sites={"logits": lambda value: (value * 40).acos()},
    ),
    # casts
    Seeded("cast to fp16", "mlp", "half", (K.CAST,), E, sites={"hidden": _into_half}),
    Seeded("cast to fp8", "convnet", "to", (K.CAST,), E, sites={"features": _into_eight_bits}),
    Seeded("copied into fp16", "recurrent", "copy_", (K.CAST,), E, sites={"logits": _copied_into_half}),
    # accumulation
    Seeded(
        "sum in fp16",
        "mlp",
        "sum",
        (K.ACCUMULATION,),
        E,
        dtype=H,
        sites={"result": lambda value: (value * 4000 + 9000).sum()},
    ),
    Seeded(
        "scores in fp16",
        "attention",
        "matmul",
        (K.ACCUMULATION,),
        E,
        dtype=H,
        sites={"scores": lambda query, key: torch.matmul(query * 300, key * 300)},
    ),
    Seeded(
        "norm in fp16",
        "contrastive",
        "norm",
        (K.ACCUMULATION,),
        E,
        dtype=H,
        sites={"normalise": lambda value: value / (value * 0 + 30000).norm(dim=-1, keepdim=True)},
    ),
    Seeded(
        "autocast product",
        "mlp",
        "linear",
        (K.ACCUMULATION,),
        E,
        autocast=H,
        sites={"activation": lambda value: (F.gelu(value) * 0 + 1) * 6.4e4},
    ),
    # uninitialised memory
    Seeded("empty read", "mlp", "empty", (K.UNINITIALISED,), E, sites={"hidden": _read_unwritten}, deterministic=True),
    Seeded(
        "empty_like read",
        "convnet",
        "empty_like",
        (K.UNINITIALISED,),
        E,
        sites={"features": _read_unwritten_like},
        deterministic=True,
    ),
    # input data
    Seeded("NaN in the batch", "mlp", "linear", (K.INPUT,), Nature.INHERITED, feed=_nan_in),
    Seeded("infinity in the images", "convnet", "conv2d", (K.INPUT,), Nature.INHERITED, feed=_spoiled),
    Seeded("NaN in the batch of step 1", "vae", "linear", (K.INPUT,), Nature.INHERITED, feed=_nan_in, step=1),
    # gradients scaled too far
    Seeded(
        "loss scaled by hand, fp16",
        "mlp",
        "",
        (K.GRADIENT_SCALED,),
        E,
        phase="backward",
        dtype=H,
        scale=2.0**15,
        sites={"result": lambda value: value.mean() * 8},
    ),
    Seeded(
        "loss scaled by hand, fp16 attention",
        "attention",
        "",
        (K.GRADIENT_SCALED,),
        E,
        phase="backward",
        autocast=H,
        scale=2.0**32,
    ),
    Seeded(
        "loss scaled too far in itself",
        "mlp",
        "mul",
        (K.GRADIENT_SCALED,),
        E,
        dtype=H,
        scale=2.0**15,
        sites={"result": lambda value: value.mean() + 100},
    ),
    # parameters already bad
    Seeded(
        "weight loaded bad",
        "mlp",
        "linear",
        (K.PARAMETER,),
        Nature.INHERITED,
        before=_spoil("second.weight", float("nan")),
    ),
    Seeded(
        "running variance bad",
        "convnet",
        "batch_norm",
        (K.PARAMETER,),
        Nature.INHERITED,
        before=_spoil("norm.weight", INFINITY),
    ),
    # optimizer
    Seeded(
        "Adam without epsilon",
        "contrastive",
        "addcdiv_",
        (K.ZERO_BY_ZERO,),
        E,
        optimizer="adam",
        options={"eps": 0.0},
        sites={"loss": lambda value: value.mean() * 0.0},
    ),
    Seeded(
        "a step that is far too long",
        "mlp",
        "add_",
        (K.ACCUMULATION,),
        E,
        optimizer="sgd",
        options={"lr": 3e38},
        sites={"result": lambda value: value.mean() * 1e3},
    ),
    # kernels that are wrong
    Seeded(
        "gelu kernel gives infinity",
        "mlp",
        "gelu",
        (K.UNKNOWN, K.PRODUCT, K.ACCUMULATION),
        A,
        plant={"torch.nn.functional.gelu": result(lambda out, *_, **__: _one_infinite(out))},
    ),
    Seeded(
        "softmax kernel gives NaN",
        "attention",
        "softmax",
        (K.UNKNOWN, K.EXPONENTIAL, K.INFINITY_MINUS_INFINITY),
        A,
        plant={"torch.softmax": result(lambda out, *_, **__: _one_nan(out))},
    ),
    Seeded(
        "matmul kernel overflows inside",
        "contrastive",
        "matmul",
        (K.UNKNOWN, K.ACCUMULATION, K.ZERO_BY_ZERO),
        A,
        plant={"torch.Tensor.matmul": result(lambda out, *_, **__: _one_infinite(out))},
    ),
)


def _filtered(logits: Tensor) -> Tensor:
    kept = logits.topk(5).values[..., -1:]
    return logits.masked_fill(logits < kept, -INFINITY).softmax(-1).clamp(min=1e-6).log()


def _guarded(value: Tensor) -> Tensor:
    return value / value.norm(dim=-1, keepdim=True).clamp(min=1e-6)


def _closest(value: Tensor) -> Tensor:
    best = torch.full_like(value, INFINITY)
    return torch.minimum(best, value)


def _cleared(value: Tensor) -> Tensor:
    return value + torch.nan_to_num(F.relu(value).detach().log(), nan=0.0, posinf=0.0, neginf=0.0)


def _added_mask(scores: Tensor) -> Tensor:
    return scores + torch.full(scores.shape[-2:], -INFINITY, dtype=scores.dtype).triu(1)


def _fused(logits: Tensor) -> Tensor:
    mask = torch.zeros(12, 12, dtype=logits.dtype).masked_fill(torch.ones(12, 12, dtype=torch.bool).triu(1), -INFINITY)
    x = logits.unsqueeze(1)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask).squeeze(1)


CLEAN: tuple[Clean, ...] = (
    *(Clean(f"masked attention, seed {seed}", "attention", seed=seed) for seed in range(3)),
    Clean("masked attention, bf16", "attention", dtype=B),
    Clean("masked attention, fp16", "attention", dtype=H),
    Clean("masked attention, autocast", "attention", autocast=B),
    Clean("additive mask", "attention", sites={"mask": _added_mask}),
    Clean("fused attention with a mask", "attention", sites={"logits": _fused}),
    Clean("filtered logits", "attention", sites={"logits": _filtered}),
    *(Clean(f"padded batch, seed {seed}", "recurrent", seed=seed) for seed in range(3)),
    Clean("padded batch, bf16", "recurrent", autocast=B),
    Clean("closest so far", "recurrent", sites={"logits": _closest}),
    *(
        Clean(f"guarded norm, seed {seed}", "contrastive", sites={"normalise": _guarded}, seed=seed)
        for seed in range(2)
    ),
    Clean("log of zero cleared", "vae", sites={"deviation": lambda value: _cleared(value).exp()}),
    *(
        Clean(
            f"loss scaler probing, 2**{power}",
            "mlp",
            dtype=torch.float32,
            autocast=H,
            scaler=2.0**power,
            optimizer="adam",
        )
        for power in (16, 24, 40)
    ),
    Clean("loss scaler on attention", "attention", autocast=H, scaler=2.0**32, optimizer="adam"),
    Clean("loss scaler on images", "convnet", autocast=H, scaler=2.0**20),
    Clean("plain images", "convnet"),
    Clean("plain autoencoder", "vae", optimizer="adam"),
)
