"""Clean pairs: two honest ways to compute the same thing, between which a comparison must not raise an alarm.

A difference is either another implementation, planted below the recorder for every call of some operators
(``table``), or another way to run the program (``change``: threads, precision, device). Both sides share the state
after the warm-up step, as two runs from one checkpoint do, unless the pair is ``from_start``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.models import PROGRAMS, Program
from benchmarks.faults.planting import Implementation, effect, instead

FUNCTIONAL = "torch.nn.functional"


@dataclass(frozen=True)
class Clean:
    """One clean pair; ``skip`` says why it cannot run here, if it cannot."""

    name: str
    model: str
    description: str
    table: Mapping[str, Implementation] = field(default_factory=dict)
    change: Callable[[Program], None] | None = None
    setup: Callable[[Program], None] | None = None
    from_start: bool = False
    threads: int | None = None
    skip: str = ""


def _split_matmul(a: Tensor, b: Tensor) -> Tensor:
    """The inner dimension in four parts, added from the last to the first."""
    size = max(1, math.ceil(a.shape[-1] / 4))
    pairs = list(zip(a.split(size, -1), b.split(size, -2), strict=True))
    total = torch.zeros_like(pairs[0][0] @ pairs[0][1])
    for left, right in reversed(pairs):
        total = total + left @ right
    return total


def _split_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = _split_matmul(x, weight.t())
    return out if bias is None else out + bias


def _composed_linear(original: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """matmul and add for addmm, in backward too."""
    out = torch.matmul(x, weight.t())
    return out if bias is None else out + bias


def _split_conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *rest: Any) -> Tensor:
    """Convolution as a matrix product of unfolded patches."""
    columns = F.unfold(x, weight.shape[-2:], padding=padding, stride=stride)
    out = weight.reshape(weight.shape[0], -1) @ columns
    height = (x.shape[-2] + 2 * padding[0] - weight.shape[-2]) // stride[0] + 1
    out = out.reshape(x.shape[0], weight.shape[0], height, -1)
    return out if bias is None else out + bias[:, None, None]


def _channels_last_conv(original: Any, x: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Another memory layout inside the kernel, in backward too."""
    out: Tensor = original(
        x.contiguous(memory_format=torch.channels_last), weight.contiguous(memory_format=torch.channels_last), *rest
    )
    return out.contiguous()


def _softmax(x: Tensor, dim: int, *rest: Any) -> Tensor:
    """exp(x - logsumexp(x))."""
    return torch.exp(x - torch.logsumexp(x, dim, keepdim=True))


def _composed_softmax(original: Any, x: Tensor, dim: int, *rest: Any) -> Tensor:
    """Out of elementary operations, in backward too."""
    powers = torch.exp(x - x.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)


def _layer_norm(x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Two passes, one row after another half."""
    mean = torch.stack(x.chunk(2, -1)).mean(-1).mean(0).unsqueeze(-1)
    centred = x - mean
    variance = centred.square().sum(-1, keepdim=True) / x.shape[-1]
    return centred / torch.sqrt(variance + eps) * weight + bias


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return x - x * 0.5 * torch.erfc(x * math.sqrt(0.5))


def _batch_norm(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, *rest: Any) -> Tensor:
    """Image by image sums, then scale and offset folded into one."""
    count = x.numel() / x.shape[1]
    centre = sum(image.sum((1, 2)) for image in x) / count
    spread = sum((image - centre[:, None, None]).square().sum((1, 2)) for image in x) / count
    scale = weight * torch.rsqrt(spread + rest[-1])
    return x * scale[:, None, None] + (bias - centre * scale)[:, None, None]


def _reversed_sum(x: Tensor, dim: int) -> Tensor:
    total = torch.zeros_like(x.select(dim, 0))
    for part in reversed(x.unbind(dim)):
        total = total + part
    return total


def _attention(original: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention written out, in backward too."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, -1) @ value


def _rms_norm(x: Tensor, shape: Any, weight: Tensor, eps: float) -> Tensor:
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps) * weight


def _cross_entropy(logits: Tensor, labels: Tensor, *rest: Any) -> Tensor:
    """In two halves of the batch, weighted by the labels that count."""
    ignored = rest[2]
    total, count = torch.zeros((), dtype=logits.dtype, device=logits.device), 0
    for part, own in zip(logits.chunk(2), labels.chunk(2), strict=True):
        valid = int((own != ignored).sum())
        total = total + F.cross_entropy(part, own, *rest) * valid
        count += valid
    return total / count


def _to(dtype: torch.dtype) -> Callable[[Program], None]:
    return lambda program: program.convert(dtype=dtype)


def _autocast(dtype: torch.dtype) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        program.autocast = dtype

    return change


def _without_dropout(program: Program) -> None:
    """Devices draw different random numbers, so both sides go without."""
    for module in program.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def _to_cuda(program: Program) -> None:
    program.convert(device="cuda")


SPLIT: dict[str, Implementation] = {
    f"{FUNCTIONAL}.linear": instead(_split_linear),
    "torch.matmul": instead(_split_matmul),
}
COMPOSED: dict[str, Implementation] = {
    f"{FUNCTIONAL}.linear": effect(_composed_linear),
    f"{FUNCTIONAL}.softmax": effect(_composed_softmax),
    f"{FUNCTIONAL}.scaled_dot_product_attention": effect(_attention),
}
RECOMPUTED: dict[str, Implementation] = {
    f"{FUNCTIONAL}.softmax": instead(_softmax),
    "torch.softmax": instead(_softmax),
    f"{FUNCTIONAL}.layer_norm": instead(_layer_norm),
    f"{FUNCTIONAL}.gelu": instead(_gelu),
    f"{FUNCTIONAL}.rms_norm": instead(_rms_norm),
    f"{FUNCTIONAL}.batch_norm": instead(_batch_norm),
    f"{FUNCTIONAL}.cross_entropy": instead(_cross_entropy),
    "torch.sum": instead(_reversed_sum),
}


def _everywhere() -> list[Clean]:
    """Differences that make sense on every program."""
    cuda = "" if torch.cuda.is_available() else "no CUDA device"
    pairs = []
    for model in PROGRAMS:
        pairs += [
            Clean(f"{model}_threads", model, "two threads against one", threads=2),
            Clean(f"{model}_autocast", model, "bfloat16 autocast", change=_autocast(torch.bfloat16)),
            Clean(f"{model}_bfloat16", model, "bfloat16 model", change=_to(torch.bfloat16)),
            Clean(f"{model}_float64", model, "float64 model", change=_to(torch.float64)),
            Clean(f"{model}_recomputed", model, "other honest formulas", table=RECOMPUTED),
            Clean(
                f"{model}_cuda", model, "CPU against CUDA", change=_to_cuda, setup=_without_dropout, skip=cuda
            ),
        ]
    return pairs


def _particular() -> list[Clean]:
    """Differences that belong to some programs."""
    conv = f"{FUNCTIONAL}.conv2d"
    pairs = [
        Clean(f"{model}_split", model, "inner dimension of products in four parts", table=SPLIT)
        for model in ("encoder", "decoder", "recurrent", "vision")
    ]
    pairs += [
        Clean(f"{model}_composed", model, "calls composed of others, in backward too", table=COMPOSED)
        for model in ("encoder", "decoder", "vision")
    ]
    return [
        *pairs,
        Clean("convnet_unfold", "convnet", "convolution as matrix product", table={conv: instead(_split_conv)}),
        Clean("convnet_channels_last", "convnet", "channels-last", table={conv: effect(_channels_last_conv)}),
        Clean("encoder_same", "encoder", "the same run again"),
        Clean("decoder_start_threads", "decoder", "two threads from the start", threads=2, from_start=True),
        Clean(
            "encoder_start_split", "encoder", "products in parts from the start", table=SPLIT, from_start=True
        ),
        Clean(
            "convnet_start_float64",
            "convnet",
            "float64 from the start",
            change=_to(torch.float64),
            from_start=True,
        ),
    ]


def clean_pairs() -> list[Clean]:
    return [*_everywhere(), *_particular()]
