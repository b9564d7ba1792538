"""What tells one check from another, found without importing a framework or user code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from trueline.errors import MissingFrameworkError, UsageError


def framework_version(framework: str) -> str:
    """The version of an installed framework."""
    import importlib.metadata  # slow to import, and needed by nobody else who imports us

    for package in (framework, f"{framework}-gpu", f"{framework}paddle", f"{framework}paddle-gpu"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise MissingFrameworkError(f"{framework} is not installed in this Python ({sys.executable}); install it first")


def override_identity(overrides: Mapping[str, str]) -> dict[str, str]:
    """API -> ``module:function`` with a digest of the file it stands in: a kernel that was changed is another one."""
    return {api: f"{place} {_digest(_file_of(api, place))}" for api, place in sorted(overrides.items())}


def override_place(api: str, place: str) -> tuple[str, str, str]:
    """Folder, module and function of an override: with the folder on its path, any Python can import it."""
    name, _, function = place.rpartition(":")
    file = _file_of(api, place).resolve()
    if name.endswith(".py"):
        return str(file.parent), file.stem, function
    depth = len(name.split(".")) + (1 if file.name == "__init__.py" else 0)
    return str(file.parents[depth - 1]), name, function


def _file_of(api: str, place: str) -> Path:
    name, _, function = place.rpartition(":")
    if not name or not function:
        raise UsageError(f"the override of {api} is {place!r}; write module:function, for example mykernels:gelu")
    if name.endswith(".py"):
        path = Path(name)
    else:
        path = _module_file(api, name)
    if not path.is_file():
        raise UsageError(f"the override of {api}: there is no file {path}")
    return path


def _module_file(api: str, name: str) -> Path:
    """The file of a module, looked for as the workers do, but not imported."""
    parts = name.split(".")
    folders = [os.getcwd(), *(entry or os.getcwd() for entry in sys.path)]
    for folder in folders:
        for candidate in (Path(folder, *parts).with_suffix(".py"), Path(folder, *parts, "__init__.py")):
            if candidate.is_file():
                return candidate
    try:
        found = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        found = None
    if found is not None and found.origin and len(parts) == 1:
        return Path(found.origin)
    raise UsageError(f"the override of {api}: no module {name!r} here ({os.getcwd()}) or on the path of Python")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
