"""Functions of the user's own in autograd and in the dispatcher."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import Skip, program


@program
def function_that_works_in_place() -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            context.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    x = torch.ones(3, requires_grad=True)
    y = x.clone()
    before = y._version
    z = Double.apply(y)
    z.sum().backward()
    return x.grad, z is y, before, y._version, type(y.grad_fn).__name__


@program
def function_with_outputs_without_gradient() -> Any:
    class Largest(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, str]:
            values, places = x.max(1)
            context.save_for_backward(places)
            context.shape = x.shape
            context.mark_non_differentiable(places)
            context.set_materialize_grads(False)
            return values, places, "a text as well"

        @staticmethod
        def backward(context: Any, gradient: Any, none: Any, text: Any) -> Any:
            seen.append((gradient is None, none is None, text is None, context.needs_input_grad))
            return torch.zeros(context.shape).scatter_(1, context.saved_tensors[0][:, None], gradient[:, None])

    seen: list[Any] = []
    x = torch.randn(2, 4, requires_grad=True)
    values, places, text = Largest.apply(x)
    values.sum().backward()
    return x.grad, places, text, places.requires_grad, seen


@program
def function_differentiable_once() -> Any:
    from torch.autograd.function import once_differentiable

    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            context.save_for_backward(y)
            return y

        @staticmethod
        @once_differentiable
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * context.saved_tensors[0]

    x = torch.ones(2, requires_grad=True)
    first = torch.autograd.grad(Exponential.apply(x).sum(), x, create_graph=True)[0]
    try:
        first.sum().backward()
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    return first, text


@program
def function_that_returns_views_and_inputs() -> Any:
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> Any:
            return x, x.view(-1), x[0]

        @staticmethod
        def backward(context: Any, whole: Any, flat: Any, row: Any) -> Any:
            out = whole + flat.view(2, 2)
            out[0] += row
            return out

    x = torch.ones(2, 2, requires_grad=True)
    whole, flat, row = Parts.apply(x)
    (whole.sum() + (flat * 2).sum() + (row * 3).sum()).backward()
    texts = []
    for out in (flat, row):
        try:
            out.mul_(2)
            texts.append("no error")
        except RuntimeError as error:
            texts.append(str(error)[:100])
    return x.grad, whole._is_view(), flat._is_view(), flat._base is x, texts


@program
def function_that_keeps_attributes_and_objects() -> Any:
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor, options: dict[str, Any], *rest: Any) -> torch.Tensor:
            context.options, context.rest = options, rest
            context.save_for_backward(x, None, x.detach())
            return x * options["factor"]

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> Any:
            seen.append([s is None for s in context.saved_tensors])
            seen.append((type(context).__name__, context.options is options, len(context.rest)))
            return gradient * context.options["factor"], None, *(None for _ in context.rest)

    seen: list[Any] = []
    options = {"factor": 3.0, "nested": [torch.ones(1)]}
    x = torch.ones(2, requires_grad=True)
    y = Keeps.apply(x, options, "rest", 4)
    seen.append((y.grad_fn.options is options, y.grad_fn.rest, y.grad_fn.name()))
    y.sum().backward()
    return x.grad, seen


@program
def function_applied_in_a_function() -> Any:
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            seen.append(("inner", torch.is_grad_enabled()))
            return x.sin()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 7

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                context.leaf = x.detach().requires_grad_()
                context.out = Inner.apply(context.leaf) * 2
            return context.out.detach()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            seen.append(("outer", torch.is_grad_enabled()))
            return torch.autograd.grad(context.out, context.leaf, gradient)[0]

    seen: list[Any] = []
    x = torch.ones(2, requires_grad=True)
    Outer.apply(x).sum().backward()
    return x.grad, seen


@program
def function_whose_gradient_has_the_wrong_shape() -> Any:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor, how: str) -> torch.Tensor:
            context.how = how
            return x * 1

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> Any:
            return {"shape": (gradient[:1, :1].expand(5, 5), None), "count": gradient, "none": (None, None)}[
                context.how
            ]

    texts = []
    for how in ("shape", "count", "none"):
        x = torch.ones(2, 3, requires_grad=True)
        try:
            Wrong.apply(x, how).sum().backward()
            texts.append(f"gradient is {x.grad}")
        except RuntimeError as error:
            texts.append(str(error))
    return texts


@program
def function_that_calls_backward_of_a_subclass() -> Any:
    class Base(torch.autograd.Function):
        factor = 1.0

        @classmethod
        def forward(cls, context: Any, x: torch.Tensor) -> torch.Tensor:
            return x * cls.factor

        @classmethod
        def backward(cls, context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * cls.factor

    class Tripled(Base):
        factor = 3.0

    x = torch.ones(2, requires_grad=True)
    (Tripled.apply(x) + Base.apply(x)).sum().backward()
    return x.grad, Tripled.__mro__[1] is Base, callable(Tripled.apply), Tripled.apply.__self__ is Tripled


@program
def clean_up_of_contexts() -> Any:
    import gc
    import weakref

    class Holder:
        pass

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor, holder: Any) -> torch.Tensor:
            context.holder = holder
            return x * 2

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> Any:
            return gradient * 2, None

    holder = Holder()
    alive = weakref.ref(holder)
    x = torch.ones(2, requires_grad=True)
    y = Keeps.apply(x, holder)
    del holder
    states = [alive() is not None]
    y.sum().backward()
    states.append(alive() is not None)
    del y
    states.append(alive() is not None)
    gc.collect()
    return states, alive() is not None


@program
def custom_operator_with_fake_and_autograd() -> Any:
    if not hasattr(torch.library, "custom_op"):
        raise Skip("torch.library.custom_op is missing")
    calls: list[str] = []

    @torch.library.custom_op("odd_programs::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        calls.append(f"kernel {type(x).__name__} {x.requires_grad}")
        return x * factor

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    scale.register_fake(lambda x, factor: torch.empty_like(x))
    scale.register_autograd(lambda ctx, gradient: (gradient * ctx.factor, None), setup_context=set_up)
    x = torch.ones(3, requires_grad=True)
    scale(x, 2.0).sum().backward()
    compiled = torch.compile(lambda v: scale(v, 4.0) + 1, backend="eager", fullgraph=True)(torch.ones(2))
    return x.grad, compiled, torch.ops.odd_programs.scale(torch.ones(1), 5.0), calls


@program
def custom_operator_that_mutates() -> Any:
    if not hasattr(torch.library, "custom_op"):
        raise Skip("torch.library.custom_op is missing")

    @torch.library.custom_op("odd_programs::fill_with", mutates_args={"out"})
    def fill_with(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x * 2)

    out = torch.zeros(3)
    before = out._version
    returned = fill_with(torch.ones(3), out)
    return out, before, out._version, returned, str(torch.ops.odd_programs.fill_with.default._schema)


@program
def operators_of_a_library_with_python_kernels() -> Any:
    calls: list[str] = []
    library = torch.library.Library("odd_library", "DEF")
    library.define("twice(Tensor x) -> (Tensor, Tensor)")
    library.impl("twice", lambda x: (calls.append("cpu"), (x + 1, x + 2))[1], "CPU")
    library.impl("twice", lambda x: (calls.append("meta"), (x.new_empty(x.shape),) * 2)[1], "Meta")
    a, b = torch.ops.odd_library.twice(torch.ones(2))
    c, _ = torch.ops.odd_library.twice(torch.ones(2, device="meta"))
    return a, b, c.device.type, calls, type(torch.ops.odd_library.twice).__name__


@program
def overridden_kernel_of_an_operator() -> Any:
    calls: list[str] = []
    library = torch.library.Library("aten", "IMPL")
    library.impl("erfinv", lambda x: (calls.append("mine"), torch.zeros_like(x))[1], "CPU")
    inside = torch.erfinv(torch.full((2,), 0.5)), torch.special.erfinv(torch.full((2,), 0.1))
    library._destroy()
    return inside, torch.erfinv(torch.full((2,), 0.5)), calls


@program
def operators_called_directly() -> Any:
    x = torch.randn(3, 3, requires_grad=True)
    y = torch.ops.aten.add.Tensor(x, x, alpha=2)
    z = torch._C._VariableFunctions.sin(y)
    w = torch.ops.aten.native_layer_norm(z, [3], None, None, 1e-5)
    w[0].pow(2).sum().backward()
    out = torch.empty(0)
    torch.ops.aten.mul.out(y.detach(), 2, out=out)
    overloads = torch.ops.aten.add.overloads()
    return w, x.grad, out, overloads, str(torch.ops.aten.add.Tensor), torch.add is torch._C._VariableFunctions.add


@program
def fused_kernels_with_python_fallbacks() -> Any:
    x = torch.randn(2, 3, 4)
    linear = nn.Linear(4, 4)
    packed = torch._foreach_add([x, x * 2], 1.0)
    torch._foreach_mul_(packed, [2.0, 3.0])
    norms = torch._foreach_norm(packed)
    addcdiv = torch._foreach_addcdiv(packed, [x, x], [x + 9, x + 9], value=0.5)
    return (
        packed,
        norms,
        addcdiv,
        torch.addmm(linear.bias, x[0], linear.weight.T),
        torch.baddbmm(x, x[..., :1], x[:, :1]),
    )


@program
def scripted_class_and_torchbind_like_state() -> Any:
    @torch.jit.script
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def step(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x * self.count

    counter = Counter(3)
    return counter.step(torch.ones(2)), counter.step(torch.ones(2)), counter.count
