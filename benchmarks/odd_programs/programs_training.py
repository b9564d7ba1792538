"""Trainings: optimizers of every kind, scalers, autocast, inference, and the modes of numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import Skip, program


def _net() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def _train(make: Any, steps: int = 3, **options: Any) -> list[torch.Tensor]:
    net = _net()
    optimizer = make(net.parameters(), **options)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(torch.ones(3, 4)), torch.zeros(3, 2)).backward()
        optimizer.step()
    return [value.detach() for value in net.parameters()]


@program
def optimizers_in_a_loop_foreach_and_fused() -> Any:
    results = {}
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        for way in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            results[f"{kind.__name__} {way}"] = _train(kind, lr=0.1, **way)
    return results


@program
def optimizers_of_many_kinds() -> Any:
    names = ("Adadelta", "Adafactor", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
    return {name: _train(getattr(torch.optim, name)) for name in names if hasattr(torch.optim, name)}


@program
def lbfgs_calls_its_closure() -> Any:
    net = _net()
    calls: list[float] = []
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=6, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(2, 4)).pow(2).sum()
        loss.backward()
        calls.append(loss.item())
        return loss

    first = optimizer.step(closure)
    return first, calls, list(net.parameters()), optimizer.state_dict()["state"][0]["n_iter"]


@program
def optimizer_hooks_and_a_subclass() -> Any:
    seen: list[str] = []

    class Signs(torch.optim.Optimizer):
        def __init__(self, parameters: Any, lr: float = 0.1) -> None:
            super().__init__(parameters, {"lr": lr})

        @torch.no_grad()
        def step(self, closure: Any = None) -> str:
            for group in self.param_groups:
                for value in group["params"]:
                    value.sub_(value.grad.sign(), alpha=group["lr"])
            return "what step returns"

    net = _net()
    optimizer = Signs(net.parameters())
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: seen.append("after"))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=4, cycle_momentum=False)
    rates = []
    for _ in range(3):
        net(torch.ones(1, 4)).sum().backward()
        seen.append(optimizer.step())
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    return list(net.parameters()), seen, rates, optimizer.step.__name__, Signs.step.__qualname__.split(".")[-1]


@program
def schedulers_warn_about_their_order() -> Any:
    optimizer = torch.optim.SGD(_net().parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    schedule.step()
    optimizer.step()
    chained = torch.optim.lr_scheduler.SequentialLR(
        optimizer, [torch.optim.lr_scheduler.ConstantLR(optimizer), schedule], milestones=[2]
    )
    for _ in range(3):
        optimizer.step()
        chained.step()
    return (
        optimizer.param_groups[0]["lr"],
        hasattr(optimizer.step, "_wrapped_by_lr_sched"),
        type(optimizer.step).__name__,
    )


@program
def gradient_scaler_on_the_cpu() -> Any:
    if not hasattr(torch.amp, "GradScaler"):
        raise Skip("torch.amp.GradScaler is missing")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, growth_interval=2)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scales = []
    for step in range(5):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16 if step == 0 else torch.bfloat16):
            loss = net(torch.ones(2, 4)).float().pow(2).sum() * (1e30 if step < 2 else 1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append((scaler.get_scale(), float(norm)))
    return scales, list(net.parameters()), scaler.state_dict()


@program
def autocast_nested_and_its_cache() -> Any:
    weight = torch.randn(4, 4, requires_grad=True)
    x = torch.randn(2, 4)
    kinds = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ weight
        with torch.autocast("cpu", enabled=False):
            b = x @ weight
        c = nn.functional.softmax(a, -1)
        kinds = [a.dtype, b.dtype, c.dtype, (a + b).dtype, torch.get_autocast_dtype("cpu")]
        with torch.no_grad():
            x @ weight
        d = x @ weight
    (a.sum() + d.sum()).backward()
    return [str(kind) for kind in kinds], a, c, weight.grad, torch.is_autocast_cpu_enabled()


@program
def custom_function_under_autocast() -> Any:
    class Multiply(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(context: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            seen.append((str(x.dtype), torch.is_autocast_enabled("cpu")))
            context.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(context: Any, gradient: torch.Tensor) -> Any:
            seen.append((str(gradient.dtype), torch.is_autocast_enabled("cpu")))
            x, y = context.saved_tensors
            return gradient @ y.T, x.T @ gradient

    seen: list[Any] = []
    x = torch.ones(2, 2, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = Multiply.apply(x, torch.eye(2))
    out.sum().backward()
    return out, x.grad, seen


@program
def inference_mode_and_its_refusals() -> Any:
    net = _net()
    with torch.inference_mode():
        out = net(torch.ones(1, 4))
        states = [out.is_inference(), out.requires_grad, torch.is_inference_mode_enabled()]
        with torch.inference_mode(False):
            normal = torch.ones(2)
    texts = []
    for call in (
        lambda: out.mul_(2),
        lambda: out._version,
        lambda: (out * torch.ones(2, requires_grad=True)).sum().backward(),
        lambda: out.requires_grad_(),
    ):
        try:
            call()
            texts.append("no error")
        except RuntimeError as error:
            texts.append(str(error)[:80])
    return out.clone(), states, texts, normal.is_inference()


@program
def observer_inside_of_inference_mode() -> Any:
    guard = torch.inference_mode()
    guard.__enter__()
    net = _net()
    yield
    out = net(torch.ones(2, 4))
    out.add_(1)
    flag = out.is_inference()
    yield
    after = net(torch.ones(2, 4))
    guard.__exit__(None, None, None)
    return out.clone(), flag, after.clone(), torch.is_inference_mode_enabled()


@program
def default_dtypes_changed() -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    net = nn.Linear(2, 2)
    out = net(torch.ones(1, 2)), torch.tensor([1.5]), torch.arange(2) / 2, torch.randn(2), torch.tensor(1j)
    torch.set_default_dtype(torch.float16)
    half = torch.ones(2) / 3, torch.tensor(0.1), torch.linspace(0, 1, 3)
    torch.set_default_dtype(before)
    return out, half, torch.ones(1)


@program
def deterministic_algorithms_and_warnings() -> Any:
    import warnings

    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filled = torch.empty(3)
        x = torch.zeros(3).index_add_(0, torch.tensor([0, 0]), torch.ones(2))
        sums = torch.randn(4).cumsum(0)
        states = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    return filled, x, sums, states, [str(w.message)[:80] for w in caught]


@program
def gradients_accumulated_clipped_and_shared() -> Any:
    net = _net()
    net[2].weight.requires_grad_(False)
    for scale in (1.0, 2.0):
        (net(torch.full((2, 4), scale)).sum() / 2).backward()
    total = nn.utils.clip_grad_norm_(net.parameters(), 0.5, error_if_nonfinite=True)
    nn.utils.clip_grad_value_(net.parameters(), 0.1)
    vector = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(vector * 0 + 1, net.parameters())
    return total, [value.grad for value in net.parameters()], net[0].weight.data_ptr() == 0, net(torch.ones(1, 4))


@program
def averaged_models() -> Any:
    net = _net()
    average = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(3):
        net(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        average.update_parameters(net)
    return list(average.parameters()), average.n_averaged, average(torch.ones(1, 4))


@program
def profiler_counts_operators() -> Any:
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu) as profile, torch.profiler.record_function("my part"):
        net = _net()
        net(torch.ones(2, 4)).sum().backward()
    counts = {event.key: event.count for event in profile.key_averages() if event.key.startswith(("aten::", "my"))}
    return sorted(counts.items())


@program
def training_with_steps_that_fail() -> Any:
    net = _net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    texts = []
    for step in range(4):
        try:
            optimizer.zero_grad()
            out = net(torch.ones(2, 4 if step != 2 else 5))
            if step == 1:
                raise KeyError("no such batch")
            out.sum().backward()
            optimizer.step()
        except (KeyError, RuntimeError) as error:
            texts.append(f"{type(error).__name__}: {error}")
    return texts, list(net.parameters()), optimizer.state_dict()["state"][0]["step"]
