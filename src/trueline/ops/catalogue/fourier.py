"""torch.fft and the short-time transforms."""

from __future__ import annotations

from trueline.ops.catalogue.language import Row, T, Z, forward, op

_P = "torch.fft."


def _one(name: str, *, real: bool) -> list[Row]:
    make = T if real else Z
    return [
        op(_P + name, make(6, 64)),
        op(_P + name, make(6, 45)),
        op(_P + name, make(6, 16), n=20),
        op(_P + name, make(6, 16), n=9),
        op(_P + name, make(12, 5), dim=0),
        op(_P + name, make(6, 16), norm="ortho"),
        op(_P + name, make(6, 16), norm="forward"),
        op(_P + name, make(2, 4096)),
        op(_P + name, make(16, 12, layout="turned")),
    ]


def _two(name: str, *, real: bool) -> list[Row]:
    make = T if real else Z
    return [op(_P + name, make(2, 8, 12)), op(_P + name, make(2, 9, 7)), op(_P + name, make(8, 12), norm="ortho")]


ROWS: list[Row] = [
    *_one("fft", real=True),
    *_one("fft", real=False),
    *_one("ifft", real=False),
    *_one("rfft", real=True),
    *_one("irfft", real=False),
    *_one("hfft", real=False),
    *_one("ihfft", real=True),
    *[row for name in ("fft2", "fftn", "ifft2", "ifftn") for row in _two(name, real=False)],
    *[row for name in ("rfft2", "rfftn", "ihfft2", "ihfftn") for row in _two(name, real=True)],
    *[row for name in ("irfft2", "irfftn", "hfft2", "hfftn") for row in _two(name, real=False)],
    op(_P + "fftn", T(3, 4, 5), dim=[0, 2]),
    op(_P + "fftshift", T(6, 11)),
    op(_P + "ifftshift", T(6, 11), dim=1),
    forward(_P + "fftfreq", 11, 0.5),
    forward(_P + "rfftfreq", 12),
    op("torch.stft", T(2, 200), 32, 8, 32, T(32, of="positive", grad=False), return_complex=True),
    op(
        "torch.stft",
        T(200),
        16,
        return_complex=True,
        center=False,
        normalized=True,
        window=T(16, of="positive", grad=False),
    ),
    op("torch.istft", Z(17, 26), 32, 8, 32, T(32, of="positive", grad=False)),
]
