"""The connection to a Ray cluster: what is shipped to its machines, how many workers it has room for.

trueline itself is sent along, so that every machine runs the code of the coordinator; so are the modules of overrides.
Frameworks must be installed there, in the versions that are installed here. Runs, and overrides given as a file, are
read from where they lie: they need a file system that all machines share.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueline._version import __version__
from trueline.campaign.executors import Cluster, targets_of
from trueline.campaign.identity import framework_version, override_place
from trueline.campaign.ray_seat import Place
from trueline.errors import UsageError

_CONNECT_SECONDS = 10.0
_WORKERS_ON_A_DEVICE = 4
"""Each process on an accelerator holds some hundred megabytes of it."""
_LISTENER = "ray_listen_error_messages"
"""The thread of Ray's that prints what happens to machines."""
_EXCLUDED = ["**/__pycache__", "**/*.pyc"]


class Connection:
    """A cluster that answers. Closing it ends what this process started there."""

    def __init__(self, cluster: Cluster, setup: Mapping[str, Any]) -> None:
        self.ray = _ray()
        self.cluster = cluster
        self.frameworks = _frameworks(setup)
        self._resource = _resource_of(cluster)
        self._owned = not self.ray.is_initialized()
        self._stdout = sys.stdout
        if self._owned:
            _check_answers(cluster.address)
            self._connect(_shipped(setup))
            sys.stdout = _Quiet(sys.stdout)

    def _connect(self, modules: list[str]) -> None:
        try:
            self.ray.init(
                address=self.cluster.address,
                runtime_env={"py_modules": modules, "excludes": _EXCLUDED},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            raise UsageError(f"no Ray cluster can be used at {self.cluster.address}: {_first_line(error)}") from None

    def close(self) -> None:
        if not self._owned:
            return
        with contextlib.redirect_stdout(io.StringIO()):  # it prints then what it had held back
            self.ray.shutdown()
        if isinstance(sys.stdout, _Quiet):
            sys.stdout = self._stdout

    def slots(self) -> int:
        """How many workers the machines have room for now."""
        there = self.ray.cluster_resources().get(self._resource, 0.0)
        return int(there * (_WORKERS_ON_A_DEVICE if self._resource == "GPU" else 1))

    def slots_on_largest(self) -> int:
        """How many of them may come to lie on one machine."""
        alive = [node["Resources"].get(self._resource, 0.0) for node in self.ray.nodes() if node["Alive"]]
        return max(1, int(max(alive, default=1.0) * (_WORKERS_ON_A_DEVICE if self._resource == "GPU" else 1)))

    def demand(self) -> dict[str, Any]:
        """What one worker takes of a machine."""
        spread: dict[str, Any] = {"scheduling_strategy": "SPREAD", "max_restarts": 0, "max_task_retries": 0}
        if self._resource == "GPU":
            return {**spread, "num_cpus": 0, "num_gpus": 1 / _WORKERS_ON_A_DEVICE}
        return {**spread, "num_cpus": 1}

    def check(self, place: Place) -> None:
        """A machine with other versions would measure something else."""
        wanted = {name: framework_version(name) for name in self.frameworks}
        wanted["trueline"] = __version__
        for name, there in {**place.versions, "trueline": place.version}.items():
            if there != wanted[name]:
                found = f"has {name} {there}" if there else f"has no {name}"
                raise UsageError(f"the machine {place.host} {found}, here it is {wanted[name]}; install the same")


class _Quiet:
    """Standard output without what Ray prints there from a thread of its own, up to twenty lines for every machine
    that is lost: output may be read by a program."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if threading.current_thread().name == _LISTENER:
            return len(text)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("a cluster needs Ray, which is not installed here: pip install 'trueline[ray]'") from None
    return ray


def _check_answers(address: str) -> None:
    """Ray itself tries for a minute, and then ends the process."""
    place = address.partition("://")[2] or address
    host, colon, port = place.rpartition(":")
    if not colon:
        return
    if not port.isdigit():
        raise UsageError(f"{address!r} is not the address of a Ray cluster; write host:port, ray://host:port or auto")
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no Ray cluster answers at {address}: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _resource_of(cluster: Cluster) -> str:
    kind, colon, _ = cluster.device.partition(":")
    if kind == "cpu":
        return "CPU"
    if colon:
        raise UsageError(f"on a cluster Ray chooses the device: write {kind} and not {cluster.device}")
    return "GPU"


def _frameworks(setup: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({str(entry["target"]).partition(":")[0] for entry in targets_of(setup)}))


def _shipped(setup: Mapping[str, Any]) -> list[str]:
    """Folders and files to send along: trueline, and the module of each override that is given by its name."""
    modules = {str(Path(__file__).parents[1])}
    for entry in targets_of(setup):
        for api, place in entry.get("overrides", {}).items():
            if place.rpartition(":")[0].endswith(".py"):
                continue
            folder, name, _ = override_place(api, place)
            top = Path(folder, name.partition(".")[0])
            modules.add(str(top if top.is_dir() else top.with_suffix(".py")))
    return sorted(modules)
