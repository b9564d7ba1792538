"""Kills in the middle of campaigns, and other misfortunes: ``python -m benchmarks.campaign_kills --kills 60``.

Each campaign is ``trueline check CONFIGS --out FOLDER``, killed again and again at random moments and begun again,
until it ends by itself. What its ledger says then is held against that of a campaign that nobody disturbed: every line
in exactly one row, the same endings and verdicts. Three of the lines hang, crash their worker, and eat all memory.

Writes ``benchmarks/results/campaign_kills.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tables import table

RESULTS = Path(__file__).parent / "results"
MARK = "TRUELINE_CAMPAIGN_KILLS"
LIMIT = 900.0
MOST_ROUNDS = 12
WAYS = ("coordinator SIGKILL", "coordinator SIGTERM", "coordinator SIGINT", "worker SIGKILL", "everybody SIGKILL")
SLOW = {"abs": "slow_abs", "exp": "slow_exp", "sin": "slow_sin", "tanh": "slow_tanh"}
"""Functions that stand for the APIs of most lines: a campaign has to last until it has been killed often enough."""
SLOW_SECONDS = 0.1
PAIRS = ("add", "mul", "sub", "maximum", "atan2", "hypot")
PADDLE_PAIRS = ("add", "multiply", "subtract", "maximum", "atan2")
FAULTY = {f"torch.nn.functional.{api}": way for api, way in (("softsign", "hang"), ("mish", "crash"), ("selu", "eat"))}
"""APIs that stand for the lines with a misfortune of their own."""


def slow_abs(value: Any) -> Any:
    time.sleep(SLOW_SECONDS)
    return value.abs()


def slow_exp(value: Any) -> Any:
    time.sleep(SLOW_SECONDS)
    return value.exp()


def slow_sin(value: Any) -> Any:
    time.sleep(SLOW_SECONDS)
    return value.sin()


def slow_tanh(value: Any) -> Any:
    time.sleep(SLOW_SECONDS)
    return value.tanh()


def hang(value: Any) -> Any:
    """Never comes back."""
    while True:
        time.sleep(1.0)


def crash(value: Any) -> Any:
    """Ends the worker as a wild pointer does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return value


def eat(value: Any) -> Any:
    """Takes all the memory that there is."""
    taken = []
    while True:
        taken.append(b"x" * (64 << 20))


def lines(framework: str, count: int) -> list[str]:
    """Config lines, all different; every twentieth cannot be read or has no such API, every fortieth came before."""
    names, pairs = tuple(SLOW), PAIRS if framework == "torch" else PADDLE_PAIRS
    found = []
    for number in range(count):
        shape = [2 + number % 29, 3 + number // 29]
        tensor = f'Tensor({shape},"float32")'
        if number % 40 == 39:
            found.append(found[-10])
        elif number % 20 == 19:
            found.append(f"{framework}.relu((({number}" if number % 3 else f"{framework}.no_such_thing({tensor}, )")
        elif number % 8 == 3:
            found.append(f"{framework}.{pairs[number % len(pairs)]}({tensor}, {tensor}, )")
        else:
            found.append(f"{framework}.{names[number % len(names)]}({tensor}, )")
    if framework == "torch":
        found += [f'{api}(Tensor([3, 5],"float32"), )' for api in FAULTY]
    return found


@dataclass
class Campaign:
    """One campaign with what disturbed it."""

    name: str
    framework: str
    kills: list[str] = field(default_factory=list)
    late: int = 0
    """Kills after a tenth of the cases had ended."""
    begun: int = 0
    seconds: float = 0.0
    exit: int | None = None
    rows: int = 0
    skipped: int = 0
    faults: list[str] = field(default_factory=list)


def command(framework: str, config: Path, folder: Path) -> list[str]:
    words = [sys.executable, "-m", "trueline", "check", str(config), "--out", str(folder)]
    words += ["--target", f"{framework}:cpu", "--workers", "2", "--timeout", "30", "--memory", "2"]
    own = {f"{framework}.{name}": way for name, way in SLOW.items()}
    for api, way in {**own, **(FAULTY if framework == "torch" else {})}.items():
        words += ["--override", f"{api}=benchmarks.campaign_kills:{way}"]
    return words


def start(campaign: Campaign, config: Path, folder: Path, mark: str, more: dict[str, str] | None = None) -> Any:
    campaign.begun += 1
    log = open(folder.with_suffix(".log"), "ab")
    environment = {**os.environ, MARK: mark, "PYTHONFAULTHANDLER": "1", **(more or {})}
    with log:
        return subprocess.Popen(
            command(campaign.framework, config, folder), stdout=log, stderr=log, env=environment, start_new_session=True
        )


def marked(mark: str) -> Iterator[int]:
    """The processes of a campaign: whatever has its mark in the environment that it began with."""
    text = f"{MARK}={mark}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if text in (entry / "environ").read_bytes() + b"\0":
                    yield int(entry.name)
            except OSError:
                continue


def ended(folder: Path) -> int:
    """How many cases have ended."""
    try:
        with sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True, timeout=5) as connection:
            return int(connection.execute("SELECT COUNT(*) FROM cases WHERE ending IS NOT NULL").fetchone()[0])
    except sqlite3.Error:
        return 0


def kill(way: str, pid: int, mark: str, source: random.Random) -> str:
    """Does it; gives what was done, empty where there was nobody."""
    who, _, name = way.partition(" ")
    number = getattr(signal, name)
    others = [one for one in marked(mark) if one != pid]
    if who == "coordinator":
        targets = [pid]
    elif who == "worker":
        targets = [source.choice(others)] if others else []
    else:
        targets = [pid, *others]
    for one in targets:
        try:
            os.kill(one, number)
        except ProcessLookupError:
            continue
    return way if targets else ""


def wait(process: Any, folder: Path, wanted: int, moment: float) -> bool:
    """Waits until so many cases have ended and then for a moment; False where the campaign ended before."""
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < LIMIT and ended(folder) < wanted:
        time.sleep(0.02)
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        return True
    return False


def disturb(campaign: Campaign, config: Path, folder: Path, kills: int, total: int, source: random.Random) -> None:
    """Kills a campaign so many times, spread over its life, and lets it end then: now while it starts, now when more
    cases have ended since the last kill."""
    began = time.monotonic()
    process, mark = None, ""
    while len(campaign.kills) < kills:
        if process is None:
            mark = f"{campaign.name}-{campaign.begun}"
            process = start(campaign, config, folder, mark)
        reached, left = ended(folder), kills - len(campaign.kills)
        early = source.random() < 0.2
        more = 0 if early else source.randint(1, max(1, (total - reached) // (left + 2)))
        if not wait(process, folder, reached + more, source.uniform(0.0, 3.0 if early else 0.3)):
            break
        way = kill(source.choice(WAYS), process.pid, mark, source)
        if not way:
            continue
        campaign.kills.append(way)
        campaign.late += reached + more >= 0.1 * total
        if not way.startswith("worker"):
            _gone(process, campaign, mark)
            process = None
    if process is None:
        process = start(campaign, config, folder, "last")
    campaign.exit = process.wait(LIMIT)
    campaign.seconds = time.monotonic() - began


def _gone(process: Any, campaign: Campaign, mark: str) -> None:
    """Sees to it that everybody of a killed campaign is gone, as they should be by themselves."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        campaign.faults.append(f"the coordinator lives on after {campaign.kills[-1]}")
        process.send_signal(signal.SIGABRT)  # with faulthandler on, it says where
        time.sleep(1.0)
        process.kill()
        process.wait()
    end = time.monotonic() + 30
    while (left := list(marked(mark))) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        campaign.faults.append(f"process {pid} lives on after {campaign.kills[-1]}")
        os.kill(pid, signal.SIGKILL)


Row = tuple[str, str, int | None]


def rows(folder: Path) -> dict[str, Row]:
    with sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True) as connection:
        query = "SELECT key, line, ending, verdict, count FROM cases WHERE position IS NOT NULL"
        found = connection.execute(query).fetchall()
        skips = connection.execute("SELECT place, reason, count FROM skips").fetchall()
    kept: dict[str, Any] = {f"case {row[0]}": row[1:] for row in found}
    assert len(kept) == len(found), "a case has two rows"
    kept.update({f"skip {row[0]} {row[1]}": row[2:] for row in skips})
    return kept


def hold_against(campaign: Campaign, folder: Path, right: dict[str, Row], right_exit: int | None, count: int) -> None:
    """Notes all in which a campaign differs from the undisturbed one."""
    found = rows(folder)
    campaign.rows = sum(name.startswith("case") for name in found)
    campaign.skipped = sum(row[-1] or 0 for name, row in found.items() if name.startswith("skip"))
    told = campaign.skipped + sum(row[-1] for name, row in found.items() if name.startswith("case"))
    if told != count:
        campaign.faults.append(f"{count} lines, {told} told of")
    for name in right.keys() | found.keys():
        if right.get(name) != found.get(name):
            campaign.faults.append(f"{name}: {found.get(name)}, undisturbed {right.get(name)}")
    if campaign.exit != right_exit:
        log = folder.with_suffix(".log")
        said = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        campaign.faults.insert(0, f"exit code {campaign.exit}, undisturbed {right_exit}: {' '.join(said)[:300]}")


_JUMPS = """
import random as _random, time as _time
_real, _source = _time.time, _random.Random(7)
def time(): return _real() + 86400 * _source.choice((-1, 0, 1))
_time.time = time
"""


def clock(campaign: Campaign, config: Path, folder: Path) -> None:
    """A campaign of whose processes each is told another day at every look at the clock."""
    shim = folder.parent / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(_JUMPS)
    path = os.pathsep.join([str(shim), os.environ.get("PYTHONPATH", "")])
    began = time.monotonic()
    campaign.exit = start(campaign, config, folder, "clock", {"PYTHONPATH": path}).wait(LIMIT)
    campaign.seconds = time.monotonic() - began
    with sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True) as connection:
        least, most = connection.execute("SELECT MIN(seconds), MAX(seconds) FROM cases").fetchone()
    if least < 0 or most > campaign.seconds:
        campaign.faults.append(f"a case took {least} s, another {most} s, in a campaign of {campaign.seconds:.0f} s")


def full_disk(campaign: Campaign, config: Path, folder: Path) -> None:
    """A campaign on a disk that becomes full, and has room again. Needs the right to mount a small one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        campaign.faults.append("not tried: no right to mount a small disk")
        return
    began = time.monotonic()
    out = folder / "check"
    log = folder.parent / "full.log"
    try:
        first = _logged(campaign, config, out, log)
        said = log.read_text(errors="replace")
        campaign.kills.append(f"full disk: exit code {first}")
        if first != 2 or "Traceback" in said or not ("disk" in said or "space" in said):
            campaign.faults.append(f"a full disk ends in {first}, with {said[-300:]!r}")
        subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)
        campaign.exit = _logged(campaign, config, out, log)
        kept = folder.parent / "full-kept"
        kept.mkdir()
        (kept / "ledger.db").write_bytes((out / "ledger.db").read_bytes())
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        campaign.seconds = time.monotonic() - began


def _logged(campaign: Campaign, config: Path, folder: Path, log: Path) -> int:
    campaign.begun += 1
    with open(log, "wb") as stream:
        words = command(campaign.framework, config, folder)
        return subprocess.run(words, stdout=stream, stderr=stream, check=False, timeout=LIMIT).returncode


def report(campaigns: list[Campaign], asked: int, seed: int) -> str:
    killed = [campaign for campaign in campaigns if campaign.name.startswith("killed")]
    kills = collections.Counter(way for campaign in killed for way in campaign.kills)
    late = sum(campaign.late for campaign in killed)
    text = (
        "# Campaigns that were killed\n\n"
        f"`python -m benchmarks.campaign_kills --kills {asked} --seed {seed}`: {kills.total()} kills, {late} of them "
        "after a tenth of the cases had ended; each campaign was begun again until it ended by itself, and is held "
        "against one that nobody disturbed.\n\n"
        + table(["kill", "times"], [[way, str(count)] for way, count in kills.most_common()])
        + "\n"
        + table(
            ["campaign", "kills", "begun", "exit", "rows", "lines skipped", "seconds", "differences"],
            [
                [
                    one.name, str(len(one.kills)), str(one.begun), str(one.exit), str(one.rows), str(one.skipped),
                    f"{one.seconds:.0f}", "; ".join(one.faults[:3]) or "none",
                ]
                for one in campaigns
            ],
        )
    )  # fmt: skip
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="names of campaigns")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its jobs in the background ignore it
    campaigns: list[Campaign] = []
    with tempfile.TemporaryDirectory(prefix="trueline-kills-") as scratch:
        for framework, share in (("torch", 0.75), ("paddle", 0.25)):
            kills = round(options.kills * share)
            campaigns += _campaigns(framework, Path(scratch) / framework, kills, options)
            (options.out / "campaign_kills.json").write_text(
                json.dumps({"seed": options.seed, "campaigns": [asdict(one) for one in campaigns]}, indent=1) + "\n"
            )
    text = report(campaigns, options.kills, options.seed)
    (options.out / "campaign_kills.md").write_text(text)
    print(text)
    return 1 if any(campaign.faults for campaign in campaigns) else 0


def _campaigns(framework: str, scratch: Path, kills: int, options: argparse.Namespace) -> Iterator[Campaign]:
    scratch.mkdir()
    written = lines(framework, options.lines if framework == "torch" else options.lines // 2)
    config = scratch / "lines.txt"
    config.write_text("\n".join(written) + "\n")
    source = random.Random(options.seed)
    right = Campaign(f"undisturbed {framework}", framework)
    began = time.monotonic()
    right.exit = start(right, config, scratch / "right", "right").wait(LIMIT)
    right.seconds = time.monotonic() - began
    known = rows(scratch / "right")
    hold_against(right, scratch / "right", known, right.exit, len(written))
    yield right
    total = right.rows
    done = turn = 0
    while done < kills and turn < MOST_ROUNDS:
        one = Campaign(f"killed {framework} {turn}", framework)
        disturb(one, config, scratch / f"killed{turn}", min(kills - done, 15), total, source)
        hold_against(one, scratch / f"killed{turn}", known, right.exit, len(written))
        print(one, flush=True)
        done += len(one.kills)
        turn += 1
        yield one
    if framework == "torch":
        jumping = Campaign("a clock that jumps", framework)
        clock(jumping, config, scratch / "clock")
        hold_against(jumping, scratch / "clock", known, right.exit, len(written))
        yield jumping
        full = Campaign("a full disk", framework)
        full_disk(full, config, scratch / "full")
        if (scratch / "full-kept").exists():
            hold_against(full, scratch / "full-kept", known, right.exit, len(written))
        yield full


if __name__ == "__main__":
    sys.exit(main())
