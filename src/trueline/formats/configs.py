"""Config lines: one call a line, tensors by shape and dtype only, as PaddleAPITest keeps them by the hundred thousand.

    paddle.concat(tuple(Tensor([3, 4],"float32"),Tensor([1, 4],"float32"),), axis=0, )
    paddle.Tensor.__getitem__(Tensor([2, 117],"int64"), tuple(Ellipsis,slice(-1,None,None),), )
    paddle.full(list[2,3,], -math.inf, dtype=Dtype(float32), )

``parse_config`` reads a line, ``config_to_case`` makes a Case of it, ``config_line`` writes one. Nothing is evaluated:
a line that is not of this language is a ``ConfigError`` that says where it stops making sense. Calls of torch are
written alike. Two kinds of values are ours: devices, ``Place(cpu)``, and torch's names of memory formats and layouts,
``torch.channels_last``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trueline.cases import Case, TensorSpec
from trueline.dtypes import DTYPES
from trueline.errors import UsageError
from trueline.records import Call, TensorRecord
from trueline.tree import Tree, tensor_paths

_API = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\(\s*")
_VALUE = re.compile(
    r"""(?:([A-Za-z_]\w*)\s*=\s*)?(?:
      (?P<tensor>Tensor\(\s*\[([\d,\s]*)\]\s*,\s*["'](\w+)["']\s*\))
    | (?P<integer>-?\d+)(?=\s*[,)\]])
    | (?P<string>"[^"]*"|'[^']*')
    | (?P<word>True|False|None|Ellipsis|\.\.\.)(?=\s*[,)\]])
    | (?P<open>list\[|tuple\(|slice\(|complex\()
    | (?P<place>Place\(\s*([\w:]+)\s*\))
    | (?P<object>torch\.\w+)(?=\s*[,)\]])
    | (?P<dtype>(?:Dtype|VarType|type)\(\s*(?:numpy\.)?(\w+)\s*\))
    | (?P<number>[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|(?:math\.|float\(?['"])?(?:inf|nan)(?:['"]\))?)
                 (?:[-+](?:[\d.]+(?:[eE][-+]?\d+)?|inf|nan)j|j)?)(?=\s*[,)\]])
    )\s*(,?)\s*""",
    re.VERBOSE,
)
_GROUPS = _VALUE.groupindex
_SHAPE_GROUP, _DTYPE_GROUP = _GROUPS["tensor"] + 1, _GROUPS["tensor"] + 2
_TYPE_GROUP, _PLACE_GROUP = _GROUPS["dtype"] + 1, _GROUPS["place"] + 1
_COMMA_GROUP = _VALUE.groups
_CLOSE = re.compile(r"\s*(,?)\s*")
_WORDS: dict[str, Tree] = {"True": True, "False": False, "None": None}
_CLOSING = {"list[": "]", "tuple(": ")", "slice(": ")", "complex(": ")"}
_PYTHON_TYPES = {"int": "int64", "float": "float64", "bool": "bool", "complex": "complex128", "float_": "float64"}
"""What Paddle makes of Python's own types where a dtype is wanted."""
_MEMORY_FORMATS = "contiguous_format preserve_format channels_last channels_last_3d".split()
_LAYOUTS = "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc".split()
_OBJECTS = dict.fromkeys(_MEMORY_FORMATS, "torch.memory_format") | dict.fromkeys(_LAYOUTS, "torch.layout")
"""Names of torch's that are values, with the type that a tree gives them."""


MOST_LINE, MOST_VALUES, MOST_DEPTH, MOST_DIGITS = 1 << 20, 1 << 16, 50, 40
"""Characters of a line, values in it, lists in each other, digits of an integer."""
MOST_DIMENSIONS, MOST_ELEMENTS = 64, 1 << 63


class ConfigError(UsageError):
    """A config line that cannot be read; the message says where."""


@dataclass(frozen=True, slots=True)
class ConfigTensor:
    """One tensor of a line."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Config:
    """One line: the API, its arguments as a tree (``{"args": […], "kwargs": {…}}``), its tensors in order."""

    api: str
    arguments: Tree
    tensors: tuple[ConfigTensor, ...]

    @property
    def args(self) -> list[Tree]:
        return list(self.arguments["args"])

    @property
    def kwargs(self) -> dict[str, Tree]:
        return dict(self.arguments["kwargs"])


def parse_config(line: str, number: int | None = None) -> Config:
    """Reads one line; ``number`` is its line number, for the message of a ``ConfigError``."""
    if len(line) > MOST_LINE:
        raise _error(line[:200], 0, number, f"the line is longer than {MOST_LINE:,} characters")
    head = _API.match(line)
    if head is None:
        raise _error(line, 0, number, "expected the dotted name of a function and '('")
    reader = _Reader(line, head.end(), number)
    args, kwargs = reader.arguments()
    return Config(head[1], {"args": args, "kwargs": kwargs}, tuple(reader.tensors))


def parse_configs(lines: Iterable[str]) -> Iterator[tuple[int, Config | ConfigError]]:
    """Reads many lines: (line number, what it says or why it cannot be read). Empty lines and comments are skipped."""
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            yield number, parse_config(line, number)
        except ConfigError as error:
            yield number, error


class _Reader:
    """Reads the values of one line from a position on."""

    __slots__ = ("depth", "line", "number", "position", "tensors", "values")

    def __init__(self, line: str, position: int, number: int | None) -> None:
        self.line, self.position, self.number = line, position, number
        self.tensors: list[ConfigTensor] = []
        self.values = self.depth = 0

    def arguments(self) -> tuple[list[Tree], dict[str, Tree]]:
        args: list[Tree] = []
        kwargs: dict[str, Tree] = {}
        comma = True
        while not self.line.startswith(")", self.position):
            if not comma:
                raise self._error("expected ',' or ')'")
            name, value, comma = self._value()
            if name is None and kwargs:
                raise self._error("a positional argument after a named one")
            if name is None:
                args.append(value)
            elif name in kwargs:
                raise self._error(f"the argument {name} was given twice")
            else:
                kwargs[name] = value
        if self.line[self.position + 1 :].strip():
            raise self._error("something follows the closing ')'", 1)
        return args, kwargs

    def _value(self) -> tuple[str | None, Tree, bool]:
        """One value with its name, if any, and whether a comma follows it."""
        self.values += 1
        if self.values > MOST_VALUES or self.depth > MOST_DEPTH:
            raise self._error(f"more than {MOST_VALUES:,} values in a call, or {MOST_DEPTH} lists in each other")
        match = _VALUE.match(self.line, self.position)
        if match is None:
            raise self._error(self._complaint())
        kind = match.lastgroup
        start, self.position = self.position, match.end()
        comma = bool(match[_COMMA_GROUP])
        if match["tensor"]:
            return match[1], self._tensor(match[_SHAPE_GROUP], match[_DTYPE_GROUP], start), comma
        if match["integer"]:
            return match[1], self._integer(match["integer"], start), comma
        if kind == "string" or match["string"] is not None:
            return match[1], match["string"][1:-1], comma
        if match["word"]:
            return match[1], _WORDS.get(match["word"], {"$ellipsis": True}), comma
        if match["open"]:
            return match[1], *self._nested(match["open"], start)
        if match["place"]:
            return match[1], {"$device": match[_PLACE_GROUP]}, comma
        if match["object"]:
            return match[1], self._object(match["object"], start), comma
        if match["dtype"]:
            return match[1], {"$dtype": self._dtype(match[_TYPE_GROUP], start)}, comma
        return match[1], self._number(match["number"], start), comma

    def _integer(self, text: str, start: int) -> int:
        if len(text) > MOST_DIGITS:
            raise self._error(f"an integer of {len(text):,} digits", start - self.position)
        return int(text)

    def _tensor(self, sizes: str, dtype: str, start: int) -> Tree:
        if dtype not in DTYPES:
            raise self._error(f"unknown dtype {dtype!r}", start - self.position)
        try:
            shape = tuple(map(int, sizes.split(","))) if sizes.strip() else ()
        except ValueError:
            raise self._error(f"[{sizes[:60]}] is not a shape", start - self.position) from None
        if len(shape) > MOST_DIMENSIONS or math.prod(shape) > MOST_ELEMENTS:
            raise self._error("no tensor has so many dimensions or elements", start - self.position)
        self.tensors.append(ConfigTensor(shape, dtype))
        return {"$t": len(self.tensors) - 1}

    def _nested(self, opening: str, start: int) -> tuple[Tree, bool]:
        closing, items, comma = _CLOSING[opening], [], True
        self.depth += 1
        while not self.line.startswith(closing, self.position):
            if not comma:
                raise self._error(f"expected ',' or {closing!r}")
            name, value, comma = self._value()
            if name is not None:
                raise self._error(f"a name ({name}=) inside {opening}")
            items.append(value)
        after = _CLOSE.match(self.line, self.position + 1)
        assert after is not None, "the pattern matches nothing at least"
        self.position = after.end()
        self.depth -= 1
        return self._made(opening, items, start), bool(after[1])

    def _made(self, opening: str, items: list[Tree], start: int) -> Tree:
        if opening == "list[":
            return items
        if opening == "tuple(":
            return {"$tuple": items}
        if opening == "slice(":
            if not 1 <= len(items) <= 3:
                raise self._error("a slice has one to three parts", start - self.position)
            return {"$slice": [None, *items, None] if len(items) == 1 else [*items, None][:3]}
        plain = [_plain(item) for item in items]
        if len(plain) != 2 or None in plain:
            raise self._error("complex( has two numbers", start - self.position)
        return {"$complex": plain}

    def _dtype(self, name: str, start: int) -> str:
        known = _PYTHON_TYPES.get(name, name)
        if known not in DTYPES:
            raise self._error(f"unknown dtype {name!r}", start - self.position)
        return known

    def _object(self, text: str, start: int) -> Tree:
        kind = _OBJECTS.get(text.removeprefix("torch."))
        if kind is None:
            raise self._error(f"{text} is not a value that a line can hold", start - self.position)
        return {"$object": kind, "text": text}

    def _number(self, text: str, start: int) -> Tree:
        try:
            return _number(text)
        except ValueError:
            raise self._error(f"{text!r} is not a number", start - self.position) from None

    def _complaint(self) -> str:
        if self.position >= len(self.line.rstrip()):
            return "the line ends in the middle of the call"
        return f"not a value: {self.line[self.position : self.position + 30]!r}"

    def _error(self, what: str, shift: int = 0) -> ConfigError:
        return _error(self.line, self.position + shift, self.number, what)


def _number(text: str) -> Tree:
    if text.endswith("j"):
        value = complex(text)
        return {"$complex": [_plain(_float(value.real)), _plain(_float(value.imag))]}
    bare = re.sub(r"""math\.|float\(|['")]""", "", text)
    return _float(float(bare))


def _float(value: float) -> Tree:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _plain(item: Tree) -> Any:
    """A part of a complex number as a tree has it: a number, or the name of one that JSON cannot say."""
    if isinstance(item, dict):
        return item.get("$float")
    return item if isinstance(item, int | float) and not isinstance(item, bool) else None


def _error(line: str, position: int, number: int | None, what: str) -> ConfigError:
    place = f"line {number}, column {position + 1}" if number is not None else f"column {position + 1}"
    shown = line.strip()
    return ConfigError(f"{place}: {what}, in {shown if len(shown) <= 120 else shown[:117] + '...'}")


def config_to_case(config: Config, seed: int = 0, calls: tuple[str, ...] = ()) -> Case:
    """The Case of a line, which stands for ``calls``. Tensors of floating or complex numbers get gradients; what the
    numbers must be like is not said here (see ``ops.domains.with_domains``)."""
    paths = dict(tensor_paths(config.arguments))
    tensors = []
    for leaf, tensor in enumerate(config.tensors):
        if leaf not in paths:
            raise ConfigError(f"{config.api}: a tensor inside a slice cannot be executed")
        kind = DTYPES[tensor.dtype]
        differentiable = kind.is_float or kind.is_complex
        tensors.append(TensorSpec(paths[leaf], tensor.dtype, tensor.shape, requires_grad=differentiable))
    backward = any(spec.requires_grad for spec in tensors)
    return Case(config.api, config.arguments, tuple(tensors), backward=backward, seed=seed, calls=calls)


def config_line(call: Case | Call) -> str:
    """A Case, or a call of a Run, as a config line, in the form in which this module writes all lines. Strides,
    statistics and stored content have no place in one; an argument that has none is a ``ConfigError``."""
    tensors = [tensor_text(one) for one in (call.tensors if isinstance(call, Case) else call.inputs)]
    parts = [_written(value, tensors) for value in call.arguments.get("args", [])]
    parts += [f"{name}={_written(value, tensors)}" for name, value in call.arguments.get("kwargs", {}).items()]
    return f"{call.api}({''.join(part + ', ' for part in parts)})"


def tensor_text(tensor: TensorSpec | TensorRecord) -> str:
    """One tensor as it stands in a line."""
    return f'Tensor({list(tensor.shape)},"{tensor.dtype.rpartition(".")[2]}")'


def _written(tree: Tree, tensors: Sequence[str]) -> str:
    if isinstance(tree, str):
        return _quoted(tree)
    if isinstance(tree, list):
        return "list[" + "".join(_written(item, tensors) + "," for item in tree) + "]"
    if not isinstance(tree, dict):
        return repr(tree)
    if "$t" in tree:
        return _tensor_written(tree["$t"], tensors)
    if "$tuple" in tree or "$size" in tree:
        items = tree["$tuple"] if "$tuple" in tree else tree["$size"]
        return "tuple(" + "".join(_written(item, tensors) + "," for item in items) + ")"
    return _written_special(tree, tensors)


def _tensor_written(leaf: int, tensors: Sequence[str]) -> str:
    if leaf >= len(tensors):
        raise ConfigError(f"tensor {leaf} of its arguments was not recorded")
    return tensors[leaf]


def _written_special(tree: dict[str, Tree], tensors: Sequence[str]) -> str:
    if "$float" in tree:
        return _SPECIAL_FLOATS[str(float(tree["$float"]))]
    if "$complex" in tree:
        parts = (float(part) for part in tree["$complex"])
        return "complex(" + ",".join(_SPECIAL_FLOATS.get(str(part), repr(part)) for part in parts) + ")"
    if "$slice" in tree:
        if any(isinstance(part, dict) for part in tree["$slice"]):
            raise ConfigError("a config line cannot hold a tensor inside a slice")
        return "slice(" + ",".join(_written(part, tensors) for part in tree["$slice"]) + ")"
    if "$dtype" in tree:
        return f"Dtype({tree['$dtype'].rpartition('.')[2]})"
    if "$ellipsis" in tree:
        return "Ellipsis"
    if "$device" in tree:
        return f"Place({tree['$device']})"
    if _OBJECTS.get(str(tree.get("text")).removeprefix("torch.")) == tree.get("$object") is not None:
        return str(tree["text"])
    what = tree.get("$object") or tree.get("$record") or "dict"
    raise ConfigError(f"a config line cannot hold an argument of type {what}")


def _quoted(text: str) -> str:
    """A string between quotes. The language has no escapes."""
    if "\n" in text or "\r" in text or ('"' in text and "'" in text):
        raise ConfigError("a config line cannot hold a string with line breaks or with both kinds of quotes")
    return f"'{text}'" if '"' in text else f'"{text}"'


_SPECIAL_FLOATS = {"inf": "math.inf", "-inf": "-math.inf", "nan": "nan"}
