"""The commands of one recipe: chains of stages, each a training (or a model that is there) and what follows from it.

The order of the loops and of the arguments is that of TIPC's scripts for both of its forms; YAML follows the long one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trueline.errors import UsageError
from trueline.pipeline.inferences import inferences, joined, safe
from trueline.pipeline.recipe import TIPC_SHORT, ByMode, Devices, Option, Precision, Ready, Recipe, Trainer
from trueline.pipelines import Command, Remark, Stage, StageKind


@dataclass(frozen=True, slots=True)
class Chain:
    """``folder`` is what its commands are told to write into."""

    folder: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """The arguments that depend on the mode."""

    epochs: str
    batch_size: str


def values_of(recipe: Recipe, mode: str) -> tuple[Values, list[Remark]]:
    """Epochs and batch size for a mode, and what had to be assumed."""
    found = [_by_mode(option, mode) for option in (recipe.epochs, recipe.batch_size)]
    return Values(*(words for words, _ in found)), [warning for _, warning in found if warning is not None]


def _by_mode(option: ByMode, mode: str) -> tuple[str, Remark | None]:
    value, assumed = option.value(mode)
    line = re.search(r"line (\d+)", option.where)
    warning = Remark(int(line[1]) if line else 0, assumed) if assumed else None
    return Option(option.key, joint=option.joint).of(value), warning


def trained_chains(recipe: Recipe, folder: str, values: Values, suffix: str = "") -> Iterator[Chain]:
    """One chain for each training, below the folder of the mode."""
    for devices, precision, trainer in itertools.product(recipe.devices, recipe.precisions, recipe.trainers):
        yield _Training(recipe, folder, devices, trainer.precision or precision, trainer, suffix).chain(values)


class _Training:
    """One training and its names: the folder it writes into, what its logs begin with, how its stages are called."""

    def __init__(
        self, recipe: Recipe, folder: str, devices: Devices, precision: Precision, trainer: Trainer, suffix: str
    ) -> None:
        self.recipe, self.devices, self.precision, self.trainer = recipe, devices, precision, trainer
        self.cards = devices.text.rpartition(";")[2]
        self.logs = folder
        nodes = max(len(devices.hosts), 1)
        many = f"_nodes_{nodes}" if devices.hosts else ""
        name = f"{trainer.name}_gpus_{self.cards}_autocast_{precision.word or precision.name}"
        self.prefix = f"{folder}/{name}_nodes_{nodes}"
        if recipe.plain_names:
            self.prefix = f"{folder}/{trainer.name}_gpus_{self.cards}{many}"
            self.folder = self.prefix
        else:
            self.folder = f"{self.prefix}.log" if recipe.form == TIPC_SHORT else f"{folder}/{name}{many}"
        self.weights = f"{self.folder}/{recipe.checkpoint}"
        self.base = Stage(
            safe(f"{name}{many}{suffix}"),
            StageKind.TRAIN,
            Command("", environment={**recipe.environment, **precision.environment, **self._visible()}),
            chain=safe(f"{name}{many}{suffix}"),
            trainer=trainer.name,
            precision=precision.name,
            devices=devices.text,
        )

    def chain(self, values: Values) -> Chain:
        stages = [self._train(values)]
        if self.recipe.eval_command:
            stages.append(self._eval(stages[0]))
        if self.trainer.export:
            stages.append(export := self._export(stages[0]))
            stages += self._infer(export)
        return Chain(self.folder, tuple(stages))

    def _visible(self) -> dict[str, str]:
        """The first card for what follows a training; with several machines the long form leaves that alone."""
        if not self.devices.gpus or (self.devices.hosts and self.recipe.form != TIPC_SHORT):
            return {}
        return {"CUDA_VISIBLE_DEVICES": self.devices.gpus[0]}

    def _stage(self, kind: StageKind, line: str, log: str = "") -> Stage:
        assert self.base.command is not None, "made with one"
        command = replace(self.base.command, line=line, log=log)
        return replace(self.base, name=f"{self.base.chain}/{kind.value}", kind=kind, command=command)

    def _train(self, values: Values) -> Stage:
        stage = self._stage(StageKind.TRAIN, self._train_line(values))
        assert stage.command is not None, "made with one"
        variables = {**self.recipe.environment, **self.precision.environment}
        written = (self.weights,) if self.recipe.save.key != "null" else ()
        return replace(stage, command=replace(stage.command, environment=variables), writes=written)

    def _train_line(self, values: Values) -> str:
        recipe = self.recipe
        launch = ""
        if self.devices.hosts:
            launch = f"-m paddle.distributed.launch --ips={','.join(self.devices.hosts)} --gpus={self.cards}"
        elif len(self.devices.gpus) > 1:
            launch = f"-m paddle.distributed.launch --gpus={self.cards}"
        start = [recipe.python, launch, self.trainer.command]
        save, pretrained = recipe.save.of(self.folder), recipe.pretrained.words
        if recipe.form == TIPC_SHORT:
            return joined(*start, save, values.epochs, pretrained, values.batch_size)
        middle = (pretrained, values.epochs) if self.devices.hosts else (values.epochs, pretrained)
        autocast = [option.words for option in self.precision.options]
        end = [*autocast, values.batch_size, recipe.train_free.words, self.precision.extra]
        return joined(*start, recipe.use_gpu.of(self.devices.use_gpu), save, *middle, *end)

    def _eval(self, train: Stage) -> Stage:
        recipe = self.recipe
        more = [] if recipe.form == TIPC_SHORT else [recipe.use_gpu.of(self.devices.use_gpu), recipe.eval_free.words]
        line = joined(recipe.python, recipe.eval_command, recipe.eval_weights.of(self.weights), *more)
        stage = self._stage(StageKind.EVAL, line, f"{self.prefix}_eval.log")
        return replace(stage, after=(train.name,), reads=self._read(recipe.eval_weights))

    def _export(self, train: Stage) -> Stage:
        recipe = self.recipe
        options = (recipe.export_weights.of(self.weights), recipe.export_save.of(self.folder))
        line = joined(recipe.python, self.trainer.export, *options)
        stage = self._stage(StageKind.EXPORT, line, f"{self.prefix}_export.log")
        written = (self.folder,) if recipe.export_save.key != "null" else ()
        return replace(stage, after=(train.name,), reads=self._read(recipe.export_weights), writes=written)

    def _read(self, option: Option) -> tuple[str, ...]:
        return (self.weights,) if option.key != "null" else ()

    def _infer(self, export: Stage) -> list[Stage]:
        inside = self.recipe.inference_folder
        model = self.folder if inside is None else f"{self.folder}/{inside}"
        base = replace(export, kind=StageKind.INFER, after=(export.name,), reads=(model,), writes=())
        return inferences(self.recipe, self.logs, base, model, self.recipe.train_images, self.trainer.quantised)


# Models that are there already.


def ready_chains(recipe: Recipe, folder: str, gpu: str) -> Iterator[Chain]:
    """One chain for each model of ``whole_infer``; ``gpu`` is the card to use, empty for any."""
    if not recipe.ready or not recipe.infer_command:
        raise UsageError(f"{recipe.ready_where}: whole_infer needs a model that is there and an inference; one is null")
    variables = {**recipe.environment, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})}
    for number, ready in enumerate(recipe.ready):
        base = Stage(
            "", StageKind.INFER, Command("", environment=variables), chain=f"model_{number}", reads=(ready.folder,)
        )
        exports = [_ready_export(recipe, folder, ready, number, base)] if ready.export else []
        base = replace(base, after=tuple(stage.name for stage in exports))
        quantised = {"True": True, "False": False}.get(ready.quantised)
        stages = inferences(recipe, folder, base, ready.folder, recipe.images_key.value, quantised)
        yield Chain(ready.folder, (*exports, *stages))


def _ready_export(recipe: Recipe, folder: str, ready: Ready, number: int, base: Stage) -> Stage:
    options = (recipe.export_weights.of(ready.weights), recipe.export_save.of(ready.folder))
    line = joined(recipe.python, ready.export, *options)
    log = f"{folder}/{'' if recipe.form == TIPC_SHORT else '_'}export_{number}.log"
    assert base.command is not None, "made with one"
    return replace(
        base,
        name=f"{base.chain}/export",
        kind=StageKind.EXPORT,
        command=replace(base.command, line=line, log=log),
        reads=(ready.weights,),
        writes=(ready.folder,) if recipe.export_save.key != "null" else (),
    )
