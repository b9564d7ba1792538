"""What a capture is asked to do, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trueline.capture.targets import read_targets
from trueline.errors import UsageError
from trueline.frameworks.base import Scope
from trueline.records import Data, Level

LEVELS: dict[str, frozenset[Level]] = {
    "api": frozenset({Level.API}),
    "module": frozenset({Level.MODULE}),
    "kernel": frozenset({Level.KERNEL}),
    "api+module": frozenset({Level.API, Level.MODULE}),
}


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """The options of ``capture``; see there."""

    level: str = "api"
    data: str = "stats"
    steps: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None
    apis: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    between: tuple[str, str] | None = None
    stacks: bool = True
    integers: bool = True
    backward: bool = True
    witness: bool = False
    targets: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    exit_after_last_step: bool = False
    every: int = 1

    def scope(self) -> Scope:
        return Scope(
            levels=LEVELS[self.level],
            data=Data(self.data),
            apis=self.apis,
            modules=self.modules,
            calls=self.calls,
            between=self.between,
            stacks=self.stacks,
            integers=self.integers,
            backward=self.backward,
            witness=self.witness,
            targets=self.targets,
            ignored=self.ignored,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def make_options(**given: Any) -> CaptureOptions:
    """Checks and normalises options; says which one is wrong and what would be right."""
    _one_of("level", given.get("level", "api"), LEVELS)
    _one_of("data", given.get("data", "stats"), [mode.value for mode in Data])
    for name in ("steps", "ranks"):
        given[name] = _numbers(name, given.get(name))
    for name in ("apis", "modules", "calls"):
        given[name] = _texts(name, given.get(name) or ())
    given["targets"], given["ignored"] = read_targets(_texts("targets", given.get("targets") or ()))
    every = given.get("every", 1)
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise UsageError(f"every takes a whole number from 1, the distance of recorded steps; got {every!r}")
    if given["steps"] is not None and not any(step % every == 0 for step in given["steps"]):
        raise UsageError(f"every={every} divides none of the steps that are asked for: nothing would be recorded")
    between = given.get("between")
    if between is not None:
        pair = _texts("between", between)
        if len(pair) != 2:
            raise UsageError(f"between takes two call names, the first and the last; got {between!r}")
        given["between"] = pair
    return CaptureOptions(**given)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Reads ``0,2,5-8``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            found += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise UsageError(f"{text!r} is not a list of numbers; write for example 0,2,5-8") from None
    return tuple(found)


def _one_of(name: str, value: Any, choices: Iterable[str]) -> None:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def _numbers(name: str, value: Sequence[int] | str | int | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_numbers(value)
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise UsageError(f"{name} takes whole numbers from 0; got {value!r}")
    return numbers


def _texts(name: str, value: Sequence[str] | str) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{name} takes names; got {value!r}")
    return texts
