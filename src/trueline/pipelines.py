"""The words of a pipeline, as data and nothing else.

A **Plan** is a graph of **Stages**; a Stage is a **Command** to run, or a check of the numbers that others left behind.
Running a Stage gives a **StageResult**, a check gives **NumberFindings**, and all of them make the report.

What a command finds in its environment, beside what the plan gives it:

    TRUELINE_STAGE        the name of its stage
    TRUELINE_STAGE_KIND   its kind: prepare, train, eval, export, infer
    TRUELINE_PROBE_DIR    where it may leave what it computed on the probe batch (``<folder of the stage>/probe``)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from trueline.records import Verdict

UNSUPPORTED_CODE = 77
"""With this a command says that the machine cannot do what was asked (no kernel, no device): no pass, no failure."""

TO_KEEP = "operators to keep in float32"
"""What the finding of such a search is called."""

MODES = (
    "lite_train_lite_infer",
    "lite_train_whole_infer",
    "whole_train_whole_infer",
    "whole_infer",
    "benchmark_train",
)
"""What may be asked of a config: which epochs and batch sizes, and whether there is a training at all."""


class StageKind(str, Enum):
    """What a stage does. ``CHECK`` runs no command: it looks at the numbers that other stages left."""

    PREPARE = "prepare"
    TRAIN = "train"
    EVAL = "eval"
    EXPORT = "export"
    INFER = "infer"
    CHECK = "check"

    def __str__(self) -> str:
        return self.value


class CheckKind(str, Enum):
    """Which numbers a check looks at. ``NEIGHBOURS``: the probe outputs of two stages that follow each other.
    ``PRECISION``: whether a training was done in the precision that was asked for. ``PAIR``: a training beside the same
    one in full precision."""

    NEIGHBOURS = "neighbours"
    PRECISION = "precision"
    PAIR = "pair"

    def __str__(self) -> str:
        return self.value


class StageStatus(str, Enum):
    """How a stage ended."""

    DONE = "done"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the shell. ``log`` is where the classic tester sent its output, empty where that went to the terminal;
    we keep every output in the folder of its stage besides."""

    line: str
    log: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The line as the classic tester writes it down: with its redirection."""
        return f"{self.line} > {self.log} 2>&1 " if self.log else self.line


@dataclass(frozen=True, slots=True)
class Stage:
    """One node of the graph. ``name`` is unique and may be the path of a folder. It starts when all of ``after`` are
    done; where one of these failed it is skipped. It also waits for all of ``waits`` to end, however they end.
    ``chain`` is the training (or the model) to which it belongs.

    ``trainer`` (``norm_train``), ``precision`` (``fp32``, ``O1``, ``O2``, ``amp``) and ``devices`` say how the chain
    was trained; ``settings`` those of an inference: ``device``, ``batch_size`` and, where the config has them,
    ``mkldnn``, ``threads``, ``tensorrt``, ``precision``, ``backend``. ``reads`` are files and folders that its result
    depends on beside those of the stages before it, ``writes`` those that it makes.
    """

    name: str
    kind: StageKind
    command: Command | None = None
    after: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    chain: str = ""
    trainer: str = ""
    precision: str = "fp32"
    devices: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    timeout: float | None = None
    memory: int | None = None
    retries: int = 0
    """How often a command that failed is run again."""
    check: CheckKind | None = None
    reference: str = ""
    """Of a check: the stage whose numbers are trusted; empty where it looks at one stage alone."""
    candidate: str = ""
    """Of a check: the stage that is looked at."""

    @property
    def backend(self) -> str:
        """How an inference was done, in a few words: ``cpu mkldnn``."""
        if self.kind is not StageKind.INFER:
            return ""
        words = [self.settings.get("backend", ""), self.settings.get("device", "")]
        words += [name for name in ("mkldnn", "tensorrt") if self.settings.get(name) == "True"]
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a config that was repaired or looks wrong. ``line`` counts from 1; 0 where it is about none."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in the order in which the classic tester would do it. ``folder`` is where everything goes,
    ``form`` the kind of config (``tipc-32``, ``tipc-51``, ``yaml``). ``options`` are what a check of numbers may be
    told by the config: limits, readers of printed outputs."""

    config: str
    form: str
    model: str
    mode: str
    folder: str
    stages: tuple[Stage, ...]
    warnings: tuple[Remark, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands of all stages, in order."""
        return tuple(stage.command for stage in self.stages if stage.command is not None)

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)


@dataclass(frozen=True, slots=True)
class NumberFinding:
    """What a check says of one thing that it measured. ``what`` is a short name (``outputs``, ``labels``, ``metric``,
    ``low-precision ops``, ``update norm``); ``blamed`` names the stage that is wrong, where one is."""

    what: str
    verdict: Verdict
    reason: str
    blamed: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageResult:
    """A stage, run. ``log`` and ``folder`` are its own; ``reused`` says that nothing was run because nothing that it
    depends on has changed since it was done. ``findings`` are those of a check."""

    stage: Stage
    status: StageStatus
    verdict: Verdict
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    peak_bytes: int = 0
    folder: str = ""
    log: str = ""
    reused: bool = False
    started: str = ""
    attempts: int = 1
    """How often the command was run: more than once where it failed before."""
    not_warm: str = ""
    """Why the command was run as a plain process, where it was to be a copy of a warm one."""
    findings: tuple[NumberFinding, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def executed(self) -> bool:
        """Whether a command was run for it, now or in the run whose result is reused."""
        return self.stage.command is not None and self.status is not StageStatus.SKIPPED


@dataclass(frozen=True, slots=True)
class StageRun:
    """What a check gets to see of a stage: how it ended, and where it left its probe (the folder may be missing)."""

    stage: Stage
    result: StageResult
    probe: Path


@dataclass(frozen=True, slots=True)
class Change:
    """A stage against the last run of the same plan: ``what`` is ``new failure``, ``fixed``, ``slower``, ``larger``,
    ``less exact``, ``new`` or ``gone``."""

    stage: str
    what: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """What a training told of its steps, all columns of one length: None is what was not told. A long one is thinned
    out evenly; its first and last steps are there."""

    steps: tuple[int, ...] = ()
    loss: tuple[float | None, ...] = ()
    scale: tuple[float | None, ...] = ()
    gradient_norm: tuple[float | None, ...] = ()
    update_norm: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class PastRun:
    """An earlier run of the same configs in the same folder, in one line."""

    created: str
    verdict: str
    seconds: float
    executed: int


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    """The head of a report. ``folder`` is where the reports and logs lie."""

    created: str
    tool_version: str
    seconds: float
    jobs: int
    host: str
    python: str
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """A plan and what became of it. Of a plan that was not run ``results`` is empty. ``histories`` are those of the
    trainings that told any, by the names of their stages; ``past`` the runs before this one, the oldest first."""

    plan: Plan
    results: tuple[StageResult, ...] = ()
    info: PipelineInfo | None = None
    changes: tuple[Change, ...] = ()
    histories: Mapping[str, TrainingHistory] = field(default_factory=dict)
    past: tuple[PastRun, ...] = ()

    @property
    def executed(self) -> int:
        """How many commands were run."""
        return sum(result.executed for result in self.results)

    @property
    def verdict(self) -> Verdict:
        """The worst of all; ERROR where no command was run: that is no clean bill."""
        if not self.executed:
            return Verdict.ERROR
        return max((result.verdict for result in self.results), default=Verdict.ERROR)

    @property
    def compared(self) -> int:
        """How many numbers of stages were compared: of a project that leaves none, none."""
        return sum(finding.verdict is not Verdict.NOT_COMPARED for one in self.results for finding in one.findings)

    @property
    def counts(self) -> dict[str, int]:
        """How many stages ended in which verdict."""
        return {one.name: sum(result.verdict is one for result in self.results) for one in Verdict}

    @property
    def failures(self) -> tuple[StageResult, ...]:
        """What failed by itself, in the order of the plan; stages skipped because of these are not among them."""
        return tuple(result for result in self.results if result.verdict >= Verdict.FAIL)

    def result(self, name: str) -> StageResult:
        return next(result for result in self.results if result.stage.name == name)
