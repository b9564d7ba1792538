"""Names that mean the same operator.

``torch.Tensor.matmul``, ``torch.matmul`` and ``torch.Tensor.__matmul__`` are one operator; so are the functional, the
method, the in-place and the list forms of most. ``canonical`` strips what is only spelling and looks up the rest.
"""

from __future__ import annotations

from functools import lru_cache

_SPELLING = frozenset(
    """torch Tensor nn functional _VF special linalg ops aten _C _nn default paddle _C_ops composite""".split()
)
"""Parts of a dotted name that say where a function is kept, not what it does."""

_SYNONYMS = {
    "true_divide": "div",
    "truediv": "div",
    "rtruediv": "reciprocal",
    "divide": "div",
    "rdiv": "reciprocal",
    "multiply": "mul",
    "rmul": "mul",
    "imul": "mul",
    "radd": "add",
    "iadd": "add",
    "subtract": "sub",
    "rsub": "sub",
    "isub": "sub",
    "itruediv": "div",
    "negative": "neg",
    "rmatmul": "matmul",
    "imatmul": "matmul",
    "mm": "matmul",
    "bmm": "matmul",
    "rpow": "pow",
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "t": "transpose",
    "T": "transpose",
    "mT": "transpose",
    "H": "transpose",
    "view": "reshape",
    "_unsafe_view": "reshape",
    "getitem": "index",
    "setitem": "index_put",
    "log_softmax_": "log_softmax",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_batch_norm": "batch_norm",
    "native_group_norm": "group_norm",
    "convolution": "conv",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv3d": "conv",
    "vector_norm": "norm",
    "matrix_norm": "norm",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "float": "to",
    "half": "to",
    "bfloat16": "to",
    "double": "to",
    "type": "to",
    "type_as": "to",
    "_to_copy": "to",
    "cuda": "to",
    "cpu": "to",
    "copy": "to",
    "int": "to",
    "long": "to",
    "short": "to",
    "char": "to",
    "byte": "to",
    "cfloat": "to",
    "cdouble": "to",
    "chalf": "to",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conj_physical": "conj",
    "expit": "sigmoid",
    "fix": "trunc",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "ger": "outer",
    "inverse": "inv",
    "multigammaln": "mvlgamma",
    "pos": "positive",
    "psi": "digamma",
    "trapz": "trapezoid",
}
"""Same arithmetic under another name. A cast is ``to`` whatever the type: the dtypes are recorded beside it."""

_PADDLE_KERNELS = {
    "p_norm": "norm",
    "frobenius_norm": "norm",
    "cross_entropy_with_softmax": "cross_entropy",
    "sigmoid_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
    "bce_loss": "binary_cross_entropy",
    "kldiv_loss": "kl_div",
    "depthwise_conv2d": "conv",
    "conv2d_transpose": "conv_transpose2d",
    "conv3d_transpose": "conv_transpose3d",
    "linear_v2": "linear",
    "fused_gemm_epilogue": "linear",
    "flash_attn": "scaled_dot_product_attention",
    "adam": "_fused_adam",
    "adamw": "_fused_adamw",
    "adagrad": "_fused_adagrad",
    "sgd": "_fused_sgd",
    "full_int_array": "full",
    "memcpy_h2d": "to",
    "memcpy_d2h": "to",
    "cast": "to",
    "assign": "clone",
    "reshape2": "reshape",
    "transpose2": "permute",
    "elementwise_pow": "pow",
    "sync_batch_norm": "batch_norm",
    "gaussian": "normal",
}
"""Kernels of Paddle's (``paddle._C_ops``) whose names are those of no public function."""

_WRAPPERS = frozenset(("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"))
"""Attributes under which data-parallel, compiling and checkpointing wrappers keep the model they wrap."""


@lru_cache(maxsize=8192)
def canonical(api: str) -> str:
    """The operator behind a name: ``torch.Tensor.__matmul__`` -> ``matmul``, ``torch._foreach_add_`` -> ``add``."""
    if api.startswith("paddle."):
        api = _torch_name(api)
    parts = [part for part in api.split(".") if part not in _SPELLING]
    name = parts[-1] if parts else api.rpartition(".")[2]
    if name in ("__get__", "__set__") and len(parts) > 1:
        name = parts[-2]
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
    name = name.removeprefix("_foreach_")
    name = name.rstrip("_") or name
    return _SYNONYMS.get(name, name)


def _torch_name(api: str) -> str:
    """What the mapping says a name of Paddle's is in torch; the name itself where it says nothing."""
    # Imported here: whoever only ever sees torch needs no mapping.
    from trueline.ops.mapping.rows import row_for

    last = api.rpartition(".")[2]
    plain = last if last.endswith("__") else last.rstrip("_")
    if ".distributed." in api:
        return api
    if not api.startswith("paddle._C_ops."):
        row = row_for(api)
        return (row.operator or row.torch) if row is not None else api
    for home in ("paddle", "paddle.nn.functional", "paddle.linalg"):
        row = row_for(f"{home}.{plain}")
        if row is not None:
            return row.operator or row.torch
    return _PADDLE_KERNELS.get(plain, api)


@lru_cache(maxsize=65536)
def module_key(path: str) -> str:
    """A module path without the wrappers around the model: ``module.encoder.0`` -> ``encoder.0``."""
    return ".".join(part for part in path.split(".") if part not in _WRAPPERS)
