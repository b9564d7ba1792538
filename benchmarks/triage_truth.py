"""Config lines of our own whose failures are known, with what triage must say of each: the truth of its benchmark.

Planted faults are functions of ``tests.helpers.faulty_paddle`` that stand in for an operator. The others are defects of
paddle 3.3.1 on the CPU, looked at by hand: float64 kernels with float32 constants inside, the gradient of a full
``min`` whose time grows with the square of the size, and a segmentation fault in ``fused_rms_norm``.
"""

from __future__ import annotations

from dataclasses import dataclass

from trueline.groups import Label, Look

FAULTS = "tests.helpers.faulty_paddle"


@dataclass(frozen=True, slots=True)
class Truth:
    """Lines of one API that fail for one cause."""

    api: str
    lines: tuple[str, ...]
    label: Label
    look: Look
    fault: str = ""
    """The function that stands in; empty for a real defect."""


def _unary(api: str, dtype: str = "float32", shapes: tuple[str, ...] = ("[16, 33]", "[128]")) -> tuple[str, ...]:
    return tuple(f'{api}(Tensor({shape},"{dtype}"), )' for shape in shapes)


F = "paddle.nn.functional"

PLANTED = (
    Truth("paddle.tanh", _unary("paddle.tanh"), Label.TARGET, Look.FACTOR, "factor"),
    Truth("paddle.sin", _unary("paddle.sin"), Label.TARGET, Look.OFFSET, "offset"),
    Truth("paddle.cos", _unary("paddle.cos"), Label.NONDETERMINISTIC, Look.UNSTABLE, "nondeterministic"),
    Truth(f"{F}.sigmoid", _unary(f"{F}.sigmoid", "float64"), Label.TARGET, Look.NARROWER, "narrower"),
    Truth(f"{F}.softmax", _unary(f"{F}.softmax"), Label.TARGET, Look.ONE_ELEMENT, "one_element"),
    Truth(f"{F}.gelu", _unary(f"{F}.gelu"), Label.TARGET, Look.FACTOR, "half_gradient"),
    Truth(f"{F}.relu6", _unary(f"{F}.relu6", shapes=("[64, 2000]",)), Label.TARGET, Look.GROSS, "not_clipped"),
    Truth(f"{F}.silu", _unary(f"{F}.silu"), Label.TARGET, Look.RAISES, "raises"),
    Truth(f"{F}.softsign", _unary(f"{F}.softsign"), Label.TARGET, Look.NOT_FINITE, "not_finite"),
    Truth("paddle.sqrt", _unary("paddle.sqrt"), Label.TARGET, Look.STRUCTURE, "other_dtype"),
    Truth("paddle.cumsum", tuple(f'paddle.cumsum(Tensor({s},"float32"), axis=-1, )' for s in ("[16, 33]", "[8, 60]")),
          Label.TARGET, Look.EDGES, "wrong_edge"),
    Truth("paddle.argmax", _unary("paddle.argmax", shapes=("[64]", "[8, 9]")), Label.TARGET, Look.EXACT, "next_index"),
    Truth("paddle.square", _unary("paddle.square", shapes=("[60000]",)), Label.TOO_SLOW, Look.TIMEOUT, "quadratic"),
    Truth("paddle.log1p", _unary("paddle.log1p"), Label.CRASHES, Look.CRASH, "crashes"),
    Truth("paddle.expm1", _unary("paddle.expm1", shapes=("[40]",)), Label.TOO_SLOW, Look.TIMEOUT, "hangs"),
    Truth("paddle.erf", _unary("paddle.erf", shapes=("[640]",)), Label.TARGET, Look.MEMORY, "eats_memory"),
)  # fmt: skip

REAL = (
    Truth("paddle.stanh", _unary("paddle.stanh", "float64"), Label.TARGET, Look.NARROWER),
    Truth(f"{F}.selu", _unary(f"{F}.selu", "float64"), Label.TARGET, Look.NARROWER),
    Truth(f"{F}.celu", tuple(f'{F}.celu(Tensor({s},"float64"), alpha=0.3, )' for s in ("[16, 33]", "[128]")),
          Label.TARGET, Look.NARROWER),
    Truth(f"{F}.label_smooth", _unary(f"{F}.label_smooth", "float64", ("[16, 33]", "[4, 8, 9]")), Label.TARGET,
          Look.NARROWER),
    Truth("paddle.Tensor.min", _unary("paddle.Tensor.min", "float64", ("[240640]",)), Label.TOO_SLOW, Look.TIMEOUT),
    Truth("paddle.incubate.nn.functional.fused_rms_norm",
          ('paddle.incubate.nn.functional.fused_rms_norm(Tensor([2, 256],"float32"), Tensor([256],"float32"), '
           'Tensor([256],"float32"), 1e-06, begin_norm_axis=1, )',),
          Label.CRASHES, Look.CRASH),
)  # fmt: skip

UNSUPPORTED = (
    Truth("paddle.trace", _unary("paddle.trace", "bfloat16", ("[8, 8]",)), Label.UNSUPPORTED, Look.MISSING_KERNEL),
    Truth("paddle.erfinv", _unary("paddle.erfinv", "float16", ("[8, 8]",)), Label.UNSUPPORTED, Look.MISSING_KERNEL),
)
RIGHT = (*_unary("paddle.floor"), *_unary("paddle.abs"), *_unary(f"{F}.hardswish"))
"""Lines that pass."""
