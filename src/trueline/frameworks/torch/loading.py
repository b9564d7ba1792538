"""Tells when a program takes a batch from a DataLoader: in a program with no other mark an iteration begins there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from trueline.frameworks.splice import Splice


def on_batch(asked: Callable[[], None], given: Callable[[], None]) -> Callable[[], None]:
    """Calls ``asked`` before any DataLoader makes a batch and ``given`` when it has; what they raise goes to the
    program. Gives a function that ends this and leaves nothing behind."""

    def handler(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        asked()
        batch = original(*args, **kwargs)
        given()
        return batch

    splice = Splice(dataloader._BaseDataLoaderIter.__next__, handler)
    splice.on()
    return splice.off
