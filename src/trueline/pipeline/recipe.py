"""A config, understood: what is trained, evaluated, exported and inferred, and how. No loops are unrolled here.

Both forms of TIPC's configs and our own YAML become a Recipe; ``plan`` turns a Recipe and a mode into commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trueline.errors import UsageError
from trueline.pipelines import Remark

TIPC_SHORT = "tipc-32"
TIPC_LONG = "tipc-51"
YAML = "yaml"
AMP_ARGUMENTS = "Global.use_amp=True Global.scale_loss=1024.0 Global.use_dynamic_loss_scaling=True"
"""What the long form adds to a training whose precision is called ``amp``."""


@dataclass(frozen=True, slots=True)
class Option:
    """An argument of a command: ``key=value``, or ``key value`` with a space as ``joint``. Nothing where either is
    ``null`` or the value is empty. ``where`` is the place in the config, for messages."""

    key: str = "null"
    value: str = ""
    where: str = ""
    joint: str = "="

    @property
    def words(self) -> str:
        return option_words(self.key, self.value, self.joint)

    def of(self, value: str) -> str:
        """The same argument with another value."""
        return option_words(self.key, value, self.joint)


def option_words(key: str, value: str, joint: str = "=") -> str:
    return "" if key == "null" or value in ("", "null") else f"{key}{joint}{value}"


@dataclass(frozen=True, slots=True)
class ByMode:
    """An argument whose value depends on the mode. ``values`` goes by mode, or by the half of it that says how long is
    trained (``lite_train``); the value of an empty name holds for all."""

    key: str
    values: Mapping[str, str]
    where: str = ""
    joint: str = "="

    def value(self, mode: str) -> tuple[str, str]:
        """The value for a mode, and a warning where it had to be taken from elsewhere.

        Nothing is trained at its default length because a mode was forgotten: that is an error.
        """
        if mode in self.values:
            return self.values[mode], ""
        if not self.values or set(self.values.values()) <= {"null", ""}:
            return "", ""
        half = mode.rpartition("_train")[0]
        for other, value in self.values.items():
            if half and other.rpartition("_train")[0] == half:
                text = "" if other == f"{half}_train" else f"{self.key} has no value for {mode}; taken from {other}"
                return value, text
        if "" in self.values:
            return self.values[""], f"the value of {self.key} names no mode; taken for all (TIPC's scripts drop it)"
        known = ", ".join(self.values)
        raise UsageError(f"{self.where}: {self.key} has no value for the mode {mode}, only for {known}; add {mode}=...")


@dataclass(frozen=True, slots=True)
class Devices:
    """Where one training runs. ``text`` is what the config says (``-1`` for the CPU), ``gpus`` the numbers of the
    cards, ``hosts`` the machines. ``use_gpu`` is the value of the argument that belongs to it."""

    text: str
    gpus: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    use_gpu: str = ""


@dataclass(frozen=True, slots=True)
class Precision:
    """How numbers are kept in a training: a ``name`` for people, the ``word`` of the config, what it adds to the
    command."""

    name: str
    word: str = ""
    options: tuple[Option, ...] = ()
    extra: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trainer:
    """A way of training: its command and that of its export (empty where there is none). ``precision`` overrides that
    of the loop, where the trainer itself says how numbers are kept."""

    name: str
    command: str
    export: str = ""
    quantised: bool = False
    precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """A model that is there already, for ``whole_infer``: where its weights are, the command that exports it (empty
    where it is used as it is), and where the exported one goes."""

    weights: str
    export: str
    folder: str
    quantised: str = "False"


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that varies between inferences: ``name`` (``threads``), its argument, its values."""

    name: str
    key: str
    values: tuple[str, ...]
    where: str = ""
    joint: str = "="


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What ``benchmark_train`` varies: batch sizes and precisions; the argument that turns a profiler on; variables."""

    batch_sizes: tuple[str, ...]
    precisions: tuple[str, ...]
    epochs: str
    profiler: Option
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A config, understood. Of the options only the keys matter where the pipeline makes the values (``save``)."""

    config: str
    form: str
    model: str
    python: str
    output: str
    devices: tuple[Devices, ...]
    precisions: tuple[Precision, ...]
    trainers: tuple[Trainer, ...]
    use_gpu: Option
    epochs: ByMode
    batch_size: ByMode
    save: Option
    pretrained: Option
    checkpoint: str
    train_free: Option
    eval_command: str
    eval_weights: Option
    eval_free: Option
    export_weights: Option
    export_save: Option
    inference_folder: str | None
    """The folder below that of the training where the exported model is; None where it is that of the training."""
    ready: tuple[Ready, ...]
    ready_where: str
    infer_command: str
    infer_model: Option
    axes: tuple[Axis, ...]
    infer_fixed: tuple[Option, ...]
    images_key: Option
    """The argument of the inference for its images; its value is used for models that were there already."""
    train_images: str
    """The images for the inference of models that were trained."""
    skipped: Callable[[Mapping[str, str], bool | None], str]
    """Why a combination of settings is not run, given whether the model is quantised; empty where it is."""
    infer_gpu: bool = False
    """Whether the inference asks for a GPU by itself, where no loop says on what it runs."""
    benchmark: Benchmark | None = None
    prepare: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    timeouts: Mapping[str, float] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)
    memory: int | None = None
    warm: tuple[str, ...] = ()
    numbers: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[Remark, ...] = ()
    plain_names: bool = False
    """Whether the folder of a training is called after its trainer and cards alone."""

    def warned(self, warnings: tuple[Remark, ...]) -> Recipe:
        return replace(self, warnings=(*self.warnings, *warnings))


def devices_of(text: str, use_gpu: str, where: str) -> Devices:
    """Reads one item of ``gpu_list``: ``-1``, ``0``, ``0,1``, ``ip1,ip2;0,1``. By what stands in it, not by how long it
    is: nine cards are no machines."""
    hosts, semicolon, cards = text.rpartition(";")
    if text in ("-1", "cpu"):
        return Devices("-1", use_gpu=use_gpu)
    gpus = tuple(part.strip() for part in cards.split(","))
    if not all(part.isdigit() for part in gpus):
        raise UsageError(f"{where}: {text!r} are no devices; write -1 (CPU), 0, 0,1 or ip1,ip2;0,1")
    machines = tuple(part.strip() for part in hosts.split(",") if part.strip())
    if semicolon and not machines:
        raise UsageError(f"{where}: {text!r} names no machine before the semicolon; write ip1,ip2;0,1")
    return Devices(text, gpus, machines, use_gpu)
