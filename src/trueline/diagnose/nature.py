"""Whether an overflow had to happen: the call is executed again, in float64 and by an honest implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.diagnose.operands import Fetch
from trueline.diagnose.replaying import Recorded, Unreplayable, exact_and_honest, numbers_of
from trueline.dtypes import dtype_named
from trueline.errors import RunError, TruelineError
from trueline.ops.facts import facts_of
from trueline.overflows import Nature
from trueline.records import Call, Phase, TensorRecord

Array = NDArray[Any]


def nature_of(call: Call, forward: Call | None, record: TensorRecord, fetch: Fetch) -> tuple[Nature, str]:
    """The nature of a bad result, and the proof in a few words."""
    if not record.stored:
        return Nature.UNKNOWN, "the tensors were not kept, so it was not replayed"
    try:
        exact, honest = exact_and_honest(Recorded(call, fetch, forward), record.path, apart=True)
    except RunError:  # the Run is damaged: nobody may take what is left for an answer
        raise
    except (Unreplayable, TruelineError) as error:
        return Nature.UNKNOWN, f"it could not be replayed: {error}"
    seen = numbers_of(fetch(record), record.dtype)
    if seen.size != exact.size:
        return Nature.UNKNOWN, "it has another shape when replayed"
    if honest is not None and (honest.size != seen.size or _is_direct(call)):
        honest = None
    return _compare(seen, exact, honest, record.dtype)


def _is_direct(call: Call) -> bool:
    """Whether elements are only moved or picked: then nothing can overflow on the way to a result that fits, and no
    implementation that does is honest. Backward gradients may be summed."""
    return facts_of(call.api).exact and call.phase is Phase.FORWARD


def _compare(seen: Array, exact: Array, honest: Array | None, dtype: str) -> tuple[Nature, str]:
    limit = dtype_named(dtype).largest
    with np.errstate(all="ignore"):
        bad = ~np.isfinite(seen)
        fits = bad & np.isfinite(exact) & (np.abs(exact) <= limit)
        if not fits.any():
            return Nature.EXPECTED, _does_not_fit(exact[bad], limit, dtype)
        wrong = fits if honest is None else fits & np.isfinite(honest)
    if not wrong.any():
        value = exact[fits][0]
        return Nature.EXPECTED, f"the exact result, {value:.4g}, would fit, but {dtype} overflows on the way to it"
    place = int(np.flatnonzero(wrong)[0])
    beside = "" if honest is None else f", and a trusted implementation gives {honest[place]:.4g}"
    return Nature.ABNORMAL, f"the exact result is {exact[place]:.4g}, which fits {dtype}{beside}"


def _does_not_fit(exact: Array, limit: float, dtype: str) -> str:
    finite = np.abs(exact[np.isfinite(exact)])
    if len(finite):
        return f"the exact result, {float(finite.max()):.4g}, does not fit {dtype} (largest {limit:.4g})"
    if np.isnan(exact).all():
        return "the exact result is not a number either"
    return "the exact result is infinite as well"
