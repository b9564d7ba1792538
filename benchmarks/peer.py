"""The peer, msprobe (``mindstudio-probe`` on PyPI), in a virtual environment of its own.

``ensure()`` makes ``.venv-peer`` at the root of the repository and gives its interpreter, or the reason why there is
none; the benchmarks then print our column alone. The peer's captures and comparisons always run in that environment
as processes of their own; this module imports nothing of the peer, except in the few functions that say so.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv-peer"
PACKAGES = ("mindstudio-probe", "torch==2.13.0")
INSTALL_SECONDS = 1200


class PeerUnavailable(RuntimeError):
    """The peer cannot be installed or started here; the message says why."""


def python() -> Path:
    return HOME / "bin" / "python"


def _installed() -> bool:
    if not python().exists():
        return False
    probe = subprocess.run(
        [str(python()), "-c", "import importlib.metadata as m; m.version('mindstudio-probe'); m.version('torch')"],
        capture_output=True,
        check=False,
    )
    return probe.returncode == 0


def ensure() -> Path:
    """Installs the peer if it is not there yet; returns its Python interpreter."""
    if _installed():
        return python()
    print(f"installing {' and '.join(PACKAGES)} into {HOME.name} (about 1 GB) ...", file=sys.stderr, flush=True)
    for command in (
        [sys.executable, "-m", "venv", str(HOME)],
        [str(python()), "-m", "pip", "install", "--quiet", *PACKAGES],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerUnavailable(f"{' '.join(command[:4])} ...: {error}") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise PeerUnavailable(f"{' '.join(command[:4])} ... ended with {done.returncode}: {last}")
    if not _installed():
        raise PeerUnavailable(f"{HOME.name} was made but mindstudio-probe or torch is missing in it")
    return python()


def version() -> str:
    done = subprocess.run(
        [str(python()), "-c", "import importlib.metadata as m; print(m.version('mindstudio-probe'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return f"msprobe {done.stdout.strip()}"


def environment(threads: int) -> dict[str, str]:
    """The environment of a measured process: a fixed number of threads, the repository importable."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(str(path) for path in (ROOT / "src", ROOT)),
    }


def write_config(folder: Path, task: str, level: str = "L1") -> Path:
    """Writes the peer's config.json for a capture of everything it can see into ``folder/dump``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    content: dict[str, Any] = {
        "task": task,
        "dump_path": str(folder / "dump"),
        "rank": [],
        "step": [],
        "level": level,
        "async_dump": False,
        "extra_info": True,
        "risk_level": "ALL",
        task: {"scope": [], "list": [], "data_mode": ["all"]},
    }
    if task == "statistics":
        content[task]["summary_mode"] = "statistics"
    path.write_text(json.dumps(content, indent=2))
    return path


def debugger(folder: Path, task: str, level: str = "L1") -> Any:
    """A PrecisionDebugger that dumps into ``folder/dump``. Only for processes in the peer's environment."""
    from msprobe.pytorch import PrecisionDebugger  # type: ignore[import-not-found]

    return PrecisionDebugger(config_path=str(write_config(folder, task, level)))


def dump_file(folder: Path, step: int = 0) -> Path:
    """The dump.json of one step of a capture (the folder below the step carries a process number)."""
    found = sorted((folder / "dump" / f"step{step}").glob("*/dump.json"))
    if len(found) != 1:
        raise PeerUnavailable(f"expected one dump.json for step {step} in {folder}, found {len(found)}")
    return found[0]


def dump_size(folder: Path, step: int) -> dict[str, int]:
    """Records, tensors and bytes of one captured step, from the files themselves."""
    path = dump_file(folder, step)
    records = json.loads(path.read_text())["data"]
    files = list(path.parent.rglob("*.pt"))
    return {
        "records": len(records),
        "tensors": sum(1 for record in records.values() for _ in _tensors(record)),
        "bytes": sum(file.stat().st_size for file in files),
    }


def _tensors(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "torch.Tensor":
            yield node
        else:
            for value in node.values():
                yield from _tensors(value)
    elif isinstance(node, list):
        for value in node:
            yield from _tensors(value)


@dataclass(frozen=True)
class Row:
    """One row of the peer's comparison: one tensor of one call."""

    name: str
    result: str

    @property
    def call(self) -> str:
        """``Functional.gelu.2.forward`` out of ``Functional.gelu.2.forward.output.0``."""
        return parse_name(self.name)[0]

    @property
    def role(self) -> str:
        return parse_name(self.name)[1]

    @property
    def passed(self) -> bool:
        return self.result.strip().lower() == "pass"


_NAME = re.compile(r"^(?P<call>.+?\.\d+\.(?:forward|backward))\.(?P<role>.+)$")


def parse_name(name: str) -> tuple[str, str]:
    """Splits the peer's tensor name into call and role (``output.0``); an unknown form is all call."""
    found = _NAME.match(name)
    return (found["call"], found["role"]) if found else (name, "")


def read_result(folder: Path) -> list[Row]:
    """The rows of the newest compare_result in ``folder``, CSV or xlsx, in the peer's order."""
    files = sorted(folder.glob("compare_result*.csv")) + sorted(folder.glob("compare_result*.xlsx"))
    if not files:
        raise PeerUnavailable(f"the peer's compare wrote no result in {folder}")
    path = max(files, key=lambda file: file.stat().st_mtime)
    table = _read_csv(path) if path.suffix == ".csv" else _read_xlsx(path)
    header, *body = table
    name, result = _column(header, "NPU Name", "Target Name"), _column(header, "Result")
    return [Row(name=row[name], result=row[result]) for row in body if row and row[name]]


def _column(header: Sequence[str], *names: str) -> int:
    for name in names:
        if name in header:
            return list(header).index(name)
    raise PeerUnavailable(f"the peer's result has no column {names[0]!r}; it has {', '.join(header)}")


def _read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def _read_xlsx(path: Path) -> list[list[str]]:
    """An xlsx file through the peer's environment, which has a reader for it."""
    script = (
        "import json, sys, openpyxl\n"
        "sheet = openpyxl.load_workbook(sys.argv[1], read_only=True).active\n"
        "print(json.dumps([[str(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]))"
    )
    done = subprocess.run([str(python()), "-c", script, str(path)], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


@dataclass(frozen=True)
class Timed:
    """How long a whole command took, start-up included."""

    seconds: float
    returncode: int
    output: str


def timed(command: Sequence[str], threads: int, timeout: float = 1800) -> Timed:
    start = time.perf_counter()
    done = subprocess.run(
        list(command),
        cwd=ROOT,
        env=environment(threads),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Timed(time.perf_counter() - start, done.returncode, done.stdout + done.stderr)


def compare(reference: Path, candidate: Path, out: Path, threads: int) -> Timed:
    """The peer's whole compare command on two dump.json files."""
    out.mkdir(parents=True, exist_ok=True)
    command = [str(HOME / "bin" / "msprobe"), "compare", "-tp", str(candidate), "-gp", str(reference), "-o", str(out)]
    return timed(command, threads)


def compare_here(reference: Path, candidate: Path, out: Path) -> list[Row]:
    """The same comparison without the start-up. Only for processes in the peer's environment."""
    from msprobe.pytorch.compare.pt_compare import pt_compare  # type: ignore[import-not-found]

    out.mkdir(parents=True, exist_ok=True)
    paths = {"npu_path": str(candidate), "bench_path": str(reference), "is_print_compare_log": False}
    pt_compare(paths, str(out))
    return read_result(out)
