"""Nothing is lost silently: every way to call torch is seen, and the witness finds no kernel outside a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import relu
from torch.nn import functional as F

from tests.helpers.models import THREE_MODELS, train
from trueline.records import Call, Phase
from trueline.store import RankReader

Calls = Callable[..., list[Call]]


@pytest.mark.parametrize("name", THREE_MODELS)
def test_no_kernel_runs_outside_a_recorded_call(name: str, captured: Callable[..., RankReader]) -> None:
    certificate = captured(lambda: train(name, steps=2, keep=False), witness=True).certificate
    assert certificate.kernels_outside == {}
    assert certificate.not_recorded == {}
    assert certificate.kernels_inside > 100


def test_the_witness_can_fail(captured: Callable[..., RankReader]) -> None:
    def program() -> None:
        with torch._C.DisableTorchFunction():
            torch.relu(torch.ones(3))

    outside = captured(program, witness=True).certificate.kernels_outside
    assert outside is not None and outside["aten.relu.default"] == 1


def test_nobody_looked_is_not_nothing_found(captured: Callable[..., RankReader]) -> None:
    assert captured(lambda: torch.ones(3) + 1).certificate.kernels_outside is None


X = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
WAYS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "imported before": (lambda: relu(X), ["torch.relu"]),
    "operators": (lambda: -(X + 1) @ X / 2, ["add", "neg", "matmul", "div"]),
    "reflected operator": (lambda: 1 - X, ["torch.Tensor.__rsub__"]),
    "comparison": (lambda: (X > 1) & (X != 2), ["gt", "ne", "__and__"]),
    "indexing": (lambda: X[0, 1:], ["torch.Tensor.__getitem__"]),
    "method": (lambda: X.softmax(-1), ["torch.Tensor.softmax"]),
    "properties": (lambda: (X.T, X.mT, X.real), ["torch.Tensor.T", "torch.Tensor.mT"]),
    "a cast by its type": (lambda: X.type(torch.bfloat16), ["torch.Tensor.type"]),
    "functional": (lambda: F.gelu(X), ["torch.nn.functional.gelu"]),
    "linear algebra": (lambda: torch.linalg.inv(X), ["torch.linalg.inv"]),
    "fourier": (lambda: torch.fft.fft(X), ["torch.fft.fft"]),
    "special": (lambda: torch.special.erf(X), ["torch.special.erf"]),
    "no tensor goes in": (lambda: torch.arange(4), ["torch.arange"]),
    "recurrent": (lambda: torch.nn.LSTM(2, 3)(X), ["lstm"]),
    "out argument": (lambda: torch.add(X, X, out=torch.empty(2, 2)), ["torch.add"]),
    "kernel by name": (lambda: torch.ops.aten.relu(X), ["torch.ops.aten.relu"]),
    "foreach": (lambda: torch._foreach_add([X, X], 1.0), ["torch._foreach_add"]),
    "einsum": (lambda: torch.einsum("ij,jk->ik", X, X), ["torch.einsum"]),
    "embedding bag": (lambda: F.embedding_bag(torch.tensor([[0, 1]]), X), ["torch.nn.functional.embedding_bag"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_call_torch_is_seen(way: str, captured: Callable[..., RankReader]) -> None:
    function, names = WAYS[way]
    reader = captured(function, witness=True)
    seen = [call.api for call in reader.trace()]
    for name in names:
        assert any(api == name or api.endswith(f".{name}") or api.endswith(f".__{name}__") for api in seen), seen
    assert reader.certificate.kernels_outside == {}


def test_questions_about_tensors_are_not_calls(calls: Calls) -> None:
    def program() -> None:
        assert X.shape == (2, 2) and X.dtype is torch.float32 and X.dim() == 2 and X.is_contiguous()
        assert X.requires_grad is False and X.device.type == "cpu" and len(X) == 2 and X.numel() == 4

    assert calls(program) == []


def test_a_custom_function_is_a_call_and_so_is_what_it_makes(calls: Calls) -> None:
    found = calls(lambda: train("mixed", steps=1, keep=False))
    count = Counter((call.api, call.phase) for call in found)
    assert count["tests.helpers.models.Swish.apply", Phase.FORWARD] == 1
    assert count["tests.helpers.models.Swish.apply", Phase.BACKWARD] == 1
    inside = [call for call in found if call.context == "backward"]
    assert {call.api for call in inside} >= {"torch.Tensor.mul", "torch.Tensor.__rsub__"}


def test_what_checkpointing_runs_again_is_marked(calls: Calls) -> None:
    found = calls(lambda: train("mixed", steps=1, keep=False))
    again = [call for call in found if call.context == "recompute" and call.phase is Phase.FORWARD]
    linear = [call.module for call in again if call.api == "torch.nn.functional.linear"]
    assert Counter(linear) == {"second": 1, "third": 1}
    stopped = [call.raised for call in again if call.raised]
    assert all("activation checkpointing" in text for text in stopped)
    first = [call for call in found if not call.context and call.phase is Phase.FORWARD]
    linear = [call.module for call in first if call.api == "torch.nn.functional.linear"]
    assert Counter(linear) == {"first": 1, "second": 1, "third": 1}


def test_what_an_optimizer_computes_is_its_own(calls: Calls) -> None:
    found = calls(lambda: train("transformer", steps=1, keep=False))
    maths = [call for call in found if call.context == "optimizer"]
    assert {call.module for call in maths} == {"optimizer"}
    assert {call.module_class for call in maths} == {"AdamW"}
    assert any(call.api.startswith("torch._foreach_") for call in maths)


def test_modules_sources_and_names(calls: Calls) -> None:
    found = calls(lambda: train("transformer", steps=1, keep=False))
    forward = [call for call in found if call.phase is Phase.FORWARD]
    attention = [call for call in forward if call.api.endswith("scaled_dot_product_attention")]
    assert [call.module for call in attention] == ["blocks.0", "blocks.1"]
    assert [call.name.rpartition(".")[0].rpartition(".")[2] for call in attention] == ["0", "1"]
    assert all("models.py" in call.source and call.source.endswith("in forward") for call in attention)
    assert [frame.function for frame in attention[0].stack[:3]] == ["forward", "forward", "_language_loss"]
    assert attention[0].stack[0].line < attention[0].stack[1].line, "the block, then the transformer that called it"


def test_levels_see_the_same_program(captured: Callable[..., RankReader]) -> None:
    both = captured(lambda: train("convolution", steps=1, keep=False), level="api+module")
    calls = list(both.trace())
    modules = [call for call in calls if call.level.value == "module" and call.phase is Phase.FORWARD]
    assert [call.module for call in modules if call.api.endswith(("Conv2d", "Linear"))] == ["stem", "deep", "head"]
    stem = next(call for call in modules if call.module == "stem")
    assert {record.path for record in stem.inputs} == {"args.0", "parameters.weight", "parameters.bias"}
    kernels = captured(lambda: train("convolution", steps=1, keep=False), level="kernel")
    assert any(call.api.startswith("aten.convolution") for call in kernels.trace())
