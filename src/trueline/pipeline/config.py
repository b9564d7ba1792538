"""A config file -> a Recipe. Which form it is shows in the file, not in its name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trueline.checked import Unfit, bytes_of
from trueline.errors import UsageError
from trueline.formats.tipc import SHORT, Entry, TipcConfig, by_mode, looks_like_tipc, read_tipc
from trueline.pipeline.recipe import (
    AMP_ARGUMENTS,
    Axis,
    Benchmark,
    ByMode,
    Devices,
    Option,
    Precision,
    Ready,
    Recipe,
    Trainer,
    devices_of,
)
from trueline.pipelines import Remark

NUMBERS_SUFFIX = ".numbers.yaml"
"""A file beside a config of TIPC, of the same name, that says how its numbers are read and judged."""
MOST_COMBINATIONS = 100_000
_LONGEST_NAME, _DEEPEST_NAME = 200, 8
OUTPUT = "./test_tipc/output"
"""Where the classic tester keeps everything, below the current folder."""
_LEVEL = re.compile(r"(?<![A-Za-z0-9])(O[0-3])(?![A-Za-z0-9])")


def read_config(path: Path) -> Recipe:
    """Reads a config of TIPC, or one of ours in YAML."""
    recipe = _read(path)
    _check_name(recipe.model, path)
    variants = math.prod(len(axis.values) for axis in recipe.axes)
    trainings = len(recipe.devices) * len(recipe.precisions) * len(recipe.trainers)
    if variants * max(trainings, 1) > MOST_COMBINATIONS:
        raise UsageError(
            f"{path}: its settings combine to {variants * max(trainings, 1):,} commands, more than the "
            f"{MOST_COMBINATIONS:,} that are planned; name fewer values"
        )
    return recipe


def _check_name(model: str, path: Path) -> None:
    """The name of a model is that of a folder, below the one for output."""
    parts = model.split("/")
    if "" in parts or ".." in parts or "\\" in model or not model.isprintable():
        raise UsageError(f"{path}: the model name {model[:60]!r} is no plain name, as that of a folder")
    if any(len(part.encode()) > _LONGEST_NAME for part in parts) or len(parts) > _DEEPEST_NAME:
        raise UsageError(f"{path}: the model name {model[:60]!r}… is too long for the name of a folder")


def _read(path: Path) -> Recipe:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the config file in it")
    if not path.is_file():
        raise UsageError(f"there is no config {path}")
    try:
        head = bytes_of(path)[: 1 << 16].decode("utf-8-sig", "replace")
    except Unfit as error:
        raise UsageError(f"cannot read the config {path}: {error}") from None
    if looks_like_tipc(head):
        recipe = tipc_recipe(read_tipc(path))
        beside = path.with_suffix(NUMBERS_SUFFIX)
        if not beside.is_file():
            return recipe
        from trueline.pipeline.config_yaml import read_numbers

        return replace(recipe, numbers=read_numbers(beside))
    if path.suffix not in (".yaml", ".yml", ".json"):
        read_tipc(path)  # says what is wrong with it
    from trueline.pipeline.config_yaml import read_yaml

    return read_yaml(path)


def tipc_recipe(config: TipcConfig) -> Recipe:
    """What a config of TIPC says."""
    short = config.form == SHORT
    notes = [Remark(note.line, note.message) for note in config.notes]
    return Recipe(
        config=config.path,
        form=config.form,
        model=_needed(config, "model_name"),
        python=_needed(config, "python"),
        output=OUTPUT,
        devices=_devices(config, notes),
        precisions=(Precision("fp32", "False"),) if short else _precisions(config),
        trainers=_short_trainers(config, notes) if short else _long_trainers(config),
        use_gpu=_option(config, "use_gpu"),
        epochs=_by_mode(config, "epochs"),
        batch_size=_by_mode(config, "batch_size"),
        save=_option(config, "save"),
        pretrained=_option(config, "pretrained"),
        checkpoint=_needed(config, "train_model_name"),
        train_free=_option(config, "train_free"),
        eval_command=_command(config, "eval"),
        eval_weights=_option(config, "pretrained"),
        eval_free=_option(config, "eval_free"),
        export_weights=_option(config, "weights"),
        export_save=_option(config, "save_inference"),
        inference_folder=_inference_folder(config),
        ready=_short_ready(config) if short else _long_ready(config),
        ready_where=config.where("infer_model"),
        infer_command=_command(config, "inference"),
        infer_model=_option(config, "model_dir"),
        axes=_axes(config),
        infer_fixed=tuple(_option(config, role) for role in ("benchmark", "infer_free")),
        images_key=_option(config, "images"),
        train_images=_command(config, "train_images"),
        skipped=_nothing_skipped if short else tipc_skips,
        benchmark=None if short else _benchmark(config),
        warnings=tuple(notes),
    )


def _needed(config: TipcConfig, role: str) -> str:
    entry = config[role]
    if not entry.given:
        raise UsageError(f"{config.where(role)}: {entry.key}: has no value")
    return entry.value


def _command(config: TipcConfig, role: str) -> str:
    entry = config.entries.get(role)
    return entry.value if entry is not None and entry.given else ""


def _option(config: TipcConfig, role: str) -> Option:
    entry = config.entries.get(role)
    return Option() if entry is None else Option(entry.key, entry.value, config.where(role))


def _by_mode(config: TipcConfig, role: str) -> ByMode:
    entry = config[role]
    return ByMode(entry.key, dict(by_mode(entry)), config.where(role))


def _devices(config: TipcConfig, notes: list[Remark]) -> tuple[Devices, ...]:
    entry, use_gpu = config["gpu_list"], config["use_gpu"]
    if not entry.values or not entry.given:
        raise UsageError(f"{config.where('gpu_list')}: gpu_list: is empty; write -1 for the CPU")
    found = []
    for number, text in enumerate(entry.values):
        flag = use_gpu.values[number] if number < len(use_gpu.values) else ""
        found.append(devices := devices_of(text, flag, config.where("gpu_list")))
        if len(devices.gpus) > 1 and not devices.hosts and len(text) > 15:
            notes.append(Remark(entry.line, f"{len(devices.gpus)} cards; TIPC's scripts take more than 8 for machines"))
    if config.form != SHORT and use_gpu.given and len(use_gpu.values) < len(found):
        text = f"{use_gpu.key}: has {len(use_gpu.values)} values for {len(found)} items of gpu_list"
        notes.append(Remark(use_gpu.line, f"{text}; the others get none"))
    return tuple(found)


# Trainers.


def _short_trainers(config: TipcConfig, notes: list[Remark]) -> tuple[Trainer, ...]:
    """The short form has one command for all trainers; a config with one for each is understood too."""
    commands = {entry.key: entry for entry in config.trainers if entry.key != "null"}
    names = _trainer_names(config)
    first = next(iter(commands.values()))
    found = []
    for name in names:
        entry = commands.get(name, first)
        if entry.key != name:
            text = f"the trainer {name} has no line of its own; it runs the command of {entry.key}, as TIPC does"
            notes.append(Remark(config["trainer"].line, text))
        elif entry is not first:
            text = f"{name}: has a command of its own; TIPC's scripts would run that of {first.key}"
            notes.append(Remark(entry.line, text))
        found.append(_trainer(config, name, entry.value, _command(config, "norm_export")))
    return _some(config, found)


def _long_trainers(config: TipcConfig) -> tuple[Trainer, ...]:
    """In the long form the n-th line of a trainer has the n-th export."""
    commands = {entry.key: number for number, entry in enumerate(config.trainers) if entry.key != "null"}
    found = []
    for name in _trainer_names(config):
        if name not in commands:
            where = config.where("trainer")
            raise UsageError(f"{where}: no line {name}: with its command; there are {', '.join(commands)}")
        number = commands[name]
        export = config.exports[number].value if number < len(config.exports) else ""
        quantised = name == "pact_train" or number == 1
        found.append(_trainer(config, name, config.trainers[number].value, export, quantised=quantised))
    return _some(config, found)


def _trainer_names(config: TipcConfig) -> tuple[str, ...]:
    names = config["trainer"].values
    if not names or not config["trainer"].given:
        raise UsageError(f"{config.where('trainer')}: trainer: is empty; write norm_train or another line's name")
    return names


def _trainer(config: TipcConfig, name: str, command: str, export: str, *, quantised: bool = False) -> Trainer:
    precision = None
    if config.form == SHORT and name == "amp_train":
        level = _LEVEL.search(command)
        precision = Precision(level[1] if level else "amp", "True", environment={"autocast": "True"})
    clean = {"null": ""}
    return Trainer(name, clean.get(command, command), clean.get(export, export), quantised, precision)


def _some(config: TipcConfig, trainers: list[Trainer]) -> tuple[Trainer, ...]:
    if not any(trainer.command for trainer in trainers):
        raise UsageError(f"{config.where('trainer')}: the commands of all its trainers are null: nothing to train")
    return tuple(trainer for trainer in trainers if trainer.command)


def _precisions(config: TipcConfig) -> tuple[Precision, ...]:
    entry = config["autocast"]
    if not entry.values:
        raise UsageError(f"{config.where('autocast')}: {entry.key}: is empty; write null for full precision")
    return tuple(_precision(entry.key, word) for word in entry.values)


def _precision(key: str, word: str) -> Precision:
    name = "fp32" if word in ("null", "fp32", "False") else word
    return Precision(name, word, (Option(key, word),), AMP_ARGUMENTS if word == "amp" else "")


# Inference.


def _short_ready(config: TipcConfig) -> tuple[Ready, ...]:
    return (
        Ready(_command(config, "infer_model"), _command(config, "infer_export"), _command(config, "save_inference")),
    )


def _long_ready(config: TipcConfig) -> tuple[Ready, ...]:
    exports, quantised = config["infer_export"].values, config["infer_quant"].values
    return tuple(
        Ready(
            model,
            exports[number] if number < len(exports) and exports[number] != "null" else "",
            model,
            quantised[number] if number < len(quantised) else "",
        )
        for number, model in enumerate(config["infer_model"].values)
        if model != "null"
    )


def _inference_folder(config: TipcConfig) -> str | None:
    """Where the long form has ``##`` in place of the line, its scripts put a slash behind the folder."""
    if config.form == SHORT:
        return None
    if "inference_dir" not in config.entries:
        return ""
    return config["inference_dir"].value if config["inference_dir"].value != "null" else None


def _axes(config: TipcConfig) -> tuple[Axis, ...]:
    names = {"infer_gpu": "device", "infer_batch": "batch_size"}
    found = []
    for role in ("infer_gpu", "mkldnn", "threads", "infer_batch", "tensorrt", "precision"):
        if role not in config.entries:
            continue
        entry = config[role]
        if not entry.values:
            raise UsageError(f"{config.where(role)}: {entry.key}: is an empty list, so that nothing would be inferred")
        values = tuple(_device(config, word) for word in entry.values) if role == "infer_gpu" else entry.values
        found.append(Axis(names.get(role, role), entry.key, values, config.where(role)))
    return tuple(found)


def _device(config: TipcConfig, word: str) -> str:
    if word not in ("True", "False", "gpu", "cpu"):
        raise UsageError(
            f"{config.where('infer_gpu')}: {word!r} is no device to infer on; write True, False, gpu or cpu"
        )
    return word


def _nothing_skipped(settings: Mapping[str, str], quantised: bool | None) -> str:
    return ""


def tipc_skips(settings: Mapping[str, str], quantised: bool | None) -> str:
    """Combinations that the long form leaves out. ``quantised`` is None where the config does not say."""
    precision = settings["precision"]
    if settings["device"] == "cpu":
        if settings["mkldnn"] == "False" and precision == "fp16":
            return "fp16 on a CPU needs MKL-DNN"
        if quantised and precision != "int8":
            return "a quantised model is inferred in int8 only"
        return ""
    if quantised is False and "int8" in precision:
        return "int8 needs a quantised model"
    if settings["tensorrt"] == "False" and ("fp16" in precision or "int8" in precision):
        return f"{precision} on a GPU needs TensorRT"
    return ""


# The block for benchmarks.


def _benchmark(config: TipcConfig) -> Benchmark | None:
    block = config.blocks.get("train_benchmark_params")
    if not block:
        return None
    profiler = next((entry for key, entry in block.items() if "profiler" in key), None)
    return Benchmark(
        _block(config, block, "batch_size").values,
        _block(config, block, "fp_items").values,
        _block(config, block, "epoch").value,
        Option() if profiler is None else Option(profiler.key, profiler.value),
        dict(_flags(config, block.get("flags"))),
    )


def _block(config: TipcConfig, block: Mapping[str, Entry], key: str) -> Entry:
    if key not in block or not block[key].given:
        line = max(entry.line for entry in block.values())
        raise UsageError(f"{config.path}, line {line}: the section train_benchmark_params has no {key}:")
    return block[key]


def _flags(config: TipcConfig, entry: Entry | None) -> list[tuple[str, str]]:
    found = []
    for part in (entry.value if entry is not None and entry.given else "").split(";"):
        name, equals, value = part.partition("=")
        if part.strip() and not equals:
            line = entry.line if entry is not None else 0
            raise UsageError(f"{config.path}, line {line}: the flag {part.strip()!r} has no value; write NAME=value")
        if part.strip():
            found.append((name.strip(), value.strip()))
    return found
