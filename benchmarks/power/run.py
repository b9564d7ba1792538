"""Measures how many wrong kernels are found, and how often an honest one is called wrong.

    python -m benchmarks.power.run [--quick] [--only PART ...] [--device cuda] [--part wrong|honest|compiled] [--fresh]
    python -m benchmarks.power.run --also benchmarks/results/power_cuda.json

Every wrong kernel is an override of its API, executed and measured by the product as ``trueline check --override``
would; so is every honest implementation, on the sample inputs of torch's own operator database. Each measured call is
judged by all standards at once. What is done is appended to a file as it is done, and is not done again by the next
run unless ``--fresh`` is given. ``--shard 2/8`` does one eighth of the work, so that eight processes can share it; a
run without it afterwards puts together what they did; with ``--tables`` it executes nothing, so that this can be done
on another machine. Writes ``results/power.json`` and ``results/power.md`` (with a device, ``power_DEVICE``). ``--also``
counts the honest calls of another such file, made on another machine, in the same tables.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.power import honest, tables
from benchmarks.power.catalogue import wrong_kernels
from benchmarks.power.opinfo import LeftOut, Sample, samples
from benchmarks.power.reality import drawn, reality
from benchmarks.power.recipes import ALL, Arguments, Wrong
from benchmarks.power.trials import Said, Trial, failed, seed_of, with_gradients

RESULTS = Path(__file__).resolve().parent.parent / "results"
SCRATCH = Path(tempfile.gettempdir()) / "trueline_power"
PER_OPERATOR = {"decomposed": 10, "references": 8, "relaid": 6, "threaded": 2, "traced": 1, "compiled": 1, "cuda": 8}
"""How many samples of each operator and dtype an implementation is tried on."""
COMPILED_SHARE = {"compiled": 36, "traced": 4}
"""One operator in so many goes through the compiler, which takes up to a hundred times as long as everything else."""
CPU_IMPLEMENTATIONS = ["decomposed", "references", "relaid", "threaded", "traced"]
PARTS = ("wrong", "honest", "compiled")


@dataclass(frozen=True)
class Job:
    """One call to be judged, by one or several candidates: the override of each, by the key under which what is said
    of it is kept, and what else is kept with it."""

    name: str
    api: str
    arguments: Arguments
    overrides: dict[str, str]
    about: dict[str, dict[str, Any]]
    backward: bool = True
    forward_only: tuple[str, ...] = ()


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Choice:
    """Which operators and kernels a run is about. ``shard`` is ``number/of``; empty means all."""

    only: tuple[str, ...] = ()
    shard: str = ""

    def takes(self, name: str) -> bool:
        number, _, of = self.shard.partition("/")
        if of and seed_of(name) % int(of) != int(number) % int(of):
            return False
        return not self.only or any(part in name for part in self.only)


def wrong_jobs(choice: Choice) -> Iterator[Job]:
    for kernel in wrong_kernels():
        if not choice.takes(f"{kernel.id} {kernel.api}"):
            continue
        for dtype in kernel.dtypes:
            for number in range(len(kernel.recipes)):
                yield _wrong_job(kernel, dtype, number)


def _wrong_job(kernel: Wrong, dtype: torch.dtype, number: int) -> Job:
    kind = str(dtype).removeprefix("torch.")
    key = f"wrong/{kernel.id}/{kind}/{number}"
    about = {"kind": "wrong", "id": kernel.id, "dtype": kind, "recipe": number, "held_out": kernel.held_out}
    arguments = with_gradients(drawn(kernel, number, dtype))
    return Job(key, kernel.api, arguments, {key: kernel.override}, {key: about})


def honest_jobs(implementations: Sequence[str], choice: Choice, device: str, kept: Kept | None = None) -> Iterator[Job]:
    """What is left out is noted in ``kept``, where it is given."""
    most = max(PER_OPERATOR[name] for name in implementations)
    for sample in samples(ALL, most, choice.takes, device):
        if isinstance(sample, LeftOut):
            if kept is not None:
                kept.leave_out(sample)
            continue
        names = [name for name in implementations if sample.rank < PER_OPERATOR[name] and applies(name, sample)]
        if names:
            yield _honest_job(names, sample)


def applies(implementation: str, sample: Sample) -> bool:
    if implementation == "references":
        return honest.has_reference(sample.api)
    if implementation in COMPILED_SHARE:
        return seed_of(sample.operator) % COMPILED_SHARE[implementation] == 0
    return True


def _honest_job(implementations: Sequence[str], sample: Sample) -> Job:
    overrides, about = {}, {}
    for name in implementations:
        key = f"{name}/{sample.id}"
        overrides[key] = f"benchmarks.power.honest:{name}.{sample.api}" if hasattr(honest, name) else ""
        about[key] = {
            "kind": "honest",
            "id": sample.id,
            "operator": sample.operator,
            "implementation": name,
            "dtype": sample.dtype,
            "held_out": sample.held_out,
        }
    forward_only = tuple(key for key in overrides if key.startswith("references/"))
    return Job(sample.id, sample.api, sample.arguments, overrides, about, sample.gradients, forward_only)


class Kept:
    """The calls that were judged already, and what was left out: one JSON line each, appended as they are judged, by
    every shard to its own file; all are read."""

    def __init__(self, folder: Path, name: str, shard: str, fresh: bool, machine: str) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._machine = machine
        self._times: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f"{name}{shard.replace('/', 'of')}.jsonl"
        for path in sorted(folder.glob(f"{name}*.jsonl")):
            if fresh and (path == own or not shard):
                path.unlink()
                continue
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["key"]] = row
        self._file = own.open("a")

    def add(self, job: Job, said: Mapping[str, Said]) -> None:
        for key, one in said.items():
            self._add({"key": key, "api": job.api, "machine": self._machine, **job.about[key], **asdict(one)})
        self._file.flush()

    def leave_out(self, one: LeftOut) -> None:
        key = f"left out/{one.operator}/{one.reason}"
        self._times[key] += 1
        self._add({"key": f"{key}/{self._times[key]}", "kind": "left out", **asdict(one)})

    def left_out(self) -> list[LeftOut]:
        rows = (row for row in self.rows.values() if row["kind"] == "left out")
        return [LeftOut(row["operator"], row["reason"], row["count"]) for row in rows]

    def _add(self, row: dict[str, Any]) -> None:
        if row["key"] not in self.rows:
            self.rows[row["key"]] = row
            self._file.write(json.dumps(row) + "\n")


def run(jobs: Iterator[Job], device: str, kept: Kept) -> None:
    """Executes what is not kept yet."""
    trial = Trial(device)
    started, told, done = time.process_time(), time.perf_counter(), 0
    for job in jobs:
        wanted = {key: override for key, override in job.overrides.items() if key not in kept.rows}
        if not wanted:
            continue
        try:
            kept.add(job, _said(trial, job, wanted))
        except Exception as error:  # the product must not fail, whatever it is given: that counts against it
            kept.add(job, dict.fromkeys(wanted, failed(f"the tool failed: {type(error).__name__}: {error}")))
        done += len(wanted)
        if time.perf_counter() - told > 15:
            told = time.perf_counter()
            progress(f"{done} calls in {time.process_time() - started:.0f} CPU s, at {job.name}")
    progress(f"{done} calls in {time.process_time() - started:.0f} CPU s")


def _said(trial: Trial, job: Job, wanted: Mapping[str, str]) -> dict[str, Said]:
    if job.name in wanted:
        return {job.name: trial.said(job.api, wanted[job.name], job.arguments, name=job.name)}
    return trial.said_each(
        job.api, wanted, job.arguments, backward=job.backward, name=job.name, forward_only=job.forward_only
    )


def realities(choice: Choice) -> dict[str, dict[str, Any]]:
    """How wrong each kernel is on each of its inputs, said without any standard."""
    found = {}
    for kernel in wrong_kernels():
        if not choice.takes(f"{kernel.id} {kernel.api}"):
            continue
        for dtype in kernel.dtypes:
            each = [reality(kernel, number, dtype) for number in range(len(kernel.recipes))]
            worst = max(each, key=lambda one: (one.material, bool(one.other), one.excess, one.size))
            found[f"{kernel.id}/{str(dtype).removeprefix('torch.')}"] = {**asdict(worst), "material": worst.material}
    return found


def execute(parts: Sequence[str], kind: str, device: str, choice: Choice, kept: Kept) -> None:
    """Executes the parts that are asked for, as far as they are not kept yet."""
    implementations = CPU_IMPLEMENTATIONS if kind == "cpu" else [kind]
    if "wrong" in parts:
        run(wrong_jobs(choice), device, kept)
    if "honest" in parts:
        run(honest_jobs(implementations, choice, device, kept), device, kept)
    if "compiled" in parts:
        run(honest_jobs(["compiled"], choice, device), device, kept)


def machine_named(kind: str) -> str:
    return torch.cuda.get_device_name() if kind == "cuda" else f"{platform.machine()} processor"


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="operators or kernels whose name has it")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--quick", action="store_true", help="one sample of each operator and dtype, nothing compiled")
    parser.add_argument("--device", default="cpu", help="where candidates are executed, for example cuda")
    parser.add_argument("--shard", default="", metavar="N/OF", help="do this part of the work, for example 0/8")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--scratch", type=Path, default=SCRATCH, help="where finished calls are kept for the next run")
    parser.add_argument("--json", type=Path, help="where the results go; the table is written beside them")
    parser.add_argument("--tables", action="store_true", help="execute nothing: put together what is there")
    parser.add_argument("--also", nargs="*", default=[], type=Path, metavar="FILE", help="results of other machines")
    arguments = parser.parse_args(argv)
    suffix = "" if arguments.device == "cpu" else f"_{arguments.device.partition(':')[0]}"
    arguments.json = arguments.json or RESULTS / f"power{suffix}.json"
    arguments.part = arguments.part or (PARTS[:2] if arguments.quick or suffix else PARTS)
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # TF32 has ten digits: it is no implementation of float32
    if arguments.quick:
        for name in PER_OPERATOR:
            PER_OPERATOR[name] = 1
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    kind = arguments.device.partition(":")[0]
    machine = "" if arguments.tables else f"torch {torch.__version__}, {machine_named(kind)}"
    kept = Kept(arguments.scratch, f"calls_{kind}_", arguments.shard, arguments.fresh, machine)
    choice = Choice(tuple(arguments.only), arguments.shard)
    if not arguments.tables:
        execute(arguments.part, kind, arguments.device, choice, kept)
    if arguments.shard:
        return 0
    document = tables.document(list(kept.rows.values()), wrong_kernels(), realities(choice), kept.left_out())
    for path in arguments.also:
        tables.add_honest(document, json.loads(path.read_text()))
    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    text = tables.markdown(document)
    arguments.json.with_suffix(".md").write_text(text)
    print(text.partition("## Every wrong kernel")[0])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
