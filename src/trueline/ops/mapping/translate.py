"""A Case of one framework as a Case of the other, by the rows of the mapping.

``translate(case, "torch")`` finds the row of a Paddle Case, gives its arguments the names that torch has for them, and
says where each input went. From torch to Paddle the same rows are read backwards. What cannot be said in the other
framework is ``NoCounterpart``, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trueline.cases import Case, TensorSpec
from trueline.ops.binding import signature
from trueline.ops.mapping.converters import CONVERTERS, Untranslatable
from trueline.ops.mapping.rows import Row, row_for, torch_rows
from trueline.tree import Tree, tensor_paths


class NoCounterpart(Exception):
    """The other framework has nothing that does this; the message says why."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A Case for the other framework. ``paths`` says where each input of the original Case is in the translated one;
    outputs keep their paths."""

    case: Case
    paths: Mapping[str, str]
    row: Row


def framework_of(api: str) -> str:
    """``paddle`` or ``torch``: the framework to which an API name belongs."""
    return api.partition(".")[0]


def translate(case: Case, framework: str) -> Translation:
    """The Case as one of ``framework`` (``torch`` or ``paddle``)."""
    own = framework_of(case.api)
    if own == framework:
        raise ValueError(f"{case.api} is already a call of {framework}")
    if (own, framework) == ("paddle", "torch"):
        return _to_torch(case)
    if (own, framework) == ("torch", "paddle"):
        return _to_paddle(case)
    raise NoCounterpart(f"nothing is known of {framework} for calls of {own}")


def torch_arguments(row: Row, arguments: Tree) -> Tree:
    """The arguments of a call of Paddle's as torch takes them, by the row; ``NoCounterpart`` where it does not."""
    given = arguments_by_name(row, arguments)
    positional: dict[int, Tree] = {}
    keywords: dict[str, Tree] = {}
    rest: list[Tree] = []
    for ours, theirs in row.names.items():
        if ours.startswith("*"):
            rest = given.get(ours, [])
        elif ours in row.forbidden:
            _check_absent(row, ours, given.get(ours))
        elif theirs and (ours in given or ours in row.defaults):
            value = _converted(row, ours, given[ours], "to_torch") if ours in given else row.defaults[ours]
            if theirs.isdigit():
                positional[int(theirs)] = value
            else:
                keywords[theirs] = value
    keywords.update(row.fixed)
    if sorted(positional) != list(range(len(positional))):
        raise NoCounterpart(f"{row.paddle}: an argument that {row.torch} takes by position is missing")
    return {"args": [positional[place] for place in sorted(positional)] + rest, "kwargs": keywords}


def _to_torch(case: Case) -> Translation:
    row = row_for(case.api)
    if row is None:
        raise NoCounterpart(f"{case.api} is not mapped to torch")
    return moved_case(case, row, row.torch, torch_arguments(row, case.arguments))


def arguments_by_name(row: Row, arguments: Tree) -> dict[str, Tree]:
    """The arguments of a call by Paddle's names for its parameters."""
    positional, keywords = list(arguments.get("args", [])), arguments.get("kwargs", {})
    given: dict[str, Tree] = {}
    for place, name in enumerate(row.names):
        if name.startswith("*"):
            given[name], positional = positional[place:], positional[:place]
            break
    plain = [name for name in row.names if not name.startswith("*")]
    if len(positional) > len(plain):
        raise NoCounterpart(f"{row.paddle} was given {len(positional)} arguments by position; {len(plain)} are known")
    given.update(zip(plain, positional, strict=False))
    # Paddle takes torch's names for many of its parameters as well (input= for x=, dim= for axis=).
    other = {theirs: ours for ours, theirs in row.names.items() if theirs}
    for name, value in keywords.items():
        ours = name if name in row.names else other.get(name, _OTHER_NAMES.get(name, name))
        if ours not in row.names:
            raise NoCounterpart(f"{row.paddle}: its argument {name} has no counterpart")
        if ours in given:
            raise NoCounterpart(f"{row.paddle} was given {ours} twice")
        given[ours] = value
    return given


_OTHER_NAMES = {"input": "x", "dim": "axis", "other": "y"}


def _check_absent(row: Row, name: str, value: Tree) -> None:
    if value is not None and value != row.forbidden[name]:
        raise NoCounterpart(f"{row.paddle}: its argument {name} has no counterpart in torch")


def _converted(row: Row, ours: str, value: Tree, direction: str) -> Tree:
    if ours not in row.values:
        return value
    try:
        converted: Tree = getattr(CONVERTERS[row.values[ours]], direction)(value)
    except Untranslatable as error:
        raise NoCounterpart(f"{row.paddle}: {ours}: {error}") from None
    return converted


def _to_paddle(case: Case) -> Translation:
    candidates = [row for name in _torch_names(case.api) for row in torch_rows(name)]
    if not candidates:
        raise NoCounterpart(f"{case.api} is not mapped to Paddle")
    first: NoCounterpart | None = None
    for row in candidates:
        try:
            return moved_case(case, row, row.paddle, _paddle_arguments(row, case.api, case.arguments))
        except NoCounterpart as error:
            first = first or error
    assert first is not None, "each row that was tried gave a reason"
    raise first


def _torch_names(api: str) -> list[str]:
    """The names under which rows may keep a torch API: a method is a row of the function of the same name."""
    home, _, last = api.rpartition(".")
    last = _ALIASES.get(last, last)
    names = [api, f"{home}.{last}"]
    if home in ("torch", "torch.Tensor", "torch.special", "torch.nn.functional"):
        names += [f"torch.{last}", f"torch.nn.functional.{last}", f"torch.special.{last}"]
    if last in _SAME_IN_LINALG:
        names += [f"torch.{last}", f"torch.linalg.{last}"]
    if home == "torch":
        names += [f"torch.Tensor.{last}"]
    return list(dict.fromkeys(names))


_ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "clip": "clamp", "concatenate": "cat", "concat": "cat", "divide": "div",
    "expit": "sigmoid", "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "multiply": "mul", "negative": "neg", "not_equal": "ne", "psi": "digamma", "subtract": "sub", "true_divide": "div",
    "inverse": "inv", "swapaxes": "transpose", "swapdims": "transpose", "movedim": "moveaxis",
}  # fmt: skip
"""Other names of torch's for the same function with the same parameters."""
_SAME_IN_LINALG = frozenset(
    "cholesky inv det slogdet solve matrix_power matrix_exp eigvalsh householder_product matmul multi_dot".split()
)
"""Functions that ``torch`` and ``torch.linalg`` both have, with the same parameters (not so svd, qr and norm)."""


_MEANINGLESS = {"device", "requires_grad", "pin_memory", "layout", "memory_format", "generator", "inplace", "sparse",
                "_stacklevel"}
"""Parameters of torch's that say nothing about the numbers."""
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "self": "input", "x": "input", "A": "input", "tensor": "input"}


def _paddle_arguments(row: Row, api: str, arguments: Tree) -> Tree:
    """The arguments of a torch call as Paddle takes them: all by keyword, except what is only taken by position."""
    given, rest = _torch_bound(row, arguments)
    defaults = dict(signature(row.torch))
    keywords: dict[str, Tree] = {}
    for ours, theirs in row.names.items():
        if not theirs or ours.startswith("*"):
            continue
        if theirs in given:
            keywords[ours] = _converted(row, ours, given.pop(theirs), "to_paddle")
        elif ours in row.defaults:
            if theirs not in defaults:
                raise NoCounterpart(f"{api}: what it does without {theirs} is not known here")
            keywords[ours] = defaults[theirs]
    for name, value in row.fixed.items():
        if given.pop(name, None) != value:
            raise NoCounterpart(f"{api}: Paddle can do this only with {name}={value}")
    left = [
        name
        for name, value in given.items()
        if name not in _MEANINGLESS and name not in row.dropped and value not in (None, row.forbidden.get(name))
    ]
    if left:
        raise NoCounterpart(f"{api}: its argument {left[0]} has no counterpart in Paddle")
    return _by_position(row, keywords, rest)


def _by_position(row: Row, keywords: dict[str, Tree], rest: list[Tree]) -> Tree:
    """Methods take their tensor by position, and so does whoever takes any number of arguments."""
    leading: list[Tree] = []
    method = row.paddle.startswith("paddle.Tensor.")
    for place, name in enumerate(row.names):
        if name not in keywords or not (rest or (method and (place == 0 or "__" in row.paddle))):
            break
        leading.append(keywords.pop(name))
    return {"args": leading + rest, "kwargs": keywords}


def _torch_bound(row: Row, arguments: Tree) -> tuple[dict[str, Tree], list[Tree]]:
    """The arguments of a torch call by torch's names, and those of a parameter that takes any number."""
    order = list(row.order) or _torch_order(row)
    positional, keywords = list(arguments.get("args", [])), dict(arguments.get("kwargs", {}))
    rest: list[Tree] = []
    for place, name in enumerate(order):
        if name.startswith("*"):
            rest, positional = positional[place:], positional[:place]
            break
    positional = _gathered(positional, order)
    if len(positional) > len(order):
        raise NoCounterpart(f"{row.torch}: only {len(order)} arguments by position are known")
    given = dict(zip(order, positional, strict=False))
    known = set(order)
    for name, value in keywords.items():
        given[name if name in known or _SPELLINGS.get(name) not in known else _SPELLINGS[name]] = value
    return given, rest


def _torch_order(row: Row) -> list[str]:
    """Torch's parameters by position, as far as the row says them; a composite of Paddle's has them all."""
    if row.paddle.startswith("composite."):
        return list(row.names)
    return [name for name in row.names.values() if name]


def _gathered(positional: list[Tree], order: Sequence[str]) -> list[Tree]:
    """``x.reshape(2, 3)`` is ``x.reshape([2, 3])``: integers beyond the first of a size belong to it."""
    start = 1 if len(order) > 1 and order[0] not in _SIZES else 0
    tail = positional[start:]
    several = len(tail) > max(1, len(order) - start) or (len(tail) > 1 and order[start] in _SIZES)
    if several and all(isinstance(item, int) and not isinstance(item, bool) for item in tail):
        return [*positional[:start], tail]
    return positional


_SIZES = {"shape", "size", "sizes", "dims", "reps"}


def moved_case(case: Case, row: Row, api: str, arguments: Tree) -> Translation:
    """The Case with other arguments: its leaves numbered anew in their new order, its specs at their new paths."""
    old_paths = dict(tensor_paths(case.arguments))
    by_path = {spec.path: spec for spec in case.tensors}
    paths: dict[str, str] = {}
    numbers: dict[int, int] = {}
    specs: list[TensorSpec] = []
    for leaf, path in tensor_paths(arguments):
        numbers[leaf] = len(specs)
        paths[old_paths[leaf]] = path
        specs.append(replace(by_path[old_paths[leaf]], path=path))
    new = replace(case, api=api, arguments=_renumbered(arguments, numbers), tensors=tuple(specs))
    return Translation(new, paths, row)


def _renumbered(tree: Tree, numbers: Mapping[int, int]) -> Tree:
    if isinstance(tree, list):
        return [_renumbered(item, numbers) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$t" in tree:
        return {"$t": numbers[tree["$t"]]}
    return {key: _renumbered(value, numbers) for key, value in tree.items()}
