"""The cases that nobody here wrote: the sample inputs of torch's own operator database.

Every sample is turned into one API call with its arguments. What is left out is left out by facts about the operator,
before anything is executed, and is counted by reason.
"""

from __future__ import annotations

import sys
import types
import unittest
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from benchmarks.power.recipes import Arguments, is_held_out

RANDOM = "draws random numbers; another implementation may draw others"
UNWRITTEN = "leaves its result unwritten"
LAYOUT = "its result is a memory layout"
CUDA_ONLY = "exists on CUDA alone"
NOT_ONE_CALL = "the database does not make one call of a public API"
UNNAMED = "the function has no public name"
SPARSE = "gives or takes sparse or jagged tensors"

EXCLUDED: dict[str, str] = {
    **dict.fromkeys(
        "bernoulli cauchy exponential geometric log_normal multinomial normal rand_like randint randint_like randn "
        "randn_like uniform nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d "
        "nn.functional.dropout3d nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool2d "
        "nn.functional.fractional_max_pool3d nn.functional.rrelu nn.functional.multi_head_attention_forward "
        "nn.functional.scaled_dot_product_attention_dropout svd_lowrank pca_lowrank native_dropout_backward".split(),
        RANDOM,
    ),
    **dict.fromkeys("empty empty_like empty_permuted empty_strided new_empty new_empty_strided".split(), UNWRITTEN),
    **dict.fromkeys("as_strided as_strided_copy as_strided_scatter resize_ resize_as_".split(), LAYOUT),
    **dict.fromkeys(
        "jiterator_unary jiterator_binary jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref "
        "jiterator_2inputs_2outputs".split(),
        CUDA_ONLY,
    ),
    **dict.fromkeys("to_sparse sparse.sampled_addmm sparse.mm".split(), SPARSE),
}
"""Operators that no two honest implementations need to agree on, with the reason."""


@dataclass(frozen=True)
class Sample:
    """One call. ``id`` says which sample of which operator it is; ``rank`` in which order samples are taken where not
    all of an operator are: spread over the database's own order."""

    id: str
    operator: str
    api: str
    arguments: Arguments
    gradients: bool
    dtype: str
    rank: int

    @property
    def held_out(self) -> bool:
        return is_held_out(self.operator.partition("[")[0])


@dataclass(frozen=True)
class LeftOut:
    """An operator, or some samples of it, that were not executed, and why."""

    operator: str
    reason: str
    count: int = 1


def database() -> list[Any]:
    """The operators of torch. Their module wants a test library that it only needs for its own tests."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            standin = types.ModuleType("expecttest")
            standin.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = standin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of other libraries that its own tests would use
        from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


class _FirstCall(TorchFunctionMode):
    """Notes the outermost call of torch and does not execute it."""

    class Seen(BaseException):
        pass

    def __init__(self) -> None:
        super().__init__()
        self.call: tuple[Any, Any, Any] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.call = (func, args, kwargs or {})
        raise self.Seen


def named_call(operator: Any, sample: Any) -> tuple[str, Arguments] | str:
    """The API and the arguments of one sample, or why there are none."""
    args = (sample.input, *sample.args)
    if _at(operator.name) is operator.op:
        return f"torch.{operator.name}", Arguments(args, dict(sample.kwargs))
    seen = _FirstCall()
    try:
        with seen:
            operator.op(*args, **sample.kwargs)
    except _FirstCall.Seen:
        assert seen.call is not None
        function, args, kwargs = seen.call
        name = _public_name(function)
        return (name, Arguments(tuple(args), dict(kwargs))) if name else UNNAMED
    except Exception:
        pass
    return NOT_ONE_CALL


def _public_name(function: Any) -> str:
    name = resolve_name(function) or ""
    if not name.startswith("torch.") or "._C." in name or "__get__" in name:
        return ""
    return name if _at(name.removeprefix("torch.")) is function else ""


def _at(path: str) -> Any:
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def samples(
    dtypes: Sequence[torch.dtype],
    per_operator: int,
    wanted: Callable[[str], bool] = lambda name: True,
    device: str = "cpu",
) -> Iterator[Sample | LeftOut]:
    """Up to ``per_operator`` samples of each operator and dtype, spread evenly over those of the database."""
    for operator in database():
        name = operator.name + (f"[{operator.variant_test_name}]" if operator.variant_test_name else "")
        if not wanted(name):
            continue
        if operator.name in EXCLUDED:
            yield LeftOut(name, EXCLUDED[operator.name])
            continue
        for dtype in dtypes:
            yield from _of_operator(operator, name, dtype, per_operator, device)


def _of_operator(
    operator: Any, name: str, dtype: torch.dtype, per_operator: int, device: str
) -> Iterator[Sample | LeftOut]:
    kind = str(dtype).removeprefix("torch.")
    places = {"cpu", device.partition(":")[0]}
    lacking = [place for place in sorted(places) if dtype not in operator.supported_dtypes(place)]
    if lacking:
        yield LeftOut(name, f"torch has no {kind} kernel of it on {lacking[0]}")
        return
    backward = all(dtype in operator.supported_backward_dtypes(place) for place in places)
    gradients = operator.supports_autograd and backward
    torch.manual_seed(zlib.crc32(name.encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(operator.sample_inputs("cpu", dtype, requires_grad=gradients))
    for rank, number in enumerate(_spread(len(found), per_operator)):
        called = named_call(operator, found[number])
        if isinstance(called, str):
            yield LeftOut(name, called)
        else:
            api, arguments = called
            yield Sample(f"{name}/{kind}/{number}", name, api, arguments, gradients, kind, rank)


def _spread(total: int, wanted: int) -> list[int]:
    """Numbers below ``total``, far from each other, so that any first few are spread over all."""
    order: list[int] = []
    parts = 1
    while len(order) < min(total, wanted):
        new = [(2 * part + 1) * total // (2 * parts) for part in range(parts)]
        order += [number for number in dict.fromkeys(new) if number not in order]
        parts *= 2
        if parts > 2 * total:
            order += [number for number in range(total) if number not in order]
    return order[:wanted]
