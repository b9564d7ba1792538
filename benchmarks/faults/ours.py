"""Our answers: capture both sides of a pair, compare, read the report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.catalogue import Fault
from benchmarks.faults.pairs import Pair, Side, candidate, reference, reference_key
from benchmarks.faults.scoring import BAD_VERDICTS, Answer, Named, expected, is_origin


def _capture(side: Side, path: Path, data: str) -> None:
    import trueline

    with side.conditions(), trueline.capture(path, data=data, steps=[0]) as capture:
        side.step()
        capture.step()


def _answer(pair: Pair, known: Path, path: Path, data: str) -> Answer:
    import trueline

    start = time.perf_counter()
    side = candidate(pair)
    _capture(side, path, data)
    report = trueline.compare(known, path)
    origin = report.first_divergence
    named = None
    if origin is not None:
        named = Named(origin.api.rpartition(".")[2], origin.index, origin.phase.value, origin.module)
    verdict = report.verdict.name
    right = is_origin(expected(pair), named) if isinstance(pair, Fault) else verdict not in BAD_VERDICTS
    return Answer(
        pair=pair.name,
        right=right,
        verdict=verdict,
        named=str(named) if named else "",
        module=named.module if named else "",
        detail=f"planted in {side.plant.module!r}" if isinstance(pair, Fault) and side.plant else _why(report),
        seconds=time.perf_counter() - start,
    )


def _why(report: Any) -> str:
    return report.origin.explanation if report.origin is not None else ""


def answers(pairs: Sequence[Pair], data: str, scratch: Path, progress: Callable[[str], None]) -> dict[str, Answer]:
    """One answer for each pair; an exception of ours is a wrong answer with its text."""
    result: dict[str, Answer] = {}
    references: dict[str, Path] = {}
    for pair in pairs:
        key = reference_key(pair)
        if key not in references:
            references[key] = scratch / f"{data}_{key}"
            _capture(reference(pair), references[key], data)
        path = scratch / f"{data}_{pair.name}_candidate"
        try:
            result[pair.name] = _answer(pair, references[key], path, data)
        except Exception as error:  # a tool that dies has not answered
            result[pair.name] = Answer(pair.name, False, "raised", detail=f"{type(error).__name__}: {error}")
        shutil.rmtree(path, ignore_errors=True)
        given = result[pair.name]
        progress(f"ours {data}: {pair.name}: {'right' if given.right else 'WRONG'} {given.named or given.verdict}")
    return result
