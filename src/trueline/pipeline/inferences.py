"""The inferences of one model: loops over settings, in the order of TIPC's scripts, and the arguments of each.

On a CPU the loops are MKL-DNN, threads, batch size, precision; on a GPU TensorRT, precision, batch size. Loops of a
YAML config that TIPC does not know come last.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trueline.errors import UsageError
from trueline.pipeline.recipe import TIPC_SHORT, YAML, Axis, Option, Recipe
from trueline.pipelines import Command, Stage

_UNSAFE = re.compile(r"[^\w.,=+-]+")
_LOOPS = {"cpu": ("mkldnn", "threads", "batch_size", "precision"), "gpu": ("tensorrt", "precision", "batch_size")}
_IN_LOGS = {"cpu": ("mkldnn", "threads", "precision", "batch_size"), "gpu": _LOOPS["gpu"]}
_ELSEWHERE = {"cpu": ("tensorrt", "device"), "gpu": ("mkldnn", "threads", "device")}
_LOG_WORDS = {"mkldnn": "usemkldnn", "tensorrt": "usetrt", "batch_size": "batchsize"}


@dataclass(frozen=True, slots=True)
class _Variant:
    """One inference: its settings, and the word by which the config names its device."""

    settings: Mapping[str, str]
    word: str

    @property
    def device(self) -> str:
        return self.settings["device"]


def inferences(
    recipe: Recipe, folder: str, base: Stage, model: str, images: str, quantised: bool | None
) -> list[Stage]:
    """The stages that infer a model, each like ``base``, whose command gives the variables. ``folder`` is where the
    classic tester keeps its logs."""
    if not recipe.infer_command:
        return []
    variables = base.command.environment if base.command is not None else {}
    found = []
    for variant in _variants(recipe):
        if recipe.skipped(variant.settings, quantised):
            continue
        line = joined(recipe.python, recipe.infer_command, *_options(recipe, variant, model, images))
        command = Command(line, _log(recipe, folder, base.chain, variant.settings), variables)
        settings = {**variant.settings, "model_dir": model}
        found.append(replace(base, name=f"{base.chain}/{_name(variant.settings)}", command=command, settings=settings))
    if not found:
        raise UsageError(f"{recipe.config}: every combination of settings for the inference is left out")
    return found


def _variants(recipe: Recipe) -> Iterator[_Variant]:
    axes = {axis.name: axis for axis in recipe.axes}
    for word in axes["device"].values if "device" in axes else (str(recipe.infer_gpu),):
        device = "cpu" if word in ("False", "cpu") else "gpu"
        order = [axes[name] for name in _LOOPS[device] if name in axes]
        order += [axis for axis in recipe.axes if axis not in order and axis.name not in _ELSEWHERE[device]]
        for values in itertools.product(*(axis.values for axis in order)):
            settings = {"device": device, **{axis.name: value for axis, value in zip(order, values, strict=True)}}
            yield _Variant(settings, word)


def _options(recipe: Recipe, variant: _Variant, model: str, images: str) -> list[str]:
    """The arguments, in the order of TIPC's scripts."""
    given = {axis.name: _argument(axis, variant) for axis in recipe.axes}
    first = [given.pop(name, "") for name in ("device", "mkldnn", "threads", "tensorrt")]
    precision, batch_size = given.pop("precision", ""), given.pop("batch_size", "")
    before, behind = ("", precision) if variant.device == "cpu" else (precision, "")
    benchmark, *free = [option.words for option in recipe.infer_fixed]
    data = recipe.images_key.of(images)
    return [*first, before, recipe.infer_model.of(model), batch_size, data, benchmark, behind, *given.values(), *free]


def _argument(axis: Axis, variant: _Variant) -> str:
    value = variant.word if axis.name == "device" else variant.settings.get(axis.name, "")
    return Option(axis.key, joint=axis.joint).of(value)


def _name(settings: Mapping[str, str]) -> str:
    words = [value if key == "device" else f"{key}_{value}" for key, value in settings.items()]
    return safe("_".join(["infer", *words]))


def _log(recipe: Recipe, folder: str, chain: str, settings: Mapping[str, str]) -> str:
    """Where the classic tester sends the output. There those of several trainings have the same name, and the last one
    is kept; in our own form of a config every command has its own."""
    device = settings["device"]
    if recipe.form == TIPC_SHORT:
        return f"{folder}/python_infer_{device}_batchsize_{settings['batch_size']}.log"
    order = [name for name in _IN_LOGS[device] if name in settings]
    order += [name for name in settings if name not in (*order, "device")]
    parts = [f"{_LOG_WORDS.get(name, name)}_{settings[name]}" for name in order]
    own = [chain] if recipe.form == YAML else []
    return f"{folder}/{safe('_'.join([*own, 'python_infer', device, *parts]))}.log"


def joined(*parts: str) -> str:
    """A command line of the parts that say anything."""
    return " ".join(word for part in parts if (word := part.strip()))


def safe(name: str) -> str:
    """A name that is one folder."""
    return _UNSAFE.sub("_", name).strip(".") or "_"
