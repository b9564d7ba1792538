"""Scripts that were kept with failures and groups of failures, each in a folder of its own.

Whoever writes one puts its checksum into a sealed file beside it: where somebody changed or removed the script since,
everybody is told who is shown it. Where nobody wrote a checksum down, the script is taken as it is.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueline.checked import Unfit, json_value, value_of
from trueline.errors import CorruptRunError
from trueline.report.wording import command
from trueline.store.intact import damaged, plain_file
from trueline.store.seal import CHECKSUM, is_content_as_sealed

SCRIPT_FILE = "repro.py"
KEPT_FILE = "failure.json"
"""What is known of a failure that was kept, beside its script."""
SCRIPT_SUM = "script"
"""The member of the sealed file that holds the checksum; empty where no script was written."""
_MOST_SCRIPT_BYTES = 40_000
_MOST_HEAD_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class KeptScript:
    """One script. ``fault`` says why it is not what was kept, and is empty while it is."""

    path: Path
    text: str = ""
    fault: str = ""

    @property
    def shown(self) -> str:
        """Its text, behind what is wrong with it."""
        return f"# {self.fault}\n{self.text}" if self.fault else self.text

    @property
    def command(self) -> str:
        """What runs it; empty where it cannot be run."""
        return command("python", self.path) if self.text else ""


def script_sum(content: bytes) -> str:
    """The checksum of a script."""
    return f"{zlib.crc32(content):08x}"


def kept_script(folder: Path, root: Path) -> KeptScript | None:
    """The script in a folder below ``root``, or its beginning; None where none was kept. What is no plain file, or is
    reached by a link that leads out, is not opened."""
    path = folder / SCRIPT_FILE
    try:
        known = _checksum_kept(folder, root)
        found = plain_file(path, root)
        if found is None:
            return KeptScript(path, fault=f"{path} was removed after it was kept") if known else None
        content = path.read_bytes()
    except (CorruptRunError, OSError) as error:
        return KeptScript(path, fault=" ".join(str(error).split()))
    text = content[:_MOST_SCRIPT_BYTES].decode("utf-8", "replace")
    if len(content) > _MOST_SCRIPT_BYTES:
        text += "\n# … the file goes on"
    changed = known is not None and known != script_sum(content)
    return KeptScript(path, text, f"{path} was changed after it was kept" if changed else "")


def _checksum_kept(folder: Path, root: Path) -> str | None:
    """The checksum of the script as it was kept; None where nobody wrote one down."""
    path = folder / KEPT_FILE
    return None if plain_file(path, root) is None else sealed_json(path, root).get(SCRIPT_SUM)


def sealed_json(path: Path, root: Path) -> dict[str, Any]:
    """A JSON object, which is as it was sealed where it is sealed at all; raises ``CorruptRunError`` where it is not,
    and ``FileNotFoundError`` where there is none."""
    found = plain_file(path, root)
    if found is None:
        raise FileNotFoundError(path)
    if found.st_size > _MOST_HEAD_BYTES:
        damaged(path, "it is too large for what it says to be", "make it again")
    try:
        content = value_of(dict[str, Any], json_value(path.read_bytes()), "it")
    except Unfit as error:
        damaged(path, error, "make it again")
    if CHECKSUM in content and not is_content_as_sealed(content):
        damaged(path, "it is not as it was written (its checksum is another)", "make it again")
    return content
