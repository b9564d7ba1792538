"""How a wrong kernel is written down, and the inputs on which it is to be found.

A **recipe** is a function of a ``Draw`` that returns the arguments of one call, in shapes and ranges that models have.
It knows nothing of the mistake. ``Draw`` makes every tensor from a seed of its own, so a recipe gives the same values
in every process, and rounds it once to the dtype of the trial.

A **Wrong** is one kernel: a plain torch function that computes what its API promises, with one mistake.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SINGLE, BRAIN, HALF = torch.float32, torch.bfloat16, torch.float16
ALL = (SINGLE, BRAIN, HALF)
LOW = (BRAIN, HALF)


@dataclass(frozen=True)
class Arguments:
    """What one call is given."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Arguments:
    return Arguments(args, kwargs)


class Draw:
    """Draws the tensors of one case."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, mean: float = 0.0, std: float = 1.0) -> Tensor:
        """Activations."""
        return (torch.randn(shape, generator=self._generator) * std + mean).to(self.dtype)

    def weight(self, *shape: int) -> Tensor:
        """A weight as layers initialise it: uniform, in proportion to the inverse root of its inputs."""
        bound = 1 / math.sqrt(math.prod(shape[1:]) or 1)
        return self.uniform(*shape, low=-bound, high=bound)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return (torch.rand(shape, generator=self._generator) * (high - low) + low).to(self.dtype)

    def gain(self, size: int) -> Tensor:
        """The weight of a norm after some training."""
        return self.normal(size, mean=1.0, std=0.1)

    def relu(self, *shape: int) -> Tensor:
        """Activations behind a relu: half of them zero."""
        return self.normal(*shape).clamp_min(0)

    def integers(self, *shape: int, high: int, low: int = 0) -> Tensor:
        return torch.randint(low, high, shape, generator=self._generator)

    def tokens(self, *shape: int, vocabulary: int) -> Tensor:
        """Token numbers as texts have them: small ones often, so that many repeat."""
        share = torch.rand(shape, generator=self._generator) ** 3
        return (share * vocabulary).long().clamp(max=vocabulary - 1)

    def mask(self, *shape: int, share: float = 0.2) -> Tensor:
        return torch.rand(shape, generator=self._generator) < share

    @staticmethod
    def buffer(value: Tensor) -> Tensor:
        """A tensor that is state, not a parameter: it asks for no gradient."""
        value.is_state = True  # type: ignore[attr-defined]
        return value


Recipe = Callable[[Draw], Arguments]
Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Wrong:
    """One wrong kernel. ``override`` is how the command line names it; ``direction`` says where the mistake is."""

    id: str
    api: str
    kind: str
    mistake: str
    direction: str
    dtypes: tuple[torch.dtype, ...]
    recipes: tuple[Recipe, ...]
    override: str

    @property
    def held_out(self) -> bool:
        return is_held_out(self.id)


REGISTRY: dict[str, Wrong] = {}


def is_held_out(name: str) -> bool:
    """Whether a name belongs to the third that is measured but never looked at while a standard is made."""
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def wrong(
    api: str,
    kind: str,
    mistake: str,
    *recipes: Recipe,
    dtypes: Sequence[torch.dtype] = ALL,
    direction: str = "forward",
    single: bool = True,
) -> Callable[[Kernel], Kernel]:
    """Registers a function as a wrong kernel of ``api``. With ``single`` it computes in float32 where it is given half
    precision, as good kernels do, and rounds once at the end."""

    def register(function: Kernel) -> Kernel:
        name = function.__name__  # type: ignore[attr-defined]
        if name in REGISTRY:
            raise ValueError(f"two wrong kernels are named {name}")
        override = f"{function.__module__}:{name}"
        REGISTRY[name] = Wrong(name, api, kind, mistake, direction, tuple(dtypes), recipes, override)
        return in_single(function) if single else function

    return register


def backward(
    api: str, kind: str, mistake: str, *recipes: Recipe, dtypes: Sequence[torch.dtype] = ALL
) -> Callable[[Kernel], Kernel]:
    """Registers a kernel whose forward is right and whose gradient is wrong."""
    return wrong(api, kind, mistake, *recipes, dtypes=dtypes, direction="backward")


def in_single(function: Kernel) -> Kernel:
    """The same function, computing in float32 where its tensors are float16 or bfloat16."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        found = [leaf for leaf in leaves((args, kwargs)) if leaf.dtype in LOW]
        if not found:
            return function(*args, **kwargs)
        wide_args, wide_kwargs = mapped((args, kwargs), lambda leaf: leaf.float() if leaf.dtype in LOW else leaf)
        result = function(*wide_args, **wide_kwargs)
        return mapped(result, lambda leaf: leaf.to(found[0].dtype) if leaf.dtype == SINGLE else leaf)

    return kernel


def mapped(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """A tree of tuples, lists and dicts with each tensor changed."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(item, change) for item in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(mapped(item, change) for item in tree)
    if isinstance(tree, dict):
        return {key: mapped(value, change) for key, value in tree.items()}
    return tree


def wants_gradient(leaf: Tensor) -> bool:
    return leaf.is_floating_point() and not getattr(leaf, "is_state", False)


def leaves(tree: Any) -> list[Tensor]:
    found: list[Tensor] = []
    mapped(tree, lambda leaf: found.append(leaf))
    return found


def regraded(function: Kernel, change: Callable[..., Sequence[Tensor | None]]) -> Kernel:
    """``function`` with another gradient: ``change(gradients, inputs, arrived)`` is given the honest gradients of the
    tensor arguments (None where there is none), those arguments and the gradients that arrived, and returns the
    gradients to hand on."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = leaves((args, kwargs))

        class Regraded(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *tensors: Tensor) -> Any:
                inner = [one.detach().requires_grad_(one.requires_grad) for one in tensors]
                source = iter(inner)
                with torch.enable_grad():
                    inner_args, inner_kwargs = mapped((args, kwargs), lambda _: next(source))
                    ctx.result = function(*inner_args, **inner_kwargs)
                ctx.inner = inner
                return mapped(ctx.result, lambda leaf: leaf.detach())

            @staticmethod
            def backward(ctx: Any, *arrived: Tensor) -> Any:
                asked = [one for one in ctx.inner if one.requires_grad]
                outputs = [one for one in leaves(ctx.result) if one.requires_grad]
                source = iter(torch.autograd.grad(outputs, asked, arrived[: len(outputs)], allow_unused=True))
                gradients = [next(source) if one.requires_grad else None for one in ctx.inner]
                return tuple(change(gradients, [one.detach() for one in ctx.inner], list(arrived)))

        return Regraded.apply(*given)

    return kernel


def unfelt(value: Tensor | None) -> Tensor:
    """Zeros in place of a parameter that a kernel forgets; its gradient still arrives, so only the result tells."""
    assert value is not None
    return value - value.detach()


def truncated(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The value in ``dtype``, cut towards zero instead of rounded."""
    bits = value.float().view(torch.int32) & -(1 << (16 if dtype == BRAIN else 13))
    return bits.view(SINGLE).to(value.dtype)


def reshown(function: Kernel, change: Callable[[Tensor], Tensor]) -> Kernel:
    """``function`` with another output: ``change`` of the right one. Its gradient stays right."""

    def kernel(*args: Any) -> Tensor:
        class Reshown(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, right: Tensor) -> Tensor:
                return change(right)

            @staticmethod
            def backward(ctx: Any, arrived: Tensor) -> Tensor:
                return arrived

        return Reshown.apply(function(*args))

    return kernel


def cut_to_its_dtype(function: Kernel, *args: Tensor) -> Tensor:
    """``function`` computed in float32 from half precision and cut to it instead of rounded."""
    dtype = args[0].dtype
    return reshown(function, lambda right: truncated(right, dtype))(*(one.float() for one in args)).to(dtype)
