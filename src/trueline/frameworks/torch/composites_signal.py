"""Composites: Paddle's functions of signals."""

from __future__ import annotations

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite


@composite
def frame(x: Tensor, frame_length: int, hop_length: int, axis: int = -1) -> Tensor:
    if axis == 0:
        # The frames come first, then what is inside them.
        return x.unfold(0, frame_length, hop_length).movedim(-1, 1)
    return x.unfold(-1, frame_length, hop_length).mT


@composite
def overlap_add(x: Tensor, hop_length: int, axis: int = -1) -> Tensor:
    frames = x if axis != 0 else x.movedim((0, 1), (-1, -2))
    length, count = frames.shape[-2:]
    places = torch.arange(length, device=x.device)[:, None] + hop_length * torch.arange(count, device=x.device)
    flat = frames.reshape(-1, length * count)
    result = flat.new_zeros(flat.shape[0], (count - 1) * hop_length + length).index_add(1, places.reshape(-1), flat)
    result = result.reshape([*frames.shape[:-2], -1])
    return result.movedim(-1, 0) if axis == 0 else result


@composite
def stft(x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool | None = None) -> Tensor:  # fmt: skip
    weights = torch.ones(win_length or n_fft, dtype=x.real.dtype, device=x.device) if window is None else window
    return torch.stft(x, n_fft, hop_length, win_length, weights, center, pad_mode, normalized, onesided,
                      return_complex=True)  # fmt: skip


@composite
def istft(x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool = True,
          length: int | None = None, return_complex: bool = False) -> Tensor:  # fmt: skip
    weights = torch.ones(win_length or n_fft, dtype=x.real.dtype, device=x.device) if window is None else window
    return torch.istft(x, n_fft, hop_length, win_length, weights, center, normalized, onesided, length, return_complex)
