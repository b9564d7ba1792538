"""Is the plan what TIPC's own scripts would run? Asks them: a checkout of a project that has them is needed.

    python -m benchmarks.tipc_plan PROJECT [--configs 'test_tipc/configs/**/train*.txt'] [--modes M...]

The scripts (``test_tipc/test_train_inference_python.sh`` and what it reads) run in a copy, with an interpreter in front
that does nothing, so that they write down every command and execute none. Commands are compared word by word. A config
for which the two differ is counted apart where the plan says why: it repaired something, or refused.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from trueline.errors import UsageError
from trueline.pipeline.config import read_config
from trueline.pipeline.plan import plan_pipeline

SCRIPT = "test_tipc/test_train_inference_python.sh"
MODES = ("lite_train_lite_infer", "lite_train_whole_infer", "whole_train_whole_infer", "whole_infer")
_LINE = re.compile(r"Run (?:successfully|failed) with command - (?:[^ ]+ - )?(.*?)(?:!| - [^ ]*\.log)? *\x1b")
_INTERPRETERS = ("python", "python3", "python3.7", "python3.8", "python3.9", "python3.10")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path)
    parser.add_argument("--configs", default="test_tipc/configs/**/train*.txt")
    parser.add_argument("--modes", nargs="+", default=MODES)
    options = parser.parse_args()
    configs = sorted(options.project.glob(options.configs))
    if not (options.project / SCRIPT).exists() or not configs:
        print(f"{options.project} has no {SCRIPT}, or no configs {options.configs}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        tally = _compare(options.project, configs, options.modes, Path(folder))
    for what, count in sorted(tally.items()):
        print(f"{count:6d}  {what}")
    return 1 if any(what.startswith("DIFFERENT") for what in tally) else 0


def _compare(project: Path, configs: Sequence[Path], modes: Sequence[str], folder: Path) -> Counter[str]:
    tally: Counter[str] = Counter()
    _interpreters(folder / "bin")
    for config in configs:
        for mode in modes:
            theirs = _theirs(project, config, mode, folder)
            try:
                plan = plan_pipeline([read_config(config)], mode)
            except UsageError as error:
                print(f"refused    {config.name} {mode}: {error}")
                tally["refused, with the reason"] += 1
                continue
            ours = [command.text.split() for command in plan.commands]
            if ours == theirs:
                tally["equal"] += 1
                tally["commands that are equal"] += len(ours)
            else:
                kind = "repaired, with a warning" if plan.warnings else "DIFFERENT"
                print(f"{kind.split(',')[0]:10} {config.name} {mode}: {_first_difference(theirs, ours)}")
                tally[kind] += 1
    return tally


def _interpreters(folder: Path) -> None:
    folder.mkdir()
    for name in _INTERPRETERS:
        path = folder / name
        path.write_text("#!/bin/bash\nexit 0\n", encoding="utf-8")
        path.chmod(0o755)


def _theirs(project: Path, config: Path, mode: str, folder: Path) -> list[list[str]]:
    """The commands that the scripts write down."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "test_tipc").mkdir(parents=True)
    for script in (project / "test_tipc").glob("*.sh"):
        shutil.copy(script, copy / "test_tipc")
    environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        ["bash", SCRIPT, str(config.resolve()), mode],
        cwd=copy,
        env=environment,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return list(_commands(copy))


def _commands(folder: Path) -> Iterator[list[str]]:
    for log in sorted(folder.rglob("results*.log")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if match := _LINE.search(line):
                yield match[1].split()


def _first_difference(theirs: Sequence[list[str]], ours: Sequence[list[str]]) -> str:
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            return f"command {number}: {' '.join(one)} | {' '.join(other)}"
    return f"{len(theirs)} commands | {len(ours)}"


if __name__ == "__main__":
    sys.exit(main())
