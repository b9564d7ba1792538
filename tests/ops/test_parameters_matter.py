"""Every argument of every operator of the catalogue matters to some case: a sample; ``benchmarks.parameters`` asks for
all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from benchmarks import parameters  # noqa: E402
from trueline.ops.catalogue import catalogue_cases  # noqa: E402


@pytest.mark.parametrize("api", ["torch.nn.functional.max_pool2d", "torch.sum", "torch.lerp", "torch.argsort"])
def test_no_argument_is_idle(api: str) -> None:
    assert [name for name in parameters.idle_arguments(api) if name not in parameters.IDLE] == []


def test_an_argument_that_changes_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [one for one in catalogue_cases("torch.clamp") if one.arguments["args"][1:] == [-100.0, 100.0]]
    monkeypatch.setattr(parameters, "catalogue_cases", lambda api: [replace(case, backward=False)])
    assert set(parameters.idle_arguments("torch.clamp")) == {"args.1", "args.2"}
