"""Looks into a compiled graph after the fact: are its recorded outputs what its nodes give, and if not, which few nodes
does the compiler make wrong?

A piece is a range of nodes. It is compiled anew, from the values that the nodes before it give when they are run one by
one, and compared with its own nodes run one by one. From the whole graph the end is brought forward as far as the piece
stays wrong, then the beginning back; then nodes are taken out one at a time. What is left is what the compiler gets
wrong. The stages of the compiler are told apart by compiling the piece with less and less of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from trueline.frameworks.torch.graph_building import Piece, whole
from trueline.frameworks.torch.graph_trial import GRADIENT, Compiling, Court, Judged, Values, compiling
from trueline.frameworks.torch.rebuild import Unreplayable
from trueline.graphs import Graph, Node, references


def passes_of_inductor(module: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that does all that inductor does to graphs, and runs them as they are instead of generating code."""
    from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
    from torch._dynamo.utils import detect_fake_mode
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.virtualized import V

    def run(graph: torch.fx.GraphModule, examples: Any, **_: Any) -> Any:
        with V.set_fake_mode(detect_fake_mode(examples)):
            post_grad_passes(graph, is_inference=not torch.is_grad_enabled())
        graph.recompile()
        return make_boxed_func(graph.forward)

    return compile_fx(module, inputs, inner_compile=run)


STAGES: tuple[tuple[Any, str], ...] = (
    ("aot_eager", "the graphs of forward and backward that autograd makes of it (AOTAutograd)"),
    ("aot_eager_decomp_partition", "the decomposition into simpler operators, or the partition into both directions"),
    (passes_of_inductor, "inductor's passes over the graph"),
)
"""Backends that do a part of what inductor does, with what it is that goes wrong where they already do."""
GENERATED = "the code that inductor generates"
_KERNEL = re.compile(r"\b((?:cpp|triton)_[a-z]*_?fused_\w+|(?:triton|cpp)_(?:poi|per|red|tem)_\w+)\b")
_GREEDY_LIMIT = 24
"""Pieces of more nodes are not taken apart one node at a time."""


@dataclass
class Inside:
    """What was found in one graph. ``piece`` are the nodes that the compiler gets wrong, where they were found;
    ``stage`` says where in the compiler; ``again`` says whether the fault shows when the graph is compiled again."""

    wrong: list[Judged] = field(default_factory=list)
    judged: int = 0
    random: int = 0
    piece: list[Node] = field(default_factory=list)
    evidence: list[Judged] = field(default_factory=list)
    stage: str = ""
    again: bool | None = None
    operators: list[str] = field(default_factory=list)
    """The operators that the compiler makes of the piece."""
    kernels: list[str] = field(default_factory=list)
    code: str = ""
    tries: int = 0
    seconds: float = 0.0
    note: str = ""
    repro: Any = None
    """What the smallest piece was tried with: see ``graph_repro``."""


@dataclass(frozen=True)
class Recorded:
    """What a Run holds of one entry into a graph: its inputs and outputs in order, what the inputs were afterwards,
    the gradients that came to the outputs, and those that left for the inputs; None where there is none, or it was not
    kept."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    after: Sequence[Any] = ()
    arrived: Sequence[torch.Tensor | None] = ()
    departed: Sequence[torch.Tensor | None] = ()


def look_inside(
    graph: Graph, recorded: Recorded, backend: Any = None, *, earlier: Recorded | None = None, seconds: float = 600.0
) -> Inside:
    """Judges one entry into a graph; where it is wrong, finds the smallest wrong piece within so many seconds.
    ``earlier`` is an entry before it: what is wrong from the second on shows only behind a first."""
    began = time.monotonic()
    found = Inside()
    court, piece = _opened(graph, recorded)
    found.wrong, found.judged = _as_recorded(court, piece, graph, recorded)
    found.seconds = time.monotonic() - began
    if not found.wrong:
        return found
    if seconds <= 0.0:
        found.note = "this graph was divided at an earlier entry"
        return found
    try:
        how = compiling(graph.how, backend)
        search = _Search(court, how, began + seconds)
        court.forward_only = any(not one.name.startswith(GRADIENT) for one in found.wrong)
        at_once = search.tried(piece)
        if not at_once and court.forward_only:
            court.forward_only = False
            at_once = search.tried(piece)
        if not at_once and earlier is not None:
            court.earlier = _opened(graph, earlier)[0]
            at_once = search.tried(piece)
        _search(search, piece, found, at_once)
    except Unreplayable as error:
        found.note = f"it was not divided: {error}"
    found.tries, found.seconds = court.tries, time.monotonic() - began
    return found


def _opened(graph: Graph, recorded: Recorded) -> tuple[Court, Piece]:
    names = [node.name for node in graph.inputs()]
    if len(names) != len(recorded.inputs):
        raise Unreplayable(f"the graph takes {len(names)} inputs, and {len(recorded.inputs)} were recorded")
    begins: Values = dict(zip(names, recorded.inputs, strict=True))
    return Court(graph, begins, recorded.arrived), whole(graph)


def _as_recorded(court: Court, piece: Piece, graph: Graph, recorded: Recorded) -> tuple[list[Judged], int]:
    """What of the recorded outputs and gradients is wrong, and how many were judged."""
    outputs: dict[str, Any] = {}
    for argument, value in zip(graph.outputs(), recorded.outputs, strict=False):
        name = next(iter(references([argument])), "")
        if name and isinstance(value, torch.Tensor):
            outputs[name] = value
    inputs = [node.name for node in graph.inputs()]
    gradients = {n: one for n, one in zip(inputs, recorded.departed, strict=False) if isinstance(one, torch.Tensor)}
    after = {n: one for n, one in zip(inputs, recorded.after, strict=False) if isinstance(one, torch.Tensor)}
    for name, value in outputs.items():  # an input that is written to and given back is recorded as given back
        after.update((given, value) for given in after if court.values[name] is court.values[given])
    judged = court.judged(piece, court.recorded(outputs, after, gradients))
    return [one for one in judged if one.wrong], len(judged)


@dataclass
class _Search:
    court: Court
    how: Compiling
    until: float

    def wrong(self, names: Sequence[str], how: Compiling | None = None) -> list[Judged]:
        """What a piece gives that is wrong; nothing where it cannot be compiled alone."""
        if not names or time.monotonic() > self.until:
            return []
        piece = Piece(self.court.graph, names)
        return self.tried(piece, how)

    def tried(self, piece: Piece, how: Compiling | None = None) -> list[Judged]:
        try:
            judged = self.court.judged(piece, self.court.compiled(piece, how or self.how))
        except Unreplayable:
            raise
        except Exception:  # a piece that the compiler, or the truth in float64, cannot take alone says nothing
            return []
        return [one for one in judged if one.wrong]


def _search(search: _Search, piece: Piece, found: Inside, at_once: list[Judged]) -> None:
    names = [node.name for node in piece.nodes]
    found.again = bool(at_once)
    if search.court.earlier is not None and at_once:
        found.note = "only where another entry was before it: something is kept from there"
    if not at_once:
        found.note = "compiled again it is right: what made it wrong is not in the graph and its inputs alone"
        return
    found.evidence = at_once
    whole_way = search.how
    # The less of the compiler shows the fault, the quicker is the search.
    for backend, stage in STAGES if search.how.backend == "inductor" else ():
        less = replace(search.how, backend=backend, options={})
        if search.tried(piece, less):
            search.how, found.stage = less, stage
            break
    else:
        found.stage = GENERATED if search.how.backend == "inductor" else ""
    names = _smallest(search, names)
    smallest = Piece(search.court.graph, names)
    evidence = search.wrong(names)
    found.piece = smallest.nodes
    found.evidence = evidence or at_once
    found.repro = (search.court, smallest, search.how)
    found.operators = _operators(search)(names)
    with _generated() as code:
        search.wrong(names, whole_way)
    found.code = "\n".join(code)
    found.kernels = list(dict.fromkeys(_KERNEL.findall(found.code)))
    if time.monotonic() > search.until:
        found.note = "the time was over before the piece was as small as can be"


def _operators(search: _Search) -> Callable[[Sequence[str]], list[str]]:
    """Tells what operators a compiler finds in a piece, before and after it has taken them apart."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    seen: dict[str, None] = {}

    def note(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
        seen.update((str(one).rpartition(".")[0], None) for one in targets if isinstance(one, torch._ops.OpOverload))
        return make_boxed_func(graph.forward)

    def told(names: Sequence[str]) -> list[str]:
        for table in (None, select_decomp_table()):
            more = {} if table is None else {"decompositions": table}
            backend = aot_autograd(fw_compiler=note, bw_compiler=note, **more)
            search.wrong(names, replace(search.how, backend=backend, options={}))
        return list(seen)

    return told


def _smallest(search: _Search, names: list[str]) -> list[str]:
    end = _least(len(names), lambda count: bool(search.wrong(names[:count])))
    names = names[:end]
    keep = _least(len(names), lambda count: bool(search.wrong(names[-count:])))
    names = names[-keep:]
    if len(names) > _GREEDY_LIMIT:
        return names
    for name in list(names):
        fewer = [one for one in names if one != name]
        if fewer and search.wrong(fewer):
            names = fewer
    return names


def _least(most: int, is_wrong: Callable[[int], bool]) -> int:
    """The smallest count for which it is wrong, where it is for the largest, by halving."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if is_wrong(middle):
            high = middle
        else:
            low = middle + 1
    return high


@contextmanager
def _generated() -> Iterator[list[str]]:
    """Collects what inductor generates, by the place that torch keeps for this."""
    code: list[str] = []
    from torch._inductor.graph import GraphLowering

    before = vars(GraphLowering).get("save_output_code")
    if before is None:
        yield code
        return
    GraphLowering.save_output_code = staticmethod(code.append)  # type: ignore[method-assign, assignment]
    try:
        yield code
    finally:
        GraphLowering.save_output_code = before
