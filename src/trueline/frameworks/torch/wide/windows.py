"""Windows for spectra, computed whole: torch multiplies by ``2 pi / n`` as a number of float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _along(length: int, periodic: bool) -> torch.Tensor:
    """How far along each element of a window is, from 0 to 1; a periodic one lacks the last."""
    last = length if periodic else length - 1
    return torch.arange(length, dtype=torch.float64) / max(last, 1)


def _pi() -> torch.Tensor:
    return torch.acos(torch.full((), -1.0, dtype=torch.float64))


def _hann(along: torch.Tensor) -> torch.Tensor:
    return torch.sin(_pi() * along) ** 2


def _hamming(along: torch.Tensor, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return alpha - beta * torch.cos(2 * _pi() * along)


def _blackman(along: torch.Tensor) -> torch.Tensor:
    angle = 2 * _pi() * along
    return (0.42 - torch.cos(angle) / 2 + 0.08 * torch.cos(2 * angle)).clamp_min(0)


def _bartlett(along: torch.Tensor) -> torch.Tensor:
    return 1 - (2 * along - 1).abs()


def _kaiser(along: torch.Tensor, beta: float = 12.0) -> torch.Tensor:
    across = (1 - (2 * along - 1) ** 2).clamp_min(0).sqrt()
    return torch.i0(across * beta) / torch.i0(torch.full((), beta, dtype=torch.float64))


def _window(theirs: Callable[..., torch.Tensor], ours: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def made(window_length: int, periodic: bool = True, *numbers: float, **named: Any) -> torch.Tensor:
        if (named.get("dtype") or torch.get_default_dtype()) is not torch.float64 or window_length < 2:
            return theirs(window_length, periodic, *numbers, **named)
        given = {key: one for key, one in named.items() if key in ("alpha", "beta")}
        return ours(_along(window_length, periodic), *numbers, **given)

    return made


WINDOWS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.hann_window: _window(torch.hann_window, _hann),
    torch.hamming_window: _window(torch.hamming_window, _hamming),
    torch.blackman_window: _window(torch.blackman_window, _blackman),
    torch.bartlett_window: _window(torch.bartlett_window, _bartlett),
    torch.kaiser_window: _window(torch.kaiser_window, _kaiser),
}
