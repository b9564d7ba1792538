"""Candidates on an accelerator, judged by golds of the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from tests.helpers.executing import case_of, tensor  # noqa: E402
from trueline.cases import Case, Status, Target, TensorSpec  # noqa: E402
from trueline.frameworks.torch.execute import TorchExecutor  # noqa: E402
from trueline.judge.checks import check_standard_named, judge_case  # noqa: E402
from trueline.records import Verdict  # noqa: E402
from trueline.replay.cases import cases_from_run  # noqa: E402
from trueline.replay.worker import measure_case  # noqa: E402

GELU = "torch.nn.functional.gelu"


def cuda(target: str = "torch:cuda") -> TorchExecutor:
    return TorchExecutor(Target.parse(target))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import trueline
    from tests.helpers.models import train

    folder = tmp_path_factory.mktemp("captures")
    for name in ("transformer", "convolution", "mixed"):
        train(name, trueline.capture(folder / name, data="stats"), steps=1)
    return {name: folder / name for name in ("transformer", "convolution", "mixed")}


@pytest.mark.parametrize("dtype", ["", "/float32", "/bfloat16", "/float16"])
@pytest.mark.parametrize("name", ["transformer", "convolution", "mixed"])
def test_a_step_passes(captured: dict[str, Path], name: str, dtype: str) -> None:
    standard, wrong = check_standard_named("calibrated"), []
    compared = 0
    for case in cases_from_run(captured[name]).cases:
        result = judge_case(case, measure_case(case, Target.parse(f"torch:cuda{dtype}")), standard)
        compared += result.verdict is Verdict.PASS
        if result.verdict not in (Verdict.PASS, Verdict.NOT_COMPARED):
            wrong.append(f"{case.api}: {result.reason}")
    assert not wrong
    assert compared > 20


def test_results_say_where_they_were() -> None:
    case, inputs = case_of("torch.matmul", torch.randn(64, 64, requires_grad=True), torch.randn(64, 64))
    done = cuda().run(case, inputs, mode="candidate")
    assert (done.outputs["out"].device, done.gradients["args.0"].device) == ("cuda", "cuda")
    assert done.outcome.peak_bytes > 0
    assert cuda().run(case, inputs, mode="gold").outputs["out"].device == "cpu"


@pytest.mark.parametrize(
    "make",
    [lambda: torch.randn(6, 8).t(), lambda: torch.randn(6, 16)[:, ::2], lambda: torch.randn(6, 1).expand(6, 8)],
    ids=["transposed", "sliced", "expanded"],
)
def test_layouts_are_kept(make: Any) -> None:
    x = make()
    case, inputs = case_of("torch.Tensor.detach", x)
    output = cuda().run(case, inputs, mode="candidate").outputs["out"]
    assert output.strides == tuple(x.stride())
    assert torch.equal(tensor(output), x)


def test_in_place_calls() -> None:
    x, y = torch.randn(8, requires_grad=True), torch.randn(8)
    case, inputs = case_of("torch.Tensor.add_", x, y)
    done = cuda().run(case, inputs, mode="candidate")
    assert done.outputs["out"].alias == "args.0"
    assert torch.equal(tensor(done.outputs["out"]), (x + y).detach())


@pytest.mark.parametrize("kernel", ["scaled_gelu", "wrong_gradient_gelu", "detached_gelu"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_faulty_override_is_found(kernel: str, dtype: str) -> None:
    case = Case(GELU, {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", dtype, (64, 64), requires_grad=True),),
                backward=True)  # fmt: skip
    target = Target.parse("torch:cuda", {GELU: f"tests.helpers.wrong_kernels:{kernel}"})
    assert judge_case(case, measure_case(case, target), check_standard_named("calibrated")).verdict is Verdict.FAIL


def test_tensor_float_32_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = (TensorSpec("args.0", "float32", (128, 128)), TensorSpec("args.1", "float32", (128, 128)))
    case = Case("torch.matmul", {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}, specs)
    standard, target = check_standard_named("calibrated"), Target.parse("torch:cuda")
    verdicts = {}
    for allowed in (False, True):
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", allowed)
        verdicts[allowed] = judge_case(case, measure_case(case, target), standard).verdict
    assert verdicts == {False: Verdict.PASS, True: Verdict.FAIL}


def test_memory_that_is_not_there_is_an_outcome() -> None:
    case, inputs = case_of("torch.zeros", 1 << 45)
    assert cuda().run(case, inputs, mode="candidate").outcome.status is Status.OUT_OF_MEMORY


def test_things_made_from_nothing_are_made_on_the_device() -> None:
    case, inputs = case_of("torch.arange", 5)
    assert cuda().run(case, inputs, mode="candidate").outputs["out"].device == "cuda"
