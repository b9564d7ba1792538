"""Records one iteration: forward_info_{pid}.json, backward_info_{pid}.json and stack_info_{pid}.json.

An iteration begins when a DataLoader has given a batch and ends when the next one is asked for. Where the program has
no DataLoader, or ``enable_dataloader`` is False, it says so itself by ``set_dump_switch("ON")``.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from trueline.capture import Capture, capture
from trueline.compat.api_accuracy_checker.config import msCheckerConfig
from trueline.compat.places import say
from trueline.compat.sources import source_line
from trueline.errors import TruelineError, UsageError
from trueline.ops.facts import Kind, facts_of
from trueline.records import Call, Phase
from trueline.store import open_run

_SEED = "torch.ones_like"


class Dumper:
    """The one recording of a process."""

    def __init__(self) -> None:
        self.iteration = -1
        self._loading = False
        self._capture: Capture | None = None
        self._off: Callable[[], None] | None = None

    def arm(self) -> None:
        """Has DataLoaders tell of their batches."""
        if self._off is None:
            from trueline.frameworks.torch.loading import on_batch

            self._off = on_batch(self._asked, self._given)
            atexit.register(self.finish)

    def disarm(self) -> None:
        """Leaves nothing behind."""
        if self._off is not None:
            self._off()
            self._off = None
            atexit.unregister(self.finish)

    def _asked(self) -> None:
        """A batch was asked for: the iteration before it is over."""
        if msCheckerConfig.enable_dataloader:
            self._turn_over()

    def _given(self) -> None:
        if msCheckerConfig.enable_dataloader:
            self._loading = True
            self._begin_next()

    def switch(self, on: bool) -> None:
        """The program's own word."""
        if not on:
            self.finish()
        elif not msCheckerConfig.enable_dataloader:
            self._start()
        elif not self._loading:  # no DataLoader is used: each call begins an iteration
            self._turn_over()
            self._begin_next()

    def _begin_next(self) -> None:
        self.iteration += 1
        if self.iteration == msCheckerConfig.target_iter:
            self._start()

    def _turn_over(self) -> None:
        if self._capture is not None:
            self.finish()
            raise Exception(f"Model pretest: exit after iteration {msCheckerConfig.target_iter}.")

    def _start(self) -> None:
        if self._capture is not None:
            return
        scratch = Path(tempfile.mkdtemp(prefix=".trueline-", dir=msCheckerConfig.dump_path))
        data = "tensors" if msCheckerConfig.real_data else "stats"
        self._capture = capture(scratch / "run", data=data, framework="torch").start()
        self._capture.step()  # said once, so that the program's optimizers end no step: iterations do

    def finish(self) -> None:
        """Ends the recording, if there is one, and writes the files."""
        if self._capture is None:
            return
        from trueline.exchange import write_checker_json

        recorded, self._capture = self._capture, None
        recorded.stop()
        try:
            seeds = seeds_of(recorded.path)
            write_checker_json(
                recorded.path,
                msCheckerConfig.dump_path,
                real=msCheckerConfig.real_data,
                process=os.getpid(),
                choose=lambda call: call.context != "optimizer" and call.name not in seeds and not _only_reads(call),
                sources=source_line,
                exist_ok=True,
            )
        except TruelineError as error:  # never the end of the program
            say(f"nothing was written: {error}")
        finally:
            shutil.rmtree(recorded.path.parent, ignore_errors=True)


def seeds_of(run: Path) -> frozenset[str]:
    """Calls that make what a backward begins with: ones that nobody but a backward takes up. torch makes them itself
    inside of ``backward()``; the program has no such call."""
    made: dict[int, str] = {}
    taken: set[int] = set()
    with open_run(run) as opened:
        for rank in opened.ranks:
            for call in opened.rank(rank).trace():
                if call.phase is Phase.FORWARD:
                    taken.update(record.tensor_id for record in call.inputs)
                    made |= {one.tensor_id: call.name for one in call.outputs if call.api == _SEED}
    return frozenset(name for tensor, name in made.items() if tensor not in taken)


def _only_reads(call: Call) -> bool:
    """Whether a call hands a number to Python and computes none (``item``): there is nothing to test."""
    return not call.outputs and facts_of(call.api).kind is Kind.MOVE


dumper = Dumper()


def arm() -> None:
    """Called when the package is imported."""
    dumper.arm()


def set_dump_switch(switch: str) -> None:
    """``ON`` where an iteration begins and no DataLoader says so; ``OFF`` ends the recording and writes the files."""
    if switch not in ("ON", "OFF"):
        raise UsageError(f"set_dump_switch takes ON or OFF, not {switch!r}")
    dumper.switch(switch == "ON")
