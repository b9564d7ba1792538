"""Standards: the rules that turn measurements of a call into a verdict, given what went into it.

    evidence      what a standard is shown of a pair of calls
    sensitivity   what rounding and the differences of the inputs can do to an output
    honest        the default: what honest arithmetic in that dtype and size explains
    ptdbg         the rule of ptdbg_ascend
    registry      standards by name
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
