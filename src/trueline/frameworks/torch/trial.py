"""The program of a trial: ``python -m trueline.frameworks.torch.trial VERSION``. See ``gate``.

Records a few small programs in Python, then with the C extensions, and says whether the rows are the same. It may
crash: what was said before counts.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from trueline.frameworks.base import Scope, Source
from trueline.frameworks.light import LightOptions
from trueline.frameworks.torch import gate
from trueline.frameworks.torch.light_notebook import LightNotebook
from trueline.frameworks.torch.trials import MARK
from trueline.store.columns import CALL_COLUMNS

STEPS = 2
READ = ["count", "nan", "positive_infinity", "negative_infinity", "zeros", "largest", "smallest"]
"""What is compared of a look; calls are numbered differently."""
Program = Callable[[], None]


class Book(LightNotebook):
    """A notebook that keeps everything in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        self.visits: list[int] = []
        self.sources: list[Source] = []
        self.missing: list[tuple[int, str]] = []
        self.next_tensor = itertools.count().__next__
        self.read: dict[int, bytes] = {}

    def hand_over(self, statistics: Any = None, payloads: Any = None, done: Any = None) -> None:
        if statistics is not None:
            numbers, rows = statistics()
            self.read.update(zip(numbers.tolist(), (row.tobytes() for row in rows), strict=True))
        if done is not None:
            done()

    def wait_for_room(self) -> None:
        """There is always room."""

    def model_enters(self, *, trains: bool) -> None:
        """Nothing ends here."""

    def rows(self) -> dict[str, Any]:
        """All that was written, without the numbers of threads: a new thread has a new one."""
        for source in self.sources:
            made, looked = source()
            self.calls += np.frombuffer(made, dtype=np.int64).tolist()
            self.visits += np.frombuffer(looked, dtype=np.int64).tolist()
        thread, width = CALL_COLUMNS.index("thread"), len(CALL_COLUMNS)
        calls = [self.calls[first : first + width] for first in range(0, len(self.calls), width)]
        return {
            "calls": [row[:thread] + row[thread + 1 :] for row in calls],
            "visits": self.visits,
            "definitions": self.tables,
            "tensors": self.read,
            "faults": self.trouble_texts,
        }


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x.square() * gradients[0]


def _network() -> Program:
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.GELU(), torch.nn.LayerNorm(40), torch.nn.Linear(40, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def train() -> None:
        out = model(torch.randn(20, 3, 6))
        functional.cross_entropy(out.reshape(-1, 4), torch.zeros(60, dtype=torch.long), label_smoothing=0.1).backward()
        optimizer.step()
        optimizer.zero_grad()

    return train


def _in_place() -> Program:
    def change() -> None:
        x = torch.randn(4, 4, requires_grad=True)
        y = x * 2
        y[1:, :2].mul_(3)
        y += 1
        torch.add(torch.ones(2), 1, out=torch.zeros(2))
        functional.dropout(functional.relu(y, inplace=True), 0.5, True).sum().backward()

    return change


def _graph() -> Program:
    def differentiate() -> None:
        x = torch.randn(4, 6, requires_grad=True)
        first, second, _ = x.chunk(3, dim=1)
        values, _ = torch.max(first * second, dim=1)
        cubes: Any = _Cube.apply(torch.tanh(x))
        (values.sum() + torch.cat([x, x], dim=1)[1:, ::2, None].sum() + cubes.sum()).backward()

    return differentiate


def _kinds() -> Program:
    def make() -> None:
        pair = torch.ones(3, dtype=torch.complex64)
        (pair.conj().imag * 2, torch.eye(3).to_sparse(), torch.randn(3).bfloat16() + 1, torch.arange(5) // 2)
        with torch.inference_mode():
            torch.relu(torch.randn(3))
        with contextlib.suppress(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        thread = threading.Thread(target=lambda: torch.exp(torch.ones(2)))
        thread.start()
        thread.join()

    return make


PROGRAMS: tuple[Callable[[], Program], ...] = (_network, _in_place, _graph, _kinds)


def recorded() -> list[dict[str, Any]]:
    """What a capture writes of each program."""
    from trueline.frameworks.torch.doors import TorchWatcher

    found = []
    for make in PROGRAMS:
        book, program = Book(), make()
        watcher = TorchWatcher(book, Scope())
        for book.step in range(STEPS):
            torch.manual_seed(7)
            watcher.start()
            try:
                program()
            finally:
                watcher.pause()
        watcher.close()
        found.append(book.rows())
    return found


def watched() -> list[set[str]]:
    """What a light watch reads at the sinks of each program. At other tensors both ways look in turns of their own."""
    from trueline.frameworks.torch.light import TorchLightWatcher

    found = []
    for make in PROGRAMS:
        program = make()
        watcher = TorchLightWatcher(LightOptions(whole=True))
        torch.manual_seed(7)
        watcher.start()
        try:
            for step in range(STEPS):
                program()
                watcher.end_step(step)
        finally:
            watcher.stop()
        looks = watcher.poll()
        found.append({repr(row) for one in looks for row in one.sinks[READ].tolist()} | {repr(watcher.trouble)})
    return found


def main() -> int:
    _no_core_files()
    torch.set_num_threads(1)
    if torch.__version__ != sys.argv[1]:
        return _say("portable", f"another torch was found: {torch.__version__}")
    gate.force(False)
    try:
        for make in PROGRAMS:
            make()()  # what torch does once, it does now
        slow = (recorded(), watched())
    except Exception as error:
        return _say("portable", f"{type(error).__name__}: {error}"[:500])
    faults = [text for one in slow[0] for text in one["faults"]]
    _say("portable", faults[0] if faults else "ok")
    return _say("fast", _compared(*slow))


def _compared(rows: list[dict[str, Any]], looks: list[set[str]]) -> str:
    """What is wrong with the extensions; ``ok`` where nothing is."""
    from trueline.frameworks.torch.calls import fast_calls

    gate.force(True)
    if fast_calls() is None:
        return "what they say of a few tensors is not what torch says"
    try:
        for make, expected, found in zip(PROGRAMS, rows, recorded(), strict=True):
            other = [part for part in expected if expected[part] != found[part]]
            if other:
                return f"{make.__name__.strip('_')}: other {', '.join(other)} than in Python"
        seen = all(expected <= found for expected, found in zip(looks, watched(), strict=True))
        return "ok" if seen else "a watch reads other numbers than in Python"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def _say(what: str, text: str) -> int:
    print("\n" + MARK + json.dumps({what: text}), flush=True)
    return 0


def _no_core_files() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
