"""Rows: Fourier transforms and signals."""

from __future__ import annotations

from trueline.ops.mapping.rows import Row, row

_ONE = "x:input n axis:dim norm name- out!"
_MANY = "x:input s axes:dim norm name- out!"


def _transforms(names: str, parameters: str, *examples: str) -> tuple[Row, ...]:
    return tuple(row(f"paddle.fft.{name}", f"torch.fft.{name}", parameters, *examples) for name in names.split())


ROWS: tuple[Row, ...] = (
    *_transforms("fft ifft", _ONE, "(c[3, 8])", "(z[8, 3], 6, 0)", '(c[3, 8], norm="ortho")', "(f[3, 8])"),
    *_transforms("rfft ihfft", _ONE, "(f[3, 8])", "(d[8, 3], 6, 0)", '(f[3, 8], norm="ortho")'),
    *_transforms("irfft hfft", _ONE, "(c[3, 5])", "(z[5, 3], 8, 0)", '(c[3, 5], norm="forward")'),
    *_transforms("fft2 ifft2", _MANY, "(c[3, 4, 8])", "(z[3, 4, 8], [4, 6])", '(c[4, 8], norm="ortho")'),
    *_transforms("rfft2 ihfft2", _MANY, "(f[3, 4, 8])", "(d[3, 4, 8], [4, 6])", '(f[4, 8], norm="ortho")'),
    *_transforms("irfft2 hfft2", _MANY, "(c[3, 4, 5])", "(z[3, 4, 5], [4, 8])", '(c[4, 5], norm="ortho")'),
    *_transforms("fftn ifftn", _MANY, "(c[3, 4, 8])", "(z[3, 4, 8], [4, 6], [0, 2])", '(c[4, 8], norm="ortho")'),
    *_transforms("rfftn ihfftn", _MANY, "(f[3, 4, 8])", "(d[3, 4, 8], [4, 6], [0, 2])", '(f[4, 8], norm="ortho")'),
    *_transforms("irfftn hfftn", _MANY, "(c[3, 4, 5])", "(z[3, 4, 5], [4, 8], [0, 2])", '(c[4, 5], norm="ortho")'),
    *_transforms("fftshift ifftshift", "x:input axes:dim name-", "(f[3, 8])", "(d[3, 8], (0, 1))"),
    *_transforms("fftfreq rfftfreq", "n d dtype name- out! device- requires_grad-", "(8)", "(9, 0.5)"),
    row("paddle.signal.frame", "composite.frame", "x frame_length hop_length axis name-", "(f[10], 4, 2)",
        "(d[2, 10], 4, 3)", "(f[10, 2], 4, 2, 0)"),
    row("paddle.signal.overlap_add", "composite.overlap_add", "x hop_length axis name-", "(f[4, 5], 2)",
        "(d[2, 4, 5], 3)",
        "(f[5, 4], 2, 0)", "(f[5, 4, 2], 2, 0)"),
    row("paddle.signal.stft", "composite.stft",
        "x n_fft hop_length win_length window center pad_mode normalized onesided name-", "(f[2, 64], 16)",
        "(d[2, 64], 16, 4, 12, d[12])", "(f[2, 64], 16, center=False, onesided=False)",
        '(f[64], 16, pad_mode="constant")',
        "(f[2, 64], 16, normalized=True)", like="torch.stft"),
    row("paddle.signal.istft", "composite.istft",
        "x n_fft hop_length win_length window center normalized onesided length return_complex name-",
        "(c[2, 9, 8], 16)",
        "(z[2, 9, 8], 16, 4, 16, d[16])", "(c[2, 9, 8], 16, length=24)", needs="window=positive", like="torch.istft"),
)  # fmt: skip
