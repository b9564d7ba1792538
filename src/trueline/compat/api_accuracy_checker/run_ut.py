"""``run_ut``: every API of forward_info_{pid}.json alone, against a benchmark, as two CSV files.

``accuracy_checking_result.csv`` has a row for each API call of the file, ``accuracy_checking_details.csv`` one for each
of its outputs and gradients. Their words are those of the old rule (a cosine above 0.99 and the double-thousandth or
double-ten-thousandth) with the document's benchmark: float32 for float16 and bfloat16, else the same precision on the
CPU. The columns Verdict and Reason at the end are ours, by a benchmark of higher precision. Calls that are equal are
executed once.

Where the APIs run on the CPU the document's benchmark is the CPU too; there our benchmark is one of other kernels, and
what it finds wrong does not pass by the old rule either.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from trueline.cases import INDEPENDENT, Case, CaseResult, CheckInfo
from trueline.compat.alike import calls_alike
from trueline.compat.api_accuracy_checker.config import msCheckerConfig
from trueline.compat.api_accuracy_checker.verdicts import Tally, vouched
from trueline.compat.beside import Keys, Said, with_verdicts
from trueline.compat.command import Parser, run_command
from trueline.compat.places import say, torch_place
from trueline.errors import UsageError
from trueline.formats.foreign import ForeignCall
from trueline.formats.names import stem_of
from trueline.judge.checks import DEFAULT_CHECK_STANDARD
from trueline.records import Verdict
from trueline.report.check_csv import BLANK, write_details_csv, write_result_csv
from trueline.report.csv import safe

RESULT, DETAILS = "accuracy_checking_result.csv", "accuracy_checking_details.csv"
_ENCODING = "utf-8-sig"
_CPU = "torch:cpu"
_RULE = "precheck-document"
_DROPPING = {
    "torch.nn.functional.scaled_dot_product_attention": 4,
    "torch._C._nn.scaled_dot_product_attention": 4,
    "torch.nn.functional.multi_head_attention_forward": 10,
}
"""Attention with dropout inside -> the position of ``dropout_p``."""

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
    options.add_argument(
        "-error_data_path", "--error_data_path", default=msCheckerConfig.error_data_path, metavar="DIR",
        help=f"where -save_error_data keeps it ({msCheckerConfig.error_data_path})",
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
    alone = target == _CPU
    with tempfile.TemporaryDirectory(prefix="trueline-run-ut-") as scratch:
        source = imported(Path(options.forward), options.backward, Path(scratch) / "calls", change=without_dropout)
        kept = Path(scratch) / "check"
        if options.save_error_data:
            kept = Path(options.error_data_path) / datetime.now().strftime("%Y%m%d%H%M%S")
        reference = f"{_CPU}+{INDEPENDENT}" if alone else None
        old = check(
            source, target=target, reference=reference, standard=_RULE, out=kept, save_failures=options.save_error_data
        )
        own = list(load_check(kept, DEFAULT_CHECK_STANDARD).results)
        results = [vouched(one, other) if alone else one for one, other in zip(old.results, own, strict=True)]
        names = _keys(source, Path(options.forward), [result.case for result in results])
        content = json.loads(Path(options.forward).read_text(encoding="utf-8"))
        tested = {key for keys in names.values() for key in keys}
        untested = [key for key in content if key not in tested]
        said = _said(own)
        for name, write in ((RESULT, write_result_csv), (DETAILS, partial(write_details_csv, wider=False))):
            _write(old.info, results, folder / name, write, names, said)
        _add_untested(folder / RESULT, untested, "; ".join(old.info.skipped))
    tally = Tally(_by_key(results, names), _by_key(own, names), untested)
    files = [folder / RESULT, folder / DETAILS, *([kept] if options.save_error_data else [])]
    print("\n".join([*tally.lines(target), f"written: {', '.join(map(str, files))}"]))
    return tally.code


def imported(
    forward: Path, backward: str, out: Path, change: Callable[[ForeignCall], None] | None = None
) -> Path:
    """The calls of the JSON files as a Run."""
    from trueline.exchange import import_checker_json

    for name in (str(forward), backward):
        if name and not Path(name).is_file():
            raise UsageError(f"there is no file {name}")
    import_checker_json(forward, out, backward=backward or None, change=change)
    return out


def without_dropout(call: ForeignCall) -> None:
    """Attention is tested without its dropout: which weights are dropped is drawn at random, on every device others,
    and nothing of the rest could be compared."""
    place = _DROPPING.get(call.api)
    arguments = call.arguments
    if place is None or not isinstance(arguments, dict):
        return
    args, kwargs = arguments.get("args"), arguments.get("kwargs")
    if isinstance(args, list) and len(args) > place and isinstance(args[place], float):
        args[place] = 0.0
    if isinstance(kwargs, dict) and isinstance(kwargs.get("dropout_p"), float):
        kwargs["dropout_p"] = 0.0


def _by_key(results: Sequence[CaseResult], names: Keys) -> dict[str, Verdict]:
    return {key: result.verdict for result in results for key in names[_dotted(result.case)]}


def _add_untested(path: Path, keys: Sequence[str], reasons: str) -> None:
    """Rows for the calls of the file that could not be tested, so that its rows are as many."""
    message = f"not tested: {reasons or 'it cannot be executed alone'}"
    with open(path, "a", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for key in keys:
            row = [safe(key), "SKIP", BLANK, safe(message), Verdict.NOT_COMPARED.name, safe(message)]
            writer.writerow(row)


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


def _said(results: Sequence[CaseResult]) -> Said:
    """Cases, and their outputs and gradients in the order of the tables."""
    found: dict[str, tuple[Verdict, str]] = {}
    for result in results:
        call = _dotted(result.case)
        found[call] = result.verdict, result.reason
        numbers = {"forward": 0, "backward": 0}
        for one in result.findings:
            direction = "backward" if one.evidence.part == "gradient" else "forward"
            found[f"{call}.{direction}.output.{numbers[direction]}"] = one.verdict, one.reason
            numbers[direction] += 1
    return found


def _write(
    info: CheckInfo, results: Sequence[CaseResult], path: Path, write: Writer, keys: Keys, said: Said
) -> None:
    """A table of the library's, with the keys of the file and our columns."""
    text = io.StringIO()
    write(info, results, text)
    rows = csv.reader(io.StringIO(text.getvalue().removeprefix("\ufeff")))
    with open(path, "w", encoding=_ENCODING, newline="") as stream:
        csv.writer(stream).writerows(with_verdicts(rows, said, keys))
