"""Dumps of the real msprobe come in, are compared and shown; our Runs go out and msprobe's own compare reads them.

    python -m benchmarks.foreign [--models mlp transformer] [--results DIR]

For each model msprobe itself dumps two trainings of one step, in its own environment, with tensors and with statistics
alone; the second has one operator that computes something else. Both are imported and compared: the first call that
went wrong must be that operator, and every tensor must have the bits that torch reads from its file. Then we capture
two trainings, one of them from other weights, export both for msprobe, and its whole compare command runs on them: it
must end well, pair every tensor of one side with that of the same call on the other, as our own comparison does, and
leave none out.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import peer

PLANTED = {"mlp": "torch.nn.functional.relu", "transformer": "torch.nn.functional.gelu"}
MODELS = tuple(PLANTED)
_NO_ASCEND = "CANN environment"
"""What msprobe says at every start on a machine without an Ascend card."""


def _plant(model: str) -> None:
    """Makes one function of torch's compute something else; called before anybody wraps it."""
    import torch
    import torch.nn.functional as F

    original = F.gelu
    if model == "mlp":
        F.relu = lambda input, inplace=False: torch.clamp(input, min=0) * 1.001
    else:
        F.gelu = lambda input, approximate="none": original(input, approximate="tanh")  # type: ignore[assignment]


def _job(model: str) -> tuple[Any, Callable[[], None]]:
    """A small model of the kind, and one step of its training."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    from benchmarks.workloads import Encoder

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(5)
    if model == "mlp":
        net: nn.Module = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.BatchNorm1d(96), nn.Linear(96, 10))
        inputs, labels = torch.randn(32, 64, generator=generator), torch.randint(10, (32,), generator=generator)
    else:
        net = Encoder(vocabulary=80, length=12, width=64, layers=2, hidden=128, dropout=0.0)
        inputs, labels = (torch.randint(80, (4, 12), generator=generator) for _ in range(2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = net(inputs)
        F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)).backward()
        optimizer.step()

    return net, step


def make(tool: str, model: str, side: str, data: str, folder: Path) -> None:
    """One captured step, in a process of its own."""
    if tool == "ours":
        import torch

        import trueline

        net, step = _job(model)
        if side == "candidate":
            with torch.no_grad():
                next(iter(net.parameters())).mul_(1.001)
        with trueline.capture(folder, data=data):
            step()
        return
    if side == "candidate":
        _plant(model)
    net, step = _job(model)
    debugger = peer.debugger(folder, "tensor" if data == "tensors" else "statistics", "mix")
    debugger.start(model=net)
    step()
    debugger.stop()
    debugger.step()


def _made(tool: str, model: str, side: str, data: str, folder: Path) -> Path:
    python = str(peer.python()) if tool == "peer" else sys.executable
    words = [python, "-m", "benchmarks.foreign", "--make", tool, model, side, data, str(folder)]
    done = subprocess.run(words, cwd=peer.ROOT, env=peer.environment(1), capture_output=True, text=True, check=False)
    if done.returncode:
        raise peer.PeerUnavailable(f"{tool} could not capture {model}: {(done.stdout + done.stderr)[-600:]}")
    return folder / "dump" if tool == "peer" else folder


def incoming(model: str, data: str, scratch: Path) -> dict[str, Any]:
    """msprobe's dumps, imported and compared."""
    import trueline
    from trueline.exchange import import_run

    runs, imported, seconds = [], [], 0.0
    for side in ("reference", "candidate"):
        dump = _made("peer", model, side, data, scratch / f"peer_{data}_{side}")
        began = time.perf_counter()
        imported.append(import_run(dump, scratch / f"imported_{data}_{side}"))
        seconds += time.perf_counter() - began
        runs.append(imported[-1].path)
    comparison = trueline.compare(runs[0], runs[1])
    first = comparison.first_divergence
    wrong_bits = _wrong_bits(scratch / f"peer_{data}_reference", runs[0]) if data == "tensors" else 0
    shown = subprocess.run(
        [sys.executable, "-m", "trueline", "show", str(runs[0])],
        env=peer.environment(1), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "direction": "from msprobe",
        "model": model,
        "data": data,
        "calls": imported[0].calls,
        "tensors": imported[0].tensors,
        "left_out": dict(imported[0].left_out),
        "import_seconds": round(seconds, 2),
        "first_divergence": None if first is None else first.name,
        "named_the_planted_call": first is not None and first.api == PLANTED[model],
        "verdict": comparison.verdict.name,
        "wrong_bits": wrong_bits,
        "shown": shown.returncode == 0,
    }


def _wrong_bits(dump: Path, run: Path) -> int:
    """How many tensors of a Run are not what torch reads from the file that msprobe wrote for them."""
    import torch

    from trueline.store import open_run

    files = {path.name: path for path in dump.rglob("*.pt")}
    wrong = 0
    records = json.loads(peer.dump_file(dump).read_text())["data"]
    with open_run(run) as opened:
        reader = opened.rank(0)
        stored: dict[bytes, int] = {}
        trace = reader.trace()
        for position in range(len(trace)):
            for record in trace.call(position).tensors:
                if record.stored:
                    stored[reader.tensor(record).tobytes()] = record.tensor_id
    for record in records.values():
        for node in peer._tensors(record):
            if "data_name" in node:
                tensor = torch.load(files[node["data_name"]], weights_only=True).contiguous()
                bits = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
                wrong += bits not in stored
    return wrong


def outgoing(model: str, data: str, scratch: Path) -> dict[str, Any]:
    """Our Runs, exported and compared by msprobe."""
    import trueline
    from trueline.exchange import export_run

    runs, dumps, sent = [], [], []
    for side in ("reference", "candidate"):
        runs.append(_made("ours", model, side, "tensors", scratch / f"ours_{side}_{data}"))
        sent.append(
            export_run(runs[-1], scratch / f"exported_{data}_{side}", format="msprobe", tensors=data == "tensors")
        )
        dumps.append(sent[-1].files[0])
    timed = peer.compare(dumps[0], dumps[1], scratch / f"result_{data}", 1)
    pairs = _pairs(scratch / f"result_{data}")
    names = _names(dumps[0])
    lonely = sum(1 for target, bench in pairs if "N/A" in (target, bench))
    ours = trueline.compare(runs[0], runs[1])
    paired = {one.candidate.name: one.reference.name for one in ours.calls if one.candidate and one.reference}
    theirs = {_ours(target): _ours(bench) for target, bench in pairs if "N/A" not in (target, bench)}
    return {
        "direction": "to msprobe",
        "model": model,
        "data": data,
        "calls": sent[0].calls,
        "tensors": sent[0].tensors,
        "returncode": timed.returncode,
        "errors": sum("[ERROR]" in line and _NO_ASCEND not in line for line in timed.output.splitlines()),
        "rows": len(pairs),
        "lonely_rows": lonely,
        "tensors_without_row": len(names - {target for target, _ in pairs}),
        "calls_matched_otherwise": sum(1 for call, other in theirs.items() if paired.get(call) != other),
        "msprobe_seconds": round(timed.seconds, 1),
    }


def _pairs(folder: Path) -> list[tuple[str, str]]:
    """(target name, bench name) of every row of msprobe's result."""
    files = sorted(folder.glob("compare_result*.csv"))
    if files:
        with files[-1].open(newline="", encoding="utf-8-sig") as file:
            table = list(csv.reader(file))
    else:
        files = sorted(folder.glob("compare_result*.xlsx"))
        if not files:
            raise peer.PeerUnavailable(f"msprobe's compare wrote no result into {folder}")
        table = peer._read_xlsx(files[-1])
    header, *rows = table
    target, bench = peer._column(header, "NPU Name", "Target Name"), peer._column(header, "Bench Name")
    return [(row[target], row[bench]) for row in rows if row]


def _names(dump: Path) -> set[str]:
    """The names of all tensors of a dump, as msprobe forms them."""
    found = set()
    for name, record in json.loads(dump.read_text())["data"].items():
        for part, word in (
            ("input_args", "input"),
            ("input_kwargs", "input"),
            ("input", "input"),
            ("output", "output"),
        ):
            found.update(_leaf_names(record.get(part), f"{name}.{word}"))
    return found


def _leaf_names(node: Any, name: str) -> set[str]:
    if isinstance(node, dict) and node.get("type") == "torch.Tensor":
        return {node["data_name"].rpartition(".")[0]} if "data_name" in node else {name}
    if isinstance(node, dict):
        return set().union(*(_leaf_names(value, f"{name}.{key}") for key, value in node.items() if "type" not in node))
    if isinstance(node, list):
        return set().union(*(_leaf_names(item, f"{name}.{place}") for place, item in enumerate(node)))
    return set()


def _ours(name: str) -> str:
    """``Functional.linear.0.forward.input.0`` as the name of a Call."""
    from trueline.formats.names import api_of

    call = peer.parse_name(name)[0]
    prefix, _, rest = call.partition(".")
    stem, index, phase = rest.rsplit(".", 2)
    return f"{api_of(prefix, stem)}.{index}.{phase}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--results", type=Path, help="a folder for foreign.json and foreign.md")
    parser.add_argument("--make", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make is not None:
        tool, model, side, data, folder = options.make
        make(tool, model, side, data, Path(folder))
        return 0
    peer.ensure()
    rows = []
    with tempfile.TemporaryDirectory(prefix="trueline-foreign-") as scratch:
        for model in options.models:
            for data in ("tensors", "stats"):
                for one in (incoming, outgoing):
                    rows.append(one(model, data, Path(scratch) / model))
                    print(json.dumps(rows[-1]), flush=True)
    if options.results is not None:
        _write(rows, options.results)
    return 0 if all(_good(row) for row in rows) else 1


def _good(row: dict[str, Any]) -> bool:
    """Statistics of four numbers cannot name the call; with tensors it must be named."""
    if row["direction"] == "from msprobe":
        named = row["named_the_planted_call"] or row["data"] == "stats"
        return bool(named and row["shown"] and not row["wrong_bits"] and not row["left_out"])
    bad = ("returncode", "errors", "lonely_rows", "tensors_without_row", "calls_matched_otherwise")
    return bool(row["rows"]) and not any(row[name] for name in bad)


def _write(rows: list[dict[str, Any]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"peer": peer.version(), "rows": rows}
    (folder / "foreign.json").write_text(json.dumps(content, indent=1) + "\n")
    lines = [f"# Dumps of others ({content['peer']})", ""]
    for direction in ("from msprobe", "to msprobe"):
        chosen = [row for row in rows if row["direction"] == direction]
        columns = [name for name in chosen[0] if name != "direction"]
        lines += [f"## {direction}", "", "| " + " | ".join(name.replace("_", " ") for name in columns) + " |"]
        lines += ["|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(str(row[name]) for name in columns) + " |" for row in chosen]
        lines.append("")
    (folder / "foreign.md").write_text("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
