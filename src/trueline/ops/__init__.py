"""What we know of operators, as tables with a reason beside each row that needs one.

* ``names``: which names mean the same operator
* ``facts``: what kind of arithmetic an operator does: how rounding and differences of inputs show in its output
* ``accumulation``: how many terms an operator adds up for one element of its output
* ``binding``: the arguments of a call by the names of their parameters
* ``domains``, ``sources``, ``needs``: where the numbers of a generated tensor lie, and which tensors need which
* ``equivalence``, ``rules``: which outputs may honestly differ, and what is compared in their place
* ``catalogue``: representative calls of several hundred operators
* ``mapping``: Paddle's functions and torch's, held against each other, and calls of one as calls of the other
"""

from trueline.ops.facts import Facts, Kind, facts_of
from trueline.ops.names import canonical, module_key

__all__ = ["Facts", "Kind", "canonical", "facts_of", "module_key"]
