"""Transforms of functions: vmap, grad, jvp, vjp, jacobians, functionalize, and their nestings."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from benchmarks.odd_programs.registry import Skip, program


@program
def vmap_of_a_layer_over_both_arguments() -> Any:
    seen = []

    def layer(row: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        seen.append((tuple(row.shape), tuple(weight.shape), row.dim(), row.numel()))
        return torch.relu(weight @ row).softmax(0)

    rows, weights = torch.randn(5, 4), torch.randn(3, 4, 5)
    return vmap(layer, in_dims=(0, 2))(rows, weights), vmap(layer, in_dims=(0, 2), out_dims=1)(rows, weights), seen


@program
def vmap_with_random_numbers() -> Any:
    x = torch.ones(6, 4)
    same = vmap(lambda row: nn.functional.dropout(row), randomness="same")(x)
    different = vmap(lambda row: row + torch.randn(4), randomness="different")(x)
    try:
        vmap(lambda row: row + torch.rand(4))(x)
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    return same, different, text


@program
def vmap_refuses_item_and_if() -> Any:
    texts = []
    for function in (lambda row: row.sum().item(), lambda row: row if row.sum() > 0 else -row, torch.Tensor.tolist):
        try:
            vmap(function)(torch.randn(3, 2))
            texts.append("no error")
        except Exception as error:
            texts.append(f"{type(error).__name__}: {str(error)[:160]}")
    return texts


@program
def grad_of_grad_of_grad() -> Any:
    def cube(x: torch.Tensor) -> torch.Tensor:
        return (x**3 * torch.sin(x)).sum()

    x = torch.linspace(-1, 1, 5)
    second = grad(lambda y: grad(cube)(y).sum())
    return grad(cube)(x), second(x), grad(lambda y: second(y).sum())(x), x.requires_grad


@program
def jvp_through_a_network() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2))
    x, direction = torch.randn(3, 4), torch.randn(3, 4)
    value, tangent = jvp(net, (x,), (direction,))
    nested = jvp(lambda y: jvp(net, (y,), (direction,))[1], (x,), (direction,))[1]
    return value, tangent, nested


@program
def vjp_called_twice_with_auxiliary() -> Any:
    x, y = torch.randn(3), torch.randn(3)
    value, pull, auxiliary = vjp(lambda a, b: (torch.outer(a, b).exp(), (a * b).detach()), x, y, has_aux=True)
    return value, pull(torch.ones(3, 3)), pull(torch.eye(3)), auxiliary


@program
def jacobians_forward_and_reverse() -> Any:
    weight = torch.randn(3, 4)

    def function(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"activations": torch.sigmoid(weight @ x), "norm": x.norm()}

    x = torch.randn(4)
    return jacrev(function)(x), jacfwd(function)(x), jacrev(function, chunk_size=1)(x)


@program
def hessian_of_a_loss() -> Any:
    target = torch.randint(3, (5,))

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(torch.linspace(-1, 1, 10).view(5, 2) @ weight, target)

    weight = torch.randn(2, 3)
    return hessian(loss)(weight), vmap(hessian(loss))(torch.stack([weight, weight * 2]))


@program
def gradients_of_each_sample() -> Any:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    parameters = {name: value.detach() for name, value in net.named_parameters()}
    calls = []

    def loss(values: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        calls.append(torch._C._functorch.maybe_get_level(image))
        return nn.functional.cross_entropy(functional_call(net, values, (image[None],)), label[None])

    images, labels = torch.randn(4, 1, 6, 6), torch.randint(3, (4,))
    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels), calls


@program
def functionalize_makes_mutation_pure() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0].add_(1)
        y.view(-1).mul_(2)
        return y

    x = torch.arange(6.0).view(2, 3)
    return functionalize(function)(x), make_fx(functionalize(function, remove="mutations_and_views"))(x).code, x


class _Cube(torch.autograd.Function):
    """Has its own rule for vmap, and counts how often each part is called."""

    calls: list[str] = []

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        _Cube.calls.append("forward")
        return x**3

    @staticmethod
    def setup_context(context: Any, inputs: Any, output: Any) -> None:
        _Cube.calls.append("setup_context")
        context.save_for_backward(*inputs)
        context.save_for_forward(*inputs)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        _Cube.calls.append("backward")
        return 3 * context.saved_tensors[0] ** 2 * gradient

    @staticmethod
    def jvp(context: Any, tangent: torch.Tensor) -> torch.Tensor:
        _Cube.calls.append("jvp")
        return 3 * context.saved_tensors[0] ** 2 * tangent

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        _Cube.calls.append(f"vmap of {info.batch_size}, {info.randomness}, {in_dims}")
        return _Cube.apply(x), in_dims[0]


@program
def custom_function_with_its_own_vmap() -> Any:
    _Cube.calls.clear()
    x = torch.randn(4, 3)
    values = vmap(_Cube.apply)(x), vmap(grad(lambda row: _Cube.apply(row).sum()))(x)
    return values, jvp(_Cube.apply, (x,), (torch.ones_like(x),)), list(_Cube.calls)


@program
def custom_function_with_generated_vmap() -> Any:
    class Scale(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor, factor: float) -> torch.Tensor:
            return x * factor

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            context.factor = inputs[1]

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return gradient * context.factor, None

    x = torch.randn(3, 2)
    return vmap(grad(lambda row: Scale.apply(row, 3.0).pow(2).sum()))(x), grad(lambda y: Scale.apply(y, 2.0).sum())(x)


@program
def dual_numbers_by_hand() -> Any:
    import torch.autograd.forward_ad as forward_ad

    x, tangent = torch.randn(3), torch.randn(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        out = torch.cumprod(dual.sin() * dual, 0)
        primal, moved = forward_ad.unpack_dual(out)
        inner = forward_ad.unpack_dual(dual.view(3, 1)).tangent
    return primal, moved, inner, forward_ad.unpack_dual(out).tangent is None


@program
def linearize_and_apply_often() -> Any:
    if not hasattr(torch.func, "linearize"):
        raise Skip("torch.func.linearize is missing")
    value, push = torch.func.linearize(lambda x: torch.sin(x).cumsum(0), torch.randn(4))
    return value, [push(torch.full((4,), float(i))) for i in range(3)]


@program
def ensemble_of_stacked_modules() -> Any:
    nets = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(nets)
    skeleton = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to("meta")

    def call(values: Any, kept: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(skeleton, (values, kept), (x,))

    out = vmap(call, in_dims=(0, 0, None))(parameters, buffers, torch.randn(5, 3))
    out.sum().backward()
    return out, {name: value.grad for name, value in parameters.items()}


@program
def what_is_printed_inside_of_transforms() -> Any:
    texts: list[str] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        texts.append(repr(y))
        texts.append(f"{torch._C._functorch.is_batchedtensor(y)} {torch._C._functorch.is_gradtrackingtensor(y)}")
        return y.sum()

    vmap(function)(torch.arange(4.0).view(2, 2))
    grad(function)(torch.ones(2))
    vmap(grad(function))(torch.ones(2, 2))
    jvp(function, (torch.ones(2),), (torch.ones(2),))
    return texts


@program
def grad_ignores_no_grad_inside() -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            constant = x.exp()
        return (x * constant).sum()

    x = torch.randn(3)
    with torch.no_grad():
        outside = grad(lambda y: (y**2).sum())(x)
    return grad(function)(x), outside, torch.is_grad_enabled()


@program
def transform_that_raises_in_the_middle() -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        raise ValueError(f"stopped at level {torch._C._functorch.maybe_get_level(y)}")

    texts = []
    for call in (vmap(function), grad(function), vmap(grad(function)), jacrev(function)):
        try:
            call(torch.ones(2, 2))
        except ValueError as error:
            texts.append(str(error))
    return texts, torch._C._functorch.peek_interpreter_stack() is None, vmap(torch.sin)(torch.ones(2))


@program
def mutation_inside_of_vmap() -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        out[1:] += x[:-1]
        out.mul_(x)
        return out

    x = torch.randn(3, 4)
    try:
        vmap(lambda row: torch.zeros(4).add_(row))(x)
        text = "no error"
    except RuntimeError as error:
        text = str(error)[:120]
    return vmap(function)(x), text
