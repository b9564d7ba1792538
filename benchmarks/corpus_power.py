"""How many planted faults are found on a corpus of config lines: by the product, and by the rule of the predecessor.

    python -m benchmarks.corpus_power                         the project's own corpus: the examples of the mapping
    python -m benchmarks.corpus_power --corpus FILE           any other one

Every line that passes on ``paddle:cpu`` against ``torch:cpu`` is tried, its forward alone where gradients do not pass
(Paddle gives some inputs none). Value faults are planted into its results, and into its gradients; wrong
implementations take the place of its API. A fault that changes no number is no trial, nor is one after which every
element is still one of the two numbers around the exact result. The predecessor's side draws its
own data (floats within 0.5 of zero, bools all true, complex numbers without imaginary parts) and accepts what lies
within 1e-2 of torch's result, absolute or relative.

Writes ``benchmarks/results/corpus_power.json`` and ``.md``; of another corpus nothing but counts and names of APIs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.corpus_trials import TRIALS
from trueline.cases import Case, Target
from trueline.formats.configs import ConfigError, config_to_case, parse_configs
from trueline.ops.domains import with_domains
from trueline.ops.mapping.rows import rows
from trueline.replay.pool import Job, Pool
from trueline.replay.serial import case_to_json, target_to_json

RESULTS = Path(__file__).parent / "results"
OWN = "examples of the mapping"
DRAWS = 4
Line = tuple[str, str]
"""API and text."""


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    started = time.perf_counter()
    lines = list(_lines(options.corpus, options.every))
    record = _tried(lines, options)
    record["seconds"] = round(time.perf_counter() - started, 1)
    known = json.loads((RESULTS / "corpus_power.json").read_text()) if (RESULTS / "corpus_power.json").exists() else {}
    known[options.name or (OWN if options.corpus is None else options.corpus.stem)] = record
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "corpus_power.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "corpus_power.md").write_text(_page(known), encoding="utf-8")
    ours = record["shares"]["all"]["ours"]
    print(f"{len(lines)} lines, {record['tried']} tried, {ours[0]} of {ours[1]} faults found")
    return 0 if ours[1] and ours[0] >= 0.95 * ours[1] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus_power", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, help="a file of config lines; without it the project's own examples")
    parser.add_argument("--name", default="", help="what the corpus is called in the tables")
    parser.add_argument("--every", type=int, default=1, help="take every n-th line only")
    parser.add_argument("--elements", type=int, default=200_000, help="leave out lines with more elements than this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a line may take")
    return parser


def _lines(corpus: Path | None, every: int) -> Iterator[Line]:
    if corpus is None:
        found = [(row.paddle, line) for row in rows().values() for line in row.examples]
    else:
        found = [(line.partition("(")[0].strip(), line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    yield from (line for line in found[::every] if line[1].strip())


def _tried(lines: list[Line], options: argparse.Namespace) -> dict[str, Any]:
    target, reference = Target.parse("paddle:cpu"), Target.parse("torch:cpu")
    setup = {"target": target_to_json(target), "reference": target_to_json(reference), "draws": DRAWS}
    left_out: Counter[str] = Counter()
    apis: dict[str, str] = {}

    def jobs() -> Iterator[Job]:
        for number, (api, text) in enumerate(lines):
            case = _case(text)
            if case is None or sum(prod(spec.shape) for spec in case.tensors) > options.elements:
                left_out["cannot be read" if case is None else f"more than {options.elements} elements"] += 1
                continue
            apis[str(number)] = api
            yield Job(str(number), case_to_json(case))

    environment = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    said: dict[str, Any] = {}
    with Pool(TRIALS, setup, workers=options.workers, timeout=options.timeout, environment=environment) as pool:
        for done in pool.run(jobs()):
            if done.outcome is not None:
                left_out[f"{done.outcome.status.value} while it was tried"] += 1
            elif done.answer["skipped"]:
                left_out[done.answer["skipped"].split(":")[0]] += 1
            else:
                said[done.key] = done.answer
    return _record(said, apis, left_out, len(lines))


def _case(text: str) -> Case | None:
    from hashlib import sha256

    for _, config in parse_configs([text]):
        if not isinstance(config, ConfigError):
            seed = int.from_bytes(sha256(f"0 {text.strip()}".encode()).digest()[:8], "little") >> 1
            try:
                return with_domains(config_to_case(config, seed))
            except ConfigError:
                return None
    return None


def _record(said: dict[str, Any], apis: dict[str, str], left_out: Counter[str], count: int) -> dict[str, Any]:
    """Counts by fault and side; what was missed, by API."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    missed: dict[str, Counter[str]] = defaultdict(Counter)
    for key, answer in said.items():
        for kind, faults in (("value", answer["values"]), ("wrong", answer["wrong"])):
            for fault, sides in faults.items():
                name = fault if kind == "value" else f"{apis[key].rpartition('.')[2]} {fault}"
                for side, state in sides.items():
                    counts[f"{kind} {name}"][side][state] += 1
                if sides["ours"] == "missed":
                    missed[f"{kind} {name}"][apis[key]] += 1
    plain = {name: {side: dict(states) for side, states in sides.items()} for name, sides in counts.items()}
    return {
        "lines": count,
        "tried": len(said),
        "left out": dict(left_out),
        "shares": _shares(plain),
        "faults": plain,
        "missed": {name: dict(found.most_common()) for name, found in missed.items()},
    }


def _shares(faults: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """(found, trials) of groups of faults."""
    groups = {
        "value faults in results": [name for name in faults if name.startswith("value output")],
        "value faults in gradients": [name for name in faults if name.startswith("value gradient")],
        "wrong implementations": [name for name in faults if name.startswith("wrong")],
    }
    groups["all"] = list(faults)
    return {
        group: {
            side: list(_found([faults[name].get(side, {}) for name in names])) for side in ("ours", "theirs", "draws")
        }
        for group, names in groups.items()
    }


def _found(states: list[dict[str, int]]) -> tuple[int, int]:
    found = sum(one.get("found", 0) for one in states)
    return found, found + sum(one.get("missed", 0) for one in states)


def _page(known: dict[str, Any]) -> str:
    lines = ["# Faults found on corpora of config lines", "", *__doc__.split("\n\n")[2].split("\n"), ""]
    lines += [
        "| corpus | lines tried | faults | found | by the predecessor's rule on its data |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, record in known.items():
        for group, sides in record["shares"].items():
            lines.append(f"| {name} | {record['tried']} of {record['lines']} | {group} | {_share(sides['ours'])} "
                         f"| {_share(sides['theirs'])} |")  # fmt: skip
    for name, record in known.items():
        lines += ["", f"## {name}", "", *_left_out(record), "", *_table(record), "", *_missed(record)]
    return "\n".join(lines) + "\n"


def _share(pair: list[int] | tuple[int, int]) -> str:
    found, trials = pair
    return f"{found} of {trials} ({found / trials:.1%})" if trials else "no trial"


def _left_out(record: dict[str, Any]) -> list[str]:
    words = "; ".join(
        f"{count} {reason}" for reason, count in sorted(record["left out"].items(), key=lambda one: -one[1])
    )
    return [f"Left out: {words}." if words else "No line is left out."]


def _table(record: dict[str, Any]) -> list[str]:
    lines = [
        "| fault | found | in one of four draws | by the predecessor | changes nothing | still faithful | refused |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for fault, sides in sorted(record["faults"].items()):
        ours = sides["ours"]
        cells = [
            fault.partition(" ")[2],
            _share(_found([ours])),
            _share(_found([sides["draws"]])) if "draws" in sides else "",
            _share(_found([sides.get("theirs", {})])),
            *(str(ours.get(state, 0)) for state in ("same", "faithful", "refused")),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _missed(record: dict[str, Any]) -> list[str]:
    lines = ["Missed, by API:", ""]
    for fault, apis in sorted(record["missed"].items()):
        lines.append(f"- {fault.partition(' ')[2]}: " + ", ".join(f"{api} {count}" for api, count in apis.items()))
    return lines if record["missed"] else ["Nothing was missed."]


if __name__ == "__main__":
    sys.exit(main())
