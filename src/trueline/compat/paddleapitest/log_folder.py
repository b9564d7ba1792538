"""The log folder of engineV2: one config a line in ``checkpoint.txt`` and in exactly one ``api_config_<status>.txt``.

    checkpoint.txt             configs that have ended (not: that have begun)
    api_config_<status>.txt    the same, by how they ended
    log_inorder.log            what was said of each, in the order in which they ended
    tol.csv                    --test_tol: a row for each tensor
    verdicts.csv               ours: the verdict of trueline beside the status, with its reason
    .trueline/<n>/             ours: the n-th batch, its lines and its check, which ``trueline report`` reads

A status is the answer of the old rule. One process writes, each line when the config has ended. A kill loses what was
running and what ended in the last moment; the next run notices, and tests these again.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TextIO

from trueline.cases import Ending
from trueline.errors import UsageError
from trueline.ops.mapping import rows
from trueline.report.csv import safe

CHECKPOINT, INORDER, TOL, VERDICTS, BATCHES = (
    "checkpoint.txt", "log_inorder.log", "tol.csv", "verdicts.csv", ".trueline"
)  # fmt: skip
ENDED = "ended"
"""Marks a batch that ended, or was reconciled."""
SKIP, NO_COUNTERPART = "skip", "paddle_to_torch_failed"

STATUSES = {
    Ending.PASS: "pass",
    Ending.MISMATCH: "accuracy_error",
    Ending.TARGET_RAISES: "paddle_error",
    Ending.UNSUPPORTED: "paddle_error",
    Ending.REFERENCE_RAISES: "torch_error",
    Ending.HARNESS_ERROR: "numpy_error",
    Ending.TIMED_OUT: "timeout",
    Ending.CRASHED: "crash",
    Ending.OUT_OF_MEMORY: "oom",
    Ending.SKIPPED: SKIP,
}
"""How a case ended -> the file that engineV2 has for it. It has none of its own for kernels that are not there."""
FILES = tuple(dict.fromkeys((*STATUSES.values(), NO_COUNTERPART)))
_TAGS = {"pass": "[Pass]", "skip": "[Skip]", NO_COUNTERPART: "[paddle_to_torch]"}
VERDICT_COLUMNS = ("API", "config", "engineV2", "Verdict", "Ending", "Score", "Reason", "Seconds", "check")


def status_of(ending: Ending, api: str) -> str:
    """The status of a case. What was not compared because torch has no such function has a file of its own."""
    if ending is Ending.SKIPPED and api.startswith("paddle.") and api not in rows():
        return NO_COUNTERPART
    return STATUSES[ending]


class LogFolder:
    """A log folder, opened to go on. It makes itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--log_dir: cannot make {path}: {error.strerror or error}") from None
        self.done = set(lines_of(path / CHECKPOINT))
        self.counts: Counter[str] = Counter()
        self._open: dict[str, TextIO] = {}
        for config in self.recorded():  # a kill between two files leaves one of them behind
            if config not in self.done:
                self._write(CHECKPOINT, f"{config}\n")
                self.done.add(config)

    def __enter__(self) -> LogFolder:
        return self

    def __exit__(self, *exception: object) -> None:
        for stream in self._open.values():
            stream.close()
        self._open.clear()

    def batch(self, configs: Iterable[str]) -> Path:
        """A new batch: a folder with the lines to be tested in ``configs.txt``."""
        numbers = [int(one.name) for one in self.batches()]
        folder = self.path / BATCHES / str(max(numbers, default=0) + 1)
        folder.mkdir(parents=True)
        (folder / "configs.txt").write_text("".join(f"{one}\n" for one in configs), encoding="utf-8")
        return folder

    def batches(self) -> list[Path]:
        found = (self.path / BATCHES).glob("[0-9]*")
        return sorted((one for one in found if one.name.isdigit()), key=lambda one: int(one.name))

    def ended(self, config: str, status: str, reason: str = "") -> str:
        """Writes down how a config ended, for good; gives the line of the log."""
        tag = _TAGS.get(status) or "[" + status.replace("_", " ") + "]"
        said = f"{tag} {config}"
        now = datetime.now().isoformat(sep=" ")
        self._write(INORDER, f"{now} test end: {config}\n{said}\n" + (f"{reason}\n" if reason else ""))
        self._write(f"api_config_{status}.txt", f"{config}\n")
        self._write(CHECKPOINT, f"{config}\n")
        self.done.add(config)
        self.counts[status] += 1
        return said

    def reconcile(self) -> None:
        """Takes back what a batch that was killed told of and did not keep: its check commits a moment later than the
        lines are written. What it has is true; the rest is tested again."""
        from trueline.campaign import load_check
        from trueline.campaign.shelf import NOT_EXECUTED

        for folder in self.batches():
            if (folder / ENDED).exists():
                continue
            if (folder / "check" / "check.json").exists():
                configs = lines_of(folder / "configs.txt")
                results = load_check(folder / "check").results
                kept = {configs[line_number(one.case.calls[0]) - 1] for one in results
                        if one.measured.skipped != NOT_EXECUTED}  # fmt: skip
                self._forget(set(configs) - kept)
            (folder / ENDED).touch()

    def _forget(self, configs: set[str]) -> None:
        if not configs & self.done:
            return
        for name in (*(f"api_config_{status}.txt" for status in FILES), CHECKPOINT):
            path = self.path / name
            lines = lines_of(path)
            kept = [line for line in lines if line not in configs]
            if len(kept) < len(lines):
                if (stream := self._open.pop(name, None)) is not None:
                    stream.close()  # it would write into the file that goes
                draft = path.with_suffix(".part")
                draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
                draft.replace(path)
        self.done -= configs

    def _write(self, name: str, text: str) -> None:
        if name not in self._open:
            self._open[name] = open(self.path / name, "a", encoding="utf-8", buffering=1)
        self._open[name].write(text)

    def say(self, text: str) -> None:
        """A line for the log and for the terminal."""
        self._write(INORDER, f"{text}\n")
        print(text, file=sys.stdout, flush=True)

    def recorded(self) -> dict[str, str]:
        """Config -> status, of all that ever ended here."""
        return {line: status for status in FILES for line in lines_of(self.path / f"api_config_{status}.txt")}

    def write_verdicts(self) -> None:
        """``verdicts.csv`` of all batches, there when it is whole; of a config that was tested again the last one
        counts."""
        statuses = self.recorded()
        draft = self.path / f".{VERDICTS}.part"
        with open(draft, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(VERDICT_COLUMNS)
            for config, cells in dict(self._verdicts()).items():
                api = config.partition("(")[0]
                writer.writerow((safe(api), safe(config), statuses.get(config, ""), *cells))
        draft.replace(self.path / VERDICTS)

    def _verdicts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        from trueline.campaign import load_check
        from trueline.campaign.modes import mode_named
        from trueline.judge.checks import DEFAULT_CHECK_STANDARD

        for folder in self.batches():
            if not (folder / "check" / "check.json").exists():
                continue  # timed, or ended before it began
            configs = lines_of(folder / "configs.txt")
            kept = load_check(folder / "check")
            own = mode_named(kept.info.mode).standard or DEFAULT_CHECK_STANDARD
            for result in load_check(folder / "check", own).results:
                score = "" if result.score is None else f"{result.score:.6g}"
                place = str((folder / "check").relative_to(self.path))
                yield configs[line_number(result.case.calls[0]) - 1], (
                    result.verdict.name, result.ending.value, score, safe(result.reason),
                    f"{result.measured.candidate.seconds:.6f}", place,
                )  # fmt: skip


def lines_of(path: Path) -> list[str]:
    """The configs of a file; none where it is not there. Empty lines and comments are none."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text file of config lines: {error}") from None
    return [bare for line in lines if (bare := line.strip()) and not bare.startswith("#")]


def line_number(place: str) -> int:
    """The line in ``file:12``."""
    return int(place.rpartition(":")[2])
