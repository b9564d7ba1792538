"""The ways in which a trained model can be run, each with what it needs: what a pipeline says to a framework about it.

A **backend** runs a model as it is (``eager``, ``compile``), or a file to which the model was exported (``export``,
``onnx``). A **Runner** is a backend with a model inside: arrays in, arrays out. Whatever this machine has no kernel, no
package or no device for is ``Unsupported`` with the reason; nothing else takes its place.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.frameworks.base import Bits


class Unsupported(Exception):
    """This machine cannot run a model in this way; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to run a model. ``file`` is the name of what is exported, empty where the model is run as it is.
    ``packages`` are needed besides the framework. ``exact``: on a CPU in float32 its results are those of eager
    execution to the last bit."""

    name: str
    framework: str
    file: str = ""
    packages: tuple[str, ...] = ()
    exact: bool = False

    @property
    def key(self) -> str:
        return f"{self.framework}:{self.name}"


_ROWS = (
    Backend("eager", "torch", exact=True),
    Backend("compile", "torch"),
    Backend("export", "torch", "model.pt2", exact=True),
    Backend("script", "torch", "model.pt", exact=True),
    Backend("aoti", "torch", "model-aoti.pt2"),
    Backend("onnx", "torch", "model.onnx", ("onnx", "onnxscript", "onnxruntime")),
    Backend("eager", "paddle", exact=True),
    Backend("static", "paddle", exact=True),
    Backend("jit", "paddle", "inference.json", exact=True),
    Backend("jit-legacy", "paddle", "inference.pdmodel", exact=True),
    Backend("inference", "paddle", "inference.json"),
    Backend("inference-legacy", "paddle", "inference.pdmodel"),
)
BACKENDS: Mapping[str, Backend] = {row.key: row for row in _ROWS}


def backend_named(name: str, framework: str = "") -> Backend:
    """A backend by its name, alone (``onnx``) or with its framework (``torch:onnx``)."""
    found = [row for row in _ROWS if name in (row.key, row.name) and framework in ("", row.framework)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} is a backend of several frameworks; write {' or '.join(row.key for row in found)}")
    raise UsageError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}")


_PRECISIONS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a backend is to run. ``threads`` 0 and None elsewhere mean: as it is. ``precision`` is the dtype of weights
    and inputs."""

    device: str = "cpu"
    threads: int = 0
    precision: str = "float32"
    mkldnn: bool | None = None
    ir_optim: bool | None = None

    def __post_init__(self) -> None:
        name = _PRECISIONS.get(self.precision, self.precision)
        if name == "int8":
            raise Unsupported("int8 needs a quantised model; this one has floating-point weights")
        if not dtype_named(name).is_float:
            raise UsageError(f"{self.precision!r} is no floating-point precision")
        object.__setattr__(self, "precision", name)
        if self.threads < 0:
            raise UsageError(f"the number of threads must not be negative: {self.threads}")


class Runner(Protocol):
    """A model, ready to be asked."""

    def __call__(self, *arrays: Bits) -> list[Bits]:
        """The outputs in order, floating ones in float32 or wider."""


class Exporter(Protocol):
    """What a framework can do with a model. ``example`` are inputs with at least two samples along the first axis,
    which is left free in whatever is exported."""

    def export(self, backend: Backend, model: Any, example: Sequence[Bits], folder: Path, settings: Settings) -> Path:
        """Writes the file of a backend; gives its path."""

    def opened(self, backend: Backend, source: Any, settings: Settings) -> Runner:
        """What runs ``source``: a model, or the path of an exported file."""


def exporter(framework: str) -> Exporter:
    """That of torch or Paddle; it is imported when asked for."""
    if importlib.util.find_spec(framework) is None:
        raise Unsupported(f"{framework} is not installed")
    module: Any = importlib.import_module(f"trueline.frameworks.{framework}.exports")
    made: Exporter = module.make()
    return made


def require_packages(backend: Backend) -> None:
    """Says what must be installed where something is missing."""
    missing = [name for name in backend.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise Unsupported(f"{backend.key} needs {', '.join(missing)}: pip install {' '.join(missing)}")


@dataclass(frozen=True, slots=True)
class Artifact:
    """An exported model that was found: its path and the backends that can run it, best known first."""

    path: Path
    backends: tuple[Backend, ...]


def artifacts_in(folder: Path) -> list[Artifact]:
    """The exported models in a folder, told by their content where their names do not say what they are."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        names = _backends_of(path)
        if names:
            found.append(Artifact(path, tuple(BACKENDS[name] for name in names)))
    return found


def _backends_of(path: Path) -> tuple[str, ...]:
    suffix = path.suffix
    if suffix == ".onnx":
        return ("torch:onnx",)
    if suffix in (".pt2", ".pt", ".pth", ".ts"):
        return _torch_backends(path)
    if not path.with_suffix(".pdiparams").exists():
        return ()
    if suffix == ".pdmodel":
        return ("paddle:inference-legacy", "paddle:jit-legacy")
    return ("paddle:inference", "paddle:jit") if suffix == ".json" and _is_paddle_graph(path) else ()


def _torch_backends(path: Path) -> tuple[str, ...]:
    """Files of torch are archives: of a checkpoint they hold no code, of a compiled package a library."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return ()
    if any("/aotinductor/" in name for name in names):
        return ("torch:aoti",)
    if any(name.endswith("constants.pkl") for name in names) and any("/code/" in name for name in names):
        return ("torch:script",)
    is_program = any("serialized_exported_program" in name or "/models/" in name for name in names)
    return ("torch:export",) if is_program else ()


def _is_paddle_graph(path: Path) -> bool:
    """Graphs in Paddle's intermediate representation are JSON that begins with what it is."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(256)
    return '"base_code"' in head or '"program"' in head or json.dumps("pir") in head
