"""Tests the wild set itself, with torch alone: the tool that it measures is never asked.

    python -m benchmarks.power.wild.verify [--half work|counted] [NAME ...]

A wrong kernel has to break what it says it breaks, on the input that is declared with it, in each of its dtypes: its
values lie further from torch's in float64 than ten times torch's own error and sixteen eps of the element, or the
contract that it names is broken. An honest kernel has to stay within its bound on each of its inputs, forward and
backward, and to break nothing else.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.power.recipes import Arguments, leaves, mapped, wants_gradient
from benchmarks.power.wild import kernels
from benchmarks.power.wild.bounds import Bound
from benchmarks.power.wild.declare import Function, Kernel, Maker

LEAST_WRONG, LEAST_OPERATORS, LEAST_HONEST = 250, 120, 120
OWN_ERROR, ROUNDINGS = 10, 16
"""How many times torch's own largest error, and how many eps of the element, still count as rounding."""


def operator_of(api: str) -> Function:
    found: Any = torch
    for part in api.split(".")[1:]:
        found = getattr(found, part)
    return found


def drawn(kernel: Kernel, number: int, dtype: torch.dtype, seed: int = 0) -> Arguments:
    return kernel.inputs[number](Maker(dtype, seed))


def copied(tensor: Tensor, changed: Tensor | None = None) -> Tensor:
    """The same values, strides, offset and expansion, in memory of its own; a leaf."""
    memory = tensor.detach().untyped_storage().clone()
    fresh = torch.empty(0, dtype=tensor.dtype).set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())
    if changed is not None:
        fresh.copy_(changed)
    return fresh


def prepared(arguments: Arguments, gradients: bool = True, double: bool = False) -> Arguments:
    def one(leaf: Tensor) -> Tensor:
        fresh = copied(leaf.detach())
        if double and leaf.is_floating_point():
            fresh = fresh.double()
        return fresh.requires_grad_(gradients and wants_gradient(leaf))

    return Arguments(*mapped((arguments.args, arguments.kwargs), one))


@dataclass
class Seen:
    """What one call did."""

    inputs: list[Tensor]
    results: list[Tensor]
    gradients: list[Tensor | None]
    error: str = ""
    random_moved: bool = False
    gradients_on: bool = True


def performed(function: Function, arguments: Arguments, gradients: bool = True, rounded: Any = None) -> Seen:
    """The call and its gradients. ``rounded`` is the dtype to which cotangents are rounded before they are used."""
    given = leaves((arguments.args, arguments.kwargs))
    torch.manual_seed(0)
    state = torch.get_rng_state()
    try:
        results = [one for one in leaves(function(*arguments.args, **arguments.kwargs)) if isinstance(one, Tensor)]
    except Exception as error:
        return Seen(given, [], [], f"{type(error).__name__}: {error}")
    finally:
        on = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
    seen = Seen(given, results, [], "", not torch.equal(state, torch.get_rng_state()), on)
    asked = [one for one in given if one.requires_grad]
    ends = [one for one in results if one.requires_grad and one.grad_fn is not None]
    if gradients and asked and ends:
        try:
            arrived = [cotangent(one, number, rounded) for number, one in enumerate(ends)]
            seen.gradients = list(torch.autograd.grad(ends, asked, arrived, allow_unused=True))
        except Exception as error:
            seen.error = f"gradient: {type(error).__name__}: {error}"
    elif asked:
        seen.gradients = [None] * len(asked)
    return seen


def cotangent(end: Tensor, number: int, rounded: torch.dtype | None) -> Tensor:
    drawn_one = torch.randn(end.shape, generator=torch.Generator().manual_seed(1000 + number))
    kind = rounded if rounded is not None else end.dtype
    return drawn_one.to(kind if not end.is_complex() else torch.float32).to(end.dtype)


def apart(found: Tensor, usual: Tensor, exact: Tensor, dtype: torch.dtype) -> bool:
    """Whether a result differs from the exact one by more than rounding makes of it."""
    if found.shape != exact.shape:
        return True
    if not (found.is_floating_point() or found.is_complex()):
        return not torch.equal(found, usual.to(found.dtype) if usual.shape == found.shape else found + 1)
    if found.is_complex():
        return apart(torch.view_as_real(found), torch.view_as_real(usual), torch.view_as_real(exact), dtype)
    dtype = found.dtype
    found, usual, exact = found.detach().double(), usual.detach().double(), exact.detach().double()
    exact = torch.where(exact.abs() > torch.finfo(dtype).max, usual, exact)  # overflows to infinity in torch as well
    plain = found.isfinite() & usual.isfinite() & exact.isfinite()
    odd = ~plain & ~((found == usual) | (found.isnan() & usual.isnan()))
    if bool(odd.any()):
        return True
    own = (usual - exact).abs()[plain]
    largest = float(own.max()) if own.numel() else 0.0
    eps = torch.finfo(dtype).eps
    room = OWN_ERROR * largest + ROUNDINGS * eps * exact.abs() + ROUNDINGS * torch.finfo(dtype).smallest_normal * eps
    return bool(((found - exact).abs() > room)[plain].any())


def breaches(kernel: Kernel, number: int, dtype: torch.dtype) -> set[str]:
    """Everything that one call of a kernel breaks."""
    operator, arguments = operator_of(kernel.api), drawn(kernel, number, dtype)
    usual = performed(operator, prepared(arguments))
    wanted = not usual.error.startswith("gradient")  # some operators have no derivative
    if not wanted:
        usual = performed(operator, prepared(arguments, gradients=False))
    exact = performed(operator, prepared(arguments, wanted, double=True), rounded=dtype)
    found = performed(kernel.function, prepared(arguments, wanted))
    assert not usual.error, f"{kernel.name}: torch itself raises: {usual.error}"
    if found.error:
        return {"raises"}
    broken: set[str] = set()
    if len(found.results) != len(usual.results):
        return {"values", "shape"}
    for one, other, third in zip(found.results, usual.results, exact.results, strict=True):
        broken |= _of_result(one, other, third, found.inputs, usual.inputs, dtype)
    for one, other, third in zip(found.gradients, usual.gradients, exact.gradients, strict=True):
        missing = (one is None) != (other is None)
        if missing or (one is not None and apart(one, other, third, dtype)):  # type: ignore[arg-type]
            broken.add("gradient")
    for one, other in zip(found.inputs, usual.inputs, strict=True):
        if apart(one, other, other, dtype):
            broken.add("writes")
    if found.random_moved != usual.random_moved:
        broken.add("random")
    if not found.gradients_on:
        broken.add("grad mode")
    return broken


def _of_result(
    one: Tensor, other: Tensor, exact: Tensor, inputs: list[Tensor], usual_inputs: list[Tensor], dtype: torch.dtype
) -> set[str]:
    broken = set()
    if one.shape != other.shape:
        broken.add("shape")
    if apart(one, other, exact, dtype):
        broken.add("values")
    elif one.is_floating_point() and bool((torch.signbit(one) != torch.signbit(other))[one == 0].any()):
        broken.add("signed zero")
    if one.dtype != other.dtype:
        broken.add("dtype")
    if one.shape == other.shape and one.numel():
        ours, theirs = ([s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (one, other))
        if ours != theirs:
            broken.add("strides")
    if _shares(one, inputs) != _shares(other, usual_inputs):
        broken.add("alias")
    if one.requires_grad != other.requires_grad:
        broken.add("detached")
    return broken


def _shares(result: Tensor, inputs: list[Tensor]) -> bool:
    memory = result.untyped_storage().data_ptr()
    return bool(memory) and any(memory == one.untyped_storage().data_ptr() for one in inputs)


def breaks_state(kernel: Kernel, number: int, dtype: torch.dtype) -> bool:
    """Called again with other values at the same place, once more with the first values elsewhere, and in another
    order: is any result wrong, or the first one changed?"""
    operator = operator_of(kernel.api)
    first, second = drawn(kernel, number, dtype), drawn(kernel, number, dtype, seed=1)
    place = prepared(first, gradients=False)
    with torch.no_grad():
        early = leaves(kernel.function(*place.args, **place.kwargs))
        before = [one.clone() for one in early]
        for held, new in zip(leaves((place.args, place.kwargs)), leaves((second.args, second.kwargs)), strict=True):
            held.copy_(new)
        late = leaves(kernel.function(*place.args, **place.kwargs))
        wanted = leaves(operator(*place.args, **place.kwargs))
        again = prepared(first, gradients=False)
        third = leaves(kernel.function(*again.args, **again.kwargs))
    torch.set_grad_enabled(True)
    same = all(torch.equal(one, other) for one, other in zip(early, before, strict=True))
    right = all(not apart(one, other, other.double(), dtype) for one, other in zip(late, wanted, strict=True))
    return not (same and right and all(torch.equal(a, b) for a, b in zip(third, before, strict=True)))


def repeats(kernel: Kernel, number: int, dtype: torch.dtype) -> bool:
    """Whether two calls of a random operator draw the same numbers, or a call sets the random state."""
    arguments = prepared(drawn(kernel, number, dtype), gradients=False)
    torch.manual_seed(3)
    first, second = (leaves(kernel.function(*arguments.args, **arguments.kwargs)) for _ in range(2))
    if all(torch.equal(one, other) for one, other in zip(first, second, strict=True)):
        return True
    torch.manual_seed(4)
    third = leaves(kernel.function(*arguments.args, **arguments.kwargs))
    return all(torch.equal(one, other) for one, other in zip(first, third, strict=True))


def second_gradients(function: Function, arguments: Arguments, rounded: Any = None) -> list[Tensor | None]:
    given = [one for one in leaves((arguments.args, arguments.kwargs)) if one.requires_grad]
    results = [one for one in leaves(function(*arguments.args, **arguments.kwargs)) if one.requires_grad]
    arrived = [cotangent(one, number, rounded) for number, one in enumerate(results)]
    firsts = torch.autograd.grad(results, given, arrived, create_graph=True, allow_unused=True)
    ends = [one for one in firsts if one is not None and one.requires_grad]
    if not ends:
        return [None] * len(given)
    more = [cotangent(one, 100 + number, rounded) for number, one in enumerate(ends)]
    return list(torch.autograd.grad(ends, given, more, allow_unused=True))


def breaks_second(kernel: Kernel, number: int, dtype: torch.dtype) -> bool:
    arguments, operator = drawn(kernel, number, dtype), operator_of(kernel.api)
    usual = second_gradients(operator, prepared(arguments))
    exact = second_gradients(operator, prepared(arguments, double=True), dtype)
    try:
        found = second_gradients(kernel.function, prepared(arguments))
    except RuntimeError:
        return True
    for one, other, third in zip(found, usual, exact, strict=True):
        if other is None or third is None:
            continue
        if apart(torch.zeros_like(other) if one is None else one, other, third, dtype):
            return True
    return False


def breaks_out(kernel: Kernel, number: int, dtype: torch.dtype) -> bool:
    operator, arguments = operator_of(kernel.api), prepared(drawn(kernel, number, dtype), gradients=False)
    usual = operator(*arguments.args, **arguments.kwargs)
    place = torch.full_like(usual, 77)
    given = kernel.function(*arguments.args, out=place, **arguments.kwargs)
    return given is not place or apart(place, usual, usual.double(), dtype)


SPECIAL: dict[str, Callable[[Kernel, int, torch.dtype], bool]] = {
    "state": breaks_state,
    "random": repeats,
    "second": breaks_second,
    "out": breaks_out,
}


def is_broken(kernel: Kernel, dtype: torch.dtype) -> tuple[bool, set[str]]:
    """Whether a wrong kernel breaks what it says, and what it breaks besides."""
    found = breaches(kernel, 0, dtype) if kernel.breaks not in SPECIAL else set()
    if kernel.breaks in found:
        return True, found
    return kernel.breaks in SPECIAL and SPECIAL[kernel.breaks](kernel, 0, dtype), found


# honest kernels


def odd(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """The same arguments with a NaN, an infinity, all equal, in strided memory, without dimensions, with nothing."""
    given = [one for one in leaves((arguments.args, arguments.kwargs)) if one.is_floating_point()]
    if not given or not given[0].numel():
        return
    first = given[0]

    def with_first(changed: Tensor) -> Arguments:
        if not wants_gradient(first):
            changed = Maker.buffer(changed)
        return Arguments(*mapped((arguments.args, arguments.kwargs), lambda one: changed if one is first else one))

    for word, value in (("NaN", float("nan")), ("infinity", float("inf")), ("-infinity", -float("inf"))):
        changed = first.clone().reshape(-1)
        changed[changed.numel() // 2] = value
        changed = changed.reshape(first.shape)
        # torch's own gradients at a NaN differ from one size to the next: elu's is 1 in 4 elements and NaN in 16
        yield f"with {word}", with_first(Maker.buffer(changed) if word == "NaN" else changed)
    for word, value in (("zeros", 0.0), ("equal elements", 0.75)):
        yield f"of {word}", with_first(torch.full_like(first, value))
    strided = torch.stack([first, first + 1], -1)[..., 0]
    yield "in strided memory", with_first(strided)
    if len(leaves((arguments.args, arguments.kwargs))) == 1:
        yield "without dimensions", with_first(first.reshape(-1)[0].clone())
        yield "with nothing in front", with_first(first.narrow(0, 0, 0).clone() if first.dim() else first)
        yield "with nothing at the end", with_first(first.narrow(-1, 0, 0).clone() if first.dim() else first)


def beyond(kernel: Kernel, number: int, dtype: torch.dtype) -> Iterator[str]:
    """Where an honest kernel leaves its bound, or breaks the contract, on an input or on an odd form of it."""
    arguments = drawn(kernel, number, dtype)
    yield from _beyond(kernel, arguments, dtype)
    if "dtype" in inspect.signature(kernel.function).parameters and "dtype" not in arguments.kwargs:
        asked = Arguments(arguments.args, {**arguments.kwargs, "dtype": torch.float64})
        for text in _beyond(kernel, asked, dtype, odd=True):
            yield f"with dtype=float64: {text}"
    if dtype == torch.float32:
        for word, changed in odd(arguments):
            for text in _beyond(kernel, changed, dtype, odd=True):
                yield f"{word}: {text}"


def _beyond(kernel: Kernel, arguments: Arguments, dtype: torch.dtype, odd: bool = False) -> Iterator[str]:
    operator = operator_of(kernel.api)
    usual = performed(operator, prepared(arguments))
    if usual.error and odd:
        return
    found = performed(kernel.function, prepared(arguments))
    exact = performed(operator, prepared(arguments, double=True), rounded=dtype)
    if usual.error or found.error:
        yield f"raises: {usual.error or found.error}"
        return
    for place, (one, other, third) in enumerate(zip(found.results, usual.results, exact.results, strict=True)):
        broken = _of_result(one, other, third, found.inputs, usual.inputs, dtype) - {"values", "strides", "signed zero"}
        if broken:
            yield f"breaks {', '.join(sorted(broken))}"
        yield from _outside(one, third, other, kernel.bound, arguments, operator, place, dtype, "result")
    for place, (one, other, third) in enumerate(zip(found.gradients, usual.gradients, exact.gradients, strict=True)):
        if (one is None) != (third is None):
            yield f"gradient {place} is {'missing' if one is None else 'too much'}"
        elif one is not None:
            yield from _outside(
                one, third, other, kernel.gradient_bound, arguments, operator, place, dtype, f"gradient {place}"
            )
    for one, other in zip(found.inputs, usual.inputs, strict=True):
        if apart(one, other, other.double() if other.is_floating_point() else other, dtype):
            yield "writes to its inputs"


def _outside(
    one: Tensor,
    exact: Any,
    usual: Any,
    bound: Bound | None,
    arguments: Arguments,
    operator: Function,
    place: int,
    dtype: torch.dtype,
    word: str,
) -> Iterator[str]:
    assert bound is not None
    if one.shape != exact.shape:
        yield f"{word} of another shape"
        return
    if not one.is_floating_point():
        if not torch.equal(one, usual):
            yield f"{word} differs"
        return
    exact, found, usual = (tensor.detach().double() for tensor in (exact, one, usual))
    given = (arguments.args, arguments.kwargs)
    double = Arguments(*mapped(given, lambda leaf: leaf.double() if leaf.is_floating_point() else leaf))
    allowed = bound.allowed(exact, double, operator, place, dtype)
    off = (found - exact).abs()
    same = [(found == other) | (found.isnan() & other.isnan()) for other in (exact, usual)]
    fails = ~(same[0] | same[1] | (off <= allowed))
    if bool(fails.any()):
        yield f"{word} is {float((off / allowed)[fails].max()):.3g} times its bound"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tests the wild set itself, with torch alone.")
    parser.add_argument("--half", choices=("work", "counted"), default="")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = [one for one in kernels(options.half) if not options.names or one.name in options.names]
    bad = sum(_told(kernel) for kernel in chosen)
    wrong = [one for one in chosen if one.is_wrong]
    counts = Counter(one.half for one in wrong), Counter(one.half for one in chosen if not one.is_wrong)
    operators = len({one.api for one in wrong})
    print(
        f"{len(wrong)} wrong kernels ({counts[0]['work']} work, {counts[0]['counted']} counted) "
        f"of {operators} operators, "
        f"{len(chosen) - len(wrong)} honest ones ({counts[1]['work']} work, {counts[1]['counted']} counted), "
        f"{sum(len(one.dtypes) for one in chosen)} trials, {bad} problems"
    )
    whole = not options.half and not options.names
    few = len(wrong) < LEAST_WRONG or operators < LEAST_OPERATORS or len(chosen) - len(wrong) < LEAST_HONEST
    if whole and few:
        print(f"wanted: {LEAST_WRONG} wrong kernels of {LEAST_OPERATORS} operators and {LEAST_HONEST} honest ones")
    return 1 if bad or (whole and few) else 0


def _told(kernel: Kernel) -> int:
    """Prints what is the matter with a kernel; how many things."""
    said = []
    for dtype in kernel.dtypes:
        kind = str(dtype).removeprefix("torch.")
        try:
            if kernel.is_wrong:
                shown, besides = is_broken(kernel, dtype)
                if not shown:
                    said.append(f"{kind}: does not break {kernel.breaks!r}; breaks {sorted(besides) or 'nothing'}")
            else:
                for number in range(len(kernel.inputs)):
                    said += [f"{kind}, input {number}: {text}" for text in beyond(kernel, number, dtype)]
        except Exception as error:
            said.append(f"{kind}: {type(error).__name__}: {error}")
    for text in said:
        print(f"{kernel.half} {kernel.name}, {text}", file=sys.stderr)
    return len(said)


if __name__ == "__main__":
    raise SystemExit(main())
