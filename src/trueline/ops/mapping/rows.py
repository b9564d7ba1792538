"""The mapping between Paddle's APIs and torch's, as rows of data.

A row says: this API of Paddle is that API of torch, with these parameters under those names::

    row("paddle.cumsum", "torch.cumsum", "x:input axis:dim dtype name-",
        'paddle.cumsum(Tensor([3, 4],"float32"), axis=1, )')

The third argument lists *Paddle's* parameters in their positional order, separated by spaces:

    x                 the same name on both sides
    x:input           Paddle's ``x`` is torch's ``input``
    x:0               torch takes it by position only, as its first argument
    *inputs           all further positional arguments, handed on by position
    axis:dim=-1       where Paddle's caller leaves it out, torch is given -1 (JSON): the two defaults differ
    shape:size|list   its value goes through the converter ``list`` (``ops.mapping.converters``); a parameter that is
                      called ``dtype`` goes through ``dtype`` by itself
    name-             means nothing for the numbers (``name``, ``use_cudnn``); left out
    out!              must be absent or None, else there is no counterpart
    out!=false        must be absent, None or false (JSON)
    +largest=true     torch is always given this; no parameter of Paddle's

Where torch has no function that does the same with the same tensors, the other side is ``composite.NAME``: a small
function with Paddle's own parameter names and Paddle's results, written with torch (``frameworks/torch/composites``);
the list then says ``x axis=…`` without renaming. ``composite.NAME_`` is the in-place form of ``composite.NAME``.

Further keywords: ``disagreement`` (why the two honestly differ, one sentence) with ``differs`` (the examples, a tuple,
on which they do; all others must agree; without it at least one of the examples must disagree), ``inverse=False`` (not
to be used from torch to Paddle), ``order`` (torch's positional order where it is not that of the list), ``like`` (for a
composite: the torch function whose facts, domains and tolerances hold for it), ``constant`` (the parameters that carry
no gradient in one of the two: labels, weights of classes), and ``needs``: which domain (``ops.domains``) drawn inputs
need, where that of the torch function does not say it, as ``parameter=domain`` separated by spaces. A domain may
refer to the call in braces::

    {num_classes}     the value of a parameter         {x.2} {x.axis}    the size of tensor ``x`` along dimension 2, or
    {x.count}         its number of elements                             along the dimension that ``axis`` says
    {x.smallest}      its smallest size                {x.items}         how many tensors a list has
    {x.2*x.3}         a product of such                {num_classes|5}   5 where the call does not say it
    {x.rank}          how many dimensions it has       {x.1<x.0/2}       the smaller one; half of one
    {cutoffs.-1}      the last number of a list        {shape.fit}       what a size must be to keep all elements

Every row is executed on both frameworks by the tests, with its own ``examples``: config lines (``formats.configs``),
whole or short. A short one begins with ``(``, leaves the API out, and writes tensors by a letter for their dtype::

    (f[3, 4], axis=1)         f float32, d float64, h float16, c complex64, z complex128, i int64, j int32, b bool
    ([f[2], f[3]], axis=0)    lists and tuples as Python writes them

What follows the closing bracket are domains for the inputs of this example alone: ``(f[3, 4]) x=normal(0,100)``.

Every module of this package whose name begins with ``rows_`` has a tuple ``ROWS``, which ``rows()`` gathers; it may
have a tuple ``FROM_TORCH`` of rows that are only used from torch to Paddle, for torch functions whose row in the other
direction needs a composite. On their Paddle side ``composite.NAME`` is one of ``frameworks/paddle/composites``.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from trueline.tree import Tree

_TORCH_WORDS = {"x": "input", "self": "input", "y": "other", "axis": "dim", "label": "target", "labels": "target",
                "logits": "input", "epsilon": "eps", "q": "query", "k": "key", "v": "value", "perm": "dims",
                "arr": "input"}  # fmt: skip
"""What Paddle's functions call differently from torch's where no row says it parameter by parameter."""


@dataclass(frozen=True, slots=True)
class Row:
    """One API of Paddle and what it is in torch; see the module's docstring for how one is written."""

    paddle: str
    torch: str
    names: Mapping[str, str]
    """Paddle's parameter -> torch's, in Paddle's positional order; dropped and forbidden ones map to an empty name."""
    defaults: Mapping[str, Tree] = field(default_factory=dict)
    fixed: Mapping[str, Tree] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    forbidden: Mapping[str, Tree] = field(default_factory=dict)
    """Parameters without a counterpart -> the one value, besides None, that they may have."""
    examples: tuple[str, ...] = ()
    disagreement: str = ""
    inverse: bool = True
    order: tuple[str, ...] = ()
    like: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    """The examples on which the two disagree, as ``disagreement`` explains."""
    drawn: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Examples with domains of their own: example -> parameter -> domain."""
    constant: tuple[str, ...] = ()
    """Paddle's parameters that carry no gradient in one of the two frameworks (labels, weights of classes)."""

    def torch_name(self, ours: str) -> str:
        """What torch calls a parameter of Paddle's; for a composite, which has Paddle's names, what torch functions
        are used to call it."""
        theirs = self.names.get(ours, "")
        if theirs and not theirs.isdigit() and not self.composite:
            return theirs
        return _TORCH_WORDS.get(ours, ours)

    @property
    def composite(self) -> bool:
        """Whether the torch side is a function of ours."""
        return self.torch.startswith("composite.")

    @property
    def operator(self) -> str:
        """The torch function whose facts hold for this API; empty where no function of torch's is like it."""
        return self.like if self.like or self.composite else self.torch


def row(paddle: str, torch: str, names: str, *examples: str, disagreement: str = "", inverse: bool = True,
        differs: tuple[str, ...] = (), order: str = "", like: str = "", needs: str = "",
        constant: str = "") -> Row:  # fmt: skip
    """A row from its short form; see the module's docstring."""
    mapped: dict[str, str] = {}
    defaults: dict[str, Tree] = {}
    fixed: dict[str, Tree] = {}
    values: dict[str, str] = {}
    forbidden: dict[str, Tree] = {}
    dropped: list[str] = []
    for text in names.split():
        head, given, default = text.partition("=")
        head, _, converter = head.partition("|")
        if head.startswith("+"):
            fixed[head[1:]] = json.loads(default)
        elif head.endswith("-"):
            mapped[head[:-1]] = ""
            dropped.append(head[:-1])
        elif head.endswith("!"):
            mapped[head[:-1]] = ""
            forbidden[head[:-1]] = json.loads(default) if given else None
        else:
            ours, renamed, theirs = head.partition(":")
            mapped[ours] = theirs if renamed else ours
            if given:
                defaults[ours] = json.loads(default)
            if converter or ours == "dtype":
                values[ours] = converter or "dtype"
    lines, different = (tuple(_expanded(paddle, _bare(text)) for text in texts) for texts in (examples, differs))
    own = {_expanded(paddle, _bare(text)): text[len(_bare(text)) :].split() for text in (*examples, *differs)}
    wanted = dict(_split_need(text) for text in needs.split())
    return Row(paddle, torch, mapped, defaults, fixed, values, tuple(dropped), forbidden, lines, disagreement,
               inverse and not torch.startswith("composite."), tuple(order.split()), like, wanted,
               different, {line: dict(map(_split_need, texts)) for line, texts in own.items() if texts},
               tuple(constant.split()))  # fmt: skip


_LETTERS = {"f": "float32", "d": "float64", "h": "float16", "c": "complex64", "z": "complex128", "i": "int64",
            "j": "int32", "b": "bool"}  # fmt: skip
_SHORT_TENSOR = re.compile(r"(?<![\w\"])([a-z])\[([\d, ]*)\]")
_OWN_DOMAINS = re.compile(r"(?<=\))(?: \w+=(?:[a-z_0-9]+(?:\([^()]*\))?)+)+$")
_OPENING = re.compile(r"(?<![\w\"\]])(Tensor\(\[[^)]*\)|\"[^\"]*\"|[\[(])")


def _expanded(api: str, text: str) -> str:
    """The config line of an example that was written short."""
    if not text.startswith("("):
        return text
    text = _SHORT_TENSOR.sub(lambda match: f'Tensor([{match[2]}],"{_LETTERS[match[1]]}")', text[1:])
    words = {"[": "list[", "(": "tuple("}
    return f"{api}({_OPENING.sub(lambda match: words.get(match[1], match[1]), text)}"


def _bare(text: str) -> str:
    """An example without the domains that may follow it."""
    return _OWN_DOMAINS.sub("", text)


def _split_need(text: str) -> tuple[str, str]:
    name, _, domain = text.partition("=")
    return name, domain


def aliases(base: Row, names: Sequence[str], **changes: Any) -> tuple[Row, ...]:
    """The same row under other names of Paddle's; the examples are those of the base, under the new name."""
    return tuple(renamed(base, name, **changes) for name in names)


def renamed(base: Row, paddle: str, torch: str | None = None, inverse: bool = False) -> Row:
    """A row for another name of the same function (``paddle.Tensor.add`` from ``paddle.add``)."""
    examples, differs = (
        tuple(paddle + text[text.index("(") :] for text in texts) for texts in (base.examples, base.differs)
    )
    return Row(paddle, torch or base.torch, base.names, base.defaults, base.fixed, base.values, base.dropped,
               base.forbidden, examples, base.disagreement, inverse, base.order, base.like, base.needs,
               differs, {paddle + line[line.index("(") :]: domains for line, domains in base.drawn.items()},
               base.constant)  # fmt: skip


def _modules() -> Iterator[ModuleType]:
    import trueline.ops.mapping as package

    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        if name.startswith("rows_"):
            yield import_module(f"{package.__name__}.{name}")


@lru_cache(maxsize=1)
def rows() -> Mapping[str, Row]:
    """All rows by Paddle's name."""
    found: dict[str, Row] = {}
    for module in _modules():
        for one in module.ROWS:
            if one.paddle in found:
                raise ValueError(f"{one.paddle} has two rows, the second in {module.__name__}")
            found[one.paddle] = one
    return found


def rows_from_torch() -> tuple[Row, ...]:
    """The rows that are only used from torch to Paddle."""
    return tuple(one for module in _modules() for one in getattr(module, "FROM_TORCH", ()))


def row_for(api: str) -> Row | None:
    """The row of a Paddle API; None where it is not mapped."""
    return rows().get(api)


@lru_cache(maxsize=1)
def _by_torch() -> Mapping[str, tuple[Row, ...]]:
    found: dict[str, tuple[Row, ...]] = {}
    for one in (*rows_from_torch(), *rows().values()):
        if one.inverse:
            found[one.torch] = (*found.get(one.torch, ()), one)
    return found


def torch_rows(api: str) -> tuple[Row, ...]:
    """The rows that may be used from a torch API to Paddle, those first that were written for it."""
    return _by_torch().get(api, ())


def disagreements() -> tuple[Row, ...]:
    """The rows in which the two frameworks honestly differ, with the reason in each."""
    return tuple(one for one in rows().values() if one.disagreement)
