"""Nothing is lost silently: every way to call Paddle is seen, and its own statistics know of nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

paddle = pytest.importorskip("paddle")

from paddle import matmul  # noqa: E402 - only where paddle is
from paddle.nn import functional as F  # noqa: E402
from paddle.nn.functional import batch_norm  # noqa: E402

from tests.capture import paddle_capturing as capturing  # noqa: E402
from tests.helpers.paddle_models import PROGRAMS, Doubled, train  # noqa: E402
from trueline.frameworks.paddle.pylayers import node_names  # noqa: E402
from trueline.records import Call, Phase  # noqa: E402
from trueline.store import RankReader  # noqa: E402

Calls = Callable[..., list[Call]]


@pytest.fixture
def captured(tmp_path: Path) -> Callable[..., RankReader]:
    return lambda function, **options: capturing.captured(tmp_path, function, **options)


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return lambda function, **options: capturing.calls(tmp_path, function, **options)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_operator_runs_outside_a_recorded_call(name: str, captured: Callable[..., RankReader]) -> None:
    """Forward, backward and optimizer: by Paddle's own operator statistics, and node by node of the graph."""
    certificate = captured(lambda: train(name, steps=2, keep=False), witness=True).certificate
    assert certificate.kernels_outside == {}
    assert certificate.not_recorded == {}
    assert certificate.kernels_inside > 100


def test_the_witness_can_fail(captured: Callable[..., RankReader]) -> None:
    held = (paddle._C_ops.tanh,)  # a builtin in a tuple: nobody can be sent elsewhere from there

    def program() -> None:
        x = paddle.ones([3])
        x.stop_gradient = False
        held[0](x).sum().backward()

    outside = captured(program, witness=True).certificate.kernels_outside
    assert outside == {"tanh": 1, "TanhGradNode": 1}


def test_nobody_looked_is_not_nothing_found(captured: Callable[..., RankReader]) -> None:
    assert captured(lambda: paddle.ones([3]) + 1).certificate.kernels_outside is None


X = paddle.to_tensor([[1.0, 2.0], [3.0, 5.0]])
ORDER = paddle.to_tensor([1, 0])


def _written() -> None:
    y = X.clone()
    y[0] = 3.0


def _in_place() -> None:
    X.clone().add_(X)


WAYS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "function": (lambda: paddle.add(X, X), ["paddle.add"]),
    "imported before": (lambda: matmul(X, X), ["paddle.matmul"]),
    "through paddle.tensor": (lambda: paddle.tensor.math.add(X, X), ["paddle.add"]),
    "operators": (lambda: -(X + 1) @ X / 2, ["__add__", "__neg__", "__matmul__", "__truediv__"]),
    "reflected operator": (lambda: 1 - X, ["paddle.Tensor.__rsub__"]),
    "comparison": (lambda: (X > 1) & (X != 2), ["__gt__", "__ne__", "__and__"]),
    "indexing": (lambda: X[0, 1:], ["paddle.Tensor.__getitem__"]),
    "indexing by a tensor": (lambda: X[ORDER], ["paddle.Tensor.__getitem__"]),
    "writing by index": (_written, ["paddle.Tensor.__setitem__"]),
    "method": (lambda: X.reshape([4]), ["paddle.Tensor.reshape"]),
    "builtin method": (lambda: X.clone(), ["paddle.Tensor.clone"]),
    "in place": (_in_place, ["paddle.Tensor.add_"]),
    "properties": (lambda: (X.T, X.mT), ["paddle.Tensor.T", "paddle.Tensor.mT"]),
    "cast": (lambda: X.astype("float64"), ["paddle.Tensor.astype"]),
    "functional": (lambda: F.gelu(X), ["paddle.nn.functional.gelu"]),
    "functional, imported before": (
        lambda: batch_norm(X, paddle.zeros([2]), paddle.ones([2])),
        ["paddle.nn.functional.batch_norm"],
    ),
    "linear algebra": (lambda: paddle.linalg.pinv(X), ["pinv"]),
    "fourier": (lambda: paddle.fft.fft(X), ["paddle.fft.fft"]),
    "signal": (lambda: paddle.signal.stft(paddle.ones([1, 64]), 16), ["paddle.signal.stft"]),
    "geometric": (lambda: paddle.geometric.segment_sum(X, ORDER.sort()), ["paddle.geometric.segment_sum"]),
    "vision": (lambda: paddle.vision.ops.nms(paddle.rand([3, 4]), 0.5), ["paddle.vision.ops.nms"]),
    "incubate": (lambda: paddle.incubate.identity_loss(X, "mean"), ["paddle.incubate.identity_loss"]),
    "no tensor goes in": (lambda: paddle.arange(4), ["paddle.arange"]),
    "random": (lambda: paddle.randn([2]), ["paddle.randn"]),
    "recurrent": (lambda: paddle.nn.LSTM(2, 3)(X.unsqueeze(0)), ["paddle._C_ops.rnn"]),
    "kernel by name": (lambda: paddle._C_ops.relu(X), ["paddle._C_ops.relu"]),
    "einsum": (lambda: paddle.einsum("ij,jk->ik", X, X), ["paddle.einsum"]),
}
if hasattr(paddle.linalg, "matmul"):  # older ones have no builtin outside of _C_ops
    WAYS["builtin in a namespace"] = (lambda: paddle.linalg.matmul(X, X), ["paddle.linalg.matmul"])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_call_paddle_is_seen(way: str, captured: Callable[..., RankReader]) -> None:
    function, names = WAYS[way]
    reader = captured(function, witness=True)
    seen = [call.api for call in reader.trace()]
    for name in names:
        assert any(api == name or api.endswith(f".{name}") for api in seen), seen
    assert reader.certificate.kernels_outside == {}


def test_only_the_outermost_call_is_recorded(calls: Calls) -> None:
    """A loss is made of many operators; the program made one call."""
    seen = calls(lambda: F.cross_entropy(X, ORDER))
    assert [call.name for call in seen] == ["paddle.nn.functional.cross_entropy.0.forward"]


def test_questions_about_tensors_are_not_calls(calls: Calls) -> None:
    def program() -> None:
        assert list(X.shape) == [2, 2] and X.dtype == paddle.float32 and X.dim() == 2 and X.is_contiguous()
        assert X.stop_gradient and X.place.is_cpu_place() and len(X) == 2 and X.is_floating_point()
        assert X.tolist()[0] == [1.0, 2.0] and X.numpy().shape == (2, 2)
        assert paddle.is_tensor(X) and paddle.get_device() and paddle.in_dynamic_mode() and paddle.is_grad_enabled()

    assert calls(program) == []


def test_a_custom_operation_is_a_call_and_so_is_what_it_makes(calls: Calls) -> None:
    found = calls(lambda: train("mixed", steps=1, keep=False))
    count = Counter((call.api, call.phase) for call in found)
    for name in ("Swish", "Doubled"):
        assert count[f"tests.helpers.paddle_models.{name}.apply", Phase.FORWARD] == 1
        assert count[f"tests.helpers.paddle_models.{name}.apply", Phase.BACKWARD] == 1
    inside = [call for call in found if call.context == "backward"]
    assert {call.api for call in inside} >= {"paddle.Tensor.__mul__", "paddle.Tensor.__rsub__"}


def test_the_nodes_of_custom_operations_are_known_by_the_names_of_this_paddle() -> None:
    x = paddle.ones([2])
    x.stop_gradient = False
    assert Doubled.apply(x).grad_fn.name() in node_names("Doubled")
    assert set(node_names("Doubled")) == {"GradNodePyLayer_Doubled", "GradNodePyLayer_Doubled_backward"}  # 3.3, 3.2


def test_what_recompute_runs_again_is_marked(calls: Calls) -> None:
    found = calls(lambda: train("mixed", steps=1, keep=False))
    linear = [call for call in found if call.api == "paddle.nn.functional.linear" and call.phase is Phase.FORWARD]
    assert Counter((call.module, call.context) for call in linear) == {
        ("first", ""): 1,
        ("second", ""): 1,
        ("second", "recompute"): 1,
    }
    backward = [call for call in found if call.api == "paddle.nn.functional.linear" and call.phase is Phase.BACKWARD]
    assert Counter(call.module for call in backward) == {"first": 1, "second": 1}


def test_what_an_optimizer_computes_is_its_own(calls: Calls) -> None:
    found = calls(lambda: train("transformer", steps=1, keep=False))
    maths = [call for call in found if call.context == "optimizer"]
    assert {call.module for call in maths} == {"optimizer"}
    assert {call.module_class for call in maths} == {"AdamW"}
    updates = [call for call in maths if call.api == "paddle._C_ops.adamw_"]
    assert len(updates) == 27
    before, after = updates[0].inputs[0], updates[0].outputs[0]
    assert before.shape == after.shape and before.tensor_id != after.tensor_id


def test_layers_sources_and_names(calls: Calls) -> None:
    found = calls(lambda: train("transformer", steps=1, keep=False))
    forward = [call for call in found if call.phase is Phase.FORWARD]
    softmax = [call for call in forward if call.api.endswith("softmax")]
    assert [call.module for call in softmax] == ["blocks.0.attention", "blocks.1.attention"]
    assert [call.module_class for call in softmax] == ["Attention", "Attention"]
    assert [call.index for call in softmax] == [0, 1]
    assert all("paddle_models.py" in call.source and call.source.endswith("in forward") for call in softmax)
    assert [frame.function for frame in softmax[0].stack[:4]] == ["forward", "forward", "forward", "_cast_loss"]


def test_levels_see_the_same_program(captured: Callable[..., RankReader]) -> None:
    both = captured(lambda: train("net", steps=1, keep=False), level="api+module")
    layers = [call for call in both.trace() if call.level.value == "module" and call.phase is Phase.FORWARD]
    embedding = next(call for call in layers if call.module == "embed")
    assert embedding.api.endswith("Embedding")
    assert {record.path for record in embedding.inputs} == {"args.0", "parameters.weight"}
    norm = next(call for call in layers if call.module == "batch_norm")
    assert {"parameters._mean", "parameters._variance"} <= {record.path for record in norm.outputs}, "they changed"
    kernels = captured(lambda: train("net", steps=1, keep=False), level="kernel")
    assert any(call.api == "paddle._C_ops.conv2d" or "conv" in call.api for call in kernels.trace())


def test_collectives_are_seen(calls: Calls) -> None:
    """Without a group they can do nothing but raise; with one they are in ``test_paddle_launch``."""

    def program() -> None:
        with pytest.raises(RuntimeError):
            paddle.distributed.all_reduce(X.clone())

    (call,) = [call for call in calls(program) if call.raised]
    assert call.api == "paddle.distributed.all_reduce" and "not initialized" in call.raised


def test_a_call_that_raises_is_recorded_with_its_error(calls: Calls) -> None:
    def program() -> None:
        with pytest.raises(ValueError):
            paddle.matmul(X, paddle.ones([3, 3]))
        X + 1

    failed, after = [call for call in calls(program) if call.api != "paddle.ones"]
    assert failed.api == "paddle.matmul" and failed.raised.startswith("ValueError") and not failed.outputs
    assert after.api == "paddle.Tensor.__add__" and not after.raised


class Compiled(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = paddle.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return F.relu(self.linear(x)) + x.sum()


@pytest.mark.parametrize("full_graph", [True, False])
def test_what_is_made_static_gives_the_same(full_graph: bool, captured: Callable[..., RankReader]) -> None:
    """A graph that is compiled is one kernel to us; what is traced to compile it is nothing."""
    layer = Compiled()
    expected = layer(X).tolist()
    static = paddle.jit.to_static(layer, full_graph=full_graph)
    found: list[Any] = []
    reader = captured(lambda: found.append(static(X).tolist()))
    assert found == [expected] and static(X).tolist() == expected
    seen = [call.api for call in reader.trace()]
    if full_graph:
        assert seen in (["paddle._C_ops.run_program"], ["paddle._legacy_C_ops.pir_run_program"])  # until Paddle 3.2
    else:
        assert "paddle.nn.functional.linear" in seen
