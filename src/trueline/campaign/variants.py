"""What else is made of a case on request: other draws, other layouts in memory, other shapes, other dtypes.

    for one in expand(case, Wish(draws=4, variants=("zero-size", "dtypes"), strided=True)): ...

The case itself comes first, as it was. A draw has a seed of its own, made of that of the case (which a config line gets
from its text and the seed of the campaign) and the number of the draw, and values of the kind that ``ops.values`` says.
A variant keeps the seed; its shapes or dtypes tell it apart. What cannot be made of a case is not made: bits that were
recorded have their shape, and an index needs something to point to. Whether a call accepts the rest only the frameworks
know: it ends as what it is, a case that the reference refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil, prod
from typing import Any

from trueline.cases import Case, TensorSpec
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.ops.domains import with_domains
from trueline.ops.facts import facts_of
from trueline.ops.names import canonical
from trueline.ops.needs import domain_for
from trueline.ops.values import differentiable_in_draw, takes_complex
from trueline.tree import Tree

VARIANTS = ("zero-size", "big", "dtypes")
FLOATS = ("float16", "bfloat16", "float32", "float64")
MEMORY = 128 * 2**20
"""Bytes of all inputs of a big variant, unless told otherwise; with gradients and golds in float64 about a gigabyte."""
_CROSSING = 2**31
"""Elements from which on a 32-bit index is not enough."""
_LAYOUTS = ("turned", "stepped", "expanded")
_COMPLEX_OF = {"float16": "complex64", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for beside each case. ``draws`` counts the first one; ``memory`` bounds the bytes of the inputs of
    a ``big`` variant."""

    draws: int = 1
    variants: tuple[str, ...] = ()
    strided: bool = False
    memory: int = MEMORY

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise UsageError(f"draws must be at least 1, not {self.draws}")
        if self.memory < 1:
            raise UsageError(f"the memory of big variants must be positive, not {self.memory}")
        for name in self.variants:
            if name not in VARIANTS:
                raise UsageError(f"there is no variant {name!r}; known: {', '.join(VARIANTS)}")


def expand(case: Case, wish: Wish) -> Iterator[Case]:
    """The case, then what is wished for beside it, none of it twice."""
    yield case
    if wish == _NOTHING:
        return
    seen = {case.key}
    for made in _wished(case, wish):
        if made.key not in seen:
            seen.add(made.key)
            yield made


_NOTHING = Wish()


def _wished(case: Case, wish: Wish) -> Iterator[Case]:
    for number in range(wish.draws):
        one = another_draw(case, number)
        if number:
            yield one
        if wish.strided:
            yield strided(one)
    makers = {"zero-size": zero_size, "big": lambda one: big(one, wish.memory), "dtypes": other_dtypes}
    for name in wish.variants:
        yield from makers[name](case)


def another_draw(case: Case, number: int) -> Case:
    """The case with another draw of its numbers; itself for draw 0 or where nothing of it is drawn."""
    if not number or all(spec.stored is not None for spec in case.tensors):
        return case
    digest = sha256(f"{case.seed} draw {number}".encode()).digest()
    made = replace(case, seed=int.from_bytes(digest[:8], "little") >> 1, draw=number)
    if case.backward and not differentiable_in_draw(case.api, number):
        tensors = tuple(replace(spec, requires_grad=False) for spec in case.tensors)
        made = replace(made, tensors=tensors, gradients=(), backward=False)
    return _told(made, f"draw {number}")


def strided(case: Case) -> Case:
    """The case with its tensors in memory that is not contiguous: turned, every second element, or expanded, in turn.
    Expanded are only tensors that are not written to and whose elements may be the same along a dimension. A call
    that is about memory itself stays as it is."""
    if canonical(case.api) in _ABOUT_MEMORY:
        return case
    written = _writes(case.api)
    specs = []
    for position, spec in enumerate(case.tensors):
        fixed = written or bool(spec.domain) or spec.stored is not None
        layouts = [_LAYOUTS[(position + case.draw + turn) % len(_LAYOUTS)] for turn in range(len(_LAYOUTS))]
        found = (_strides(spec.shape, layout) for layout in layouts if not (fixed and layout == "expanded"))
        specs.append(spec if spec.strides else replace(spec, strides=next((one for one in found if one), None)))
    return _told(replace(case, tensors=tuple(specs)), "strided")


_ABOUT_MEMORY = frozenset("as_strided as_strided_scatter is_contiguous stride contiguous data_ptr set resize".split())
"""What these give depends on where the elements lie."""


def _writes(api: str) -> bool:
    """Whether a call writes to an argument."""
    last = api.rpartition(".")[2]
    return facts_of(api).in_place or last == "__setitem__" or (last.startswith("__i") and last not in _NOT_IN_PLACE)


_NOT_IN_PLACE = ("__invert__", "__index__", "__int__")


def _strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...] | None:
    """Strides of a layout that differ from contiguous ones; None where there are no such."""
    wide = [place for place, size in enumerate(shape) if size > 1]
    if prod(shape) < 2 or (layout == "turned" and len(wide) < 2):
        return None
    axes = list(range(len(shape)))
    if layout == "turned":
        first, second = wide[-2:]
        axes[first], axes[second] = axes[second], axes[first]
    step = 2 if layout == "stepped" else 1
    strides = [0] * len(shape)
    for axis in reversed(axes):
        if layout == "expanded" and axis == wide[0]:
            continue
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def zero_size(case: Case) -> Iterator[Case]:
    """Each dimension of each tensor in turn without elements, and with it what must be as long in the other tensors."""
    for position, spec in enumerate(case.tensors):
        for dimension, size in enumerate(spec.shape):
            made = _resized(case, position, dimension, 0) if size else None
            if made is not None and not any(_points_nowhere(one) for one in made.tensors):
                yield _told(made, f"zero-size, dimension {dimension} of {spec.path}")


def big(case: Case, memory: int = MEMORY) -> Iterator[Case]:
    """The largest tensor grown along its largest dimension until it has more elements than 32 bits can count, or until
    all inputs together have ``memory`` bytes."""
    if not case.tensors:
        return
    position = max(range(len(case.tensors)), key=lambda place: prod(case.tensors[place].shape))
    shape = case.tensors[position].shape
    if not shape or not prod(shape):
        return
    dimension = max(range(len(shape)), key=lambda place: shape[place])
    rest = prod(shape) // shape[dimension]
    wanted = ceil((_CROSSING + 1) / rest)
    one = _resized(case, position, dimension, 1)
    two = _resized(case, position, dimension, 2)
    if one is None or two is None:
        return
    each = bytes_of(two) - bytes_of(one)
    size = min(wanted, (memory - bytes_of(one) + each) // max(each, 1))
    made = _resized(case, position, dimension, size) if size > shape[dimension] else None
    if made is not None:
        crossed = "more than 2**31 elements" if size == wanted else "as far as memory allows"
        yield _told(made, f"big, {bytes_of(made):,} bytes of inputs, {crossed}")


def bytes_of(case: Case) -> int:
    """What the inputs of a case take."""
    return sum(prod(spec.shape) * dtype_named(spec.dtype).itemsize for spec in case.tensors)


def _resized(case: Case, position: int, dimension: int, size: int) -> Case | None:
    """The case with another size of a dimension; None where its tensors are what was recorded."""
    if any(spec.stored is not None for spec in (*case.tensors, *case.gradients)):
        return None
    base = case.tensors[position].shape
    specs = []
    for place, spec in enumerate(case.tensors):
        along = dimension if place == position else _partner(base, dimension, spec.shape)
        shape = tuple(size if axis == along else old for axis, old in enumerate(spec.shape))
        specs.append(replace(spec, shape=shape, strides=None))
    return _with_needs(replace(case, tensors=tuple(specs), gradients=()))


def _partner(base: Sequence[int], dimension: int, shape: Sequence[int]) -> int | None:
    """The dimension of another tensor that must be as long: one that is, where both are counted from the end, else
    from the beginning, else wherever it is, as the inner dimensions of a product are."""
    size = base[dimension]
    if size == 1:
        return None
    from_end = dimension - len(base) + len(shape)
    if 0 <= from_end < len(shape) and shape[from_end] == size:
        return from_end
    if dimension < len(shape) and shape[dimension] == size:
        return dimension
    return next((axis for axis, other in enumerate(shape) if other == size), None)


def _with_needs(case: Case) -> Case:
    """With the domains that the tensors need now; a domain that the source of the case gave and no row knows stays."""
    if case.api.startswith("paddle."):
        return with_domains(case)
    needs = [domain_for(case.api, spec.path, case.arguments, case.tensors) for spec in case.tensors]
    tensors = (replace(spec, domain=need or spec.domain) for spec, need in zip(case.tensors, needs, strict=True))
    return replace(case, tensors=tuple(tensors))


def _points_nowhere(spec: TensorSpec) -> bool:
    """Whether the tensor holds indices into a dimension that has no elements."""
    name, _, numbers = spec.domain.partition("(")
    if name not in ("index", "distinct", "distinct_along", "labels", "classes") or not prod(spec.shape):
        return False
    return numbers.split(",")[0].rstrip(")").strip() in ("0", "0.0")


def other_dtypes(case: Case) -> Iterator[Case]:
    """The case in the other floating-point dtypes and, where its operator takes them, in complex ones."""
    if any(spec.stored is not None for spec in (*case.tensors, *case.gradients)):
        return
    floats = Counter(spec.dtype for spec in case.tensors if spec.dtype in FLOATS)
    if not floats:
        yield from _other_dtype_arguments(case)
        return
    main = floats.most_common(1)[0][0]
    names = [name for name in FLOATS if name != main]
    has_complex = any(dtype_named(spec.dtype).is_complex for spec in case.tensors)
    if takes_complex(case.api) and not has_complex:
        names.append(_COMPLEX_OF[main])
    for name in names:
        yield _told(_recast(case, {main: name, _COMPLEX_OF[main]: _COMPLEX_OF.get(name, name)}), f"in {name}")


def _recast(case: Case, names: dict[str, str]) -> Case:
    def cast(spec: TensorSpec) -> TensorSpec:
        return replace(spec, dtype=names.get(spec.dtype, spec.dtype))

    return _with_needs(
        replace(case, tensors=tuple(map(cast, case.tensors)), gradients=tuple(map(cast, case.gradients)))
    )


def _other_dtype_arguments(case: Case) -> Iterator[Case]:
    """A call without floating-point tensors that is told a floating-point dtype: ``full([2], 3, dtype="float32")``."""
    told = _dtype_in(case.arguments)
    for name in FLOATS if told else ():
        if name != told:
            yield _told(replace(case, arguments=_renamed(case.arguments, told, name)), f"in {name}")


def _dtype_in(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree if tree in FLOATS else ""
    items = tree if isinstance(tree, list) else list(tree.values()) if isinstance(tree, dict) else []
    return next((found for item in items if (found := _dtype_in(item))), "")


def _renamed(tree: Tree, old: str, new: str) -> Any:
    if isinstance(tree, list):
        return [_renamed(item, old, new) for item in tree]
    if isinstance(tree, dict):
        return {key: _renamed(value, old, new) for key, value in tree.items()}
    return new if tree == old else tree


def _told(case: Case, what: str) -> Case:
    """The case with a word on what it is beside where it came from."""
    return replace(case, calls=(f"{case.calls[0]} ({what})", *case.calls[1:]) if case.calls else (what,))
