"""A place for one worker on a machine of a cluster: what an actor of Ray does there.

The actor keeps an embedded worker process of its own, as a Pool of one does, so that a case that crashes or hangs costs
the case, and the actor lives on. It answers in batches and judges nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trueline._version import __version__
from trueline.campaign.executors import may_be_warm
from trueline.campaign.identity import framework_version
from trueline.campaign.machine import default_budget, worker_environment
from trueline.errors import MissingFrameworkError, TruelineError
from trueline.replay.pool import Done, Job, Pool


@dataclass(frozen=True, slots=True)
class Place:
    """Where an actor found itself: the machine, what it offers, and what is installed on it. ``memory`` in bytes, for
    all workers of that machine together; None where it does not tell."""

    node: str
    host: str
    memory: int | None
    versions: Mapping[str, str]
    version: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of a batch: the jobs that ended, or why this place cannot do any."""

    ended: Sequence[Done]
    unable: str = ""


class Seat:
    """The actor. ``slots`` is how many of its kind share a machine at most."""

    def __init__(
        self, maker: str, setup: Mapping[str, Any], timeout: float, memory: int | None, slots: int, folder: str
    ) -> None:
        with contextlib.suppress(OSError):  # on a file system that all share, paths mean there what they mean here
            os.chdir(folder)
        self._budget = default_budget() if memory is None else memory * slots
        self._pool = Pool(
            maker,
            setup,
            workers=1,
            timeout=timeout,
            memory=memory or self._budget,
            budget=self._budget,
            environment=worker_environment(slots),
            warm=may_be_warm(setup),
        )

    def look(self, frameworks: Sequence[str]) -> Place:
        """Says where it is and what is installed there."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        versions = {name: _installed(name) for name in frameworks}
        return Place(node, socket.gethostname(), self._budget, versions, __version__)

    def work(self, jobs: Sequence[Job]) -> Batch:
        """Does the jobs, one after the other."""
        try:
            return Batch(list(self._pool.run(jobs)))
        except TruelineError as error:  # workers cannot be started here: that is no fault of any job
            return Batch((), str(error))


def _installed(framework: str) -> str:
    try:
        return framework_version(framework)
    except MissingFrameworkError:
        return ""
