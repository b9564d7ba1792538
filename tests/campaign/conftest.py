from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402 - only where torch is


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Run, with its tensors, of a small program that calls what the kernels stand in for."""
    path = tmp_path_factory.mktemp("runs") / "program"
    torch.manual_seed(0)
    with trueline.capture(path, data="tensors"):
        calls()
    return path


@pytest.fixture(scope="session")
def statistics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with statistics only."""
    path = tmp_path_factory.mktemp("runs") / "statistics"
    torch.manual_seed(0)
    with trueline.capture(path, data="stats"):
        calls()
    return path


def calls() -> None:
    functional = torch.nn.functional
    value = torch.randn(8, 6, 16, requires_grad=True)
    weight = torch.randn(16, 12, requires_grad=True)
    hidden = torch.tanh(torch.matmul(functional.gelu(value, approximate="none"), weight))
    hidden = functional.layer_norm(hidden, (12,), torch.ones(12), torch.zeros(12), eps=1e-3)
    hidden = functional.log_softmax(hidden.transpose(1, 2), dim=-1)
    hidden = torch.softmax(hidden, dim=-1) + torch.sigmoid(hidden) + functional.silu(hidden)
    loss = torch.sum(torch.exp(hidden), dim=(0, 1, 2)) / hidden.numel()
    loss.backward()
    with torch.no_grad():
        torch.argmax(value, dim=-1)
        value.add_(value, alpha=0.5)
