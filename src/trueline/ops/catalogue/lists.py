"""Operators on lists of tensors, as optimizers use them, and the fused steps of optimizers."""

from __future__ import annotations

from trueline.ops.catalogue.language import Row, T, Tensor, forward


def _list(of: str = "normal") -> list[object]:
    return [T(6, 11, of=of, grad=False), T(17, of=of, grad=False), T(of=of, grad=False)]


_STEPS = [Tensor((), "float32", "constant(3)", grad=False)] * 3
"""Counts of steps are float32 by contract, whatever the dtype of the parameters."""

_ONE = "abs neg exp sin cos tanh sigmoid ceil floor round trunc erf expm1 sign frac"
_TWO = "add sub mul maximum minimum"

ROWS: list[Row] = [
    *[forward(f"torch._foreach_{name}", _list()) for name in _ONE.split()],
    *[
        forward(f"torch._foreach_{name}", _list("positive"))
        for name in ("sqrt", "log", "rsqrt", "reciprocal", "log1p", "log2")
    ],
    *[forward(f"torch._foreach_{name}_", _list("positive")) for name in ("sqrt", "neg", "exp", "reciprocal", "zero")],
    *[
        row
        for name in _TWO.split()
        for row in (
            forward(f"torch._foreach_{name}", _list(), _list()),
            forward(f"torch._foreach_{name}_", _list(), _list()),
            forward(f"torch._foreach_{name}", _list(), 0.7),
            forward(f"torch._foreach_{name}", _list(), [0.7, 1.5, -2.0]),
        )
    ],
    forward("torch._foreach_add_", _list(), _list(), alpha=-0.01),
    forward("torch._foreach_div", _list(), _list("nonzero")),
    forward("torch._foreach_div_", _list(), 3.0),
    forward("torch._foreach_pow", _list("positive"), 1.7),
    forward("torch._foreach_lerp", _list(), _list(), 0.1),
    forward("torch._foreach_lerp_", _list(), _list(), 0.9),
    *[forward("torch._foreach_norm", _list(), order) for order in (1, 2, float("inf"))],
    *[
        row
        for name in ("addcmul", "addcdiv")
        for row in (
            forward(f"torch._foreach_{name}", _list(), _list(), _list("nonzero"), 0.3),
            forward(f"torch._foreach_{name}_", _list(), _list(), _list("nonzero"), [0.1, -0.2, 0.3]),
        )
    ],
    forward("torch._foreach_clamp_min", _list(), 0.1),
    forward("torch._foreach_clamp_max", _list(), 0.1),
    forward("torch._foreach_copy_", _list(), _list()),
    *[
        forward(
            f"torch.{name}",
            _list(),
            _list(),
            _list(),
            _list("positive"),
            maxima,
            _STEPS,
            lr=1e-3,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.01,
            eps=1e-8,
            amsgrad=bool(maxima),
            maximize=False,
        )
        for name in ("_fused_adam_", "_fused_adamw_")
        for maxima in ([], _list("positive"))
    ],
    forward(
        "torch._fused_adagrad_",
        _list(),
        _list(),
        _list("positive"),
        _STEPS,
        lr=1e-2,
        lr_decay=0.01,
        weight_decay=0.01,
        eps=1e-10,
        maximize=False,
    ),
    forward(
        "torch._fused_sgd_",
        _list(),
        _list(),
        _list(),
        lr=1e-2,
        momentum=0.9,
        weight_decay=0.01,
        dampening=0.0,
        nesterov=True,
        maximize=False,
        is_first_step=False,
    ),
]
