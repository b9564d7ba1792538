"""What the ledger and the workers' own record say when a campaign has ended, each checked against the other."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.million.corpus import expected
from trueline.cases import Ending


@dataclass(slots=True)
class Proof:
    """``faults`` is empty where all holds."""

    lines: int
    rows: int = 0
    skipped: int = 0
    endings: dict[str, int] = field(default_factory=dict)
    otherwise: int = 0
    """Cases that ended otherwise than their line must: those whose worker was killed, twice or over its first case."""
    executed: int = 0
    executed_again: int = 0
    most_executions: int = 0
    interrupted: int = 0
    faults: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def prove(ledger: Path, executions: Path, corpus: Path, lines: int, may_repeat: int = 0) -> Proof:
    """Goes through all lines and rows once, in order, side by side. ``may_repeat`` is how many cases were in the hands
    of workers that were killed: each may have been executed again, or be lost with its worker."""
    proof = Proof(lines)
    connection = sqlite3.connect(ledger)
    try:
        _every_line_once(connection, corpus, proof)
        _endings_add_up(connection, proof)
        _only_what_was_in_flight_ran_again(connection, executions, proof, may_repeat)
    finally:
        connection.close()
    if proof.otherwise > may_repeat:
        proof.faults.append(f"{proof.otherwise} cases ended otherwise than they must")
    return proof


def _every_line_once(connection: sqlite3.Connection, corpus: Path, proof: Proof) -> None:
    rows = connection.execute("SELECT line, count, ending FROM cases ORDER BY number")
    skips = connection.execute("SELECT place, count FROM skips ORDER BY number")
    stood_for = 0
    for line in expected(proof.lines):
        place = f"{corpus}:{line.number}"
        found = (rows if line.readable else skips).fetchone()
        if found is None or found[:2] != (place, line.count):
            proof.faults.append(f"line {line.number} should have a row for {line.count}, there is {found}")
            return
        stood_for += line.count
        if line.readable:
            proof.rows += 1
            proof.otherwise += found[2] != line.ending
            if found[2] is None:
                proof.faults.append(f"line {line.number} has not ended")
                return
        else:
            proof.skipped += 1
    if rows.fetchone() is not None or skips.fetchone() is not None:
        proof.faults.append("there are rows that belong to no line")
    if stood_for != proof.lines:
        proof.faults.append(f"rows stand for {stood_for} lines of {proof.lines}")


def _endings_add_up(connection: sqlite3.Connection, proof: Proof) -> None:
    proof.endings = dict(connection.execute("SELECT ending, COUNT(*) FROM cases GROUP BY ending ORDER BY 2 DESC"))
    unknown = set(proof.endings) - {ending.value for ending in Ending}
    if unknown:
        proof.faults.append(f"endings that are none: {unknown}")
    if sum(proof.endings.values()) != proof.rows:
        proof.faults.append(f"endings add up to {sum(proof.endings.values())}, there are {proof.rows} rows")
    if connection.execute("SELECT COUNT(*) FROM flights").fetchone()[0]:
        proof.faults.append("cases are still in flight")


def _only_what_was_in_flight_ran_again(
    connection: sqlite3.Connection, executions: Path, proof: Proof, may_repeat: int
) -> None:
    """The workers' record of executions against the ledger's history of attempts."""
    times = np.zeros(proof.lines + 1, dtype=np.int32)
    for path in executions.iterdir():
        np.add.at(times, np.frombuffer(path.read_bytes()[: path.stat().st_size // 4 * 4], dtype="<i4"), 1)
    proof.executed = int(times.sum())
    proof.executed_again = int((times > 1).sum())
    proof.most_executions = int(times.max())
    flown = np.zeros(proof.lines + 1, dtype=np.int32)
    query = "SELECT line FROM attempts JOIN cases USING (number)"
    for (line,) in connection.execute(query):
        flown[int(line.rpartition(":")[2])] += 1
        proof.interrupted += 1
    never = sum(1 for line in expected(proof.lines) if line.readable and not times[line.number])
    if never:
        proof.faults.append(f"{never} cases have an ending and were never executed")
    # A case whose worker was killed is tried once more, by the same coordinator.
    beyond = np.flatnonzero(times > 1 + flown + 1)
    if beyond.size:
        proof.faults.append(f"{beyond.size} cases were executed more often than they were in flight, e.g. {beyond[:5]}")
    repeated = int((times > 1 + flown).sum())  # although no coordinator was killed over them
    if repeated > may_repeat:
        proof.faults.append(f"{repeated} cases were executed again without being in flight, {may_repeat} may have been")
