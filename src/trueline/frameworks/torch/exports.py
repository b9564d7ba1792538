"""torch's ways to run a trained model: eager, compiled, exported, as TorchScript, by AOTInductor, by ONNX Runtime."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trueline.cases import Status
from trueline.frameworks.base import Bits
from trueline.frameworks.exports import Backend, Runner, Settings, Unsupported, require_packages
from trueline.frameworks.torch.execute_errors import outcome_of

_SMALLEST, _LARGEST = 1, 1 << 20
"""Bounds of the free axis of an exported graph."""


class TorchExporter:
    """Exports and runs models of torch."""

    def export(self, backend: Backend, model: Any, example: Sequence[Bits], folder: Path, settings: Settings) -> Path:
        require_packages(backend)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / backend.file
        placed = _placed(model, settings)
        inputs = tuple(_entered(array, settings) for array in example)
        with torch.no_grad(), _supported(), _quiet():
            _EXPORTS[backend.name](placed, inputs, path)
        return path

    def opened(self, backend: Backend, source: Any, settings: Settings) -> Runner:
        require_packages(backend)
        if settings.device != "cpu" and not torch.accelerator.is_available():
            raise Unsupported(f"torch finds no {settings.device} here")
        if settings.threads:
            torch.set_num_threads(settings.threads)
        if settings.mkldnn is not None:
            torch.backends.mkldnn.enabled = settings.mkldnn
        with _supported(), _quiet():
            if backend.name == "onnx":
                return _OnnxRunner(Path(source), settings)
            return _TorchRunner(_OPENERS[backend.name](source, settings), settings)


def make() -> TorchExporter:
    return TorchExporter()


class _TorchRunner:
    """Anything that takes tensors and gives tensors."""

    def __init__(self, call: Callable[..., Any], settings: Settings) -> None:
        self._call = call
        self._settings = settings

    def __call__(self, *arrays: Bits) -> list[Bits]:
        with torch.no_grad(), _supported(), _quiet():
            made = self._call(*(_entered(array, self._settings) for array in arrays))
        return [_left(value) for value in _leaves(made)]


class _OnnxRunner:
    """ONNX Runtime on the CPU, or on the device of its provider."""

    def __init__(self, path: Path, settings: Settings) -> None:
        onnxruntime: Any = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if settings.threads:
            options.intra_op_num_threads = settings.threads
        if settings.ir_optim is False:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        provider = "CPUExecutionProvider" if settings.device == "cpu" else "CUDAExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise Unsupported(f"this ONNX Runtime has no {provider}")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=[provider])
        self._inputs = self._session.get_inputs()
        if settings.precision != "float32":
            raise Unsupported(f"a graph for ONNX Runtime is exported in float32 here, not in {settings.precision}")

    def __call__(self, *arrays: Bits) -> list[Bits]:
        names = [one.name for one in self._inputs]
        return [np.asarray(made) for made in self._session.run(None, dict(zip(names, arrays, strict=True)))]


# Exporting


def _free_axes(inputs: tuple[torch.Tensor, ...]) -> tuple[dict[int, Any] | None, ...]:
    """The first axis of every input that has as many samples as the first one is free."""
    count = torch.export.Dim("count", min=_SMALLEST, max=_LARGEST)
    samples = inputs[0].shape[0] if inputs and inputs[0].ndim else 0
    if samples < 2:
        raise Unsupported("an example of at least two samples is needed: with one, torch takes the axis for fixed")
    return tuple({0: count} if one.ndim and one.shape[0] == samples else None for one in inputs)


def _program(model: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    return torch.export.export(model, inputs, dynamic_shapes=_free_axes(inputs))


def _export(model: Any, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    torch.export.save(_program(model, inputs), str(path))


def _script(model: Any, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    torch.jit.save(torch.jit.trace(model, inputs, check_trace=False), str(path))


def _aoti(model: Any, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    torch._inductor.aoti_compile_and_package(_program(model, inputs), package_path=str(path))


def _onnx(model: Any, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    torch.onnx.export(
        model, inputs, str(path), dynamo=True, dynamic_shapes=_free_axes(inputs), external_data=False, verbose=False
    )


_EXPORTS: Mapping[str, Callable[[Any, tuple[torch.Tensor, ...], Path], None]] = {
    "export": _export,
    "script": _script,
    "aoti": _aoti,
    "onnx": _onnx,
}


# Opening


def _eager(model: Any, settings: Settings) -> Callable[..., Any]:
    return _placed(model, settings)


def _compile(model: Any, settings: Settings) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(_placed(model, settings), fullgraph=True, dynamic=True)
    return compiled


def _open_export(path: Any, settings: Settings) -> Callable[..., Any]:
    module: Any = torch.export.load(str(path)).module()
    return _kept(module, module.parameters(), settings).to(settings.device)


def _open_script(path: Any, settings: Settings) -> Callable[..., Any]:
    module: Any = torch.jit.load(str(path), map_location=settings.device)
    return _kept(module, module.parameters(), settings)


def _open_aoti(path: Any, settings: Settings) -> Callable[..., Any]:
    loaded: Any = torch._inductor.aoti_load_package(str(path))
    if settings.precision != "float32":
        raise Unsupported(f"a compiled package keeps its precision; it cannot be opened in {settings.precision}")
    return loaded


_OPENERS: Mapping[str, Callable[[Any, Settings], Callable[..., Any]]] = {
    "eager": _eager,
    "compile": _compile,
    "export": _open_export,
    "script": _open_script,
    "aoti": _open_aoti,
}


def _placed(model: Any, settings: Settings) -> Any:
    """A copy of the model on the device and in the precision that are asked for, in evaluation mode."""
    made = copy.deepcopy(model).to(device=settings.device, dtype=getattr(torch, settings.precision))
    made.eval()
    return made


def _kept(module: Any, parameters: Iterator[Any], settings: Settings) -> Any:
    """A module from a file, whose precision is that with which it was exported and no other."""
    wanted = getattr(torch, settings.precision)
    found = {one.dtype for one in parameters if one.is_floating_point()}
    if found and found != {wanted}:
        names = ", ".join(sorted(str(one).removeprefix("torch.") for one in found))
        raise Unsupported(f"it was exported in {names}; a graph keeps its precision, {settings.precision} is not in it")
    return module


# Arrays and errors


def _entered(array: Bits, settings: Settings) -> torch.Tensor:
    made = torch.from_numpy(np.ascontiguousarray(array)).to(settings.device)
    return made.to(getattr(torch, settings.precision)) if made.is_floating_point() else made


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [leaf for item in items for leaf in _leaves(item)]


def _left(value: torch.Tensor) -> Bits:
    value = value.detach()
    if value.is_floating_point() and value.element_size() < 4:
        value = value.float()  # numpy has no bfloat16; nothing is lost
    bits: Bits = value.cpu().numpy()
    return bits


@contextmanager
def _supported() -> Iterator[None]:
    """Whatever torch says it has no kernel or compiler for is unsupported; all other errors pass through."""
    try:
        yield
    except Unsupported:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        compiler = "InvalidCxxCompiler" in (type(error).__name__, *(word.strip(":.") for word in text.split()[:40]))
        if compiler or outcome_of(error).status is Status.UNSUPPORTED:
            raise Unsupported(f"{type(error).__name__}: {text}"[:300]) from error
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """What torch says about its own old ways concerns nobody here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
