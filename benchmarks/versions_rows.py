"""The rows of the matrix that ``benchmarks.versions`` makes, and the tests that are run in each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One environment."""

    framework: str
    version: str
    python: str
    numpy: str
    """As pip is told; both sides of the change to numpy 2 are there."""
    faults: bool = False
    """Whether faults are planted; that takes longer than all the rest."""

    @property
    def name(self) -> str:
        return f"{self.framework}-{self.version}-py{self.python}"

    @property
    def packages(self) -> list[str]:
        if self.framework == "torch":
            return [f"torch=={self.version}", self.numpy]
        return [f"paddlepaddle=={self.version}", "torch==2.13.0", self.numpy]  # tests of capture use both


ROWS = (
    Row("torch", "2.4.1", "3.10", "numpy==1.26.4", faults=True),
    Row("torch", "2.6.0", "3.12", "numpy>=2"),
    Row("torch", "2.8.0", "3.13", "numpy>=2"),
    Row("torch", "2.11.0", "3.12", "numpy>=2"),
    Row("torch", "2.13.0", "3.11", "numpy>=2", faults=True),
    Row("torch", "2.14.1", "3.10", "numpy>=2"),
    Row("torch", "2.15.0", "3.11", "numpy==1.26.4"),
    Row("torch", "2.15.0", "3.12", "numpy>=2", faults=True),
    Row("torch", "2.15.0", "3.13", "numpy>=2"),
    Row("torch", "2.15.0", "3.14", "numpy>=2"),
    Row("paddle", "3.0.0", "3.11", "numpy<2.4"),
    Row("paddle", "3.1.1", "3.11", "numpy>=2"),
    Row("paddle", "3.2.2", "3.11", "numpy>=2"),
    Row("paddle", "3.3.1", "3.11", "numpy>=2"),
)
REFERENCE = "torch-2.13.0-py3.11"
"""Faults must get the same answers as with this one."""

TESTS = {
    "torch": (
        "tests/capture/test_completeness.py", "tests/capture/test_gradients.py", "tests/capture/test_scope.py",
        "tests/capture/test_tensors.py", "tests/capture/test_faults.py", "tests/capture/test_watch.py",
        "tests/frameworks/test_splice.py", "tests/frameworks/test_torch_functions.py",
        "tests/frameworks/test_torch_calls.py", "tests/frameworks/test_torch_look.py",
        "tests/frameworks/test_torch_light.py", "tests/frameworks/test_torch_quiet.py",
        "tests/frameworks/test_torch_gate.py", "tests/frameworks/test_torch_execute.py",
        "tests/compare/test_align.py", "tests/compare/test_measure.py", "tests/replay/test_golds.py",
    ),
    "paddle": (
        "tests/capture/test_paddle_completeness.py", "tests/capture/test_paddle_gradients.py",
        "tests/capture/test_paddle_scope.py", "tests/capture/test_paddle_tensors.py",
        "tests/capture/test_paddle_watch.py", "tests/frameworks/test_paddle_execute.py",
    ),
}  # fmt: skip
"""What tells most of capture, watch, compare and check; the demo replays calls besides."""
IDENTITY = {"torch": ("tests/capture/test_identity.py",), "paddle": ("tests/capture/test_paddle_identity.py",)}
