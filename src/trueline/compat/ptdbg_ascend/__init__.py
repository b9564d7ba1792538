"""ptdbg_ascend: ``from trueline.compat.ptdbg_ascend import *``.

dumping        set_dump_path, register_hook, set_dump_switch, seed_all, set_backward_input
overflowing    register_hook(model, overflow_check), set_overflow_check_switch
kernels        the ``acl`` modes: kernels of one API
comparing      compare, compare_distributed
parsing        parse
names          Tensor_permute_1_forward -> torch.Tensor.permute.1.forward
"""

from trueline.compat.ptdbg_ascend.comparing import compare, compare_distributed
from trueline.compat.ptdbg_ascend.dumping import (
    acc_cmp_dump,
    overflow_check,
    register_hook,
    seed_all,
    set_backward_input,
    set_dump_path,
    set_dump_switch,
    set_overflow_check_switch,
)
from trueline.compat.ptdbg_ascend.parsing import parse

__all__ = [
    "acc_cmp_dump",
    "compare",
    "compare_distributed",
    "overflow_check",
    "parse",
    "register_hook",
    "seed_all",
    "set_backward_input",
    "set_dump_path",
    "set_dump_switch",
    "set_overflow_check_switch",
]
