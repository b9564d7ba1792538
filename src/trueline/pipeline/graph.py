"""The graph of stages while it is worked on: what may start now, what is skipped and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trueline.errors import UsageError
from trueline.pipelines import Stage, StageKind, StageResult, StageStatus
from trueline.records import Verdict


class Graph:
    """Stages in the order of the plan, and how those that ended did."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = {stage.name: stage for stage in stages}
        self._started: set[str] = set()
        self.results: dict[str, StageResult] = {}
        for stage in stages:
            unknown = [name for name in stage.after if name not in self._stages]
            if unknown:
                raise UsageError(f"the stage {stage.name} is to follow {unknown[0]}, which is no stage of the plan")
        self._refuse_circles()

    @property
    def finished(self) -> bool:
        return len(self.results) == len(self._stages)

    def ready(self, running: Sequence[Stage]) -> Iterator[Stage]:
        """Stages that may start now, beside those that run: what they need is done, and no card is taken twice."""
        taken = {card for stage in running for card in cards_of(stage)}
        for name, stage in self._stages.items():
            if name in self._started or not self._may_start(stage):
                continue
            cards = cards_of(stage)
            if not taken & cards:
                taken |= cards
                yield stage

    def start(self, stage: Stage) -> None:
        self._started.add(stage.name)

    def end(self, result: StageResult) -> list[StageResult]:
        """Writes a result down; gives those of the stages that are skipped because of it."""
        self.results[result.stage.name] = result
        self._started.add(result.stage.name)
        if result.status is StageStatus.DONE:
            return []
        skipped: list[StageResult] = []
        for stage in self._stages.values():
            if stage.name not in self._started and result.stage.name in stage.after:
                cause = result.reason if result.status is StageStatus.SKIPPED else _cause(result)
                mine = StageResult(stage, StageStatus.SKIPPED, Verdict.NOT_COMPARED, cause)
                skipped += [mine, *self.end(mine)]
        return skipped

    def give_up(self, reason: str) -> list[StageResult]:
        """Skips whatever has not ended."""
        left = [stage for stage in self._stages.values() if stage.name not in self.results]
        found = [StageResult(stage, StageStatus.SKIPPED, Verdict.NOT_COMPARED, reason) for stage in left]
        self.results.update({result.stage.name: result for result in found})
        self._started.update(self._stages)
        return found

    def in_order(self) -> tuple[StageResult, ...]:
        return tuple(self.results[name] for name in self._stages if name in self.results)

    def _may_start(self, stage: Stage) -> bool:
        done = all(name in self.results and self.results[name].status is StageStatus.DONE for name in stage.after)
        return done and all(name in self.results for name in stage.waits if name in self._stages)

    def _refuse_circles(self) -> None:
        settled: set[str] = set()
        for name in self._stages:
            path: dict[str, None] = {}
            self._visit(name, path, settled)

    def _visit(self, name: str, path: dict[str, None], settled: set[str]) -> None:
        if name in settled:
            return
        if name in path:
            raise UsageError(f"stages wait for each other: {' -> '.join([*path, name])}")
        path[name] = None
        stage = self._stages[name]
        for before in (*stage.after, *stage.waits):
            if before in self._stages:
                self._visit(before, path, settled)
        del path[name]
        settled.add(name)


def _cause(result: StageResult) -> str:
    return f"{result.stage.name} {'is' if result.status is StageStatus.UNSUPPORTED else 'ended'}: {result.status}"


def cards_of(stage: Stage) -> set[str]:
    """The cards that a stage keeps busy; one that runs elsewhere, or on the CPU, keeps none."""
    if stage.kind in (StageKind.CHECK, StageKind.PREPARE) or stage.settings.get("device") == "cpu":
        return set()
    cards = [card for card in stage.devices.rpartition(";")[2].split(",") if card.strip().isdigit()]
    return set(cards if stage.kind is StageKind.TRAIN else cards[:1])
