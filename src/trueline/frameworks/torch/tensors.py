"""Looks at tensors: knows those it has seen, queues the others to be read in groups.

Two rules make this cheap and right.

*Identity.* The output of one call is the input of the next. Storage, version counter, address, shape and strides say
so without reading a byte. A storage that died could come back at the same address, so a weak reference to each is
held for the step: then its number cannot be given to another. All of this is asked anew at each look:
``tensor.data =``, ``resize_`` and ``requires_grad_`` change a tensor without a trace in its version counter.

*Reading later.* A tensor is not read when it is seen but in a group with others, by the background thread (CPU) or by
one launch on the device. So before a call changes a tensor in place, whatever of it is still waiting must be read:
``before_change``. What was changed behind our back all the same shows in its version counter, and is reported
as not recorded instead of recorded wrong.

Where the C extension is there, it looks at plain dense tensors in place of ``look``, to the same effect, and leaves the
others to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from trueline.dtypes import DTYPES
from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.torch.fast import KNOWN_DTYPES, Known, fast_looks
from trueline.frameworks.torch.flatten import PLAIN_TENSORS
from trueline.frameworks.torch.readers import Reader, reader_for
from trueline.frameworks.torch.unseen import Unseen, storage_of, told, unseen
from trueline.records import Data

_EXACT = frozenset(getattr(torch, name) for name, row in DTYPES.items() if row.is_exact and hasattr(torch, name))

MOST_OVERLAID = 1 << 31
OFTEN = 8
"""A tensor of more bytes than this is not read where it is made of so many times fewer that lie in memory: one that was
expanded without end would be read without end."""

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
        self._forget: Callable[[], None] | None = None
        self.looker: Any = None
        """The C extension's, which looks in our place."""
        looks = fast_looks()
        if looks is not None:
            self._look_fast(looks)

    def look(self, tensor: torch.Tensor) -> Look:
        """The number of this tensor as it is now, and of its layout."""
        if type(tensor) not in PLAIN_TENSORS:
            return self._look_odd(tensor)
        try:
            storage = tensor.untyped_storage()
            place, dtype = storage._cdata, tensor.dtype
            key = (
                place,
                tensor._version,
                self._written(place),
                tensor.data_ptr(),
                tensor.shape,
                tensor.stride(),
                dtype,
                tensor.requires_grad,
                tensor.is_neg(),
                dtype.is_complex and tensor.is_conj(),
            )
        except Exception:  # sparse, meta, inference mode, …: no storage or no version
            return self._look_odd(tensor)
        found = self._seen.get(key)
        if found is not None:
            return found
        return self._first_look(tensor, key, storage, place)

    def look_all(
        self, tensors: list[torch.Tensor], number: int, first_position: int, role: int, visits: list[int]
    ) -> None:
        """Looks at all tensors of a call; appends a row (call, position, role, tensor, layout) for each."""
        look = self.look
        for position, tensor in enumerate(tensors, first_position):
            visits += (number, position, role, *look(tensor))

    def versions(self, tensors: list[torch.Tensor]) -> list[int]:
        """What their version counters say, -1 where there is none."""
        return [_version(tensor) for tensor in tensors]

    def before_change(self, tensors: list[torch.Tensor]) -> None:
        """To be called with the tensors that a call is about to change."""
        self.settle_places(self._places(tensors))

    def places(self, tensors: list[torch.Tensor]) -> set[int]:
        """The storages of these tensors, to be given to ``settle_places``; nothing is held by them."""
        return self._places(tensors)

    def settle_places(self, places: set[int]) -> None:
        """Reads what waits of these storages, and comes back when it is read."""
        for reader in self._readers.values():
            held = reader.held(places)
            if held:
                reader.settle(held)

    def changed(self, tensors: list[torch.Tensor]) -> None:
        """To be called with tensors that may have been changed without a trace in their version counter."""
        for place in self._places(tensors):
            self._writes[place] = self._writes.get(place, 0) + 1

    def _written(self, place: int) -> int:
        """How often ``changed`` was told of a tensor of this storage."""
        return self._writes.get(place, 0)

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
        if self._forget is not None:
            self._forget()
        self._seen.clear()
        self._contents.clear()
        self._writes.clear()
        while self._storages:  # each is out before it is freed: a signal may end this, and twice would be fatal
            torch.UntypedStorage._free_weak_ref(self._storages.popitem()[1])

    def _places(self, tensors: list[torch.Tensor]) -> set[int]:
        places = set()
        for tensor in tensors:
            try:
                places.add(storage_of(tensor)._cdata)
            except Exception:  # without storage nothing was queued
                continue
        return places

    def _look_fast(self, looks: Any) -> None:
        """Lets the C extension look; what it does not take on comes back to the methods that it stands in for."""
        looker = looks.Looker(
            slow=self.look,
            layout_of=self._layout,
            adder_of=lambda tensor: (self._reader(tensor.device).add, self._reader(tensor.device).queue),
            next_tensor=self._notebook.next_tensor,
            not_asked=self._not_asked,
            structure_only=self._structure_only,
            integers=self._scope.integers,
        )
        self.looker = looker
        self._forget = looker.forget
        self.look = looker.look  # type: ignore[method-assign]
        self.look_all = looker.look_all  # type: ignore[method-assign]
        self._places = looker.places  # type: ignore[method-assign]
        self._written = looker.written  # type: ignore[method-assign]
        self.changed = looker.changed  # type: ignore[method-assign]
        self.versions = looker.versions  # type: ignore[method-assign]

    def _first_look(self, tensor: torch.Tensor, key: Any, storage: Any, place: int) -> Look:
        dtype = key[6]
        known = KNOWN_DTYPES.get(dtype)
        if known is None or tensor.layout is not torch.strided or not _has_memory(tensor, storage):
            return self._look_odd(tensor)
        layout = self._layout(tensor)
        contiguous = tensor.is_contiguous()
        content = (*key[:4], dtype, *key[8:], tensor.numel()) if contiguous else None
        number = self._contents.get(content) if content is not None else None
        if number is None:
            number = self._notebook.next_tensor()
            if not self._structure_only:
                if self._scope.integers or dtype not in _EXACT:
                    self._queue(tensor, number, place, known, contiguous)
                else:
                    self._not_asked(number)
            if content is not None:
                self._contents[content] = number
        if place not in self._storages:
            self._storages[place] = storage._weak_ref()
        look = self._seen[key] = (number, layout)
        return look

    def _queue(self, tensor: torch.Tensor, number: int, place: int, known: Known, contiguous: bool) -> None:
        if tensor.is_conj() or tensor.is_neg():  # what lies in memory is not what the tensor holds
            with Unseen():
                tensor = tensor.detach().resolve_conj().resolve_neg()
            contiguous = tensor.is_contiguous()
        if self.looker is not None:
            self.looker.others_queued = True
        self._reader(tensor.device).add(tensor, number, place, known, contiguous)

    def _reader(self, device: torch.device) -> Reader:
        reader = self._readers.get(device)
        if reader is None:
            with Unseen():
                reader = self._readers[device] = reader_for(device, self._notebook, self._scope.data)
            if self.looker is not None and self._scope.data is Data.TENSORS:
                self.looker.others_queued = True  # bytes that are being copied wait, although their group has gone
        return reader

    def _not_asked(self, number: int) -> None:
        self._notebook.missing.append((number, "integers were not asked for"))

    def _layout(self, tensor: torch.Tensor) -> int:
        dtype, shape, strides = tensor.dtype, tensor.shape, tensor.stride()
        device, requires_grad = tensor.device, tensor.requires_grad
        return self._notebook.define(
            "layouts",
            (dtype, shape, strides, device, requires_grad),
            lambda: [str(dtype).rpartition(".")[2], list(shape), list(strides), str(device), int(requires_grad)],
        )

    @unseen
    def _look_odd(self, tensor: torch.Tensor) -> Look:
        """Everything that is not a plain dense tensor: read what is inside it, or say why not."""
        inner = _inside(tensor)
        if inner is not None:
            return self.look(inner)
        number = self._notebook.next_tensor()
        shape, dtype, device = _shape_of(tensor), str(told(tensor, "dtype")), str(told(tensor, "device"))
        layout = self._notebook.define(
            "layouts",
            (type(tensor), dtype, shape, device),
            lambda: [dtype.rpartition(".")[2], list(shape), [], device, 0],
        )
        if not self._structure_only:
            reason = _why_odd(tensor)
            self._notebook.missing.append((number, reason))
            self._notebook.tally.miss(reason)
        return number, layout


def _inside(tensor: torch.Tensor) -> torch.Tensor | None:
    """The plain tensor behind a subclass or an inference tensor, None where there is no single one; to be asked unseen.
    What holds others, or none, has no memory of its own, and neither have the tensors of a transform or a tracer."""
    if type(tensor) in PLAIN_TENSORS:  # an inference tensor: nobody can say later that it is still the same
        return _normal_clone(tensor) if _is_dense(tensor) and tensor.is_inference() and _read(tensor) else None
    local = _local_part(tensor)
    if local is not None or _is_wrapper(tensor) or not _is_dense(tensor):
        return local
    try:
        plain = torch.Tensor.as_subclass(tensor, torch.Tensor)
    except Exception:
        return None
    if type(plain) not in PLAIN_TENSORS or not _read(plain):
        return None
    return _normal_clone(plain) if plain.is_inference() else plain


def likeness(tensor: torch.Tensor) -> torch.Tensor:
    """What can be held in the place of a tensor of a subclass, and says the same when it is looked at: what is read of
    it, or an empty one of its kind; to be asked unseen."""
    inner = _inside(tensor)
    if inner is not None or not _is_wrapper(tensor):
        return tensor if inner is None else inner
    try:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined,no-any-return]
            type(tensor),
            _shape_of(tensor),
            dtype=told(tensor, "dtype"),
            layout=told(tensor, "layout"),
            device=told(tensor, "device"),
        )
    except Exception:
        return tensor


def _local_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """What this rank holds of a tensor of torch.distributed."""
    if not any(kind.__module__.startswith("torch.distributed") for kind in type(tensor).__mro__):
        return None
    local = getattr(tensor, "_local_tensor", None)
    return local if type(local) in PLAIN_TENSORS else None


def _is_dense(tensor: torch.Tensor) -> bool:
    return (
        told(tensor, "layout") is torch.strided
        and told(tensor, "device").type != "meta"
        and not told(tensor, "is_nested")
        and not told(tensor, "is_quantized")
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def _is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a subclass answers kernels itself and holds its elements elsewhere, or nowhere."""
    if type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return False
    if isinstance(tensor, FakeTensor):  # torch warns whoever asks for its address
        return True
    try:
        return torch._C.TensorBase.data_ptr(tensor) == 0 and torch._C.TensorBase.numel(tensor) > 0
    except RuntimeError:  # it has no address that could be given
        return True


def _read(tensor: torch.Tensor) -> bool:
    """Whether a dense tensor can be read."""
    return told(tensor, "dtype") in KNOWN_DTYPES and _has_memory(tensor, tensor.untyped_storage())


def _version(tensor: torch.Tensor) -> int:
    try:
        return int(told(tensor, "_version"))
    except RuntimeError:  # inference tensors have none
        return -1


def _normal_clone(tensor: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode(False), Unseen():
        return tensor.clone()


def _has_memory(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether every element lies inside the storage: a storage can be emptied under a tensor, and some have none; and
    whether they are not far more than lie in it."""
    numel = tensor.numel()
    if tensor.device.type == "meta":
        return False
    if numel == 0:
        return True
    if _is_overlaid(tensor, storage):
        return False
    extent = numel
    if not tensor.is_contiguous():
        extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + extent) * tensor.element_size()
    return tensor.data_ptr() != 0 and bool(needed <= storage.nbytes())


def _is_overlaid(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    size = tensor.numel() * tensor.element_size()
    return size > MOST_OVERLAID and size > OFTEN * storage.nbytes()


def _shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in told(tensor, "shape"))
    except Exception:  # nested tensors have no single shape
        return ()


def _why_odd(tensor: torch.Tensor) -> str:
    dtype, layout = told(tensor, "dtype"), told(tensor, "layout")
    if told(tensor, "device").type == "meta":
        return "meta tensors have no content"
    if told(tensor, "is_nested"):
        return "nested tensors are not read"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "tensors inside of a torch.func transform are not read"
    if layout is not torch.strided:
        return f"layout {layout} is not read"
    if dtype not in KNOWN_DTYPES:
        return f"dtype {dtype} is not read"
    if type(tensor) not in PLAIN_TENSORS:
        return f"tensor subclass {type(tensor).__name__} is not read"
    if _is_overlaid(tensor, storage_of(tensor)):
        return "expanded tensors of many times the size of their memory are not read"
    return "its memory was given back, or it never had any"
