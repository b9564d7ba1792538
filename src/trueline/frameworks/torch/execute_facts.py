"""What must be known of torch's operators to run one in float64 in place of another dtype, or on another device.

Each row carries its reason. Operators go by their canonical name (``ops.names``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trueline.dtypes import DTYPES
from trueline.frameworks.torch.rebuild import torch_dtype
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical


def with_device_defaults(api: str, args: Sequence[Any], kwargs: dict[str, Any], device: str) -> dict[str, Any]:
    """The keywords of a call with those spelled out whose defaults depend on the device, as they are on ``device``."""
    # On CUDA there is one driver only; that of CPUs gives no residuals, and other gradients with them.
    if canonical(api) == "lstsq" and device == "cuda" and len(args) < 4 and kwargs.get("driver") is None:
        return {**kwargs, "driver": "gels"}
    return kwargs


def tensor_float(api: str, device: str) -> str:
    """The switch by which an operator may round factors of float32 to TF32 on a device, where it is on."""
    if device != "cuda" or facts_of(api).kind not in (Kind.CONTRACTION, Kind.ATTENTION):
        return ""
    if canonical(api).startswith(("conv", "lstm", "gru", "rnn")):
        return "cudnn" if torch.backends.cudnn.allow_tf32 else ""
    return "matmul" if torch.backends.cuda.matmul.allow_tf32 else ""


def with_explicit_defaults(api: str, args: Sequence[Any], kwargs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The keywords of a call with those spelled out whose defaults depend on the dtype, as they are in ``dtype``."""
    rule = _DEFAULTS.get(canonical(api))
    if rule is None or dtype not in DTYPES or not torch_dtype(dtype).is_floating_point:
        return kwargs
    return rule(args, kwargs, torch_dtype(dtype))


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
