"""One Case run by torch: as a candidate, honestly and for the gold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.helpers.executing import case_of, tensor  # noqa: E402
from trueline.cases import Status, Target, TensorSpec  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.frameworks.base import ArrayIn, CannotExecute, Executed  # noqa: E402
from trueline.frameworks.torch.execute import TorchExecutor  # noqa: E402
from trueline.frameworks.torch.execute_facts import tensor_float, with_device_defaults  # noqa: E402
from trueline.frameworks.torch.rebuild import CPU, Setting, TorchMaker  # noqa: E402

GELU = "torch.nn.functional.gelu"


def on(target: str = "torch:cpu", *, gelu: str = "") -> TorchExecutor:
    return TorchExecutor(Target.parse(target, {GELU: f"tests.helpers.wrong_kernels:{gelu}"} if gelu else None))


def run(target: str, api: str, *args: Any, mode: Any = "candidate", **kwargs: Any) -> Executed:
    case, inputs = case_of(api, *args, **kwargs)
    return on(target).run(case, inputs, mode=mode)


@pytest.mark.parametrize("mode", ["candidate", "honest"])
def test_outputs_and_gradients_are_those_of_torch(mode: Any) -> None:
    x, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((6, 5), (4, 5), (4,)))
    arrives = torch.randn(6, 4)
    out = torch.nn.functional.linear(x, weight, bias=bias)
    expected = torch.autograd.grad(out, [x, weight, bias], arrives)
    case, inputs = case_of("torch.nn.functional.linear", x, weight, bias=bias)
    inputs = replace(inputs, gradients={"out": ArrayIn(arrives.numpy(), "float32")})
    done = on().run(case, inputs, mode=mode)
    assert torch.equal(tensor(done.outputs["out"]), out)
    for path, gradient in zip(("args.0", "args.1", "kwargs.bias"), expected, strict=True):
        assert torch.equal(tensor(done.gradients[path]), gradient), path
    assert np.array_equal(done.arrived["out"].bits, arrives.numpy())


def test_the_gold_is_fed_with_the_rounded_inputs() -> None:
    """The gold of a bfloat16 candidate starts from bfloat16 numbers, not from the float32 ones they were made of."""
    x = torch.full((3,), 1.0 + 2.0**-12)
    case, inputs = case_of("torch.neg", x)
    executor = on("torch:cpu/bfloat16")
    assert float(tensor(executor.run(case, inputs, mode="candidate").outputs["out"])[0]) == -1.0
    gold = executor.run(case, inputs, mode="gold").outputs["out"]
    assert gold.dtype == "float64"
    assert float(tensor(gold)[0]) == -1.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_dtype_of_the_target_is_that_of_every_float(dtype: str) -> None:
    case, inputs = case_of("torch.where", torch.tensor([True, False]), torch.randn(2), torch.randn(2))
    executor = on(f"torch:cpu/{dtype}")
    rounded = executor.rounded(case, inputs)
    assert [rounded.tensors[f"args.{place}"].dtype for place in range(3)] == ["bool", dtype, dtype]
    assert executor.run(case, inputs, mode="candidate").outputs["out"].dtype == dtype
    assert executor.run(case, rounded, mode="honest").outputs["out"].dtype == dtype


def test_inputs_are_rounded_once() -> None:
    case, inputs = case_of("torch.neg", torch.randn(64))
    executor = on("torch:cpu/float16")
    once = executor.rounded(case, inputs)
    assert executor.rounded(case, once) is once


def test_float8_stays_what_it_is() -> None:
    case, inputs = case_of("torch.Tensor.to", torch.randn(4).to(torch.float8_e4m3fn), torch.float32)
    assert on("torch:cpu/bfloat16").rounded(case, inputs).tensors["args.0"].dtype == "float8_e4m3fn"


def test_counters_of_optimizers_keep_their_dtype() -> None:
    lists = [[torch.rand(5) + 0.1] for _ in range(4)]
    options = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    case, inputs = case_of(
        "torch._fused_adam_", *lists, [], [torch.tensor(1.0)], amsgrad=False, maximize=False, **options
    )
    rounded = on("torch:cpu/float64").rounded(case, inputs).tensors
    assert (rounded["args.0.0"].dtype, rounded["args.5.0"].dtype) == ("float64", "float32")


@pytest.mark.parametrize("mode", ["candidate", "honest", "gold", "wide"])
def test_in_place_calls_give_the_changed_argument_once(mode: Any) -> None:
    x, y = torch.randn(8, requires_grad=True), torch.randn(8, requires_grad=True)
    case, inputs = case_of("torch.Tensor.mul_", x, y)
    done = on().run(case, inputs, mode=mode)
    assert list(done.outputs) == ["out"]
    assert done.outputs["out"].alias == "args.0"
    assert torch.allclose(tensor(done.outputs["out"]).float(), (x * y).detach())
    assert torch.allclose(tensor(done.gradients["args.0"]).float(), y.detach())
    assert np.array_equal(inputs.tensors["args.0"].bits, x.detach().numpy()), "the input itself must not change"


def test_arguments_that_are_changed_and_not_returned_are_outputs() -> None:
    x, y = torch.zeros(4, 4), torch.randn(4)
    done = run("torch:cpu", "torch.Tensor.__setitem__", x, 1, y)
    assert list(done.outputs) == ["args.0"]
    assert torch.equal(tensor(done.outputs["args.0"])[1], y)


def test_running_statistics_are_outputs() -> None:
    x, mean, variance = torch.randn(8, 3), torch.zeros(3), torch.ones(3)
    done = run("torch:cpu", "torch.nn.functional.batch_norm", x, mean, variance, training=True)
    assert list(done.outputs) == ["out", "args.1", "args.2"]
    assert torch.allclose(tensor(done.outputs["args.1"]), 0.1 * x.mean(0))


def test_out_is_written() -> None:
    x = torch.randn(5)
    done = run("torch:cpu", "torch.exp", x, out=torch.empty(5))
    assert torch.equal(tensor(done.outputs["out"]), x.exp())
    assert done.outputs["out"].alias == "kwargs.out"


def test_lists_are_changed_in_place() -> None:
    some = [torch.randn(3), torch.randn(4)]
    done = run("torch:cpu", "torch._foreach_add_", some, 1.0)
    changed = {array.alias: tensor(array) for array in done.outputs.values()}
    assert list(changed) == ["args.0.0", "args.0.1"]  # whether they are returned as well depends on the version
    assert torch.equal(changed["args.0.1"], some[1] + 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(6, 8).t(),
        lambda: torch.randn(6, 16)[:, ::2],
        lambda: torch.randn(6, 1).expand(6, 8),
        lambda: torch.randn(13).unfold(0, 8, 1),
        lambda: torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    ],
    ids=["transposed", "sliced", "expanded", "sliding", "channels last"],
)
@pytest.mark.parametrize("mode", ["candidate", "gold"])
def test_layouts_are_kept(make: Any, mode: Any) -> None:
    x = make()
    case, inputs = case_of("torch.Tensor.detach", x)
    output = on().run(case, inputs, mode=mode).outputs["out"]
    assert output.strides == tuple(x.stride())
    assert torch.equal(tensor(output).float(), x)


def test_a_strided_leaf_keeps_its_layout_when_it_is_changed_in_place() -> None:
    x = torch.randn(4, 16)[:, ::2].requires_grad_()
    output = run("torch:cpu", "torch.Tensor.add_", x, 1.0).outputs["out"]
    assert output.strides == (16, 2)


@pytest.mark.parametrize("mode", ["candidate", "honest", "gold", "wide"])
def test_empty_tensors(mode: Any) -> None:
    x = torch.randn(0, 4, requires_grad=True)
    case, inputs = case_of("torch.nn.functional.relu", x)
    done = on().run(case, inputs, mode=mode)
    assert done.outputs["out"].shape == (0, 4)
    assert done.gradients["args.0"].shape == (0, 4)


def test_a_missing_kernel_is_unsupported() -> None:
    done = run("torch:cpu", "torch.linalg.inv", torch.eye(3).half())
    assert done.outcome.status is Status.UNSUPPORTED
    assert "Half" in done.outcome.reason


def test_what_a_call_raises_is_an_outcome() -> None:
    done = run("torch:cpu", "torch.matmul", torch.randn(2, 3), torch.randn(2, 3))
    assert done.outcome.status is Status.RAISED
    assert "RuntimeError" in done.outcome.reason


def test_memory_that_is_not_there_is_an_outcome() -> None:
    done = run("torch:cpu", "torch.zeros", 1 << 60)
    assert done.outcome.status is Status.OUT_OF_MEMORY


@pytest.mark.parametrize("api", ["torch.distributed.all_reduce", "os.getcwd", "torch.no_such_thing"])
def test_what_cannot_be_run_says_so(api: str) -> None:
    with pytest.raises(CannotExecute, match=r"torch"):
        run("torch:cpu", api, torch.ones(2))


def test_plain_numbers_are_outputs() -> None:
    output = run("torch:cpu", "torch.Tensor.item", torch.tensor(2.5)).outputs["out"]
    assert (output.dtype, output.device, float(tensor(output))) == ("float64", "", 2.5)


def test_structured_results_have_paths() -> None:
    done = run("torch:cpu", "torch.max", torch.randn(3, 4), 1)
    assert [(path, array.dtype) for path, array in done.outputs.items()] == [("out.0", "float32"), ("out.1", "int64")]


def test_outputs_without_gradients_are_left_out_of_the_backward() -> None:
    x = torch.tensor([[1.0, 3.0, 2.0]], requires_grad=True)
    done = run("torch:cpu", "torch.topk", x, 2)
    assert list(done.arrived) == ["out.0"]
    assert tensor(done.gradients["args.0"]).tolist() == [[0.0, 1.0, 1.0]]


def test_a_gradient_of_a_call_whose_outputs_are_not_known_finds_the_one_that_takes_it() -> None:
    """Dumps that keep no outputs call a single gradient ``out``; topk gives values and indices."""
    case, inputs = case_of("torch.topk", torch.tensor([[1.0, 3.0, 2.0]], requires_grad=True), 2)
    arrives = ArrayIn(np.array([[5.0, 7.0]], dtype=np.float32), "float32")
    case = replace(case, gradients=(TensorSpec("out", "float32", (1, 2)),))
    done = on().run(case, replace(inputs, gradients={"out": arrives}), mode="candidate")
    assert list(done.arrived) == ["out.0"]
    assert tensor(done.gradients["args.0"]).tolist() == [[0.0, 5.0, 7.0]]


def test_calls_that_draw_are_seeded_alike() -> None:
    case, inputs = case_of("torch.nn.functional.dropout", torch.ones(1000), 0.5)
    executor = on()
    first, second = (executor.run(case, inputs, mode=mode).outputs["out"] for mode in ("candidate", "honest"))
    assert np.array_equal(first.bits, second.bits)


def test_the_default_dtype_is_given_back() -> None:
    run("torch:cpu", "torch.arange", 5, mode="gold")
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize(
    ("api", "args", "kwargs", "expected"),
    [
        ("torch.Tensor.bfloat16", (torch.tensor([1.0 + 2.0**-10]),), {}, 1.0),
        ("torch.Tensor.to", (torch.tensor([1.0 + 2.0**-10]), torch.float16), {}, 1.0 + 2.0**-10),
        ("torch.sum", (torch.tensor([1.0, 2.0**-30]),), {"dtype": torch.float32}, 1.0 + 2.0**-30),
        ("torch.nextafter", (torch.tensor([1.0]), torch.tensor([2.0])), {}, 1.0 + 2.0**-23),
        ("torch.nan_to_num", (torch.tensor([float("inf")]),), {}, float(torch.finfo(torch.float32).max)),
        ("torch.linspace", (0, 1, 4), {}, 0.0),
        ("torch.true_divide", (torch.tensor([1]), torch.tensor([3])), {}, 1 / 3),
    ],
    ids=["cast", "to", "dtype argument", "nextafter", "default of the dtype", "from nothing", "integers"],
)
def test_what_a_gold_means(api: str, args: Any, kwargs: Any, expected: float) -> None:
    output = run("torch:cpu", api, *args, mode="gold", **kwargs).outputs["out"]
    assert output.dtype == "float64"
    assert float(tensor(output).reshape(-1)[0]) == expected


def test_the_epsilon_of_a_norm_is_that_of_the_dtype() -> None:
    x = torch.full((1, 4), 1e-4)
    outputs = [run("torch:cpu", "torch.nn.functional.rms_norm", x, (4,), mode=mode).outputs["out"] for mode in
               ("candidate", "gold")]  # fmt: skip
    assert torch.allclose(tensor(outputs[0]).double(), tensor(outputs[1]), rtol=1e-5)


def test_a_wide_gold_has_more_digits_than_float64() -> None:
    x = torch.tensor([1.0, 2.0**-60, -1.0], dtype=torch.float64)
    output = run("torch:cpu", "torch.sum", x, mode="wide").outputs["out"]
    assert output.low is not None
    assert float(output.bits) + float(output.low) == 2.0**-60


def test_autocast_rounds_what_it_is_given() -> None:
    x, weight = torch.full((2, 3), 1.0 + 2.0**-12), torch.ones(4, 3, requires_grad=True)
    case, inputs = case_of("torch.nn.functional.linear", x, weight)
    case = replace(case, autocast="bfloat16")
    for mode, dtype in (("candidate", "bfloat16"), ("honest", "bfloat16"), ("gold", "float64")):
        done = on().run(case, inputs, mode=mode)
        assert done.outputs["out"].dtype == dtype
        assert tensor(done.outputs["out"]).float().eq(3.0).all(), "the gold too sees the rounded input"
        assert done.gradients["args.1"].dtype == ("float32" if mode != "gold" else "float64")
    assert on().run(case, inputs, mode="candidate").working == "bfloat16"


def test_a_target_with_a_dtype_leaves_autocast_out() -> None:
    case, inputs = case_of("torch.matmul", torch.ones(2, 2), torch.ones(2, 2))
    done = on("torch:cpu/float32").run(replace(case, autocast="bfloat16"), inputs, mode="candidate")
    assert done.outputs["out"].dtype == "float32"


def test_overrides_run_for_the_candidate_alone() -> None:
    x = torch.randn(64, requires_grad=True)
    case, inputs = case_of(GELU, x)
    executor = on(gelu="scaled_gelu")
    candidate, honest = (executor.run(case, inputs, mode=mode) for mode in ("candidate", "honest"))
    assert torch.allclose(tensor(candidate.outputs["out"]), 1.002 * tensor(honest.outputs["out"]))
    assert torch.allclose(tensor(candidate.gradients["args.0"]), 1.002 * tensor(honest.gradients["args.0"]))


def test_the_autograd_of_an_override_is_used() -> None:
    from tests.helpers import wrong_kernels

    case, inputs = case_of(GELU, torch.randn(8, requires_grad=True))
    before = len(wrong_kernels.gelu_backwards)
    done = on(gelu="right_gelu").run(case, inputs, mode="candidate")
    assert len(wrong_kernels.gelu_backwards) == before + 1
    assert done.gradients["args.0"].bits is not None


def test_an_override_without_gradients_says_so() -> None:
    case, inputs = case_of(GELU, torch.randn(8, requires_grad=True))
    gradient = on(gelu="detached_gelu").run(case, inputs, mode="candidate").gradients["args.0"]
    assert gradient.bits is None
    assert "no way back" in gradient.note


def test_an_override_that_writes_to_its_input_shows_it() -> None:
    case, inputs = case_of(GELU, torch.randn(8))
    outputs = on(gelu="clobbering_gelu").run(case, inputs, mode="candidate").outputs
    assert list(outputs) == ["out", "args.0"]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("no_colon", "write module:function"),
        ("no_such_module_at_all:f", "importing no_such_module_at_all from"),
        ("tests.helpers.wrong_kernels:nope", "has no function 'nope'"),
        ("missing.py:f", "there is no file"),
    ],
)
def test_an_override_that_cannot_be_had(place: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        TorchExecutor(Target.parse("torch:cpu", {GELU: place}))


def test_overrides_from_a_file_and_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels_of_this_test.py").write_text("import torch\n\ndef gelu(x):\n    return x * 0\n")
    monkeypatch.chdir(tmp_path)
    case, inputs = case_of(GELU, torch.ones(3))
    for place in ("kernels_of_this_test:gelu", str(tmp_path / "kernels_of_this_test.py") + ":gelu"):
        done = TorchExecutor(Target.parse("torch:cpu", {GELU: place})).run(case, inputs, mode="candidate")
        assert tensor(done.outputs["out"]).eq(0).all()


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="xpu"):
        on("torch:xpu")


def test_a_reference_in_a_low_dtype_is_refused() -> None:
    with pytest.raises(UsageError, match="float64"):
        TorchExecutor(Target.parse("torch:cpu"), Target.parse("torch:cpu/bfloat16"))


@pytest.mark.parametrize(
    ("api", "device", "kwargs", "expected"),
    [
        ("torch.linalg.lstsq", "cuda", {}, {"driver": "gels"}),
        ("torch.linalg.lstsq", "cuda", {"driver": "gelsy"}, {"driver": "gelsy"}),
        ("torch.linalg.lstsq", "cpu", {}, {}),
        ("torch.linalg.inv", "cuda", {}, {}),
    ],
)
def test_defaults_of_a_device_hold_for_all(
    api: str, device: str, kwargs: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert with_device_defaults(api, (1, 2), kwargs, device) == expected


@pytest.mark.parametrize("switched", [True, False])
def test_tf32_is_noted_where_its_switch_is_on(switched: bool) -> None:
    expected = {
        "torch.nn.functional.conv2d": "cudnn",
        "torch.lstm": "cudnn",
        "torch.matmul": "matmul",
        "torch.relu": "",
    }
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    # A context for cudnn: torch's own test tools, once imported, forbid setting its flags.
    with torch.backends.cudnn.flags(allow_tf32=switched):
        try:
            matmul.allow_tf32 = switched
            for api, switch in expected.items():
                assert tensor_float(api, "cuda") == (switch if switched else "")
                assert tensor_float(api, "cpu") == ""
        finally:
            matmul.allow_tf32 = before


@pytest.mark.parametrize("text", ["", "<torch._C.Generator object at 0x7f12ab>"])
def test_another_generator_stands_in_for_one_that_was_given(text: str) -> None:
    assert TorchMaker(Setting(CPU)).thing("torch._C.Generator", text) is None


@pytest.mark.parametrize("text", ["torch.os", "<torch._C.Generator object at 0x7f12ab>; import os"])
def test_what_says_otherwise_is_no_generator(text: str) -> None:
    with pytest.raises(CannotExecute, match="was not recorded in full"):
        TorchMaker(Setting(CPU)).thing("torch._C.Generator", text)
