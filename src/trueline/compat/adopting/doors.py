"""What each predecessor's document expects to find in the folder in which it is followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from trueline.errors import UsageError

COMPAT = Path(__file__).resolve().parents[1]


class Kind(Enum):
    """What happens where the project has a file of the name already."""

    SCRIPT = "ours takes its place, and a copy of it is kept"
    TEMPLATE = "it stays: it is for the user to fill in, and may be filled in"
    CHECKOUT = "for a folder that is made or empty alone, which then is what a checkout of the old tool was"


@dataclass(frozen=True, slots=True)
class Item:
    """One file: where it lies in this package, and where it goes, below the folder of the project."""

    source: Path
    target: PurePosixPath
    kind: Kind


@dataclass(frozen=True, slots=True)
class Door:
    """A predecessor. ``sources`` are files or folders of this package, with the place they go to; ``works`` is what can
    be typed afterwards."""

    name: str
    predecessor: str
    sources: tuple[tuple[str, str], ...]
    works: tuple[str, ...]
    folders: tuple[str, ...] = ()
    """Folders that the commands of the document expect to be there."""

    def items(self) -> list[Item]:
        return [item for source, target in self.sources for item in _items(COMPAT / source, PurePosixPath(target))]


_TEMPLATES = ("*.yaml", "*.md", "*.txt", "common_func.sh", "run-example.sh")
"""common_func.sh is a template too: the project's own scripts were written for theirs."""


def _items(source: Path, target: PurePosixPath) -> Iterator[Item]:
    if source.is_file():
        yield Item(source, target, _kind(source.name))
        return
    for path in sorted(source.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield Item(path, target / path.relative_to(source).as_posix(), _kind(path.name))


def _kind(name: str) -> Kind:
    if name == "setup.py":
        return Kind.CHECKOUT
    return Kind.TEMPLATE if any(PurePosixPath(name).match(one) for one in _TEMPLATES) else Kind.SCRIPT


DOORS = {
    door.name: door
    for door in (
        Door("ptdbg", "ptdbg_ascend", (("names/ptdbg_ascend", "ptdbg_ascend"),), ("from ptdbg_ascend import *",)),
        Door(
            "checker", "api_accuracy_checker", (("names/api_accuracy_checker", "api_accuracy_checker"),),
            ("import api_accuracy_checker.dump",
             "cd api_accuracy_checker/run_ut && python run_ut.py -forward ./forward_info_0.json"),
        ),
        Door(
            "apex", "PaddleAPEX",
            (("names/paddleapex", "paddleapex"), ("names/checkout_of_PaddleAPEX/setup.py", "setup.py")),
            ("from paddleapex import Tracer",
             "cd paddleapex/apex && python run_paddle.py -json JSON -backend gpu -out DIR --dtype FP32 -mode all"),
        ),
        Door(
            "apitest", "PaddleAPITest",
            (
                ("names/PaddleAPITest/engineV2.py", "engineV2.py"),
                ("names/PaddleAPITest/run-example.sh", "run-example.sh"),
                ("names/PaddleAPITest/tools/retest_remover.py", "tools/retest_remover.py"),
                ("names/PaddleAPITest/tools/tol_csv_stat.py", "tools/tol_csv_stat.py"),
                ("names/PaddleAPITest/5_accuracy", "tester/api_config/5_accuracy"),
            ),
            ("cp run-example.sh run_tol.sh && ./run_tol.sh",
             'python engineV2.py --api_config_file_pattern="tester/api_config/5_accuracy/accuracy_*.txt" '
             "--accuracy=True"),
            ("tester/api_config/test_log_tol",),
        ),
        Door(
            "tipc", "TIPC", (("tipc/test_tipc", "test_tipc"),),
            ("bash test_tipc/prepare.sh CONFIG lite_train_lite_infer",
             "bash test_tipc/test_train_inference_python.sh CONFIG lite_train_lite_infer"),
        ),
    )
}  # fmt: skip
"""By the word that ``trueline adopt`` knows it by."""


def door_named(name: str) -> Door:
    if name not in DOORS:
        raise UsageError(f"there is no predecessor {name!r}; there are {', '.join(DOORS)}")
    return DOORS[name]
