"""``trueline view``: a Run, a comparison, a check or a pipeline as a page, served on this machine alone."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.options import EXIT_CLEAN, Parser, add_json
from trueline.errors import UsageError

if TYPE_CHECKING:
    from trueline.diagnose import Comparison
    from trueline.web.pages import Page

RUN_FILE, PIPELINE_FILE = "run.json", "pipeline.json"


def parser() -> Parser:
    options = Parser(
        "view",
        "PATH [CANDIDATE] [options]",
        "Shows a Run, the comparison of two Runs, a check or a pipeline as a page in the browser. It is served to this "
        "machine alone, at an address that nobody can guess, and loads details as they are asked for. Ctrl-C ends it.",
        "trueline view runs/good runs/bad",
    )
    options.add_argument(
        "path", metavar="PATH", help="a Run, with CANDIDATE the Run to trust; or the folder of a check"
    )
    options.add_argument("candidate", metavar="CANDIDATE", nargs="?", help="the Run to judge")
    options.add_argument("--baseline", metavar="RUN", help="a third Run: the peer by whose errors to judge")
    options.add_argument("--overflow", action="store_true", help="of a Run: where NaN and infinity were born")
    options.add_argument("--standard", metavar="S", help="rules to judge by")
    options.add_argument("--port", type=int, default=0, metavar="N", help="where to listen (default: any free port)")
    options.add_argument("--no-browser", action="store_true", help="only print the address")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.web.server import ViewServer

    with _page(options) as page:
        try:
            server = ViewServer(page, options.port)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot use port {options.port}: {error}; without --port a free one is taken") from None
        with server:
            _announce(server.url, options)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
    return EXIT_CLEAN


@contextlib.contextmanager
def _page(options: argparse.Namespace) -> Iterator[Page]:
    from trueline.web import pages

    path = Path(options.path)
    if options.candidate is not None:
        with _compared(options) as comparison:
            yield pages.comparison_page(comparison)
    elif options.overflow:
        from trueline.diagnose.overflow import overflow

        yield pages.overflow_page(overflow(path))
    elif (path / RUN_FILE).exists():
        from trueline.store import open_run

        with open_run(path) as run:
            yield pages.run_page(run)
    elif (path / PIPELINE_FILE).exists():
        from trueline.pipeline import load_pipeline

        yield pages.pipeline_page(load_pipeline(path))
    else:
        from trueline.campaign import load_check

        report = load_check(path, options.standard)
        yield pages.check_page(report.info, report.results, path)


def _compared(options: argparse.Namespace) -> Comparison:
    from trueline.cli.progress import progress
    from trueline.diagnose import compare_runs

    chosen = {"baseline": options.baseline, "standard": options.standard or "honest"}
    with progress(sys.stderr) as advance:
        return compare_runs(options.path, options.candidate, progress=advance, **chosen)


def _announce(url: str, options: argparse.Namespace) -> None:
    print(json.dumps({"url": url}) if options.json else f"{url}\n(Ctrl-C ends it)", flush=True)
    if not options.no_browser:
        import webbrowser

        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(url)
