"""Paddle's functions of audio, written with torch. Names are Paddle's."""

from __future__ import annotations

from math import cos, log, log10, pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite

_STEP = 200.0 / 3
"""Hertz to a mel in the linear part of Slaney's scale, which ends at 1000 Hz."""
_BEND = 1000.0 / _STEP
_GROWTH = log(6.4) / 27.0
"""Logarithm of the ratio of neighbouring mels above the linear part."""


@composite
def hz_to_mel(freq: Any, htk: bool = False) -> Any:
    if not isinstance(freq, Tensor):
        return float(hz_to_mel(torch.tensor(float(freq), dtype=torch.float64), htk))
    if htk:
        return 2595.0 * torch.log10(1.0 + freq / 700.0)
    above = _BEND + torch.log(freq.clamp(min=1.0) / 1000.0) / _GROWTH
    return torch.where(freq > 1000.0, above, freq / _STEP)


@composite
def mel_to_hz(mel: Any, htk: bool = False) -> Any:
    if not isinstance(mel, Tensor):
        return float(mel_to_hz(torch.tensor(float(mel), dtype=torch.float64), htk))
    if htk:
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    return torch.where(mel > _BEND, 1000.0 * torch.exp(_GROWTH * (mel - _BEND)), mel * _STEP)


@composite
def mel_frequencies(
    n_mels: int = 64, f_min: float = 0.0, f_max: float = 11025.0, htk: bool = False, dtype: Any = torch.float32
) -> Tensor:
    mels = torch.linspace(hz_to_mel(f_min, htk), hz_to_mel(f_max, htk), n_mels, dtype=dtype)
    return torch.as_tensor(mel_to_hz(mels, htk))


@composite
def fft_frequencies(sr: int, n_fft: int, dtype: Any = torch.float32) -> Tensor:
    return torch.linspace(0.0, sr / 2, 1 + n_fft // 2, dtype=dtype)


@composite
def compute_fbank_matrix(
    sr: int, n_fft: int, n_mels: int = 64, f_min: float = 0.0, f_max: float | None = None, htk: bool = False,
    norm: Any = "slaney", dtype: Any = torch.float32,
) -> Tensor:  # fmt: skip
    """Triangles between neighbouring mels, over the frequencies of a Fourier transform."""
    top = sr / 2 if f_max is None else f_max
    edges = mel_frequencies(n_mels + 2, f_min, top, htk, dtype)
    ramps = edges[:, None] - fft_frequencies(sr, n_fft, dtype)
    rising = -ramps[:-2] / (edges[1:-1] - edges[:-2])[:, None]
    falling = ramps[2:] / (edges[2:] - edges[1:-1])[:, None]
    weights = torch.minimum(rising, falling).clamp(min=0.0)
    if norm == "slaney":
        return weights * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return functional.normalize(weights, float(norm), -1) if isinstance(norm, int | float) else weights


@composite
def power_to_db(spect: Tensor, ref_value: float = 1.0, amin: float = 1e-10, top_db: float | None = 80.0) -> Tensor:
    decibel = 10.0 * torch.log10(spect.clamp(min=amin)) - 10.0 * log10(max(ref_value, amin))
    return decibel if top_db is None else torch.maximum(decibel, decibel.max() - top_db)


@composite
def create_dct(n_mfcc: int, n_mels: int, norm: str | None = "ortho", dtype: Any = torch.float32) -> Tensor:
    rows = [[cos(pi / n_mels * (place + 0.5) * wave) for wave in range(n_mfcc)] for place in range(n_mels)]
    waves = torch.tensor(rows, dtype=torch.float64)
    if norm is None:
        return (2.0 * waves).to(dtype)
    scale = torch.full((n_mfcc,), sqrt(2.0 / n_mels), dtype=torch.float64)
    scale[0] = sqrt(1.0 / n_mels)
    return (waves * scale).to(dtype)
