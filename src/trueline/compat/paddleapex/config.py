"""``tool_config.yaml``: what the Tracer is asked to do.

The file is the one that APEX_CONFIG_PATH names, else the one that comes with this package. A key that is missing has
its default; one that is unknown is an error. Of YAML this needs ``key: value``, lists in brackets and comments.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trueline.checked import Unfit, text_of
from trueline.errors import UsageError

VARIABLE = "APEX_CONFIG_PATH"
_CONFIGS = [Path(__file__).parents[1] / "names" / "paddleapex" / "api_tracer" / "configs"]
"""Where the config in force lies, at the end, unless APEX_CONFIG_PATH says."""
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """The keys of ``tool_config.yaml``. ``profile_mode`` chose between two ways to find extremes; there is one here."""

    op_target_path: str = "None"
    dump_root_path: str = "./dump_info"
    remote_path: str = ""
    Async_dump: bool = False
    dump_mode: str = "random"
    profile_mode: bool = True
    target_step: tuple[int, ...] = (0,)
    dump_unique: bool = False
    split_dump: bool = True

    @property
    def op_target(self) -> Path:
        return _CONFIGS[-1] / "op_target.yaml" if self.op_target_path in ("", "None") else Path(self.op_target_path)


def configs_are_in(folder: Path) -> None:
    """The package ``paddleapex`` of a project says where its own configs lie, which its document tells to edit."""
    _CONFIGS.append(folder)


def load_config() -> ToolConfig:
    """The config that is in force."""
    return read_config(Path(os.environ.get(VARIABLE) or _CONFIGS[-1] / "tool_config.yaml"))


def read_config(path: Path) -> ToolConfig:
    try:
        lines = text_of(path).splitlines()
    except Unfit as error:
        raise UsageError(f"cannot read {path} ({VARIABLE} names the config of the Tracer): {error}") from None
    known = {field.name: field.type for field in fields(ToolConfig)}
    given: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        text = line.split(" #")[0].strip()
        if not text or text.startswith("#") or text == "---":
            continue
        key, colon, rest = (part.strip() for part in text.partition(":"))
        if not colon or key not in known:
            raise UsageError(f"{path}, line {number}: {key!r} is not a key; there are {', '.join(known)}")
        try:
            given[key] = _value(rest, str(known[key]))
        except ValueError:
            raise UsageError(f"{path}, line {number}: {rest!r} is not a value of {key}") from None
    config = ToolConfig(**given)
    if config.dump_mode not in ("random", "real_data"):
        raise UsageError(f"{path}: dump_mode is random or real_data, not {config.dump_mode!r}")
    return config


def _value(text: str, kind: str) -> Any:
    bare = text.strip("'\"")
    if kind == "bool":
        if bare.lower() not in _TRUTH:
            raise ValueError
        return _TRUTH[bare.lower()]
    if kind.startswith("tuple"):
        return tuple(int(one) for one in bare.strip("[]").split(",") if one.strip())
    return bare
