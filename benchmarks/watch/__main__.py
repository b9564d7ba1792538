"""The watch beside a bare program, torch's anomaly detection and the peer, and what it leaves when something breaks.

    python -m benchmarks.watch [--quick] [--gpu] [--only cost,bits,breaks] [--workload mlp ...]
                               [--tools watch,anomaly] [--no-peer]

Rounds are interleaved, every cell is a process of its own and times the bare program in turns with the tool. Writes
``results/watch.json`` and ``results/watch.md`` (``watch_gpu`` with ``--gpu``).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import peer
from benchmarks.workloads import GPU_WORKLOADS, WORKLOADS
from trueline.diagnose.overflow import overflow
from trueline.store import open_run

RESULTS = Path(__file__).resolve().parents[1] / "results"
TOOLS = ("watch", "anomaly", "peer", "capture")
LIMITS = {"cpu": 1.10, "gpu": 1.05}


def cell(request: dict[str, Any], interpreter: str, threads: int) -> dict[str, Any]:
    """Runs one cell in a folder that is gone afterwards; a failure is a value: its last line."""
    with tempfile.TemporaryDirectory() as folder:
        content = json.dumps({**request, "folder": folder, "threads": threads})
        done = peer.timed([interpreter, "-m", "benchmarks.watch.cell", content], threads)
    lines = done.output.strip().splitlines()
    answers = [line for line in lines if line.startswith("{")]
    if done.returncode != 0 or not answers:
        return {"error": lines[-1] if lines else f"ended with {done.returncode}"}
    return dict(json.loads(answers[-1]))


def measure_cost(options: argparse.Namespace, workloads: list[str]) -> dict[str, Any]:
    """Step times of every workload under every tool, rounds interleaved; what is known is kept after every round."""
    cells: dict[str, dict[str, list[Any]]] = {name: {tool: [] for tool in options.tools} for name in workloads}
    found: dict[str, Any] = {}
    for turn in range(options.rounds):
        for workload, tool in product(workloads, options.tools):
            print(f"cost: {workload}, {tool}, round {turn + 1} of {options.rounds}", file=sys.stderr, flush=True)
            cells[workload][tool].append(_measured(options, workload, tool))
        found = {name: {tool: _ratio(several) for tool, several in tools.items()} for name, tools in cells.items()}
        options.save("cost", found)
    return found


def _measured(options: argparse.Namespace, workload: str, tool: str) -> dict[str, Any]:
    if tool == "peer" and not options.peer:
        return {"error": "the peer is not there"}
    interpreter = str(peer.python()) if tool == "peer" else sys.executable
    wanted = {"steps": options.steps, "turns": options.turns, "seconds": options.seconds}
    return cell({"tool": tool, "workload": workload, **wanted}, interpreter, options.threads)


def _ratio(cells: list[dict[str, Any]]) -> dict[str, Any]:
    good = [one for one in cells if "error" not in one]
    if not good:
        return {"error": cells[0]["error"] if cells else "not run"}
    found: dict[str, Any] = {"steps": sum(len(one["steps"]) for one in good)}
    for place, clock in enumerate(("", "cpu_")):
        bare = [times[place] for one in good for times in one["bare"]]
        under = [times[place] for one in good for times in one["steps"]]
        found[f"{clock}bare_ms"] = statistics.median(bare) * 1e3
        found[f"{clock}tool_ms"] = statistics.median(under) * 1e3
        found[f"{clock}ratio"] = statistics.median(under) / statistics.median(bare)
        found[f"{clock}ratio_of_minima"] = min(under) / min(bare)
        found[f"{clock}rounds"] = [_median(one["steps"], place) / _median(one["bare"], place) for one in good]
    return found


def _median(times: list[list[float]], place: int) -> float:
    return statistics.median(one[place] for one in times)


def measure_bits(options: argparse.Namespace, workloads: list[str]) -> dict[str, Any]:
    """Whether training is the same to the last bit, and whether the bare program repeats itself at all."""
    return {one: cell({"kind": "bits", "workload": one}, sys.executable, options.threads) for one in workloads}


def _launched(out: Path, words: list[str], threads: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trueline", "capture", "--watch", "--out", str(out), "--", sys.executable]
    return subprocess.run(
        [*command, "-m", "benchmarks.watch.programs", *words],
        cwd=peer.ROOT,
        env=peer.environment(threads),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def measure_breaks(options: argparse.Namespace, workloads: list[str]) -> dict[str, Any]:
    """A drift that overflows after 200 steps, a sudden break after 200, and a kill -9 right after one."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "drift": _drift(Path(folder) / "drift", options.threads),
            "sudden": _sudden(Path(folder) / "sudden", options.threads),
            "kill": _kill(Path(folder) / "kill", options.threads),
        }
    return found


def _drift(out: Path, threads: int) -> dict[str, Any]:
    done = _launched(out, ["drift"], threads)
    broke = re.search(r"broke at (\d+)", done.stdout)
    report = overflow(out)
    origin = report.origin
    warned = [int(one) for one in re.findall(r"in about (\d+) steps", done.stderr)]
    told = re.search(r"in about (\d+) steps \(step (\d+)", done.stderr)
    with open_run(out) as run:
        events = [one for one in _events(out) if one["kind"] == "forecast"]
        steps = list(run.rank(0).steps)
    broken_at = int(broke[1]) if broke else None
    return {
        "broke_at": broken_at,
        "found_at": None if origin is None else origin.call.step,
        "call": None if origin is None else origin.call.name,
        "kind": None if origin is None else origin.kind.value,
        "nature": None if origin is None else origin.nature.value,
        "inputs_kept": origin is not None and all(record.stored for record in origin.call.inputs),
        "look_back_steps": steps,
        "warnings": len(warned),
        "warned_at": None if not events else events[0]["step"],
        "steps_before": None if not events or broken_at is None else broken_at - events[0]["step"],
        "forecast_step": None if told is None else int(told[2]),
        "forecast_call": None if not events else events[0]["call"],
    }


def _events(out: Path) -> list[dict[str, Any]]:
    from trueline.store.watch_log import read_watch_log

    history = read_watch_log(out / "rank0")
    return [] if history is None else [dict(one) for one in history.events]


def _sudden(out: Path, threads: int) -> dict[str, Any]:
    done = _launched(out, ["sudden", "--at", "230"], threads)
    report = overflow(out)
    origin = report.origin
    with open_run(out) as run:
        calls = len(run.rank(0).trace())
    return {
        "broke_at": 230,
        "found_at": None if origin is None else origin.call.step,
        "call": None if origin is None else origin.call.name,
        "kind": None if origin is None else origin.kind.value,
        "nature": None if origin is None else origin.nature.value,
        "inputs_kept": origin is not None and all(record.stored for record in origin.call.inputs),
        "calls_kept": calls,
        "lines_on_stderr": sum(line.startswith("trueline: step") for line in done.stderr.splitlines()),
    }


def _kill(out: Path, threads: int) -> dict[str, Any]:
    done = _launched(out, ["sudden", "--at", "210", "--kill"], threads)
    text = out / "overflow-rank0.txt"
    report = overflow(out)
    return {
        "exit_code": done.returncode,
        "report_on_disk": text.exists() and "log" in text.read_text(encoding="utf-8"),
        "found_at": None if report.origin is None else report.origin.call.step,
        "call": None if report.origin is None else report.origin.call.name,
    }


PARTS = {"cost": measure_cost, "bits": measure_bits, "breaks": measure_breaks}


def table(document: dict[str, Any]) -> str:
    lines = [f"# The watch ({document['machine']}, {document['peer']})", ""]
    if "cost" in document:
        lines += [
            "Median step, against bare steps of the same process in turns. `peer` is the dump of statistics that its "
            "overflow check (an offline command; the task that watched a running program is gone) needs of every step.",
            "",
            "| workload | bare ms | watch | anomaly detection | peer | capture of statistics |",
            "|---|---|---|---|---|---|",
        ]
        for workload, row in document["cost"].items():
            cells = [f"{row['watch'].get('bare_ms', 0):.1f}"]
            cells += [_cell(row.get(tool, {"error": "not measured"})) for tool in TOOLS]
            lines.append(f"| {workload} | " + " | ".join(cells) + " |")
    if "bits" in document:
        lines += ["", "| workload | bare program repeatable | bit-identical under the watch |", "|---|---|---|"]
        for name, one in document["bits"].items():
            lines.append(f"| {name} | {one.get('repeatable', one.get('error'))} | {one.get('same', '')} |")
        lines += ["", "With torch's deterministic algorithms and attention written out; four steps."]
    lines += ["", *document["notes"]] if "notes" in document else []
    if "breaks" in document:
        lines += ["", "| break | " + "what was found |", "|---|---|"]
        lines += [f"| {name} | {json.dumps(one)} |" for name, one in document["breaks"].items()]
    return "\n".join(lines) + "\n"


def _cell(one: dict[str, Any]) -> str:
    if "error" in one:
        return one["error"][:60]
    spread = f"{min(one['rounds']):.2f}-{max(one['rounds']):.2f}"
    return f"{one['ratio']:.3f}x ({spread}; processor time {one['cpu_ratio']:.3f}x)"


def _machine(gpu: bool) -> str:
    import platform

    import torch

    name = torch.cuda.get_device_name() if gpu else f"{platform.machine()} CPU"
    return f"{name}, torch {torch.__version__}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--workload", action="append", choices=sorted({**WORKLOADS, **GPU_WORKLOADS}))
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(TOOLS), help="some of them")
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=45.0, help="about so long for a cell: slow ones, fewer steps")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.steps, options.turns = (6, 2) if options.quick else (12, 4)
    options.rounds = 1 if options.quick else options.rounds
    unknown = set(options.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no part named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    state = "without the peer"
    if options.peer:
        try:
            peer.ensure()
            state = peer.version()
        except peer.PeerUnavailable as error:
            options.peer, state = False, f"without the peer: {error}"
    workloads = options.workload or list(GPU_WORKLOADS if options.gpu else WORKLOADS)
    document: dict[str, Any] = {"machine": _machine(options.gpu), "peer": state, "quick": options.quick}
    target = options.json or RESULTS / ("watch_gpu.json" if options.gpu else "watch.json")

    def save(part: str, content: dict[str, Any]) -> None:
        document[part] = content
        target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        target.with_suffix(".md").write_text(table(document), encoding="utf-8")

    options.save = save
    for part in options.only.split(","):
        save(part, PARTS[part](options, workloads))
    print(table(document))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
