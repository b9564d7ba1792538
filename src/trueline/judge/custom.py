"""Standards of the user: limits in a TOML file, or a function.

A file holds rules. For each tensor the rules apply whose ``api``, ``dtype`` and ``part`` match it, and every limit of
each of them counts; the worst decides. A tensor for which no rule matches is NOT_COMPARED.

    name = "our limits"                       # optional; the name of the file else

    [[rule]]
    api = "torch.nn.functional.*"             # a glob on the API, or a list of globs; every API where it is left out
    dtype = ["float16", "bfloat16"]           # a glob or a list; every dtype where it is left out
    part = "gradient"                         # "output" or "gradient"; both where it is left out
    fail = { "gold.max_ulp" = 8, "gold.cosine" = { below = 0.9999 } }
    warn = { "gold.max_ulp" = 2 }

A limit is written ``number = limit`` where more than the limit is wrong, or ``number = { above = x, below = y }``.
Numbers are those of ``gold`` (candidate against gold), ``honest`` (honest implementation against gold) and ``direct``
(candidate against honest): ``gold.max_abs``, ``direct.cosine`` and every other field of a Measurement, the shares of
``within`` as ``gold.within_1e-4``, ``gold.within_1e-3``, ``gold.within_5e-3`` and ``gold.within_1e-2``; and
``numbers.NAME`` for whatever else was taken of the tensor. ``"gold.rmse / honest.rmse" = 3`` limits a ratio. A number
that a tensor does not have makes it NOT_COMPARED; NaN is beyond any limit.

A function, given as ``module:function`` and found from the current folder, is called with the Evidence and the Case of
each measured tensor and answers a TensorFinding or a tuple (verdict, reason) or (verdict, reason, score), where the
verdict is a Verdict or its name.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

from trueline.cases import Case, Evidence, TensorFinding
from trueline.checked import Unfit, text_of
from trueline.errors import UsageError
from trueline.judge.findings import not_compared
from trueline.records import Measurement, Verdict

_WITHIN = {"within_1e-4": 0, "within_1e-3": 1, "within_5e-3": 2, "within_1e-2": 3}
_SIDES = ("gold", "honest", "direct")
_FIELDS = frozenset({field.name for field in fields(Measurement)} - {"within"}) | _WITHIN.keys()
_LEVELS = {"fail": Verdict.FAIL, "warn": Verdict.WARN}
_RULE_KEYS = ("api", "dtype", "part", "fail", "warn")


@dataclass(frozen=True)
class Limit:
    """One number, or a ratio of two, with what it must not be above or below."""

    number: str
    verdict: Verdict
    above: float | None = None
    below: float | None = None

    def finding(self, evidence: Evidence) -> TensorFinding:
        """What this limit says of a tensor."""
        value = _value(evidence, self.number)
        if value is None:
            return not_compared(evidence, f"{self.number} was not taken of this tensor")
        words = f"{self.number} is {value:.4g}"
        if self.above is not None and not value <= self.above:
            return TensorFinding(evidence, self.verdict, f"{words}, limit {self.above:g}", self._score(value))
        if self.below is not None and not value >= self.below:
            return TensorFinding(evidence, self.verdict, f"{words}, at least {self.below:g} is asked for", None)
        return TensorFinding(evidence, Verdict.PASS, words, self._score(value))

    def _score(self, value: float) -> float | None:
        if self.above is None or self.verdict is not Verdict.FAIL:
            return None
        if math.isnan(value) or self.above <= 0.0:
            return 0.0 if value <= self.above else math.inf
        return max(value / self.above, 0.0)


@dataclass(frozen=True)
class Rule:
    """Limits for the tensors that match."""

    api: tuple[str, ...]
    dtype: tuple[str, ...]
    part: str
    limits: tuple[Limit, ...]

    def matches(self, evidence: Evidence, case: Case) -> bool:
        return (
            any(fnmatchcase(case.api, glob) for glob in self.api)
            and any(fnmatchcase(evidence.dtype, glob) for glob in self.dtype)
            and self.part in ("", evidence.part)
        )


@dataclass(frozen=True)
class FileStandard:
    """The rules of a file."""

    name: str
    rules: tuple[Rule, ...]

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        limits = [limit for rule in self.rules if rule.matches(evidence, case) for limit in rule.limits]
        if not limits:
            return not_compared(evidence, f"no rule of {self.name} is for {case.api} in {evidence.dtype}")
        findings = [limit.finding(evidence) for limit in limits]
        worst = max(findings, key=lambda one: (one.verdict, -1.0 if one.score is None else one.score))
        score = max((one.score for one in findings if one.score is not None), default=None)
        return TensorFinding(evidence, worst.verdict, worst.reason, score)


@dataclass(frozen=True)
class FunctionStandard:
    """A function of the user."""

    name: str
    function: Callable[[Evidence, Case], Any]

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        answer = self.function(evidence, case)
        if isinstance(answer, TensorFinding):
            return answer
        try:
            verdict, reason, score = (*answer, None) if len(answer) == 2 else answer
            found = Verdict[verdict] if isinstance(verdict, str) else Verdict(verdict)
        except (TypeError, ValueError, KeyError):
            raise UsageError(
                f"the standard {self.name} answered {answer!r} for {case.api}; it must answer a TensorFinding or "
                f"(verdict, reason) or (verdict, reason, score), the verdict one of {', '.join(Verdict.__members__)}"
            ) from None
        return TensorFinding(evidence, found, str(reason), None if score is None else float(score))


def standard_from_file(path: str | os.PathLike[str]) -> FileStandard:
    """The standard of a TOML file. What is wrong in the file is told with its line."""
    file = Path(path)
    try:
        text = text_of(file)
    except Unfit as error:
        raise UsageError(f"{file}: cannot be read as a standard: {error}") from None
    return _Reader(file, text).standard()


def standard_from_function(place: str) -> FunctionStandard:
    """The standard of a function, written ``module:function``."""
    module, _, attribute = place.partition(":")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function: Any = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{place!r}: the module {module!r} cannot be imported: {error}") from None
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise UsageError(f"{place!r}: {module} has no function {attribute!r}")
    return FunctionStandard(place, function)


def _value(evidence: Evidence, number: str) -> float | None:
    """A number of the evidence by its name; None where the tensor does not have it."""
    if "/" in number:
        above, below = (_value(evidence, part.strip()) for part in number.split("/"))
        if above is None or below is None:
            return None
        return above / below if below else (0.0 if above == 0.0 else math.inf)
    side, _, name = number.partition(".")
    if side == "numbers":
        return evidence.numbers.get(name)
    measurement: Measurement | None = getattr(evidence, side)
    if measurement is None:
        return None
    return measurement.within[_WITHIN[name]] if name in _WITHIN else float(getattr(measurement, name))


def _toml(text: str, file: Path) -> dict[str, Any]:
    try:
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ImportError:
        raise UsageError(f"{file}: reading TOML needs Python 3.11 or the package tomli") from None
    try:
        found: dict[str, Any] = toml.loads(text)
    except (RecursionError, ValueError) as error:  # its message names line and column
        raise UsageError(f"{file}: not TOML: {error}") from None
    return found


class _Reader:
    """Turns the content of a file into rules, and knows where in the file things are."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._lines = file, text.splitlines()
        self._content = _toml(text, file)
        self._starts = [n for n, row in enumerate(self._lines) if re.match(r"\s*\[\[\s*rule\s*\]\]", row)]

    def standard(self) -> FileStandard:
        for key in self._content.keys() - {"name", "rule"}:
            self._fail(f"unknown key {key!r}; known: name, rule", key)
        rules = self._content.get("rule", [])
        if not isinstance(rules, list) or not rules or not all(isinstance(rule, dict) for rule in rules):
            self._fail("there is no [[rule]] in it", "rule")
        name = self._content.get("name", self._file.name)
        if not isinstance(name, str):
            self._fail("name must be a text", "name")
        return FileStandard(name, tuple(self._rule(position, rule) for position, rule in enumerate(rules)))

    def _rule(self, position: int, rule: Mapping[str, Any]) -> Rule:
        for key in rule.keys() - set(_RULE_KEYS):
            self._fail(f"unknown key {key!r} in a rule; known: {', '.join(_RULE_KEYS)}", key, position)
        part = rule.get("part", "")
        if part not in ("", "output", "gradient"):
            self._fail(f'part must be "output" or "gradient", not {part!r}', "part", position)
        limits = [limit for level in _LEVELS for limit in self._limits(rule.get(level, {}), level, position)]
        if not limits:
            self._fail('a rule without limits; write fail = { "gold.max_ulp" = 8 }', "", position)
        return Rule(self._globs(rule, "api", position), self._globs(rule, "dtype", position), part, tuple(limits))

    def _globs(self, rule: Mapping[str, Any], key: str, position: int) -> tuple[str, ...]:
        value = rule.get(key, "*")
        globs = value if isinstance(value, list) else [value]
        if not globs or not all(isinstance(glob, str) for glob in globs):
            self._fail(f"{key} must be a text or a list of texts", key, position)
        return tuple(globs)

    def _limits(self, table: Any, level: str, position: int) -> list[Limit]:
        if not isinstance(table, dict):
            self._fail(f"{level} must be a table of limits", level, position)
        return [self._limit(number, bound, level, position) for number, bound in table.items()]

    def _limit(self, number: str, bound: Any, level: str, position: int) -> Limit:
        for part in number.split("/"):
            side, _, name = part.strip().partition(".")
            if number.count("/") > 1 or not ((side == "numbers" and name) or (side in _SIDES and name in _FIELDS)):
                known = ", ".join(sorted(_FIELDS))
                self._fail(f"{number!r} is no number; write gold., honest. or direct. and one of {known}, or numbers. "
                           "and a name, in quotes, or a ratio of two", number, position)  # fmt: skip
        bounds = {"above": bound} if isinstance(bound, int | float) and not isinstance(bound, bool) else bound
        well = isinstance(bounds, dict) and bounds and bounds.keys() <= {"above", "below"}
        if not well or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in bounds.values()):
            self._fail(f"the limit of {number!r} must be a number or {{ above = x, below = y }}", number, position)
        above, below = (self._float(bounds.get(key), number, position) for key in ("above", "below"))
        return Limit(number, _LEVELS[level], above, below)

    def _float(self, value: int | float | None, number: str, position: int) -> float | None:
        try:
            return None if value is None else float(value)
        except OverflowError:
            self._fail(f"the limit of {number!r} is larger than any number", number, position)

    def _fail(self, message: str, key: str, rule: int | None = None) -> NoReturn:
        raise UsageError(f"{self._file}:{self._line(key, rule)}: {message}")

    def _line(self, key: str, rule: int | None) -> int:
        """The line where a key is written, in the rule of that number; the head of the rule where it is not found."""
        first, last = 0, len(self._lines)
        if rule is not None and rule < len(self._starts):
            first = self._starts[rule]
            last = self._starts[rule + 1] if rule + 1 < len(self._starts) else last
        for position in range(first, last):
            if key and key in self._lines[position].partition("#")[0]:
                return position + 1
        return first + 1
