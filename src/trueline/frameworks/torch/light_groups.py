"""Reads groups of tensors for a light watch: in CPU memory now, on a device by launches that are fetched later."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trueline.frameworks.light import LooksArray
from trueline.frameworks.torch.fast import KNOWN_DTYPES, copy_of
from trueline.frameworks.torch.tensors import _has_memory, _inside, _is_dense, _version
from trueline.frameworks.torch.unseen import Unseen
from trueline.numerics import cuda
from trueline.numerics.layout import DESCRIPTOR, pack_descriptor
from trueline.numerics.light import LOOK, look_batch

FIRST_FLOAT8, EXACT = 4, 9
"""Dtype codes of 8-bit floats begin at the first; from the second up to ``LAST_EXACT`` are integers and bools, of which
nothing can be bad."""
LAST_EXACT = 17


def plain_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor itself, or what can be read in its place; None where nothing can."""
    with Unseen():
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or _version(tensor) < 0:
            inner = _inside(tensor)
            if inner is None:
                return None
            tensor = inner
        if tensor.dtype not in KNOWN_DTYPES or not _is_dense(tensor):
            return None
        if not _has_memory(tensor, tensor.untyped_storage()):
            return None
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.detach().resolve_conj().resolve_neg()
        return tensor


def descriptor_of(tensor: torch.Tensor) -> tuple[torch.Tensor, np.ndarray[Any, np.dtype[np.void]]]:
    """The row of a plain tensor, and the tensor that it describes: a copy where the row cannot hold its strides."""
    row = np.zeros(1, DESCRIPTOR)
    code = KNOWN_DTYPES[tensor.dtype][1]
    if not pack_descriptor(row, 0, tensor.data_ptr(), code, tuple(tensor.shape), tensor.stride()):
        tensor = copy_of(tensor)
        pack_descriptor(row, 0, tensor.data_ptr(), code, (tensor.numel(),), (1,))
    return tensor, row


def exact_looks(tensors: list[torch.Tensor]) -> list[Any]:
    """Looks at tensors now, wherever they are, and waits for the answer: a ``LOOK`` row each, None where one cannot be
    read."""
    found: list[Any] = [None] * len(tensors)
    devices: dict[torch.device, list[int]] = {}
    for position, tensor in enumerate(tensors):
        devices.setdefault(tensor.device, []).append(position)
    for device, positions in devices.items():
        plain = [plain_of(tensors[position]) for position in positions]
        there = [(position, one) for position, one in zip(positions, plain, strict=True) if one is not None]
        if not there:
            continue
        kept, rows = zip(*(descriptor_of(one) for _, one in there), strict=True)
        looks = _read_now(device, list(kept), np.concatenate(rows))
        for (position, _), look in zip(there, looks, strict=True):
            found[position] = look
    return found


def _read_now(device: torch.device, tensors: list[torch.Tensor], rows: Any) -> Any:
    if device.type == "cpu":
        looks = np.zeros(len(rows), LOOK)
        look_batch(rows, looks)
        return looks
    group = group_of(device)
    group.read(tensors, rows)
    return group.fetch().wait()


class PlainFetch:
    """Looks that were made by plain torch operations, as rows on the device."""

    def __init__(self, rows: list[torch.Tensor], codes: list[int]) -> None:
        self._rows = rows
        self._codes = codes

    def ready(self) -> bool:
        return True

    def wait(self) -> LooksArray:
        looks = np.zeros(len(self._rows), LOOK)
        if self._rows:
            numbers = torch.stack([row.cpu().double() for row in self._rows]).numpy()
            for position, name in enumerate(LOOK.names or ()):
                looks[name] = numbers[:, position]
        return looks


class PlainGroup:
    """Reads tensors of a device that has no kernels of ours."""

    def __init__(self) -> None:
        self._rows: list[torch.Tensor] = []
        self._codes: list[int] = []

    def read(self, tensors: list[torch.Tensor], rows: Any) -> None:
        with Unseen():
            self._rows += [plain_look(tensor.detach()) for tensor in tensors]
        self._codes += rows["dtype"].tolist()

    def fetch(self) -> PlainFetch:
        fetched, self._rows, self._codes = PlainFetch(self._rows, self._codes), [], []
        return fetched


def plain_look(tensor: torch.Tensor) -> torch.Tensor:
    """The fields of a ``LOOK`` of a tensor as one on its device, without waiting for it."""
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    finfo = torch.finfo(values.dtype) if values.is_floating_point() else None
    if finfo is None or values.numel() == 0:
        numbers = [float(values.numel()), 0, 0, 0, 0, 0, 0, float("nan"), float("nan")]
        return torch.tensor(numbers, dtype=torch.float32, device=tensor.device)
    wide = values.to(torch.float32 if values.dtype != torch.float64 else torch.float64)
    size = wide.abs()
    finite = size.isfinite()
    some = finite & (size > 0)
    nothing = torch.full((), float("nan"), device=tensor.device, dtype=wide.dtype)
    infinity = float("inf")
    numbers_there = [
        torch.full((), float(values.numel()), device=tensor.device),
        wide.isnan().sum(),
        (wide == infinity).sum(),
        (wide == -infinity).sum(),
        (size == 0).sum(),
        (some & (size < finfo.tiny)).sum(),
        (size == finfo.max).sum(),
        torch.where(finite.any(), torch.where(finite, size, 0).max(), nothing),
        torch.where(some.any(), torch.where(some, size, infinity).min(), nothing),
    ]
    return torch.stack([number.to(wide.dtype) for number in numbers_there])


def group_of(device: torch.device) -> Any:
    """What reads groups of tensors of a device: ``read(tensors, rows)`` and ``fetch()``."""
    if cuda.supported(device):
        from trueline.numerics.cuda_light import LightReducer

        return LightGroup(LightReducer(device))
    return PlainGroup()


class BothFetched:
    """Looks of kernels, with those by plain operations in their places."""

    def __init__(self, fetched: Any, others: PlainFetch, places: list[int]) -> None:
        self._fetched, self._others, self._places = fetched, others, places

    def ready(self) -> bool:
        return bool(self._fetched.ready())

    def wait(self) -> LooksArray:
        looks: LooksArray = self._fetched.wait()
        if self._places:
            looks[self._places] = self._others.wait()
        return looks


class LightGroup:
    """Reads tensors by grouped launches; 8-bit floats, each of which has its own NaN, by plain operations."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer
        self._others = PlainGroup()
        self._places: list[int] = []
        self._count = 0

    def read(self, tensors: list[torch.Tensor], rows: Any) -> None:
        self._reducer.launch(rows, self._count)
        small = np.flatnonzero((rows["dtype"] >= FIRST_FLOAT8) & (rows["dtype"] < EXACT)).tolist()
        if small:
            self._others.read([tensors[position] for position in small], rows[small])
            self._places += [self._count + position for position in small]
        self._count += len(rows)

    def fetch(self) -> Any:
        places, self._places, self._count = self._places, [], 0
        fetched = self._reducer.fetch()
        return BothFetched(fetched, self._others.fetch(), places) if places else fetched
