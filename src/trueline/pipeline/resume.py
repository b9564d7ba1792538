"""Which stages need not be run again: those of which nothing has changed that their result depends on.

The key of a stage is made from its command and variables, the interpreter, the sources and configs below the current
folder, the files and folders that the command names, and the stages before it as they were run. Where key and written
files are the same as when the stage was done, its result stands. What cannot be seen (libraries installed elsewhere,
data that no command names) is not in the key: ``never`` runs everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from trueline.errors import UsageError
from trueline.pipelines import Stage, StageResult, StageStatus
from trueline.report.pipeline_json import result_dict, result_of

RESULT_FILE = "result.json"
POLICIES = ("auto", "always", "never")
_SOURCES = frozenset(".py .pyx .pyi .yaml .yml .toml .cfg .ini .sh .c .cc .cpp .cu .cuh .h .hpp".split())
_SKIPPED = frozenset(("__pycache__", "node_modules", "build", "dist"))
_MOST_FILES = 20_000
_WHOLE_BYTES = 64 << 20
_VARIABLES = re.compile(r"^(FLAGS_|OMP_|MKL_|CUDA_|NVIDIA_|PYTHON|TRUELINE_PROBE_|LD_LIBRARY_PATH|PATH$)")
_BETWEEN = re.compile(r"[\s=:,;'\"]+")


class Memory:
    """What is known of stages that were done before, in the folder of the plan."""

    def __init__(self, folder: Path, project: Path, policy: str) -> None:
        if policy not in POLICIES:
            raise UsageError(f"resume is {policy!r}; write one of {', '.join(POLICIES)}")
        self._folder = folder
        self._project = project
        self._use = policy != "never"
        try:
            self._sources = _digest(_source_facts(project, folder))
        except UsageError:  # too many to read; nobody has asked to keep anything
            if self._use:
                raise
            self._sources = "unknown"

    def key(self, stage: Stage, before: Sequence[StageResult]) -> str:
        """The key of a stage, given how the stages before it were run."""
        command = stage.command
        assert command is not None, "checks are always done"
        facts = [
            command.line,
            json.dumps(dict(command.environment), sort_keys=True),
            self._sources,
            _interpreter(command.line),
            *(f"{name}={value}" for name, value in sorted(os.environ.items()) if _VARIABLES.match(name)),
            *_named_facts(command.line, stage.reads, self._project, self._folder),
            *(f"{result.stage.name} {result.started}" for result in before),
        ]
        return _digest(facts)

    def done_before(self, stage: Stage, key: str, folder: Path) -> StageResult | None:
        """The result of a stage that need not be run."""
        if not self._use:
            return None
        try:
            data = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
            if data["key"] != key or data["written"] != _written(stage, folder, self._project):
                return None
            result = result_of({**data["result"], "stage": stage.name, "reused": True}, stage)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if result.status is StageStatus.DONE else None

    def keep(self, result: StageResult, key: str, folder: Path) -> None:
        """Writes down how a stage ended. Another stage may be deleting the folder just now."""
        data = {"key": key, "result": result_dict(result), "written": _written(result.stage, folder, self._project)}
        draft = folder / f".{RESULT_FILE}.part"
        for last in (False, False, True):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_text(json.dumps(data, indent=1), encoding="utf-8")
                draft.replace(folder / RESULT_FILE)
            except FileNotFoundError:
                if last:
                    raise
            else:
                return


def stage_before(folder: Path, stage: Stage) -> StageResult | None:
    """How a stage that is not of this plan ended, the last time that it was run in this folder."""
    try:
        data = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
        return result_of({**data["result"], "stage": stage.name}, stage)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(facts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(fact.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:32]


def _source_facts(project: Path, output: Path) -> Iterator[str]:
    """The content of every source below a folder, without environments and what the pipeline writes."""
    count = 0
    for place, folders, files in os.walk(project):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
            and Path(place, name).resolve() != output.resolve()
        )
        for name in sorted(files):
            path = Path(place, name)
            if path.suffix in _SOURCES:
                count += 1
                yield f"{path.relative_to(project)} {_file_fact(path)}"
        if count > _MOST_FILES:
            raise UsageError(
                f"more than {_MOST_FILES:,} sources below {project}: run the pipeline in the folder of the project, or "
                "with --resume never"
            )


def _file_fact(path: Path) -> str:
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # a pipe is never at its end
            return f"no file {stat.S_IFMT(state.st_mode)}"
        if state.st_size > _WHOLE_BYTES:
            return f"{state.st_size} {state.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable {error.errno}"


def _named_facts(line: str, reads: Sequence[str], project: Path, output: Path) -> Iterator[str]:
    """What a command names that is there, but not what the pipeline itself wrote: that is in the keys before it."""
    for word in sorted({word for word in (*_BETWEEN.split(line), *reads) if word and not word.startswith("-")}):
        path = project / word
        if not path.exists() or path.resolve() == project.resolve() or _inside(path, output):
            continue
        yield f"{word} {_file_fact(path) if path.is_file() else _digest(_listing(path))}"


def _inside(path: Path, folder: Path) -> bool:
    return folder.resolve() in (path.resolve(), *path.resolve().parents)


def _listing(folder: Path) -> Iterator[str]:
    """Names, sizes and times of the files in a folder; of a huge one the first."""
    count = 0
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            state = os.lstat(os.path.join(place, name))
            yield f"{os.path.relpath(os.path.join(place, name), folder)} {state.st_size} {state.st_mtime_ns}"
            count += 1
        if count > _MOST_FILES:
            return


def _written(stage: Stage, folder: Path, project: Path) -> dict[str, str]:
    """The state of what a stage wrote: its own files by size and time, and its probe."""
    found = {name: _digest(_matches(project / name)) for name in stage.writes}
    probe = folder / "probe"
    return {**found, "probe": _digest(_listing(probe)) if probe.is_dir() else ""}


def _matches(path: Path) -> Iterator[str]:
    for one in files_named(path):
        state = one.stat()
        yield f"{one.name} {state.st_size} {state.st_mtime_ns}"


def files_named(path: Path) -> list[Path]:
    """The files that a name in a config means: the file, those in the folder, or those that begin with the name, for
    frameworks add their own endings to the name of a checkpoint."""
    if path.is_file():
        return [path]
    if path.is_dir():
        return sorted(one for one in path.rglob("*") if one.is_file())
    return sorted(one for one in path.parent.glob(f"{_literal(path.name)}*") if one.is_file())


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _interpreter(line: str) -> str:
    found = shutil.which(line.split(" ", 1)[0]) if line else None
    return f"{found} {os.path.realpath(found)}" if found else ""


def environment_facts(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that change how programs compute, for the head of a report."""
    return {name: value for name, value in sorted(environment.items()) if _VARIABLES.match(name) and name != "PATH"}
