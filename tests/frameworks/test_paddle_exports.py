"""Paddle's backends on a small network: the same numbers whichever way it is run, at every batch size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from trueline.frameworks.exports import BACKENDS, Settings, Unsupported, artifacts_in, exporter  # noqa: E402


class Network(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.convolve = paddle.nn.Conv2D(3, 4, 3, padding=1)
        self.normalise = paddle.nn.BatchNorm2D(4)
        self.dropout = paddle.nn.Dropout(0.5)
        self.head = paddle.nn.Linear(4, 3)

    def forward(self, values: Any) -> Any:
        made = paddle.nn.functional.relu(self.normalise(self.convolve(values))).mean(axis=[2, 3])
        return paddle.nn.functional.softmax(self.head(self.dropout(made)))


@pytest.fixture(scope="module")
def network() -> Any:
    paddle.seed(0)
    return Network()


@pytest.fixture(scope="module")
def values() -> Any:
    return np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)


def expected(network: Any, values: Any) -> Any:
    network.eval()
    with paddle.no_grad():
        return network(paddle.to_tensor(values)).numpy()


def runner(name: str, network: Any, values: Any, folder: Path, settings: Settings | None = None) -> Any:
    backend, tools, settings = BACKENDS[f"paddle:{name}"], exporter("paddle"), settings or Settings(threads=1)
    source = tools.export(backend, network, [values], folder, settings) if backend.file else network
    return tools.opened(backend, source, settings)


@pytest.mark.parametrize("name", ["eager", "static", "jit"])
def test_exact_backends_give_the_same_bits(name: str, network: Any, values: Any, tmp_path: Path) -> None:
    assert BACKENDS[f"paddle:{name}"].exact
    network.train()  # whatever the mode of the model: what is run is its evaluation
    run = runner(name, network, values, tmp_path)
    for count in (5, 1, 3):
        (made,) = run(values[:count])
        assert made.dtype == np.float32 and np.array_equal(made, expected(network, values[:count]))


@pytest.mark.parametrize("mkldnn", [False, True])
def test_paddle_inference(mkldnn: bool, network: Any, values: Any, tmp_path: Path) -> None:
    run = runner("inference", network, values, tmp_path, Settings(threads=1, mkldnn=mkldnn, ir_optim=mkldnn))
    for count in (5, 1, 3):
        (made,) = run(values[:count])
        assert np.abs(made - expected(network, values[:count])).max() <= 1e-6


def test_exported_files_are_recognised(network: Any, values: Any, tmp_path: Path) -> None:
    path = exporter("paddle").export(BACKENDS["paddle:inference"], network, [values], tmp_path, Settings())
    (artifact,) = artifacts_in(tmp_path)
    assert artifact.path == path and [row.name for row in artifact.backends] == ["inference", "jit"]


def test_what_this_machine_has_not(network: Any, values: Any, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="FLAGS_enable_pir_api=0"):
        runner("jit-legacy", network, values, tmp_path)
    with pytest.raises(Unsupported, match="float16"):
        runner("inference", network, values, tmp_path, Settings(precision="fp16"))
    if not paddle.is_compiled_with_cuda():
        with pytest.raises(Unsupported, match="without kernels for gpu"):
            runner("eager", network, values, tmp_path, Settings(device="gpu"))


def test_no_kernel_is_unsupported(network: Any, values: Any, tmp_path: Path) -> None:
    """A convolution in float16 has no kernel on a CPU; that is neither a pass nor a failure."""
    if paddle.is_compiled_with_cuda():
        pytest.skip("this is about builds for the CPU")
    run = runner("eager", network, values, tmp_path, Settings(precision="fp16"))
    with pytest.raises(Unsupported, match="no kernel"):
        run(values)
