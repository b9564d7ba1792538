"""``Tracer``: records the calls of chosen training steps, as JSON and, on request, with their tensors.

    apex = Tracer()
    for batch in loader:
        apex.start()
        train(batch)
        apex.stop()

Nothing stays hooked outside of ``start`` and ``stop``.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from trueline.capture import Capture, capture
from trueline.capture.targets import read_targets
from trueline.compat.files import move_into, same_file
from trueline.compat.paddleapex.config import ToolConfig, load_config
from trueline.compat.places import say
from trueline.errors import TruelineError
from trueline.exchange import write_apex
from trueline.records import Call


class Tracer:
    """Counts steps by ``start``; those of ``target_step`` are recorded."""

    def __init__(self, config: ToolConfig | None = None) -> None:
        self.config = config or load_config()
        self._targets = str(self.config.op_target)
        self._wanted, _ = read_targets([self._targets])
        self._step = -1
        self._capture: Capture | None = None

    def start(self) -> None:
        """A step begins."""
        self._step += 1
        if self._capture is not None:
            self.stop()
        if self._step not in self.config.target_step:
            return
        root = Path(self.config.dump_root_path)
        root.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".trueline-", dir=root))
        self._capture = capture(
            scratch / "run",
            data="tensors" if self.config.dump_mode == "real_data" else "stats",
            apis=self._wanted,
            targets=self._targets,
            framework="paddle",
        ).start()
        self._capture.step()  # said once, so that the program's optimizers end no step: start and stop do

    def stop(self) -> None:
        """The step ends; what was recorded is written."""
        if self._capture is None:
            return
        recorded, self._capture = self._capture, None
        recorded.stop()
        try:
            self._write(recorded.path)
        except TruelineError as error:  # never the end of the program
            say(f"step {self._step} was not written: {error}")
        finally:
            shutil.rmtree(recorded.path.parent, ignore_errors=True)

    def _write(self, run: Path) -> None:
        """``rank0_step5/forward_rank0.json``, with ``_all``, ``_half`` and ``_other``, and the tensors."""
        config, real = self.config, self.config.dump_mode == "real_data"
        sent = write_apex(
            run, run.parent / "apex", real=real, unique=config.dump_unique, split=config.split_dump, choose=_is_program,
            as_document=True,
        )  # fmt: skip
        written = sent.files[0]
        rank = written.name.split("_")[1].removeprefix("rank")
        same_file(written, written.with_name(f"forward_rank{rank}.json"))
        name = f"rank{rank}_step{self._step}"
        elsewhere = Path(config.remote_path if config.Async_dump else config.dump_root_path)
        for file in sorted(written.parent.iterdir()):
            move_into(file, (elsewhere if file.suffix == ".pt" else Path(config.dump_root_path)) / name)


def _is_program(call: Call) -> bool:
    """What an optimizer calls is none of the model's operators."""
    return call.context != "optimizer"
