"""A folder of another tool -> a Run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from trueline._version import __version__
from trueline.errors import NotARunError, TruelineError, UsageError
from trueline.events import Progress
from trueline.exchange.incoming import IncomingCalls
from trueline.formats import apex, checker_json, msprobe, ptdbg
from trueline.formats.foreign import ForeignCall, ForeignDump, ForeignRank
from trueline.records import Certificate, Data, RunInfo
from trueline.store.arrays import ArrayFiles
from trueline.store.columns import FORMAT_VERSION
from trueline.store.segments import SegmentWriter
from trueline.store.writer import RUN_FILE, RankWriter, write_run_info

READERS: dict[str, Callable[[Path], ForeignDump]] = {
    msprobe.NAME: msprobe.read,
    ptdbg.NAME: ptdbg.read,
    checker_json.NAME: checker_json.read,
    apex.NAME: apex.read,
}
_FINDERS: dict[str, Callable[[Path], object]] = {
    msprobe.NAME: msprobe.find,
    apex.NAME: apex.find,
    checker_json.NAME: checker_json.find,
    ptdbg.NAME: ptdbg.find,
}
_MOST_CALLS_BETWEEN = 256


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import gave. ``left_out`` counts what could not be taken over and ``remarks`` what was taken over
    otherwise than the dump says, by reason."""

    path: Path
    format: str
    calls: int
    tensors: int
    stored_bytes: int
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    left_out: Mapping[str, int]
    remarks: Mapping[str, int]


def detect(folder: Path) -> str:
    """The format of a dump, by the names of its files."""
    if not folder.exists():
        raise UsageError(f"{folder} does not exist; give the folder of a dump")
    if (folder / RUN_FILE).is_file():
        raise UsageError(f"{folder} is a Run already: nothing is to be imported")
    found = [name for name, find in _FINDERS.items() if find(folder)]
    if not found:
        raise NotARunError(
            f"{folder} is no dump that is known; looked for step<N>/rank<R>/dump.json (msprobe), *.pkl (ptdbg_ascend), "
            "forward_info_<pid>.json (api_accuracy_checker) and rank<R>_step<S>/forward_rank<R>_all.json (PaddleAPEX); "
            "give the folder that holds these"
        )
    if len(found) > 1:
        raise UsageError(f"{folder} may be a dump of {' or '.join(found)}: say which (format)")
    return found[0]


def import_run(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str | None = None,
    data: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    links: bool = False,
) -> Imported:
    """Turns a dump of another tool into a Run, which is at ``out`` only if it is whole.

    trueline.import_run("dump/msprobe", "runs/npu")
    trueline.import_run("npu_dump.pkl", "runs/npu", format="ptdbg", data="npu_dump_20230104_13434")

    ``format`` is msprobe, ptdbg, checker or apex, found by the names of the files where it is not given. ``data`` is
    the folder of ptdbg's npy files where they do not lie beside the pkl file. With ``links`` the Run holds links to
    the dump's npy files instead of their bytes: quick, and for a Run that does not outlive the dump.
    """
    source, target = Path(folder), Path(out)
    if format is not None and format not in READERS:
        raise UsageError(f"unknown format {format!r}; known: {', '.join(READERS)}")
    if target.exists():
        raise UsageError(f"{target} exists already; choose another path for the Run or remove the old one")
    if not source.exists():
        raise UsageError(f"{source} does not exist; give the folder of a dump")
    chosen = format or detect(source)
    if data is not None and chosen != ptdbg.NAME:
        raise UsageError(f"a folder of data is given for ptdbg alone; {source} is a dump of {chosen}")
    return write_dump(
        READERS[chosen](source) if data is None else ptdbg.read(source, Path(data)), source, target, progress,
        links=links,
    )  # fmt: skip


def import_checker_json(
    forward: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    backward: str | os.PathLike[str] | None = None,
    stack: str | os.PathLike[str] | None = None,
    change: Callable[[ForeignCall], None] | None = None,
) -> Imported:
    """A forward_info file of api_accuracy_checker, with files that lie elsewhere than beside it, as a Run. ``change``
    may change each call on its way."""
    others = [None if one is None else Path(one) for one in (backward, stack)]
    dump = checker_json.read(Path(forward), *others)
    if change is not None:
        for rank in dump.ranks:
            rank.calls = _changed(rank.calls, change)
    return write_dump(dump, Path(forward), Path(out))


def _changed(calls: Iterable[ForeignCall], change: Callable[[ForeignCall], None]) -> Iterator[ForeignCall]:
    for call in calls:
        change(call)
        yield call


def import_apex(
    source: str | os.PathLike[str], out: str | os.PathLike[str], *, tensors: str | os.PathLike[str] | None = None
) -> Imported:
    """A dump of PaddleAPEX whose tensors may lie in another folder, as a Run."""
    return write_dump(apex.read(Path(source), None if tensors is None else Path(tensors)), Path(source), Path(out))


def write_dump(
    dump: ForeignDump, source: Path, target: Path, progress: Progress | None = None, *, links: bool = False
) -> Imported:
    """Writes what a reader found as a Run, which is at ``target`` only if it is whole."""
    if target.exists():
        raise UsageError(f"{target} exists already; choose another path for the Run or remove the old one")
    draft = target.with_name(f".{target.name}.part.{os.getpid()}")
    try:
        draft.mkdir(parents=True)
        imported = _written(dump, draft, source, progress, links)
        os.replace(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Imported(target, *imported)


def _written(
    dump: ForeignDump, draft: Path, source: Path, progress: Progress | None, links: bool
) -> tuple[str, int, int, int, tuple[int, ...], tuple[int, ...], Mapping[str, int], Mapping[str, int]]:
    by_rank: dict[int, list[ForeignRank]] = {}
    for part in dump.ranks:
        by_rank.setdefault(part.rank, []).append(part)
    left_out: Counter[str] = Counter()
    remarks: Counter[str] = Counter()
    calls = tensors = stored = 0
    steps: set[int] = set()
    for rank, parts in sorted(by_rank.items()):
        incoming = _write_rank(draft, rank, parts, steps, progress, links)
        calls, tensors, stored = calls + incoming.calls, tensors + incoming.tensors, stored + incoming.stored
        remarks.update(incoming.remarks)
        for part in parts:
            left_out.update(part.left_out)
        left_out.update(incoming.not_recorded)
    if not calls:
        raise NotARunError(f"{source} holds no calls: nothing was imported")
    write_run_info(draft, _info(dump, source, len(by_rank), stored > 0))
    return dump.format, calls, tensors, stored, tuple(sorted(by_rank)), tuple(sorted(steps)), left_out, remarks


def _write_rank(
    draft: Path, rank: int, parts: list[ForeignRank], steps: set[int], progress: Progress | None, links: bool
) -> IncomingCalls:
    writer = RankWriter(draft, rank, ArrayFiles if links else SegmentWriter)
    incoming = IncomingCalls(writer)
    certificate = Certificate(complete=False, stopped_because="the import failed")
    added = 0
    try:
        for part in sorted(parts, key=lambda one: one.step):
            for call in part.calls:
                step = part.step if call.step is None else call.step
                steps.add(step)
                incoming.add(call, step)
                added += 1
                if progress is not None and added % _MOST_CALLS_BETWEEN == 0:
                    progress(f"rank {rank}: calls", added, 0)
        incoming.flush()
        certificate = incoming.certificate()
    finally:
        writer.drain()
        writer.close(asdict(certificate))
    if writer.failed:
        raise TruelineError(f"the Run could not be written: {writer.failed}")
    return incoming


def _info(dump: ForeignDump, source: Path, ranks: int, stored: bool) -> RunInfo:
    options = {
        "level": {"L0": "module", "mix": "api+module"}.get(str(dump.about.get("level")), "api"),
        "data": Data.TENSORS.value if stored else Data.STATS.value,
        "imported_from": dump.format,
        "folder": str(source.resolve()),
    }
    return RunInfo(
        format_version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        framework=dump.framework,
        framework_version="unknown",
        python="unknown",
        host="unknown",
        devices=(),
        command=(),
        git_commit="",
        seed=None,
        world_size=ranks,
        options=options,
    )
