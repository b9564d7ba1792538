"""What capture and compare cost, ours and the peer's, on the same programs in one go.

    python -m benchmarks.overhead [--quick] [--only steps,inactive,compare,tiny,startup] [--workload mlp ...]
    python -m benchmarks.overhead --gpu --only steps,inactive

Rounds are interleaved and every cell is a process of its own (see ``benchmarks.cell``), so a busy machine hits all
columns alike. Writes ``results/cpu.json`` and ``results/cpu.md`` (``gpu`` with ``--gpu``) beside this file. A
cell that cannot run leaves its reason in the table instead of a number. With ``--only`` the other parts of the file
stay as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peer, tables
from benchmarks.workloads import GPU_WORKLOADS, WORKLOADS

RESULTS = Path(__file__).resolve().parent / "results"
COLUMNS = (("peer", "stats"), ("ours", "stats"), ("peer", "tensors"), ("ours", "tensors"))
PERTURBATION = 1e-4


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    threads: int
    rounds: int
    bare_steps: int
    steps: dict[str, int]
    inactive_turns: int
    inactive_steps: int
    tiny: dict[str, tuple[int, ...]]
    workloads: tuple[str, ...]
    scratch: Path
    with_peer: bool


def settings_from(arguments: argparse.Namespace, with_peer: bool) -> Settings:
    quick = arguments.quick
    return Settings(
        threads=arguments.threads,
        rounds=1 if quick else arguments.rounds,
        bare_steps=3 if quick else 5,
        steps={"stats": 2 if quick else 4, "tensors": 2},
        inactive_turns=3 if quick else 6,
        inactive_steps=3 if quick else 5,
        tiny={
            "ours": (10_000, 50_000) if quick else (10_000, 100_000, 1_000_000),
            "peer": (2_000,) if quick else (5_000, 20_000),
        },
        workloads=tuple(arguments.workload or (GPU_WORKLOADS if arguments.gpu else WORKLOADS)),
        scratch=arguments.scratch,
        with_peer=with_peer,
    )


def run_cell(settings: Settings, tool: str, request: dict[str, Any]) -> dict[str, Any]:
    """Runs one cell; what it left on disk stays in ``request["folder"]``. A failure is a value: its last line."""
    interpreter = str(peer.python()) if tool == "peer" else sys.executable
    if tool == "peer" and not settings.with_peer:
        return {"error": "the peer is not installed"}
    content = json.dumps({**request, "tool": tool, "threads": settings.threads})
    done = peer.timed([interpreter, "-m", "benchmarks.cell", content], settings.threads)
    lines = done.output.strip().splitlines()
    if done.returncode != 0:
        return {"error": lines[-1] if lines else f"ended with {done.returncode}"}
    # The peer logs to standard error too, so the answer is the last line that is an object.
    answers = [line for line in lines if line.startswith("{")]
    return dict(json.loads(answers[-1]))


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _scratch_cell(settings: Settings, tool: str, request: dict[str, Any]) -> dict[str, Any]:
    """Runs a cell in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=settings.scratch) as folder:
        return run_cell(settings, tool, {**request, "folder": folder})


def _spread(times: list[float]) -> dict[str, float]:
    return {"min": min(times), "median": statistics.median(times), "count": len(times)}


def measure_steps(settings: Settings) -> dict[str, Any]:
    """Step time and throughput for each workload and column, rounds interleaved."""
    result: dict[str, Any] = {}
    for workload in settings.workloads:
        cells: dict[str, list[dict[str, Any]]] = {f"{tool} {data}": [] for tool, data in COLUMNS}
        for turn in range(settings.rounds):
            for tool, data in COLUMNS:
                _progress(f"steps: {workload}, {tool} {data}, round {turn + 1} of {settings.rounds}")
                request = {
                    "kind": "step",
                    "workload": workload,
                    "data": data,
                    "steps": settings.steps[data],
                    "bare_steps": settings.bare_steps,
                }
                cells[f"{tool} {data}"].append(_scratch_cell(settings, tool, request))
        result[workload] = summarize_steps(cells)
    return result


def summarize_steps(cells: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Pools the rounds: bare times over all cells; added time and ratio from minima and from medians."""
    bare = [time for column in cells.values() for cell in column for time in cell.get("bare", [])]
    if not bare:
        return {"error": "no cell ran", **{name: column[0] for name, column in cells.items() if column}}
    summary: dict[str, Any] = {"bare": _spread(bare)}
    for name, column in cells.items():
        good = [cell for cell in column if "error" not in cell]
        if not good:
            summary[name] = {"error": column[0]["error"] if column else "not run"}
            continue
        times = _spread([time for cell in good for time in cell["steps"]])
        summary[name] = {
            **times,
            "added_min": times["min"] - summary["bare"]["min"],
            "added_median": times["median"] - summary["bare"]["median"],
            "ratio_min": times["min"] / summary["bare"]["min"],
            "ratio_median": times["median"] / summary["bare"]["median"],
            **{key: good[0][key] for key in ("records", "tensors", "bytes", "unique_bytes") if key in good[0]},
            **_memory(good),
            **(_throughput(good) if name.endswith("tensors") else {}),
        }
    return summary


def _memory(cells: list[dict[str, Any]]) -> dict[str, float]:
    """Peak device memory against the bare program's; nothing without a device."""
    shares = [cell["peak"] / cell["peak_bare"] for cell in cells if cell["peak_bare"]]
    return {"peak_ratio": max(shares)} if shares else {}


def _throughput(cells: list[dict[str, Any]]) -> dict[str, float]:
    """Gigabytes that the tool was given, per second that it added, from start of the capture to its end."""
    rates, unique = [], []
    for cell in cells:
        added = cell["whole"] - len(cell["steps"]) * statistics.median(cell["bare"])
        rates.append(cell["bytes"] * len(cell["steps"]) / max(added, 1e-9) / 1e9)
        unique.append(cell.get("unique_bytes", cell["bytes"]) * len(cell["steps"]) / max(added, 1e-9) / 1e9)
    return {
        "gb_per_s_best": max(rates),
        "gb_per_s_median": statistics.median(rates),
        "unique_gb_per_s_best": max(unique),
        "unique_gb_per_s_median": statistics.median(unique),
    }


def measure_inactive(settings: Settings) -> dict[str, Any]:
    """What a step costs under a capture that was asked for other steps: median and minimum of paired steps."""
    result: dict[str, Any] = {}
    for workload in settings.workloads:
        _progress(f"inactive: {workload}")
        request = {
            "kind": "inactive",
            "workload": workload,
            "turns": settings.inactive_turns,
            "steps": settings.inactive_steps,
        }
        cell = _scratch_cell(settings, "ours", request)
        if "error" not in cell:
            bare, inactive = _spread(cell["bare"]), _spread(cell["steps"])
            cell = {
                "bare": bare,
                "inactive": inactive,
                "ratio_min": inactive["min"] / bare["min"],
                "ratio_median": inactive["median"] / bare["median"],
            }
        result[workload] = cell
    return result


def _compare_command(tool: str, reference: str, candidate: str, out: Path) -> list[str]:
    if tool == "ours":
        return [sys.executable, "-m", "trueline", "compare", reference, candidate]
    out.mkdir(parents=True, exist_ok=True)
    return [str(peer.HOME / "bin" / "msprobe"), "compare", "-tp", candidate, "-gp", reference, "-o", str(out)]


def _measure_compare(settings: Settings, tool: str, workload: str, data: str) -> dict[str, Any]:
    """Makes two dumps of a workload, the second with perturbed weights, and times the whole command on them."""
    folder = Path(tempfile.mkdtemp(dir=settings.scratch))
    try:
        sides = []
        for side, perturb in (("reference", 0.0), ("candidate", PERTURBATION)):
            request = {"kind": "dump", "workload": workload, "data": data, "perturb": perturb}
            sides.append(run_cell(settings, tool, {**request, "folder": str(folder / side)}))
            if "error" in sides[-1]:
                return sides[-1]
        times = []
        for turn in range(settings.rounds):
            command = _compare_command(tool, sides[0]["path"], sides[1]["path"], folder / f"out{turn}")
            done = peer.timed(command, settings.threads)
            # Ours ends with 1 where there are findings; anything else did not compare.
            if done.returncode not in (0, 1):
                return {"error": (done.output.strip().splitlines() or ["no message"])[-1]}
            times.append(done.seconds)
        size = sum(side["bytes"] for side in sides)
        rate = {"gb_per_s_best": size / min(times) / 1e9, "gb": size / 1e9} if data == "tensors" else {}
        return {**_spread(times), "records": sides[0]["records"], **rate}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_compare(settings: Settings) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for workload in settings.workloads:
        for tool, data in COLUMNS:
            _progress(f"compare: {workload}, {tool} {data}")
            result.setdefault(workload, {})[f"{tool} {data}"] = _measure_compare(settings, tool, workload, data)
    return result


def measure_tiny(settings: Settings) -> dict[str, Any]:
    """Microseconds that one tiny record adds, and the first and last tenth of the loop by themselves."""
    result: dict[str, Any] = {}
    for tool, counts in settings.tiny.items():
        result[tool] = []
        for count in counts:
            _progress(f"tiny records: {tool}, {count}")
            cell = _scratch_cell(settings, tool, {"kind": "tiny", "records": count})
            if "error" not in cell:
                cell = {
                    "records": cell["records"],
                    "us_per_record": (cell["whole"] - cell["bare"]) / cell["records"] * 1e6,
                    "us_first_tenth": (cell["parts"][0] * 10 - cell["bare"]) / cell["records"] * 1e6,
                    "us_last_tenth": (cell["parts"][-1] * 10 - cell["bare"]) / cell["records"] * 1e6,
                }
            result[tool].append(cell)
    return result


def measure_startup(settings: Settings) -> dict[str, Any]:
    """How long each tool needs to say how it is used."""
    commands = {"ours": [sys.executable, "-m", "trueline", "compare", "--help"]}
    if settings.with_peer:
        commands["peer"] = [str(peer.HOME / "bin" / "msprobe"), "compare", "--help"]
    result: dict[str, Any] = {"peer": {"error": "the peer is not installed"}}
    for tool, command in commands.items():
        runs = [peer.timed(command, settings.threads) for _ in range(max(3, settings.rounds))]
        failed = [run for run in runs if run.returncode != 0]
        if failed:
            result[tool] = {"error": (failed[0].output.strip().splitlines() or ["no message"])[-1]}
        else:
            result[tool] = _spread([run.seconds for run in runs])
    return result


PARTS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "steps": measure_steps,
    "inactive": measure_inactive,
    "compare": measure_compare,
    "tiny": measure_tiny,
    "startup": measure_startup,
}


def _machine(threads: int) -> dict[str, Any]:
    import torch

    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, few steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="torch threads in every cell")
    parser.add_argument("--workload", action="append", choices=sorted({**WORKLOADS, **GPU_WORKLOADS}))
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--gpu", action="store_true", help="the workloads for a GPU instead of those for the CPU")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    arguments.json = arguments.json or RESULTS / ("gpu.json" if arguments.gpu else "cpu.json")
    unknown = set(arguments.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no part named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return arguments


def _peer_state(wanted: bool) -> tuple[bool, str]:
    if not wanted:
        return False, "not asked for"
    try:
        peer.ensure()
    except peer.PeerUnavailable as error:
        return False, str(error)
    return True, peer.version()


def _no_device(arguments: argparse.Namespace) -> bool:
    import torch

    wanted = arguments.gpu or bool(set(arguments.workload or ()) & set(GPU_WORKLOADS))
    return wanted and not torch.cuda.is_available()


def _kept(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts that were measured before and are not asked for now."""
    if not arguments.json.exists() or set(arguments.only.split(",")) >= set(PARTS):
        return {}
    kept: dict[str, Any] = json.loads(arguments.json.read_text())
    return kept


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    if _no_device(arguments):
        print("skipped: these workloads need a CUDA device, and there is none")
        return 0
    with_peer, state = _peer_state(not arguments.no_peer)
    if not with_peer:
        _progress(f"without the peer: {state}")
    settings = settings_from(arguments, with_peer)
    document = {**_kept(arguments), "machine": _machine(settings.threads), "peer": state, "quick": arguments.quick}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    for part in arguments.only.split(","):
        document[part] = PARTS[part](settings)
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    text = tables.overhead(document)
    arguments.json.with_suffix(".md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
