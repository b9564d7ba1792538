"""``benchmark_train``: trainings by batch size and precision, alone or on several cards, with and without a profiler.

TIPC rewrites a copy of the config for each of them and runs its tester on it; here the recipe is changed instead. Its
last step, a log reader that lies in another repository, is no part of this.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trueline.errors import UsageError
from trueline.pipeline.chains import Chain, trained_chains, values_of
from trueline.pipeline.recipe import AMP_ARGUMENTS, Benchmark, Devices, Option, Precision, Recipe

MODE = "benchmark_train"
_WHAT = re.compile(r"^[^_]+_bs(?P<batch>\d+)_(?P<precision>[^_]+)_[^_]+_N(?P<nodes>\d+)C(?P<cards>\d+)$")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be benchmarked: four cards of one machine, where nothing is said."""

    batch_sizes: tuple[str, ...]
    precisions: tuple[str, ...]
    epochs: str
    nodes: int = 1
    cards: int = 4

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(str(number) for number in range((self.cards - 1) // self.nodes + 1))


def benchmark_chains(recipe: Recipe, folder: str, what: str) -> Iterator[Chain]:
    """The trainings of a benchmark. ``what`` is like ``dynamic_bs8_fp32_DP_N1C1``; empty for all that the config
    lists."""
    if recipe.benchmark is None:
        raise UsageError(f"{recipe.config}: benchmark_train needs a section ===train_benchmark_params===")
    asked = _asked(recipe.benchmark, what)
    for batch_size, precision in itertools.product(asked.batch_sizes, asked.precisions):
        for profiled in (True, False) if len(asked.gpus) == 1 else (False,):
            changed = _changed(recipe, recipe.benchmark, asked, batch_size, precision, profiled=profiled)
            values, _ = values_of(changed, MODE)
            suffix = f"_bs{batch_size}_{precision}_N{asked.nodes}C{asked.cards}" + ("_profiling" if profiled else "")
            yield from trained_chains(changed, folder, values, suffix)


def _asked(benchmark: Benchmark, what: str) -> _Asked:
    if not what:
        return _Asked(benchmark.batch_sizes, benchmark.precisions, benchmark.epochs)
    match = _WHAT.match(what)
    if match is None or not int(match["nodes"]) or not int(match["cards"]):
        raise UsageError(f"{what!r} does not say what to benchmark; write it like dynamic_bs8_fp32_DP_N1C1")
    nodes, cards = int(match["nodes"]), int(match["cards"])
    precision = "amp" if match["precision"] == "fp16" else match["precision"]
    epochs = str(int(benchmark.epochs) * nodes * cards) if benchmark.epochs.isdigit() else benchmark.epochs
    return _Asked((match["batch"],), (precision,), epochs, nodes, cards)


def _changed(
    recipe: Recipe, benchmark: Benchmark, asked: _Asked, batch_size: str, precision: str, *, profiled: bool
) -> Recipe:
    """The recipe of one benchmark: no evaluation, no export, the plain interpreter."""
    key = next((option.key for one in recipe.precisions for option in one.options), "null")
    extra = AMP_ARGUMENTS if precision == "amp" else ""
    return replace(
        recipe,
        python="python",
        devices=(Devices(",".join(asked.gpus), asked.gpus, (), recipe.devices[0].use_gpu),),
        precisions=(Precision(precision, precision, (Option(key, precision),), extra),),
        trainers=tuple(replace(trainer, export="") for trainer in recipe.trainers),
        eval_command="",
        epochs=replace(recipe.epochs, values={MODE: asked.epochs}),
        batch_size=replace(recipe.batch_size, values={MODE: batch_size}),
        train_free=benchmark.profiler if profiled else Option(),
        environment={**recipe.environment, **benchmark.environment},
    )
