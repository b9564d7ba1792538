"""Plants every fault, captures, compares, and counts how often the origin is named first.

    python -m benchmarks.faults.run [--peer] [--data tensors,stats] [NAME ...]

NAME selects pairs whose names contain it. What did not run (other pairs, the other tool) is kept from the last
results, so that one tool can be measured again without the other. Writes ``results/faults.json`` and
``results/faults.md`` beside the benchmarks. The peer (``--peer``) runs on the same pairs in its own environment and
takes longer than ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks import peer
from benchmarks.faults import ours, scoring
from benchmarks.faults.catalogue import Fault
from benchmarks.faults.honest import Clean
from benchmarks.faults.pairs import Pair, pairs
from benchmarks.faults.scoring import Answer

ALWAYS = (
    "A fault counts as found when the first call that the tool names is the planted one, in the right phase. Of the "
    "peer that is the call of its first row that is not `pass`; an alarm on a clean pair is a row with `error`. The "
    "peer calls every row whose dtypes differ an error, so it alarms on all pairs of different precision."
)
RESULTS = Path(__file__).resolve().parent.parent / "results"
TASKS = {"tensors": "tensor", "stats": "statistics"}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def peer_answers(chosen: Sequence[Pair], data: str, scratch: Path, tell: Callable[[str], None]) -> dict[str, Answer]:
    """The peer's answers for one task, from its two processes."""
    folder = scratch / f"peer_{data}"
    request = json.dumps({"task": TASKS[data], "folder": str(folder), "names": [pair.name for pair in chosen]})
    command = [str(peer.python()), "-m", "benchmarks.faults.peer_side"]
    tell(f"peer {data}: capturing {len(chosen)} pairs")
    captured = peer.timed([*command, "capture", request], threads=1, timeout=3600)
    if captured.returncode != 0:
        raise peer.PeerUnavailable(f"its capture ended with {captured.returncode}: {captured.output[-500:]}")
    result: dict[str, Answer] = {}
    compare = subprocess.Popen(
        [*command, "compare", request],
        cwd=peer.ROOT,
        env=peer.environment(1),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert compare.stdout is not None
    for line in compare.stdout:
        if line.startswith("{"):
            answer = Answer(**json.loads(line))
            result[answer.pair] = answer
            tell(f"peer {data}: {answer.pair}: {'right' if answer.right else 'WRONG'} {answer.named}")
    if compare.wait() != 0:
        raise peer.PeerUnavailable(f"its compare ended with {compare.returncode}")
    return result


def _runnable(chosen: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """The pairs that can run here, and why the others cannot."""
    skipped = [pair for pair in chosen if isinstance(pair, Clean) and pair.skip]
    notes = [f"Skipped {pair.name}: {pair.skip}." for pair in skipped if isinstance(pair, Clean)]
    return [pair for pair in chosen if pair not in skipped], notes


def collect(arguments: argparse.Namespace, chosen: list[Pair], notes: list[str]) -> dict[str, dict[str, Answer]]:
    answers: dict[str, dict[str, Answer]] = {}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        for data in arguments.data.split(","):
            if not arguments.no_ours:
                answers[f"ours, {data}"] = ours.answers(chosen, data, Path(folder), progress)
        if arguments.peer:
            try:
                peer.ensure()
                for data in arguments.data.split(","):
                    answers[f"peer, {data}"] = peer_answers(chosen, data, Path(folder), progress)
                notes.append(f"The peer is {peer.version()}.")
            except peer.PeerUnavailable as error:
                notes.append(f"The peer could not run: {error}")
    return answers


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data", default="tensors,stats", help="what the comparison may see")
    parser.add_argument("--peer", action="store_true", help="run the peer on the same pairs")
    parser.add_argument("--no-ours", action="store_true")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path, default=RESULTS / "faults.json")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.data.split(",")) - set(TASKS)
    if unknown:
        parser.error(f"no data mode named {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    torch.set_num_threads(1)
    chosen, _ = _runnable(pairs(arguments.names))
    shown, skipped = _runnable(pairs())
    notes = [ALWAYS, *skipped, *scoring.peer_notes(arguments.json, arguments.peer)]
    if not chosen:
        print("no pair has such a name", file=sys.stderr)
        return 2
    faults = sum(isinstance(pair, Fault) for pair in chosen)
    progress(f"{faults} faults, {len(chosen) - faults} clean pairs")
    answers = scoring.merged(scoring.load(arguments.json), collect(arguments, chosen, notes))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    document = scoring.document(shown, answers, notes)
    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    text = scoring.markdown(shown, answers, notes)
    arguments.json.with_suffix(".md").write_text(text)
    print(text.partition("| pair |")[0])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
