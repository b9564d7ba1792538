"""From a drifting loss to the line that made it drift, in four commands.

    python demo.py [--out FOLDER]

Trains a small transformer twice, once on kernels of which one is wrong, and lets trueline say which. Ends with exit
code 0 if the planted call was named, from statistics alone and again from tensors.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAIN = str(HERE / "train.py")
PLANTED = {"api": "torch.nn.functional.gelu", "index": 2, "module": "blocks.2", "phase": "forward"}
LINE = next(number for number, line in enumerate((HERE / "model.py").read_text().splitlines(), 1) if "F.gelu" in line)


def run(*words: str, expect: int = 0) -> None:
    """Shows a command and runs it."""
    print("\n$ " + " ".join(words), flush=True)
    program = [sys.executable, "-m", "trueline", *words[1:]] if words[0] == "trueline" else list(words)
    code = subprocess.run(program, check=False).returncode
    if code != expect:
        sys.exit(f"exit code {code}, expected {expect}: " + " ".join(words))


def named(report: Path) -> bool:
    """Whether a comparison blames the planted call, its module and its line."""
    origin = json.loads(report.read_text())["origin"]
    if origin is None:
        return False
    call = origin["call"]
    right = all(call[key] == value for key, value in PLANTED.items())
    return right and f"model.py:{LINE} " in call["source"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="demo-out", help="folder for the Runs and the report (default: demo-out)")
    out = Path(parser.parse_args().out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    python = sys.executable
    good, bad = out / "good", out / "bad"

    print("The same training twice; the second time on new kernels. The loss drifts:")
    run("trueline", "capture", "--out", str(good), "--", python, TRAIN)
    run("trueline", "capture", "--out", str(bad), "--", python, TRAIN, "--new-kernels")

    print("\nStatistics alone (a few hundred bytes a tensor) name the call:")
    run("trueline", "compare", str(good), str(bad), "--json", str(out / "stats.json"), expect=1)

    print("\nWith the tensors of one step kept, the call is replayed in float64 to prove it:")
    for path, more in ((out / "good-tensors", []), (out / "bad-tensors", ["--new-kernels"])):
        run("trueline", "capture", "--out", str(path), "--data", "tensors", "--steps", "0", "--", python, TRAIN, *more)
    run(
        "trueline", "compare", str(out / "good-tensors"), str(out / "bad-tensors"),
        "--json", str(out / "tensors.json"), "--html", str(out / "report.html"), expect=1,
    )  # fmt: skip
    found = {name: named(out / f"{name}.json") for name in ("stats", "tensors")}
    for name, right in found.items():
        print(f"from {name}: the planted call was {'named' if right else 'NOT named'}")
    print(f"look at {out / 'report.html'} in a browser")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
