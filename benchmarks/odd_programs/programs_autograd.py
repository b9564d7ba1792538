"""Autograd: hooks that change gradients, double backward, checkpoints, saved tensors, anomalies."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from benchmarks.odd_programs.registry import Skip, program


@program
def tensor_hooks_change_gradients() -> Any:
    seen: list[str] = []
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: seen.append("first"))
    y.register_hook(lambda g: g * 10)
    handle = y.register_hook(lambda g: g / 0)
    handle.remove()
    y.retain_grad()
    y.register_hook(lambda g: seen.append(f"last {g.tolist()}"))
    y.sum().backward()
    return x.grad, y.grad, seen, len(y._backward_hooks)


@program
def node_hooks_and_names_of_nodes() -> Any:
    seen: list[str] = []
    x = torch.randn(4, requires_grad=True)
    y = torch.sigmoid(x)[:2].sum()
    node = y.grad_fn
    node.register_prehook(lambda gradients: (gradients[0] * 3,))
    while node is not None:
        seen.append(node.name())
        node.register_hook(lambda gave, got, n=node: seen.append(f"{n.name()} {len(gave)} {len(got)}"))
        node = node.next_functions[0][0] if node.next_functions else None
    y.backward()
    return x.grad, seen


@program
def hook_after_accumulation_steps_an_optimizer() -> Any:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    order: list[str] = []
    names = {value: name for name, value in net.named_parameters()}
    optimizers = {value: torch.optim.Adam([value], lr=0.1) for value in net.parameters()}

    def step(value: torch.Tensor) -> None:
        order.append(names[value])
        optimizers[value].step()
        optimizers[value].zero_grad()

    for value in net.parameters():
        value.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        net(torch.ones(2, 3)).sum().backward()
    return [value.detach() for value in net.parameters()], order, [value.grad for value in net.parameters()]


@program
def module_hooks_of_every_kind() -> Any:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    seen: list[str] = []
    net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    net[0].register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True)
    net[1].register_full_backward_pre_hook(lambda m, gave: (gave[0] * 3,))
    net[2].register_full_backward_hook(lambda m, got, gave: (got[0] * 5,))
    net[0].register_forward_hook(lambda m, args, out: seen.append("always"), always_call=True)
    net[0].register_full_backward_hook(lambda m, got, gave: seen.append(f"{[g is None for g in got]} {len(gave)}"))
    x = torch.ones(2, 3, requires_grad=True)
    out = net(x)
    out.sum().backward()
    return out, x.grad, [value.grad for value in net.parameters()], seen


@program
def global_module_hooks_of_the_user() -> Any:
    from torch.nn.modules import module

    seen: list[str] = []
    handles = [
        module.register_module_forward_pre_hook(lambda m, args: seen.append(f"pre {type(m).__name__}")),
        module.register_module_forward_hook(lambda m, args, out: out + 1 if isinstance(m, nn.Linear) else None),
        module.register_module_full_backward_hook(lambda m, got, gave: seen.append(f"back {type(m).__name__}")),
    ]
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x = torch.ones(1, 3, requires_grad=True)
    out = net(x)
    out.sum().backward()
    counts = [len(module._global_forward_pre_hooks), len(module._global_forward_hooks)]
    for handle in handles:
        handle.remove()
    return out, x.grad, seen, net(x), counts, len(module._global_forward_hooks)


@program
def global_hook_registered_before_and_removed_inside() -> Any:
    from torch.nn.modules import module

    seen: list[str] = []
    handle = module.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    yield
    first = net(torch.ones(1, 2))
    handle.remove()
    second = net(torch.ones(1, 2))
    yield
    return first, second, seen, net(torch.ones(1, 2))


@program
def double_backward_with_gradient_penalty() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))
    x = torch.randn(5, 4, requires_grad=True)
    gradient = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
    penalty = ((gradient.norm(dim=1) - 1) ** 2).mean()
    penalty.backward()
    return penalty, gradient, x.grad, [value.grad for value in net.parameters()]


@program
def backward_twice_with_and_without_retaining() -> Any:
    x = torch.randn(3, requires_grad=True)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    try:
        y.backward()
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    return x.grad, text


@program
def grad_with_unused_and_batched() -> Any:
    x, unused = torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)
    y = x.sin() * 2
    both = torch.autograd.grad(y.sum(), [x, unused], allow_unused=True, retain_graph=True)
    zeros = torch.autograd.grad(y.sum(), [x, unused], materialize_grads=True, retain_graph=True)
    batched = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    return both, zeros, batched


@program
def jacobian_of_the_old_interface() -> Any:
    from torch.autograd.functional import hessian, hvp, jacobian

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x**3).sum()

    x = torch.linspace(0, 1, 3)
    vectorized = jacobian(torch.sigmoid, x, vectorize=True)
    return jacobian(torch.sigmoid, x), vectorized, hessian(function, x), hvp(function, x, torch.ones(3))


@program
def checkpoints_of_both_kinds_with_dropout() -> Any:
    calls: list[str] = []
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.GELU())

    def run(x: torch.Tensor) -> torch.Tensor:
        calls.append(f"grad {torch.is_grad_enabled()}")
        return layer(x)

    results = []
    for reentrant in (True, False):
        layer.zero_grad()
        x = torch.randn(3, 4, requires_grad=True)
        checkpoint(run, x, use_reentrant=reentrant).sum().backward()
        results.append((x.grad, layer[0].weight.grad.clone()))
    return results, calls


@program
def checkpoint_that_stops_early() -> Any:
    calls: list[str] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        calls.append("start")
        y = x.sin().exp()
        calls.append("middle")
        z = y + 1
        calls.append("end")
        return z

    x = torch.randn(3, requires_grad=True)
    checkpoint(run, x, use_reentrant=False).sum().backward()
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        checkpoint(run, x, use_reentrant=False).sum().backward()
    return x.grad, calls


@program
def checkpoint_nested_and_sequential() -> Any:
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))
    x = torch.randn(2, 4, requires_grad=True)
    first = checkpoint_sequential(layers, 2, x, use_reentrant=False)
    nested = checkpoint(lambda y: checkpoint(layers, y, use_reentrant=False) * 2, first, use_reentrant=False)
    nested.sum().backward()
    return nested, x.grad, layers[0][0].weight.grad


@program
def checkpoint_selects_what_is_saved() -> Any:
    try:
        from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    except ImportError:
        raise Skip("selective checkpoints are missing") from None
    asked: list[str] = []

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(f"{operator} {context.is_recompute}")
        keep = operator is torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    x, weight = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    out = checkpoint(
        lambda a, b: torch.sigmoid(a @ b) @ b,
        x,
        weight,
        use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy),
    )
    out.sum().backward()
    return out, x.grad, weight.grad, asked


@program
def checkpoint_notices_another_recomputation() -> Any:
    flips = [0]

    def run(x: torch.Tensor) -> torch.Tensor:
        flips[0] += 1
        return x.sin().cos() if flips[0] == 1 else x.sin()[:2].exp()

    x = torch.randn(3, requires_grad=True)
    try:
        checkpoint(run, x, use_reentrant=False).sum().backward()
        text = "no error"
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:120]}"
    return text, flips


@program
def hooks_on_saved_tensors() -> Any:
    packed: list[str] = []

    def pack(x: torch.Tensor) -> Any:
        packed.append(f"pack {tuple(x.shape)} {x.requires_grad}")
        return x.double() if x.is_floating_point() else x

    def unpack(x: torch.Tensor) -> Any:
        packed.append(f"unpack {tuple(x.shape)}")
        return x.float() if x.is_floating_point() else x

    net = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.LayerNorm(4))
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = net(torch.ones(2, 3)).pow(2).sum()
    with torch.autograd.graph.save_on_cpu():
        other = net(torch.ones(1, 3)).pow(2).sum()
    (loss + other).backward()
    return [value.grad for value in net.parameters()], packed


@program
def saved_tensors_may_not_be_used_again() -> Any:
    texts = []
    with torch.autograd.graph.disable_saved_tensors_hooks("hooks are not welcome"):
        try:
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
                torch.ones(2, requires_grad=True).exp()
        except RuntimeError as error:
            texts.append(str(error))
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    try:
        y.sum().backward()
    except RuntimeError as error:
        texts.append(str(error))
    return texts


@program
def mutation_allowed_on_saved_tensors() -> Any:
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = torch.ones(2, 3, requires_grad=True)
        y = x.clone()
        z = (y**2).sum()
        y.sin_()
        z.backward()
    return x.grad, y


@program
def multi_grad_hooks() -> Any:
    seen: list[str] = []
    tensors = [torch.ones(2, requires_grad=True) for _ in range(3)]
    torch.autograd.graph.register_multi_grad_hook(
        tensors, lambda grads: seen.append(f"all {[g is not None for g in grads]}")
    )
    torch.autograd.graph.register_multi_grad_hook(tensors[:2], lambda g: seen.append("any"), mode="any")
    (tensors[0] * tensors[2]).sum().backward()
    sum(t.sum() for t in tensors).backward()
    return seen, [t.grad for t in tensors]


@program
def anomaly_mode_names_the_forward_call() -> Any:
    import warnings

    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly():
        warnings.simplefilter("always")
        x = torch.zeros(2, requires_grad=True)
        try:
            (torch.sqrt(x) * 0).sum().backward()
            text = "no error"
        except RuntimeError as error:
            text = str(error)
    forward = [line for w in caught for line in str(w.message).splitlines() if "torch.sqrt" in line]
    return text, len(caught), forward


@program
def backward_inside_of_a_hook() -> Any:
    inner: list[torch.Tensor] = []

    def hook(gradient: torch.Tensor) -> None:
        y = torch.ones(2, requires_grad=True)
        with torch.enable_grad():
            (y * gradient.detach()).sum().backward()
        inner.append(y.grad)

    x = torch.full((2,), 3.0, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    y.pow(2).sum().backward()
    return x.grad, inner


@program
def gradient_edges_and_unconnected_graphs() -> Any:
    edge_of = torch.autograd.graph.get_gradient_edge
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    edge = edge_of(y)
    z = y.sum()
    del y
    grad_of_edge = torch.autograd.grad(z, edge, retain_graph=True)[0]
    with torch.no_grad():
        frozen = x * 2
    return grad_of_edge, frozen.grad_fn is None, z.grad_fn.name(), torch.autograd.grad(z, x)


@program
def hooks_on_an_error_in_backward() -> Any:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError(f"no gradient of {gradient.tolist()}")

    x = torch.ones(2, requires_grad=True)
    texts = []
    for _ in range(2):
        try:
            Fails.apply(x * 2).sum().backward()
        except ArithmeticError as error:
            frames, trace = [], error.__traceback__
            while trace is not None:
                if trace.tb_frame.f_code.co_filename == __file__:
                    frames.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
            texts.append((str(error), frames))
    (x * 3).sum().backward()
    return texts, x.grad
