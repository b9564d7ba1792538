"""``msCheckerConfig``: what the dump and the tests are asked to do."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trueline.errors import UsageError


@dataclass(slots=True)
class CheckerConfig:
    """``target_iter`` counts from 0. ``dump_path`` must exist."""

    dump_path: str = "./"
    real_data: bool = False
    enable_dataloader: bool = True
    target_iter: int = 1
    error_data_path: str = "./ut_error_data"

    def update_config(self, **given: Any) -> None:
        """Changes some settings; what is not a setting, or has the wrong type, is an error, and nothing changes."""
        known = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        for name, value in given.items():
            if name not in known:
                raise UsageError(f"msCheckerConfig has no {name!r}; it has {', '.join(known)}")
            if isinstance(value, os.PathLike):
                value = os.fspath(value)
            if type(value) is not known[name]:
                raise UsageError(f"msCheckerConfig: {name} is a {known[name].__name__}, not {value!r}")
        if "dump_path" in given and not Path(given["dump_path"]).is_dir():
            raise UsageError(f"msCheckerConfig: dump_path {given['dump_path']} is not a folder; make it first")
        if given.get("target_iter", 0) < 0:
            raise UsageError(f"msCheckerConfig: target_iter counts from 0, not {given['target_iter']}")
        for name, value in given.items():
            setattr(self, name, os.fspath(value) if isinstance(value, os.PathLike) else value)


msCheckerConfig = CheckerConfig()
