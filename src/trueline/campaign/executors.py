"""Who does the jobs of a campaign: processes of this machine, or a cluster of many.

    with executor_for(settings, "package.module:maker", setup, most=len(cases)) as executor:
        for done in executor.run(jobs):
            ...

Whoever it is, each job is given back exactly once, a case that crashes, hangs or floods the memory costs itself alone,
and nobody but the caller writes down what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trueline.campaign.machine import default_budget, default_memory, default_workers, worker_environment
from trueline.cases import Target
from trueline.errors import UsageError

if TYPE_CHECKING:
    from trueline.replay.pool import Done, Job

Self = TypeVar("Self", bound="Executor")

EXECUTORS = ("processes", "ray")
DEFAULT_ADDRESS = "auto"
"""The cluster that this machine belongs to."""


class Executor(Protocol):
    """Does jobs; ``run`` gives them as they end, each exactly once. Leaving it ends all that it started."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]: ...

    def __enter__(self: Self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster to work on: its address, and what the user asked of its workers. None: as many as it has room for, and
    an even share of each machine's memory."""

    address: str
    workers: int | None = None
    memory: int | None = None
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How cases are executed: see ``check``. ``memory`` is the share of each worker, ``budget`` what all of them may
    need at once and ``most`` what a single one may use where the others need little, in bytes. ``places`` are variables
    that one worker each has for itself. With a ``cluster`` the
    cases are executed there, and what else is to be executed (failures that are kept) here."""

    workers: int
    timeout: float
    memory: int | None
    environment: Mapping[str, str]
    cluster: Cluster | None = None
    budget: int | None = None
    most: int | None = None
    places: Sequence[Mapping[str, str]] = ()


def pool_settings(
    target: Target,
    workers: int | None,
    timeout: float,
    memory: float | None,
    executor: str = EXECUTORS[0],
    address: str | None = None,
    places: Sequence[Mapping[str, str]] = (),
) -> PoolSettings:
    """What was given, and for the rest what suits this machine, or each machine of the cluster."""
    if executor not in EXECUTORS:
        raise UsageError(f"no executor {executor!r}; there are {', '.join(EXECUTORS)}")
    if executor != "ray" and address is not None:
        raise UsageError(f"the address {address} is of no use without a cluster: add --executor ray")
    if memory is not None and memory <= 0:
        raise UsageError(f"the memory must be more than 0 GB, not {memory}")
    given = None if memory is None else int(memory * 1e9)
    cluster = None
    if executor == "ray":
        if workers is not None and workers < 1:
            raise UsageError(f"a cluster needs at least 1 worker, not {workers}")
        cluster = Cluster(address or DEFAULT_ADDRESS, workers, given, target.device)
    if places and executor == "ray":
        raise UsageError("a cluster gives its workers their places itself: leave out either")
    here = len(places) or default_workers(target)
    count = here if workers is None else workers if cluster is None else min(workers, here)
    budget = default_budget() if given is None else given * max(count, 1)
    share = given or default_memory(count)
    return PoolSettings(count, timeout, share, worker_environment(count), cluster, budget, given or budget, places)


def executor_for(settings: PoolSettings, maker: str, setup: Mapping[str, Any], *, most: int | None = None) -> Executor:
    """Who does the jobs that ``maker`` (``module:function``) makes from ``setup``. ``most`` is how many there are,
    where that is known: nobody is hired to do nothing."""
    if settings.cluster is not None:
        from trueline.campaign.ray_executor import RayExecutor

        return RayExecutor(settings.cluster, maker, setup, timeout=settings.timeout, most=most)
    from trueline.replay.pool import Pool

    return Pool(
        maker,
        setup,
        workers=settings.workers if most is None else min(settings.workers, max(most, 1)),
        timeout=settings.timeout,
        memory=settings.most,
        budget=settings.budget,
        environment=settings.environment,
        warm=may_be_warm(setup),
        places=settings.places,
    )


def targets_of(setup: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The Targets that the setup of a maker names, as ``target_to_json`` wrote them."""
    return [entry for entry in setup.values() if isinstance(entry, Mapping) and "target" in entry]


def may_be_warm(setup: Mapping[str, Any]) -> bool:
    """Whether workers may be copies of a process that has imported everything: not where one of them uses a device,
    which does not survive being copied."""
    devices = {Target.parse(entry["target"]).device for entry in targets_of(setup)}
    return devices == {"cpu"}
