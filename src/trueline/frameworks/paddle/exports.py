"""Paddle's ways to run a trained model: eager, as a graph, saved in either format, and by Paddle Inference.

Which of its two graph formats Paddle works with is decided when it is imported (``FLAGS_enable_pir_api``); a process
that has imported it for one cannot write the other.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle.static import InputSpec

from trueline.cases import Status
from trueline.frameworks.base import Bits
from trueline.frameworks.exports import Backend, Runner, Settings, Unsupported
from trueline.frameworks.paddle.execute_errors import outcome_of

_LEGACY = "-legacy"
_NO_DTYPE = re.compile(r"Check data type error for op: (?P<kernel>\w+), .*?dtype: (?P<dtype>\w+),", re.DOTALL)
"""How a graph says that an operator has no kernel for a dtype."""


class PaddleExporter:
    """Exports and runs models of Paddle."""

    def export(self, backend: Backend, model: Any, example: Sequence[Bits], folder: Path, settings: Settings) -> Path:
        _require_format(backend)
        placed = _placed(model, settings)
        with _supported(), _quiet():
            graph = paddle.jit.to_static(placed, input_spec=_free_axes(example, settings), full_graph=True)
            paddle.jit.save(graph, str(folder / Path(backend.file).stem))
        path = folder / backend.file
        if not path.exists():
            raise Unsupported(f"this Paddle wrote no {backend.file}; it has {_written(folder)}")
        return path

    def opened(self, backend: Backend, source: Any, settings: Settings) -> Runner:
        if settings.device != "cpu" and not paddle.is_compiled_with_cuda():
            raise Unsupported(f"this Paddle was built without kernels for {settings.device}")
        with _supported(), _quiet():
            if backend.name.startswith("inference"):
                return _Predictor(Path(source), settings)
            paddle.set_device(settings.device)
            if settings.mkldnn is not None:
                paddle.set_flags({"FLAGS_use_mkldnn": settings.mkldnn})
            return _PaddleRunner(_OPENERS[backend.name.removesuffix(_LEGACY)](source, settings), settings)


def make() -> PaddleExporter:
    return PaddleExporter()


def uses_legacy_format() -> bool:
    """Whether this process writes graphs in the old format."""
    return not paddle.framework.use_pir_api()


class _PaddleRunner:
    """Anything that takes tensors and gives tensors."""

    def __init__(self, call: Callable[..., Any], settings: Settings) -> None:
        self._call = call
        self._settings = settings

    def __call__(self, *arrays: Bits) -> list[Bits]:
        with paddle.no_grad(), _supported(), _quiet():
            made = self._call(*(_entered(array, self._settings) for array in arrays))
        return [_left(value) for value in _leaves(made)]


class _Predictor:
    """Paddle Inference on an exported graph."""

    def __init__(self, path: Path, settings: Settings) -> None:
        from paddle import inference

        config = inference.Config(str(path), str(path.with_suffix(".pdiparams")))
        config.disable_glog_info()
        config.switch_ir_optim(settings.ir_optim is not False)
        if settings.device == "cpu":
            _for_cpu(config, settings)
        else:
            precision = inference.PrecisionType.Half if settings.precision == "float16" else None
            config.enable_use_gpu(256, 0, *([precision] if precision else []))
        self._predictor = inference.create_predictor(config)
        self._inputs = [self._predictor.get_input_handle(name) for name in self._predictor.get_input_names()]

    def __call__(self, *arrays: Bits) -> list[Bits]:
        for handle, array in zip(self._inputs, arrays, strict=True):
            handle.copy_from_cpu(np.ascontiguousarray(array))
        with _supported():
            self._predictor.run()
        names = self._predictor.get_output_names()
        return [np.asarray(self._predictor.get_output_handle(name).copy_to_cpu()) for name in names]


def _for_cpu(config: Any, settings: Settings) -> None:
    config.disable_gpu()
    if settings.threads:
        config.set_cpu_math_library_num_threads(settings.threads)
    if settings.mkldnn is not None:
        config.enable_mkldnn() if settings.mkldnn else config.disable_mkldnn()
    if settings.precision == "bfloat16":
        config.enable_mkldnn_bfloat16()
        if not config.mkldnn_bfloat16_enabled():  # it says so and goes on in float32
            raise Unsupported("Paddle Inference has no bfloat16 on this processor")
    elif settings.precision != "float32":
        raise Unsupported(f"Paddle Inference has no {settings.precision} on a CPU")


# Exporting and opening


def _free_axes(example: Sequence[Bits], settings: Settings) -> list[Any]:
    """The first axis of every input that has as many samples as the first one is free."""
    samples = example[0].shape[0] if example and example[0].ndim else -1
    specs = []
    for array in example:
        shape = [None, *array.shape[1:]] if array.ndim and array.shape[0] == samples else list(array.shape)
        dtype = settings.precision if array.dtype.kind == "f" else str(array.dtype)
        specs.append(InputSpec(shape, dtype))
    return specs


def _require_format(backend: Backend) -> None:
    wanted = backend.name.endswith(_LEGACY)
    if wanted != uses_legacy_format():
        flag = "0" if wanted else "1"
        raise Unsupported(f"{backend.key} is written by a process with FLAGS_enable_pir_api={flag} in its environment")


def _written(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else "nothing"


def _eager(model: Any, settings: Settings) -> Callable[..., Any]:
    return _placed(model, settings)


def _static(model: Any, settings: Settings) -> Callable[..., Any]:
    graph: Callable[..., Any] = paddle.jit.to_static(_placed(model, settings), full_graph=True)
    return graph


def _jit(path: Any, settings: Settings) -> Callable[..., Any]:
    module: Any = paddle.jit.load(str(Path(path).with_suffix("")))
    names = {str(one.dtype).rpartition(".")[2] for one in module.parameters() if one.is_floating_point()}
    if names and names != {settings.precision}:
        found = ", ".join(sorted(names))
        raise Unsupported(f"it was exported in {found}; a graph keeps its precision, {settings.precision} is not in it")
    module.eval()
    return module


_OPENERS: Mapping[str, Callable[[Any, Settings], Callable[..., Any]]] = {
    "eager": _eager,
    "static": _static,
    "jit": _jit,
}


def _placed(model: Any, settings: Settings) -> Any:
    """A copy of the model in the precision that is asked for, in evaluation mode."""
    made = copy.deepcopy(model)
    if settings.precision != "float32":
        made = made.to(dtype=settings.precision)
    made.eval()
    return made


# Arrays and errors


def _entered(array: Bits, settings: Settings) -> Any:
    made = paddle.to_tensor(np.ascontiguousarray(array))
    return made.astype(settings.precision) if made.is_floating_point() else made


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, paddle.Tensor):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [leaf for item in items for leaf in _leaves(item)]


def _left(value: Any) -> Bits:
    value = value.detach()
    if value.is_floating_point() and value.element_size() < 4:
        value = value.astype("float32")  # numpy has no bfloat16; nothing is lost
    bits: Bits = value.numpy()
    return bits


@contextmanager
def _supported() -> Iterator[None]:
    """Whatever Paddle says it has no kernel for is unsupported; all other errors pass through."""
    try:
        yield
    except Unsupported:
        raise
    except Exception as error:
        found = outcome_of(error)
        if found.status is Status.UNSUPPORTED:
            raise Unsupported(found.reason) from error
        if dtypes := _NO_DTYPE.search(str(error)):
            raise Unsupported(f"no kernel {dtypes['kernel']} for {dtypes['dtype']} in a graph") from error
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """What Paddle says about its own old ways concerns nobody here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
