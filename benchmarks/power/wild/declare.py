"""How a kernel of the wild set is declared: a plain function with the signature of a torch operator.

``wrong`` declares one mistake of a kind that audits of generated kernels, issue trackers and fixes tell of, with an
input on which it shows and what it breaks there. ``honest`` declares a kernel that is right in another way than
torch's, with the bound of its error and the inputs on which that is measured. Both inputs are for the verification
alone: the tool that is measured never sees them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.odd_programs.halves import half_of
from benchmarks.power.recipes import ALL, BRAIN, HALF, LOW, SINGLE, Arguments, Draw, call
from benchmarks.power.wild.bounds import Bound, element, of_gradient

__all__ = [
    "ALL",
    "BRAIN",
    "FUNCTIONAL",
    "HALF",
    "LOW",
    "SINGLE",
    "Maker",
    "call",
    "edges",
    "honest",
    "in_single",
    "widened",
    "wrong",
]

FUNCTIONAL = "torch.nn.functional"
BREACHES = (
    "values",  # results, or whether there are any, other than torch's beyond rounding
    "gradient",  # gradients, or whether there are any
    "second",  # the gradient of the gradient
    "signed zero",
    "shape",
    "dtype",
    "strides",
    "alias",  # shares memory with an input where torch does not, or the other way round
    "writes",  # leaves other values in its inputs than torch does
    "detached",  # asks for a gradient where torch does not, or the other way round
    "state",  # a second call with other values at the same place is wrong, or changes the first result
    "random",  # leaves the global random state otherwise than torch, or draws the same numbers again
    "grad mode",  # leaves gradients switched off
    "raises",
    "out",  # ``out=`` is not written
)
OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}
"""torch takes numpy's names of these arguments too."""


class Maker(Draw):
    """Draws the tensors on which a kernel is verified."""

    def of(self, *values: Any) -> Tensor:
        """These values: numbers, or lists of them."""
        return torch.tensor(values, dtype=torch.float64).to(self.dtype)

    def whole(self, *values: Any) -> Tensor:
        return torch.tensor(values)

    def flags(self, *values: Any) -> Tensor:
        return torch.tensor(values, dtype=torch.bool)


Function = Callable[..., Any]
Inputs = Callable[[Maker], Arguments]


@dataclass(frozen=True)
class Kernel:
    """One kernel; ``function`` takes whatever the operator takes."""

    name: str
    api: str
    kind: str
    what: str
    source: str
    dtypes: tuple[torch.dtype, ...]
    inputs: tuple[Inputs, ...]
    function: Function
    module: str
    breaks: str = ""
    bound: Bound | None = None
    gradient_bound: Bound | None = None

    @property
    def is_wrong(self) -> bool:
        return bool(self.breaks)

    @property
    def half(self) -> str:
        return half_of(self.name)

    @property
    def override(self) -> str:
        return f"{self.module}:{self.name}"


KERNELS: dict[str, Kernel] = {}


def wrong(
    api: str,
    kind: str,
    what: str,
    source: str,
    shows: Inputs,
    *,
    breaks: str = "values",
    dtypes: Sequence[torch.dtype] = ALL,
) -> Callable[[Function], Function]:
    """Declares a wrong kernel. ``shows`` makes an input on which ``breaks`` is seen."""
    assert breaks in BREACHES, breaks

    def declared(function: Function) -> Function:
        taken = _taking_out(function)
        _add(Kernel(*_about(function, api, kind, what, source, dtypes), (shows,), taken, function.__module__, breaks))
        return taken

    return declared


def honest(
    api: str,
    what: str,
    source: str,
    *inputs: Inputs,
    bound: Bound | None = None,
    gradient: Bound | None = None,
    dtypes: Sequence[torch.dtype] = ALL,
) -> Callable[[Function], Function]:
    """Declares an honest kernel. ``gradient`` bounds the error of its gradients (as ``bound`` if not given)."""

    def declared(function: Function) -> Function:
        taken, limit = _taking_out(function), bound or element(2)
        about = _about(function, api, "honest", what, source, dtypes)
        _add(Kernel(*about, inputs, taken, function.__module__, "", limit, gradient or of_gradient(limit)))
        return taken

    return declared


def _about(function: Function, api: str, kind: str, what: str, source: str, dtypes: Sequence[torch.dtype]) -> Any:
    return function.__name__, api, kind, what, source, tuple(dtypes)


def _add(kernel: Kernel) -> None:
    assert kernel.name not in KERNELS, f"two kernels are called {kernel.name}"
    KERNELS[kernel.name] = kernel


def _taking_out(function: Function) -> Function:
    """Takes ``out=`` and numpy's names of arguments as torch's operators do, unless the kernel does so itself."""
    parameters = inspect.signature(function).parameters
    own = "out" in parameters
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())

    @functools.wraps(function)
    def taken(*args: Any, **kwargs: Any) -> Any:
        for theirs, ours in OTHER_NAMES.items():
            if theirs in kwargs and not open_ended:
                kwargs[ours] = kwargs.pop(theirs)
        out = None if own else kwargs.pop("out", None)
        result = function(*args, **kwargs)
        return result if out is None else _into(out, result)

    return taken


def _into(out: Any, result: Any) -> Any:
    if isinstance(out, Tensor):
        return out.resize_(result.shape).copy_(result)
    for one, other in zip(out, result, strict=True):
        _into(one, other)
    return out


def widened(function: Function) -> Function:
    """Computes bfloat16 and float16 in float32 and rounds the results once, as kernels do."""

    @functools.wraps(function)
    def computed(*args: Any, **kwargs: Any) -> Any:
        kinds = {one.dtype for one in _tensors((args, kwargs)) if one.is_floating_point()}
        asked = any(isinstance(one, torch.dtype) for one in (*args, *kwargs.values()))  # for results of another dtype
        if asked or len(kinds) != 1 or not kinds <= set(LOW):
            return function(*args, **kwargs)
        (kind,) = kinds
        args, kwargs = _changed((args, kwargs), kind, torch.float32)
        return _changed(function(*args, **kwargs), torch.float32, kind)

    return computed


def in_single(usual: Function) -> Callable[[Function], Function]:
    """For what is good to float32 only: other kinds of numbers are left to the operator itself."""

    def decorated(function: Function) -> Function:
        inner = widened(function)

        @functools.wraps(function)
        def computed(*args: Any, **kwargs: Any) -> Any:
            if any(one.dtype not in ALL for one in _tensors((args, kwargs))):
                return usual(*args, **kwargs)
            return inner(*args, **kwargs)

        return computed

    return decorated


def edges(d: Maker) -> Arguments:
    """Zeros, the infinities, NaN, the largest and the smallest; torch's own gradients overflow there."""
    kind = torch.finfo(d.dtype)
    odd = (0.0, -0.0, float("inf"), -float("inf"), float("nan"), kind.max, kind.tiny, kind.tiny / 4, -kind.tiny)
    return call(d.buffer(d.of(*odd)))


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, dict):
        given = list(given.values())
    return [one for part in given for one in _tensors(part)] if isinstance(given, tuple | list) else []


def _changed(given: Any, before: torch.dtype, after: torch.dtype) -> Any:
    if isinstance(given, Tensor):
        return given.to(after) if given.dtype is before else given
    if isinstance(given, dict):
        return {name: _changed(one, before, after) for name, one in given.items()}
    if isinstance(given, tuple | list):
        made = [_changed(one, before, after) for one in given]
        return type(given)(made)
    return given
