"""``trueline view``: what was recorded, compared, checked, profiled or run as a page, served on this machine alone."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.kept import PIPELINE_FILE, PROFILE_FILE, RUN_FILE, is_kept
from trueline.cli.options import EXIT_CLEAN, Parser, add_json
from trueline.errors import UsageError

if TYPE_CHECKING:
    from trueline.diagnose import Comparison
    from trueline.web.server import View


def parser() -> Parser:
    options = Parser(
        "view",
        "PATH [CANDIDATE] [options]",
        "Shows a Run, the comparison of two Runs, a check or campaign, a profile or a pipeline as a page in the "
        "browser. It is served to this machine alone, at an address that nobody can guess, and loads details as they "
        "are asked for. Ctrl-C ends it.",
        "trueline view runs/good runs/bad",
    )
    options.add_argument(
        "path",
        metavar="PATH",
        help="a Run, with CANDIDATE the Run to trust; or the folder of a check, a profile or a pipeline",
    )
    options.add_argument("candidate", metavar="CANDIDATE", nargs="?", help="the Run to judge")
    options.add_argument(
        "--baseline",
        metavar="PATH",
        help="with two Runs a third, the peer by whose errors to judge; with a check an earlier one, for what changed",
    )
    options.add_argument("--overflow", action="store_true", help="of a Run: where NaN and infinity were born")
    options.add_argument("--profile", metavar="FOLDER", help="of a Run: its profile, whose times stand by the calls")
    options.add_argument("--standard", metavar="S", help="rules to judge by")
    options.add_argument("--port", type=int, default=0, metavar="N", help="where to listen (default: any free port)")
    options.add_argument("--no-browser", action="store_true", help="only print the address")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.web.server import ViewServer

    with _view(options) as view:
        try:
            server = ViewServer(view, options.port)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot use port {options.port}: {error}; without --port a free one is taken") from None
        with server, contextlib.suppress(KeyboardInterrupt), _announced(server.url, options):
            server.serve_forever()
    return EXIT_CLEAN


@contextlib.contextmanager
def _view(options: argparse.Namespace) -> Iterator[View]:
    """What is to be served, with the Runs that it reads held open."""
    path = Path(options.path)
    if options.candidate is not None:
        from trueline.web.comparison_page import comparison_page

        with _compared(options) as comparison:
            yield comparison_page(comparison)
    elif options.overflow:
        from trueline.web.overflow_page import overflow_page

        yield overflow_page(path)
    elif (path / RUN_FILE).exists():
        from trueline.store import open_run
        from trueline.web.run_page import run_page

        with open_run(path) as run:
            yield run_page(run, profile=options.profile)
    else:
        yield _kept(path, options)


def _kept(path: Path, options: argparse.Namespace) -> View:
    """What stands for itself: a pipeline, a profile, a check; the folder of one, or its file."""
    if is_kept(path, PIPELINE_FILE):
        from trueline.pipeline import load_pipeline
        from trueline.web.pipeline_page import pipeline_page

        return pipeline_page(load_pipeline(path), path)
    if is_kept(path, PROFILE_FILE):
        from trueline.web.profile_page import profile_page

        return profile_page(path)
    from trueline.web.check_page import check_page

    return check_page(path, standard=options.standard, baseline=options.baseline)


def _compared(options: argparse.Namespace) -> Comparison:
    from trueline.cli.progress import progress
    from trueline.diagnose import compare_runs

    chosen = {"baseline": options.baseline, "standard": options.standard or "honest"}
    with progress(sys.stderr) as advance:
        return compare_runs(options.path, options.candidate, progress=advance, **chosen)


@contextlib.contextmanager
def _announced(url: str, options: argparse.Namespace) -> Iterator[None]:
    """Says where the page is, and shows it in the browser. Who knows the address may read the page, and everybody on
    this machine may read the arguments of a process: so the browser is given a file that leads there, which the user
    alone can read and which is gone when the page is no longer served."""
    print(json.dumps({"url": url}) if options.json else f"{url}\n(Ctrl-C ends it)", flush=True)
    if options.no_browser:
        yield
        return
    import tempfile
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="trueline-view-") as folder:  # for the user alone
        file = Path(folder) / "open.html"
        file.touch(mode=0o600)
        file.write_text(_LEADS_TO.format(url=url), encoding="utf-8")
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(file.as_uri())
        yield


_LEADS_TO = """<!doctype html>
<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}"><title>trueline view</title>
<a href="{url}">trueline view</a>
"""
