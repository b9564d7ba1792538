"""``trueline check RUN --inside``: looks inside the compiled regions of a Run."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueline.cli.options import Parser, exit_code, written
from trueline.errors import UsageError

if TYPE_CHECKING:
    from trueline.diagnose.inside import InsideReport

_PREPARING = "trueline_prepared"


def add_inside(options: Parser) -> None:
    group = options.add_argument_group("compiled regions")
    group.add_argument(
        "--inside", action="store_true",
        help="look inside the compiled regions of a Run instead: replay each graph, and where it gives something else, "
        "compile it again and divide it until the smallest wrong piece is found",
    )  # fmt: skip
    group.add_argument(
        "--backend", metavar="MODULE:NAME", help="what compiles a graph whose backend is not torch's own"
    )
    group.add_argument(
        "--prepare", metavar="FILE", help="a Python file to run first: it registers operators or sets up the compiler"
    )
    group.add_argument(
        "--search", type=float, metavar="S", default=600.0, help="seconds a graph may be divided for (default: 600)"
    )


def run_inside(options: argparse.Namespace) -> int:
    from trueline.diagnose.inside import inside
    from trueline.report.inside_text import inside_blocks, inside_dict
    from trueline.report.json import dumps
    from trueline.report.terminal import write

    if not options.source:
        raise UsageError("--inside looks at Runs: give the folder of one")
    _prepare(options.prepare)
    reports: list[InsideReport] = []
    for source in options.source:
        report = inside(source, backend=options.backend, seconds=options.search, progress=_tell)
        reports.append(report)
        if options.json != "-":
            write(inside_blocks(report, rows=options.rows))
        if options.out:
            _save(report, Path(options.out))
    if options.json:
        with written(options.json) as stream:
            print(dumps([inside_dict(report) for report in reports]), file=stream)
    return exit_code(max(report.verdict for report in reports), sum(report.measured for report in reports))


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\rlooking into {what[:80]:<80}", end="", file=sys.stderr)


def _prepare(path: str | None) -> None:
    if path is None:
        return
    spec = importlib.util.spec_from_file_location(_PREPARING, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"--prepare {path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PREPARING] = module
    spec.loader.exec_module(module)


def _save(report: InsideReport, folder: Path) -> None:
    """A script for each graph that was divided."""
    folder.mkdir(parents=True, exist_ok=True)
    for region in report.failures:
        found: Any = region.inside
        if found is None or found.repro is None:
            continue
        writer: Any = importlib.import_module("trueline.frameworks.torch.graph_repro")
        path = folder / f"{region.call.name}.step{region.call.step}.py"
        path.write_text(writer.script(region.call.name, found), encoding="utf-8")
        if found.code:
            path.with_suffix(".generated.txt").write_text(found.code, encoding="utf-8")
        print(f"written: {path}", file=sys.stderr)
