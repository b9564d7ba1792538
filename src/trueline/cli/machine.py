"""What works on this machine, found without importing a framework (that alone can take ten seconds, or hang on a
broken driver)."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

OLDEST_PYTHON = (3, 10)
NEEDED = ("numpy", "safetensors")
OPTIONAL = {"rich": "colours and tables on a terminal"}
FRAMEWORKS = {
    "torch": ("2.4", ("torch",)),
    "paddle": ("3.0", ("paddlepaddle-gpu", "paddlepaddle", "paddlepaddle-xpu", "paddlepaddle-dcu")),
}
"""Framework -> the oldest version that works, and the packages that bring it."""
DEVICES = {
    "NVIDIA GPU": "/dev/nvidia[0-9]*",
    "AMD GPU": "/sys/class/kfd/kfd/topology/nodes/[1-9]*",
    "Ascend NPU": "/dev/davinci[0-9]*",
    "Intel GPU or XPU": "/sys/class/drm/renderD*/device/driver/module/drivers/pci:xe",
}
_BUILDS = {"cuda_version": "CUDA", "hip_version": "ROCm", "xpu_xre_version": "XPU"}
"""What Paddle's version file calls the libraries that it was built with."""
_ASSIGNED = re.compile(r"^(\w+)\s*=\s*'?([^'\n]*?)'?\s*$", re.MULTILINE)
_LITTLE_SPACE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. ``state`` is ok, missing (can be done without) or broken (cannot)."""

    name: str
    state: str
    detail: str


def examine(folder: str = ".") -> list[Check]:
    """Looks at everything that trueline depends on; ``folder`` is where Runs would be written."""
    checks = [_python(), _package("trueline", "missing", "run from a source tree")]
    checks += [_package(name, "broken", f"pip install {name}") for name in NEEDED]
    checks += [_package(name, "missing", f"{why}: pip install {name}") for name, why in OPTIONAL.items()]
    frameworks = list(_frameworks())
    if not any(check.state == "ok" for check in frameworks):
        frameworks.append(Check("capture", "missing", "no framework to capture; Runs can still be compared and shown"))
    ways = [_WAYS[check.name]() for check in frameworks if check.name in _WAYS and check.state == "ok"]
    return [*checks, *frameworks, *ways, _kernels(), _triton(), *_devices(), _space(folder)]


def _python() -> Check:
    state = "ok" if sys.version_info >= OLDEST_PYTHON else "broken"
    return Check("python", state, f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _package(name: str, otherwise: str, advice: str) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, otherwise, advice)
    if find_spec(name) is None:
        return Check(name, "broken", f"{found} is listed but cannot be imported; reinstall it")
    return Check(name, "ok", found)


def _frameworks() -> Iterator[Check]:
    for name, (oldest, packages) in FRAMEWORKS.items():
        found = next((number for package in packages if (number := _version(package))), "")
        if not found or find_spec(name) is None:
            yield Check(name, "missing", "not installed")
        elif _numbers(found) < _numbers(oldest):
            yield Check(name, "broken", f"{found}; trueline needs {oldest} or newer")
        else:
            built = _BUILT_FOR.get(name, str)()
            yield Check(name, "ok", f"{found}{built} (not imported)")
    plugins = _paddle_plugins()
    if plugins:
        yield Check("paddle custom devices", "ok", ", ".join(plugins))


def _paddle_build() -> str:
    """For what this build of Paddle was made, as its own version file says: that file is read, not run."""
    spec = find_spec("paddle")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    try:
        text = Path(places[0], "version", "__init__.py").read_text(encoding="utf-8")
    except (IndexError, OSError):
        return ""
    said = {name: value for name, value in _ASSIGNED.findall(text) if value not in ("False", "None", "0", "")}
    kinds = [f"{kind} {said[name]}" for name, kind in _BUILDS.items() if name in said]
    return f", built for {', '.join(kinds) or 'CPU'}"


_BUILT_FOR = {"paddle": _paddle_build}
"""Framework -> what says for which devices it was built; torch says it in its version."""


def _way_into_torch() -> Check:
    """Which way captures take; a version that nobody has verified is tried out, in a process of its own."""
    from trueline.frameworks.torch import gate

    way = gate.way()
    state = "broken" if way.broken else "ok" if way.fast else "missing"
    return Check("capture of torch", state, f"{way}; in Python: {way.broken}" if way.broken else str(way))


_WAYS = {"torch": _way_into_torch}
"""Framework -> what says which way captures take there; Paddle has one alone."""


def _paddle_plugins() -> list[str]:
    """The kinds of devices that plugins bring to Paddle: the libraries in the folder from which it loads them."""
    spec = find_spec("paddle")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    folder = os.environ.get("CUSTOM_DEVICE_ROOT", "")
    if not folder and places:
        folder = os.path.join(os.path.dirname(places[0]), "paddle_custom_device")
    names = (Path(path).stem for path in glob(os.path.join(folder, "*.so"))) if folder else ()
    return sorted(name.rpartition("-")[2] for name in names if name.startswith("libpaddle-custom-"))


def _kernels() -> Check:
    try:
        from trueline.numerics import cpu
    except ImportError as error:
        return Check("CPU kernels", "broken", str(error))
    if cpu.available():
        return Check("CPU kernels", "ok", f"C extension, {cpu.instruction_set()}")
    if os.environ.get("TRUELINE_NO_KERNELS", "0") not in ("", "0"):
        return Check("CPU kernels", "missing", "switched off by TRUELINE_NO_KERNELS: numpy does the work, slower")
    return Check("CPU kernels", "missing", "the C extension was not built: numpy does the work, slower")


def _triton() -> Check:
    found = _version("triton") or _version("pytorch-triton")
    if found and find_spec("triton") is not None:
        return Check("triton", "ok", found)
    return Check("triton", "missing", "on a GPU, statistics fall back to torch reductions, slower")


def _devices() -> Iterator[Check]:
    found = False
    for name, pattern in DEVICES.items():
        if amount := len(glob(pattern)):
            found = True
            yield Check(name, "ok", f"{amount} seen")
    if not found:
        yield Check("accelerator", "missing", "none seen: CPU only")


def _space(folder: str) -> Check:
    where = os.path.abspath(folder)
    try:
        free = shutil.disk_usage(where).free
    except OSError as error:
        return Check("disk", "broken", f"{where}: {error.strerror}")
    writable = os.access(where, os.W_OK)
    state = "ok" if writable and free >= _LITTLE_SPACE else "broken"
    return Check("disk", state, f"{free / 1e9:.1f} GB free in {where}" + ("" if writable else ", not writable"))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` -> (2, 13)."""
    parts = (part for part in text.split("+")[0].split(".")[:2])
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts)
