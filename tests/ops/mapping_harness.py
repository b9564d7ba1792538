"""Holds the two sides of a mapping row against each other by running them.

``held(row)`` runs every example of a row on Paddle and, translated, on torch: with equal inputs, forward and backward.
What must agree: number of outputs, dtypes, shapes, integers to the bit, numbers within a limit that comes from the
dtype and from how much torch's own result moves when it is computed in float64 or when its inputs are rounded
differently. Run this file with names of APIs (or beginnings of them) to see what happens to their rows::

    python -m tests.ops.mapping_harness paddle.cumsum paddle.nn.functional.
"""

from __future__ import annotations

import math
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import paddle
import torch

from trueline.cases import Case
from trueline.dtypes import DTYPES
from trueline.formats.configs import config_to_case, parse_config
from trueline.frameworks.base import ArrayIn, Inputs
from trueline.frameworks.paddle.composites import composite_named
from trueline.frameworks.torch.rebuild import CPU, Setting, rebuild, resolve
from trueline.ops.domains import with_domains
from trueline.ops.mapping.domains import need_of_row
from trueline.ops.mapping.rows import Row, rows
from trueline.ops.mapping.translate import Translation, moved_case, torch_arguments, translate
from trueline.replay.inputs import inputs_for
from trueline.tree import Tree

Leaves = dict[str, Any]
Tensors = dict[str, Any]


@dataclass
class Ran:
    """What one execution gave: outputs, gradients by the path of the input, and inputs as they are afterwards."""

    outputs: Leaves
    gradients: Leaves = field(default_factory=dict)
    inputs: Leaves = field(default_factory=dict)
    drew: bool = False
    """Whether random numbers were drawn."""


@dataclass
class Held:
    """One example, held against the other framework. ``problems`` is empty where the two agree."""

    example: str
    problems: list[str] = field(default_factory=list)
    outputs: int = 0
    gradients: int = 0


def held(row: Row) -> list[Held]:
    """All examples of a row, those on which the two differ included."""
    return [_guarded(row, example) for example in (*row.examples, *row.differs)]


def may_differ(row: Row, example: str) -> bool:
    """Whether the row says that the two disagree on this example."""
    return example in row.differs or bool(row.disagreement and not row.differs)


def _guarded(row: Row, example: str) -> Held:
    found = Held(example)
    try:
        _hold(row, example, found)
    except Exception as error:  # whatever goes wrong is a finding of the row
        place = traceback.extract_tb(error.__traceback__)[-1]
        found.problems.append(f"{type(error).__name__}: {str(error).strip()[-400:]} ({place.name}:{place.lineno})")
    return found


def held_as(row: Row, found: Held) -> Held:
    """One example by a row that need not be the one in the mapping."""
    case = case_of(found.example)
    arguments = torch_arguments(row, case.arguments)
    _hold_case(case, moved_case(case, row, row.torch, arguments), found)
    return found


def held_from_torch(case: Case) -> Held:
    """A Case of torch's, held against what the mapping makes of it for Paddle; ``NoCounterpart`` where it makes
    nothing. Drawn numbers and uninitialized memory are not for this."""
    moved = translate(case, "paddle")
    found = Held(f"{case.api} as {moved.case.api}")
    inputs = inputs_for(case)
    new = replace(inputs, tensors={moved.paths[path]: inputs.tensors[path] for path in moved.paths})
    here = Translation(case, {spec.path: spec.path for spec in case.tensors}, moved.row)
    try:
        ours = _under_old_paths(run_paddle(moved.case, new), moved)
        theirs = run_torch(here, inputs, case)
        if _hold_together(found, [ours, theirs], chance=False):
            wide = run_torch(here, inputs, case, wide=True)
            shaken = [run_torch(here, _shaken(inputs, number), case) for number in range(2)]
            found.problems = _hold_together(found, [ours, theirs, wide, *shaken], chance=False)
    except Exception as error:
        found.problems.append(f"{type(error).__name__}: {str(error).strip()[-300:]}")
    return found


def _under_old_paths(ran: Ran, moved: Translation) -> Ran:
    back = {new: old for old, new in moved.paths.items()}
    inputs, gradients = ({back[path]: value for path, value in part.items()} for part in (ran.inputs, ran.gradients))
    return replace(ran, inputs=inputs, gradients=gradients)


def _hold(row: Row, example: str, found: Held) -> None:
    case = _with_own_domains(row, example, case_of(example))
    assert case.api == row.paddle, f"an example of {row.paddle} calls {case.api}"
    _hold_case(case, translate(case, "torch"), found)


def _hold_case(case: Case, moved: Translation, found: Held) -> None:
    inputs = inputs_for(case)
    ours = run_paddle(case, inputs)
    theirs = run_torch(moved, inputs, case)
    chance = theirs.drew and _changes(theirs, run_torch(moved, inputs, replace(case, seed=case.seed + 1)))
    # Most agree to a few units in the last place, and need no measure of what honest arithmetic may do.
    if _hold_together(found, [ours, theirs], chance):
        wide = run_torch(moved, inputs, case, wide=True)
        shaken = [run_torch(moved, _shaken(inputs, number), case) for number in range(2)]
        found.problems = _hold_together(found, [ours, theirs, wide, *shaken], chance)
    if not ours.outputs:
        before = {path: array.bits for path, array in inputs.tensors.items()}
        found.outputs = sum(not np.array_equal(_numbers(ours.inputs[path]), bits) for path, bits in before.items())
    if not found.outputs:
        found.problems.append("nothing was compared")


def _hold_together(found: Held, runs: list[Ran], chance: bool) -> list[str]:
    """Compares all parts of several runs, the first two of which are Paddle's and torch's; gives what disagrees."""
    problems: list[str] = []
    found.outputs = _compare("outputs", [run.outputs for run in runs], problems, chance)
    _compare("inputs", [run.inputs for run in runs], problems, chance)
    found.gradients = _compare("gradients", [run.gradients for run in runs], problems, chance)
    return problems


def _changes(one: Ran, other: Ran) -> bool:
    """Whether two runs that differ in their seeds differ in what they give."""
    return any(
        not np.array_equal(_numbers(value), _numbers(other.outputs[path]), equal_nan=True)
        for path, value in one.outputs.items()
        if _is_tensor(value)
    )


def case_of(example: str) -> Case:
    """The Case of an example: seeded by its text, its inputs within their domains."""
    return with_domains(config_to_case(parse_config(example), zlib.crc32(example.encode())))


def _with_own_domains(row: Row, example: str, case: Case) -> Case:
    """The Case with the domains that the row gives to this example alone."""
    own = replace(row, needs=row.drawn.get(example, {}))
    needs = [need_of_row(own, spec.path, case.arguments, case.tensors) for spec in case.tensors]
    pairs = zip(case.tensors, needs, strict=True)
    return replace(case, tensors=tuple(spec if need is None else replace(spec, domain=need) for spec, need in pairs))


def _shaken(inputs: Inputs, number: int) -> Inputs:
    """Inputs that differ by about one unit in the last place: what the conditioning of the function makes of it."""
    generator = np.random.default_rng(number)

    def shake(array: ArrayIn) -> ArrayIn:
        kind = DTYPES[array.dtype]
        if array.dtype not in ("float32", "float64", "complex64", "complex128"):
            return array
        factor = 1 + kind.epsilon * generator.choice([-1.0, 1.0], array.bits.shape)
        return ArrayIn((array.bits * factor).astype(array.bits.dtype), array.dtype)

    return replace(inputs, tensors={path: shake(array) for path, array in inputs.tensors.items()})


def _compare(part: str, sides: list[Leaves], problems: list[str], chance: bool) -> int:
    ours, theirs = sides[0], sides[1]
    if part == "gradients":
        # A gradient that is zero everywhere may be given as none.
        sides = [dict(side) for side in sides]
        ours, theirs = sides[0], sides[1]
        for path in {*ours, *theirs}:
            for side in sides:
                if path not in side:
                    known = ours.get(path, theirs.get(path))
                    side[path] = torch.zeros(tuple(known.shape), dtype=_torch_dtype(known))
    if list(ours) != list(theirs) and set(ours) != set(theirs):
        problems.append(f"{part}: Paddle gives {list(ours)}, torch {list(theirs)}")
        return 0
    for path, value in ours.items():
        problem = _differs(value, theirs[path], [side[path] for side in sides[2:]], chance)
        if problem:
            problems.append(f"{part} {path}: {problem}")
    return len(ours)


def _torch_dtype(value: Any) -> torch.dtype:
    return getattr(torch, str(value.dtype).rpartition(".")[2])  # type: ignore[no-any-return]


def _differs(ours: Any, theirs: Any, others: list[Any], chance: bool) -> str:
    if not _is_tensor(ours) or not _is_tensor(theirs):
        if _is_tensor(ours) != _is_tensor(theirs):
            return f"Paddle gives {_short(ours)}, torch {_short(theirs)}"
        same = ours == theirs or (isinstance(ours, float) and math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-7))
        return "" if same else f"Paddle gives {ours!r}, torch {theirs!r}"
    kinds = [str(value.dtype).rpartition(".")[2] for value in (ours, theirs)]
    if kinds[0] != kinds[1]:
        return f"Paddle gives {kinds[0]}, torch {kinds[1]}"
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"Paddle gives the shape {tuple(ours.shape)}, torch {tuple(theirs.shape)}"
    mine, other, *more = (_numbers(value) for value in (ours, theirs, *others))
    if chance:
        return _distributions_differ(mine, other)
    return _numbers_differ(mine, other, more, DTYPES[kinds[0]].epsilon)


def _numbers_differ(mine: Any, other: Any, more: list[Any], epsilon: float) -> str:
    if not epsilon:
        wrong = int((mine != other).sum())
        shown = f"{mine[mine != other][:3]} against {other[mine != other][:3]}"
        return f"{wrong} of {mine.size} elements differ, for example {shown}" if wrong else ""
    finite = np.isfinite(mine) & np.isfinite(other)
    if not np.array_equal(mine[~finite], other[~finite], equal_nan=True):
        return "infinities or NaN at different places"
    if not finite.any():
        return ""
    gold = more[0] if more else other
    with np.errstate(invalid="ignore", over="ignore"):
        scale = float(np.abs(gold[finite]).max())
        honest = max((float(np.nanmax(np.abs(side - other)[finite], initial=0.0)) for side in more), default=0.0)
        error = float(np.abs(mine - gold)[finite].max())
    limit = 16 * honest + (128 if more else 8) * epsilon * scale + 1e-300
    return "" if error <= limit else f"off by {error:.3g}, limit {limit:.3g}, largest element {scale:.3g}"


def _distributions_differ(mine: Any, other: Any) -> str:
    """Two draws of the same distribution: the largest distance of their distribution functions (Kolmogorov, Smirnov),
    which honest draws of ``n`` numbers each exceed once in a hundred thousand times."""
    count = mine.size
    if not count:
        return ""
    drawn = [np.sort(side.astype(np.float64).reshape(-1)) for side in (mine, other)]
    places = np.concatenate(drawn)
    shares = [np.searchsorted(side, places, side="right") / count for side in drawn]
    distance, limit = float(np.abs(shares[0] - shares[1]).max()), 2.5 * math.sqrt(2 / count)
    if distance > limit:
        means = f"means {mine.mean():.4g} and {other.mean():.4g}"
        return f"distributions are {distance:.3g} apart, limit {limit:.3g}; {means}"
    return ""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor | paddle.Tensor)


def _short(value: Any) -> str:
    return f"a tensor {tuple(value.shape)}" if _is_tensor(value) else repr(value)[:60]


def _numbers(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        array = value.to(torch.float64).numpy() if value.dtype in _NARROW else value.numpy(force=True)
    else:
        value = value.detach()
        narrow = str(value.dtype).endswith(("bfloat16", "float8_e4m3fn", "float8_e5m2"))
        array = value.astype("float32").numpy() if narrow else value.numpy()
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else array


_NARROW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


def leaves_of(value: Any, path: str = "result") -> Iterator[tuple[str, Any]]:
    """Tensors, numbers and texts of a result by path; named tuples by position."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from leaves_of(item, f"{path}.{position}")
    elif value is not None:
        yield path, value


def run_paddle(case: Case, inputs: Inputs) -> Ran:
    """The Case by a plain call of Paddle."""
    paddle.seed(case.seed % 2**31)
    leaves: Tensors = {}
    used: Tensors = {}
    for spec in case.tensors:
        leaf = paddle_tensor(inputs.tensors[spec.path])
        leaf.stop_gradient = not spec.requires_grad
        leaves[spec.path], used[spec.path] = leaf, leaf.clone() if spec.requires_grad else leaf
    _dirty([math.prod(spec.shape) for spec in case.tensors])
    order = [spec.path for spec in case.tensors]
    args = [_for_paddle(item, lambda n: used[order[n]]) for item in case.arguments["args"]]
    kwargs = {name: _for_paddle(item, lambda n: used[order[n]]) for name, item in case.arguments["kwargs"].items()}
    result = paddle_function(case.api)(*args, **kwargs)
    outputs = dict(leaves_of(result))
    ends = {path: value for path, value in outputs.items() if _is_tensor(value) and not value.stop_gradient}
    starts = {path: leaf for path, leaf in leaves.items() if not leaf.stop_gradient}
    gradients: Leaves = {}
    if ends and starts:
        arriving = [paddle_tensor(_arriving(inputs, path, value)) for path, value in ends.items()]
        found = _paddle_gradients(list(ends.values()), list(starts.values()), arriving)
        gradients = {path: value for path, value in zip(starts, found, strict=True) if value is not None}
    return Ran(outputs, gradients, used)


def _dirty(counts: list[int]) -> None:
    """Leaves memory of the sizes that will be asked for full of a number: what a kernel forgets to write shows."""
    for count in counts:
        held = [paddle.full([count], 7.5e30, dtype) for dtype in ("float32", "float64") for _ in range(3)]
        del held


def is_in_this_paddle(api: str) -> bool:
    """Whether the installed version has a function of this name; the mapping is that of the newest."""
    try:
        return bool(paddle_function(api))
    except AttributeError:
        return False


def paddle_function(api: str) -> Callable[..., Any]:
    """The function of a name; a property is a function of its tensor."""
    if api.startswith("composite."):
        found = composite_named(api.partition(".")[2])
        assert found is not None, f"there is no {api} for Paddle"
        return found
    found: Any = paddle
    *parts, last = api.split(".")[1:]
    for part in parts:
        found = getattr(found, part)
    found = getattr(found, last)
    return found if callable(found) else lambda tensor: getattr(tensor, last)


def run_torch(moved: Translation, inputs: Inputs, case: Case, wide: bool = False) -> Ran:
    """The translated Case by a plain call of torch; gradients under the paths of the original Case."""
    torch.manual_seed(case.seed)
    back = {new: old for old, new in moved.paths.items()}
    leaves: Tensors = {}
    used: Tensors = {}
    for spec in moved.case.tensors:
        leaf = torch.from_numpy(np.array(inputs.tensors[back[spec.path]].bits))
        if spec.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            leaf = leaf.view(getattr(torch, spec.dtype))
        if wide and (leaf.is_floating_point() or leaf.is_complex()):
            leaf = leaf.to(torch.complex128 if leaf.is_complex() else torch.float64)
        leaf.requires_grad_(spec.requires_grad)
        leaves[spec.path], used[spec.path] = leaf, leaf.clone() if spec.requires_grad else leaf
    order = [spec.path for spec in moved.case.tensors]
    setting = Setting(CPU, wide)
    args = rebuild(moved.case.arguments["args"], lambda n: used[order[n]], setting)
    kwargs = {k: rebuild(v, lambda n: used[order[n]], setting) for k, v in moved.case.arguments["kwargs"].items()}
    before = torch.random.get_rng_state()
    outputs = dict(leaves_of(resolve(moved.case.api)(*args, **kwargs)))
    drew = not torch.equal(before, torch.random.get_rng_state())
    ends = {path: value for path, value in outputs.items() if _is_tensor(value) and value.requires_grad}
    starts = {path: leaf for path, leaf in leaves.items() if leaf.requires_grad}
    gradients: Leaves = {}
    if ends and starts:
        arriving = []
        for path, value in ends.items():
            drawn = torch.from_numpy(np.array(_arriving(inputs, path, value).bits))
            if value.dtype == torch.bfloat16:
                drawn = drawn.view(torch.bfloat16)
            arriving.append(drawn.to(value.dtype))
        found = _torch_gradients(list(ends.values()), list(starts.values()), arriving)
        gradients = {back[path]: value for path, value in zip(starts, found, strict=True) if value is not None}
    return Ran(outputs, gradients, {back[path]: value for path, value in used.items()}, drew)


def _paddle_gradients(ends: list[Any], starts: list[Any], arriving: list[Any]) -> list[Any]:
    try:
        return list(paddle.grad(ends, starts, arriving, allow_unused=True))
    except ValueError as error:
        if "is not implemented" not in str(error):
            raise
        return [None] * len(starts)


def _torch_gradients(ends: list[Any], starts: list[Any], arriving: list[Any]) -> list[Any]:
    """Gradients of all inputs that torch can differentiate by; where it cannot, Paddle is not asked either."""
    try:
        return list(torch.autograd.grad(ends, starts, arriving, allow_unused=True, retain_graph=True))
    except RuntimeError as error:
        if not any(words in str(error) for words in ("not implemented", "not differentiable", "The derivative of")):
            raise
        if len(starts) == 1:
            return [None]
        return [_torch_gradients(ends, [start], arriving)[0] for start in starts]


_SINGLE = {"float64": "float32", "complex128": "complex64"}


def _arriving(inputs: Inputs, path: str, value: Any) -> ArrayIn:
    """The gradient that arrives at an output: the same numbers for both frameworks and for the run in float64."""
    dtype = str(value.dtype).rpartition(".")[2]
    assert inputs.draw is not None
    array = inputs.draw(path, tuple(value.shape), _SINGLE.get(dtype, dtype))
    if dtype in _SINGLE:
        return ArrayIn(array.bits.astype(np.complex128 if dtype == "complex128" else np.float64), dtype)
    return array


def paddle_tensor(array: ArrayIn) -> Any:
    """A tensor of Paddle's with these bits."""
    if array.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        wide = torch.from_numpy(np.array(array.bits)).view(getattr(torch, array.dtype)).to(torch.float32).numpy()
        return paddle.to_tensor(wide).astype(array.dtype)
    return paddle.to_tensor(np.array(array.bits))


def _for_paddle(tree: Tree, leaf: Callable[[int], Any]) -> Any:
    if isinstance(tree, list):
        return [_for_paddle(item, leaf) for item in tree]
    if not isinstance(tree, dict):
        return tree
    (key, value), *_ = tree.items() if tree else (("", None),)
    if key == "$t":
        return leaf(value)
    if key in ("$tuple", "$size"):
        return tuple(_for_paddle(item, leaf) for item in value)
    if key == "$slice":
        return slice(*(_for_paddle(part, leaf) for part in value))
    if key == "$dtype":
        return getattr(paddle, value)
    if key == "$float":
        return float(value)
    return complex(*map(float, value)) if key == "$complex" else ...


def main(names: list[str]) -> int:
    """Runs the rows whose Paddle names begin with one of ``names`` (all without any) and prints what disagrees."""
    chosen = [row for row in rows().values() if not names or any(_meant(row.paddle, name) for name in names)]
    bad = 0
    for row in chosen:
        for one in held(row):
            unexpected = bool(one.problems) and not may_differ(row, one.example)
            bad += unexpected
            if one.problems:
                print(f"{'BAD ' if unexpected else 'as explained'} {one.example}\n    " + "\n    ".join(one.problems))
            elif one.example in row.differs:
                bad += 1
                print(f"BAD  {one.example}\n    agrees, though the row says that it does not")
            elif len(names) and len(chosen) < 20:
                print(f"good {one.example} outputs {one.outputs} gradients {one.gradients}")
    print(f"{len(chosen)} rows, {bad} examples disagree")
    return 1 if bad or not chosen else 0


def _meant(api: str, name: str) -> bool:
    return api.startswith(name) if name.endswith((".", "*")) else api == name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
