"""Subclasses of tensors and other classes that take part in torch's protocols."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from benchmarks.odd_programs.registry import Skip, program


class Named(torch.Tensor):
    """Logs what ``__torch_function__`` is told."""

    log: list[str] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.log.append(f"{getattr(function, '__name__', function)} {[t.__name__ for t in types]}")
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapped(torch.Tensor):
    """Holds another tensor and has no memory of its own; logs its operators."""

    inner: torch.Tensor
    log: list[str] = []
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor, requires_grad: bool = False) -> Wrapped:
        self = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, strides=inner.stride(), requires_grad=requires_grad
        )
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.log.append(str(function))
        unwrap = lambda x: x.inner if isinstance(x, Wrapped) else x  # noqa: E731
        out = function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(lambda x: Wrapped(x) if isinstance(x, torch.Tensor) else x, out)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Wrapped({self.inner})"


class Marked(torch.Tensor):
    """Says what it is, also after a copy."""

    def new_empty(self, *sizes: Any, **kwargs: Any) -> Marked:
        return super().new_empty(*sizes, **kwargs).as_subclass(Marked)


def _plain(x: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return x.detach().as_subclass(torch.Tensor)


@program
def subclass_that_logs_functions() -> Any:
    Named.log.clear()
    x = torch.arange(6.0).view(2, 3).as_subclass(Named)
    y = torch.cat([x, x * 2]).sum(0)
    y[0] = 1
    z = nn.functional.layer_norm(y, (3,))
    return [type(v).__name__ for v in (x, y, z, z.shape, z.T)], _plain(z), list(Named.log)


@program
def subclass_that_logs_under_autograd() -> Any:
    Named.log.clear()
    x = torch.randn(3).as_subclass(Named).requires_grad_()
    (x.exp() * x).sum().backward()
    kinds = [type(x.grad).__name__, type(x.detach()).__name__, type(x.data).__name__]
    return kinds, _plain(x.grad), list(Named.log)


@program
def wrapper_subclass_forward_and_backward() -> Any:
    Wrapped.log.clear()
    x = Wrapped(torch.randn(2, 3), requires_grad=True)
    weight = torch.randn(4, 3, requires_grad=True)
    out = nn.functional.gelu(nn.functional.linear(x, weight))
    out.sum().backward()
    return repr(out), repr(x.grad), repr(weight.grad), list(Wrapped.log)


@program
def wrapper_subclass_as_parameter_of_a_module() -> Any:
    Wrapped.log.clear()
    net = nn.Linear(3, 2)
    net.weight = nn.Parameter(Wrapped(net.weight.detach().clone()))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return repr(net.weight), type(net.weight).__name__, repr(net.weight.grad), list(Wrapped.log)


@program
def wrapper_subclass_that_lies_about_its_size() -> Any:
    class Padded(Wrapped):
        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Padded:
            self = torch.Tensor._make_wrapper_subclass(cls, (1000, 1000), dtype=torch.float64)
            self.inner = inner
            return self

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.log.append(str(function))
            unwrap = lambda x: x.inner if isinstance(x, Padded) else x  # noqa: E731
            out = function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
            return tree_map(lambda x: Padded(x) if isinstance(x, torch.Tensor) else x, out)

    Wrapped.log.clear()
    x = Padded(torch.ones(2))
    y = torch.exp(x) + x
    return y.inner, tuple(y.shape), str(y.dtype), list(Wrapped.log)


@program
def wrapper_subclass_that_refuses_most_operators() -> Any:
    class Shy(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.log.append(str(function))
            if function is not torch.ops.aten.mul.Tensor:
                raise NotImplementedError(f"{function} is not for Shy")
            return Shy(args[0].inner * args[1])

    Wrapped.log.clear()
    x = Shy(torch.ones(2)) * 3
    try:
        torch.exp(x)
        text = "no error"
    except NotImplementedError as error:
        text = str(error)
    return x.inner, text, list(Wrapped.log)


@program
def two_subclasses_decide_who_answers() -> Any:
    log: list[str] = []

    class Base(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append(f"{cls.__name__} {function.__name__}")
            return NotImplemented if cls.answer is False else f"{cls.__name__} answers"

        answer = True

    class Younger(Base):
        answer = False

    class Stranger(Base):
        answer = False

    base, younger, stranger = (torch.ones(1).as_subclass(kind) for kind in (Base, Younger, Stranger))
    answers = [torch.add(base, younger), torch.add(younger, base)]
    try:
        torch.add(younger, stranger)
    except TypeError as error:
        answers.append(str(error))
    return answers, log


@program
def class_that_is_no_tensor_answers_torch_functions() -> Any:
    log: list[str] = []

    class Scalar:
        def __init__(self, value: float) -> None:
            self.value = value

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append(f"{function.__name__} {[t.__name__ for t in types]}")
            return Scalar(sum(a.value if isinstance(a, Scalar) else 0 for a in args))

    a, b = Scalar(2.0), Scalar(5.0)
    results = [torch.add(a, b), torch.add(a, torch.ones(2)), torch.mean(a), nn.functional.relu(b), torch.mul(a, b)]
    return [r.value for r in results], log


@program
def subclass_copied_pickled_and_saved() -> Any:
    x = torch.arange(3.0).as_subclass(Marked)
    x.note = "kept"
    twin = copy.deepcopy(x)
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    names = [type(v).__name__ for v in (twin, loaded, copy.copy(x))]
    return names, twin.note, loaded.note, _plain(loaded)


@program
def subclass_that_counts_attribute_access() -> Any:
    class Counting(torch.Tensor):
        seen: list[str] = []

        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("__"):
                Counting.seen.append(name)
            return super().__getattribute__(name)

    x = torch.ones(2, 2).as_subclass(Counting)
    y = torch.exp(x).sum()
    net = nn.Identity()
    net(x)
    return float(_plain(y)), list(Counting.seen)


@program
def subclass_with_its_own_len_bool_and_iter() -> Any:
    calls: list[str] = []

    class Chatty(torch.Tensor):
        def __len__(self) -> int:
            calls.append("len")
            return 99

        def __bool__(self) -> bool:
            calls.append("bool")
            return False

        def __iter__(self) -> Any:
            calls.append("iter")
            return iter(())

        def __eq__(self, other: object) -> Any:
            calls.append("eq")
            return True

        def __hash__(self) -> int:
            calls.append("hash")
            return id(self)

    x = torch.ones(3).as_subclass(Chatty)
    y = torch.add(x, 1)
    net = nn.Linear(3, 2)
    net(x)
    return _plain(y), calls


@program
def two_tensors_in_one() -> Any:
    try:
        from torch.testing._internal.two_tensor import TwoTensor
    except ImportError:
        raise Skip("TwoTensor is missing") from None
    x = TwoTensor(torch.randn(3), torch.randn(3)).requires_grad_()
    y = (x * 2).sin()
    y.sum().backward()
    return y.a.detach(), y.b.detach(), x.grad.a, x.grad.b


@program
def masked_tensor_arithmetic() -> Any:
    from torch.masked import masked_tensor

    x = masked_tensor(torch.arange(4.0), torch.tensor([True, False, True, False]), requires_grad=True)
    y = x * 2 + 1
    y.sum().backward()
    return repr(y), repr(x.grad), repr(y.mean())


@program
def parameter_and_buffer_subclasses() -> Any:
    class Scaled(nn.Parameter):
        def __new__(cls, data: torch.Tensor, scale: float = 2.0) -> Scaled:
            self = super().__new__(cls, data)
            self.scale = scale
            return self

    net = nn.Module()
    net.weight = Scaled(torch.ones(2), 3.0)
    net.register_buffer("kept", torch.ones(1).as_subclass(Named))
    kinds = [type(value).__name__ for value in (*net.parameters(), *net.buffers())]
    (net.weight * net.weight.scale).sum().backward()
    return kinds, net.weight.grad, isinstance(net.weight, nn.Parameter), net.weight.scale


@program
def reentrant_dispatch_inside_of_a_subclass() -> Any:
    class Reentrant(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.log.append(str(function))
            with torch.overrides.enable_reentrant_dispatch():
                inner = args[0].inner.detach().requires_grad_()
                with torch.enable_grad():
                    out = function(inner, *args[1:], **(kwargs or {})).sum()
                return torch.autograd.grad(out, inner)[0]

    if not hasattr(torch.overrides, "enable_reentrant_dispatch"):
        raise Skip("enable_reentrant_dispatch is missing")
    Wrapped.log.clear()
    return torch.sin(Reentrant(torch.ones(3))), list(Wrapped.log)
