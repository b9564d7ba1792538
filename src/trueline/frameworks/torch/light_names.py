"""What the looks of a light watch are called, in every step alike."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch

from trueline.dtypes import BY_CODE
from trueline.frameworks.keys import tree_of
from trueline.frameworks.light import LOOKS, LookName, LooksArray, Sink
from trueline.frameworks.torch.flatten import flatten
from trueline.frameworks.torch.light_calls import FORWARD_FIELDS, Entry, LightWatch, Site
from trueline.frameworks.torch.light_looks import GRADIENT, INPUT, OUTPUT, PARAMETER, taken_apart
from trueline.frameworks.torch.light_tape import with_refs
from trueline.frameworks.torch.modules import ModuleWatch
from trueline.numerics.light import LOOK
from trueline.records import Phase, Role
from trueline.tree import tensor_paths


class LookNames:
    """Gives looks their names. ``names`` grows; what stands in it stays where it is."""

    def __init__(self, watch: LightWatch, modules: ModuleWatch) -> None:
        self.names: list[LookName] = []
        self._watch = watch
        self._modules = modules
        self._numbers: dict[int, int] = {}
        self._parameters: dict[int, tuple[Any, int]] = {}
        self._others: dict[str, int] = {}
        self._last: tuple[list[Any], list[int]] = ([], [])

    def parameter(self, parameter: torch.Tensor) -> int:
        """The site of a parameter."""
        known = self._parameters.get(id(parameter))
        if known is not None and known[0]() is parameter:
            return known[1]
        site = self._enter(self._name_of(parameter))
        self._parameters[id(parameter)] = (weakref.ref(parameter), site)
        return site

    def parameters(self, parameters: list[torch.Tensor]) -> list[int]:
        """The sites of parameters, most often the same ones in every step."""
        known, sites = self._last
        if len(known) != len(parameters) or any(ref() is not one for ref, one in zip(known, parameters, strict=True)):
            sites = [self.parameter(one) for one in parameters]
            self._last = ([weakref.ref(one) for one in parameters], sites)
        return sites

    def other(self, name: str) -> int:
        """The site of something that is neither a call nor a parameter."""
        site = self._others.get(name)
        if site is None:
            site = self._others[name] = self._enter(name)
        return site

    def named(self, raw: LooksArray, entries: list[Entry]) -> LooksArray:
        """Rows of ``LOOKS`` of rows that are filed under keys; ``entries`` are those of their step, as far as held."""
        looks = np.zeros(len(raw), LOOKS)
        if not len(raw):
            return looks
        keys, first, places = np.unique(raw["key"], return_index=True, return_inverse=True)
        calls = raw["call"][first].tolist()
        numbers = [self._number(key, call, entries) for key, call in zip(keys.tolist(), calls, strict=True)]
        looks["call"], looks["sink"] = raw["call"], raw["key"] % 8
        looks["name"] = np.array(numbers, np.int32)[places.reshape(-1)]
        for name in LOOK.names or ():
            looks[name] = raw[name]
        return looks

    def learn(self, rows: list[LooksArray], entries: list[Entry]) -> None:
        """Names what is new in these rows while the entries of their step are still there, and say the path."""
        for raw in rows:
            if not self._numbers.keys() >= set(raw["key"].tolist()):
                self.named(raw, entries)

    def _enter(self, name: str) -> int:
        self._watch.sites.append(Site(_Named(name), 0, -1, "", -1))
        return len(self._watch.sites) - 1

    def _name_of(self, parameter: torch.Tensor) -> str:
        for module, path in list(self._modules._paths.items()):
            for name, one in module._parameters.items():
                if one is parameter:
                    return f"{path}.{name}".lstrip(".")
        return f"parameter {len(self._parameters)} of shape {tuple(parameter.shape)}"

    def _number(self, key: int, call: int, entries: list[Entry]) -> int:
        number = self._numbers.get(key)
        if number is None:
            self.names.append(self._name(key, call, entries))
            number = self._numbers[key] = len(self.names) - 1
        return number

    def _name(self, key: int, call: int, entries: list[Entry]) -> LookName:
        known = taken_apart(key)
        site = self._watch.sites[known.site]
        dtype = BY_CODE[known.dtype].name
        if known.part == PARAMETER:
            is_gradient = known.sink == Sink.GRADIENT
            phase = Phase.BACKWARD if is_gradient else Phase.FORWARD
            return LookName(site.trait.name, 0, phase, Role.PARAMETER, "grad" if is_gradient else "", dtype)
        modules = self._watch.notebook.tables.get("modules", [])
        path, kind = modules[site.module] if site.module >= 0 else ("", "")
        return LookName(
            api=site.trait.name,
            nth=site.nth,
            phase=Phase.BACKWARD if known.part == GRADIENT else Phase.FORWARD,
            role=Role.OUTPUT if known.part == OUTPUT else Role.INPUT,
            path=_path(known.part, known.leaf, call, entries, self._watch.ref_type),
            dtype=dtype,
            module=path,
            module_class=kind,
            context=site.context,
        )


class _Named:
    """Stands in for the trait of what is no call."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def entry_numbered(entries: list[Entry], number: int) -> Entry | None:
    """The entry of a call; the youngest are searched first."""
    return next((entry for entry in reversed(entries) if entry[0] == number), None)


def _key(value: Any, ref_type: Any) -> Any:
    """The key of a value; what stands on a tape for a tensor counts as one."""
    return flatten(value if ref_type is None else with_refs(value, lambda ref: torch.empty(0), (ref_type,)), [])


def _path(part: int, leaf: int, call: int, entries: list[Entry], ref_type: Any) -> str:
    """Where a tensor lies in the arguments or in the result of its call."""
    prefix = "args" if part == INPUT else "out"
    entry = entry_numbered(entries, call)
    if entry is not None and len(entry) != FORWARD_FIELDS:
        entry = entry_numbered(entries, entry[3])
    if entry is None:
        return f"{prefix}.{leaf}"
    given = part == INPUT
    key: Any = (list, tuple([_key(value, ref_type) for value in entry[3]])) if given else _key(entry[5], ref_type)
    paths = [path for _, path in sorted(tensor_paths(tree_of(key)[0], prefix))]
    return paths[leaf] if leaf < len(paths) else f"{prefix}.{leaf}"
