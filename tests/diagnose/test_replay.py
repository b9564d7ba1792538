"""Replaying recorded calls in float64, and what the search for the origin makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trueline
from tests.helpers.synthetic import Bits, Spec, array, write_run
from trueline.diagnose import compare_runs
from trueline.diagnose import replaying as replay
from trueline.records import Call, Phase, Verdict
from trueline.store import open_run

torch = pytest.importorskip("torch")


def numpy_of(value: Any) -> Any:
    """A tensor as the helpers want it."""
    value = value.detach().contiguous()
    if value.dtype is torch.bfloat16:
        return Bits(value.view(torch.int16).numpy().view(np.uint16), "bfloat16")
    return value.numpy()


def recorded(tmp_path: Path, specs: list[Spec], position: int = -1) -> Any:
    reader = open_run(write_run(tmp_path / "run", specs)).rank(0)
    calls: list[Call] = list(reader.trace())
    call = calls[position]
    forward = next((one for one in calls if one.id == call.forward_id), None)
    return replay.Recorded(call, reader.tensor, forward)


def test_a_right_forward_call_is_right(tmp_path: Path) -> None:
    x, w, b = torch.randn(16, 32), torch.randn(8, 32), torch.randn(8)
    out = torch.nn.functional.linear(x, w, bias=b)
    spec = Spec("torch.nn.functional.linear", [numpy_of(x), numpy_of(w)], [numpy_of(out)], kwargs={"bias": numpy_of(b)})
    found = replay.assess(recorded(tmp_path, [spec]))
    assert found.error < 1e-6
    assert found.honest < 1e-6


@pytest.mark.parametrize(
    ("api", "function", "arguments"),
    [
        ("torch.nn.functional.gelu", lambda x: torch.nn.functional.gelu(x), []),
        ("torch.Tensor.__getitem__", lambda x: x[1:, 3], [{"$tuple": [{"$slice": [1, None, None]}, 3]}]),
        ("torch.Tensor.T", lambda x: x.T, []),
        ("torch.Tensor.bfloat16", lambda x: x.bfloat16(), []),
        ("torch.Tensor.to", lambda x: x.to(torch.float64), [{"$dtype": "float64"}]),
        ("torch.linalg.norm", lambda x: torch.linalg.norm(x), []),
        ("torch.max", lambda x: torch.max(x, 1), [1]),
        ("torch.reshape", lambda x: x.reshape(-1), [{"$size": [-1]}]),
        ("torch.clamp", lambda x: x.clamp(-1.0, float("inf")), [-1.0, {"$float": "inf"}]),
    ],
)
def test_names_and_arguments(tmp_path: Path, api: str, function: Callable[..., Any], arguments: list[Any]) -> None:
    x = torch.randn(6, 8)
    out = function(x)
    outputs = [numpy_of(one) for one in out] if isinstance(out, tuple) else [numpy_of(out)]
    found = replay.assess(recorded(tmp_path, [Spec(api, [numpy_of(x), *arguments], outputs)]))
    assert found.error <= max(found.honest, found.roundoff)


def test_in_place_calls_start_from_what_was_recorded(tmp_path: Path) -> None:
    x, y = torch.randn(32), torch.randn(32)
    before = numpy_of(x.clone())
    x.add_(y, alpha=0.5)
    spec = Spec("torch.Tensor.add_", [before, numpy_of(y)], [numpy_of(x)], kwargs={"alpha": 0.5})
    assert replay.assess(recorded(tmp_path, [spec])).error < 1e-6


def test_fused_optimizers_change_lists_in_place(tmp_path: Path) -> None:
    lists = [[torch.rand(5) + 0.1 for _ in range(3)] for _ in range(4)]
    steps = [torch.tensor(1.0) for _ in range(3)]
    before = [[numpy_of(one.clone()) for one in some] for some in [*lists, [], steps]]
    options = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    torch._fused_adam_(*lists, [], steps, amsgrad=False, maximize=False, **options)
    mutated = {f"args.{n}.{m}": numpy_of(one) for n in (0, 2, 3) for m, one in enumerate(lists[n])}
    kwargs = {"amsgrad": False, "maximize": False, **options}
    spec = Spec("torch._fused_adam_", before, [], kwargs=kwargs, mutated=mutated)
    assert replay.assess(recorded(tmp_path, [spec])).error < 1e-6


def test_backward_calls_are_replayed_through_autograd(tmp_path: Path) -> None:
    x, w = torch.randn(16, 32, requires_grad=True), torch.randn(32, 8, requires_grad=True)
    out = torch.matmul(x, w)
    arrives = torch.randn(16, 8)
    grads = torch.autograd.grad(out, [x, w], arrives)
    forward = Spec("torch.matmul", [numpy_of(x), numpy_of(w)], [numpy_of(out)])
    backward = Spec(
        "torch.matmul", [numpy_of(arrives)], [numpy_of(one) for one in grads], phase=Phase.BACKWARD, forward=forward
    )
    assert replay.assess(recorded(tmp_path, [forward, backward])).error < 1e-6
    wrong = Spec(
        "torch.matmul",
        [numpy_of(arrives)],
        [numpy_of(grads[0]), numpy_of(grads[1] * 0.5)],
        phase=Phase.BACKWARD,
        forward=forward,
    )
    found = replay.assess(recorded(tmp_path / "wrong", [forward, wrong]))
    assert found.path == "args.1"
    assert found.error == pytest.approx(0.5)


def test_a_value_that_is_taken_twice_has_one_gradient(tmp_path: Path) -> None:
    x = torch.randn(16, 8, requires_grad=True)
    with trueline.capture(tmp_path / "run", data="tensors"):
        y = x * 2.0
        torch.nn.functional.scaled_dot_product_attention(y, y, y).square().sum().backward()
    reader = open_run(tmp_path / "run").rank(0)
    calls = {(call.api.rpartition(".")[2], call.phase): call for call in reader.trace()}
    backward = calls["scaled_dot_product_attention", Phase.BACKWARD]
    forward = calls["scaled_dot_product_attention", Phase.FORWARD]
    assert len(backward.outputs) == 1
    assert replay.assess(replay.Recorded(backward, reader.tensor, forward)).error < 1e-5


def test_what_cannot_be_differentiated_by_is_not_asked_for(tmp_path: Path) -> None:
    """The kernel of batch norm refuses gradients of its running statistics, and so of the whole call."""
    norm = torch.nn.BatchNorm2d(4)
    with trueline.capture(tmp_path / "run", data="tensors"):
        norm(torch.randn(3, 4, 5, 5, requires_grad=True)).relu().square().sum().backward()
    reader = open_run(tmp_path / "run").rank(0)
    calls = {(call.api.rpartition(".")[2], call.phase): call for call in reader.trace()}
    backward, forward = (calls["batch_norm", phase] for phase in (Phase.BACKWARD, Phase.FORWARD))
    assert replay.assess(replay.Recorded(backward, reader.tensor, forward)).error < 1e-5


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (Spec("torch.distributed.all_reduce", [array(4)], [array(4)]), "other ranks"),
        (Spec("os.system", [array(4)], [array(4)]), "not a function of the framework"),
        (Spec("torch.no_such_thing", [array(4)], [array(4)]), "no operator"),
        (Spec("torch.relu", [array(4), {"$object": "my.Thing"}], [array(4)]), "my.Thing"),
        (Spec("torch.relu", [array(4), 1, 2, 3], [array(4)]), "called again"),
    ],
)
def test_what_cannot_be_replayed_says_why(tmp_path: Path, spec: Spec, reason: str) -> None:
    with pytest.raises(replay.Unreplayable, match=reason):
        replay.assess(recorded(tmp_path, [spec]))


def chain(gelu: Callable[[Any], Any], cast: Any = None, scale: float = 1.0) -> list[Spec]:
    """A linear layer, an activation, another linear layer; ``cast`` runs the linear layers as autocast would."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 32, generator=generator)
    weights = [torch.randn(32, 32, generator=generator) * 0.2 for _ in range(3)]
    calls = []
    value, held = x, numpy_of(x)
    for number, weight in enumerate(weights):
        kept = numpy_of(weight)
        if cast is None:
            following = torch.nn.functional.linear(value, weight)
        else:
            following = torch.nn.functional.linear(value.to(cast), weight.to(cast))
        if number == 1:
            following = following * scale
        out = numpy_of(following)
        calls.append(Spec("torch.nn.functional.linear", [held, kept], [out], module=f"l{number}"))
        value = gelu(following)
        held_next = numpy_of(value)
        calls.append(Spec("torch.nn.functional.gelu", [out], [held_next], module=f"l{number}"))
        held = held_next
    return calls


def compare(tmp_path: Path, left: list[Spec], right: list[Spec]) -> Any:
    return compare_runs(write_run(tmp_path / "a", left), write_run(tmp_path / "b", right))


def test_a_guilty_call_is_confirmed(tmp_path: Path) -> None:
    exact = torch.nn.functional.gelu
    report = compare(tmp_path, chain(exact), chain(lambda x: exact(x, approximate="tanh")))
    assert report.verdict is Verdict.FAIL
    assert report.origin.confirmed is True
    assert report.first_divergence.api == "torch.nn.functional.gelu"
    assert report.first_divergence.index == 0
    assert "float64" in report.origin.explanation
    assert report.origin.evidence["candidate_error"] > 100 * report.origin.evidence["candidate_honest"]


def test_autocast_is_honest(tmp_path: Path) -> None:
    exact = torch.nn.functional.gelu
    report = compare(tmp_path, chain(exact), chain(exact, torch.bfloat16))
    assert report.verdict is Verdict.PASS, report.origin and report.origin.explanation


def test_a_fault_that_hides_under_honest_noise_is_found_by_replay(tmp_path: Path) -> None:
    exact = torch.nn.functional.gelu
    right = chain(exact, torch.bfloat16, scale=1.02)
    screened = compare_runs(write_run(tmp_path / "x", chain(exact)), write_run(tmp_path / "y", right), replay=False)
    report = compare(tmp_path, chain(exact), right)
    assert report.verdict is Verdict.FAIL
    assert (report.first_divergence.api, report.first_divergence.module) == ("torch.nn.functional.linear", "l1")
    assert report.origin.confirmed is True
    assert len(screened.calls) == len(report.calls)


def test_a_suspect_that_computed_rightly_is_acquitted(tmp_path: Path) -> None:
    """The inverse of an ill-conditioned matrix makes a large difference out of a small one: no fault."""
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(16, 16, dtype=torch.float64))[0]
    matrix = (basis @ torch.diag(torch.logspace(0, -4, 16, dtype=torch.float64)) @ basis.T).float()
    noisy = matrix * (1 + 3e-7 * torch.randn(16, 16))
    start = numpy_of(matrix)

    def run(value: Any) -> list[Spec]:
        kept = numpy_of(value)
        inverse = numpy_of(torch.linalg.inv(value))
        return [Spec("torch.add", [start, 0.0], [kept]), Spec("torch.linalg.inv", [kept], [inverse])]

    paths = write_run(tmp_path / "a", run(matrix)), write_run(tmp_path / "b", run(noisy))
    assert compare_runs(*paths, replay=False).verdict is Verdict.FAIL
    report = compare_runs(*paths)
    assert report.verdict is Verdict.WARN
    assert "computed rightly" in report.calls[1].reason
    assert report.calls[1].inherited


def test_random_calls_are_not_replayed(tmp_path: Path) -> None:
    x = array(64, 64)
    drawn, scaled = (np.where(array(64, 64, seed=5) > -1, x, 0) * np.float32(factor) for factor in (1.25, 1.0))
    specs = [[Spec("torch.nn.functional.dropout", [x, 0.2], [one.astype(np.float32)])] for one in (drawn, scaled)]
    report = compare(tmp_path, specs[0], specs[1])
    assert report.verdict is Verdict.FAIL
    assert report.origin.confirmed is None
    assert "draws random numbers" in report.origin.explanation


def test_the_reference_may_be_the_wrong_one(tmp_path: Path) -> None:
    exact = torch.nn.functional.gelu
    report = compare(tmp_path, chain(lambda x: exact(x, approximate="tanh")), chain(exact))
    assert report.origin.confirmed is True
    assert "it is the reference that is wrong" in report.origin.explanation
