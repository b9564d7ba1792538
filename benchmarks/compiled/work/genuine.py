"""Programs that torch 2.13 itself compiles wrongly on the CPU: the working half."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.spec import How, Where, genuine

_STREAM = [torch.zeros(3)]


@torch.compiler.nested_compile_region
def _layer() -> torch.Tensor:
    return _STREAM[0] * 1.5 + 1


@genuine(
    Where(
        "doubled",
        ("aten.unfold", "aten.mul", "aten.unfold_backward", "aten.as_strided"),
        "programs:frames_in_place.doubled",
    ),
    report="https://github.com/pytorch/pytorch/issues/198102",
    how=How("aot_eager"),
)
def frames_in_place(how: How) -> dict[str, Any]:
    """Frames of a signal that do not touch are enlarged in place; what lies between them becomes zero."""

    def doubled(signal: torch.Tensor) -> torch.Tensor:
        signal.unfold(1, 2, 5).mul_(2.0)
        return signal.tanh()

    run, made = how.compile(doubled), {}
    for index in range(2):
        signal = torch.randn(3, 22)
        made[f"output.{index}"], made[f"signal.{index}"] = run(signal), signal
    return made


@genuine(
    Where("binned", ("aten.div", "aten.floor_divide", "aten.floor"), "binned"),
    report="https://github.com/pytorch/pytorch/issues/197895",
)
def values_in_bins(how: How) -> dict[str, Any]:
    """Values are put into bins by floor division; on a border they fall into the bin above."""

    def binned(values: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
        return (values // width).clamp(0, 20) * 0.5 + values

    values = torch.arange(64).float() * 0.1
    return {"bins": how.compile(binned)(values, torch.full((64,), 0.1))}


@genuine(
    Where("scaled", ("aten.mul", "aten.add", "aten.copy_"), "scaled", step=1),
    report="https://github.com/pytorch/pytorch/issues/139789",
    how=How("aot_eager"),
)
def inputs_that_overlap(how: How) -> dict[str, Any]:
    """A function that changes one input in place is called with two that share memory, after two that did not."""

    def scaled(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        first.mul_(2)
        return first + second

    run = how.compile(scaled)
    apart = run(torch.randn(4), torch.randn(4))
    memory = torch.randn(8)
    return {"apart": apart, "together": run(memory[:4], memory[2:6]), "memory": memory}


@genuine(
    Where("noisy", ("aten.add", "aten.copy_", "aten.dropout"), "noisy"),
    report="https://github.com/pytorch/pytorch/issues/195422",
)
def residual_through_dropout(how: How) -> dict[str, Any]:
    """In evaluation dropout returns what it is given; changing that in place has to change the input."""

    def noisy(stream: torch.Tensor, update: torch.Tensor) -> torch.Tensor:
        kept = F.dropout(stream, 0.1, training=False)
        kept += update
        return kept.sin()

    stream = torch.randn(4, 8)
    output = how.compile(noisy)(stream, torch.randn(4, 8))
    return {"output": output, "stream": stream}


@genuine(
    Where("darkest", ("aten.amin", "aten.min", "aten.argmin"), "darkest"),
    report="https://github.com/pytorch/pytorch/issues/191499",
)
def darkest_pixel(how: How) -> dict[str, Any]:
    """The least of many bytes is zero, though none of them is."""

    def darkest(image: torch.Tensor) -> torch.Tensor:
        return image.amin(-1).float() / 255

    image = torch.randint(9, 200, (4, 200), dtype=torch.uint8)
    return {"darkest": how.compile(darkest)(image)}


@genuine(
    Where("summed", ("aten.abs", "aten.neg", "aten.cat", "aten.sum"), "summed"),
    report="https://github.com/pytorch/pytorch/issues/187018",
)
def bytes_negated(how: How) -> dict[str, Any]:
    """Bytes are negated after their absolute value; the sum takes them for wider integers."""

    def summed(values: torch.Tensor) -> torch.Tensor:
        negated = -values.abs()
        return torch.cat([negated, negated]).sum().float()

    return {"sum": how.compile(summed)(torch.tensor([200, 180, 7], dtype=torch.uint8))}


@genuine(
    Where("stacked", ("aten.add", "aten.mul"), "stacked"),
    report="https://github.com/pytorch/pytorch/issues/191821",
    how=How("eager"),
)
def nested_region_reads_global(how: How) -> dict[str, Any]:
    """A region that is compiled once for all layers reads a global, and reads the first layer's in the second."""

    def stacked(hidden: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            _STREAM[0] = hidden
            hidden = _layer()
        return hidden

    return {"hidden": how.compile(stacked)(torch.randn(3))}


@genuine(
    Where("step", ("aten.addcdiv", "aten.div", "aten.mul", "aten.add"), "adam_by_hand", step=2),
    report="https://github.com/pytorch/pytorch/issues/185382",
)
def adam_reads_its_step(how: How) -> dict[str, Any]:
    """Adam by hand that reads its step as a number; from the third on the number is an earlier one."""

    def adam(value: Any, grad: Any, first: Any, second: Any, count: Any) -> None:
        count.add_(1)
        first.mul_(0.9).add_(grad, alpha=0.1)
        second.mul_(0.999).addcmul_(grad, grad, value=0.001)
        step = count.item()
        size = 0.1 / (1 - 0.9**step)
        value.addcdiv_(first, (second.sqrt() / ((1 - 0.999**step) ** 0.5)).add_(1e-8), value=-size)

    def loop(start: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        value, first, second, count = start.clone(), torch.zeros_like(start), torch.zeros_like(start), torch.zeros(())
        for _ in range(6):
            adam(value, grad, first, second, count)
        return value

    return {"value": how.compile(loop)(torch.randn(16), torch.randn(16))}


@genuine(
    Where("widened", ("aten.mm", "prims.convert_element_type", "aten._to_copy"), "widened", "backward"),
    report="https://github.com/pytorch/pytorch/issues/179804",
    how=How("aot_eager"),
)
def inner_float32_region(how: How) -> dict[str, Any]:
    """A region that leaves autocast computes its backward within autocast."""
    layer, stream = nn.Linear(64, 64), torch.randn(4, 64).bfloat16().requires_grad_()

    def widened(x: torch.Tensor) -> torch.Tensor:
        with torch.amp.autocast("cpu", enabled=False):
            return x.float() @ layer.weight.float().T

    run = how.compile(widened)
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        output = run(stream)
    output.sin().sum().backward()
    return {"output": output.detach(), "grad": layer.weight.grad}
