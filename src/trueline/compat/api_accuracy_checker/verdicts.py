"""Two rules over one test of every API: the document's and trueline's, who decided, and counts that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trueline.cases import CaseResult, TensorFinding
from trueline.compat.command import EXIT_CLEAN, EXIT_FAILED, EXIT_FINDINGS
from trueline.records import Verdict

SAME_KERNELS = "the benchmark runs the same kernels here and vouches for nothing"
_WORDS = {Verdict.PASS: "pass", Verdict.WARN: "warning", Verdict.NOT_COMPARED: "SKIP", Verdict.FAIL: "error",
          Verdict.ERROR: "error"}  # fmt: skip
_NAMED = 3


def vouched(old: CaseResult, own: CaseResult) -> CaseResult:
    """What the document's rule says where its benchmark runs on the device under test: an API that trueline, which has
    a benchmark of other kernels, finds wrong or could not compare does not pass by being equal to itself."""
    pairs = zip(old.findings, own.findings, strict=True)
    findings = tuple(_vouched(one, other) for one, other in pairs)
    if old.verdict > Verdict.WARN or own.verdict <= Verdict.WARN:
        return replace(old, findings=findings)
    return replace(old, findings=findings, verdict=own.verdict, reason=f"{own.reason}; {SAME_KERNELS}")


def _vouched(old: TensorFinding, own: TensorFinding) -> TensorFinding:
    if old.verdict > Verdict.WARN or own.verdict <= Verdict.WARN:
        return old
    return replace(old, verdict=own.verdict, reason=f"{own.reason}; {SAME_KERNELS}")


@dataclass(frozen=True, slots=True)
class Tally:
    """What was said of every API call of a file, by both rules; calls that were not tested are skipped by both."""

    old: Mapping[str, Verdict]
    own: Mapping[str, Verdict]
    untested: Sequence[str]

    @property
    def code(self) -> int:
        """1 where either rule finds something wrong; 2 where nothing was compared."""
        said = [*self.old.values(), *self.own.values()]
        if any(one >= Verdict.FAIL for one in said):
            return EXIT_FINDINGS
        return EXIT_CLEAN if any(one <= Verdict.WARN for one in said) else EXIT_FAILED

    def lines(self, target: str) -> list[str]:
        """What to tell: how many, what both rules say, and which of them decided the exit code."""
        total = len(self.old) + len(self.untested)
        return [
            f"{total} API calls, {len(self.old)} tested on {target}",
            f"  by the document's rule: {self._counted(Counter(_WORDS[one] for one in self.old.values()), 'SKIP')}",
            f"  by trueline's rule: {self._counted(Counter(one.name for one in self.own.values()), 'NOT_COMPARED')}",
            f"exit code {self.code}: {self._decided()}",
        ]

    def _counted(self, counts: Counter[str], skipped: str) -> str:
        if self.untested:
            counts[skipped] += len(self.untested)
        return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "nothing"

    def _decided(self) -> str:
        old = [name for name, verdict in self.old.items() if verdict >= Verdict.FAIL]
        own = [name for name, verdict in self.own.items() if verdict >= Verdict.FAIL]
        if own and old:
            return f"by both rules; trueline's finds {_some(own)} wrong"
        if old:
            return f"by the document's rule alone, {_some(old)}; trueline's finds them right (column Verdict)"
        if own:
            return f"by trueline's rule alone, {_some(own)}; the document's lets them pass"
        return "no API is wrong by either rule" if self.code == EXIT_CLEAN else "nothing could be compared"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
