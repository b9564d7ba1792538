"""Faults between a training, its export and its use, planted one at a time in models that others wrote: what the
checks of a pipeline find, and which stage they blame.

    python -m benchmarks.pipeline_faults.run [--half work|counted|all] [--way hook|readers] [--project NAME] [--clean N]

hook      every stage has a line of ``trueline.probe``
readers   training and inference write their outputs into a JSON and an npy file, the export writes nothing

Of the counted half only numbers are printed. ``right``: it fails and the stage that is blamed first is the one that has
the fault; ``elsewhere``: another is blamed; ``undecided``: NOT COMPARED, which is right where outputs cannot tell;
``passed``: what must never be.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.pipeline_faults.faults import FAULTS, Fault, Way, half_of
from benchmarks.pipeline_faults.projects import PROJECTS, Project
from trueline.pipeline.contract import check_stage
from trueline.pipeline.probe import Probe
from trueline.pipeline.recording import now
from trueline.pipelines import CheckKind, Command, NumberFinding, Stage, StageKind, StageResult, StageRun, StageStatus
from trueline.records import Verdict

WAYS = ("hook", "readers")
_STAGES = {"train": StageKind.TRAIN, "export": StageKind.EXPORT, "infer": StageKind.INFER}


def _way(project: Project) -> Way:
    def load(trained: Any, fresh: Any) -> torch.nn.Module:
        fresh.load_state_dict(trained.state_dict())
        return fresh.eval()  # type: ignore[no-any-return]

    return Way(project, load, lambda model: model, project.prepare, lambda model: lambda values: model(values))


class Chain:
    """The three stages of one project, in this process, each with its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.runs: list[StageRun] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Probe]:
        folder = self._folder / name
        stage = Stage(name, _STAGES[name], Command(f"python {name}.py"))
        log = str(self._folder / f"{name}.log")
        result = StageResult(stage, StageStatus.DONE, Verdict.PASS, started=now(), log=log)
        os.environ |= {"TRUELINE_PROBE_DIR": str(folder / "probe"), "TRUELINE_STAGE": name}
        try:
            yield Probe()
        finally:
            del os.environ["TRUELINE_PROBE_DIR"], os.environ["TRUELINE_STAGE"]
        self.runs.append(StageRun(stage, result, folder / "probe"))

    def findings(self, readers: Mapping[str, Any]) -> list[NumberFinding]:
        found: list[NumberFinding] = []
        for place in range(1, len(self.runs)):
            node = Stage("check", StageKind.CHECK, check=CheckKind.NEIGHBOURS)
            followers = [str(run.stage.kind) for run in self.runs[place + 1 :]]
            options = {"earlier": tuple(self.runs[:place]), "readers": readers, "followers": followers}
            found += check_stage(node, self.runs[place - 1], self.runs[place], options)
        return found


def findings_of(project: Project, fault: Fault | None, way: str, folder: Path, seed: int) -> list[NumberFinding]:
    """What the checks find, in the order of the stages."""
    stages = _way(project)
    if fault is not None:
        fault.plant(stages)
    chain, raw = Chain(folder), project.raw(seed)
    batch = torch.as_tensor(project.prepare(raw))
    trained = project.model(seed)
    hooked = way == "hook"
    with chain.stage("train") as probe:
        if hooked:
            probe("eval", trained, batch)
        else:
            _written(folder / "train.json", trained(batch))
    with chain.stage("export") as probe:
        exported = stages.exported(stages.load(trained, project.model(seed + 1)))
        if hooked:
            probe("export", exported, batch)
        traced = torch.jit.trace(exported, batch, check_trace=False)
    with chain.stage("infer") as probe:
        given = torch.as_tensor(stages.prepare(raw))
        run = stages.run(traced)
        if hooked:
            probe("infer", run, given)
        else:
            np.save(folder / "infer.npy", run(given).numpy())
    readers = {"train": {"outputs": {"json": str(folder / "train.json")}},
               "infer": {"outputs": {"npy": str(folder / "infer.npy")}}}  # fmt: skip
    return chain.findings({} if hooked else readers)


def _written(path: Path, values: torch.Tensor) -> None:
    path.write_text(json.dumps(values.tolist()), encoding="utf-8")


def outcome(findings: list[NumberFinding], fault: Fault | None, way: str) -> str:
    failed = [one for one in findings if one.verdict >= Verdict.FAIL]
    if fault is None:
        return "alarm" if failed else max(one.verdict for one in findings).name
    if failed:
        # What an export does without leaving a number shows in the inference first.
        blamed = {fault.blamed, "infer"} if way == "readers" else {fault.blamed}
        return "right" if failed[0].blamed in blamed else "elsewhere"
    return "passed" if max(one.verdict for one in findings) < Verdict.NOT_COMPARED else "undecided"


def tried(name: str, fault: Fault | None, way: str, seed: int) -> tuple[str, list[NumberFinding]]:
    with tempfile.TemporaryDirectory() as folder, torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        found = findings_of(PROJECTS[name], fault, way, Path(folder), seed)
    return outcome(found, fault, way), found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--half", choices=("work", "counted", "all"), default="all")
    options.add_argument("--way", choices=WAYS)
    options.add_argument("--project", choices=tuple(PROJECTS))
    options.add_argument("--clean", type=int, default=8, help="clean runs of each project and way")
    options.add_argument("--tell", action="store_true", help="print what was found in the half to work with")
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    worst = 0
    for way in [asked.way] if asked.way else WAYS:
        faults: Counter[tuple[str, str]] = Counter()
        clean: Counter[str] = Counter()
        for name in [asked.project] if asked.project else PROJECTS:
            for what, fault in FAULTS.items():
                half = half_of(what)
                if not fault.fits(name, PROJECTS[name]) or asked.half not in ("all", half):
                    continue
                said, found = tried(name, fault, way, 1)
                faults[half, said] += 1
                if half == "work" and (said != "right" or asked.tell):
                    _tell(f"{way}: {name}: {what}: {said}", found)
            for seed in range(10, 10 + asked.clean):
                said, found = tried(name, None, way, seed)
                clean[said] += 1
                if said == "alarm":
                    _tell(f"{way}: {name}: clean, seed {seed}: {said}", found)
        for half in ("work", "counted"):
            counts = {said: count for (which, said), count in sorted(faults.items()) if which == half}
            print(f"{way}, {half} half: {sum(counts.values())} faults: {counts}", flush=True)
        print(f"{way}, clean: {dict(clean)}", flush=True)
        worst |= any(said == "passed" for _, said in faults) or clean["alarm"] > 0
    return worst


def _tell(head: str, found: list[NumberFinding]) -> None:
    print(head)
    for one in found:
        if one.verdict > Verdict.PASS:
            print(f"    {one.verdict.name} {one.what}: {one.reason[:150]} [{one.blamed}]")


if __name__ == "__main__":
    sys.exit(main())
