"""The light watch of torch: what it sees, what it holds, where it says that something bad began; with the C extension
and without."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from trueline.errors import TruelineError  # noqa: E402
from trueline.frameworks.light import Examination, LightOptions, Sink, StepLooks, is_bad  # noqa: E402
from trueline.frameworks.torch.calls import fast_calls  # noqa: E402
from trueline.frameworks.torch.light import TorchLightWatcher  # noqa: E402
from trueline.frameworks.torch.light_groups import PlainGroup  # noqa: E402
from trueline.records import Phase, Role  # noqa: E402


@pytest.fixture(params=["fast", "python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    elif fast_calls() is None:
        pytest.skip("the C extension is not built")
    torch.manual_seed(0)
    return str(request.param)


class Watching:
    """A watcher that is on, and hears of optimizers as a watch of a program does."""

    def __init__(self, **options: Any) -> None:
        self.watcher = TorchLightWatcher(LightOptions(**options))
        self.looks: list[StepLooks] = []
        self.step = 0

    def __enter__(self) -> Watching:
        from torch.optim import optimizer

        self._hooks = [
            optimizer.register_optimizer_step_pre_hook(lambda one, args, kwargs: self.watcher.optimizer_begins(one)),
            optimizer.register_optimizer_step_post_hook(lambda one, args, kwargs: self.watcher.optimizer_ends(one)),
        ]
        self.watcher.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.watcher.stop()
        self.looks += self.watcher.poll()
        for hook in self._hooks:
            hook.remove()
        if exception[0] is None:
            assert self.watcher.trouble == {}

    def end_step(self) -> list[StepLooks]:
        self.watcher.end_step(self.step)
        self.step += 1
        found = list(self.watcher.poll())
        self.looks += found
        return found

    def examine(self) -> Examination:
        return self.watcher.examine(self.step - 1)


def model_of(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*layers)


def train(model: nn.Module, optimizer: Any, batch: Any, loss_of: Callable[[Any], Any] | None = None) -> Any:
    optimizer.zero_grad(set_to_none=True)
    out = model(batch)
    loss = out.square().mean() if loss_of is None else loss_of(out)
    loss.backward()
    optimizer.step()
    return loss.detach()


def small() -> tuple[nn.Module, Any]:
    model = model_of(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def weights_after(watched: bool, steps: int = 3) -> list[bytes]:
    torch.manual_seed(3)
    model = model_of(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(inplace=True), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batches = [torch.randn(5, 8) for _ in range(steps)]

    def run(after: Callable[[], Any]) -> None:
        for batch in batches:
            train(model, optimizer, batch)
            after()

    if watched:
        with Watching(rotation=2) as watching:
            run(watching.end_step)
    else:
        run(lambda: None)
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def test_training_is_the_same_to_the_last_bit() -> None:
    assert weights_after(watched=True) == weights_after(watched=False)


def test_nothing_stays_behind() -> None:
    before = (torch.Tensor.shape, nn.Module._call_impl.__code__, torch.autograd.Function._register_hook)
    with Watching() as watching:
        model, optimizer = small()
        train(model, optimizer, torch.randn(3, 8))
        watching.end_step()
    assert (torch.Tensor.shape, nn.Module._call_impl.__code__, torch.autograd.Function._register_hook) == before
    assert torch._C._len_torch_function_stack() == 0
    with pytest.raises(RuntimeError, match="size"), Watching():
        torch.ones(2) + torch.ones(3)
    assert torch._C._len_torch_function_stack() == 0


def test_sinks_are_looked_at_in_every_step() -> None:
    model, optimizer = small()
    with Watching(rotation=4) as watching:
        for _ in range(5):
            train(model, optimizer, torch.randn(3, 8))
            found = watching.end_step()
            assert [looks.partial for looks in found] == [False]
            (looks,) = found
            assert looks.stepped and looks.found_inf is None and not looks.bad
            kinds = looks.looks["sink"].tolist()
            assert kinds.count(Sink.LOSS) == 1 and kinds.count(Sink.GRADIENT) == 4
            assert Sink.PARAMETER in kinds
    named = {
        looks.names[row["name"]].api for looks in watching.looks for row in looks.sinks if row["sink"] == Sink.GRADIENT
    }
    assert named == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_names_stay_and_looks_are_right() -> None:
    model, _ = small()
    batch = torch.randn(3, 8)
    with Watching(rotation=1) as watching:
        for _ in range(2):
            out = model(batch)
            loss = out.abs().sum()
            loss.backward()
            watching.end_step()
    first, second = watching.looks
    assert len(first.looks) == len(second.looks)
    assert first.looks["name"].tolist() == second.looks["name"].tolist()
    names = [first.names[number] for number in first.looks["name"]]
    linear = next(
        position for position, name in enumerate(names) if name.api == "torch.nn.functional.linear" and name.nth == 1
    )
    assert names[linear].module == "2" and names[linear].module_class == "Linear"
    assert names[linear].path == "out" and names[linear].dtype == "float32" and names[linear].role is Role.OUTPUT
    assert first.looks[linear]["largest"] == out.abs().max().item()
    assert first.looks[linear]["count"] == out.numel()
    arrived = [name for name in names if name.phase is Phase.BACKWARD and name.role is Role.INPUT]
    assert {name.api for name in arrived} >= {"torch.nn.functional.linear", "torch.nn.functional.relu"}


def test_each_call_has_its_turn() -> None:
    torch.manual_seed(0)
    batch = torch.randn(4)
    with Watching(rotation=3) as watching:
        watching.watcher._adapt = lambda: None  # type: ignore[method-assign]
        for _ in range(3):
            value = batch
            for _ in range(7):
                value = value * 1.5
            watching.end_step()
    counts: dict[int, int] = {}
    for looks in watching.looks:
        for row in looks.looks[looks.looks["sink"] == Sink.NONE]:
            number = looks.names[row["name"]].nth
            counts[number] = counts.get(number, 0) + 1
    assert counts == dict.fromkeys(range(7), 1)


def counts_of(watching: Watching, api: str, phase: Phase = Phase.FORWARD) -> list[int]:
    return [
        int(row["count"])
        for looks in watching.looks
        for row in looks.looks[looks.looks["sink"] == Sink.NONE]
        if looks.names[row["name"]].api == api and looks.names[row["name"]].phase is phase
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_of_a_large_tensor_a_part_is_looked_at(whole: bool) -> None:
    batch = torch.ones(4 * 65536)
    with Watching(rotation=1, whole=whole) as watching:
        for _ in range(4):
            made = batch * 2.0
            made.sum()
            watching.end_step()
    counts = counts_of(watching, "torch.Tensor.mul")
    assert counts == [4 * 65536 if whole else 65536] * 4


def test_what_a_part_did_not_show_is_found_by_the_examination() -> None:
    batch = torch.ones(8 * 65536, requires_grad=True)
    hurt = torch.zeros(8 * 65536)
    hurt[5::65536] = math.inf
    with Watching(rotation=1) as watching:
        made = batch * (hurt + 1.0)
        made.sum().backward()
        (looks,) = watching.end_step()
        assert looks.bad
        origin = watching.examine().origin
    assert origin is not None and origin.outputs[0].look["positive_infinity"] == 8


def test_the_same_memory_is_looked_at_once() -> None:
    batch = torch.randn(4, 6, requires_grad=True)
    with Watching(rotation=1) as watching:
        made = batch * 2.0
        made.view(24).reshape(6, 4).transpose(0, 1).sum().backward()
        watching.end_step()
    assert counts_of(watching, "torch.Tensor.mul") == [24]
    for api in ("torch.Tensor.view", "torch.Tensor.reshape", "torch.Tensor.transpose"):
        assert counts_of(watching, api) == []
    handed_on = [counts_of(watching, f"torch.Tensor.{api}", Phase.BACKWARD) for api in ("view", "mul")]
    assert handed_on == [[], []], "what arrives there is what arrived at transpose, or at reshape"


def test_a_device_is_not_asked_for_more_because_the_host_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)  # a build for CUDA may find no driver
    model, optimizer = small()
    with Watching(rotation=4) as watching:
        watching.watcher.watch.looks.read_later(torch.zeros(1))
        for _ in range(4):
            train(model, optimizer, torch.randn(3, 8))
            watching.end_step()
        assert watching.watcher._rotation == 4


def test_functions_in_python_ask_the_mode_quickly_and_are_given_back() -> None:
    code = torch.overrides.handle_torch_function.__code__
    asked: list[Any] = []

    class Other(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func)
            return func(*args, **(kwargs or {}))

    with Watching(rotation=1) as watching:
        functional.layer_norm(torch.randn(3, 8), (8,))
        with pytest.raises(RuntimeError):
            functional.layer_norm(torch.randn(3, 8), (9,))
        with Other():
            functional.layer_norm(torch.randn(3, 8), (8,))
        assert torch._C._len_torch_function_stack() == 1
        watching.end_step()
    assert torch.overrides.handle_torch_function.__code__ is code
    assert functional.layer_norm in asked
    assert counts_of(watching, "torch.nn.functional.layer_norm") == [24, 24]


class Overflowing(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.exp(x * 1000.0)


def test_origin_in_the_forward() -> None:
    model = model_of(nn.Linear(8, 8), Overflowing(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watching() as watching:
        train(model, optimizer, torch.ones(3, 8))
        (looks,) = watching.end_step()
        assert looks.bad
        examination = watching.examine()
    origin = examination.origin
    assert origin is not None
    assert (origin.api, origin.nth, origin.module, origin.phase) == ("torch.exp", 0, "1", Phase.FORWARD)
    assert origin.stack[0].function == "forward" and origin.stack[0].file == __file__
    (given,), (made,) = origin.inputs, origin.outputs
    assert not given.bad and made.bad and made.look["positive_infinity"] > 0
    values = np.frombuffer(given.content(), np.float32).reshape(given.shape)
    assert np.isfinite(values).all() and values.max() > 89
    assert given.path == "args.0" and made.path == "out"
    numbers = {tensor.number for call in examination.calls if call.api == "torch.Tensor.mul" for tensor in call.outputs}
    assert given.number in numbers


def test_origin_in_the_backward() -> None:
    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sqrt(x * 0.0)

    model = model_of(nn.Linear(8, 8), Root(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watching() as watching:
        train(model, optimizer, torch.ones(3, 8))
        (looks,) = watching.end_step()
        assert looks.bad and not is_bad(looks.looks[looks.looks["sink"] == Sink.LOSS]).any()
        origin = watching.examine().origin
    assert origin is not None
    assert (origin.api, origin.phase, origin.module) == ("torch.sqrt", Phase.BACKWARD, "1")
    assert origin.forward is not None and not any(tensor.bad for tensor in origin.inputs)
    assert any(tensor.bad for tensor in origin.outputs)


def test_what_is_absorbed_is_no_origin() -> None:
    class Masked(nn.Module):
        def forward(self, x: Any) -> Any:
            mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
            scores = (x @ x.transpose(-1, -2)).masked_fill(mask, -math.inf)
            return torch.softmax(scores, -1) @ x

    model = model_of(nn.Linear(8, 8), Masked(), nn.Linear(8, 4), Overflowing())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watching() as watching:
        train(model, optimizer, torch.ones(4, 8) * 10)
        watching.end_step()
        examination = watching.examine()
    assert examination.origin is not None and examination.origin.api == "torch.exp"
    masked = [
        call for call in examination.calls if call.api == "torch.Tensor.masked_fill" and call.phase is Phase.FORWARD
    ]
    assert masked[0].outputs[0].bad


def test_changed_in_place() -> None:
    class Norm(nn.Module):
        def forward(self, x: Any) -> Any:
            made = x / (x * 0.0)
            return functional.relu_(made)

    model = model_of(nn.Linear(8, 8), Norm(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watching() as watching:
        train(model, optimizer, torch.ones(3, 8))
        (looks,) = watching.end_step()
        assert looks.bad
        examination = watching.examine()
    assert examination.origin is not None and examination.origin.api == "torch.Tensor.div"
    changed = [call for call in examination.calls if call.api == "torch.nn.functional.relu_"]
    assert changed[0].inputs[0].missing and changed[0].inputs[0].bad


def test_bad_from_the_beginning() -> None:
    model, optimizer = small()
    batch = torch.full((3, 8), math.nan)
    with Watching() as watching:
        train(model, optimizer, batch)
        watching.end_step()
        origin = watching.examine().origin
    assert origin is not None and origin.api == "torch.nn.functional.linear" and origin.inputs[0].bad


def test_before_the_optimizer_everything_is_still_there() -> None:
    model, optimizer = small()
    kept: list[Any] = []
    with Watching() as watching:
        from torch.optim import optimizer as hooks

        def look(*unused: Any) -> None:
            kept.append(watching.watcher.poll())
            calls = watching.watcher.examine(0).calls
            first = next(call for call in calls if call.api == "torch.nn.functional.linear")
            held = next(tensor for tensor in first.inputs if tensor.shape == (16, 8))
            kept.append((held, bytes(held.content())))

        handle = hooks.register_optimizer_step_pre_hook(look)
        weight = model[0].weight.detach().clone()
        train(model, optimizer, torch.full((3, 8), math.inf))
        handle.remove()
        watching.end_step()
    (partial,), (held, content) = kept
    assert partial.partial and partial.bad and partial.step == 0
    assert held.missing == "" and content == weight.numpy().tobytes()
    with pytest.raises(TruelineError, match="changed"):
        held.content()


def in_the_place_of_the_last_result(watching: Watching) -> weakref.ref[torch.Tensor]:
    return weakref.ref(watching.watcher.watch.entries[-1][5])


def test_a_good_step_is_let_go_of() -> None:
    model, optimizer = small()
    with Watching() as watching:
        batch = torch.randn(3, 8)
        out = model(batch)
        reference = in_the_place_of_the_last_result(watching)
        out.sum().backward()
        del out
        assert reference() is not None
        optimizer.step()
        watching.end_step()
        gc.collect()
        assert reference() is None
        assert watching.watcher.watch.own.held == 0


def test_a_bad_step_is_held_until_forgotten() -> None:
    model, _ = small()
    with Watching() as watching:
        out = model(torch.full((3, 8), math.nan))
        reference = in_the_place_of_the_last_result(watching)
        out.sum().backward()
        del out
        watching.end_step()
        model(torch.randn(3, 8)).sum().backward()
        watching.end_step()
        gc.collect()
        assert reference() is not None
        assert watching.watcher.examine(0).origin is not None
        watching.watcher.forget(0)
        gc.collect()
        assert reference() is None
        assert watching.watcher.examine(0).calls == ()


def test_what_must_go_is_looked_at_first() -> None:
    with Watching(hold=1 << 16, rotation=64) as watching:
        watching.watcher._adapt = lambda: None  # type: ignore[method-assign]
        value = torch.ones(4096)
        for number in range(24):
            value = value * (1e30 if number == 3 else 1.0) * (1e30 if number == 4 else 1.0)
        looks = watching.watcher.poll()
        examination = watching.watcher.examine(0)
        watching.end_step()
    rows = np.concatenate([one.looks for one in looks])
    bad = rows[is_bad(rows)]
    assert len(rows) >= 12 and examination.missed >= 12
    first = watching.watcher.names[bad[bad["call"].argmin()]["name"]]
    assert first.api == "torch.Tensor.mul" and first.nth == 9
    assert watching.watcher.watch.own.held <= 1 << 18


def test_a_loss_scaler_is_heard() -> None:
    model, optimizer = small()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    with Watching() as watching:
        for factor in (1e30, 1e-20):
            optimizer.zero_grad(set_to_none=True)
            loss = model(torch.randn(3, 8)).sum() * factor
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            watching.end_step()
    skipped, stepped = watching.looks
    assert skipped.found_inf is True and not skipped.stepped and skipped.bad
    assert stepped.found_inf is False and stepped.stepped and not stepped.bad


def test_a_step_without_backward() -> None:
    with Watching() as watching, torch.no_grad():
        torch.log(torch.zeros(3)) * 0.0
        (looks,) = watching.end_step()
        assert looks.bad and looks.sinks["sink"].tolist() == [Sink.RESULT]
        origin = watching.examine().origin
    assert origin is not None and origin.api == "torch.log"


def test_custom_functions_checkpoints_threads_and_errors() -> None:
    from torch.utils.checkpoint import checkpoint

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    with Watching(rotation=1) as watching:
        x = torch.randn(3, requires_grad=True)
        y = checkpoint(lambda value: torch.tanh(value).sum(), Twice.apply(x), use_reentrant=False)
        y.backward()
        thread = threading.Thread(target=lambda: torch.sin(torch.ones(2)))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2) + torch.ones(3)
        examination = watching.watcher.examine(0)
        watching.end_step()
    calls = {(call.api.rpartition(".")[2], call.phase, call.context) for call in examination.calls}
    assert ("apply", Phase.FORWARD, "") in calls and ("apply", Phase.BACKWARD, "") in calls
    assert ("tanh", Phase.FORWARD, "recompute") in calls and ("sin", Phase.FORWARD, "") in calls
    raised = [call.raised for call in examination.calls if call.raised]
    assert len(raised) == 2 and raised[0].startswith("stopped by") and raised[1].startswith("RuntimeError: ")
    assert examination.origin is None


def test_arguments_and_results_are_what_a_capture_says() -> None:
    with Watching(rotation=1) as watching:
        values, _ = torch.ones(2, 3).max(dim=1, keepdim=True)
        parts = [values, values * 2]
        joined = torch.cat(parts, dim=0)
        parts.clear()
        joined[0] = 5.0
        examination = watching.watcher.examine(0)
        watching.end_step()
    by_name = {call.api.rpartition(".")[2]: call for call in examination.calls}
    assert by_name["max"].arguments == {"args": [{"$t": 0}], "kwargs": {"dim": 1, "keepdim": True}}
    assert [tensor.path for tensor in by_name["max"].outputs] == ["out.0", "out.1"]
    assert by_name["cat"].arguments == {"args": [[{"$t": 0}, {"$t": 1}]], "kwargs": {"dim": 0}}
    assert [tensor.path for tensor in by_name["cat"].inputs] == ["args.0.0", "args.0.1"]
    assert by_name["__setitem__"].outputs[0].path == "args.0"
    assert by_name["cat"].outputs[0].missing and not by_name["__setitem__"].outputs[0].missing
    assert by_name["max"].outputs[0].number == by_name["cat"].inputs[0].number


def test_gradients_are_those_that_arrive() -> None:
    with Watching(rotation=1) as watching:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3.0
        left, right = y.chunk(2)
        (left * 5.0 + right).sum().backward()
        examination = watching.watcher.examine(0)
        watching.end_step()
    backward = {call.api.rpartition(".")[2]: call for call in examination.calls if call.phase is Phase.BACKWARD}
    values = [np.frombuffer(tensor.content(), np.float32).tolist() for tensor in backward["chunk"].inputs]
    assert values == [[5.0], [1.0]]
    assert [tensor.path for tensor in backward["chunk"].inputs] == ["out.0", "out.1"]
    (sent,) = backward["chunk"].outputs
    assert np.frombuffer(sent.content(), np.float32).tolist() == [5.0, 1.0] and sent.path == "args.0"
    last = max((call for call in examination.calls if call.phase is Phase.BACKWARD), key=lambda call: call.number)
    assert x.grad is not None and np.frombuffer(last.outputs[0].content(), np.float32).tolist() == x.grad.tolist()


class Slow:
    """An answer of a device that comes when it is let through."""

    through = False

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def ready(self) -> bool:
        return Slow.through

    def wait(self) -> Any:
        return self._handle.wait()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors in CPU memory are treated as those of a device whose answers come late."""
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)  # a build for CUDA may find no driver
    start = TorchLightWatcher.start
    fetch = PlainGroup.fetch

    def start_later(watcher: TorchLightWatcher) -> None:
        watcher.watch.looks.read_later(torch.zeros(1))
        start(watcher)

    monkeypatch.setattr(TorchLightWatcher, "start", start_later)
    monkeypatch.setattr(PlainGroup, "fetch", lambda group: Slow(fetch(group)))
    monkeypatch.setattr(Slow, "through", False)


@pytest.mark.usefixtures("device")
def test_a_device_is_waited_for_before_the_optimizer_and_never_else() -> None:
    model = model_of(nn.Linear(8, 8, bias=False), Overflowing(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watching() as watching:
        train(model, optimizer, torch.zeros(3, 8))
        (known,) = watching.end_step()
        assert known.partial and not known.bad
        kinds = set(known.looks["sink"].tolist())
        assert {Sink.LOSS, Sink.GRADIENT} <= kinds and Sink.PARAMETER not in kinds, "the parameters are on their way"
        with torch.no_grad():
            model(torch.ones(3, 8))
        assert watching.end_step() == [], "without an optimizer there is nothing to wait for"
        Slow.through = True
        good, bad = watching.watcher.poll()
        assert (good.step, good.bad, bad.step, bad.bad) == (0, False, 1, True)
        assert Sink.PARAMETER in set(good.looks["sink"].tolist())


@pytest.mark.usefixtures("device")
def test_what_changes_before_a_device_reads_it_is_not_told() -> None:
    with Watching(rotation=1) as watching:
        x = torch.ones(3) * 2.0
        x.mul_(torch.inf)
        watching.watcher.end_step(0)
        Slow.through = True
        (looks,) = watching.watcher.poll()
    names = [looks.names[number].api for number in looks.looks["name"]]
    assert "torch.Tensor.mul_" in names and "torch.Tensor.mul" not in names


@pytest.mark.usefixtures("device")
def test_training_with_a_device_is_the_same_to_the_last_bit() -> None:
    assert weights_after(watched=True) == weights_after(watched=False)


def test_both_ways_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> list[Any]:
        torch.manual_seed(0)
        model, optimizer = small()
        with Watching(rotation=1) as watching:
            watching.watcher._adapt = lambda: None  # type: ignore[method-assign]
            for _ in range(2):
                train(model, optimizer, torch.randn(3, 8))
                watching.end_step()
        return [
            (looks.step, looks.names[row["name"]], *row.tolist()[2:]) for looks in watching.looks for row in looks.looks
        ]

    chosen = seen()
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    assert repr(chosen) == repr(seen())


def test_a_collective_changes_what_it_is_given() -> None:
    def all_reduce(tensor: Any) -> None:
        """As if another rank had sent infinity: without a trace in the version counter."""
        tensor.untyped_storage().copy_(torch.full((3,), math.inf).untyped_storage())

    weight = torch.ones(3, requires_grad=True)
    with Watching(rotation=1 << 20) as watching:
        watching.watcher._adapt = lambda: None  # type: ignore[method-assign]
        (weight * 2.0).sum().backward()
        assert weight.grad is not None
        watching.watcher._collective(all_reduce, (weight.grad,), {})
        weight.grad.copy_(weight.grad / 2.0)
        (looks,) = watching.end_step()
        examination = watching.examine()
    assert looks.bad
    calls = {(call.api.rpartition(".")[2], call.phase): call for call in examination.calls}
    given, reduced = calls["mul", Phase.BACKWARD], calls["all_reduce", Phase.FORWARD]
    assert given.outputs[0].missing and given.outputs[0].look["largest"] == 2.0  # seen before it was changed
    assert given.outputs[0].number == reduced.inputs[0].number != reduced.outputs[0].number
    divided = calls["div", Phase.FORWARD]
    assert divided.inputs[0].number == reduced.outputs[0].number and divided.inputs[0].missing and divided.inputs[0].bad
    assert examination.origin is not None and examination.origin.api == "torch.distributed.all_reduce"
