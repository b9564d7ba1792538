"""``probe``: a few lines in a user's script that leave behind what its model computes, for the checks of a pipeline.

::

    trueline.probe.start(model)                                         # optional: before the first step
    for batch in loader:
        ...
        optimizer.step()
        trueline.probe.step(loss=loss, model=model, optimizer=optimizer, scaler=scaler)
    trueline.probe.checkpoint("output/latest.pt")
    trueline.probe("eval", model, batches=[images], labels=labels, metrics={"top1": accuracy})

Without the environment variable ``TRUELINE_PROBE_DIR``, which a pipeline sets, nothing happens. A fault of ours is one
warning and a note for the checks, never the end of the program; so is what the model raises.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueline.errors import TruelineError, UsageError
from trueline.frameworks.probing import Probing, loaded_probing, probing
from trueline.pipeline.history import Training
from trueline.pipeline.recording import CHECKPOINT_FILE, append_line, now, write_json
from trueline.pipeline.visit import Visit
from trueline.pipelines import StageKind

FOLDER_VARIABLE = "TRUELINE_PROBE_DIR"
CAPTURE_VARIABLE = "TRUELINE_PROBE_CAPTURE"
KEEP_VARIABLE = "TRUELINE_PROBE_KEEP"
LEVEL_VARIABLE = "TRUELINE_LEVEL"
STAGE_VARIABLE = "TRUELINE_STAGE"
KIND_VARIABLE = "TRUELINE_STAGE_KIND"
_RANK_VARIABLES = ("RANK", "PADDLE_TRAINER_ID")
_NARROW = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "float16": "float16"}
_TRAIN = StageKind.TRAIN.value
_POINT = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")


class Probe:
    """The hook. One object for a process, since a training has one history."""

    def __init__(self) -> None:
        self._training: Training | None = None

    def __call__(
        self,
        point: str,
        model: Callable[..., Any] | None,
        batches: Any,
        *,
        outputs: Sequence[Any] | None = None,
        labels: Any = None,
        metrics: Mapping[str, float] | None = None,
        level: str | None = None,
        sizes: bool = True,
        gold: bool = True,
    ) -> None:
        """Runs ``model`` on the probe batch as it is and keeps what comes out, under the name of ``point``: ``eval``,
        ``reload``, ``export``, ``infer`` or any other word.

        ``model`` is a module, or anything callable that takes a batch. ``outputs`` are what it gave to the script, one
        for each batch, which are then taken as they are; without a model there is nothing else to look at. A batch is a
        tensor or an array, a tuple of them (positional arguments) or a dict (keyword arguments), as the stage itself
        prepared it; ``batches`` is one or a list. Samples lie along the first axis: the first batch is also given in
        other sizes (not with ``sizes=False``) and in reverse. ``labels`` are those of the samples, ``metrics`` the
        script's own numbers. ``level`` is what was asked of mixed precision (``O1``, ``O2``). With a model in
        evaluation mode the same is computed in float64 (not with ``gold=False``).
        """
        _check_arguments(point, model, batches, outputs)
        folder = _folder()
        if folder is None:
            return
        self.stop_counting()
        asked = os.environ.get(LEVEL_VARIABLE, "") if level is None else level
        visit = Visit(
            folder,
            _free_name(folder, point),
            probing(model, batches, outputs) or loaded_probing(),
            capture=os.environ.get(CAPTURE_VARIABLE, "0") not in ("", "0"),
            keep=_number(os.environ.get(KEEP_VARIABLE, "")),
            narrow=next((dtype for word, dtype in _NARROW.items() if word in asked.lower()), ""),
            count=os.environ.get(KIND_VARIABLE, _TRAIN) == _TRAIN,
        )
        facts = {
            "created": now(),
            "stage": os.environ.get(STAGE_VARIABLE, ""),
            "level": asked,
            "labels": None if labels is None else _plain(labels),
            "metrics": {name: float(value) for name, value in (metrics or {}).items()},
        }
        try:
            facts |= visit.pay(model, batches, outputs, sizes=sizes, gold=gold)
        except Exception as error:
            facts["trouble"] = _said(error)
            _warn(f"the probe {point!r} could not be taken: {_said(error)}")
        _safely(lambda: write_json(folder / f"{visit.name}.json", facts))

    def start(self, model: Any, optimizer: Any = None) -> None:
        """Tells the weights with which a training begins; without it, those after the first step are taken."""
        folder = _folder()
        if folder is not None:
            _safely(lambda: self._history(folder, model).start(model, optimizer))

    def step(self, *, loss: Any = None, model: Any = None, optimizer: Any = None, scaler: Any = None) -> None:
        """Notes one step of training; call it right after the optimizer has stepped, before gradients are cleared.

        ``model`` or ``optimizer`` is needed for the norms of gradients and updates, ``scaler`` for the history of the
        loss scale. The operators of the second step are counted by dtype.
        """
        folder = _folder()
        if folder is not None:
            _safely(lambda: self._history(folder, model, loss).step(loss, model, optimizer, scaler))

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Notes the digest of a checkpoint that was just written, or is about to be read."""
        folder = _folder()
        if folder is not None:
            _safely(lambda: append_line(folder / CHECKPOINT_FILE, _digested(Path(path))))

    def stop_counting(self) -> None:
        """Ends the counting of operators, where it is still on: what follows is not a step of the training."""
        training = self._training
        if training is not None:
            _safely(training.stop_counting)

    def _history(self, folder: Path, *values: Any) -> Training:
        if self._training is None or self._training.folder != folder:
            tools = probing(*values) or loaded_probing()
            if tools is None:
                raise UsageError("no framework is loaded: a training without torch or Paddle has no history")
            self._training = Training(folder, tools)
        return self._training


probe = Probe()
"""The one hook of this process."""


def _check_arguments(point: str, model: Any, batches: Any, outputs: Any) -> None:
    if not isinstance(point, str) or not _POINT.fullmatch(point):
        raise UsageError(f"{point!r} is no name for a point of a probe; use a word such as eval, export or infer")
    if model is None and outputs is None:
        raise UsageError("a probe needs a model to run, or the outputs that it gave")
    if model is not None and not callable(model):
        raise UsageError(f"the model of a probe must be callable, not {type(model).__name__}")
    if batches is None or (isinstance(batches, list) and not batches):
        raise UsageError("a probe needs at least one batch")
    count = len(batches) if isinstance(batches, list) else 1
    if outputs is not None and (isinstance(outputs, str) or len(outputs) != count):
        raise UsageError(f"a probe of {count} batches needs as many outputs, in a list")


def _folder() -> Path | None:
    """Where to write; None where nobody asked, and in all processes of a training but the first."""
    text = os.environ.get(FOLDER_VARIABLE, "")
    rank = next((os.environ[name] for name in _RANK_VARIABLES if os.environ.get(name)), "0")
    if not text or rank != "0":
        return None
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _warn(f"the probe records nothing, the program goes on: cannot write {folder}: {error}")
        return None
    return folder


def _free_name(folder: Path, point: str) -> str:
    """A point may be visited again: ``eval``, ``eval-2``, …"""
    name, number = point, 1
    while (folder / f"{name}.json").exists() or (folder / name).exists():
        number += 1
        name = f"{point}-{number}"
    return name


def _digested(path: Path) -> dict[str, Any]:
    """What a checkpoint is: the digest of a file, or of all files of a folder."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    if not files or not all(one.exists() for one in files):
        return {"path": str(path), "created": now(), "missing": True}
    total = hashlib.sha256()
    for file in files:
        if path.is_dir():
            total.update(str(file.relative_to(path)).encode())
        with open(file, "rb") as content:
            while piece := content.read(1 << 20):
                total.update(piece)
    size = sum(file.stat().st_size for file in files)
    return {"path": str(path), "created": now(), "sha256": total.hexdigest(), "bytes": size}


def _plain(labels: Any) -> list[Any]:
    """Labels as plain numbers, whatever they lie in."""
    tools: Probing | None = probing(labels)
    if tools is not None and tools.is_tensor(labels):
        labels = tools.leaf(labels).bits
    made: list[Any] = np.asarray(labels).tolist()
    return made if isinstance(made, list) else [made]


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        _warn(f"{KEEP_VARIABLE}={text!r} is no number; the search for operators to keep is left out")
        return None


def _safely(work: Callable[[], None]) -> None:
    """Does our own work inside somebody else's program."""
    try:
        work()
    except UsageError:
        raise
    except Exception as error:
        _warn(f"the probe failed, the program goes on: {_said(error)}")


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    name = "" if isinstance(error, TruelineError) else f"{type(error).__name__}: "
    return f"{name}{text[0] if text else ''}"[:400]


def _warn(message: str) -> None:
    warnings.warn(f"trueline: {message}", RuntimeWarning, stacklevel=4)
