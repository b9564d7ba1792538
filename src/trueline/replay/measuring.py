"""Work that measures cases: as a job of a worker, or as a function for whoever goes on with what was measured there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trueline.cases import Case, CaseMeasured, Status
from trueline.replay.serial import case_from_json, measured_to_json
from trueline.replay.serve import Spent


class Measuring:
    """A job is a case as JSON, its answer what was measured of it. ``warm_up`` is done before the first, where there is
    something to warm up."""

    def __init__(self, measure: Callable[[Case], CaseMeasured], warm_up: Callable[[], None] | None = None) -> None:
        self._measure = measure
        self.warm_up = warm_up

    def __call__(self, payload: Any) -> Any:
        return measured_to_json(self.measure(case_from_json(payload)))

    def measure(self, case: Case) -> CaseMeasured:
        measured = self._measure(case)
        if measured.candidate.status is Status.CRASHED:  # and this process lives: it has lost its device
            raise Spent(measured.candidate.reason)
        return measured
