"""Where the numbers of a generated tensor lie.

A domain is a short text: a source, then changes made to what it draws, each with numbers in brackets:

    normal                      normal(2, 0.5)             uniform(-1, 1)
    index(100)                  permutation                positive_definite
    normal zeros(0.5)           normal nan(0.02) inf(0.01)  probability ties(8)

``draw`` makes the values. Floats come back as float64 and complex numbers as complex128, still to be rounded to their
type by the caller; integers and bools come back in their own type. The same generator state gives the same values.
``domain_for`` says which domain the tensors of a captured call need.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from trueline.cases import Case
from trueline.dtypes import DType, dtype_named
from trueline.errors import UsageError
from trueline.ops.mapping.domains import constants_of
from trueline.ops.mapping.rows import row_for
from trueline.ops.needs import domain_for, is_structural
from trueline.ops.sources import SOURCES, Array, Generator, Shape

Change = Callable[..., Array]
"""(values, generator, dtype, numbers...) -> values"""

_WORD = re.compile(r"([a-z_0-9]+)(?:\(([^()]*)\))?\s*")


def draw(domain: str, generator: Generator, shape: Shape, dtype: str = "float32") -> Array:
    """Values of a domain in a shape. The type matters where the domain is stated in terms of it (``large``, ``tiny``)
    and says whether numbers, integers, bools or complex numbers are wanted."""
    kind = dtype_named(dtype)
    (name, numbers), *changes = parse(domain)
    values = SOURCES[name](generator, shape, kind, *numbers)
    if kind.is_complex and not np.iscomplexobj(values):
        real, values = values, np.empty(shape, np.complex128)
        values.real, values.imag = real, SOURCES[name](generator, shape, kind, *numbers)
    for change, more in changes:
        values = CHANGES[change](values, generator, kind, *more)
    return _typed(values, kind, shape)


def with_domains(case: Case) -> Case:
    """The Case with the domain that each of its drawn tensors needs. Integers of which nothing is known but that they
    are no index are drawn from both sides of zero; tensors that carry no gradient in one framework carry none."""
    row = row_for(case.api)
    known, constant = row is not None, constants_of(row, case.arguments) if row is not None else set()
    specs = []
    for spec in case.tensors:
        domain = domain_for(case.api, spec.path, case.arguments, case.tensors) if spec.stored is None else ""
        if not domain and known and spec.stored is None and dtype_named(spec.dtype).kind in "iu":
            domain = "normal"
        differentiable = spec.requires_grad and spec.path not in constant
        if domain != spec.domain or differentiable != spec.requires_grad:
            spec = replace(spec, domain=domain, requires_grad=differentiable)
        specs.append(spec)
    tensors = tuple(specs)
    return case if tensors == case.tensors else replace(case, tensors=tensors)


@lru_cache(maxsize=1024)
def parse(domain: str) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """The source and the changes of a domain with their numbers; ``UsageError`` where the text is not one."""
    words: list[tuple[str, tuple[float, ...]]] = []
    position = 0
    text = domain.strip() or "normal"
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise UsageError(f"{domain!r} is not a domain; write for example 'normal' or 'uniform(0, 1) zeros(0.5)'")
        words.append((match[1], _numbers(match[2], domain)))
        position = match.end()
    for place, (name, _) in enumerate(words):
        known = CHANGES if place else SOURCES
        if name not in known:
            what = "change" if place else "source"
            raise UsageError(f"{domain!r}: unknown {what} {name!r}; known: {', '.join(known)}")
    return tuple(words)


def _numbers(text: str | None, domain: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text and text.strip() else ()
    except ValueError:
        raise UsageError(f"{domain!r}: {text!r} is not a list of numbers") from None


def _typed(values: Array, kind: DType, shape: Shape) -> Array:
    values = np.asarray(values)
    if kind.kind == "b":
        return np.ascontiguousarray(values if values.dtype == bool else values > 0).reshape(shape)
    if kind.is_exact:
        wide = values if values.dtype.kind in "iub" else np.rint(values)
        limits = np.iinfo(kind.storage)
        return np.clip(wide, limits.min, limits.max).astype(kind.storage).reshape(shape)
    wanted = np.complex128 if kind.is_complex else np.float64
    return np.ascontiguousarray(values, dtype=wanted).reshape(shape)


def _sprinkle(values: Array, generator: Generator, share: float, what: float) -> Array:
    """A share of the elements replaced, at least one of them where there is any element."""
    chosen = np.asarray(generator.random(values.shape) < share)
    if chosen.size and not chosen.any():
        chosen.reshape(-1)[int(generator.integers(0, chosen.size))] = True
    return np.where(chosen, what, values)


def _nan(values: Array, generator: Generator, kind: DType, share: float = 0.05) -> Array:
    return values if kind.is_exact else _sprinkle(values, generator, share, np.nan)


def _inf(values: Array, generator: Generator, kind: DType, share: float = 0.05) -> Array:
    if kind.is_exact:
        return values
    return _sprinkle(_sprinkle(values, generator, share / 2, np.inf), generator, share / 2, -np.inf)


def _zeros(values: Array, generator: Generator, kind: DType, share: float = 0.5) -> Array:
    return _sprinkle(values, generator, share, 0)


def _ties(values: Array, generator: Generator, kind: DType, distinct: float = 5.0) -> Array:
    """Only so many different values, taken from those drawn."""
    if values.size <= distinct:
        return values
    pool = values.reshape(-1)[: int(distinct)]
    return np.asarray(pool[generator.integers(0, len(pool), values.shape)])


def _scaled(values: Array, generator: Generator, kind: DType, factor: float) -> Array:
    return values * factor


def _shifted(values: Array, generator: Generator, kind: DType, amount: float) -> Array:
    return values + amount


def _magnitude(values: Array, generator: Generator, kind: DType) -> Array:
    return np.abs(values)


CHANGES: dict[str, Change] = {
    "nan": _nan,
    "inf": _inf,
    "zeros": _zeros,
    "ties": _ties,
    "scaled": _scaled,
    "shifted": _shifted,
    "magnitude": _magnitude,
}

__all__ = ["CHANGES", "SOURCES", "domain_for", "draw", "is_structural", "parse", "with_domains"]
