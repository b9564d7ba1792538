"""The measurement of detection power measures what it says: wrong kernels are wrong, honest ones are honest and
different, and both take the product's path."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from benchmarks.power import check, honest
from benchmarks.power.catalogue import wrong_kernels
from benchmarks.power.defects import DEFECTS, shown
from benchmarks.power.opinfo import EXCLUDED, LeftOut, Sample, named_call, samples
from benchmarks.power.reality import drawn, function_named, reality
from benchmarks.power.recipes import REGISTRY, call, leaves
from benchmarks.power.run import Choice, wrong_jobs
from benchmarks.power.trials import Trial, is_alarm, with_gradients

KERNELS = {kernel.id: kernel for kernel in wrong_kernels()}


def test_there_are_enough_of_them_and_each_can_be_called() -> None:
    assert len(KERNELS) >= check.LEAST_KERNELS
    assert len({kernel.api for kernel in KERNELS.values()}) >= check.LEAST_OPERATORS
    assert {kernel.direction for kernel in KERNELS.values()} == {"forward", "backward"}
    for kernel in KERNELS.values():
        assert callable(function_named(kernel.override)) and callable(function_named(kernel.api))
        assert kernel.recipes and kernel.dtypes


def test_a_third_is_held_out_by_name() -> None:
    held = sum(kernel.held_out for kernel in KERNELS.values())
    assert 0.25 < held / len(KERNELS) < 0.45


@pytest.mark.parametrize("name", ["gelu_scaled", "mul_truncated", "softmax_unshifted", "sort_stale_indices"])
def test_a_wrong_kernel_is_really_wrong(name: str) -> None:
    kernel = KERNELS[name]
    assert reality(kernel, 0, kernel.dtypes[-1]).material
    assert not list(check.problems(kernel, 0, kernel.dtypes[-1]))


def test_the_operator_itself_is_not_called_wrong() -> None:
    right = dataclasses.replace(KERNELS["gelu_scaled"], override="torch.nn.functional:gelu")
    for dtype in right.dtypes:
        assert not reality(right, 0, dtype).material


def test_a_kernel_without_a_gradient_is_noticed() -> None:
    blind = dataclasses.replace(KERNELS["relu_without_tail"], override="tests.benchmarks.test_power:blind_relu")
    assert any("gradients" in text for text in check.problems(blind, 0, torch.float32))


def blind_relu(value: torch.Tensor) -> torch.Tensor:
    return value.detach().relu()


@pytest.mark.parametrize("name", ["decomposed", "references", "relaid", "threaded", "again"])
def test_other_implementations_give_the_same_numbers(name: str) -> None:
    implementation = getattr(honest, name).torch.nn.functional.softplus
    value = torch.randn(8, 6, requires_grad=True)
    result = implementation(value)
    torch.testing.assert_close(result, torch.nn.functional.softplus(value))
    if name != "references":
        (gradient,) = torch.autograd.grad(result.sum(), value)
        torch.testing.assert_close(gradient, torch.sigmoid(value))


def test_decomposing_replaces_kernels_forward_and_backward() -> None:
    seen: list[str] = []

    class Watching(honest.Decompose):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func in honest.rules():
                seen.append(func.__name__)
            return super().__torch_dispatch__(func, types, args, kwargs)

    value = torch.randn(4, 4, requires_grad=True)
    honest.within(Watching, torch.nn.functional.gelu, (value,), {}).sum().backward()
    assert {"gelu.default", "gelu_backward.default"} <= set(seen)


def test_relaid_writes_state_back_and_refuses_views() -> None:
    mean, variance = torch.zeros(3), torch.ones(3)
    honest.relaid.torch.nn.functional.batch_norm(torch.randn(8, 3) + 5, mean, variance, training=True)
    assert (mean > 0.3).all()
    with pytest.raises(honest.NoSuchImplementation):
        honest.relaid.torch.transpose(torch.randn(3, 4), 0, 1)


def test_samples_are_calls_of_public_functions_and_exclusions_have_reasons() -> None:
    found = list(samples((torch.float32,), 2, lambda name: name in ("add", "where", "empty_like", "mT")))
    calls = {one.operator: one for one in found if isinstance(one, Sample)}
    assert calls["add"].api == "torch.add" and calls["where"].api == "torch.where"
    assert leaves(calls["where"].arguments.args)[0].dtype == torch.bool
    assert {one.operator for one in found if isinstance(one, LeftOut)} == {"empty_like", "mT"}
    assert all(EXCLUDED.values()) and callable(named_call)


@pytest.mark.parametrize("name", ["linear_without_bias", "tanh_grad_without_square"])
def test_a_wrong_kernel_is_found_by_the_products_path(name: str) -> None:
    kernel = KERNELS[name]
    arguments = with_gradients(drawn(kernel, 0, torch.float32))
    said = Trial("cpu").said(kernel.api, kernel.override, arguments, name=name)
    assert is_alarm(said.verdicts["calibrated"]) and not said.raised and not said.skipped


def test_an_honest_call_is_not_an_alarm() -> None:
    arguments = with_gradients(call(torch.randn(16, 8), torch.randn(4, 8)))
    said = Trial("cpu").said_each(
        "torch.nn.functional.linear",
        {"again": "benchmarks.power.honest:again.torch.nn.functional.linear"},
        arguments,
        backward=True,
        name="linear",
    )["again"]
    assert said.verdicts["calibrated"] == "PASS" and said.same


def test_shards_share_the_work_without_overlap() -> None:
    jobs = [{job.name for job in wrong_jobs(Choice(("relu",), f"{number}/3"))} for number in range(3)]
    assert set.union(*jobs) == {job.name for job in wrong_jobs(Choice(("relu",)))}
    assert sum(map(len, jobs)) == len(set.union(*jobs))
    assert len(REGISTRY) == len(KERNELS)


def test_defects_of_implementations_are_proven_anew() -> None:
    assert len(shown()) == len(DEFECTS)
