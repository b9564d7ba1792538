"""One visit of the hook: runs a model on the probe batch in every way that a check wants to see, and writes it down."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.capture import capture
from trueline.dtypes import DTYPES
from trueline.frameworks.probing import (
    Leaf,
    Operators,
    Probing,
    Wide,
    array_leaf,
    changed_leaves,
    leaves,
    look_quietly,
)
from trueline.pipeline.gold import relative_error
from trueline.pipeline.power import measured_power
from trueline.pipeline.recording import CALLS_SUFFIX, KERNELS_SUFFIX, PointWriter, Section

if TYPE_CHECKING:
    from trueline.pipeline.which_op import Kept

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_SMALL_ODD = 3


class Visit:
    """Runs a model once in each way. ``capture`` keeps every call of it besides; ``keep`` is the relative error to
    which a search for operators to be kept in float32 must bring the outputs, ``narrow`` the dtype of the others.
    ``count`` says whether operators are counted, which proves the precision of a training."""

    def __init__(
        self,
        folder: Path,
        name: str,
        tools: Probing | None,
        *,
        capture: bool = False,
        keep: float | None = None,
        narrow: str = "",
        count: bool = True,
    ) -> None:
        self.name = name
        self._folder = folder
        self._tools = tools
        self._capture = capture
        self._keep = keep
        self._narrow = narrow
        self._counts = count
        self._operators = Operators()

    def pay(
        self, model: Any, batches: Any, outputs: Sequence[Any] | None, *, sizes: bool, gold: bool
    ) -> dict[str, Any]:
        """Does it all; gives the facts that go beside the Run."""
        given = [_arguments(one) for one in (batches if isinstance(batches, list) else [batches])]
        facts = self._facts(model)
        writer = PointWriter(self._folder / self.name, self.name, _head(facts))
        try:
            if outputs is not None:
                made = [
                    Section("batch", self._inputs(one), self._outputs(out))
                    for one, out in zip(given, outputs, strict=True)
                ]
            else:
                with look_quietly(self._tools, model):
                    made = [self._section("batch", model, arguments) for arguments in given]
            for section in made:
                writer.add(section)
            if model is not None:
                self._run_again(writer, model, given[0], made[0], sizes=sizes)
                facts |= self._gold(writer, model, given, wanted=gold)
                facts |= self._operators_found() if self._counts else {}
            self._parameters(writer, model, facts)
        finally:
            writer.close()
        if model is not None and self._capture:
            facts |= self._captured(model, given[0])
        if model is not None and self._keep is not None:
            facts |= self._kept(model, given[0])
        return facts

    def _facts(self, model: Any) -> dict[str, Any]:
        tools = self._tools
        facts: dict[str, Any] = {"point": self.name, "model": _kind(model), "framework": tools.name if tools else ""}
        if tools is not None:
            facts["training"] = tools.training(model)
            facts["autocast"] = asdict(tools.autocast())
            facts["unsupported"] = tools.why_not_lowered()
        return facts

    def _run_again(self, writer: PointWriter, model: Any, given: Arguments, first: Section, *, sizes: bool) -> None:
        """The first batch in every other way: in reverse, in other sizes, and as it was. Where its reverse gives the
        same bits, that has shown already that the model repeats itself."""
        with look_quietly(self._tools, model):
            count = self._samples(given)
            if not sizes or count < 2:
                writer.add(self._section("again", model, given))
                self._count(model, given)
                return
            reverse = self._section("order", model, self._chosen(given, range(count - 1, -1, -1), count))
            if not _is_reverse(first, reverse, count):
                writer.add(self._section("again", model, given))
            odd = _SMALL_ODD if count > _SMALL_ODD else count - 1
            for size in dict.fromkeys((1, odd)):
                writer.add(self._section(f"size {size}", model, self._chosen(given, range(size), count)))
            writer.add(reverse)
            self._count(model, self._chosen(given, range(odd), count), given)

    def _count(self, model: Any, *choices: Arguments) -> None:
        """Counts the operators of one run, on the first of some batches that the model takes: a few samples tell as
        much as many. Looking at every operator may take a model another way, so what comes out is not kept."""
        for args, kwargs in choices if self._counts else ():
            with contextlib.suppress(Exception), self._counted(model):
                model(*args, **kwargs)
                return

    def _section(self, name: str, model: Callable[..., Any], arguments: Arguments) -> Section:
        inputs = self._inputs(arguments)
        try:
            result = model(*arguments[0], **arguments[1])
            return Section(name, inputs, self._outputs(result))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            return Section(name, inputs, raised=text[:300])

    @contextlib.contextmanager
    def _counted(self, model: Any) -> Iterator[None]:
        """Sees the operators of what runs inside, where a framework is there to tell."""
        if self._tools is None:
            yield
            return
        counting = self._tools.counting(model)
        counting.start()
        try:
            yield
        finally:
            self._operators = counting.stop()

    def _operators_found(self) -> dict[str, Any]:
        return {"low": self._operators.low, "other": self._operators.other}

    def _gold(self, writer: PointWriter, model: Any, given: list[Arguments], *, wanted: bool) -> dict[str, Any]:
        """The same in float64; gives the reason where there is none."""
        tools = self._tools
        if not wanted:
            return {"gold": "not wanted"}
        if tools is None or not tools.is_model(model):
            return {"gold": "what was probed is no model of which a copy in float64 could be made"}
        try:
            with warnings.catch_warnings(), look_quietly(tools, None):
                warnings.simplefilter("ignore")  # what copying a model makes a framework say is not the program's
                wide = tools.in_float64(model)
                made = [self._section("gold", wide, arguments) for arguments in given]
                power = self._power(tools, wide, given[0])
        except Exception as error:
            return {"gold": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        raised = next((section.raised for section in made if section.raised), "")
        if raised:
            return {"gold": raised}
        for section in made:
            writer.add(Section("gold", {}, section.outputs))
        return {"gold": "", **power}

    def _power(self, tools: Probing, wide: Wide, given: Arguments) -> dict[str, Any]:
        """How far the outputs of a few samples move when layers and inputs do."""
        count = self._samples(given)
        few = self._chosen(given, range(min(count, _SMALL_ODD)), count) if count else given

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Leaf]:
            return self._outputs(wide(*args, **kwargs))

        try:
            return {"power": measured_power(tools, wide, few, run)}
        except Exception as error:
            return {"power": f"{type(error).__name__}: {error}".splitlines()[0][:300]}

    def _parameters(self, writer: PointWriter, model: Any, facts: dict[str, Any]) -> None:
        if self._tools is None or not self._tools.is_model(model):
            return
        found = {name: self._tools.leaf(value) for name, value in self._tools.parameters(model)}
        facts["parameters"] = dict(Counter(leaf.dtype for leaf in found.values()))
        if found:
            writer.add(Section("parameters", found), kept=False)

    def _captured(self, model: Any, arguments: Arguments) -> dict[str, Any]:
        """Every call of the model on the first batch, as a Run of its own."""
        levels = {CALLS_SUFFIX: "api"}
        if self._tools is not None and self._tools.name == "torch":
            levels[KERNELS_SUFFIX] = "kernel"
        try:
            for suffix, level in levels.items():
                path = self._folder / f"{self.name}{suffix}"
                recording = capture(path, level=level, data="tensors", backward=False)
                with look_quietly(self._tools, model), recording:
                    model(*arguments[0], **arguments[1])
            return {}
        except Exception as error:
            return {"calls": f"{type(error).__name__}: {error}".splitlines()[0][:300]}

    def _kept(self, model: Any, arguments: Arguments) -> dict[str, Any]:
        """Which operators need float32 under autocast; the reason where that cannot be told."""
        tools, limit = self._tools, self._keep
        if tools is None or limit is None or not tools.is_model(model):
            return {"not kept": "what was probed is no model that could be run under autocast"}
        if why := tools.why_not_lowered():
            return {"not kept": why}
        try:
            return {"keep": asdict(self._sought(tools, limit, model, arguments))}
        except Exception as error:
            return {"not kept": f"{type(error).__name__}: {error}".splitlines()[0][:300]}

    def _sought(self, tools: Probing, limit: float, model: Any, arguments: Arguments) -> Kept:
        # Seldom asked for, and it brings all of the comparing of Runs with it: a script that only probes need not wait.
        from trueline.pipeline.which_op import fewest_to_keep

        with warnings.catch_warnings(), look_quietly(tools, model):
            warnings.simplefilter("ignore")
            gold = self._outputs(tools.in_float64(model)(*arguments[0], **arguments[1]))
            with tools.lowering(model, self._narrow):

                def error_with(names: frozenset[str]) -> float:
                    with tools.keeping(sorted(names)):
                        made = model(*arguments[0], **arguments[1])
                    return relative_error(self._outputs(made), gold)  # reading a result must not be kept as well

                with tools.lowered() as lowered:
                    model(*arguments[0], **arguments[1])
                return fewest_to_keep(error_with, sorted(lowered), limit)

    def _samples(self, arguments: Arguments) -> int:
        """How many samples a batch holds: the commonest length of a first axis."""
        lengths = [leaf.shape[0] for _, leaf in leaves(arguments, "") if self._is_array(leaf) and len(leaf.shape)]
        return int(Counter(lengths).most_common(1)[0][0]) if lengths else 0

    def _chosen(self, arguments: Arguments, rows: Sequence[int], count: int) -> Arguments:
        """Some samples of a batch. Arrays of another length hold something else, and stay."""

        def change(leaf: Any) -> Any:
            if not self._is_array(leaf) or not len(leaf.shape) or leaf.shape[0] != count:
                return leaf
            if isinstance(leaf, np.ndarray) or self._tools is None:
                return np.ascontiguousarray(leaf[list(rows)])
            return self._tools.rows(leaf, list(rows))

        args, kwargs = changed_leaves(arguments, change)
        return args, kwargs

    def _inputs(self, arguments: Arguments) -> dict[str, Leaf]:
        args, kwargs = arguments
        return {**self._leaves(list(args), "args"), **self._leaves(kwargs, "kwargs")}

    def _outputs(self, result: Any) -> dict[str, Leaf]:
        return self._leaves(result, "out")

    def _leaves(self, value: Any, path: str) -> dict[str, Leaf]:
        found = {}
        for place, leaf in leaves(value, path):
            made = self._leaf(leaf)
            if made is not None and made.dtype in DTYPES:
                found[place] = made
        return found

    def _leaf(self, value: Any) -> Leaf | None:
        if self._tools is not None and self._tools.is_tensor(value):
            return self._tools.leaf(value)
        if isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
            return array_leaf(np.asarray(value))
        return None

    def _is_array(self, value: Any) -> bool:
        return isinstance(value, np.ndarray) or (self._tools is not None and self._tools.is_tensor(value))


def _arguments(batch: Any) -> Arguments:
    """A batch as arguments: a tuple is positional, a dict is by keyword, all else is the one argument."""
    if isinstance(batch, tuple) and not hasattr(batch, "_fields"):
        return batch, {}
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return (batch,), {}


def _is_reverse(first: Section, other: Section, count: int) -> bool:
    """Whether every output of a batch has a row for each sample, and another execution gave those in reverse, to the
    last bit."""
    for path, leaf in first.outputs.items():
        made = other.outputs.get(path)
        if made is None or made.dtype != leaf.dtype or made.bits.shape != leaf.bits.shape:
            return False
        if not leaf.bits.ndim or len(leaf.bits) != count or made.bits[::-1].tobytes() != leaf.bits.tobytes():
            return False
    return bool(first.outputs)


def _kind(model: Any) -> str:
    if model is None:
        return ""
    kind = model if isinstance(model, type) or hasattr(model, "__qualname__") else type(model)
    return f"{kind.__module__}.{kind.__qualname__}"


def _head(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"framework": facts["framework"], "probe": facts["point"], "model": facts["model"]}
