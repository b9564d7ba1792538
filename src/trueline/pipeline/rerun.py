"""A stage run once more with its hook told to look closer, into a folder of its own: what the first run left stays as
it is, but for what the command itself writes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trueline.errors import TruelineError
from trueline.pipeline.processes import Ended, Running
from trueline.pipeline.starting import PROBE_FOLDER, Starter
from trueline.pipelines import StageRun

_POLL_SECONDS = 0.02


class NotRepeated(TruelineError):
    """A stage that had ended well did not when it was run again; the message says how it ended."""


def run_again(run: StageRun, starter: Starter, folder: Path, variables: Mapping[str, str]) -> StageRun:
    """The stage with what its hook left this time."""
    place = folder / run.stage.name
    starter.empty(place)
    ended = wait_for(starter.command(run.stage, place, variables))
    if ended.code or ended.why:
        raise NotRepeated(f"{run.stage.name} did not end well when it was run again ({ended.why or ended.code})")
    return replace(run, probe=place / PROBE_FOLDER)


def wait_for(running: Running) -> Ended:
    while (ended := running.poll()) is None:
        time.sleep(_POLL_SECONDS)
    return ended
