"""Tries a piece of a recorded graph: what a compiler makes of it, against the same nodes one by one.

Four ways start from the same values: compiled; eager in the region's own precision (what an honest implementation
gives); in float64 (the truth); and in float64 from values moved by one rounding (what the mathematics makes of a
rounding). Gradients are compared as values are. What is random differs between two eager runs and is not judged.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trueline.frameworks.torch.compiler import BACKENDS
from trueline.frameworks.torch.graph_building import Piece, run_nodes
from trueline.frameworks.torch.rebuild import Unreplayable, torch_dtype, widened
from trueline.graphs import Graph

MARGIN = 4.0
"""How many times worse than honest rounding, and than what the mathematics makes of one, a result may be."""
_PEAK_FLOOR = 4.0
"""Roundings, of the largest element, that a single element may be off for honest reasons."""

GRADIENT = "gradient of "
AFTERWARDS = " afterwards"
"""How what is judged is named, besides values: ``gradient of x``, and ``x afterwards`` for what is written to."""

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """One value of a piece, or one gradient: how far the candidate is from the truth, and what is honest; in the norm,
    and for the worst element in units of the largest."""

    name: str
    error: float
    honest: float
    peak: float
    honest_peak: float
    wrong: bool


@dataclass
class Gave:
    """What one way gave: values and gradients, flat in float64, by name."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiling:
    """How pieces are compiled: a backend, and the settings that were recorded."""

    backend: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dynamic: bool | None = None

    @property
    def name(self) -> str:
        return self.backend if isinstance(self.backend, str) else str(getattr(self.backend, "__name__", self.backend))

    def compiled(self, piece: Piece) -> Callable[..., Any]:
        torch._dynamo.reset()
        options = dict(self.options) if self.backend == "inductor" and self.options else None
        made: Any = torch.compile(piece.module(), backend=self.backend, options=options, dynamic=self.dynamic)
        return made  # type: ignore[no-any-return]


@contextlib.contextmanager
def as_configured(how: Compiling) -> Iterator[None]:
    """The compiler's settings as they were recorded, and none of its caches: what is compiled is compiled now."""
    import torch._functorch.config
    import torch._inductor.config

    places: dict[str, Any] = {"inductor": torch._inductor.config, "functorch": torch._functorch.config}
    fresh = {
        "inductor": {"fx_graph_cache": False, "fx_graph_remote_cache": False},
        "functorch": {"enable_autograd_cache": False},
    }
    with contextlib.ExitStack() as stack:
        for name, place in places.items():
            wanted = {**how.settings.get(name, {}), **fresh[name]}
            known = {key: value for key, value in wanted.items() if key in place._config}
            stack.enter_context(place.patch(known))
        yield


def compiling(how: Mapping[str, Any], backend: Any = None) -> Compiling:
    """The recorded way to compile; a backend that is not torch's own must be given."""
    name = backend if backend is not None else how.get("backend")
    if isinstance(name, str) and name not in BACKENDS:
        raise Unreplayable(f"its backend {name!r} is none of torch's own: name it with --backend MODULE:NAME")
    settings = {place: _plain(values) for place, values in dict(how.get("settings") or {}).items()}
    return Compiling(name, _plain(how.get("options")), settings, how.get("dynamic"))


def _plain(settings: Any) -> dict[str, Any]:
    """Settings from a file: truths and numbers, never text, which may be a path or a command."""
    found = settings if isinstance(settings, Mapping) else {}
    return {str(name): value for name, value in found.items() if isinstance(value, bool | int | float)}


class Court:
    """Tries pieces of one graph from the values with which a recorded call began."""

    def __init__(
        self, graph: Graph, begins: Values, gradients: Sequence[torch.Tensor | None], earlier: Court | None = None
    ) -> None:
        self.graph = graph
        self._begins = begins
        self.earlier = earlier
        """An entry before this one, with which what is compiled is called first, where that matters."""
        self.forward_only = False
        """Whether pieces are tried without their backward."""
        self.tries = 0
        self.values = dict(begins)
        """What every node gave, eager and in the region's own precision."""
        self.cotangents: dict[str, torch.Tensor] = {}
        with self._ambient(lowered=True):
            torch.manual_seed(0)
            copies = {name: _copy(value) for name, value in begins.items()}
            self.values = dict(copies)
            run_nodes(graph.nodes, self.values, wide=False)
        self._find_cotangents(gradients)

    def _find_cotangents(self, gradients: Sequence[torch.Tensor | None]) -> None:
        """The gradient of every value, from those that the recorded backward began with."""
        from trueline.graphs import references

        outputs = [list(references([one])) for one in self.graph.outputs()]
        pairs = [
            (self.values[names[0]], gradient, names[0])
            for names, gradient in zip(outputs, gradients, strict=False)
            if gradient is not None and names and _wants(self.values.get(names[0]))
        ]
        if not pairs:
            return
        inner = {name: value for name, value in self.values.items() if _wants(value)}
        found = torch.autograd.grad(
            [value for value, _, _ in pairs],
            list(inner.values()),
            [gradient.to(value.dtype).reshape(value.shape) for value, gradient, _ in pairs],
            allow_unused=True,
            retain_graph=True,
        )
        self.cotangents = {name: one for name, one in zip(inner, found, strict=True) if one is not None}
        self.cotangents.update({name: gradient for _, gradient, name in pairs if name not in self.cotangents})

    @contextlib.contextmanager
    def _ambient(self, *, lowered: bool) -> Iterator[None]:
        """The modes in which the graph ran; autocast where it is ``lowered``."""
        with contextlib.ExitStack() as stack:
            wanted = bool(self.graph.how.get("grad", True)) and not self.forward_only
            stack.enter_context(torch.set_grad_enabled(wanted))
            for device, dtype in dict(self.graph.how.get("autocast") or {}).items() if lowered else ():
                stack.enter_context(torch.autocast(str(device), torch_dtype(str(dtype))))
            yield

    # Ways

    def honest(self, piece: Piece, seed: int = 0) -> Gave:
        with self._ambient(lowered=True):
            torch.manual_seed(seed)
            return self._gave(piece, self._eager(piece, wide=False), wide=False)

    def gold(self, piece: Piece, *, moved: bool = False) -> Gave:
        with self._ambient(lowered=False):
            torch.manual_seed(0)
            return self._gave(piece, self._eager(piece, wide=True), wide=True, moved=moved)

    def compiled(self, piece: Piece, how: Compiling) -> Gave:
        self.tries += 1
        with as_configured(how), self._ambient(lowered=True):
            torch.manual_seed(0)
            function = how.compiled(piece)

            def run(given: Values) -> Values:
                return dict(zip(piece.gives, _listed(function(*given.values())), strict=True))

            if self.earlier is not None:
                self.earlier._gave(piece, run, wide=False)
            return self._gave(piece, run, wide=False)

    def recorded(self, outputs: Mapping[str, Any], after: Mapping[str, Any], gradients: Mapping[str, Any]) -> Gave:
        """What a Run holds of an entry, as what one way gave."""
        found = Gave()
        for name, value in after.items():
            _add(found, name + AFTERWARDS, value)
        for name, value in outputs.items():
            _add(found, name, value)
        for name, value in gradients.items():
            _add(found, GRADIENT + name, value)
        return found

    def _eager(self, piece: Piece, *, wide: bool) -> Callable[[Values], Values]:
        def run(given: Values) -> Values:
            values = dict(given)
            run_nodes([*piece.constants, *piece.nodes], values, wide=wide)
            return {name: values[name] for name in piece.gives}

        return run

    def _gave(self, piece: Piece, run: Callable[[Values], Values], *, wide: bool, moved: bool = False) -> Gave:
        given = {name: _entered(self.values[name] if name not in self._begins else self._begins[name],
                                self.values[name], wide=wide, moved=moved) for name in piece.begins}  # fmt: skip
        made = run(given)
        found = Gave()
        for name, value in made.items():
            _add(found, name, value)
        for name, value in given.items():
            _add(found, name + AFTERWARDS, value)
        leaves = {name: value for name, value in given.items() if _wants(value)}
        ends = [(made[name], self.cotangents[name]) for name in piece.gives
                if name in self.cotangents and _wants(made.get(name))]  # fmt: skip
        if leaves and ends:
            gradients = torch.autograd.grad(
                [value for value, _ in ends],
                list(leaves.values()),
                [one.to(value.dtype).reshape(value.shape) for value, one in ends],
                allow_unused=True,
            )
            for name, gradient in zip(leaves, gradients, strict=True):
                if gradient is not None:
                    _add(found, GRADIENT + name, gradient)
        return found

    # Judging

    def judged(self, piece: Piece, candidate: Gave) -> list[Judged]:
        """Every value and gradient that the candidate gave, judged."""
        honest, again = self.honest(piece), self.honest(piece, seed=1)
        gold, moved = self.gold(piece), self.gold(piece, moved=True)
        found = []
        for name, value in candidate.values.items():
            ways = [way.values.get(name) for way in (honest, again, gold, moved)]
            if any(one is None or one.numel() != value.numel() for one in ways):
                continue
            if not _same(ways[0], ways[1]):  # it is random
                continue
            if name.endswith(AFTERWARDS) and _same(value, ways[0]):  # most inputs are not changed
                continue
            found.append(_judge(name, value, candidate.dtypes[name], *(ways[at] for at in (0, 2, 3))))
        return found


def _judge(name: str, value: Any, dtype: torch.dtype, honest: Any, gold: Any, moved: Any) -> Judged:
    unit = torch.finfo(dtype).eps / 2 if dtype.is_floating_point or dtype.is_complex else 0.0
    error, peak = _apart(value, gold)
    honest_error, honest_peak = (max(pair) for pair in zip(_apart(honest, gold), _apart(moved, gold), strict=True))
    allowed, allowed_peak = MARGIN * max(honest_error, unit), MARGIN * max(honest_peak, _PEAK_FLOOR * unit)
    return Judged(name, error, honest_error, peak, honest_peak, error > allowed or peak > allowed_peak)


def _apart(one: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """How far a value is from the truth: in the norm, and the worst element in units of the largest."""
    finite = torch.isfinite(one) & torch.isfinite(truth)
    odd = ~finite & ~((one == truth) | (one.isnan() & truth.isnan()))
    if bool(odd.any()):
        return math.inf, math.inf
    off, size = (one - truth)[finite], truth[finite]
    if off.numel() == 0 or float(off.abs().max()) == 0.0:
        return 0.0, 0.0
    largest = float(size.abs().max())
    if largest == 0.0:
        return math.inf, math.inf
    return float(off.norm() / size.norm()), float(off.abs().max()) / largest


def _same(one: Any, other: Any) -> bool:
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _add(found: Gave, name: str, value: Any) -> None:
    parts = value if isinstance(value, list | tuple) else (value,)
    for number, part in enumerate(parts):
        if isinstance(part, torch.Tensor):
            key = name if part is value else f"{name}[{number}]"
            whole = part.detach()
            found.dtypes[key] = whole.dtype
            wide = torch.view_as_real(whole.resolve_conj()) if whole.is_complex() else whole
            found.values[key] = wide.to(torch.float64).reshape(-1).cpu()


def _wants(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _entered(value: Any, like: Any, *, wide: bool, moved: bool) -> Any:
    """A value with which a piece begins, of its own memory."""
    if isinstance(value, list | tuple):
        return type(value)(_entered(one, one, wide=wide, moved=moved) for one in value)
    if not isinstance(value, torch.Tensor):
        return value
    made = value.detach().clone()
    if wide:
        if moved and made.is_floating_point():
            signs = torch.ones_like(made).reshape(-1)
            signs[1::2] = -1
            made = made.to(torch.float64) * (1 + signs.reshape(made.shape).double() * torch.finfo(made.dtype).eps / 2)
        made = made.to(widened(made.dtype))
    return made.requires_grad_(_wants(like))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)
