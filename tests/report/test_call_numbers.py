"""The columns of numbers that the pages of a Run draw, against what torch says itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import trueline
from tests.report.growing_run import STEPS, record
from trueline.dtypes import limit_of
from trueline.report.call_numbers import call_numbers

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, float]]]:
    path = tmp_path_factory.mktemp("runs") / "growing"
    return path, record(path, data="stats")


def test_gradient_norms_of_modules_are_those_of_their_parameters(
    recorded: tuple[Path, list[dict[str, float]]],
) -> None:
    path, norms = recorded
    with trueline.open_run(path) as run:
        trace = run.rank(0).trace()
        found = call_numbers(trace)["gradient"]
        modules = np.array([trace.modules.get(int(one), ("", ""))[0] for one in trace.column("module")], dtype=object)
        finite = 0
        for step, told in enumerate(norms):
            for module, norm in told.items():
                here = (trace.column("step") == step) & (modules == module) & ~np.isnan(found)
                if math.isfinite(norm):
                    assert np.sqrt((found[here] ** 2).sum()) == pytest.approx(norm, rel=2e-3)
                    finite += 1
                else:
                    assert not here.any(), "what is not finite has no norm"
    assert finite >= 2 * STEPS


def test_room_norm_and_mean_are_those_of_the_outputs(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", data="stats"):
        given = torch.tensor([1.0, -3.0, 100.0], dtype=torch.float16)
        given * 2.0
        torch.tensor([1.0]) / torch.tensor([0.0])
        given.argmax()
    with trueline.open_run(tmp_path / "run") as run:
        trace = run.rank(0).trace()
        found = call_numbers(trace)
        product, quotient, place = (trace.find(name)[0] for name in ("torch.Tensor.mul", "torch.Tensor.div", "argmax"))
    assert found["largest"][product] == pytest.approx(math.log2(200))
    assert found["headroom"][product] == pytest.approx(limit_of("float16") - math.log2(200), abs=1e-3)
    assert found["norm"][product] == pytest.approx(math.sqrt(4 + 36 + 200**2), rel=1e-3)
    assert found["mean"][product] == pytest.approx((2 - 6 + 200) / 3, rel=1e-3)
    assert (found["infinite"][quotient], found["nan"][quotient]) == (1, 0)
    assert math.isnan(found["headroom"][place]), "integers have no limit to overflow"
    assert np.isnan(found["gradient"]).all()


def test_a_run_without_statistics_has_columns_all_the_same(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", data="structure"):
        torch.relu(torch.ones(2))
    with trueline.open_run(tmp_path / "run") as run:
        found = call_numbers(run.rank(0).trace())
    assert {len(values) for values in found.values()} == {len(found["nan"])}
    assert np.isnan(found["headroom"]).all() and not found["elements"].any()
