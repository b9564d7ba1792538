"""PyTorch, seen by the probe hook of a pipeline."""

from __future__ import annotations

import contextlib
import copy
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trueline.frameworks.base import Bits, CannotExecute
from trueline.frameworks.probing import Autocast, Leaf, Moved, Operators, Weights, Wide, changed_leaves, leaves
from trueline.frameworks.torch.arrays import bits_of
from trueline.frameworks.torch.names import Names
from trueline.frameworks.torch.rebuild import dtype_name

_MOVES = frozenset(
    ("_to_copy", "to", "copy_", "clone", "detach", "alias", "view", "_unsafe_view", "t", "transpose", "permute",
     "expand", "slice", "select", "empty_like", "zeros_like", "ones_like", "fill_", "zero_", "unsqueeze", "squeeze")
)  # fmt: skip
"""Operators that compute nothing: a cast to bfloat16 and back is no work in low precision."""
_STATEFUL = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase, torch.nn.MultiheadAttention)


class TorchProbing:
    """Answers what the hook asks of PyTorch."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def is_model(self, value: Any) -> bool:
        return isinstance(value, torch.nn.Module)

    def leaf(self, tensor: torch.Tensor) -> Leaf:
        return Leaf(bits_of(tensor), dtype_name(tensor.dtype), tensor.device.type)

    def rows(self, tensor: torch.Tensor, chosen: Sequence[int]) -> torch.Tensor:
        first, last = chosen[0], chosen[-1] + 1
        if list(chosen) == list(range(first, last)):
            return tensor[first:last].clone()
        return tensor[torch.tensor(list(chosen), device=tensor.device)]

    def training(self, model: Any) -> bool | None:
        if not isinstance(model, torch.nn.Module):
            return None
        parts = [part for part in model.modules() if isinstance(part, _STATEFUL)]
        if not parts and isinstance(model, torch.fx.GraphModule | torch.jit.ScriptModule):
            return None  # a graph has its mode built in, and whatever its flag says is not asked
        return any(part.training for part in parts) if parts else bool(model.training)

    def parameters(self, model: Any) -> Iterator[tuple[str, torch.Tensor]]:
        yield from model.named_parameters()
        yield from model.named_buffers()

    @contextlib.contextmanager
    def looking(self, model: Any) -> Iterator[None]:
        buffers = dict(model.named_buffers()) if isinstance(model, torch.nn.Module) else {}
        kept = {name: buffer.detach().clone() for name, buffer in buffers.items()}
        devices = _devices(model)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=devices, enabled=True):
                yield
        finally:
            with torch.no_grad():
                for name, content in kept.items():
                    buffers[name].copy_(content)

    @contextlib.contextmanager
    def nudged(self, value: torch.Tensor, step: Bits) -> Iterator[None]:
        kept = value.detach().clone()
        with torch.no_grad():
            value.copy_(self.added(kept, step))
            try:
                yield
            finally:
                value.copy_(kept)

    def added(self, value: torch.Tensor, step: Bits) -> torch.Tensor:
        return (value.double() + torch.from_numpy(step).to(value.device)).to(value.dtype)

    def in_float64(self, model: Any) -> Wide:
        if any(parameter.is_meta for parameter in model.parameters()):
            raise CannotExecute("its parameters have no content")
        gold = copy.deepcopy(model).double().eval()

        def run(*args: Any, **kwargs: Any) -> Any:
            given = changed_leaves((args, kwargs), _wide)
            with _without_autocast(), _AllWide():
                result = gold(*given[0], **given[1])
            kinds = [leaf.dtype for _, leaf in leaves(result, "") if isinstance(leaf, torch.Tensor)]
            narrow = [kind for kind in kinds if kind.is_floating_point and kind is not torch.float64]
            if narrow:
                raise CannotExecute(f"the model casts to {dtype_name(narrow[0])} by itself")
            return result

        return Wide(gold, run)

    def autocast(self) -> Autocast:
        for device in _kinds():
            if torch.is_autocast_enabled(device):
                return Autocast(True, True, "", dtype_name(torch.get_autocast_dtype(device)))
        return Autocast()

    def why_not_lowered(self) -> str:
        return ""

    def counting(self, model: Any) -> _Counting:
        return _Counting(self, model)

    def scale(self, scaler: Any) -> float | None:
        if not callable(getattr(scaler, "get_scale", None)):
            return None
        return float(scaler.get_scale()) if not hasattr(scaler, "is_enabled") or scaler.is_enabled() else None

    def weights(self, model: Any, optimizer: Any) -> Weights:
        named = _trained(model, optimizer)
        dtypes = Counter(dtype_name(value.dtype) for value in named.values())
        narrow = model is not None and any(value.dtype.itemsize < 4 for value in model.parameters())
        masters = narrow and "float32" in dtypes and not any(value.dtype.itemsize < 4 for value in named.values())
        return Weights(tuple(named), tuple(value.detach().clone() for value in named.values()), dtypes, masters)

    def moved(self, model: Any, optimizer: Any, before: Weights, start: Weights) -> Moved:
        named = _trained(model, optimizer)
        sums: dict[str, float] = defaultdict(float)
        found = False
        with torch.no_grad():
            for value, last, first in zip(named.values(), before.values, start.values, strict=True):
                update = value.double() - last.double()
                sums["update"] += float(update.square().sum())
                sums["distance"] += float((value.double() - first.double()).square().sum())
                if value.grad is None:
                    continue
                found = True
                gradient = value.grad.to_dense() if value.grad.is_sparse else value.grad
                finite = torch.isfinite(gradient)
                sums["bad"] += int(finite.numel() - finite.sum())
                sums["gradient"] += float(gradient.double().square().sum())
                asked = gradient != 0
                sums["asked"] += int(asked.sum())
                sums["stuck"] += int((asked & (update == 0)).sum())
        return Moved(
            math.sqrt(sums["gradient"]) if found else None,
            math.sqrt(sums["update"]),
            math.sqrt(sums["distance"]),
            sums["stuck"] / sums["asked"] if sums["asked"] else None,
            int(sums["bad"]),
        )

    def number(self, value: Any) -> float:
        return float(value.detach()) if isinstance(value, torch.Tensor) else float(value)

    @contextlib.contextmanager
    def lowering(self, model: Any, dtype: str) -> Iterator[None]:
        if self.autocast().asked:
            yield
            return
        device = next((value.device.type for value in model.parameters()), "cpu")
        with torch.autocast(device, dtype=getattr(torch, dtype) if dtype else None):
            yield

    @contextlib.contextmanager
    def keeping(self, names: Sequence[str]) -> Iterator[None]:
        with _Kept(frozenset(names)):
            yield

    @contextlib.contextmanager
    def lowered(self) -> Iterator[dict[str, int]]:
        found: dict[str, int] = {}
        with _Lowered(found):
            yield found


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _kinds() -> list[str]:
    """The kinds of device that there are here."""
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return ["cpu"]
    return ["cpu", accelerator.current_accelerator().type]


@contextlib.contextmanager
def _without_autocast() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for device in _kinds():
            stack.enter_context(torch.autocast(device, enabled=False))
        yield


def _devices(model: Any) -> list[int]:
    if not torch.cuda.is_available() or not isinstance(model, torch.nn.Module):
        return []
    return sorted({one.device.index or 0 for one in model.parameters() if one.device.type == "cuda"})


def _trained(model: Any, optimizer: Any) -> dict[str, torch.Tensor]:
    """What the optimizer changes, by name where the model knows one."""
    names = {} if model is None else {id(value): name for name, value in model.named_parameters()}
    if optimizer is None:
        return {name: value for name, value in model.named_parameters() if value.requires_grad}
    values = [value for group in optimizer.param_groups for value in group["params"]]
    return {names.get(id(value), f"weight {place}"): value for place, value in enumerate(values)}


class _Dtypes(TorchDispatchMode):
    """Sees every operator that torch executes on this thread, those of a backward on the CPU too."""

    def __init__(self, found: Operators) -> None:
        super().__init__()
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        if name not in _MOVES:
            kinds = [leaf.dtype for _, leaf in leaves(result, "") if isinstance(leaf, torch.Tensor)]
            floating = [kind for kind in kinds if kind.is_floating_point]
            if floating:
                self._found.add(name, any(kind.itemsize < 4 for kind in floating))
        return result


class _Counting:
    """A dispatch mode that stays on from one call of the hook to the next."""

    def __init__(self, tools: TorchProbing, model: Any) -> None:
        self._found = Operators()
        self._mode = _Dtypes(self._found)
        self._hook: Any = None
        if isinstance(model, torch.nn.Module):
            self._hook = model.register_forward_pre_hook(self._look)
        self._tools = tools

    def start(self) -> None:
        self._mode.__enter__()

    def stop(self) -> Operators:
        self._mode.__exit__(None, None, None)
        if self._hook is not None:
            self._hook.remove()
        return self._found

    def _look(self, *_: Any) -> None:
        seen = self._tools.autocast()
        if seen.asked:
            self._found.autocast = seen


class _Kept(TorchFunctionMode):
    """Runs the calls of some APIs in float32, outside of autocast."""

    def __init__(self, kept: frozenset[str]) -> None:
        super().__init__()
        self._kept = kept

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _names().name(func) not in self._kept:
            return func(*args, **kwargs)
        given = changed_leaves((tuple(args), dict(kwargs)), _single)
        with _without_autocast():
            return func(*given[0], **given[1])


class _AllWide(TorchFunctionMode):
    """Has a model that casts by itself cast to float64 instead."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _NARROWING:
            return torch.Tensor.double(args[0])
        given = changed_leaves((tuple(args), dict(kwargs or {})), _wide_dtype)
        return func(*given[0], **given[1])


_NARROWING = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


def _wide_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


class _Lowered(TorchFunctionMode):
    """Notes the APIs whose results are narrower than float32."""

    def __init__(self, found: dict[str, int]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kinds = [leaf.dtype for _, leaf in leaves(result, "") if isinstance(leaf, torch.Tensor)]
        if any(kind.is_floating_point and kind.itemsize < 4 for kind in kinds):
            name = _names().name(func)
            if not name.endswith("__get__"):
                self._found[name] = self._found.get(name, 0) + 1
        return result


@cache
def _names() -> Names:
    return Names()


def _single(value: Any) -> Any:
    narrow = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype.itemsize < 4
    return value.float() if narrow else value


def make() -> TorchProbing:
    return TorchProbing()
