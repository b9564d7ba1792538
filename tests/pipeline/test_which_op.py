"""Which operator parts two stages, and which must be kept in float32."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.probing_helpers import Chain
from trueline.pipeline.recording import Point
from trueline.pipeline.which_op import MOST_TRIALS, fewest_to_keep, name_first_op, ops_to_keep
from trueline.pipelines import StageKind
from trueline.records import Verdict

NAMES = [f"op{number}" for number in range(12)]


@pytest.mark.parametrize("needed", [["op3"], ["op0", "op11"], ["op2", "op5", "op9"], NAMES])
def test_exactly_the_needed_ones_are_kept(needed: list[str]) -> None:
    found = fewest_to_keep(lambda kept: 0.0 if set(needed) <= kept else 1.0, NAMES, 0.5)
    assert found.enough and list(found.names) == sorted(needed)
    assert found.error_before == 1.0 and found.error_after == 0.0
    assert found.trials <= MOST_TRIALS


def test_none_of_what_is_left_can_be_spared() -> None:
    """Errors that add up: any set that is found must be minimal."""
    weights = {name: 2.0**-number for number, name in enumerate(NAMES)}

    def error(kept: frozenset[str]) -> float:
        return sum(weight for name, weight in weights.items() if name not in kept)

    found = fewest_to_keep(error, NAMES, 0.3)
    kept = frozenset(found.names)
    assert error(kept) <= 0.3
    assert all(error(kept - {name}) > 0.3 for name in kept)
    assert not any(error(frozenset(fewer)) <= 0.3 for fewer in combinations(NAMES, len(kept) - 1))


def test_nothing_to_keep_and_nothing_that_helps() -> None:
    fine = fewest_to_keep(lambda kept: 0.1, NAMES, 0.5)
    assert fine.enough and fine.names == () and fine.trials == 1
    hopeless = fewest_to_keep(lambda kept: 1.0, NAMES, 0.5)
    assert not hopeless.enough and "not the cause" in hopeless.reason
    assert not fewest_to_keep(lambda kept: 1.0, [], 0.5).enough


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    pytest.importorskip("torch")
    monkeypatch.setenv("TRUELINE_PROBE_CAPTURE", "1")
    return Chain(tmp_path, monkeypatch)


def network(approximate: str = "none") -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.GELU(approximate=approximate), torch.nn.Linear(24, 8), torch.nn.Softmax(-1)
    ).eval()


def inputs() -> Any:
    import torch

    return torch.randn(6, 12, generator=torch.Generator().manual_seed(5))


def test_the_first_operator_is_named(chain: Chain) -> None:
    with chain.stage("eval", StageKind.EVAL) as probe:
        probe("eval", network(), [inputs()])
    with chain.stage("infer", StageKind.INFER) as probe:
        probe("infer", network("tanh"), [inputs()])
    found = name_first_op(chain.run("eval"), chain.run("infer"))
    assert found.verdict is Verdict.FAIL and found.blamed == "infer"
    assert found.reason.startswith("torch.nn.functional.gelu.0.forward in 1")


def test_stages_that_agree_have_no_first_operator(chain: Chain) -> None:
    for name in ("eval", "infer"):
        with chain.stage(name, StageKind.EVAL) as probe:
            probe("eval", network(), [inputs()])
    assert name_first_op(chain.run("eval"), chain.run("infer")).verdict is Verdict.PASS


def exported(model: Any) -> Any:
    import torch

    return torch.export.export(model, (inputs(),)).module()


def test_an_exported_model_is_followed_call_by_call(chain: Chain) -> None:
    import torch

    with chain.stage("eval", StageKind.EVAL) as probe:
        probe("eval", network(), [inputs()])
    with chain.stage("right", StageKind.EXPORT) as probe:
        probe("export", exported(network()), [inputs()])
    assert name_first_op(chain.run("eval"), chain.run("right")).verdict is Verdict.PASS
    with chain.stage("gelu", StageKind.EXPORT) as probe:
        probe("export", exported(network("tanh")), [inputs()])
    found = name_first_op(chain.run("eval"), chain.run("gelu"))
    assert found.verdict is Verdict.FAIL and "aten.gelu" in found.reason
    broken = network()
    with torch.no_grad():
        broken[2].bias.zero_()
    with chain.stage("bias", StageKind.EXPORT) as probe:
        probe("export", exported(broken), [inputs()])
    found = name_first_op(chain.run("eval"), chain.run("bias"))
    assert found.verdict is Verdict.FAIL and found.blamed == "bias"
    assert "aten.linear" in found.reason and "2.bias differs from the start" in found.reason


def test_below_a_script_its_kernels_are_seen(chain: Chain) -> None:
    import torch

    with chain.stage("eval", StageKind.EVAL) as probe:
        probe("eval", network(), [inputs()])
    with chain.stage("right", StageKind.EXPORT) as probe:
        probe("export", torch.jit.trace(network(), inputs()), [inputs()])
    assert name_first_op(chain.run("eval"), chain.run("right")).verdict is Verdict.PASS
    with chain.stage("wrong", StageKind.EXPORT) as probe:
        probe("export", torch.jit.trace(network("tanh"), inputs()), [inputs()])
    found = name_first_op(chain.run("eval"), chain.run("wrong"))
    assert found.verdict is Verdict.FAIL and found.reason.startswith("aten.gelu.default")


def test_a_stage_that_shows_no_operators_is_not_compared(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain.stage("eval", StageKind.EVAL) as probe:
        probe("eval", network(), [inputs()])
    monkeypatch.setenv("TRUELINE_PROBE_CAPTURE", "0")
    with chain.stage("infer", StageKind.INFER) as probe:
        probe("infer", network(), [inputs()])
    found = name_first_op(chain.run("eval"), chain.run("infer"))
    assert found.verdict is Verdict.NOT_COMPARED and "infer left no calls" in found.reason


def test_the_operators_to_keep_are_searched_in_the_stage(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in which one product matters and another does not."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = torch.nn.Linear(12, 24), torch.nn.Linear(24, 8)

        def forward(self, batch: Any) -> Any:
            scores = torch.matmul(batch, batch.T).float()
            return torch.nn.functional.linear(torch.relu(batch), self.first.weight).sum() * 0.0 + scores

    monkeypatch.setenv("TRUELINE_PROBE_KEEP", "1e-6")
    with chain.stage("eval", StageKind.EVAL) as probe, torch.autocast("cpu", dtype=torch.bfloat16):
        probe("eval", Model().eval(), [inputs()], sizes=False)
    kept = Point(chain.run("eval").probe / "eval").facts["keep"]
    assert kept["enough"] and kept["names"] == ["torch.matmul"], json.dumps(kept)
    assert kept["error_after"] < 1e-6 < kept["error_before"]
    told = ops_to_keep(chain.run("eval"))
    assert told.verdict is Verdict.PASS and told.reason.startswith("torch.matmul; the error is")
    with chain.stage("infer", StageKind.INFER):
        pass
    assert ops_to_keep(chain.run("infer")).verdict is Verdict.NOT_COMPARED


def test_a_model_is_lowered_by_the_hook_where_the_script_does_not(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outputs are then narrow, and so is what is read of them."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.last = torch.nn.Linear(12, 8)

        def forward(self, batch: Any) -> Any:
            return self.last(batch).reshape(-1, 4)

    monkeypatch.setenv("TRUELINE_PROBE_KEEP", "1e-6")
    monkeypatch.setenv("TRUELINE_LEVEL", "O1_bf16")
    with chain.stage("eval", StageKind.EVAL) as probe:
        probe("eval", Model().eval(), [inputs()], sizes=False)
    told = ops_to_keep(chain.run("eval"))
    assert told.verdict is Verdict.PASS, told.reason
    assert told.reason.startswith("torch.nn.functional.linear") and told.numbers["error"] < 1e-6
