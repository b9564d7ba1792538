"""Writes argument trees the way those tools do: every leaf says its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trueline.formats.foreign import ForeignTensor
from trueline.tree import Tree

TensorNode = Callable[[int, str], Any]
"""Number and path of a tensor leaf -> what stands for it."""


class NodeWriter:
    """``empty`` is what stands for None: msprobe writes null, the older tools a leaf of type NoneType."""

    def __init__(self, tensor: TensorNode, *, framework: str = "torch", bare_none: bool = True) -> None:
        self._tensor = tensor
        self._framework = framework
        self._empty = None if bare_none else {"type": "NoneType", "value": None}

    def write(self, tree: Tree, path: str = "") -> Any:
        if isinstance(tree, list):
            return [self.write(item, _join(path, place)) for place, item in enumerate(tree)]
        if not isinstance(tree, dict):
            return self._empty if tree is None else {"type": type(tree).__name__, "value": tree}
        if "$t" in tree:
            return self._tensor(tree["$t"], path)
        if "$tuple" in tree:
            return self.write(tree["$tuple"], path)
        special = self._special(tree)
        if special is not None:
            return special
        if "$dict" in tree:
            return {str(key): self.write(value, _join(path, key)) for key, value in tree["$dict"]}
        fields: Mapping[str, Tree] = tree.get("fields", tree) if "$record" in tree else tree
        return {key: self.write(value, _join(path, key)) for key, value in fields.items()}

    def _special(self, tree: Mapping[str, Any]) -> Any:
        if "$float" in tree:
            return {"type": "float", "value": float(tree["$float"])}
        if "$dtype" in tree:
            return {"type": f"{self._framework}.dtype", "value": f"{self._framework}.{tree['$dtype']}"}
        if "$device" in tree:
            return {"type": f"{self._framework}.device", "value": tree["$device"]}
        if "$size" in tree and all(isinstance(size, int) for size in tree["$size"]):
            return {"type": f"{self._framework}.Size", "value": tree["$size"]}
        if "$size" in tree:
            return self.write(tree["$size"])
        if "$slice" in tree:
            parts = [part if isinstance(part, int) else None for part in tree["$slice"]]
            return {"type": "slice", "value": parts}
        if "$ellipsis" in tree:
            return {"type": "ellipsis", "value": "..."}
        if "$complex" in tree:
            return {"type": "complex", "value": str(complex(*(float(part) for part in tree["$complex"])))}
        if "$object" in tree:
            return {"type": tree["$object"], "value": tree.get("text", "")}
        return None


def nested(items: Mapping[str, Any], head: str) -> list[Any]:
    """Things by path (``args.1``, ``args.0.2``, ``kwargs.weight``) as a nested list: those under ``head`` in their
    places, the others behind."""
    root, named = _Branch(), []
    for path, item in items.items():
        first, _, rest = path.partition(".")
        if first == head:
            root.put(rest.split(".") if rest else ["0"], item)
        else:
            named.append(item)
    placed = root.listed()
    return [*(placed if isinstance(placed, list) else [placed]), *named]


class _Branch(dict[str, Any]):
    """A place with more places in it, which no leaf is."""

    def put(self, steps: list[str], item: Any) -> None:
        if len(steps) == 1:
            self[steps[0]] = item
            return
        below = self.setdefault(steps[0], _Branch())
        if isinstance(below, _Branch):
            below.put(steps[1:], item)

    def listed(self) -> Any:
        filled = {key: value.listed() if isinstance(value, _Branch) else value for key, value in self.items()}
        if not all(key.isdigit() for key in filled):
            return filled
        places: list[Any] = [None] * (max((int(key) for key in filled), default=-1) + 1)
        for key, value in filled.items():
            places[int(key)] = value
        return places


def summary_fields(tensor: ForeignTensor, names: tuple[str, ...] = ("Max", "Min", "Mean", "Norm")) -> dict[str, Any]:
    """The numbers of a tensor under the names that a tool has for them; null where one is not known."""
    found = tensor.summary
    values = (None,) * 4 if found is None else (found.maximum, found.minimum, found.mean, found.norm)
    whole = tensor.dtype.startswith(("int", "uint"))
    shown: list[Any] = [int(v) if whole and v is not None and v == v and abs(v) < 2**62 and n < 2 else v
                        for n, v in enumerate(values)]  # fmt: skip
    return dict(zip(names, shown, strict=False))


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
