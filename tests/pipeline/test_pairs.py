"""Pairs of trainings: healthy noise, lost updates, a loss scale that stays, skipped steps.

The trainings are real, small and in torch; the rules are also tried on histories made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.probing_helpers import Chain, failures
from trueline.pipeline.probe import Probe
from trueline.pipeline.recording import append_line
from trueline.pipelines import CheckKind, StageKind
from trueline.records import Verdict

torch = pytest.importorskip("torch")

STEPS = 24


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    return Chain(tmp_path, monkeypatch)


def network(seed: int) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5)
    )


def batches(seed: int) -> Any:
    random = torch.Generator().manual_seed(100 + seed)
    truth = torch.randn(20, 5, generator=random)
    for _ in range(STEPS):
        inputs = torch.randn(32, 20, generator=random)
        yield inputs, (inputs @ truth).argmax(-1)


def train(
    probe: Probe, seed: int, *, level: str = "", rate: float = 0.05, scale: float = 0.0, unscale: bool = True,
    optimizer: Any = torch.optim.SGD, dtype: Any = torch.bfloat16,
) -> Any:  # fmt: skip
    """O1: autocast. O2: all in bfloat16, the optimizer works on copies in float32. "pure": no such copies."""
    model = network(seed)
    if level in ("O2", "pure"):
        model.to(dtype)
    masters = [one.detach().float().requires_grad_() for one in model.parameters()] if level == "O2" else None
    chosen = optimizer(masters or model.parameters(), lr=rate)
    probe.start(model, chosen)
    for inputs, labels in batches(seed):
        with torch.autocast("cpu", dtype=dtype, enabled=level == "O1"):
            outputs = model(inputs.to(dtype) if level in ("O2", "pure") else inputs)
        loss = torch.nn.functional.cross_entropy(outputs.float(), labels)
        (loss * scale if scale else loss).backward()
        if scale and unscale:
            for one in model.parameters():
                one.grad /= scale
        if masters is not None:
            for master, one in zip(masters, model.parameters(), strict=True):
                master.grad, one.grad = one.grad.float(), None
        chosen.step()
        probe.step(loss=loss, model=model, optimizer=chosen)
        chosen.zero_grad()
        if masters is not None:
            with torch.no_grad():
                for master, one in zip(masters, model.parameters(), strict=True):
                    one.copy_(master)
    return model


def paired(chain: Chain, seed: int = 0, single: dict[str, Any] | None = None, **options: Any) -> Any:
    with chain.stage("norm", StageKind.TRAIN) as probe:
        train(probe, seed, **(single or {}))
    with chain.stage("amp", StageKind.TRAIN, level=options.get("level", "O1")) as probe:
        train(probe, seed, **{**(single or {}), **options})
    return chain.check("norm", "amp", CheckKind.PAIR)


@pytest.mark.parametrize("level", ["O1", "O2", "pure"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_healthy_noise_passes(chain: Chain, level: str, seed: int) -> None:
    found = paired(chain, seed, level=level)
    assert not failures(found), found
    assert 0.95 < found["update norm"].numbers["ratio"] < 1.05
    assert found["loss curve"].verdict is Verdict.PASS


@pytest.mark.parametrize("seed", [0, 1])
def test_lost_updates_are_found(chain: Chain, seed: int) -> None:
    found = paired(chain, seed, {"rate": 1e-3}, level="pure")
    assert failures(found)["update norm"] == "amp"
    assert "updates are lost" in found["update norm"].reason


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_scale_that_stays_is_found(chain: Chain, optimizer: Any) -> None:
    rate = 0.05 if optimizer is torch.optim.SGD else 1e-3
    found = paired(chain, 0, {"optimizer": optimizer, "rate": rate}, level="O1", scale=1024.0, unscale=False)
    assert failures(found)["gradients"] == "amp"
    assert "2**10" in found["gradients"].reason


def test_a_scale_that_is_taken_away_is_healthy(chain: Chain) -> None:
    assert not failures(paired(chain, 0, level="O1", scale=1024.0))


def test_trainings_that_do_not_begin_alike_are_no_pair(chain: Chain) -> None:
    for name, seed in (("norm", 0), ("amp", 5)):
        with chain.stage(name, StageKind.TRAIN) as probe:
            train(probe, seed)
    found = chain.check("norm", "amp", CheckKind.PAIR)
    assert found["pair"].verdict is Verdict.NOT_COMPARED and "same seed" in found["pair"].reason


def written(chain: Chain, name: str, lines: list[dict[str, Any]]) -> None:
    with chain.stage(name, StageKind.TRAIN):
        pass
    folder = chain.run(name).probe
    folder.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate(lines):
        append_line(folder / "history.jsonl", {"step": number, **line})


def test_a_loss_that_becomes_nan_is_found(chain: Chain) -> None:
    written(chain, "norm", [{"loss": 2.0}, {"loss": 1.5}, {"loss": 1.0}])
    written(chain, "amp", [{"loss": 2.0}, {"loss": float("nan")}, {"loss": float("nan")}])
    found = chain.check("norm", "amp", CheckKind.PAIR)
    assert failures(found) == {"loss curve": "amp"} and "from step 1 on" in found["loss curve"].reason


def test_a_loss_that_stays_behind_is_found(chain: Chain) -> None:
    written(chain, "norm", [{"loss": 2.0 - 0.1 * step} for step in range(12)])
    written(chain, "amp", [{"loss": 2.0 - 0.02 * step} for step in range(12)])
    assert failures(chain.check("norm", "amp", CheckKind.PAIR)) == {"loss curve": "amp"}


def test_weights_that_stop_moving_are_found(chain: Chain) -> None:
    """Towards the end of a decaying rate nothing moves any more, though all in all the weights went as far."""
    step = {"loss": 1.0, "gradient_norm": 1.0, "update_norm": 0.1, "distance": 1.0}
    written(chain, "norm", [{**step, "stuck": 0.01}] * 16)
    written(chain, "amp", [{**step, "stuck": 0.065 * number} for number in range(16)])
    found = chain.check("norm", "amp", CheckKind.PAIR)
    assert failures(found) == {"update norm": "amp"} and "do not move" in found["update norm"].reason
    written(chain, "still", [{**step, "stuck": 0.95}] * 16)
    assert not failures(chain.check("still", "amp", CheckKind.PAIR)), "in float32 they do not move either"


def test_skipped_steps_do_not_count_as_lost(chain: Chain) -> None:
    step = {"loss": 1.0, "gradient_norm": 1.0, "update_norm": 0.1}
    written(chain, "norm", [{**step, "distance": 0.1 * number + 0.1} for number in range(10)])
    skipped = {"loss": 1.0, "gradient_norm": float("inf"), "update_norm": 0.0, "bad_gradients": 3, "scale": 65536.0}
    lines = [skipped] * 2 + [{**step, "scale": 16384.0} for _ in range(8)]
    written(chain, "amp", [{**line, "distance": max(0.1 * number - 0.1, 0.0)} for number, line in enumerate(lines)])
    found = chain.check("norm", "amp", CheckKind.PAIR)
    assert not failures(found) and found["update norm"].numbers["skipped"] == 2


@pytest.mark.parametrize("lines", [[], [{"loss": 1.0}]])
def test_without_a_history_nothing_is_compared(chain: Chain, lines: list[dict[str, Any]]) -> None:
    written(chain, "norm", [{"loss": 2.0}, {"loss": 1.5}])
    written(chain, "amp", lines)
    found = chain.check("norm", "amp", CheckKind.PAIR)
    assert found["pair"].verdict is Verdict.NOT_COMPARED


def test_no_training_beside_it_is_not_compared(chain: Chain) -> None:
    written(chain, "amp", [{"loss": 1.0}] * 3)
    assert chain.check(None, "amp", CheckKind.PAIR)["pair"].verdict is Verdict.NOT_COMPARED
