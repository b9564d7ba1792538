"""Our own form of a config: the same as TIPC's, readable, and more.

    model: tiny_transformer
    python: python3
    output: ./output                        # everything goes to <output>/<model>/<mode>
    devices: [cpu, "0", "0,1"]
    prepare: python3 make_data.py
    timeout: {train: 600, infer: 60}        # seconds, by kind of stage, or one number for all
    retries: {infer: 1}                     # a command that fails is run again so often; said as a warning
    memory: 8 GB
    environment: {OMP_NUM_THREADS: 1}
    warm: [torch]                           # run commands as copies of a process that has imported this
    train:
      command: train.py --seed 1            # or trainers: {norm_train: {command, export}, pact_train: ...}
      save: --output-dir
      checkpoint: latest.pt
      epochs: {argument: --epochs, lite_train: 2, whole_train: 90}
      batch_size: {argument: --batch-size, lite_train: 8, whole_train: 64}
      pretrained: {argument: --pretrained, value: null}
      arguments: --workers=2
      precisions: {fp32: "", O1: --amp_level=O1, O2: {arguments: --amp_level=O2, environment: {...}}}
    eval: {command: train.py --test-only, weights: --pretrained}
    export: {command: export.py, weights: --pretrained, save: --save-inference-dir}
    infer:
      command: infer.py
      model: --model-dir
      folder: exported                      # where in the folder of the training the model is
      loops: {--batch-size: [1, 3, 8], --threads: [1, 4], --backend: [eager, onnx]}
      skip: [{backend: onnx, threads: 4}]
      arguments: {--benchmark: true}
    models: [{weights: pretrained/x.pt, export: export.py, folder: ./inference}]        # for whole_infer
    numbers: {...}                          # how the numbers are read and judged

A setting is called by its argument without dashes; ``use_gpu``, ``enable_mkldnn``, ``cpu_threads`` and ``use_tensorrt``
are ``device``, ``mkldnn``, ``threads`` and ``tensorrt``, as in the reports of TIPC's configs. Whether an inference runs
on a GPU is told by its ``--use_gpu`` or ``--device``, as a loop (``--use-gpu: [true, false]``) or in the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trueline.pipeline.recipe import (
    YAML,
    Axis,
    ByMode,
    Devices,
    Option,
    Precision,
    Ready,
    Recipe,
    Trainer,
    devices_of,
)
from trueline.pipeline.yaml_reading import Document, Place
from trueline.pipelines import MODES, StageKind

_TOP = (
    "model", "python", "output", "devices", "prepare", "timeout", "retries", "memory", "environment", "warm", "train",
    "eval", "export", "infer", "models", "numbers", "join",
)  # fmt: skip
_TRAIN = (
    "command", "trainers", "save", "checkpoint", "epochs", "batch_size", "pretrained", "arguments", "precisions",
)  # fmt: skip
_MOST_MEMORY, _MOST_RETRIES = 1 << 60, 100
_INFER = ("command", "model", "folder", "loops", "skip", "arguments")
_ALIASES = {
    "use_gpu": "device", "enable_mkldnn": "mkldnn", "use_mkldnn": "mkldnn", "cpu_threads": "threads",
    "use_tensorrt": "tensorrt",
}  # fmt: skip
_OPTION = re.compile(r"(?<!\S)(-[\w.-]+)[=\s]+([^\s-]\S*)")
_GPU = re.compile(r"true$|1$|yes$|gpu|cuda", re.IGNORECASE)
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def read_yaml(path: Path) -> Recipe:
    """Reads one config file."""
    return _Reader(Document(path)).recipe()


def read_numbers(path: Path) -> Mapping[str, Any]:
    """What is said about numbers in a file beside a config of TIPC, which has no place for it."""
    document = Document(path)
    return document.mapping(document.content, ())


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.content = document.mapping(document.content, (), _TOP)
        self.joint = {"equals": "=", "space": " "}.get(self._text("join") or "equals", "")
        if not self.joint:
            raise document.error(("join",), "says how an argument and its value are joined; write equals or space")

    def recipe(self) -> Recipe:
        train = self._section("train", _TRAIN)
        evaluation = self._section("eval", ("command", "weights", "arguments"))
        export = self._section("export", ("command", "weights", "save", "arguments"))
        infer = self._section("infer", _INFER)
        axes = self._axes(infer.get("loops"))
        return Recipe(
            config=self.document.path,
            form=YAML,
            model=self._needed("model"),
            python=self._text("python") or "python",
            output=self._text("output") or "./output",
            devices=self._devices(),
            precisions=self._precisions(train.get("precisions")),
            trainers=self._trainers(train, _line(export)),
            use_gpu=Option(),
            epochs=self._by_mode(train, "epochs"),
            batch_size=self._by_mode(train, "batch_size"),
            save=self._argument(train, "train", "save"),
            pretrained=self._pretrained(train.get("pretrained")),
            checkpoint=self._checkpoint(train),
            train_free=Option(),
            eval_command=_line(evaluation),
            eval_weights=self._argument(evaluation, "eval", "weights"),
            eval_free=Option(),
            export_weights=self._argument(export, "export", "weights"),
            export_save=self._argument(export, "export", "save"),
            inference_folder=self.document.text(infer.get("folder"), ("infer", "folder")) or None,
            ready=self._ready(),
            ready_where=self.document.where(("models",)),
            infer_command=self._infer_command(infer),
            infer_model=self._argument(infer, "infer", "model"),
            axes=axes,
            infer_fixed=(Option(), *self._fixed(infer.get("arguments"))),
            images_key=Option(),
            train_images="",
            skipped=self._skips(infer.get("skip"), {axis.name for axis in axes}),
            infer_gpu=self._asks_for_gpu(infer),
            prepare=self._text("prepare"),
            environment=self._variables(self.content.get("environment"), ("environment",)),
            timeouts=self._by_kind("timeout"),
            retries=self._retries(),
            memory=self._memory(),
            warm=self.document.texts(self.content.get("warm"), ("warm",)),
            numbers=self.document.mapping(self.content.get("numbers"), ("numbers",)),
        )

    # Small things.

    def _text(self, key: str) -> str:
        return self.document.text(self.content.get(key), (key,))

    def _needed(self, key: str) -> str:
        text = self._text(key)
        if not text:
            raise self.document.error((key,), "is missing; every config has one")
        return text

    def _section(self, key: str, known: tuple[str, ...]) -> Mapping[str, Any]:
        return self.document.mapping(self.content.get(key), (key,), known)

    def _argument(self, section: Mapping[str, Any], name: str, key: str) -> Option:
        place = (name, key)
        text = self.document.text(section.get(key), place)
        return Option(text or "null", where=self.document.where(place), joint=self.joint)

    def _variables(self, value: Any, place: Place) -> dict[str, str]:
        return {
            key: self.document.text(item, (*place, key)) for key, item in self.document.mapping(value, place).items()
        }

    def _by_kind(self, key: str, *, zero: bool = False) -> dict[str, float]:
        """A number for all stages (under no name), or one for each kind."""
        value = self.content.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            return {"": self.document.number(value, (key,), zero=zero)}
        kinds = [kind.value for kind in StageKind]
        known = self.document.mapping(value, (key,), kinds)
        return {kind: self.document.number(number, (key, kind), zero=zero) for kind, number in known.items()}

    def _retries(self) -> dict[str, int]:
        found = self._by_kind("retries", zero=True)
        for kind, number in found.items():
            if number != int(number) or number > _MOST_RETRIES:
                place = ("retries", kind) if kind else ("retries",)
                most = f"a command is run again a whole number of times, at most {_MOST_RETRIES}"
                raise self.document.error(place, f"is {number:g}; {most}")
        return {kind: int(number) for kind, number in found.items()}

    def _memory(self) -> int | None:
        text = self._text("memory")
        if not text:
            return None
        match = re.fullmatch(r"\s*([\d.]+)\s*([a-zA-Z]*)\s*", text)
        unit = _SIZES.get(match[2].lower()) if match else None
        if match is None or unit is None or match[1].count(".") > 1:
            raise self.document.error(("memory",), f"is {text!r}; write it like 8 GB")
        found = float(match[1]) * unit
        if found > _MOST_MEMORY:
            raise self.document.error(("memory",), f"is {text!r}, more than any machine has")
        return int(found)

    # Training.

    def _devices(self) -> tuple[Devices, ...]:
        texts = self.document.texts(self.content.get("devices"), ("devices",)) or ("cpu",)
        return tuple(
            devices_of(text, "", self.document.where(("devices", number))) for number, text in enumerate(texts)
        )

    def _precisions(self, value: Any) -> tuple[Precision, ...]:
        place = ("train", "precisions")
        if isinstance(value, list):
            raise self.document.error(place, "is a list; write what each adds to the command, like O1: --amp_level=O1")
        found = []
        for name, item in self.document.mapping(value, place).items():
            mine = item if isinstance(item, Mapping) else {"arguments": item}
            mine = self.document.mapping(mine, (*place, name), ("arguments", "environment"))
            extra = self.document.text(mine.get("arguments"), (*place, name, "arguments"))
            variables = self._variables(mine.get("environment"), (*place, name, "environment"))
            found.append(Precision(name, name, (), extra, variables))
        return tuple(found) or (Precision("fp32", "fp32"),)

    def _trainers(self, train: Mapping[str, Any], export: str) -> tuple[Trainer, ...]:
        more = self.document.text(train.get("arguments"), ("train", "arguments"))
        named = self.document.mapping(train.get("trainers"), ("train", "trainers"))
        if named and train.get("command"):
            raise self.document.error(("train", "command"), "and trainers: say the same; keep one")
        if not named:
            command = self.document.text(train.get("command"), ("train", "command"))
            return (Trainer("norm_train", _joined(command, more), export),) if command else ()
        found = []
        for name, item in named.items():
            place = ("train", "trainers", name)
            mine = item if isinstance(item, Mapping) else {"command": item}
            mine = self.document.mapping(mine, place, ("command", "export", "quantised", "precision"))
            command = self.document.text(mine.get("command"), (*place, "command"))
            if not command:
                raise self.document.error(place, "has no command")
            precision = self.document.text(mine.get("precision"), (*place, "precision"))
            found.append(
                Trainer(
                    name,
                    _joined(command, more),
                    self.document.text(mine.get("export"), (*place, "export"), export),
                    bool(mine.get("quantised")),
                    Precision(precision, precision) if precision else None,
                )
            )
        return tuple(found)

    def _by_mode(self, train: Mapping[str, Any], key: str) -> ByMode:
        place = ("train", key)
        known = {"argument", *MODES, "lite_train", "whole_train"}
        values = self.document.mapping(train.get(key), place, known)
        if values and not values.get("argument"):
            raise self.document.error(place, "has no argument:, like argument: --epochs")
        texts = {
            mode: self.document.text(value, (*place, mode)) for mode, value in values.items() if mode != "argument"
        }
        argument = self.document.text(values.get("argument"), (*place, "argument")) or "null"
        return ByMode(argument, texts, self.document.where(place), self.joint)

    def _pretrained(self, value: Any) -> Option:
        place = ("train", "pretrained")
        known = self.document.mapping(value, place, ("argument", "value"))
        key = self.document.text(known.get("argument"), (*place, "argument")) or "null"
        return Option(key, self.document.text(known.get("value"), (*place, "value")), joint=self.joint)

    def _checkpoint(self, train: Mapping[str, Any]) -> str:
        text = self.document.text(train.get("checkpoint"), ("train", "checkpoint"))
        if train and not text:
            raise self.document.error(("train", "checkpoint"), "is missing: the file that the training saves")
        return text

    # Inference.

    def _ready(self) -> tuple[Ready, ...]:
        value = self.content.get("models")
        items = value if isinstance(value, list) else [] if value is None else [value]
        found = []
        for number, item in enumerate(items):
            place = ("models", number)
            mine = self.document.mapping(item, place, ("weights", "export", "folder", "quantised"))
            texts = {key: self.document.text(one, (*place, key)) for key, one in mine.items()}
            folder = texts.get("folder") or texts.get("weights", "")
            if not folder:
                raise self.document.error(place, "names neither weights nor a folder")
            quantised = "True" if mine.get("quantised") else "False"
            found.append(Ready(texts.get("weights", ""), texts.get("export", ""), folder, quantised))
        return tuple(found)

    def _axes(self, value: Any) -> tuple[Axis, ...]:
        place = ("infer", "loops")
        found = []
        for key, item in self.document.mapping(value, place).items():
            values = self.document.texts(item, (*place, key))
            if not values:
                raise self.document.error((*place, key), "is an empty list, so that nothing would be inferred")
            found.append(Axis(_setting(key), key, values, self.document.where((*place, key)), self.joint))
        return tuple(found)

    def _fixed(self, value: Any) -> list[Option]:
        place = ("infer", "arguments")
        if isinstance(value, str):  # words that belong to the command as they are
            return []
        return [Option(key, text, joint=self.joint) for key, text in self._variables(value, place).items()]

    def _infer_command(self, infer: Mapping[str, Any]) -> str:
        command = self.document.text(infer.get("command"), ("infer", "command"))
        words = infer.get("arguments")
        return _joined(command, words if isinstance(words, str) else "")

    def _asks_for_gpu(self, infer: Mapping[str, Any]) -> bool:
        """Whether the inference is told to use a GPU outside of the loops: ``--use-gpu=True``, ``--device cuda:0``."""
        line = " ".join([self._infer_command(infer), *(option.words for option in self._fixed(infer.get("arguments")))])
        return any(_setting(name) == "device" and _GPU.match(value) for name, value in _OPTION.findall(line))

    def _skips(self, value: Any, names: set[str]) -> Callable[[Mapping[str, str], bool | None], str]:
        place = ("infer", "skip")
        items = value if isinstance(value, list) else [] if value is None else [value]
        rules = []
        for number, item in enumerate(items):
            rule = self.document.mapping(item, (*place, number), names)
            rules.append({key: self.document.texts(one, (*place, number, key)) for key, one in rule.items()})

        def skipped(settings: Mapping[str, str], quantised: bool | None) -> str:
            for rule in rules:
                if rule and all(settings.get(key) in values for key, values in rule.items()):
                    return "left out by the config"
            return ""

        return skipped


def _setting(key: str) -> str:
    name = key.lstrip("-").rpartition(".")[2].replace("-", "_")
    return _ALIASES.get(name, name)


def _line(section: Mapping[str, Any]) -> str:
    return _joined(str(section.get("command") or ""), str(section.get("arguments") or ""))


def _joined(*parts: str) -> str:
    return " ".join(part.strip() for part in parts if part.strip())
