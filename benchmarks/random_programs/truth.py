"""What an edit does to the numbers, measured without the tool: in the precision of the programs and in float64."""

from __future__ import annotations

import hashlib
import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from benchmarks.random_programs.programs import Program, source_of

KEEPS, CHANGES = 3.0, 30.0
"""Times the rounding of the reference within which an edit keeps, and beyond which it changes, what is given away."""
_WIDE = 2.0**-53
_FEW = 4.0
"""The least rounding of a value, in roundings of its type: what came out equal by luck is no yardstick."""
_NOISE = 1e3
"""So many roundings of float64 are none of an edit's doing."""
_ALL_NOISE = 0.5
"""A value of which rounding is so large a share is rounding alone, such as the gradient of a bias before a norm."""

Seen = dict[str, torch.Tensor]
Watcher = Callable[..., None]


@dataclass(frozen=True)
class Truth:
    """``effect``: how many times the rounding of the reference the most affected value differs."""

    kind: str
    effect: float
    where: str


def execute(program: Program, dtype: torch.dtype, *, see: Watcher, end: Watcher, autocast: bool) -> None:
    """Runs a program. Its values begin with the same numbers in every precision."""
    text = source_of(program)
    narrow = getattr(torch, program.dtype)

    def start(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        scale = 1.0 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.3
        values = _normal(f"{program.seed} {name}", shape) * scale
        return (values if len(shape) > 1 else values + 0.7).to(narrow).to(dtype)

    def parts(batch: tuple[torch.Tensor, ...], count: int) -> Any:
        return zip(*(tensor.chunk(count) for tensor in batch), strict=True)

    names = {
        "torch": torch, "F": F, "math": math, "checkpoint": checkpoint, "DTYPE": dtype, "AUTOCAST": autocast,
        "start": start, "parts": parts, "see": see, "end": end,
    }  # fmt: skip
    # The same name on both sides, as of one file before and after it was edited.
    linecache.cache["program.py"] = (len(text), None, text.splitlines(keepends=True), "program.py")
    exec(compile(text, "program.py", "exec"), names)
    shapes = [program.shape, *(program.shapes[name] for name in program.outputs)]
    batches = [
        tuple(_normal(f"{program.seed} batch {n} {k}", s).to(narrow).to(dtype) for k, s in enumerate(shapes))
        for n in range(3)
    ]
    names["train"](names["Model"](), batches)  # type: ignore[operator]


def _normal(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def observed(program: Program, *, wide: bool) -> Seen:
    """What a program gives away, by name; ``wide``: computed in float64."""
    found: Seen = {}
    step = 0

    def see(kind: str, *values: Any) -> None:
        if kind == "gradients":
            for name, parameter in values[0].named_parameters():
                if parameter.grad is not None:
                    found[f"{step} gradient {name}"] = parameter.grad.double()
        else:
            number = sum(name.startswith(f"{step} output") for name in found)
            for place, value in enumerate(values):
                found[f"{step} output {number + place}"] = value.detach().double()

    def end(model: torch.nn.Module) -> None:
        nonlocal step
        for name, parameter in model.named_parameters():
            found[f"{step} parameter {name}"] = parameter.detach().double()
        for name, buffer in model.named_buffers():
            found[f"{step} buffer {name}"] = buffer.double()
        step += 1

    dtype = torch.float64 if wide else getattr(torch, program.dtype)
    execute(program, dtype, see=see, end=end, autocast=program.autocast and not wide)
    return {name: value.clone() for name, value in found.items()}


def truth_of(reference: Program, candidate: Program) -> Truth:
    """Whether the candidate gives away something else, by measurement."""
    narrow = [observed(one, wide=False) for one in (reference, candidate)]
    wide = [observed(one, wide=True) for one in (reference, candidate)]
    if any(not bool(torch.isfinite(value).all()) for seen in (*narrow, *wide) for value in seen.values()):
        return Truth("not finite", math.nan, "")
    for name in sorted({*narrow[0], *narrow[1]}):
        one, two = narrow[0].get(name), narrow[1].get(name)
        alone = one if two is None else two if one is None else None
        if alone is not None and bool(alone.any()) and " output " not in name:
            return Truth("changes", math.inf, f"{name} on one side")
    rows = differences(reference, narrow, wide)
    if set(narrow[0]) != set(narrow[1]):  # cut into other parts, whose outputs have no counterparts
        rows = {name: row for name, row in rows.items() if " output " not in name}
    unit = _unit(reference)
    changed = {name: min(here, exact) / rounding for name, (rounding, here, exact) in rows.items()}
    worst = max(changed, key=changed.__getitem__)
    if changed[worst] > CHANGES:
        return Truth("changes", changed[worst], worst)
    same = all(
        exact <= _NOISE * rounding * _WIDE / unit
        for rounding, here, exact in rows.values()
        if rounding < _ALL_NOISE or here > KEEPS * rounding
    )
    apart = {name: here / rounding for name, (rounding, here, _) in rows.items()}
    worst = max(apart, key=apart.__getitem__)
    keeps = same and apart[worst] <= KEEPS and set(narrow[0]) == set(narrow[1])
    return Truth("keeps" if keeps else "between", apart[worst], worst)


def differences(reference: Program, narrow: list[Seen], wide: list[Seen]) -> dict[str, tuple[float, float, float]]:
    """For each value the rounding of the reference, how far apart the two programs are, and how far in float64."""
    unit = _unit(reference)
    single = observed(replace(reference, dtype="float32"), wide=False) if unit == _WIDE else None
    found = {}
    for name in narrow[0]:
        if name not in narrow[1] or name not in wide[0] or name not in wide[1]:
            continue
        if single is None:
            rounding = _apart(wide[0][name], narrow[0][name])
        else:  # what float32 rounds, so much finer
            rounding = _apart(wide[0][name], single[name]) * _WIDE / 2.0**-24
        exact = _apart(wide[0][name], wide[1][name])
        found[name] = max(rounding, _FEW * unit), _apart(narrow[0][name], narrow[1][name]), exact
    return found


def _unit(program: Program) -> float:
    if program.autocast or program.dtype == "bfloat16":
        return 2.0**-9
    return _WIDE if program.dtype == "float64" else 2.0**-24


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    if one.shape != other.shape:
        return math.inf
    size, off = float(one.norm()), float((other - one).norm())
    return off / size if size > 0.0 else (0.0 if off == 0.0 else math.inf)
