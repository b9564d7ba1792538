"""``engineV2``: every config line through Paddle and torch, over ``trueline.check``.

Every flag of engineV2 is understood; what each means here is in its ``--help``. A status is what the old rule says (an
absolute and a relative tolerance), ``verdicts.csv`` has the verdict of trueline beside it. Exit codes: 0 clean, 1 where
a config has an accuracy error, by either of the two, or crashed, 2 where nothing could be tested.
"""

from __future__ import annotations

import argparse
import glob
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trueline.cases import Ending
from trueline.compat.command import EXIT_CLEAN, EXIT_FAILED, EXIT_FINDINGS, Parser, run_command, truth
from trueline.compat.paddleapitest.log_folder import (
    ENDED,
    SKIP,
    TOL,
    VERDICTS,
    LogFolder,
    line_number,
    lines_of,
    status_of,
)
from trueline.compat.paddleapitest.performance import PERFORMANCE, time_configs
from trueline.compat.places import free_memory, gpus, say, seats
from trueline.errors import UsageError
from trueline.events import CaseEnded

DEFAULT_FOLDER = "tester/api_config/test_log"
TOLERANCE = 1e-2
_MODES = {
    "accuracy": "accuracy",
    "paddle_only": "target-only",
    "paddle_cinn": "cinn",
    "accuracy_stable": "stability",
}
REQUIRED_MEMORY = 10.0
"""GB of a GPU that one process is given, where nothing else is said."""
_LOOK_SECONDS = 1.5
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""So that the number of a card is the one by which the driver tells its free memory."""
_WRONG = ("accuracy_error", "crash", "timeout", "oom")


def parser() -> Parser:
    options = Parser(
        "engineV2",
        "Tests config lines, one call each, forward and backward: Paddle against torch.",
        'engineV2 --api_config_file_pattern="configs/accuracy_*.txt" --accuracy=True --log_dir=test_log',
    )
    options.add_argument("--api_config", default="", help="one config, tested at once; nothing is kept")
    options.add_argument("--api_config_file", default="", help="a file of configs")
    options.add_argument("--api_config_file_pattern", default="", help="patterns of such files, with commas between")
    flags = {
        "accuracy": "Paddle against torch",
        "paddle_only": "Paddle alone: does it run?",
        "paddle_cinn": "the compiled graph of a call against the call itself",
        "accuracy_stable": "the same bits each time?",
        **dict.fromkeys(PERFORMANCE, "time and memory"),
        "test_amp": "with --accuracy: both sides under autocast",
        "test_cpu": "on the CPU, both",
        "test_tol": "with --accuracy: collect errors in tol.csv, judge none",
        "use_cached_numpy": "taken and not needed: inputs are drawn from seeds, in the workers",
    }
    for name, text in flags.items():
        options.add_argument(f"--{name}", type=truth, default=False, metavar="True|False", help=text)
    options.add_argument("--atol", type=float, default=TOLERANCE, help="absolute tolerance of the old rule (0.01)")
    options.add_argument("--rtol", type=float, default=TOLERANCE, help="relative tolerance of the old rule (0.01)")
    options.add_argument("--log_dir", default=DEFAULT_FOLDER, help=f"results; goes on there ({DEFAULT_FOLDER})")
    options.add_argument("--num_gpus", type=int, default=-1, help="how many GPUs; -1: all")
    options.add_argument("--gpu_ids", default="-1", help="which GPUs: 0,1 or 0-3; -1: all")
    options.add_argument("--num_workers_per_gpu", type=int, default=1, help="processes on each; -1: by its free memory")
    options.add_argument(
        "--required_memory", type=float, default=None,
        help=f"GB that a process may use (of a GPU: {REQUIRED_MEMORY:g})",
    )  # fmt: skip
    return options


def main(words: Sequence[str] | None = None) -> int:
    return run_command(parser(), run, words)


def run(options: argparse.Namespace) -> int:
    mode = _mode(options)
    place = _place(options)
    if options.api_config:
        with tempfile.TemporaryDirectory(prefix="trueline-engineV2-") as scratch:
            return _test([options.api_config.strip()], Path(scratch), mode, place, options)
    configs = _configs(options)
    return _test(configs, Path(options.log_dir), mode, place, options)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to execute, by how many processes, with how much memory; ``cards`` has the card of each process."""

    target: str
    reference: str
    workers: int | None
    memory: float | None
    cards: tuple[int, ...] = ()


def _mode(options: argparse.Namespace) -> str:
    """The one mode that was asked for, in our words; empty for a timing."""
    asked = [name for name in (*_MODES, *PERFORMANCE) if getattr(options, name)]
    if len(asked) != 1:
        choices = ", ".join(f"--{name}=True" for name in (*_MODES, *PERFORMANCE))
        raise UsageError(f"choose one of {choices}; {len(asked)} were asked for")
    mode = _MODES.get(asked[0], "")
    if options.test_tol and options.test_amp:
        raise UsageError("--test_tol and --test_amp cannot be had at once: errors under autocast have no tolerances")
    for flag, changed in (("test_tol", "tolerance"), ("test_amp", "amp")):
        if getattr(options, flag):
            if mode != "accuracy":
                raise UsageError(f"--{flag}=True goes with --accuracy=True")
            mode = changed
    return mode


def _place(options: argparse.Namespace) -> _Place:
    chosen = _gpu_ids(options)
    count = options.num_workers_per_gpu
    if count == 0 or count < -1:
        raise UsageError(f"--num_workers_per_gpu is a number of processes, or -1, not {count}")
    here = gpus()
    if options.test_cpu or not here:
        if not options.test_cpu:
            say("no GPU here: Paddle and torch run on the CPU (--test_cpu=True says so too)")
        workers = None if -1 in (count, options.num_gpus) else count * max(options.num_gpus, 1)
        return _Place("paddle:cpu", "torch:cpu", workers, options.required_memory)
    wanted = chosen or _cards(options.num_gpus, here)
    if wrong := [card for card in wanted if card >= here]:
        raise UsageError(f"there is no GPU {wrong[0]}: this machine has {here}, numbered from 0")
    os.environ.update(_ORDER, CUDA_VISIBLE_DEVICES=",".join(map(str, wanted)))
    cards = _seats(wanted, count, options.required_memory)
    say(f"{len(cards)} processes on GPU {', '.join(map(str, dict.fromkeys(cards)))}")
    return _Place("paddle:gpu:0", "torch:cuda:0", len(cards), None, tuple(cards))


def _cards(number: int, here: int) -> list[int]:
    """All, the first ones, or with 0 what CUDA_VISIBLE_DEVICES says."""
    if number > here:
        raise UsageError(f"--num_gpus={number}: this machine has {here}")
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if number == 0 and named:
        if not all(one.strip().isdigit() for one in named.split(",")):
            raise UsageError(f"CUDA_VISIBLE_DEVICES={named}: with --num_gpus=0 it names cards by their numbers")
        return [int(one) for one in named.split(",")]
    return list(range(here))[: number if number > 0 else here]


def _seats(cards: Sequence[int], count: int, required: float | None) -> list[int]:
    """The card of each process: so many on each, or with -1 what its free memory has room for."""
    if count > 0 and required is None:
        return [card for _ in range(count) for card in cards]
    from trueline.campaign import machine

    most = max(machine.cores(), len(cards)) if count == -1 else count * len(cards)
    each = -(-most // len(cards)) if count == -1 else count
    return seats(cards, required or REQUIRED_MEMORY, free_memory(), each=each, most=most)


def _gpu_ids(options: argparse.Namespace) -> list[int]:
    """Reads ``0,2-3``; empty where all are meant."""
    text = options.gpu_ids.strip()
    if text in ("", "-1"):
        return []
    try:
        found: list[int] = []
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            found += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        raise UsageError(f"--gpu_ids {text!r}: write 0,1 or 0-3, or -1 for all") from None
    if options.num_gpus not in (-1, 0, len(found)):
        raise UsageError(f"--num_gpus={options.num_gpus} and --gpu_ids={text} say different numbers of GPUs")
    return found


def _configs(options: argparse.Namespace) -> list[str]:
    """Each config once, sorted, as engineV2 does it."""
    patterns = [one.strip() for one in options.api_config_file_pattern.split(",") if one.strip()]
    paths = [name for pattern in patterns for name in sorted(glob.glob(pattern, recursive=True))]
    if options.api_config_file:
        paths.append(options.api_config_file)
    if patterns and not paths:
        raise UsageError(f"no file matches {options.api_config_file_pattern}; the sets of PaddleAPITest lie in its own "
                         "repository, below tester/api_config, and `trueline export RUN --configs FILE` makes one of "
                         "what your program calls")  # fmt: skip
    if not paths:
        raise UsageError("nothing to test: give --api_config_file, --api_config_file_pattern or --api_config")
    found: set[str] = set()
    for name in paths:
        if not Path(name).is_file():
            raise UsageError(f"--api_config_file: there is no file {name}")
        found.update(lines_of(Path(name)))
    return sorted(found)


def _test(configs: Sequence[str], folder: Path, mode: str, place: _Place, options: argparse.Namespace) -> int:
    with LogFolder(folder) as log:
        log.reconcile()
        known = len(configs)
        waiting = [one for one in configs if one not in log.done]
        print(f"{known} configs, {known - len(waiting)} of them in checkpoint.txt, {len(waiting)} to test", flush=True)
        add_tolerances(log)
        if not waiting:
            log.write_verdicts()
            _outlive_the_look()
            return EXIT_CLEAN if known else EXIT_FAILED
        batch = log.batch(waiting)
        if mode:
            wrong = _check(waiting, batch, log, mode, place, options)
        else:
            wrong = time_configs(waiting, batch, log, place.target, place.reference, options)
        print(_told(log, known), flush=True)
        code, why = _exit(log, wrong)
        print(f"Exit code {code}: {why}", flush=True)
        return code


def _exit(log: LogFolder, wrong: bool) -> tuple[int, str]:
    """The exit code, and which of the two rules decides it."""
    if not log.counts.total() - log.counts[SKIP]:
        return EXIT_FAILED, "nothing could be tested"
    failed = sum(log.counts[name] for name in _WRONG)
    parts = [f"by the old rule {failed} of these fail" if failed else "by the old rule none of these fails",
             f"trueline finds {'something' if wrong else 'nothing'} wrong ({VERDICTS})"]  # fmt: skip
    return EXIT_FINDINGS if wrong or failed else EXIT_CLEAN, "; ".join(parts)


def _outlive_the_look() -> None:
    """The script of the document starts engineV2 by nohup and says that it failed where it is gone after a second; with
    nothing left to test it would be."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        time.sleep(_LOOK_SECONDS)


def _check(
    waiting: Sequence[str], batch: Path, log: LogFolder, mode: str, place: _Place, options: argparse.Namespace
) -> bool:
    """Tests; True where trueline finds something wrong, whatever the old rule says."""
    from trueline.campaign import check, load_check
    from trueline.campaign.modes import mode_named
    from trueline.judge.checks import DEFAULT_CHECK_STANDARD
    from trueline.records import Verdict

    old = f"allclose(rtol={options.rtol:g}, atol={options.atol:g}, equal_nan=true)"
    own = mode_named(mode).standard

    def ended(event: CaseEnded) -> None:
        config = waiting[line_number(event.line) - 1]
        said = log.ended(config, status_of(Ending(event.ending), event.api), event.reason)
        print(f"[{event.done}/{event.total}] {said}", flush=True)

    check(
        batch / "configs.txt",
        target=place.target,
        reference=place.reference if mode in ("accuracy", "tolerance", "amp") else None,
        standard=own or old,
        mode=mode,
        workers=place.workers,
        memory=place.memory,
        places=[{"CUDA_VISIBLE_DEVICES": str(card), **_ORDER} for card in place.cards],
        out=batch / "check",
        on_case=ended,
    )
    _skip_the_rest(waiting, batch, log, place.target)
    (batch / ENDED).touch()
    add_tolerances(log)
    log.write_verdicts()
    return load_check(batch / "check", own or DEFAULT_CHECK_STANDARD).verdict >= Verdict.FAIL


def _skip_the_rest(waiting: Sequence[str], batch: Path, log: LogFolder, target: str) -> None:
    """Lines that became no case: they cannot be read, or cannot be executed alone."""
    if all(config in log.done for config in waiting):
        return
    from trueline.campaign.sources import ConfigPart, Skip
    from trueline.cases import Target

    for item in ConfigPart.of(batch / "configs.txt", 0, Target.parse(target)).items():
        if isinstance(item.content, Skip):
            log.ended(waiting[item.mark[0] - 1], SKIP, item.content.reason)


def add_tolerances(log: LogFolder) -> None:
    """The rows of every batch of --test_tol whose rows are not in ``tol.csv`` yet, those of one that was killed too."""
    from trueline.campaign import load_check
    from trueline.campaign.tolerances import write_tolerances

    for batch in log.batches():
        added = batch / "in_tol_csv"
        if added.exists() or not (batch / "check" / "check.json").exists():
            continue
        if load_check(batch / "check").info.mode == "tolerance":
            write_tolerances(batch / "check")
            rows = (batch / "check" / "tolerances" / TOL).read_text(encoding="utf-8").splitlines(keepends=True)
            with open(log.path / TOL, "a", encoding="utf-8", newline="") as stream:
                stream.writelines(rows if stream.tell() == 0 else rows[1:])
        added.touch()


def _told(log: LogFolder, known: int) -> str:
    wrong = sum(log.counts[name] for name in _WRONG)
    parts = [f"{name}: {count}" for name, count in log.counts.most_common()]
    return "\n".join((
        f"Total cases: {known}",
        f"Tested cases: {log.counts.total()}",
        f"Failed cases: {wrong}",
        f"Skipped cases: {log.counts[SKIP]}",
        *(f"  {part}" for part in parts),
        f"Results: {log.path}",
    ))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
