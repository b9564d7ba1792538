"""Implementations that are honest but different, to be used as overrides of any API.

``benchmarks.power.honest:decomposed.torch.nn.functional.gelu`` is ``torch.nn.functional.gelu`` executed by
decompositions. The others are ``references`` (``torch._refs``, forward only: the primitives behind it have no
derivatives), ``compiled`` (torch.compile with inductor), ``traced`` (torch.compile with inductor's decompositions,
executed without generating code), ``relaid`` (the same values in another memory layout) and ``threaded`` (another
number of threads).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.power.recipes import leaves, mapped

THREADS = 4
Function = Callable[..., Any]


class NoSuchImplementation(NotImplementedError):
    """There is no other implementation of this API, or it does not take these arguments."""


class Instead:
    """Names a function of torch by its attributes (``decomposed.torch.add``) and calls another implementation."""

    def __init__(self, run: Callable[..., Any], path: str = "") -> None:
        self._run, self._path = run, path

    def __getattr__(self, part: str) -> Instead:
        if part.startswith("__") and not self._path:
            raise AttributeError(part)
        return Instead(self._run, f"{self._path}.{part}".lstrip("."))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._path, *args, **kwargs)


def attribute(path: str, root: Any = torch, skip: int = 1) -> Function:
    """The function behind a dotted path, from the second part on."""
    found = root
    for part in path.split(".")[skip:]:
        found = getattr(found, part)
    return found


# a call within a context, forward and backward


def within(context: Callable[[], AbstractContextManager[Any]], function: Function, args: Any, kwargs: Any) -> Any:
    """The result of a call whose forward and backward both run inside ``context()``."""
    given = leaves((args, kwargs))
    shape: list[Any] = []

    class Within(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Any:
            inner = [one.detach().requires_grad_(one.requires_grad) for one in tensors]
            source = iter(inner)
            inner_args, inner_kwargs = mapped((args, kwargs), lambda _: next(source))
            with torch.enable_grad(), context():
                result = function(*inner_args, **inner_kwargs)
            shape.append(result)
            ctx.inner, ctx.outputs = inner, leaves(result)
            handed = [one.detach() for one in ctx.outputs]
            ctx.mark_non_differentiable(*(b for a, b in zip(ctx.outputs, handed, strict=True) if not a.requires_grad))
            ctx.set_materialize_grads(False)
            return tuple(handed)

        @staticmethod
        def backward(ctx: Any, *arrived: Tensor | None) -> Any:
            asked = [one for one in ctx.inner if one.requires_grad]
            pairs = [(a, b) for a, b in zip(ctx.outputs, arrived, strict=True) if b is not None and a.requires_grad]
            with context():
                found = torch.autograd.grad(
                    [one for one, _ in pairs], asked, [one for _, one in pairs], allow_unused=True
                )
            source = iter(found)
            return tuple(next(source) if one.requires_grad else None for one in ctx.inner)

    results = iter(Within.apply(*given) if given else ())
    if not shape:
        with context():
            return function(*args, **kwargs)
    return mapped(shape[0], lambda _: next(results))


# decompositions


UNPAIRED = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "made for export: gives the attention weights in the place of "
    "the sums of exponentials that its backward kernel reads",
}
"""Rules that are no implementation of their kernel as autograd uses it, with the reason."""


class Decompose(TorchDispatchMode):
    """Replaces each kernel that torch can express by others, as far down as it goes. A kernel whose rule asks for the
    kernel itself is executed."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = rules().get(func)
        if rule is None or func in self._open or func._schema.name in UNPAIRED:
            return func(*args, **(kwargs or {}))
        self._open.append(func)
        try:
            with self:
                result = rule(*args, **(kwargs or {}))
        finally:
            self._open.pop()
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


def rules() -> dict[Any, Function]:
    from torch._decomp import decomposition_table

    return decomposition_table


def _decomposed(path: str, *args: Any, **kwargs: Any) -> Any:
    return within(Decompose, attribute(path), args, kwargs)


# torch._refs


def has_reference(path: str) -> bool:
    import torch._refs

    try:
        return callable(attribute(path, torch._refs))
    except (AttributeError, RuntimeError):
        return False


def _referenced(path: str, *args: Any, **kwargs: Any) -> Any:
    import torch._refs

    if not has_reference(path):
        raise NoSuchImplementation(f"torch._refs has no {path}")
    with torch.no_grad():
        result = attribute(path, torch._refs)(*args, **kwargs)
    return tuple(result) if hasattr(result, "_fields") else result


# torch.compile


def _compiled(path: str, *args: Any, **kwargs: Any) -> Any:
    return _through_compiler("inductor", path, args, kwargs)


def _traced(path: str, *args: Any, **kwargs: Any) -> Any:
    return _through_compiler("aot_eager_decomp_partition", path, args, kwargs)


def _through_compiler(backend: str, path: str, args: Any, kwargs: Any) -> Any:
    torch._dynamo.reset()
    function = attribute(path)
    # A plain function around it: builtins are not compiled by themselves.
    compiled = torch.compile(lambda *a, **k: function(*a, **k), backend=backend, dynamic=False, fullgraph=True)
    return compiled(*args, **kwargs)


# memory layouts and threads


def relaid_tensor(value: Tensor) -> Tensor:
    """The same values, otherwise in memory: channels last for images, else the first dimension innermost, else every
    other element of a longer vector."""
    if value.numel() < 2 or value.layout is not torch.strided:
        return value
    if value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    if value.dim() > 1:
        return value.transpose(0, -1).contiguous().transpose(0, -1)
    return torch.stack([value, value.detach()], -1)[..., 0]


def shares_memory(function: Function, args: Any, kwargs: Any) -> bool:
    """Whether a result of this call lies in the memory of an argument."""
    given = {leaf.untyped_storage().data_ptr() for leaf in leaves((args, kwargs)) if leaf.numel()}
    with torch.no_grad():
        results = leaves(function(*args, **kwargs))
    return any(one.layout is torch.strided and one.untyped_storage().data_ptr() in given for one in results)


def _alike(left: Tensor, right: Tensor) -> bool:
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _relaid(path: str, *args: Any, **kwargs: Any) -> Any:
    function = attribute(path)
    if shares_memory(function, *mapped((args, kwargs), lambda leaf: leaf.detach().clone())):
        raise NoSuchImplementation("its result is a view: the memory layout is what it is about")
    pairs: list[tuple[Tensor, Tensor]] = []

    def other(leaf: Tensor) -> Tensor:
        made = relaid_tensor(leaf)
        pairs.append((leaf, made))
        return made

    other_args, other_kwargs = mapped((args, kwargs), other)
    result = function(*other_args, **other_kwargs)
    for leaf, made in pairs:
        if not _alike(leaf.detach(), made.detach()):  # state that the call writes to, such as running statistics
            leaf.detach().copy_(made.detach())
    return result


@contextmanager
def other_threads() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _threaded(path: str, *args: Any, **kwargs: Any) -> Any:
    return within(other_threads, attribute(path), args, kwargs)


def _again(path: str, *args: Any, **kwargs: Any) -> Any:
    return within(nullcontext, attribute(path), args, kwargs)


decomposed = Instead(_decomposed)
references = Instead(_referenced)
compiled = Instead(_compiled)
traced = Instead(_traced)
relaid = Instead(_relaid)
threaded = Instead(_threaded)
again = Instead(_again)
