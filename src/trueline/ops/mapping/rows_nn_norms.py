"""Rows of ``paddle.nn.functional``: normalizations."""

from __future__ import annotations

from trueline.ops.mapping.nn import FLOAT32_INSIDE, nn_row
from trueline.ops.mapping.rows import aliases

_LAYER = nn_row("layer_norm", "composite.layer_norm", "x normalized_shape weight bias epsilon", "(f[3,5], 5)",
             "(f[2,3,4], [3,4], f[12], f[12])", "(f[2,3,4], 4, f[4], None, 1e-3)",
             "(d[3,6], (6,), weight=d[6], bias=d[6], epsilon=1e-6)", like="torch.nn.functional.layer_norm")  # fmt: skip
_GROUP = nn_row("group_norm", "composite.group_norm", "x num_groups epsilon weight bias data_format",
        "(f[2,6,3,4], 3, 1e-5, f[6])",
             "(f[2,6,3], 2, 1e-3, f[6], f[6])", '(f[2,3,4,6], 3, weight=f[6], data_format="NHWC")',
             "(d[2,4,3,3], 2, weight=d[4], bias=d[4])", like="torch.nn.functional.group_norm",
             differs=("(f[2,6,3,4], 3)", "(d[2,4,3,3], 2)"),
             disagreement="Without a weight Paddle's gradient of the input is wrong, by a tenth and more")  # fmt: skip

ROWS = (
    _LAYER,
    _GROUP,
    *aliases(_LAYER, ["paddle.layer_norm"]),
    *aliases(_GROUP, ["paddle.group_norm"]),
    nn_row("batch_norm", "composite.batch_norm",
        "x running_mean running_var weight bias training momentum epsilon data_format use_global_stats",
        "(f[4,3,2,2], f[3], f[3], f[3], f[3])", "(f[4,3,2,2], f[3], f[3], f[3], f[3], True)",
        "(f[6,3], f[3], f[3], f[3], f[3], True, 0.8, 1e-3)",
        '(f[4,5,3], f[3], f[3], f[3], f[3], True, data_format="NLC")',
        '(f[4,2,2,3], f[3], f[3], f[3], f[3], False, 0.9, 1e-5, "NHWC")',
        "(d[4,3,5], d[3], d[3], d[3], d[3], epsilon=0.0009765625)",
        "(f[4,3,2,2], f[3], f[3], f[3], f[3], True, use_global_stats=True)",
        constant="running_mean running_var", like="torch.nn.functional.batch_norm", needs="running_var=positive",
        differs=("(d[4,3,5], d[3], d[3], d[3], d[3], training=True)",
                 "(f[4,3,5], f[3], f[3], f[3], f[3], False, use_global_stats=False)"),
        disagreement="Paddle keeps momentum and epsilon in float32 also for float64; and with training=False and "
        "use_global_stats=False it normalizes by the batch but derives as if by the running statistics"),
    nn_row("instance_norm", "composite.instance_norm",
        "x running_mean- running_var- weight bias use_input_stats- momentum- eps data_format!=\"NCHW\"",
        "(f[2,3,4,5])", "(f[2,3,6], None, None, f[3], f[3])", "(f[2,3,4,2,2], weight=f[3], bias=f[3], eps=1e-3)",
        like="torch.nn.functional.instance_norm", differs=("(d[2,3,4,5])",), disagreement=FLOAT32_INSIDE),
    nn_row("local_response_norm", "composite.local_response_norm", "x size alpha beta k data_format", "(f[2,6,3,4], 5)",
        "(f[2,6,5], 3, 0.1, 0.5, 2.0)", '(f[2,3,4,6], 4, alpha=0.5, data_format="NHWC")', "(f[1,5,2,3,2], 2, 0.25)",
        like="torch.nn.functional.local_response_norm"),
)  # fmt: skip
