"""Standards: the rules that turn measurements into a verdict.

For a pair of calls of two Runs, given what went into them:

    evidence       what a standard is shown of a pair of calls
    sensitivity    what rounding and the differences of the inputs can do to an output
    honest         the default: what honest arithmetic in that dtype and size explains
    ptdbg          the rule of ptdbg_ascend
    registry       these standards by name
    by_element     standards of checks, asked about the tensors of Runs; ``peer``: the default for three of them

For a case that was executed alone, one measured tensor at a time:

    checks         what all of them have in common, and these standards by name
    calibrated     the default: the candidate's error against that of an honest implementation
    predecessors   the standards of other tools (``predecessors_*``, ``findings``) and ``tolerances`` by name
    custom         standards of the user, from a TOML file or a function
"""

from trueline.judge.evidence import CallEvidence, Judgement, OutputColumns, Screening, Standard, TensorEvidence
from trueline.judge.honest import Honest
from trueline.judge.ptdbg import Ptdbg
from trueline.judge.registry import STANDARDS, standard_named

__all__ = [
    "STANDARDS",
    "CallEvidence",
    "Honest",
    "Judgement",
    "OutputColumns",
    "Ptdbg",
    "Screening",
    "Standard",
    "TensorEvidence",
    "standard_named",
]
