"""One Case run by Paddle: as a candidate, honestly and for the gold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from tests.helpers.paddle_cases import T, case_of, drawn, numbers  # noqa: E402
from trueline.cases import Status, Target  # noqa: E402
from trueline.dtypes import DTYPES  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.frameworks.base import ArrayIn, CannotExecute, Executed, Inputs  # noqa: E402
from trueline.frameworks.paddle.composites import composite_named  # noqa: E402
from trueline.frameworks.paddle.execute import PaddleExecutor  # noqa: E402
from trueline.frameworks.paddle.execute_errors import outcome_of  # noqa: E402

GELU = "paddle.nn.functional.gelu"


def on(target: str = "paddle:cpu", *, gelu: str = "") -> PaddleExecutor:
    place = f"tests.helpers.wrong_paddle_kernels:{gelu}"
    return PaddleExecutor(Target.parse(target, {GELU: place} if gelu else None))


def run(target: str, api: str, *args: Any, mode: Any = "candidate", **kwargs: Any) -> Executed:
    case, inputs = case_of(api, *args, **kwargs)
    return on(target).run(case, inputs, mode=mode)


@pytest.mark.parametrize("mode", ["candidate", "honest"])
def test_outputs_and_gradients_are_those_of_paddle(mode: Any) -> None:
    values = [drawn(6, 5), drawn(5, 4, seed=1), drawn(4, seed=2)]
    x, weight, bias = (paddle.to_tensor(value, stop_gradient=False) for value in values)
    arrives = drawn(6, 4, seed=3)
    out = paddle.nn.functional.linear(x, weight, bias)
    paddle.autograd.backward([out], [paddle.to_tensor(arrives)])
    case, inputs = case_of("paddle.nn.functional.linear", T(values[0], grad=True), T(values[1], grad=True),
                           bias=T(values[2], grad=True))  # fmt: skip
    done = on().run(case, replace(inputs, gradients={"out": ArrayIn(arrives, "float32")}), mode=mode)
    assert np.array_equal(numbers(done.outputs["out"]), out.numpy())
    for path, leaf in zip(("args.0", "args.1", "kwargs.bias"), (x, weight, bias), strict=True):
        assert np.array_equal(numbers(done.gradients[path]), leaf.grad.numpy()), path
    assert np.array_equal(done.arrived["out"].bits, arrives)


def test_the_gold_is_fed_with_the_rounded_inputs() -> None:
    case, inputs = case_of("paddle.reshape", T(np.full(3, 1.0 + 2.0**-12)), [3, 1])
    executor = on("paddle:cpu/bfloat16")
    assert numbers(executor.run(case, inputs, mode="candidate").outputs["out"])[0] == 1.0
    gold = executor.run(case, inputs, mode="gold").outputs["out"]
    assert gold.dtype == "float64"
    assert numbers(gold)[0] == 1.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_dtype_of_the_target_is_that_of_every_float(dtype: str) -> None:
    case, inputs = case_of("paddle.concat", [T([1.0, 2.0]), T([3.0])])
    executor = on(f"paddle:cpu/{dtype}")
    rounded = executor.rounded(case, inputs)
    assert {array.dtype for array in rounded.tensors.values()} == {dtype}
    assert executor.run(case, inputs, mode="candidate").outputs["out"].dtype == dtype
    assert executor.rounded(case, rounded) is rounded


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)], ids=["matrix", "number", "empty"])
@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - {"uint16", "uint32", "uint64", "complex32"}))
def test_every_bit_goes_through(dtype: str, shape: tuple[int, ...]) -> None:
    kind = DTYPES[dtype]
    if not hasattr(paddle, dtype):
        pytest.skip(f"Paddle has no {dtype}")
    raw = np.random.default_rng(0).integers(0, 256, int(np.prod(shape)) * kind.itemsize, dtype=np.uint8)
    bits = (raw % 2 if dtype == "bool" else raw).view(np.dtype(kind.storage)).reshape(shape)
    case, _ = case_of("paddle.Tensor.detach", T(np.zeros(shape), dtype))
    done = on().run(case, Inputs({"args.0": ArrayIn(bits, dtype)}), mode="candidate")
    assert done.returned, done.outcome
    out = done.outputs["out"]
    assert (out.dtype, out.shape) == (dtype, shape)
    assert out.bits is not None and out.bits.tobytes() == bits.tobytes()


def test_what_paddle_lacks_is_said() -> None:
    case, _ = case_of("paddle.Tensor.detach", T([1, 2], "uint16"))
    with pytest.raises(CannotExecute, match="no dtype uint16"):
        on().run(case, Inputs({"args.0": ArrayIn(np.zeros(2, np.uint16), "uint16")}), mode="candidate")


@pytest.mark.parametrize("strides", [(1, 3), (4, 1), (0, 1)], ids=["transposed", "sliced", "expanded"])
def test_layouts_are_kept(strides: tuple[int, ...]) -> None:
    values = np.broadcast_to(drawn(2), (3, 2)) if strides[0] == 0 else drawn(3, 2)
    done = run("paddle:cpu", "paddle.Tensor.detach", T(values, strides=strides))
    assert done.outputs["out"].strides == strides
    assert np.array_equal(numbers(done.outputs["out"]), values)


@pytest.mark.parametrize(
    ("api", "result"), [("paddle.Tensor.add_", [4.0, 6.0]), ("paddle.Tensor.subtract_", [-2.0, -2.0])]
)
def test_a_call_in_place_gives_its_argument_back(api: str, result: list[float]) -> None:
    done = run("paddle:cpu", api, T([1.0, 2.0], grad=True), T([3.0, 4.0], grad=True))
    assert done.outputs["out"].alias == "args.0"
    assert numbers(done.outputs["out"]).tolist() == result
    assert numbers(done.gradients["args.0"]).tolist() == [1.0, 1.0]
    assert set(done.outputs) == {"out"}


def test_assigning_to_a_slice_changes_the_argument() -> None:
    done = run("paddle:cpu", "paddle.Tensor.__setitem__", T([1.0, 2.0, 3.0], grad=True), slice(0, 2, None),
               T([7.0, 8.0], grad=True))  # fmt: skip
    assert numbers(done.outputs["args.0"]).tolist() == [7.0, 8.0, 3.0]
    assert numbers(done.gradients["args.0"]).tolist() == [0.0, 0.0, 1.0]
    assert numbers(done.gradients["args.2"]).tolist() == [1.0, 1.0]


def test_what_a_kernel_writes_without_counting_is_seen() -> None:
    """batch_norm moves its running statistics and leaves their version counter where it was."""
    done = run("paddle:cpu", "paddle.nn.functional.batch_norm", T(drawn(8, 3)), T(np.zeros(3)), T(np.ones(3)),
               training=True)  # fmt: skip
    assert {"out", "args.1", "args.2"} == set(done.outputs)
    assert done.outputs["args.1"].alias == "args.1"


def test_a_result_that_no_kernel_made_is_none_and_an_empty_one_is_one() -> None:
    case, inputs = case_of(GELU, T(drawn(4)))
    done = on(gelu="half_filled").run(case, inputs, mode="candidate")
    assert done.outcome.status is Status.RETURNED, done.outcome
    assert list(done.outputs) == ["out.0"]
    empty = run("paddle:cpu", "paddle.nonzero", T(np.zeros(3, dtype=np.float32)))
    assert empty.outputs["out"].shape == (0, 1)


def test_a_watched_argument_comes_back() -> None:
    case, inputs = case_of("paddle.add", T([1.0]), T([2.0]))
    assert set(on().run(case, inputs, mode="candidate", watch={"args.1"}).outputs) == {"out", "args.1"}


@pytest.mark.parametrize("dtype", [{"$dtype": "float32"}, "float32"], ids=["dtype", "text"])
def test_dtypes_in_arguments_are_wide_in_the_gold(dtype: Any) -> None:
    case, inputs = case_of("paddle.full", [2], 0.1)
    case = replace(case, arguments={"args": [[2], 0.1], "kwargs": {"dtype": dtype}})
    assert on().run(case, inputs, mode="candidate").outputs["out"].dtype == "float32"
    gold = on().run(case, inputs, mode="gold").outputs["out"]
    assert gold.dtype == "float64"
    assert numbers(gold)[0] == 0.1


def test_what_is_made_from_nothing_is_wide_in_the_gold_and_the_default_is_put_back() -> None:
    assert run("paddle:cpu", "paddle.ones", [2], mode="gold").outputs["out"].dtype == "float64"
    assert paddle.get_default_dtype() == "float32"


def test_a_cast_has_the_gold_of_its_own_type() -> None:
    gold = run("paddle:cpu", "paddle.cast", T([1.0 + 2.0**-12]), {"$dtype": "bfloat16"}, mode="gold").outputs["out"]
    assert (gold.dtype, numbers(gold)[0]) == ("float64", 1.0)


def test_bits_seen_as_another_dtype_have_the_gold_of_their_own_type() -> None:
    gold = run("paddle:cpu", "paddle.Tensor.view", T([1.0, 2.0]), "bfloat16", mode="gold").outputs["out"]
    assert (gold.dtype, numbers(gold).tolist()) == ("float64", [0.0, 1.0, 0.0, 2.0])


def test_defaults_that_depend_on_the_dtype_are_those_of_the_call() -> None:
    gold = run("paddle:cpu", "paddle.nan_to_num", T([np.inf, 1.0]), mode="gold").outputs["out"]
    assert numbers(gold)[0] == float(np.finfo(np.float32).max)


def test_operators_lists_and_properties() -> None:
    assert numbers(run("paddle:cpu", "paddle.Tensor.__radd__", T([1.0]), 2).outputs["out"])[0] == 3.0
    assert run("paddle:cpu", "paddle.Tensor.T", T(drawn(2, 3))).outputs["out"].shape == (3, 2)
    done = run("paddle:cpu", "paddle.stack", [T([1.0], grad=True), T([2.0], grad=True)])
    assert [numbers(done.gradients[path]).tolist() for path in ("args.0.0", "args.0.1")] == [[1], [1]]
    parts = run("paddle:cpu", "paddle.split", T(drawn(4)), 2)
    assert set(parts.outputs) == {"out.0", "out.1"}


def test_the_same_seed_draws_the_same() -> None:
    once, again = (run("paddle:cpu", "paddle.rand", [8], seed=3) for _ in range(2))
    other = run("paddle:cpu", "paddle.rand", [8], seed=4)
    assert numbers(once.outputs["out"]).tolist() == numbers(again.outputs["out"]).tolist()
    assert numbers(once.outputs["out"]).tolist() != numbers(other.outputs["out"]).tolist()


def test_a_missing_kernel_is_unsupported_in_one_line() -> None:
    outcome = run("paddle:cpu/bfloat16", "paddle.matmul", T(drawn(2, 2)), T(drawn(2, 2))).outcome
    assert outcome.status is Status.UNSUPPORTED
    assert outcome.reason.startswith("no kernel matmul for bfloat16 on CPU; there is one for complex128, complex64")
    assert "\n" not in outcome.reason and "Hint" not in outcome.reason


def test_what_a_call_raises_is_one_sentence() -> None:
    outcome = run("paddle:cpu", "paddle.reshape", T(drawn(4)), [3]).outcome
    assert outcome.status is Status.RAISED
    assert outcome.reason.startswith("ValueError: The 'shape' in ReshapeOp is invalid.")
    assert "Hint" not in outcome.reason and "/paddle/" not in outcome.reason


def test_a_summary_is_taken_out_of_a_traceback() -> None:
    text = "\n\n---\nC++ Traceback\n---\n0 phi::Add\n\nError Message Summary:\n-----\nInvalidArgumentError: It is bad."
    assert outcome_of(ValueError(text)).reason == "ValueError: It is bad."


def test_no_memory_is_told_apart() -> None:
    assert run("paddle:cpu", "paddle.ones", [1 << 40]).outcome.status is Status.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("api", "reason"),
    [
        ("paddle.distributed.all_reduce", "no operator"),
        ("paddle.no_such_thing", "no operator: paddle .* declares no paddle.no_such_thing"),
        ("paddle.Tensor.backward", "no operator"),
        ("paddle.nn.Linear", "no operator"),
        ("torch.add", "no operator"),
    ],
)
def test_what_cannot_be_executed_says_why(api: str, reason: str) -> None:
    with pytest.raises(CannotExecute, match=reason):
        run("paddle:cpu", api, T([1.0]))


def test_float64_has_no_wide_gold_here() -> None:
    outcome = run("paddle:cpu", "paddle.exp", T([1.0], "float64"), mode="wide").outcome
    assert outcome.status is Status.UNSUPPORTED
    assert "--reference torch:cpu" in outcome.reason


def test_a_backward_without_a_kernel_keeps_the_outputs() -> None:
    done = run("paddle:cpu/bfloat16", "paddle.unbind", T(drawn(2, 2), grad=True))
    assert done.returned and set(done.outputs) == {"out.0", "out.1"}
    assert done.backward is not None


def test_rows_of_a_sparse_gradient_are_summed_up() -> None:
    done = run("paddle:cpu", "paddle.nn.functional.embedding", T([1, 1], "int64"),
               T(drawn(3, 2), grad=True), sparse=True)  # fmt: skip
    found = done.gradients["args.1"]
    assert found.note == "layout selected rows"
    assert numbers(found).tolist() == [[0, 0], [2, 2], [0, 0]]


def test_an_unknown_device_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="cannot use gpu:7"):
        on("paddle:gpu:7")


def test_an_override_runs_in_place_of_the_api_for_the_candidate_alone() -> None:
    case, inputs = case_of(GELU, T(drawn(8)))
    executor = on(gelu="negated")
    honest, candidate = (executor.run(case, inputs, mode=mode) for mode in ("honest", "candidate"))
    assert np.array_equal(numbers(candidate.outputs["out"]), -numbers(honest.outputs["out"]))


def test_an_override_that_writes_to_its_argument_shows() -> None:
    case, inputs = case_of(GELU, T(drawn(8), grad=True))
    assert "args.0" in on(gelu="writes_to_its_argument").run(case, inputs, mode="candidate").outputs


@pytest.mark.parametrize("word", ["nonsense", "tanh\x1b[2J"])
def test_a_word_that_torch_does_not_know_is_refused(word: str) -> None:
    function = composite_named("gelu")
    assert function is not None
    with pytest.raises(CannotExecute, match=r"approximate is .*; the operator knows 'none', 'tanh'"):
        function(paddle.ones([2]), word)
