"""Scripts that show a failure: the source of values, and scripts for each way to go wrong."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trueline.cases import Status
from trueline.report.repro import Repro, ReproTensor, repro_script
from trueline.report.repro_frameworks import Side
from trueline.report.repro_source import NotWritable, array_source, call_source, source_of

VALUES = np.array([[0.1, -2.5, 3.0]], dtype=np.float32)
TENSOR = ReproTensor("x0", "args.0", "float32", (1, 3), requires_grad=True, values=VALUES)
REPRO = Repro(
    api="torch.nn.functional.gelu",
    arguments={"args": [{"$t": 0}], "kwargs": {"approximate": "tanh"}},
    tensors=[TENSOR],
    gradients=[],
    device="cpu",
    title="gelu is wrong.",
    reason="off by much",
    error=1e-3,
)


def run(repro: Repro, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "repro.py"
    script.write_text(repro_script(repro))
    return subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("tree", "source"),
    [
        (1, "1"),
        (True, "True"),
        (None, "None"),
        ("tanh", "'tanh'"),
        (0.5, "0.5"),
        ({"$float": "-inf"}, "-inf"),
        ({"$complex": [1, "nan"]}, "complex(1.0, nan)"),
        ({"$tuple": [1]}, "(1,)"),
        ({"$size": [1, 2]}, "(1, 2)"),
        ([{"$t": 0}, {"a": 1}], "[X, {'a': 1}]"),
        ({"$dict": [[1, 2]]}, "{1: 2}"),
        ({"$slice": [None, 3, None]}, "slice(None, 3, None)"),
        ({"$ellipsis": True}, "..."),
        ({"$dtype": "torch.float32"}, "kind(torch.float32)"),
        ({"$device": "cuda:0"}, "device"),
    ],
)
def test_values_are_written_as_source(tree: object, source: str) -> None:
    assert source_of(tree, {0: "X"}) == source
    ast.parse(source, mode="eval")


def test_objects_cannot_be_written() -> None:
    with pytest.raises(NotWritable, match=r"torch\.Generator"):
        source_of({"$object": "torch.Generator", "text": ""}, {})


def test_odd_keywords_are_passed_all_the_same() -> None:
    assert call_source({"args": [], "kwargs": {"lambda": 1, "b": 2}}, {}) == "b=2, **{'lambda': 1}"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_come_back_to_the_last_bit(dtype: type) -> None:
    values = np.random.default_rng(0).standard_normal(200).astype(dtype)
    values = np.concatenate([values, values * np.array(1e-4, dtype), [np.finfo(dtype).max, np.finfo(dtype).tiny]])
    back = np.array(ast.literal_eval(array_source(values.astype(dtype))), dtype=np.float64).astype(dtype)
    assert (back == values.astype(dtype)).all()


def test_an_honest_call_is_not_shown_as_wrong(tmp_path: Path) -> None:
    ended = run(REPRO, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("out[0, ")


def test_a_wrong_override_is(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import torch\ndef gelu(x, approximate):\n    return torch.relu(x)\n")
    ended = run(replace(REPRO, override=(str(tmp_path), "mine", "gelu")), tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.startswith("out[0, 0]: expected 0.05")


SHAPES = {
    "gradient": replace(REPRO, gradients=[replace(TENSOR, name="g0", path="out")], backward=True, part="gradient",
                        path="args.0"),
    "autocast": replace(REPRO, autocast="bfloat16", error=0.1),
    "strides": replace(REPRO, tensors=[replace(TENSOR, strides=(1, 2))]),
    "drawn": replace(REPRO, tensors=[replace(TENSOR, shape=(8, 9), values=None, drawn=(0, 0, 0))]),
    "saved": replace(REPRO, tensors=[replace(TENSOR, values=None, saved="args.0")]),
    "infinite error": replace(REPRO, error=float("inf")),
    "structure": replace(REPRO, structure="dtype is float64, not float32"),
    "free": replace(REPRO, structure="must hold", free=True),
    "exact": replace(REPRO, api="torch.argmax", arguments={"args": [{"$t": 0}], "kwargs": {"dim": -1}}, exact=True),
    "raised": replace(REPRO, status=Status.RAISED),
    "crashed": replace(REPRO, status=Status.CRASHED),
    "timed out": replace(REPRO, status=Status.TIMED_OUT, limit=20.0),
    "out of memory": replace(REPRO, status=Status.OUT_OF_MEMORY, limit=4e9),
    "property": replace(REPRO, api="torch.Tensor.T.__get__", arguments={"args": [{"$t": 0}], "kwargs": {}}),
    "in place": replace(REPRO, api="torch.Tensor.add_", arguments={"args": [{"$t": 0}, 2], "kwargs": {}},
                        gradients=[replace(TENSOR, name="g0", path="out")], backward=True, part="gradient",
                        path="args.0"),
    "dtype": replace(REPRO, api="torch.sum",
                     arguments={"args": [{"$t": 0}], "kwargs": {"dtype": {"$dtype": "torch.float32"}}}),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_script_is_short_python(shape: str) -> None:
    text = repro_script(SHAPES[shape])
    ast.parse(text)
    assert text.count("\n") < 45
    assert max(map(len, text.splitlines())) <= 120


def test_every_kind_of_script_finds_nothing_wrong_with_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, to import torch once; those that start a process of their own among them."""
    pytest.importorskip("torch")
    import runpy

    from trueline.frameworks.base import ArrayIn
    from trueline.replay.keep import write_arrays

    write_arrays(tmp_path / "repro.safetensors", {"args.0": ArrayIn(VALUES, "float32")})
    for shape, repro in SHAPES.items():
        script = tmp_path / "repro.py"
        script.write_text(repro_script(repro))
        monkeypatch.setattr(sys, "argv", [str(script)])
        if shape in ("crashed", "timed out", "out of memory"):
            continue  # forking this process, with its threads, is not what a script does
        code: object = 0
        try:
            runpy.run_path(str(script))
        except SystemExit as ended:
            code = ended.code
        assert code == 0, f"{shape}: {capsys.readouterr().out}"


def test_a_call_that_returns_is_no_death(tmp_path: Path) -> None:
    ended = run(SHAPES["timed out"], tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "it returns\n", "")


@pytest.mark.parametrize(
    ("how", "called"),
    [
        ("compile", "compiled(torch.nn.functional.gelu)"),
        ("amp-bfloat16", "lowered(torch.nn.functional.gelu)"),
    ],
)
def test_what_its_target_does_to_a_call_the_script_does_too(how: str, called: str) -> None:
    text = repro_script(replace(REPRO, how=how))
    ast.parse(text)
    assert f'run({called}, "cpu", False)' in text
    assert 'run(torch.nn.functional.gelu, "cpu", True)' in text, "the truth is eager"


def test_a_call_under_autocast_is_shown_to_be_coarser(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    weight = ReproTensor("x1", "args.1", "float32", (2, 3), values=np.full((2, 3), 1 / 3, dtype=np.float32))
    product = replace(
        REPRO, api="torch.nn.functional.linear", tensors=[TENSOR, weight],
        arguments={"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}, error=1e-4,
    )  # fmt: skip
    assert run(product, tmp_path).returncode == 0
    assert run(replace(product, how="amp-bfloat16"), tmp_path).returncode == 1


@pytest.mark.parametrize("how", ["static", "cinn", "amp-bfloat16"])
def test_graphs_of_paddle_are_of_symbols(how: str) -> None:
    side = Side("paddle", "paddle.Tensor.add", REPRO.arguments, "cpu", {})
    text = repro_script(replace(REPRO, api=side.api, candidate=side, truth=side, how=how))
    ast.parse(text)
    method = "(lambda tensor, *args, **kwargs: tensor.add(*args, **kwargs))"
    call = "lowered(paddle.Tensor.add)" if how.startswith("amp") else f"graph_of({method})"
    assert f'paddle_run({call}, "cpu", False)' in text
    assert 'paddle_run(paddle.Tensor.add, "cpu", True)' in text
