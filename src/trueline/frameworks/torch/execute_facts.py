"""What must be known of torch's operators to run one in float64 in place of another dtype.

Each row carries its reason. Operators go by their canonical name (``ops.names``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from trueline.cases import Case
from trueline.ops.names import canonical
from trueline.tree import Tree

_REDUCED = "allow_fp16_bf16_reduction_math_sdp"
"""Lets the plain composition of attention keep the dtype of its inputs in between; not on CUDA alone."""

_DEFINED_BY_DTYPE = {
    "to": "a cast is fixed to the bit by its two types: its gold is what they say, not what was there before",
    "nextafter": "the next number is another one in every dtype",
    "frexp": "takes apart the representation of a number",
}


def is_defined_by_dtype(case: Case) -> bool:
    """Whether an operator means something else in float64: then its gold is its result in its own dtype."""
    name = canonical(case.api)
    return name in _DEFINED_BY_DTYPE or (name == "reshape" and _names_a_dtype(case.arguments))  # view(dtype): bits


def _names_a_dtype(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return "$dtype" in tree or any(_names_a_dtype(value) for value in tree.values())
    return isinstance(tree, list) and any(_names_a_dtype(item) for item in tree)


_ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
"""Every fast kernel rounds the probabilities to the dtype of the inputs before the second product, and in the backward
what it sends back through them; torch's kernel for CPUs does not round both. An honest implementation may."""


def has_other_way(api: str, dtype: str) -> bool:
    """Whether honest implementations of an operator compute in ways that differ in what they round."""
    return canonical(api) in _ATTENTION and dtype in ("bfloat16", "float16") and hasattr(torch.backends.cuda, _REDUCED)


@contextmanager
def other_way() -> Iterator[None]:
    """Computes attention as the plain composition of its steps, each rounded to the dtype of the inputs."""
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


_KEEPS_ITS_DTYPE: Mapping[str, tuple[str, ...]] = {
    "_fused_adam": ("args.5", "kwargs.state_steps", "kwargs.grad_scale", "kwargs.found_inf"),
    "_fused_adamw": ("args.5", "kwargs.state_steps", "kwargs.grad_scale", "kwargs.found_inf"),
    "_fused_adagrad": ("args.3", "kwargs.state_steps", "kwargs.grad_scale", "kwargs.found_inf"),
}
"""Arguments that count or scale and are float32 by contract, whatever the dtype of the rest."""


def keeps_its_dtype(api: str, path: str) -> bool:
    """Whether the tensor at a path stays what it is when a Case is executed in another dtype."""
    kept = _KEEPS_ITS_DTYPE.get(canonical(api), ())
    return any(path == one or path.startswith(one + ".") for one in kept)


def with_explicit_defaults(api: str, args: Sequence[Any], kwargs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The keywords of a call with those spelled out whose defaults depend on the dtype, as they are in ``dtype``."""
    rule = _DEFAULTS.get(canonical(api))
    kind = getattr(torch, dtype, None)
    if rule is None or not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        return kwargs
    return rule(args, kwargs, kind)


def _rms_norm(args: Sequence[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """eps=None is the epsilon of the type that is computed in, which for half types is float32."""
    if len(args) > 3 or kwargs.get("eps") is not None:
        return kwargs
    return {**kwargs, "eps": torch.finfo(torch.float32 if dtype.itemsize < 4 else dtype).eps}


def _nan_to_num(args: Sequence[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Infinities become the largest numbers of the dtype."""
    limits = torch.finfo(dtype)
    for position, name, value in ((2, "posinf", limits.max), (3, "neginf", limits.min)):
        if len(args) <= position and kwargs.get(name) is None:
            kwargs = {**kwargs, name: value}
    return kwargs


def _relative_tolerance(keyword: str, position: int) -> Callable[..., dict[str, Any]]:
    """Singular values below max(rows, columns) * epsilon times the largest count as zero."""

    def rule(args: Sequence[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
        given = len(args) > position or any(kwargs.get(name) is not None for name in ("atol", keyword, "tol"))
        if given or not args or not isinstance(args[0], torch.Tensor) or args[0].ndim < 2:
            return kwargs
        return {**kwargs, keyword: max(args[0].shape[-2:]) * torch.finfo(dtype).eps}

    return rule


_DEFAULTS: Mapping[str, Callable[[Sequence[Any], dict[str, Any], torch.dtype], dict[str, Any]]] = {
    "rms_norm": _rms_norm,
    "nan_to_num": _nan_to_num,
    "pinv": _relative_tolerance("rtol", 1),
    "matrix_rank": _relative_tolerance("rtol", 1),
    "lstsq": _relative_tolerance("rcond", 2),
}
