"""Runs and the files of other tools, both ways. Needs no framework.

incoming     calls of another tool -> one rank of a Run
importing    a folder of another tool -> Run
outgoing     a Run -> calls for another tool
exporting    a Run -> folders of ptdbg_ascend, api_accuracy_checker, PaddleAPEX, msprobe
"""

from trueline.exchange.exporting import (
    Sent,
    export_run,
    write_apex,
    write_checker_json,
    write_msprobe,
    write_ptdbg,
)
from trueline.exchange.importing import Imported, import_apex, import_checker_json, import_run

__all__ = [
    "Imported",
    "Sent",
    "export_run",
    "import_apex",
    "import_checker_json",
    "import_run",
    "write_apex",
    "write_checker_json",
    "write_msprobe",
    "write_ptdbg",
]
