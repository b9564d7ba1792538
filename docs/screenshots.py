"""Makes the pictures of the documentation: the pages as a real browser shows them.

    python docs/screenshots.py

The first example of the project is captured twice and compared; needs torch and Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
EXAMPLE = ROOT / "examples" / "01_drifting_loss"
SCRIPT = "examples/train.py"
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.report.browser import Browser  # noqa: E402


def trueline(*words: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "trueline", *words]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(ended.stderr)


def picture(browser: Browser, name: str) -> None:
    browser.run("new Promise((done) => setTimeout(done, 300))")  # the canvas is drawn in the next frame
    browser.screenshot(IMAGES / name)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(EXAMPLE, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for name, more in (("good", ()), ("bad", ("--new-kernels",))):
            words = ("capture", "--out", name, "--data", "tensors", "--steps", "0-2", "--", "python", SCRIPT)
            trueline(*words, *more, folder=folder)
        trueline("compare", "good", "bad", "--html", "comparison.html", folder=folder)
        trueline("report", "bad", "--html", "run.html", folder=folder)
        trueline("check", "good", "--target", "torch:cpu", "--limit", "60", "--html", "check.html", folder=folder)
        with Browser(folder / "profile", width=1320, height=1180) as browser:
            browser.open(folder / "comparison.html")
            picture(browser, "comparison.png")
            browser.run("document.querySelector('.body .row.origin').click()")
            browser.run("document.querySelector('.picture h3').scrollIntoView({block: 'start', behavior: 'instant'})")
            picture(browser, "call.png")
            for name in ("run", "check"):
                browser.send("Page.navigate", url="about:blank")
                browser.open(folder / f"{name}.html")
                picture(browser, f"{name}.png")


if __name__ == "__main__":
    main()
