"""PaddleAPEX: its Tracer, its commands, its files, over the library.

from trueline.compat.paddleapex import Tracer

config      tool_config.yaml and op_target.yaml
tracer      Tracer: a training step -> dump_info/rank0_step5/forward_rank0.json and .pt files
replay      run_paddle, run_torch: every call of a JSON file alone, on a device, in some dtypes
compare     acc_direct_cmp, acc_multi_cmp
timed       prof_cmp, mem_cmp
"""

from trueline.compat.paddleapex.tracer import Tracer

__all__ = ["Tracer"]
