"""``run_ut``: every API of forward_info_{pid}.json alone, against a benchmark, as two CSV files.

``accuracy_checking_result.csv`` has a row for each API call of the file, ``accuracy_checking_details.csv`` one for each
of its outputs and gradients. Their words are those of the old rule (a cosine above 0.99 and the double-thousandth or
double-ten-thousandth); the columns Verdict and Reason at the end are ours. Calls that are equal are executed once.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

from trueline.campaign import CheckReport
from trueline.cases import Case, CaseResult, CheckInfo
from trueline.compat.alike import calls_alike
from trueline.compat.api_accuracy_checker.config import msCheckerConfig
from trueline.compat.beside import Keys, Said, with_verdicts
from trueline.compat.command import Parser, exit_code, run_command
from trueline.compat.places import say, torch_place
from trueline.errors import UsageError
from trueline.formats.names import stem_of
from trueline.judge.checks import DEFAULT_CHECK_STANDARD
from trueline.records import Verdict
from trueline.report.check_csv import write_details_csv, write_result_csv
from trueline.report.wording import measured

RESULT, DETAILS = "accuracy_checking_result.csv", "accuracy_checking_details.csv"
_ENCODING = "utf-8-sig"

Writer = Callable[[CheckInfo, Sequence[CaseResult], TextIO], int]


def parser() -> Parser:
    options = Parser(
        "run_ut",
        "Tests every API of a dump alone, forward and backward.",
        "run_ut -forward ./forward_info_0.json -backward ./backward_info_0.json",
    )
    options.add_argument("-forward", "--forward", required=True, metavar="FILE", help="forward_info_{pid}.json")
    options.add_argument("-backward", "--backward", default="", metavar="FILE", help="backward_info_{pid}.json")
    options.add_argument(
        "-save_error_data", "--save_error_data", action="store_true",
        help=f"keep inputs and outputs of what fails, in {msCheckerConfig.error_data_path}",
    )  # fmt: skip
    options.add_argument("--out_path", "-out_path", default="./", metavar="DIR", help="where the CSV files go (./)")
    return options


def main(words: Sequence[str] | None = None) -> int:
    return run_command(parser(), run, words)


def run(options: argparse.Namespace) -> int:
    from trueline.campaign import check, load_check

    folder = Path(options.out_path)
    folder.mkdir(parents=True, exist_ok=True)
    target, notice = torch_place()
    say(notice)
    with tempfile.TemporaryDirectory(prefix="trueline-run-ut-") as scratch:
        source = imported(Path(options.forward), options.backward, Path(scratch) / "calls")
        kept = Path(scratch) / "check"
        if options.save_error_data:
            kept = Path(msCheckerConfig.error_data_path) / datetime.now().strftime("%Y%m%d%H%M%S")
        old = check(source, target=target, standard="precheck", out=kept, save_failures=options.save_error_data)
        own = load_check(kept, DEFAULT_CHECK_STANDARD)
        names = _keys(source, Path(options.forward), [result.case for result in old.results])
        said = _said(own)
        for name, write in ((RESULT, write_result_csv), (DETAILS, write_details_csv)):
            _write(old, folder / name, write, names, said)
        verdict, counts = max(old.verdict, own.verdict), old.counts
    files = [folder / RESULT, folder / DETAILS, *([kept] if options.save_error_data else [])]
    tested = sum(map(len, names.values()))
    print(f"{tested} APIs tested on {target}: {_told(counts)}; written: {', '.join(map(str, files))}")
    return exit_code(verdict, measured(counts))


def imported(forward: Path, backward: str, out: Path) -> Path:
    """The calls of the JSON files as a Run."""
    from trueline.exchange import import_checker_json

    for name in (str(forward), backward):
        if name and not Path(name).is_file():
            raise UsageError(f"there is no file {name}")
    import_checker_json(forward, out, backward=backward or None)
    return out


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "nothing"


def _dotted(case: Case) -> str:
    """The name that the library's tables give a case: ``Functional.linear.0``."""
    return ".".join((*stem_of(case.api), case.calls[0].split(".")[-2]))


def _keys(source: Path, forward: Path, cases: Sequence[Case]) -> dict[str, list[str]]:
    """That name -> the keys of the JSON file that are this case."""
    content = json.loads(forward.read_text(encoding="utf-8"))
    between = "*" if any("*" in key for key in content) else "_"
    alike = calls_alike(source, cases)
    found = {}
    for case in cases:
        numbers = [name.split(".")[-2] for name in alike[case.calls[0]]]
        found[_dotted(case)] = [between.join((*stem_of(case.api), number)) for number in numbers]
    return found


def _said(report: CheckReport) -> Said:
    """Cases, and their outputs and gradients in the order of the tables."""
    found: dict[str, tuple[Verdict, str]] = {}
    for result in report.results:
        call = _dotted(result.case)
        found[call] = result.verdict, result.reason
        numbers = {"forward": 0, "backward": 0}
        for one in result.findings:
            direction = "backward" if one.evidence.part == "gradient" else "forward"
            found[f"{call}.{direction}.output.{numbers[direction]}"] = one.verdict, one.reason
            numbers[direction] += 1
    return found


def _write(report: CheckReport, path: Path, write: Writer, keys: Keys, said: Said) -> None:
    """A table of the library's, with the keys of the file and our columns."""
    text = io.StringIO()
    write(report.info, report.results, text)
    rows = csv.reader(io.StringIO(text.getvalue().removeprefix("\ufeff")))
    with open(path, "w", encoding=_ENCODING, newline="") as stream:
        csv.writer(stream).writerows(with_verdicts(rows, said, keys))
