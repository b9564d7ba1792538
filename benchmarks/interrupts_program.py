"""The programs that ``benchmarks.interrupts`` disturbs: one small training, and the ways in which programs take
signals.

Each says on a line of its own progress file what it is about to do, so that whoever sends a signal knows afterwards
what it met. Runs in a process of its own, forked or started; how it ends is for the interpreter to say, as in any
program.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS = 6
KINDS = ("unaware", "goes on", "own exit", "asks to end", "own error")
"""What a program does about a signal: nothing; it catches KeyboardInterrupt and trains on; its handler raises
SystemExit; its handler sets a flag that ends the training; its handler raises an error of its own, which it catches."""
EXIT_CODES = {"own exit": 7, "asks to end": 5, "own error": 9}


class Asked(Exception):
    """What the handler of ``own error`` raises."""


class Progress:
    """Says what the program is about to do, in a way that a kill cannot undo."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def say(self, words: str) -> None:
        os.write(self._descriptor, f"{time.monotonic():.6f} {words}\n".encode())


def run(kind: str, mode: str, data: str, out: str, progress: Progress) -> None:
    """The whole life of a program, capture and all. ``mode`` is a level, ``watch`` or ``bare``."""
    asked = take_signals(kind, progress)
    progress.say("ready")
    if kind == "goes on":
        _goes_on(mode, data, out, progress)
    elif kind == "own error":
        try:
            _plain(mode, data, out, progress, lambda: False)
        except Asked:
            progress.say("caught")
            sys.exit(EXIT_CODES[kind])
    else:
        _plain(mode, data, out, progress, lambda: bool(asked))
    progress.say("finished")
    if asked:
        sys.exit(EXIT_CODES[kind])


def take_signals(kind: str, progress: Progress) -> list[int]:
    """Installs the handlers of a kind of program; gives the list into which ``asks to end`` notes what came."""
    asked: list[int] = []

    def handler(number: int, frame: object) -> None:
        progress.say("handler")
        if kind == "own exit":
            raise SystemExit(EXIT_CODES[kind])
        if kind == "own error":
            raise Asked
        asked.append(number)

    if kind in EXIT_CODES:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handler)
    return asked


def _capture(mode: str, data: str, out: str) -> Any:
    import trueline

    if mode == "watch":
        return trueline.watch(out)
    return trueline.capture(out, level=mode, data=data)


def _plain(mode: str, data: str, out: str, progress: Progress, asked: Callable[[], bool]) -> None:
    """A training as people write it."""
    if mode == "bare":
        _train(progress, STEPS, asked)
        return
    progress.say("start")
    with _capture(mode, data, out):
        progress.say("started")
        _train(progress, STEPS, asked)
        progress.say("stop")
    progress.say("stopped")


def _goes_on(mode: str, data: str, out: str, progress: Progress) -> None:
    """A training in a notebook, say: whatever is interrupted, the next cell goes on; the capture is stopped last."""
    captured = None
    if mode != "bare":
        captured = _insist(progress, "start", lambda: _capture(mode, data, out).start(), again=False)
    step = _insist(progress, "build", lambda: training(progress))
    done = 0
    while done < STEPS:
        words = f"step {done}"
        if _insist(progress, words, functools.partial(_step, step, progress, done), again=False):
            done += 1
        else:  # torch's own optimizers do not survive an interrupt in their first step
            step = _insist(progress, "build", lambda: training(progress))
    if captured is not None:
        _insist(progress, "stop", captured.stop)
        progress.say("stopped")


def _insist(progress: Progress, words: str, action: Callable[[], Any], *, again: bool = True) -> Any:
    """Does something in spite of a KeyboardInterrupt; None where it was interrupted and is not to be done again."""
    while True:
        try:
            progress.say(words)
            return action()
        except KeyboardInterrupt:
            progress.say("caught")
            if not again:
                return None


def _step(step: Callable[[int], None], progress: Progress, number: int) -> bool:
    step(number)
    progress.say(f"step {number} done")
    return True


def _train(progress: Progress, steps: int, asked: Callable[[], bool]) -> None:
    step = training(progress)
    for number in range(steps):
        if asked():
            return
        _step(step, progress, number)


def training(progress: Progress) -> Callable[[int], None]:
    """One step of a small training: two layers, one of them checkpointed now and then, and Adam."""
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    nn = torch.nn
    layers = [nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128)) for _ in range(2)]
    head = torch.nn.Linear(128, 10)
    optimizer = torch.optim.Adam([one for part in (*layers, head) for one in part.parameters()], lr=1e-3)

    def step(number: int) -> None:
        progress.say("forward")
        inputs, labels = torch.randn(128, 128), torch.randint(0, 10, (128,))
        hidden = checkpoint(layers[0], inputs, use_reentrant=False) if number % 2 else layers[0](inputs)
        loss = torch.nn.functional.cross_entropy(head(layers[1](hidden)), labels)
        progress.say("backward")
        optimizer.zero_grad()
        loss.backward()
        progress.say("optimizer")
        optimizer.step()

    return step


if __name__ == "__main__":
    import torch

    # An interrupt in the middle of these imports is more than torch survives, bare too.
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.Adam([weight]).step()
    run(sys.argv[1], "bare", "", "", Progress(sys.argv[2]))
