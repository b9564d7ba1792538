"""Paddle, seen by the probe hook of a pipeline."""

from __future__ import annotations

import contextlib
import copy
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import paddle

from trueline.frameworks.base import Bits, CannotExecute
from trueline.frameworks.paddle.arrays import bits_of, dense, device_of
from trueline.frameworks.paddle.autocast import does_nothing
from trueline.frameworks.paddle.rebuild import dtype_name
from trueline.frameworks.probing import Autocast, Leaf, Moved, Operators, Weights, Wide, changed_leaves, leaves

_NARROW = frozenset(("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"))
_MOVES = frozenset(
    ("cast", "assign", "assign_out_", "reshape", "transpose", "full_like", "full", "full_", "copy_to", "concat",
     "split", "slice", "strided_slice", "stack", "squeeze", "unsqueeze", "flatten", "isnan_v2",
     "isinf_v2", "isfinite_v2")
)  # fmt: skip
"""Operators that compute nothing."""
_FLAG = "FLAGS_low_precision_op_list"
_STATEFUL = ("_BatchNormBase", "BatchNorm", "Dropout", "Dropout2D", "Dropout3D", "AlphaDropout", "SyncBatchNorm")


class PaddleProbing:
    """Answers what the hook asks of Paddle."""

    name = "paddle"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, paddle.Tensor)

    def is_model(self, value: Any) -> bool:
        return isinstance(value, paddle.nn.Layer)

    def leaf(self, tensor: Any) -> Leaf:
        return Leaf(bits_of(tensor), dtype_name(tensor.dtype), device_of(tensor))

    def rows(self, tensor: Any, chosen: Sequence[int]) -> Any:
        return paddle.index_select(tensor, paddle.to_tensor(list(chosen), dtype="int64"), axis=0)

    def training(self, model: Any) -> bool | None:
        if not isinstance(model, paddle.nn.Layer) or isinstance(model, paddle.jit.TranslatedLayer):
            return None  # a graph has its mode built in
        parts = [part for part in model.sublayers(include_self=True) if _acts_otherwise(part)]
        return any(part.training for part in parts) if parts else bool(model.training)

    def parameters(self, model: Any) -> Iterator[tuple[str, Any]]:
        yield from model.named_parameters()
        yield from ((name, buffer) for name, buffer in model.named_buffers() if buffer is not None)

    @contextlib.contextmanager
    def looking(self, model: Any) -> Iterator[None]:
        buffers = [one for one in model.buffers() if one is not None] if isinstance(model, paddle.nn.Layer) else []
        kept = [buffer.clone() for buffer in buffers]
        state = paddle.get_rng_state()
        try:
            with paddle.no_grad():
                yield
        finally:
            paddle.set_rng_state(state)
            with paddle.no_grad():
                for buffer, content in zip(buffers, kept, strict=True):
                    paddle.assign(content, buffer)

    @contextlib.contextmanager
    def nudged(self, value: Any, step: Bits) -> Iterator[None]:
        kept = value.detach().clone()
        with paddle.no_grad():
            paddle.assign(self.added(kept, step), value)
            try:
                yield
            finally:
                paddle.assign(kept, value)

    def added(self, value: Any, step: Bits) -> Any:
        return (value.astype("float64") + paddle.to_tensor(step, place=value.place)).astype(value.dtype)

    def in_float64(self, model: Any) -> Wide:
        if isinstance(model, paddle.jit.TranslatedLayer):
            raise CannotExecute("an exported model has its dtypes built in")
        gold = copy.deepcopy(model)
        gold.to(dtype="float64")
        gold.eval()

        def run(*args: Any, **kwargs: Any) -> Any:
            given = changed_leaves((args, kwargs), _wide)
            with paddle.amp.auto_cast(enable=False):
                result = gold(*given[0], **given[1])
            kinds = [dtype_name(leaf.dtype) for _, leaf in leaves(result, "") if isinstance(leaf, paddle.Tensor)]
            narrow = [kind for kind in kinds if kind == "float32" or kind in _NARROW]
            if narrow:
                raise CannotExecute(f"the model casts to {narrow[0]} by itself")
            return result

        return Wide(gold, run)

    def autocast(self) -> Autocast:
        # The function of the same name hides its module.
        state = getattr(sys.modules.get("paddle.amp.auto_cast"), "_g_amp_state_", None)
        if not isinstance(state, Mapping) or not state.get("enable"):
            return Autocast()
        level, dtype = str(state.get("level", "")), state.get("dtype", "")
        name = getattr(dtype, "name", None) or str(dtype)
        return Autocast(True, not self.why_not_lowered(), level, name.rpartition(".")[2].lower())

    def why_not_lowered(self) -> str:
        return does_nothing(paddle.get_device().partition(":")[0])

    def counting(self, model: Any) -> _Counting:
        return _Counting(self, model)

    def scale(self, scaler: Any) -> float | None:
        if scaler is None or not scaler.is_enable():
            return None
        return float(getattr(scaler, "_scale", math.nan))

    def weights(self, model: Any, optimizer: Any) -> Weights:
        named, masters = _trained(model, optimizer)
        dtypes = Counter(dtype_name(value.dtype) for value in named.values())
        return Weights(tuple(named), tuple(value.detach().clone() for value in named.values()), dtypes, masters)

    def moved(self, model: Any, optimizer: Any, before: Weights, start: Weights) -> Moved:
        named, _ = _trained(model, optimizer)
        gradients = _gradients(model, optimizer)
        sums: dict[str, float] = defaultdict(float)
        found = False
        with paddle.no_grad():
            for name, last, first in zip(before.names, before.values, start.values, strict=True):
                value = named[name].astype("float64")
                update = value - last.astype("float64")
                sums["update"] += float(update.square().sum())
                sums["distance"] += float((value - first.astype("float64")).square().sum())
                gradient = gradients.get(name)
                if gradient is None:
                    continue
                found = True
                gradient = dense(gradient).astype("float64")
                sums["bad"] += int((~paddle.isfinite(gradient)).sum())
                sums["gradient"] += float(gradient.square().sum())
                asked = gradient != 0
                sums["asked"] += int(asked.sum())
                sums["stuck"] += int(paddle.logical_and(asked, update == 0).sum())
        return Moved(
            math.sqrt(sums["gradient"]) if found else None,
            math.sqrt(sums["update"]),
            math.sqrt(sums["distance"]),
            sums["stuck"] / sums["asked"] if sums["asked"] else None,
            int(sums["bad"]),
        )

    def number(self, value: Any) -> float:
        return float(value)

    @contextlib.contextmanager
    def lowering(self, model: Any, dtype: str) -> Iterator[None]:
        if self.autocast().asked:
            yield
            return
        with paddle.amp.auto_cast(level="O1", dtype=dtype or "float16"):
            yield

    @contextlib.contextmanager
    def keeping(self, names: Sequence[str]) -> Iterator[None]:
        now = self.autocast()
        if not now.asked:
            yield
            return
        with paddle.amp.auto_cast(custom_black_list=set(names), level=now.level, dtype=now.dtype):
            yield

    @contextlib.contextmanager
    def lowered(self) -> Iterator[dict[str, int]]:
        found: dict[str, int] = {}
        counting = _Counting(self, None)
        counting.start()
        try:
            yield found
        finally:
            found.update(counting.stop().low)


def _acts_otherwise(layer: Any) -> bool:
    return any(kind.__name__ in _STATEFUL for kind in type(layer).__mro__)


def _wide(value: Any) -> Any:
    floating = isinstance(value, paddle.Tensor) and paddle.is_floating_point(value)
    return value.astype("float64") if floating else value


def _parameters(model: Any, optimizer: Any) -> dict[str, Any]:
    if model is not None:
        return {name: value for name, value in model.named_parameters() if not value.stop_gradient}
    return {value.name: value for value in optimizer._parameter_list if not value.stop_gradient}


def _trained(model: Any, optimizer: Any) -> tuple[dict[str, Any], bool]:
    """What the optimizer changes: its own copies in float32 where it keeps some, else the parameters."""
    kept = getattr(optimizer, "_master_weights", None) or {}
    named = _parameters(model, optimizer)
    chosen = {name: kept.get(value.name, value) for name, value in named.items()}
    return chosen, any(chosen[name] is not value for name, value in named.items())


def _gradients(model: Any, optimizer: Any) -> dict[str, Any]:
    return {name: value.grad for name, value in _parameters(model, optimizer).items() if value.grad is not None}


class _Counting:
    """Paddle counts by itself which operators it runs in which dtype, once it is asked to."""

    def __init__(self, tools: PaddleProbing, model: Any) -> None:
        self._tools = tools
        self._found = Operators()
        self._before: Any = None
        self._hook = model.register_forward_pre_hook(self._look) if isinstance(model, paddle.nn.Layer) else None

    def start(self) -> None:
        self._before = paddle.get_flags([_FLAG])[_FLAG]
        paddle.base.core.clear_low_precision_op_list()
        paddle.set_flags({_FLAG: 1})

    def stop(self) -> Operators:
        counts = paddle.base.core.get_low_precision_op_list()
        paddle.set_flags({_FLAG: self._before})
        if self._hook is not None:
            self._hook.remove()
        for name, text in counts.items():
            numbers = [int(part) for part in (text.split(",") if isinstance(text, str) else text)]
            if name in _MOVES:
                continue
            half, brain, *others = numbers
            if half + brain:
                self._found.add(name, True, half + brain)
            if sum(others):
                self._found.add(name, False, sum(others))
        return self._found

    def _look(self, *_: Any) -> None:
        seen = self._tools.autocast()
        if seen.asked:
            self._found.autocast = seen


def make() -> PaddleProbing:
    return PaddleProbing()
