"""What we know of operators, as tables with a reason beside each row that needs one.

    names     which names mean the same operator
    facts     what kind of arithmetic an operator does: how rounding and differences of inputs show in its output
"""

from trueline.ops.facts import Facts, Kind, facts_of
from trueline.ops.names import canonical, module_key

__all__ = ["Facts", "Kind", "canonical", "facts_of", "module_key"]
