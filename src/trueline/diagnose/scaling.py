"""What loss scaling did in a Run: the scale at each backward pass, and the steps that the scaler skipped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trueline.diagnose.births import BACKWARD, Births
from trueline.ops.facts import facts_of
from trueline.overflows import Skipped
from trueline.records import Call

_UNSCALE = ("non_finite_check_and_unscale", "check_finite_and_unscale")
"""Parts of the names of the calls by which torch and Paddle divide gradients by the scale and look for bad ones."""
_LEAST_SCALE = 8.0
_ROOTS = 3
"""So many backward calls at the beginning of a backward pass are looked at for a loss that was multiplied."""


@dataclass(frozen=True, slots=True)
class Unscaling:
    """One look of the scaler at the gradients."""

    position: int
    scale: float
    found: bool
    skipped: bool


class Scaling:
    """The loss scaling of one rank."""

    def __init__(self, births: Births) -> None:
        self._births = births
        self.looks = self._find()

    def skipped(self) -> list[Skipped]:
        births = self._births
        return [
            Skipped(births.trace.rank, births.step(look.position), look.scale) for look in self.looks if look.skipped
        ]

    def scale_at(self, position: int) -> float | None:
        """The factor by which the loss was multiplied in the backward pass around a call; None where it was not."""
        look = self._next_look(position)
        return look.scale if look is not None else self._multiplied(position)

    def will_be_skipped(self, position: int) -> bool:
        """Whether the scaler sees to it that what is bad at a call is not used."""
        look = self._next_look(position)
        return look is not None and look.skipped

    def is_look(self, position: int) -> bool:
        """Whether a call is one by which the scaler looks at the gradients."""
        return any(look.position == position for look in self.looks)

    def is_scaling(self, call: Call) -> bool:
        """Whether a forward call is the one that multiplies the loss by the scale."""
        if facts_of(call.api).name != "mul" or not call.outputs or any(call.outputs[0].shape):
            return False
        return self._factor(call) is not None

    def _next_look(self, position: int) -> Unscaling | None:
        return next((look for look in self.looks if look.position >= position), None)

    def _find(self) -> list[Unscaling]:
        births = self._births
        names = {number for number, name in births.trace.names.items() if any(part in name for part in _UNSCALE)}
        positions = np.flatnonzero(np.isin(births.trace.column("api"), list(names))).tolist() if names else []
        updates = self._optimizer_positions() if positions else np.empty(0, dtype=np.int64)
        looks = []
        for number, position in enumerate(positions):
            following = positions[number + 1] if number + 1 < len(positions) else len(births.trace)
            found, scale = _read(births.trace.call(position))
            stepped = bool(np.any((updates > position) & (updates < following)))
            looks.append(Unscaling(position, scale, found, found and not stepped))
        return looks

    def _optimizer_positions(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        births = self._births
        inside = births.trace.numbers_of("optimizer")
        return np.flatnonzero(np.isin(births.trace.column("context"), inside))

    def _multiplied(self, position: int) -> float | None:
        """The factor of a loss that the program multiplied by itself."""
        births = self._births
        step = births.step(position)
        same = (births.trace.column("step") == step) & (births.trace.column("phase") == BACKWARD)
        for root in np.flatnonzero(same)[:_ROOTS].tolist():
            forward = births.forward_of(root)
            if forward is None or facts_of(births.api(forward)).name != "mul":
                continue
            factor = self._factor(births.trace.call(forward))
            if factor is not None:
                return factor
        return None

    @staticmethod
    def _factor(call: Call) -> float | None:
        """A number, or a tensor of one element, by which a call multiplies."""
        arguments = (call.arguments or {}).get("args", [])
        numbers = [float(one) for one in arguments if isinstance(one, int | float) and not isinstance(one, bool)]
        for record in call.inputs[1:]:
            if record.statistics is not None and record.statistics.count == 1:
                numbers.append(record.statistics.maximum)
        return next((one for one in numbers if _LEAST_SCALE <= one < float("inf")), None)


def _read(call: Call) -> tuple[bool, float]:
    """Whether bad gradients were found, and the scale: both are tensors of one element."""
    singles = [record for record in call.tensors if record.statistics is not None and record.shape in ((), (1,))]
    found = [record for record in call.outputs if record in singles and record.path.split(".")[1:2] != ["0"]]
    inverse = [record for record in call.inputs if record in singles and record.path.split(".")[1:2] != ["0"]]
    was_found = any(record.statistics is not None and record.statistics.maximum >= 1 for record in found)
    sizes = [record.statistics.maximum for record in inverse if record.statistics is not None]
    scale = min((size for size in sizes if size > 0), default=1.0)
    return was_found, 1.0 / scale
