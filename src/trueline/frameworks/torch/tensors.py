"""Looks at tensors: knows those it has seen, queues the others to be read in groups.

Two rules make this cheap and right.

*Identity.* The output of one call is the input of the next. Storage, version counter, address, shape and strides say
so without reading a byte. A storage that died could come back at the same address, so a weak reference to each is
held for the step: then its number cannot be given to another.

*Reading later.* A tensor is not read when it is seen but in a group with others, by the background thread (CPU) or by
one launch on the device. So before a call changes a tensor in place, whatever of it is still waiting must be read:
``before_change``. What was changed behind our back all the same shows in its version counter, and is reported
as not recorded instead of recorded wrong.
"""

from __future__ import annotations

from typing import Any

import torch

from trueline.dtypes import DTYPES
from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.torch.flatten import PLAIN_TENSORS
from trueline.frameworks.torch.readers import Reader, reader_for
from trueline.records import Data

_DTYPES: dict[torch.dtype, tuple[str, int, int]] = {
    getattr(torch, name): (name, row.code, row.itemsize) for name, row in DTYPES.items() if hasattr(torch, name)
}
_EXACT = frozenset(getattr(torch, name) for name, row in DTYPES.items() if row.is_exact and hasattr(torch, name))

Look = tuple[int, int]
"""The number of a tensor and the number of its layout."""


class TensorDesk:
    """Gives every tensor its number and sees to it that it is read once."""

    def __init__(self, notebook: Notebook, scope: Scope) -> None:
        self._notebook = notebook
        self._scope = scope
        self._seen: dict[Any, Look] = {}
        self._contents: dict[Any, int] = {}
        self._storages: dict[int, int] = {}
        self._writes: dict[int, int] = {}
        self._readers: dict[torch.device, Reader] = {}
        self._structure_only = scope.data is Data.STRUCTURE

    def look(self, tensor: torch.Tensor) -> Look:
        """The number of this tensor as it is now, and of its layout."""
        if type(tensor) not in PLAIN_TENSORS:
            return self._look_odd(tensor)
        try:
            storage = tensor.untyped_storage()
            place = storage._cdata
            key = (
                place,
                tensor._version,
                self._writes.get(place, 0),
                tensor.data_ptr(),
                tensor.shape,
                tensor.stride(),
                tensor.dtype,
                tensor.requires_grad,
            )
        except Exception:  # sparse, meta, inference mode, …: no storage or no version
            return self._look_odd(tensor)
        found = self._seen.get(key)
        if found is not None:
            return found
        return self._first_look(tensor, key, storage, place)

    def before_change(self, tensors: list[torch.Tensor]) -> None:
        """To be called with the tensors that a call is about to change."""
        readers = self._readers
        for tensor in tensors:
            try:
                place = tensor.untyped_storage()._cdata
            except Exception:  # without storage nothing was queued
                continue
            for reader in readers.values():
                if reader.holds(place):
                    reader.settle(place)

    def changed(self, tensors: list[torch.Tensor]) -> None:
        """To be called with tensors that may have been changed without a trace in their version counter."""
        for tensor in tensors:
            try:
                place = tensor.untyped_storage()._cdata
            except Exception:
                continue
            self._writes[place] = self._writes.get(place, 0) + 1

    def launch(self) -> None:
        """Sends everything that waits on its way to be read."""
        for reader in self._readers.values():
            reader.launch()

    def settle(self) -> None:
        """Reads everything that waits, and comes back when it is read: unseen code may change any of it."""
        for reader in self._readers.values():
            reader.settle_all()

    def end_step(self) -> None:
        """Reads what waits, hands the results over, and forgets every tensor."""
        for reader in self._readers.values():
            reader.end_step()
        self._seen.clear()
        self._contents.clear()
        self._writes.clear()
        for reference in self._storages.values():
            torch.UntypedStorage._free_weak_ref(reference)
        self._storages.clear()

    def _first_look(self, tensor: torch.Tensor, key: Any, storage: Any, place: int) -> Look:
        dtype, strides = key[6], key[5]
        known = _DTYPES.get(dtype)
        if known is None or tensor.layout is not torch.strided:
            return self._look_odd(tensor)
        device = tensor.device
        layout = self._layout(dtype, key[4], strides, device, key[7])
        contiguous = tensor.is_contiguous()
        content = (place, key[1], key[2], key[3], dtype, tensor.numel()) if contiguous else None
        number = self._contents.get(content) if content is not None else None
        if number is None:
            number = self._notebook.next_tensor()
            if content is not None:
                self._contents[content] = number
            if not self._structure_only:
                if self._scope.integers or dtype not in _EXACT:
                    self._queue(tensor, number, place, known, contiguous, device)
                else:
                    self._notebook.missing.append((number, "integers were not asked for"))
        if place not in self._storages:
            self._storages[place] = storage._weak_ref()
        look = self._seen[key] = (number, layout)
        return look

    def _queue(
        self,
        tensor: torch.Tensor,
        number: int,
        place: int,
        known: tuple[str, int, int],
        contiguous: bool,
        device: torch.device,
    ) -> None:
        reader = self._readers.get(device)
        if reader is None:
            reader = self._readers[device] = reader_for(device, self._notebook, self._scope.data)
        if not contiguous and (tensor.is_conj() or tensor.is_neg()):
            tensor = tensor.resolve_conj().resolve_neg()
        elif contiguous and known[0].startswith("complex") and (tensor.is_conj() or tensor.is_neg()):
            tensor = tensor.resolve_conj().resolve_neg()
        reader.add(tensor, number, place, known, contiguous)

    def _layout(
        self, dtype: torch.dtype, shape: Any, strides: Any, device: torch.device, requires_grad: bool
    ) -> int:
        return self._notebook.define(
            "layouts",
            (dtype, shape, strides, device, requires_grad),
            lambda: [str(dtype).rpartition(".")[2], list(shape), list(strides), str(device), int(requires_grad)],
        )

    def _look_odd(self, tensor: torch.Tensor) -> Look:
        """Everything that is not a plain dense tensor: read what is inside it, or say why not."""
        inner = _inside(tensor)
        if inner is not None:
            return self.look(inner)
        number = self._notebook.next_tensor()
        shape, strides = _shape_of(tensor), ()
        layout = self._notebook.define(
            "layouts",
            (type(tensor), tensor.dtype, shape, str(tensor.device)),
            lambda: [str(tensor.dtype).rpartition(".")[2], list(shape), list(strides), str(tensor.device), 0],
        )
        if not self._structure_only:
            reason = _why_odd(tensor)
            self._notebook.missing.append((number, reason))
            self._notebook.tally.miss(reason)
        return number, layout


def _inside(tensor: torch.Tensor) -> torch.Tensor | None:
    """The plain tensor behind a subclass or an inference tensor, None where there is no single one."""
    local = getattr(tensor, "_local_tensor", None)  # DTensor: what this rank holds
    if isinstance(local, torch.Tensor) and type(local) in PLAIN_TENSORS:
        return local
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.device.type == "meta" or tensor.is_quantized:
        return None
    if tensor.is_inference():  # has no version counter, so nobody can say later that it is still the same
        return None if type(tensor) not in PLAIN_TENSORS else _normal_clone(tensor)
    if type(tensor) not in PLAIN_TENSORS and not torch.utils._python_dispatch.is_traceable_wrapper_subclass(tensor):
        try:
            plain = tensor.as_subclass(torch.Tensor)
        except Exception:
            return None
        return plain if type(plain) in PLAIN_TENSORS else None
    return None


def _normal_clone(tensor: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return tensor.clone()


def _shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in tensor.shape)
    except Exception:  # nested tensors have no single shape
        return ()


def _why_odd(tensor: torch.Tensor) -> str:
    if tensor.device.type == "meta":
        return "meta tensors have no content"
    if tensor.is_nested:
        return "nested tensors are not read"
    if tensor.layout is not torch.strided:
        return f"layout {tensor.layout} is not read"
    if tensor.dtype not in _DTYPES:
        return f"dtype {tensor.dtype} is not read"
    return f"tensor subclass {type(tensor).__name__} is not read"
