"""Tensors on disk: exact bits of every kind, stored once, as they were before and after a call."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tests.helpers.models import train
from trueline.dtypes import DTYPES
from trueline.records import Call, Phase, TensorRecord
from trueline.store import RankReader

Captured = Callable[..., RankReader]
BIG = 200 * 200
"""Enough elements to be read in the background."""


def bits(tensor: torch.Tensor) -> bytes:
    """What a tensor holds, in C order."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def stored(reader: RankReader, record: TensorRecord) -> bytes:
    assert record.stored, record
    return np.ascontiguousarray(reader.tensor(record)).tobytes()


def forward(reader: RankReader, api: str, nth: int = 0) -> Call:
    (found,) = [c for c in reader.trace() if c.api == api and c.index == nth and c.phase is Phase.FORWARD]
    return found


def samples() -> Iterator[tuple[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for name in DTYPES:
        dtype = getattr(torch, name, None)
        if dtype is None or name == "complex32":
            continue
        size = torch.empty((), dtype=dtype).element_size()
        raw = torch.randint(0, 256, (6 * 4 * size,), generator=generator, dtype=torch.uint8)  # NaNs and all
        yield name, (raw < 128)[:24].reshape(6, 4) if name == "bool" else raw.view(dtype).reshape(6, 4)
    plain = torch.randn(6, 4, 5, generator=generator)
    wave = torch.randn(3, 4, dtype=torch.complex64, generator=generator)
    yield "scalar", torch.tensor(-0.0)
    yield "empty", torch.empty(0, 3)
    yield "empty with strides", torch.empty(4, 0).t()
    yield "strided", plain[::2, 1:, ::3]
    yield "transposed", plain.permute(2, 0, 1)
    yield "expanded", torch.randn(3, 1, generator=generator).expand(3, 7)
    yield "flipped", plain.flip(0)
    yield "channels last", torch.randn(2, 3, 4, 5, generator=generator).to(memory_format=torch.channels_last)
    yield "conjugate view", wave.conj()
    yield "negative view", wave.conj().imag
    yield "seven dimensions", torch.randn(2, 3, 2, 3, 2, 3, 2, generator=generator).permute(6, 0, 5, 1, 4, 2, 3)
    yield "overlapping", torch.arange(10.0).as_strided((4, 4), (2, 1))
    yield "big and strided", torch.randn(300, 300, generator=generator).t()[1:]
    yield "big", torch.randn(300, 300, generator=generator)


@pytest.mark.parametrize("name", [name for name, _ in samples()])
def test_exact_bits(name: str, captured: Captured) -> None:
    tensor = dict(samples())[name]
    reader = captured(lambda: tensor.unsqueeze(0), data="tensors")
    (call,) = reader.trace()
    assert stored(reader, call.inputs[0]) == bits(tensor)
    assert (call.inputs[0].shape, call.inputs[0].strides) == (tuple(tensor.shape), tensor.stride())
    assert call.inputs[0].dtype == str(tensor.dtype).removeprefix("torch.")


def test_other_programs_open_the_files(captured: Captured) -> None:
    tensors = dict(samples())
    reader = captured(lambda: [tensor.unsqueeze(0) for tensor in tensors.values()], data="tensors")
    contents: dict[str, Any] = {}
    for file in sorted(reader.folder.glob("*.safetensors")):
        contents |= load_file(file)
        with safetensors.safe_open(file, framework="numpy") as handle:
            assert set(handle.keys()) <= set(contents)
    names = [name for name in contents if name.startswith("tensor.")]
    seen = {record.tensor_id: record for call in reader.trace() for record in call.tensors}
    assert {f"tensor.{number}" for number in seen} == set(names)
    for number, record in seen.items():
        kept = contents[f"tensor.{number}"]
        assert bits(kept) == stored(reader, record)
        if DTYPES[record.dtype].safetensors:
            assert str(kept.dtype) == f"torch.{record.dtype}"


def test_a_tensor_is_stored_once(captured: Captured) -> None:
    x = torch.randn(BIG)

    def program() -> None:
        y = x.sin()
        for _ in range(20):
            torch.add(y, x)
            y.reshape(200, 200)

    reader = captured(program, data="tensors")
    numbers = {record.tensor_id for call in reader.trace() for record in call.inputs}
    assert len(numbers) == 2
    assert reader.certificate.bytes_stored < 4 * BIG * 23 < reader.certificate.bytes_seen


def test_memory_that_is_used_again_is_not_taken_for_the_same_tensor(captured: Captured) -> None:
    values = [torch.full((64,), float(n)) for n in range(200)]

    def program() -> None:
        for value in values:
            (value + 0.5).neg()  # the sum is freed at once, and its memory used for the next

    reader = captured(program, data="tensors")
    found = [np.asarray(reader.tensor(call.outputs[0]))[0] for call in reader.trace() if call.api.endswith("neg")]
    assert found == [-(n + 0.5) for n in range(200)]


def in_place_programs() -> dict[str, tuple[str, Callable[[torch.Tensor], Any]]]:
    """Name -> the API that changes its first argument, and how to call it."""
    return {
        "method": ("torch.Tensor.add_", lambda x: x.add_(1)),
        "operator": ("torch.Tensor.mul_", lambda x: x.__imul__(3)),
        "data": ("torch.Tensor.add_", lambda x: x.data.add_(1)),
        "detached": ("torch.Tensor.mul_", lambda x: x.detach().mul_(2)),
        "whole view": ("torch.Tensor.add_", lambda x: x.view(-1).add_(1)),
        "item": ("torch.Tensor.__setitem__", lambda x: x.__setitem__(0, 7.0)),
        "functional": ("torch.nn.functional.relu", lambda x: torch.nn.functional.relu(x, inplace=True)),
        "function": (".relu_", torch.relu_),
        "foreach": ("torch._foreach_mul_", lambda x: torch._foreach_mul_([x], 2.0)),
        "fill": ("torch.Tensor.zero_", lambda x: x.zero_()),
        "initialisation": ("uniform_", lambda x: torch.nn.init.uniform_(x)),
        "kernel": ("torch.ops.aten.add_", lambda x: torch.ops.aten.add_(x, x)),
    }


@pytest.mark.parametrize("data", ["stats", "tensors"])
@pytest.mark.parametrize("size", [16, BIG])
@pytest.mark.parametrize("name", in_place_programs())
def test_in_place_calls_show_before_and_after(name: str, size: int, data: str, captured: Captured) -> None:
    api, change = in_place_programs()[name]
    torch.manual_seed(0)
    x = torch.randn(size)
    kept: list[torch.Tensor] = []

    def program() -> None:
        y = x.neg()  # waits to be read when the next call changes it
        with torch._C.DisableTorchFunction():
            kept.append(y.clone())
        change(y)
        with torch._C.DisableTorchFunction():
            kept.append(y.clone())
        y.cos()

    reader = captured(program, data=data)
    assert reader.certificate.not_recorded == {}
    calls = list(reader.trace())
    (changing,) = [call for call in calls if call.api.endswith(api)]
    (after,) = [call for call in calls if call.api.endswith(".cos")]
    (before,) = [call for call in calls if call.api.endswith(".neg")]
    for record, expected in (
        (before.outputs[0], kept[0]),
        (changing.inputs[0], kept[0]),
        (changing.outputs[-1], kept[1]),
        (after.inputs[0], kept[1]),
    ):
        assert record.statistics is not None
        assert record.statistics.norm == pytest.approx(float(expected.double().norm()), rel=1e-6)
        assert record.statistics.mean == pytest.approx(float(expected.double().mean()), rel=1e-5, abs=1e-6)
        if data == "tensors":
            assert stored(reader, record) == bits(expected)


@pytest.mark.parametrize("size", [16, BIG])
@pytest.mark.parametrize("name", ["method", "functional", "foreach", "item"])
def test_kernels_in_place_show_before_and_after(name: str, size: int, captured: Captured) -> None:
    """Below autograd the version counter moves only after the kernel has been recorded."""
    x = torch.rand(size)
    y = x.neg()
    before = bits(y)
    reader = captured(lambda: in_place_programs()[name][1](y), data="tensors", level="kernel")
    assert reader.certificate.not_recorded == {}
    changing = list(reader.trace())[-1]
    results = {stored(reader, record) for record in changing.outputs}
    if name != "item":
        assert stored(reader, changing.inputs[0]) == before
        assert results == {bits(y)}
    else:
        assert results == {bits(y[0])}


@pytest.mark.parametrize("function", [F.elu, F.hardtanh, F.dropout, F.leaky_relu, F.hardswish, F.relu6])
def test_functions_asked_by_position_to_work_in_place(function: Callable[..., Any], captured: Captured) -> None:
    """Modules ask this way: F.elu(x, 1.0, True)."""
    names = list(inspect.signature(function).parameters)
    defaults = [inspect.signature(function).parameters[name].default for name in names[1 : names.index("inplace")]]
    x = torch.randn(BIG)

    def program() -> None:
        y = x.neg()
        function(y, *defaults, True)

    reader = captured(program, data="tensors")
    assert reader.certificate.not_recorded == {}
    first, second = reader.trace()
    assert stored(reader, first.outputs[0]) == stored(reader, second.inputs[0]) == bits(-x)
    assert second.outputs[0].tensor_id != second.inputs[0].tensor_id


@pytest.mark.parametrize("options", [{"apis": ["neg", "cos"]}, {"level": "module"}], ids=["filtered", "module"])
def test_calls_that_are_not_recorded_may_change_what_is(options: dict[str, Any], captured: Captured) -> None:
    class Negate(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.neg()

    x, negate = torch.rand(BIG), Negate()
    reader = captured(lambda: negate(x).add_(1), data="tensors", **options)
    assert reader.certificate.not_recorded == {}
    (call,) = reader.trace()
    assert stored(reader, call.outputs[0]) == bits(-x)


@pytest.mark.parametrize("size", [16, BIG])
def test_a_view_changed_in_place_changes_its_base(size: int, captured: Captured) -> None:
    x = torch.ones(size)

    def program() -> None:
        y = x * 2
        part = y[: size // 2]
        part.add_(5)
        y.sum()

    reader = captured(program, data="tensors")
    assert set(np.asarray(reader.tensor(forward(reader, "torch.Tensor.add_").inputs[0]))) == {2.0}
    assert set(np.asarray(reader.tensor(forward(reader, "torch.Tensor.add_").outputs[0]))) == {7.0}
    whole = np.asarray(reader.tensor(forward(reader, "torch.Tensor.sum").inputs[0]))
    assert (whole[: size // 2] == 7).all() and (whole[size // 2 :] == 2).all()
    assert set(np.asarray(reader.tensor(forward(reader, "torch.Tensor.mul").outputs[0]))) == {2.0}


@pytest.mark.parametrize("kind", ["foreach", "loop", "fused"])
@pytest.mark.parametrize("width", [8, 150])
def test_an_optimizer_step_shows_parameters_before_and_after(kind: str, width: int, captured: Captured) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(width, width, bias=False)
    options = {"foreach": {"foreach": True}, "loop": {"foreach": False}, "fused": {"fused": True}}[kind]
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, **options)
    before = layer.weight.detach().clone()
    reader = captured(lambda: (layer(torch.ones(2, width)).sum().backward(), optimizer.step()), data="tensors")
    assert reader.certificate.not_recorded == {}
    calls = [call for call in reader.trace() if call.context == "optimizer"]
    seen = {stored(reader, record) for call in calls for record in call.inputs}
    made = {stored(reader, record) for call in calls for record in call.outputs}
    assert bits(before) in seen and bits(before) not in made
    assert bits(layer.weight) in made and bits(layer.weight) not in seen


def test_running_statistics_before_and_after(captured: Captured) -> None:
    """Batch norm changes its running statistics without a trace in their version counters."""
    norm = torch.nn.BatchNorm1d(3)
    reader = captured(lambda: norm(torch.randn(5, 3)), data="tensors")
    call = forward(reader, "torch.nn.functional.batch_norm")
    arguments = {record.path: record for record in call.inputs}
    assert set(np.asarray(reader.tensor(arguments["args.1"]))) == {0.0}
    results = {record.path: record for record in call.outputs}
    assert stored(reader, results["args.1"]) == bits(norm.running_mean)
    assert stored(reader, results["args.2"]) == bits(norm.running_var)


def test_running_statistics_of_an_exported_graph(captured: Captured) -> None:
    """There the kernel is called under its own name, with the statistics in other places."""
    mean, variance = torch.zeros(3), torch.ones(3)
    kernel = torch.ops.aten.batch_norm.default
    reader = captured(
        lambda: kernel(torch.randn(5, 3), None, None, mean, variance, True, 0.1, 1e-5, False), data="tensors"
    )
    results = {record.path: record for record in forward(reader, "torch.ops.aten.batch_norm.default").outputs}
    assert stored(reader, results["args.3"]) == bits(mean)
    assert stored(reader, results["args.4"]) == bits(variance)


def test_normalisation_without_running_statistics_changes_nothing(captured: Captured) -> None:
    """Weight and bias stand where the running statistics would be among the tensors, and must not be taken for them."""
    x, weight, bias = torch.randn(2, 3, 4), torch.ones(3), torch.zeros(3)

    def program() -> None:
        F.batch_norm(x, None, None, weight, bias, training=True)
        F.instance_norm(x, weight=weight, bias=bias)
        F.batch_norm(x, running_var=torch.ones(3), running_mean=torch.zeros(3), weight=weight, training=True)

    first, second, third = [c for c in captured(program).trace() if c.api.endswith("_norm")]
    assert [record.path for record in first.outputs] == ["out"]
    assert [record.path for record in second.outputs] == ["out"]
    assert {record.path for record in third.outputs} == {"out", "args.1", "args.2"}


def test_statistics_digest_and_tensor_agree(captured: Captured) -> None:
    reader = captured(lambda: train("convolution", steps=1, keep=False), data="tensors")
    for call in reader.trace():
        for record in call.tensors:
            assert record.stored and record.statistics and (record.digest or 0 in record.shape), record
            values = reader.tensor(record)
            if values.dtype.kind == "f" and np.abs(values).max(initial=0) < 1e30:  # torch.empty may hold anything
                assert record.statistics.norm == pytest.approx(np.linalg.norm(values.astype("f8")), rel=1e-6)


def test_structure_keeps_no_numbers(captured: Captured) -> None:
    reader = captured(lambda: train("convolution", steps=1, keep=False), data="structure")
    records = [record for call in reader.trace() for record in call.tensors]
    assert records and not any(record.statistics or record.stored or record.digest for record in records)
    assert not list(reader.folder.glob("*.safetensors"))


def test_integers_can_be_left_out(captured: Captured) -> None:
    def program() -> None:
        torch.arange(5).float().gt(2)

    records = [record for call in captured(program, integers=False).trace() for record in call.tensors]
    for record in records:
        assert (record.statistics is None) == (record.dtype in ("int64", "bool"))
        assert bool(record.missing) == (record.statistics is None)


class Strange(torch.Tensor):
    """A subclass as people write them."""


ODD_TENSORS: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse().neg(), "layout torch.sparse_coo is not read"),
    "meta": (lambda: torch.ones(3, device="meta").neg(), "meta tensors have no content"),
    "empty on meta": (lambda: torch.empty(0, device="meta").neg(), "meta tensors have no content"),
    "freed": (lambda: _freed().view(5), "its memory was given back"),
}


def _freed() -> torch.Tensor:
    x = torch.ones(5)
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.parametrize("name", ODD_TENSORS)
def test_a_tensor_that_cannot_be_read_is_counted_and_the_rest_goes_on(name: str, captured: Captured) -> None:
    program, reason = ODD_TENSORS[name]
    reader = captured(lambda: (program(), torch.ones(2).neg()), data="tensors")
    assert any(reason in text for text in reader.certificate.not_recorded)
    assert any(record.missing.startswith(reason) for call in reader.trace() for record in call.tensors)
    assert stored(reader, forward(reader, "torch.Tensor.neg", int(name != "freed")).outputs[0]) == bits(-torch.ones(2))


def test_subclasses_are_read(captured: Captured) -> None:
    x = torch.randn(4).as_subclass(Strange)
    reader = captured(lambda: x.sin() + 1, data="tensors")
    assert reader.certificate.not_recorded == {}
    call = forward(reader, "torch.Tensor.sin")
    assert stored(reader, call.inputs[0]) == bits(x.as_subclass(torch.Tensor))
    assert stored(reader, call.outputs[0]) == bits(x.as_subclass(torch.Tensor).sin())


@pytest.mark.parametrize("data", ["stats", "tensors"])
def test_what_unseen_code_changed_is_missing_and_not_wrong(data: str, captured: Captured) -> None:
    def program() -> None:
        y = torch.ones(BIG).neg()
        with torch._C.DisableTorchFunction():  # as C++ code of an extension would
            y.add_(5)
        y.cos()

    reader = captured(program, data=data)
    _, negated, cosine = reader.trace()
    assert list(reader.certificate.not_recorded.values()) == [1]
    assert negated.outputs[0].missing.startswith("changed by code that was not seen")
    assert not negated.outputs[0].stored and negated.outputs[0].statistics is None
    assert cosine.inputs[0].statistics is not None and cosine.inputs[0].statistics.mean == 4.0


def test_threads_that_fill_the_table_of_statistics_together_stop_nothing(captured: Captured) -> None:
    """Whoever fills it has it given away, and others come before that is done."""

    def work() -> None:
        x = torch.ones(2)
        for _ in range(1500):
            x = torch.relu(x)

    def program() -> None:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader = captured(program, data="digest")
    finally:
        sys.setswitchinterval(interval)
    assert not reader.certificate.stopped_because
