"""Files of an attacker, given to every command that reads files of others: what was executed, written, read, passed.

    python -m benchmarks.hostile                     all names by all ways, some ten minutes
    python -m benchmarks.hostile --way "Run under check" --show      only this way; the results of the others stay
    python -m benchmarks.hostile --share 16          of the calls that take a command each, one of 16

The names (``tests/hostile``) are divided by the SHA-256 of name and arguments into a half to work with and a half that
is only counted. Writes ``benchmarks/results/hostile.md`` and ``.json``; no name of the counted half stands in them, and
``--show`` tells none of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.hostile.bait import UNKNOWN
from tests.hostile.names import Hostile, everything
from tests.hostile.victim import Result
from tests.hostile.ways import WAYS, tried

from benchmarks.tables import table

RESULTS = Path(__file__).resolve().parent / "results"
ALONE = ("each call compared", "scripts of show --save")
HALVES = ("to work with", "only counted")
COUNTS = ("names", "executed", "written", "read", "passed", "reached")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--way", action="append", choices=list(WAYS), help="only this way; may be given again")
    options.add_argument("--share", type=int, default=1, help="one of so many calls, where each takes a command")
    options.add_argument("--all", action="store_true", help="--share for every way, for a quick look")
    options.add_argument("--show", action="store_true", help="tell the names of the half to work with")
    options.add_argument("--seconds", type=float, default=300.0, help="for each command")
    given = options.parse_args()
    calls = everything()
    written = RESULTS / "hostile.json"
    ways: dict[str, dict[str, Any]] = json.loads(written.read_text())["ways"] if given.way and written.exists() else {}
    for name in given.way or WAYS:
        chosen = calls[:: given.share] if name in ALONE or given.all else calls
        ways[name] = measured(name, chosen, given.seconds, show=given.show)
        print(f"{name}: {ways[name]}", flush=True)
        write({one: ways[one] for one in WAYS if one in ways}, calls)


def measured(name: str, calls: Sequence[Hostile], seconds: float, *, show: bool) -> dict[str, Any]:
    """The counts of one way, for each half."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as folder:
        result = tried(name, Path(folder), calls, seconds)
    counts = {half: counted(result, calls, half == HALVES[1]) for half in HALVES}
    if show:
        tell(result)
    return {
        "counts": counts,
        "not known which": sum(UNKNOWN in one for one in (result.harm.executed, result.harm.written, result.harm.read)),
        "tracebacks": len(result.tracebacks),
        "harmless done": result.good,
        "codes": sorted({done.code for done in result.commands}),
        "seconds": time.monotonic() - began,
    }


def counted(result: Result, calls: Sequence[Hostile], only_counted: bool) -> dict[str, int]:
    """How many calls of a half did what."""
    half = {call.number for call in result.calls if call.counted_only == only_counted}
    declared = {call.number for call in calls if call.declared}
    sets = {
        "executed": result.harm.executed,
        "written": result.harm.written,
        "read": result.harm.read,
        "passed": result.passed(),
        "reached": result.reached() - declared,
    }
    return {"names": len(half), **{kind: len(numbers & half) for kind, numbers in sets.items()}}


def tell(result: Result) -> None:
    """What each call of the half to work with did."""
    for call in result.calls:
        if call.counted_only:
            continue
        did = [kind for kind in ("executed", "written", "read") if call.number in getattr(result.harm, kind)]
        row = result.rows.get(call.number)
        if did or (row is not None and row.state != "refused"):
            print(f"  {call.kind}: {call.name[:90]!r} {did} {row.state + ': ' + row.reason[:90] if row else ''}")
    for text in [one for one in result.harm.told if "-0" not in one or "-0000" in one or "-0001" in one][:20]:
        print(f"  not known which: {text}")
    for text in result.tracebacks:
        print(f"  traceback: {text}")


def write(ways: dict[str, dict[str, Any]], calls: Sequence[Hostile]) -> None:
    """The tables."""
    rows = []
    for name, found in ways.items():
        cells = [" + ".join(str(found["counts"][half][kind]) for half in HALVES) for kind in COUNTS]
        rows.append([name, *cells, str(found["tracebacks"]), "yes" if found["harmless done"] else "no"])
    totals = [
        " + ".join(str(sum(way["counts"][half][kind] for way in ways.values())) for half in HALVES) for kind in COUNTS
    ]
    rows.append(["all ways", *totals, str(sum(way["tracebacks"] for way in ways.values())), ""])
    held = sum(call.counted_only for call in calls)
    names, kinds = len({call.name for call in calls}), len({call.kind for call in calls})
    text = (
        "# Hostile files\n\n"
        f"{len(calls)} calls with {names} names in {kinds} kinds, {len(calls) - held} to work with + {held} only "
        "counted, in each column; made by `python -m benchmarks.hostile`.\n\n"
        "*Executed*: a command, Python, a module, a library, a connection. *Written*, *read*: a file that the call "
        "names. *Passed*: its row says that it is fine. *Reached*: it is no declared operator, and yet was called and "
        "failed.\n\n" + table(["way in", *COUNTS, "tracebacks", "harmless calls done"], rows)
    )
    (RESULTS / "hostile.md").write_text(text, encoding="utf-8")
    (RESULTS / "hostile.json").write_text(
        json.dumps({"calls": len(calls), "counted": held, "ways": ways}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
