"""Reads the configs of TIPC's training-and-inference testers, in the 32-line and in the 51-line form.

Those testers are shell scripts that take line 14 for the training command whatever stands there, cut a value at its
second colon and run whatever comes out. Here a line is found by its key, by the section it stands in, and by the lines
that are named alike in every config (``gpu_list``, ``train_model_name``, ``trainer``, ``eval``, ``inference``, ...);
lines between two of these follow in a fixed order. So comments, empty lines, missing ``##`` and Windows line ends do
no harm: they give warnings. What cannot be understood is a UsageError that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trueline.errors import UsageError

_HEADER = re.compile(r"^=+\s*(\w+)\s*=+$")
_SEPARATOR = re.compile(r"^#+$")
_MAIN_SECTIONS = ("train_params", "eval_params", "infer_params")
_BLOCKS = ("infer_benchmark_params", "train_benchmark_params")
_MOST_BYTES = 1 << 20

SHORT = "tipc-32"
LONG = "tipc-51"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line ``key:value``. ``line`` counts from 1."""

    key: str
    value: str
    line: int

    @property
    def given(self) -> bool:
        """Whether the value says anything: ``null`` and nothing drop the argument."""
        return self.value not in ("", "null")

    @property
    def values(self) -> tuple[str, ...]:
        """The value as a list ``a|b``."""
        return tuple(part.strip() for part in self.value.split("|") if part.strip())


@dataclass(frozen=True, slots=True)
class Note:
    """What was repaired, or looks wrong, at a line; 0 where it is about none."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class TipcConfig:
    """A config, read. ``entries`` holds the lines by what they mean (see ``_SHORT`` and ``_LONG``), ``trainers`` and
    ``exports`` those with commands, in order (a key ``null`` is a place that is not used), ``blocks`` the named blocks
    at the end."""

    path: str
    form: str
    entries: Mapping[str, Entry]
    trainers: tuple[Entry, ...]
    exports: tuple[Entry, ...]
    blocks: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def __getitem__(self, role: str) -> Entry:
        return self.entries[role]

    def where(self, role: str) -> str:
        """The place of a line, for messages."""
        return f"{self.path}, line {self.entries[role].line}"


@dataclass(frozen=True, slots=True)
class _Form:
    """What stands between the lines that are named alike everywhere, in order."""

    before_checkpoint: tuple[str, ...]
    before_trainer: tuple[str, ...]
    after_eval: tuple[str, ...]
    before_model: tuple[str, ...]
    after_inference: tuple[str, ...]
    length: int
    positions: Mapping[str, int]
    """Where the shell scripts look: meaning -> number of the line."""


_SHORT = _Form(
    before_checkpoint=("use_gpu", "epochs", "save", "batch_size", "pretrained"),
    before_trainer=("data_path",),
    after_eval=(),
    before_model=(),
    after_inference=("infer_gpu", "infer_batch", "model_dir", "images", "benchmark"),
    length=32,
    positions={
        "model_name": 2, "python": 3, "gpu_list": 4, "epochs": 6, "batch_size": 8, "train_model_name": 10,
        "trainer": 13, "trainer command": 14, "eval": 17, "save_inference": 20, "norm_export": 22, "infer_model": 24,
        "infer_export": 25, "inference": 27, "infer_gpu": 28, "benchmark": 32,
    },
)  # fmt: skip
_LONG = _Form(
    before_checkpoint=("use_gpu", "autocast", "epochs", "save", "batch_size", "pretrained"),
    before_trainer=("train_images", "train_free"),
    after_eval=("eval_free",),
    before_model=("quant_export", "fpgm_export", "distill_export", "export1", "export2"),
    after_inference=(
        "infer_gpu", "mkldnn", "threads", "infer_batch", "tensorrt", "precision", "model_dir", "images", "save_log",
        "benchmark", "infer_free",
    ),
    length=51,
    positions={
        "model_name": 2, "python": 3, "gpu_list": 4, "epochs": 7, "batch_size": 9, "train_model_name": 11,
        "trainer": 15, "trainer command": 16, "eval": 24, "save_inference": 28, "norm_export": 30, "infer_model": 37,
        "infer_export": 38, "infer_quant": 39, "inference": 40, "infer_gpu": 41, "benchmark": 50,
    },
)  # fmt: skip
_HINTS = {
    "use_gpu": r"use.?gpu|device",
    "autocast": r"auto.?cast|amp",
    "epochs": r"epoch",
    "save": r"output|save",
    "batch_size": r"batch",
    "pretrained": r"pretrain",
    "infer_gpu": r"use.?gpu",
    "mkldnn": r"mkldnn",
    "threads": r"thread",
    "infer_batch": r"batch",
    "tensorrt": r"tensorrt|trt",
    "precision": r"precision",
    "model_dir": r"model.?dir",
    "benchmark": r"benchmark",
}
"""Words in the key of a line by which one knows it in whatever place."""
_OTHER_TESTERS = {
    "cpp_infer_params": "C++ inference",
    "serving_params": "serving",
    "paddle2onnx_params": "paddle2onnx",
    "lite_params": "Paddle Lite",
    "kl_quant_params": "quantisation after training",
    "ptq_params": "quantisation after training",
    "js_params": "JavaScript",
}


def looks_like_tipc(text: str) -> bool:
    """Whether a file is one of TIPC's, by its content: a section of its kind, or its first keys."""
    headers = {match[1] for line in text.splitlines() if (match := _HEADER.match(line.strip()))}
    return any(name.endswith("_params") for name in headers) or bool(re.search(r"^(model_name|gpu_list):", text, re.M))


def read_tipc(path: Path) -> TipcConfig:
    """Reads one config file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the config {path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path} has {len(content):,} bytes; a config has a few thousand: is this the right file?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}, line {line}: not UTF-8 text; save the config as UTF-8") from None
    return parse_tipc(text, str(path))


def parse_tipc(text: str, path: str = "config") -> TipcConfig:
    """Reads the text of a config."""
    return _Reader(text, path).read()


class _Reader:
    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.text = text
        self.notes: list[Note] = []
        self.sections: dict[str, list[Entry]] = {}
        self.places: dict[int, int] = {}
        """Number of a line -> its number for the shell scripts, which do not see empty lines."""

    def read(self) -> TipcConfig:
        self._split()
        main = [entry for name in _MAIN_SECTIONS for entry in self.sections.get(name, [])]
        if not main or "train_params" not in self.sections:
            self._refuse_other()
        parts = self._cut(main)
        form = self._form(parts)
        entries, trainers, exports = self._assign(parts, form)
        self._compare_places(entries, trainers, form)
        blocks = {name: {one.key: one for one in self.sections[name]} for name in _BLOCKS if name in self.sections}
        self._colons([*main, *(one for block in blocks.values() for one in block.values())])
        notes = tuple(sorted(self.notes, key=lambda note: note.line))
        kind = SHORT if form is _SHORT else LONG
        return TipcConfig(self.path, kind, entries, trainers, exports, blocks, notes)

    # Lines.

    def _split(self) -> None:
        if "\r" in self.text:
            self._note(
                self.text[: self.text.index("\r")].count("\n") + 1, "Windows line ends; read as if there were none"
            )
        section = ""
        place = 0
        for number, raw in enumerate(self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
            line = raw.strip()
            place += bool(line)
            self.places[number] = place
            if not line or _SEPARATOR.match(line):
                continue
            if header := _HEADER.match(line):
                section = header[1]
                self.sections.setdefault(section, [])
            elif line.startswith("#"):
                self._note(number, "a comment; left out")
            else:
                section = section or self._no_title(number)
                self.sections[section].append(self._entry(line, number))

    def _no_title(self, number: int) -> str:
        self._note(number, "no title ===train_params=== above it; taken for the training")
        self.sections["train_params"] = []
        return "train_params"

    def _entry(self, line: str, number: int) -> Entry:
        key, colon, value = line.partition(":")
        if not colon:
            raise self._error(number, f"{line!r} is neither key:value, nor ##, nor a ===title===")
        return Entry(key.strip(), value.strip(), number)

    def _colons(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if ":" in entry.value:
                cut = entry.value.partition(":")[0]
                self._note(entry.line, f"the value holds a colon and is kept whole; TIPC's scripts cut it to {cut!r}")

    # Which line is which.

    def _cut(self, main: Sequence[Entry]) -> dict[str, list[Entry]]:
        """The lines between those that are named alike in every config, by the name before them."""
        anchors = ("model_name", "python", "gpu_list", "train_model_name", "trainer", "eval", "norm_export",
                   "infer_model", "infer_export", "inference")  # fmt: skip
        position = {"infer_model": ("infer_model", "train_model")}
        found: dict[str, int] = {}
        start = 0
        for anchor in anchors:
            names = position.get(anchor, (anchor,))
            at = next((index for index in range(start, len(main)) if main[index].key in names), None)
            if at is None:
                raise self._missing(names, main, start)
            found[anchor] = at
            start = at + 1
        ends = [*list(found.values())[1:], len(main)]
        self._refuse_twice(main, names=("model_name", "gpu_list", "train_model_name", "trainer", "eval", "inference"))
        return {anchor: list(main[at:end]) for (anchor, at), end in zip(found.items(), ends, strict=True)}

    def _missing(self, names: Sequence[str], main: Sequence[Entry], start: int) -> UsageError:
        wanted = " or ".join(f"{name}:" for name in names)
        earlier = next((entry for entry in main[:start] if entry.key in names), None)
        if earlier is not None:
            return self._error(earlier.line, f"{earlier.key} stands before lines that it must follow")
        near = main[start - 1] if start else main[0]
        return self._error(near.line, f"no line {wanted} from here on; a config of TIPC has one")

    def _refuse_twice(self, main: Sequence[Entry], names: Sequence[str]) -> None:
        for name in names:
            lines = [entry.line for entry in main if entry.key == name]
            if len(lines) > 1:
                raise self._error(lines[1], f"{name} stands here and in line {lines[0]}; keep one")

    def _form(self, parts: Mapping[str, list[Entry]]) -> _Form:
        """The form is told by how many lines follow ``gpu_list``."""
        between = len(parts["gpu_list"]) - 1
        for form in (_SHORT, _LONG):
            if between == len(form.before_checkpoint):
                return form
        wanted = "; ".join(
            f"{len(form.before_checkpoint)} in the {form.length}-line form ({', '.join(form.before_checkpoint)})"
            for form in (_SHORT, _LONG)
        )
        line = parts["train_model_name"][0].line
        raise self._error(line, f"{between} lines between gpu_list and train_model_name; expected are {wanted}")

    def _assign(
        self, parts: Mapping[str, list[Entry]], form: _Form
    ) -> tuple[dict[str, Entry], tuple[Entry, ...], tuple[Entry, ...]]:
        entries = {anchor: part[0] for anchor, part in parts.items()}
        self._name(entries, parts["gpu_list"], form.before_checkpoint, form)
        self._name(entries, parts["train_model_name"], form.before_trainer, form)
        self._name(
            entries, _without_spare(parts["inference"], len(form.after_inference) + 1), form.after_inference, form
        )
        trainers = parts["trainer"][1:]
        if all(entry.key == "null" for entry in trainers):
            raise self._error(
                entries["trainer"].line, "no line with a training command follows, like norm_train:train.py"
            )
        tail = parts["eval"][1:]
        self._name(entries, [entries["eval"], *tail], (*form.after_eval, "save_inference", "weights"), form)
        exports = self._exports(entries, parts["norm_export"], form)
        self._quant(entries, parts["infer_export"], form)
        for name in ("python", "model_name", "infer_model"):
            self._alone(parts[name])
        return entries, tuple(trainers), exports

    def _name(self, entries: dict[str, Entry], part: Sequence[Entry], roles: Sequence[str], form: _Form) -> None:
        """Gives the lines that follow the first of a part their meanings, in order."""
        first, *rest = part
        if len(rest) != len(roles):
            line = rest[min(len(rest), len(roles)) - 1].line if rest else first.line
            raise self._error(
                line,
                f"{len(rest)} lines follow {first.key}: in line {first.line}; the {form.length}-line form has "
                f"{len(roles)} ({', '.join(roles)})",
            )
        entries.update(self._by_key(roles, rest))

    def _by_key(self, roles: Sequence[str], lines: Sequence[Entry]) -> dict[str, Entry]:
        """Lines in another order than usual are told by words in their keys, the others keep theirs."""
        hinted: dict[str, Entry] = {}
        for role, entry in zip(roles, lines, strict=True):
            meant = [name for name in roles if name in _HINTS and re.search(_HINTS[name], entry.key, re.I)]
            if role not in meant and len(meant) == 1 and meant[0] not in hinted:
                hinted[meant[0]] = entry
        # Only lines that have changed places: what one was taken for, another must be.
        usual = dict(zip(roles, lines, strict=True))
        if not hinted or {entry.line for entry in hinted.values()} != {usual[role].line for role in hinted}:
            return usual
        for role, entry in hinted.items():
            self._note(entry.line, f"{entry.key}: is in the place of {usual[role].key}:; told by its key")
        return {**usual, **hinted}

    def _exports(self, entries: dict[str, Entry], part: list[Entry], form: _Form) -> tuple[Entry, ...]:
        exports = part[: 1 + len(form.before_model)]
        for entry in part[len(exports) :]:
            if entry.key == "inference_dir" and form is _LONG:
                entries["inference_dir"] = entry
            else:
                self._note(entry.line, f"{entry.key}: is not used")
        if len(exports) - 1 != len(form.before_model):
            wanted = ", ".join(("norm_export", *form.before_model))
            raise self._error(exports[-1].line, f"{len(exports)} lines of exports; the form has {wanted}")
        return tuple(exports)

    def _quant(self, entries: dict[str, Entry], part: list[Entry], form: _Form) -> None:
        rest = part[1:]
        if form is _LONG:
            if len(rest) != 1 or rest[0].key != "infer_quant":
                raise self._error(
                    part[-1].line, "infer_quant: must follow infer_export: and nothing else before inference:"
                )
            entries["infer_quant"] = rest[0]
        elif rest:
            raise self._error(rest[0].line, f"{rest[0].key}: is not known between infer_export: and inference:")

    def _alone(self, part: Sequence[Entry]) -> None:
        if len(part) > 1:
            raise self._error(part[1].line, f"{part[1].key}: is not known after {part[0].key}:")

    # What the shell scripts would have done.

    def _compare_places(self, entries: Mapping[str, Entry], trainers: Sequence[Entry], form: _Form) -> None:
        named = {**entries, "trainer command": trainers[0]}
        for role, position in sorted(form.positions.items(), key=lambda item: item[1]):
            entry = named[role]
            place = self.places[entry.line]
            if place != position:
                text = (
                    f"found by its key; TIPC's scripts, which look for it in line {position}, would read another line"
                )
                self._note(entry.line, f"{entry.key}: {text}")
                return

    def _refuse_other(self) -> None:
        for name, words in _OTHER_TESTERS.items():
            if name in self.sections:
                raise UsageError(f"{self.path} is a config for the tester of {words}, not for training and inference")
        raise UsageError(
            f"{self.path} is no config of TIPC: no section ===train_params=== with lines like model_name:my_model"
        )

    def _note(self, line: int, message: str) -> None:
        self.notes.append(Note(line, message))

    def _error(self, line: int, message: str) -> UsageError:
        return UsageError(f"{self.path}, line {line}: {message}")


def _without_spare(part: list[Entry], wanted: int) -> list[Entry]:
    """Without the lines ``null:null`` at the end that the form has no use for."""
    while len(part) > wanted and (part[-1].key, part[-1].value) == ("null", "null"):
        part = part[:-1]
    return part


def by_mode(entry: Entry) -> Iterator[tuple[str, str]]:
    """The values of a line like ``lite_train_lite_infer=5|whole_train_whole_infer=90``; the mode of a value that names
    none is empty."""
    for part in entry.values:
        mode, equals, value = part.partition("=")
        yield (mode.strip(), value.strip()) if equals else ("", part)
