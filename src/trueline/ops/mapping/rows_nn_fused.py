"""Rows of ``paddle.incubate``, ``paddle.compat`` and ``paddle.audio``."""

from __future__ import annotations

from typing import Any

from trueline.ops.mapping.nn import nn_row
from trueline.ops.mapping.rows import Row, aliases, row


def _fused(name: str, names: str, *examples: str, **rest: Any) -> Row:
    return row(f"paddle.incubate.nn.functional.{name}", f"composite.{name}", f"{names} name-", *examples, **rest)


def _compat(name: str, names: str, *examples: str, **rest: Any) -> Row:
    """The functions of ``paddle.compat`` have torch's own parameters and layouts."""
    return row(f"paddle.compat.{name}", f"torch.{name}", names, *examples, **rest)


def _audio(name: str, names: str, *examples: str, like: str, **rest: Any) -> Row:
    return row(f"paddle.audio.functional.{name}", f"composite.{name}", names, *examples, like=like, **rest)


_SOFTMAX = _compat("nn.functional.softmax", "input dim dtype out!", "(f[3,5], 1)", "(f[2,3,4], dim=1)",
                   '(d[4,3], 0, "float64")')  # fmt: skip

ROWS = (
    _fused("fused_linear", "x weight bias transpose_weight", "(f[3,4], f[4,5])", "(d[2,3,4], d[5,4], None, True)",
           like="torch.nn.functional.linear"),
    _fused("fused_matmul_bias", "x y bias transpose_x transpose_y", "(f[3,4], f[4,5])",
           "(d[2,4,3], d[2,5,4], None, True, True)", like="torch.matmul"),
    _fused("fused_dropout_add", "x y p training mode", "(f[3,4], f[3,4], 0.3, False)", "(f[3,4], f[3,4], p=0.0)",
           '(f[3,4], f[3,4], 0.3, False, "downscale_in_infer")', "(f[3,4], f[3,4], 1.0)", like="torch.add"),
    row("paddle.incubate.softmax_mask_fuse", "composite.softmax_mask_fuse", "x mask name-",
        "(f[2,3,8,32], f[2,1,8,32])", "(d[1,2,8,64], d[1,1,8,64])", constant="mask", like="torch.softmax"),
    nn_row("flash_attn_qkvpacked", "composite.flash_attn_qkvpacked",
        "qkv dropout causal return_softmax! fixed_seed_offset- rng_name- training", "(f[2,5,3,2,4])",
        "(f[2,5,3,2,4], causal=True)", "(d[1,4,3,2,8], 0.5, False, training=False)",
        like="torch.nn.functional.scaled_dot_product_attention"),
    nn_row("embedding_renorm_", "composite.embedding_renorm_", "x weight max_norm norm_type", "(i[5], f[7,3], 1.0)",
        "(i[2,3], d[5,4], 0.5, 1.0)", needs="x=index({weight.0})", constant="weight",
        like="torch.embedding_renorm_"),
    _SOFTMAX,
    *aliases(_SOFTMAX, ["paddle.softmax"]),
    _compat("equal", "input other", "(f[3,4], f[3,4])", "(i[2], i[2])", "(i[1], i[2])"),
    _compat("slogdet", "x:input out!", "(f[3,3])", "(d[2,4,4])", needs="x=invertible"),
    _compat("sort", "input dim descending stable out!", "(f[3,5])", "(f[3,5], 0, True)", "(d[4], dim=-1)"),
    _compat("split", "tensor split_size_or_sections dim", "(f[6,3], 2)", "(f[5,3], 2)", "(f[3,4], [1,3], 1)"),
    _compat("min", "input dim keepdim other out!", "(f[3,4])", "(f[3,4], 1)", "(f[3,4], dim=0, keepdim=True)",
            "(d[3,4], other=d[3,4])"),
    _compat("max", "input dim keepdim other out!", "(f[3,4])", "(f[3,4], 1)", "(f[3,4], dim=0, keepdim=True)",
            "(d[3,4], other=d[3,4])"),
    _compat("unique", "input sorted return_inverse return_counts dim", "(i[9])", "(i[9], True, True, True)",
            "(i[6,2], dim=0)", needs="input=index(4)"),
    _compat("median", "input dim keepdim out!", "(f[7])", "(f[3,5], 1)", "(d[3,5], 0, True)"),
    _compat("nanmedian", "input dim keepdim out!", "(f[7])", "(f[3,5], 1)", "(d[3,5], 0, True)"),
    _compat("nn.functional.pad", "input pad mode value", "(f[2,3,4], [1,2])", '(f[2,3,4,5], [1,1,2,0], "reflect")',
            "(f[2,3], [0,1,1,0], value=2.0)", '(d[2,3,6], [2,1], mode="circular")'),
    _compat("nn.functional.linear", "input weight bias", "(f[3,4], f[5,4])", "(d[2,3,4], d[5,4], d[5])"),
    _compat("nn.functional.unfold", "input kernel_size dilation padding stride", "(f[2,3,6,7], 2)",
            "(f[2,3,6,7], [3,2], 1, [1,0], 2)"),
    _compat("nn.functional.scaled_dot_product_attention",
            "query key value attn_mask dropout_p is_causal scale enable_gqa", "(f[2,3,5,4], f[2,3,5,4], f[2,3,5,4])",
            "(f[2,3,5,4], f[2,3,6,4], f[2,3,6,4], f[2,3,5,6])",
            "(d[2,4,5,4], d[2,2,5,4], d[2,2,5,4], is_causal=True, scale=0.3, enable_gqa=True)"),
    _audio("hz_to_mel", "freq htk", "(f[9])", "(f[9], True)", "(440.0)", "(3000.0, htk=True)", like="torch.log",
           needs="freq=uniform(50,8000)"),
    _audio("mel_to_hz", "mel htk", "(f[9])", "(f[9], True)", "(7.5)", "(30.0, htk=True)", like="torch.exp",
           needs="mel=uniform(1,40)"),
    _audio("mel_frequencies", "n_mels f_min f_max htk dtype", "(8)", '(8, 100.0, 4000.0, True, "float64")',
           like="torch.linspace"),
    _audio("fft_frequencies", "sr n_fft dtype", "(8000, 16)", '(8000, 15, "float64")', like="torch.linspace"),
    _audio("compute_fbank_matrix", "sr n_fft n_mels f_min f_max htk norm dtype", "(8000, 64, 6)",
           '(8000, 64, 6, 100.0, 3000.0, True, None, "float64")', "(8000, 64, 5, norm=2.0)", like="torch.linspace"),
    _audio("power_to_db", "spect ref_value amin top_db", "(f[5,6])", "(f[5,6], 2.0, 0.5, 10.0)",
           "(d[5,6], top_db=None)", needs="spect=positive", like="torch.log"),
    _audio("create_dct", "n_mfcc n_mels norm dtype", "(5, 8)", '(5, 8, None, "float64")', like="torch.cos"),
)  # fmt: skip
