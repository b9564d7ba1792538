"""``retest_remover``: takes configs of a log folder back, so that engineV2 tests them again.

The old script has its two settings at its top, ``TEST_LOG_PATH`` and ``LOG_PREFIXES``, and so has ``tools/
retest_remover.py``; here they are also an argument and a flag, or environment variables of these names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from trueline.compat.command import EXIT_CLEAN, Parser, run_command
from trueline.compat.paddleapitest.engine import DEFAULT_FOLDER
from trueline.compat.paddleapitest.log_folder import CHECKPOINT, FILES, lines_of
from trueline.compat.paddleapitest.settings import add_log_path, log_path, prefixes
from trueline.errors import UsageError

LOG_PREFIXES = ("skip", "oom", "crash", "timeout")


def parser() -> Parser:
    options = Parser(
        "retest_remover",
        "Takes configs that ended in some way out of checkpoint.txt, and the files that list them away.",
        "retest_remover tester/api_config/test_log_tol --log_prefixes timeout,crash",
    )
    add_log_path(options)
    options.add_argument(
        "--log_prefixes", default="",
        help=f"which to test again: {', '.join(FILES)} (default: {','.join(LOG_PREFIXES)})",
    )  # fmt: skip
    return options


def main(
    words: Sequence[str] | None = None,
    *,
    test_log_path: str | Path = DEFAULT_FOLDER,
    log_prefixes: Iterable[str] = LOG_PREFIXES,
    project: Path | None = None,
) -> int:
    """``test_log_path`` and ``log_prefixes`` are what the script has at its top, ``project`` where it lies."""

    def run(options: argparse.Namespace) -> int:
        folder = log_path(options, test_log_path, project)
        return _run(folder, prefixes(options.log_prefixes, log_prefixes))

    return run_command(parser(), run, words)


def _run(folder: Path, chosen: Sequence[str]) -> int:
    taken = take_back(folder, chosen)
    for prefix, count in taken.items():
        print(f"{prefix}: {count} configs will be tested again")
    return EXIT_CLEAN


def take_back(folder: Path, chosen: Sequence[str] = LOG_PREFIXES) -> dict[str, int]:
    """Takes configs back; gives how many of each kind."""
    unknown = next((one for one in chosen if one not in FILES), None)
    if unknown is not None or not chosen:
        raise UsageError(f"no configs end in {unknown!r}; there are {', '.join(FILES)}")
    checkpoint = folder / CHECKPOINT
    if not checkpoint.exists():
        raise UsageError(f"{folder} has no {CHECKPOINT}: TEST_LOG_PATH is the folder given to engineV2 --log_dir")
    files = {prefix: folder / f"api_config_{prefix}.txt" for prefix in chosen}
    lists = {prefix: lines_of(path) for prefix, path in files.items()}
    again = {line for lines in lists.values() for line in lines}
    kept = [line for line in lines_of(checkpoint) if line not in again]
    draft = checkpoint.with_suffix(".part")
    draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    for path in files.values():
        path.unlink(missing_ok=True)
    draft.replace(checkpoint)
    return {prefix: len(lines) for prefix, lines in lists.items()}


if __name__ == "__main__":
    sys.exit(main())
