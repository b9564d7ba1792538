"""``trueline pipeline``: train, export and infer as a config says; that it runs, and that the numbers agree."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.options import (
    EXIT_CLEAN,
    EXIT_FAILED,
    Parser,
    add_json_file,
    exit_code,
    given,
    let_go,
    written,
)
from trueline.errors import UsageError

if TYPE_CHECKING:
    from trueline.pipelines import PipelineReport, StageResult

ROWS = 60
_GIVEN = ("out", "jobs", "timeout", "retries", "gpu", "benchmark", "prepare", "resume", "layout", "python")


def parser() -> Parser:
    options = Parser(
        "pipeline",
        "CONFIG... MODE [options]",
        "Runs training, evaluation, export and inference of a project as a config of TIPC (or one in YAML) says, "
        "compares the numbers that they leave, and says which stage is wrong: exit code 1 if any is, or if of stages "
        "that leave numbers some could not be compared; 2 if nothing ran.",
        "trueline pipeline test_tipc/configs/my_model/train_infer_python.txt lite_train_lite_infer --plan",
    )
    options.add_argument(
        "config", nargs="+", metavar="CONFIG",
        help="configs of one model, then the mode: lite_train_lite_infer, lite_train_whole_infer, "
        "whole_train_whole_infer, whole_infer or benchmark_train",
    )  # fmt: skip
    options.add_argument("--plan", action="store_true", help="print the exact commands and run nothing")
    options.add_argument("--out", metavar="FOLDER", help="where everything goes (default: where TIPC puts it)")
    options.add_argument(
        "--layout", choices=("tipc", "log"),
        help="by whose custom results lie: tipc (default), or log, for configs of the short form: "
        "./log/MODEL/MODE/norm_train_gpus_0, as in the documents of its first scripts",
    )  # fmt: skip
    group = options.add_argument_group("execution")
    group.add_argument(
        "--jobs", type=int, metavar="N", help="commands at the same time (default: a quarter of the cores)"
    )
    group.add_argument("--timeout", type=float, metavar="S", help="seconds a stage may take (default: an hour)")
    group.add_argument("--memory", type=float, metavar="GB", help="memory a stage may hold")
    group.add_argument(
        "--retries", type=int, metavar="N",
        help="run a command that failed again, up to N times (default: not); what succeeds only then is a warning",
    )  # fmt: skip
    group.add_argument("--prepare", metavar="COMMAND", help="run this before everything else")
    group.add_argument(
        "--python", metavar="COMMAND", help="run the project's scripts by this, not by the config's python"
    )
    group.add_argument("--gpu", metavar="ID", help="the card for whole_infer")
    group.add_argument("--benchmark", metavar="WHAT", help="for benchmark_train, like dynamic_bs8_fp32_DP_N1C1")
    group.add_argument(
        "--resume", choices=("auto", "always", "never"),
        help="keep what is done and unchanged: of a run that failed or was killed (auto, default), of any, of none",
    )  # fmt: skip
    group.add_argument(
        "--warm", nargs="?", const="", metavar="MODULES",
        help="run commands as copies of one process that has imported these (paddle,numpy), or what the scripts import",
    )  # fmt: skip
    group.add_argument(
        "--which-op", action="store_true", help="where two stages disagree, run both again and name the first operator"
    )
    group.add_argument(
        "--keep-fp32", type=float, metavar="ERROR",
        help="run every trained model once more under autocast, and name the fewest operators that must stay in "
        "float32 for its outputs to be within this relative error of float64 (1e-3)",
    )  # fmt: skip
    options.add_argument(
        "--allow-partial", action="store_true",
        help="exit code 0 also where, of stages that leave numbers, some could not be compared",
    )  # fmt: skip
    reports = options.add_argument_group("reports")
    reports.add_argument("--junit", metavar="FILE", help="write JUnit XML there as well")
    reports.add_argument("--html", metavar="FILE", help="write the page there as well")
    reports.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"rows of the table (default: {ROWS})")
    add_json_file(options, "the whole report")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.pipeline import pipeline

    *configs, mode = options.config
    if not configs:
        raise UsageError(f"after the config comes the mode, like lite_train_lite_infer; only {mode!r} is given")
    more = given(options, _GIVEN)
    if options.memory is not None:
        more["memory"] = int(options.memory * 1e9)
    if options.warm is not None:
        more["warm"] = tuple(name.strip() for name in options.warm.split(",") if name.strip())
    more |= {"which_op": options.which_op, "keep_fp32": options.keep_fp32}
    report = pipeline(configs, mode, plan=options.plan, announce=None if options.json == "-" else _tell, **more)
    if not options.plan and options.json != "-":
        print()
    return conclude_pipeline(report, options)


def _tell(result: StageResult, line: str) -> None:
    """Prints the classic line of every command as it ends."""
    from trueline.report.terminal import visible

    if line:
        print(visible(line), flush=True)


def conclude_pipeline(report: PipelineReport, options: argparse.Namespace, folder: Path | None = None) -> int:
    """Writes a report, or a plan, to all places asked for and gives the exit code: 0 clean, 1 findings, 2 where no
    command was run. ``folder`` is where a report that was read lies."""
    try:
        _write_files(report, options, folder)
        if options.json != "-":
            _print(report, options.rows)
    except BrokenPipeError:  # ``| head`` has seen enough: the verdict stands
        let_go(sys.stdout)
    if not report.results:  # a plan
        return EXIT_CLEAN
    if not report.executed:
        return EXIT_FAILED
    return exit_code(report.verdict, report.executed, partial=_allowed(options) or not report.compared)


def _allowed(options: argparse.Namespace) -> bool:
    """Whether a part is enough; ``trueline report`` has no such option."""
    return bool(getattr(options, "allow_partial", False))


def _write_files(report: PipelineReport, options: argparse.Namespace, folder: Path | None) -> None:
    from trueline.report.pipeline_html import write_pipeline_html
    from trueline.report.pipeline_json import write_pipeline_json
    from trueline.report.pipeline_junit import write_pipeline_junit
    from trueline.report.pipeline_text import warning_blocks
    from trueline.report.terminal import write

    write_html = functools.partial(write_pipeline_html, folder=folder)
    writers = ((options.json, write_pipeline_json), (options.junit, write_pipeline_junit), (options.html, write_html))
    for path, write_report in writers:
        if path:
            with written(path) as stream:
                write_report(report, stream)
    write(warning_blocks(report.plan), sys.stderr)


def _print(report: PipelineReport, rows: int) -> None:
    from trueline.report.pipeline_text import pipeline_blocks, plan_lines
    from trueline.report.terminal import visible, write

    if report.results:
        write(pipeline_blocks(report, rows=rows))
        return
    for line in plan_lines(report.plan):
        print(visible(line))
