"""A million cheap config lines, killed at random moments: is anything lost, or done twice, and does memory stay flat?

    corpus       the lines, and what must become of each
    coordinate   the process that is killed: the campaign itself, and a worker's job that writes down what it executes
    proof        what the ledger and that record say in the end
    __main__     python -m benchmarks.million
"""

import sys
from pathlib import Path

_SOURCE = str(Path(__file__).resolve().parents[2] / "src")
if _SOURCE not in sys.path:  # runs from a checkout as it is
    sys.path.insert(0, _SOURCE)
