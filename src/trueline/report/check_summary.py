"""What is counted of a check, from the results themselves or from whoever counted them already.

Results are any sequence; those of a kept check read themselves from a ledger and know their own counts (``Counted``),
so that a million of them need not be gone through to say how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from trueline.cases import CaseResult, CheckInfo, Ending
from trueline.records import Verdict

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Summary:
    """``cases`` stand for ``calls`` of the sources; ``left`` of them were not executed. Every case has one verdict and
    one ending."""

    cases: int
    calls: int
    verdicts: Mapping[Verdict, int]
    endings: Mapping[Ending, int]
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Reason -> cases."""
    simulated: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    left: int = 0

    @property
    def verdict(self) -> Verdict:
        """The worst of all cases; NOT_COMPARED where there are none."""
        return max((verdict for verdict, count in self.verdicts.items() if count), default=Verdict.NOT_COMPARED)


@runtime_checkable
class Counted(Protocol):
    """Results that know more of themselves than a sequence does."""

    def summary(self) -> Summary: ...

    def wrong(self) -> Sequence[CaseResult]: ...

    def not_right(self) -> Sequence[CaseResult]: ...

    def by_api(self) -> Iterator[tuple[str, Sequence[CaseResult]]]: ...

    def tallies(self) -> tuple[Mapping[Verdict, int], float]: ...

    def skips(self) -> Iterator[tuple[str, str, int]]: ...


def summary_of(results: Sequence[CaseResult]) -> Summary:
    """Everything that is counted."""
    if isinstance(results, Counted):
        return results.summary()
    return Summary(
        cases=len(results),
        calls=sum(result.case.count for result in results),
        verdicts=_counts((result.verdict for result in results), Verdict),
        endings=_counts((result.ending for result in results), Ending),
        not_compared=_most(result.reason for result in results if result.verdict is Verdict.NOT_COMPARED),
        simulated=_most(why for result in results if (why := result.measured.candidate.simulated)),
        warnings=_most(f"{one.case.api}: {one.reason}" for one in results if one.verdict is Verdict.WARN),
        seconds=sum(result.measured.candidate.seconds for result in results),
    )


def skips_of(info: CheckInfo, results: Sequence[CaseResult]) -> Iterator[tuple[str, str, int]]:
    """What became no case: where it stands, why, and how many calls it is. Where nobody knows where, one for each
    reason."""
    found = results.skips() if isinstance(results, Counted) else iter(())
    first = next(found, None)
    if first is None:
        yield from (("", reason, count) for reason, count in info.skipped.items())
        return
    yield first
    yield from found


def wrong_of(results: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """The wrong cases, the worst first: errors, then by score."""
    if isinstance(results, Counted):
        return results.wrong()
    wrong = [result for result in results if result.verdict >= Verdict.FAIL]
    return sorted(wrong, key=lambda result: (-result.verdict, -_key(result.score)))


def not_right_of(results: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """The cases that did not simply pass, the worst first."""
    if isinstance(results, Counted):
        return results.not_right()
    found = [result for result in results if result.verdict is not Verdict.PASS]
    return sorted(found, key=lambda result: (-result.verdict, -_key(result.score)))


def by_api_of(results: Sequence[CaseResult]) -> Iterator[tuple[str, Sequence[CaseResult]]]:
    """The cases of each API, in the order in which the APIs first occur."""
    if isinstance(results, Counted):
        yield from results.by_api()
        return
    groups: dict[str, list[CaseResult]] = {}
    for result in results:
        groups.setdefault(result.case.api, []).append(result)
    yield from groups.items()


def tallies_of(results: Sequence[CaseResult]) -> tuple[Mapping[Verdict, int], float]:
    """How many cases have which verdict, and the sum of their seconds."""
    if isinstance(results, Counted):
        return results.tallies()
    verdicts = _counts((result.verdict for result in results), Verdict)
    return verdicts, sum(result.measured.candidate.seconds for result in results)


def _key(score: float | None) -> float:
    return -1.0 if score is None else score


def _counts(found: Iterable[Kind], kinds: Iterable[Kind]) -> dict[Kind, int]:
    counts = Counter(found)
    return {kind: counts[kind] for kind in kinds}


def _most(reasons: Iterable[str]) -> dict[str, int]:
    return dict(Counter(reasons).most_common())
