"""A stage of a pipeline that needs no script of the project: asks a trained model through a backend of its framework.

    python -m trueline.pipeline.backends --backend=onnx --model=model:trained --checkpoint=latest.pt --inputs=probe
    python -m trueline.pipeline.backends --backend=inference --model-dir=output --inputs=data/probe.npz --threads=2

The model is an exported file in ``--model-dir``, or what ``--model=module:function`` makes of a checkpoint, in which
case a backend that runs files exports it first. The inputs are those of a probe that an earlier stage left, or the
arrays of an ``.npz`` or ``.npy`` file in order (``labels`` in it are labels). What comes out is a probe of its own
(point ``infer``).

Exit codes: 0 done, 1 the model or the backend raised, 2 wrong arguments, 77 this machine cannot do it (the last line
says why).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueline.errors import TruelineError, UsageError
from trueline.frameworks.base import Bits
from trueline.frameworks.exports import (
    BACKENDS,
    Artifact,
    Backend,
    Runner,
    Settings,
    Unsupported,
    artifacts_in,
    backend_named,
    exporter,
)
from trueline.pipeline.probe import probe
from trueline.pipeline.recording import points_in
from trueline.pipelines import UNSUPPORTED_CODE

_FORMAT_FLAG = "FLAGS_enable_pir_api"
_SWITCHES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def main(words: Sequence[str] | None = None) -> int:
    options = _parsed(words)
    try:
        _run(options)
    except Unsupported as error:
        print(f"UNSUPPORTED: {error}")
        return UNSUPPORTED_CODE
    except TruelineError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trueline.pipeline.backends", description=(__doc__ or "")[:120])
    parser.add_argument("--backend", required=True, help=", ".join(BACKENDS))
    parser.add_argument("--model-dir", "--model_dir", type=Path, help="where an exported model lies")
    parser.add_argument("--model", help="module:function that makes the model of a checkpoint")
    parser.add_argument("--checkpoint", default="", help="what the function is given; a file in --model-dir, if there")
    parser.add_argument("--inputs", type=Path, required=True, help="folder of a probe, .npz or .npy")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", "--cpu_threads", type=int, default=0)
    parser.add_argument("--batch-size", "--batch_size", type=int, default=0, help="samples at a time; 0: all")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--mkldnn", "--enable_mkldnn", type=_switch)
    parser.add_argument("--ir-optim", "--ir_optim", type=_switch)
    return parser.parse_args(words)


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCHES:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return _SWITCHES[text.lower()]


def _run(options: argparse.Namespace) -> None:
    settings = Settings(options.device, options.threads, options.precision, options.mkldnn, options.ir_optim)
    inputs, labels = _inputs(options.inputs)
    if options.model:
        backend = backend_named(options.backend, _framework_of(options))
        _choose_format(backend)
        with tempfile.TemporaryDirectory(prefix="trueline-export-") as scratch:
            model = _made(options.model, _checkpoint(options))
            runner = _of_model(backend, model, inputs, Path(scratch), settings)
            _ask(runner, inputs, labels, options)
    elif options.model_dir is not None:
        backend, artifact = _found(options.backend, options.model_dir)
        _ask(exporter(backend.framework).opened(backend, artifact.path, settings), inputs, labels, options)
    else:
        raise UsageError("say --model-dir for an exported model, or --model=module:function with --checkpoint")


def _ask(runner: Runner, inputs: list[Bits], labels: Any, options: argparse.Namespace) -> None:
    """Runs the model once, says what came out, and leaves it as a probe."""
    call = in_batches(runner, options.batch_size)
    outputs = call(*inputs)
    for number, made in enumerate(outputs):
        numbers = made.astype(np.float64) if made.dtype.kind in "fiub" else np.abs(made)
        spread = f"from {numbers.min():.6g} to {numbers.max():.6g}" if numbers.size else "empty"
        print(f"output {number}: {made.dtype} {list(made.shape)}, {spread}")
    probe("infer", lambda *arrays: _alone(call(*arrays)), [tuple(inputs)], outputs=[_alone(outputs)], labels=labels)


def _alone(outputs: list[Bits]) -> Any:
    """One output as it is, several as a tuple: as the model itself gave them."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def in_batches(runner: Runner, size: int) -> Callable[..., list[Bits]]:
    """A runner that is given at most ``size`` samples at a time; all at once with 0."""

    def call(*arrays: Bits) -> list[Bits]:
        count = len(arrays[0])
        if not size or count <= size:
            return runner(*arrays)
        parts = [runner(*(_rows(one, begin, size, count) for one in arrays)) for begin in range(0, count, size)]
        return [np.concatenate(leaves) for leaves in zip(*parts, strict=True)]

    return call


def _rows(array: Bits, begin: int, size: int, count: int) -> Bits:
    """Some samples of an input; one that is not by samples is given whole."""
    return array[begin : begin + size] if array.ndim and len(array) == count else array


def _of_model(backend: Backend, model: Any, inputs: list[Bits], folder: Path, settings: Settings) -> Runner:
    framework = exporter(backend.framework)
    source = framework.export(backend, model, inputs, folder, settings) if backend.file else model
    return framework.opened(backend, source, settings)


def _found(name: str, folder: Path) -> tuple[Backend, Artifact]:
    """The file in a folder that a backend of this name can run."""
    there = artifacts_in(folder)
    for artifact in there:
        for backend in artifact.backends:
            if name.removesuffix("-legacy") in (one.removesuffix("-legacy") for one in (backend.name, backend.key)):
                return backend, artifact
    listed = ", ".join(f"{one.path.name} ({' '.join(row.key for row in one.backends)})" for one in there) or "none"
    raise UsageError(f"no exported model for {name!r} in {folder}; there: {listed}")


def _framework_of(options: argparse.Namespace) -> str:
    """Where a name means two backends: that of the framework which the module of the model imports."""
    framework, colon, _ = options.backend.partition(":")
    if colon:
        return str(framework)
    named = {row.framework for row in BACKENDS.values() if row.name == options.backend}
    if len(named) < 2:
        return ""
    _module(options.model)
    loaded = [one for one in sorted(named) if one in sys.modules]
    return loaded[0] if len(loaded) == 1 else ""


def _choose_format(backend: Backend) -> None:
    """Paddle decides at its import in which format it writes graphs; for the other this process begins again."""
    wanted = "0" if backend.name.endswith("-legacy") else "1"
    if backend.framework != "paddle" or not backend.file or os.environ.get(_FORMAT_FLAG, "1") == wanted:
        return
    if "paddle" not in sys.modules:
        os.environ[_FORMAT_FLAG] = wanted
        return
    environment = {**os.environ, _FORMAT_FLAG: wanted}
    os.execve(sys.executable, [sys.executable, "-m", "trueline.pipeline.backends", *sys.argv[1:]], environment)


def _module(name: str) -> Any:
    module, _, function = name.partition(":")
    if not module or not function:
        raise UsageError(f"{name!r} names no function; write module:function")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{name!r} cannot be imported from {here}: {error}") from error


def _checkpoint(options: argparse.Namespace) -> str:
    """The checkpoint as it is named, or as it lies in the folder of the model."""
    inside = options.model_dir / options.checkpoint if options.model_dir is not None and options.checkpoint else None
    return str(inside) if inside is not None and inside.exists() else str(options.checkpoint)


def _made(name: str, checkpoint: str) -> Any:
    function = name.partition(":")[2]
    make = getattr(_module(name), function, None)
    if not callable(make):
        raise UsageError(f"{name!r}: the module has no function {function!r}")
    return make(checkpoint) if checkpoint else make()


def _inputs(path: Path) -> tuple[list[Bits], Any]:
    """Arrays, and labels where there are some."""
    if path.suffix in (".npy", ".npz"):
        try:
            return _arrays(path)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError(f"the inputs {path} cannot be read: {error}") from error
    for point in reversed(points_in(path)):
        section = point.first("batch")
        if section is not None and section.inputs:
            return [np.asarray(leaf.bits) for leaf in section.inputs.values()], point.facts.get("labels")
    raise UsageError(f"{path} holds no probe with inputs; name the probe folder of a stage, an .npz or an .npy file")


def _arrays(path: Path) -> tuple[list[Bits], Any]:
    if path.suffix == ".npy":
        return [np.load(path, allow_pickle=False)], None
    with np.load(path, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    labels = arrays.pop("labels", None)
    return list(arrays.values()), labels


if __name__ == "__main__":
    sys.exit(main())
