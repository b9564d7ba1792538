"""The predecessors' documented interfaces, thin: their functions, flags, files and columns, over the library.

    ptdbg_ascend            ``from trueline.compat.ptdbg_ascend import *``: dump, compare, overflow check
    api_accuracy_checker    ``import trueline.compat.api_accuracy_checker.dump``; run_ut, run_overflow_check
    paddleapex              ``from trueline.compat.paddleapex import Tracer``; run_paddle, acc_direct_cmp, ...
    paddleapitest           engineV2, retest_remover, tol_csv_stat
    names                   a folder in which all of these have their old names; ``python -m trueline.compat`` prints it

Nothing is decided here: each function says in the library's words what the old one asked for. Where an old rule and
ours differ, the old column keeps the old answer and a column beside it has ours.
"""
