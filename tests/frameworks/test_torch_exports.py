"""torch's backends on a small network: the same numbers whichever way it is run, at every batch size."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trueline.frameworks.exports import BACKENDS, Settings, Unsupported, artifacts_in, exporter  # noqa: E402

FILES = ("export", "script")


class Network(torch.nn.Module):
    def __init__(self, dropout: float = 0.5):
        super().__init__()
        self.body = torch.nn.Linear(6, 8)
        self.dropout = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, values: Any) -> Any:
        return self.head(self.dropout(torch.relu(self.body(values)))).softmax(-1)


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    return Network()


@pytest.fixture(scope="module")
def values() -> Any:
    return np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)


def expected(network: Any, values: Any) -> Any:
    with torch.no_grad():
        return network.eval()(torch.from_numpy(values)).numpy()


def runner(name: str, network: Any, values: Any, folder: Path, settings: Settings | None = None) -> Any:
    backend, tools, settings = BACKENDS[f"torch:{name}"], exporter("torch"), settings or Settings(threads=1)
    source = tools.export(backend, network, [values], folder, settings) if backend.file else network
    return tools.opened(backend, source, settings)


@pytest.mark.parametrize("name", ["eager", *FILES])
def test_exact_backends_give_the_same_bits(name: str, network: Any, values: Any, tmp_path: Path) -> None:
    assert BACKENDS[f"torch:{name}"].exact
    network.train()  # whatever the mode of the model: what is run is its evaluation
    run = runner(name, network, values, tmp_path)
    assert network.training
    for count in (7, 1, 3):
        (made,) = run(values[:count])
        assert made.dtype == np.float32 and np.array_equal(made, expected(network, values[:count]))


@pytest.mark.parametrize("name", FILES)
def test_exported_files_are_recognised(name: str, network: Any, values: Any, tmp_path: Path) -> None:
    backend = BACKENDS[f"torch:{name}"]
    path = exporter("torch").export(backend, network, [values], tmp_path, Settings())
    torch.save(network.state_dict(), tmp_path / "checkpoint.pt")
    assert [(one.path, one.backends) for one in artifacts_in(tmp_path)] == [(path, (backend,))]


@pytest.mark.parametrize("name", ["eager", "export"])
def test_low_precision_is_low(name: str, network: Any, values: Any, tmp_path: Path) -> None:
    (made,) = runner(name, network, values, tmp_path, Settings(precision="bf16"))(values)
    error = np.abs(made - expected(network, values)).max()
    assert 1e-5 < error < 2e-2
    assert next(network.parameters()).dtype is torch.float32


def test_a_graph_keeps_its_precision(network: Any, values: Any, tmp_path: Path) -> None:
    tools, backend = exporter("torch"), BACKENDS["torch:export"]
    path = tools.export(backend, network, [values], tmp_path, Settings())
    with pytest.raises(Unsupported, match="exported in float32"):
        tools.opened(backend, path, Settings(precision="float16"))


def test_one_sample_is_no_example(network: Any, values: Any, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="two samples"):
        runner("export", network, values[:1], tmp_path)


def test_a_shape_that_is_baked_in_cannot_be_exported(values: Any, tmp_path: Path) -> None:
    class Baked(Network):
        def forward(self, values: Any) -> Any:
            return super().forward(values.reshape(7, 6))

    with pytest.raises(Exception, match=r"(?i)count|constraint|shape|specializ"):
        runner("export", Baked(), values, tmp_path)


def test_onnx_runtime(network: Any, values: Any, tmp_path: Path) -> None:
    missing = [one for one in BACKENDS["torch:onnx"].packages if importlib.util.find_spec(one) is None]
    if missing:
        with pytest.raises(Unsupported, match="pip install"):
            runner("onnx", network, values, tmp_path)
        return
    run = runner("onnx", network, values, tmp_path)
    for count in (7, 1, 3):
        (made,) = run(values[:count])
        assert np.abs(made - expected(network, values[:count])).max() < 1e-6


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiled backends need a C++ compiler")
def test_a_compiled_network(network: Any, values: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    run = runner("compile", network, values, tmp_path)
    for count in (7, 3):
        (made,) = run(values[:count])
        assert np.abs(made - expected(network, values[:count])).max() < 1e-6
    torch._dynamo.reset()


def test_a_device_that_is_not_there(network: Any) -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    with pytest.raises(Unsupported, match="no cuda here"):
        exporter("torch").opened(BACKENDS["torch:eager"], network, Settings(device="cuda"))
