"""Makes the pictures of the documentation: every kind of page as a real browser shows it, from real data.

    python docs/screenshots.py [NAME ...]

The first example of the project is captured twice and compared, checked and profiled; a training that overflows is
captured; operators are checked as a campaign; the transformer example runs as a pipeline. Needs torch, Chromium, a
Chinese font and some minutes; NAME (comparison, run, overflow, check, campaign, profile, pipeline) makes some of the
pictures alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
EXAMPLES = ROOT / "examples"
SCRIPT = "examples/train.py"
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.report.browser import Browser  # noqa: E402

OVERFLOWING = """
import torch

torch.manual_seed(0)
block = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64), torch.nn.LayerNorm(64))
model = torch.nn.Sequential(block, torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)).to(torch.float16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for step in range(24):
    with torch.no_grad():
        model[1].weight.mul_(1.75)  # what a learning rate that is too high does
    x = torch.randn(32, 64).half()
    loss = torch.nn.functional.cross_entropy(model(x).float(), torch.randint(0, 10, (32,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WIDE, PHONE = (1320, 1180), (390, 844)


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def trueline(*words: str | Path, folder: Path) -> None:
    command = [sys.executable, "-m", "trueline", *map(str, words)]
    ended = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(ended.stderr)


@contextmanager
def served(*words: str | Path, folder: Path) -> Iterator[str]:
    """The address of what ``trueline view`` serves."""
    command = [sys.executable, "-m", "trueline", "view", *map(str, words), "--no-browser", "--json"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


class Camera:
    """Takes pictures of pages."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def take(
        self,
        name: str,
        url: str,
        *,
        state: str = "",
        theme: str = "light",
        size: tuple[int, int] = WIDE,
        before: str = "",
    ) -> None:
        """One picture of the page at ``url``, after the program ``before`` ran in it."""
        browser = self.browser
        browser.resize(*size)
        browser.send("Emulation.setScrollbarsHidden", hidden=True)
        browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        browser.send("Page.navigate", url="about:blank")
        browser.send("Page.navigate", url=f"{url}#{state}")
        browser.wait("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined")
        if before:
            browser.run(before)
        browser.run("new Promise((done) => setTimeout(done, 500))")  # canvases are drawn in the next frames
        browser.screenshot(IMAGES / name)
        print(f"docs/images/{name}")


def captured(folder: Path) -> None:
    """The Runs of the first example, good and bad."""
    if (folder / "bad").exists():
        return
    shutil.copytree(EXAMPLES / "01_drifting_loss", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, more in (("good", ()), ("bad", ("--new-kernels",))):
        words = ("capture", "--out", name, "--data", "tensors", "--steps", "0-2", "--", "python", SCRIPT)
        trueline(*words, *more, folder=folder)


def comparison(camera: Camera, folder: Path) -> None:
    captured(folder)
    trueline("compare", "good", "bad", "--html", "comparison.html", folder=folder)
    page = f"file://{folder}/comparison.html"
    camera.take("comparison.png", page, state="lang=en")
    camera.take("comparison-dark.png", page, state="lang=en", theme="dark")
    camera.take("comparison-chinese.png", page, state="lang=zh")
    camera.take("comparison-phone.png", page, state="lang=en", size=PHONE)
    position = camera.browser.run("JSON.parse(document.getElementById('data').textContent).head.position")
    with served("good", "bad", folder=folder) as url:
        camera.take("call.png", url, state=f"lang=en&call={position}&tab=error")


def run(camera: Camera, folder: Path) -> None:
    overflowing(folder)
    trueline("report", "growing", "--html", "run.html", folder=folder)
    camera.take("run.png", f"file://{folder}/run.html", state="lang=en")
    camera.take("run-dark.png", f"file://{folder}/run.html", state="lang=en", theme="dark")


def overflowing(folder: Path) -> None:
    if (folder / "growing").exists():
        return
    (folder / "grow.py").write_text(OVERFLOWING, encoding="utf-8")
    trueline("capture", "--out", "growing", "--data", "tensors", "--", "python", "grow.py", folder=folder)


def overflow(camera: Camera, folder: Path) -> None:
    overflowing(folder)
    trueline("overflow", "growing", "--html", "overflow.html", folder=folder)
    camera.take("overflow.png", f"file://{folder}/overflow.html", state="lang=en")


def check(camera: Camera, folder: Path) -> None:
    captured(folder)
    words = ("check", "good", "--target", "torch:cpu", "--limit", "60", "--html", "check.html")
    trueline(*words, folder=folder)
    camera.take("check.png", f"file://{folder}/check.html", state="lang=en")


def campaign(camera: Camera, folder: Path) -> None:
    words = ("check", "--ops", "torch.special.*", "--ops", "torch.nn.functional.*", "--target", "torch:cpu/bfloat16")
    trueline(*words, "--standard", "allclose", "--out", "campaign", folder=folder)
    with served("campaign", folder=folder) as url:
        camera.take("campaign.png", url, state="lang=en")


def profile(camera: Camera, folder: Path) -> None:
    captured(folder)
    words = ("profile", "good", "--target", "torch:cpu/bfloat16", "--against", "torch:cpu", "--limit", "60")
    trueline(*words, "--budget", "0.2", "--out", "profile", folder=folder)
    trueline("report", "profile", "--html", "profile.html", folder=folder)
    camera.take("profile.png", f"file://{folder}/profile.html", state="lang=en")


def pipeline(camera: Camera, folder: Path) -> None:
    shutil.copytree(EXAMPLES / "torch_transformer", folder / "chain", ignore=shutil.ignore_patterns("__pycache__"))
    words = ("pipeline", "pipeline.yaml", "lite_train_lite_infer", "--warm", "--out", "../pipeline")
    trueline(*words, folder=folder / "chain")
    with served("pipeline", folder=folder) as url:
        camera.take("pipeline.png", url, state="lang=en")


PICTURES: dict[str, Callable[[Camera, Path], None]] = {
    "comparison": comparison, "run": run, "overflow": overflow, "check": check, "campaign": campaign,
    "profile": profile, "pipeline": pipeline,
}  # fmt: skip


def require_chinese() -> None:
    """Without a font that has Chinese letters the pictures would show boxes."""
    asked = ["fc-list", ":lang=zh"]
    if shutil.which(asked[0]) and not subprocess.run(asked, capture_output=True, check=False).stdout.strip():
        raise SystemExit("no font here has Chinese letters: install one first (Debian: fonts-wqy-zenhei)")


def main(names: list[str]) -> None:
    require_chinese()
    IMAGES.mkdir(exist_ok=True)
    folder = Path(tempfile.gettempdir()) / "project"  # it is seen in the pictures
    folder.mkdir()
    try:
        with Browser(folder / "profile-of-the-browser", *WIDE) as browser:
            for name in names or PICTURES:
                PICTURES[name](Camera(browser), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
