"""``run_overflow_check``: of every API in forward_info_{pid}.json that overflows, whether it had to; and of every
backward in backward_info_{pid}.json, which the old tool could not.

Each call is executed, and executed again in float64 or wider on the same inputs. Where the exact result does not fit
its dtype either, the overflow is normal; where it does, the kernel is wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trueline.compat.api_accuracy_checker.run_ut import imported
from trueline.compat.command import EXIT_CLEAN, EXIT_FAILED, EXIT_FINDINGS, Parser, run_command
from trueline.compat.places import say, torch_place
from trueline.formats.names import stem_of
from trueline.overflows import Birth, Nature
from trueline.records import Phase

_SAID = {Nature.EXPECTED: "a normal overflow", Nature.ABNORMAL: "an abnormal overflow"}


def parser() -> Parser:
    options = Parser(
        "run_overflow_check",
        "Says of every API that overflows whether it had to.",
        "run_overflow_check -forward ./forward_info_0.json",
    )
    options.add_argument("-forward", "--forward", required=True, metavar="FILE", help="forward_info_{pid}.json")
    options.add_argument(
        "-backward", "--backward", default="", metavar="FILE",
        help="backward_info_{pid}.json (by default the one beside the other file, where there is one)",
    )  # fmt: skip
    return options


def main(words: Sequence[str] | None = None) -> int:
    return run_command(parser(), run, words)


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.execute import execute
    from trueline.diagnose.overflow import overflow
    from trueline.replay.cases import cases_from_run

    target, notice = torch_place()
    say(notice)
    with tempfile.TemporaryDirectory(prefix="trueline-overflow-check-") as scratch:
        source = imported(Path(options.forward), options.backward, Path(scratch) / "calls")
        cases = [(case.calls[0], case.backward) for case in cases_from_run(source).cases]
        report = execute(source, target=target, out=Path(scratch) / "run")
        found = overflow(Path(scratch) / "run", forecast=False)
        order = _order(Path(scratch) / "run")
    births: dict[tuple[str, Phase], Birth] = {}
    for birth in found.births:
        forward = birth.call.name.rpartition(".")[0]
        births.setdefault((cases[order[forward]][0], birth.call.phase), birth)
    for name, back in cases:
        for phase in (Phase.FORWARD, Phase.BACKWARD) if back else (Phase.FORWARD,):
            print(_sentence(name, phase, births.get((name, phase))))
    print(f"{report.returned} of {report.cases} APIs ran on {target}; {len(births)} overflow")
    if not report.returned:
        return EXIT_FAILED
    return EXIT_FINDINGS if any(one.nature is Nature.ABNORMAL for one in births.values()) else EXIT_CLEAN


def _order(run: Path) -> dict[str, int]:
    """The name of a call of the replay, without its direction -> which case it is."""
    from trueline.store import open_run

    with open_run(run) as opened:
        calls = [call.name for call in opened.rank(0).trace() if call.phase is Phase.FORWARD]
    return {name.rpartition(".")[0]: place for place, name in enumerate(calls)}


def _sentence(call: str, phase: Phase, birth: Birth | None) -> str:
    api, _, number = call.rpartition(".")[0].rpartition(".")
    name = "*".join((*stem_of(api), number)) + (" backward" if phase is Phase.BACKWARD else "")
    if birth is None:
        return f"[{name}] does not overflow"
    return f"[{name}] is {_SAID.get(birth.nature, f'an overflow, {birth.nature.value}')}: {birth.why}"
