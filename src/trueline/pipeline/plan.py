"""Recipes and a mode -> a Plan: every command, in the order in which the classic tester would run them.

Beside the commands there are checks of the numbers that they leave behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trueline.errors import UsageError
from trueline.pipeline.benchmarks import benchmark_chains
from trueline.pipeline.chains import Chain, ready_chains, trained_chains, values_of
from trueline.pipeline.plan_checks import checks_of
from trueline.pipeline.recipe import Recipe
from trueline.pipelines import MODES, Command, Plan, Remark, Stage, StageKind

DEFAULT_TIMEOUT = 3600.0
"""Seconds for a stage of which nothing else is said; a whole training may take as long as it likes."""


def plan_pipeline(
    recipes: Sequence[Recipe],
    mode: str,
    *,
    out: str = "",
    gpu: str = "",
    benchmark: str = "",
    prepare: str = "",
    timeout: float | None = None,
    memory: int | None = None,
    retries: int | None = None,
) -> Plan:
    """The plan of one config, or of several of the same model. ``gpu`` is the card for ``whole_infer``, ``benchmark``
    what ``benchmark_train`` is to run (``dynamic_bs8_fp32_DP_N1C1``)."""
    _check_question(recipes, mode, benchmark)
    first = recipes[0]
    folder = out or f"{first.output}/{first.model}/{mode}"
    warnings = [warning for recipe in recipes for warning in _named(recipe, len(recipes) > 1)]
    chains = [chain for recipe in recipes for chain in _chains(recipe, mode, folder, gpu, benchmark, warnings)]
    stages = _prepared(_ordered(chains), prepare or first.prepare)
    if not any(stage.kind is not StageKind.PREPARE for stage in stages):
        raise UsageError(f"{first.config}: nothing to run in the mode {mode}")
    _refuse_twins(stages, " + ".join(recipe.config for recipe in recipes))
    limited = [_limited(stage, recipes, mode, timeout, memory) for stage in (*stages, *checks_of(stages))]
    limited = [replace(stage, retries=_retries(stage, recipes, retries)) for stage in limited]
    numbers = {key: value for recipe in recipes for key, value in recipe.numbers.items()}
    config = " + ".join(recipe.config for recipe in recipes)
    return Plan(config, first.form, first.model, mode, folder, tuple(limited), tuple(warnings), numbers)


def _check_question(recipes: Sequence[Recipe], mode: str, benchmark: str) -> None:
    if mode not in MODES:
        raise UsageError(f"there is no mode {mode!r}; write one of {', '.join(MODES)}")
    if len({recipe.model for recipe in recipes}) > 1:
        raise UsageError(f"one run is about one model, not {' and '.join(sorted({one.model for one in recipes}))}")
    if benchmark and mode != "benchmark_train":
        raise UsageError(f"what to benchmark ({benchmark}) is for the mode benchmark_train, not for {mode}")


def _named(recipe: Recipe, several: bool) -> Iterator[Remark]:
    for warning in recipe.warnings:
        yield Remark(warning.line, f"{recipe.config}: {warning.message}") if several else warning


def _chains(
    recipe: Recipe, mode: str, folder: str, gpu: str, benchmark: str, warnings: list[Remark]
) -> Iterator[Chain]:
    if mode == "whole_infer":
        yield from ready_chains(recipe, folder, gpu)
    elif mode == "benchmark_train" and (recipe.benchmark is not None or benchmark):
        yield from benchmark_chains(recipe, folder, benchmark)
    else:
        values, assumed = values_of(recipe, mode)
        warnings += assumed
        yield from trained_chains(recipe, folder, values)


def _ordered(chains: Sequence[Chain]) -> list[Stage]:
    """All stages; trainings that write into the same folder one after the other."""
    found: list[Stage] = []
    by_folder: dict[str, tuple[str, ...]] = {}
    for chain in chains:
        before = by_folder.get(chain.folder, ())
        first, *rest = chain.stages
        found += [replace(first, waits=before), *rest]
        by_folder[chain.folder] = (*before, *(stage.name for stage in chain.stages))
    return found


def _prepared(stages: list[Stage], command: str) -> list[Stage]:
    if not command:
        return stages
    first = Stage("prepare", StageKind.PREPARE, Command(command))
    return [first, *(stage if stage.after else replace(stage, after=(first.name,)) for stage in stages)]


def _refuse_twins(stages: Sequence[Stage], config: str) -> None:
    seen: set[str] = set()
    for stage in stages:
        if stage.name in seen:
            text = f"the stage {stage.name} is there twice: a trainer, device, precision or setting is listed twice"
            raise UsageError(f"{config}: {text}")
        seen.add(stage.name)


def _limited(stage: Stage, recipes: Sequence[Recipe], mode: str, timeout: float | None, memory: int | None) -> Stage:
    given = {kind: seconds for recipe in recipes for kind, seconds in recipe.timeouts.items()}
    unlimited = stage.kind is StageKind.TRAIN and mode.startswith("whole_train")
    seconds = timeout or given.get(stage.kind.value) or given.get("") or (None if unlimited else DEFAULT_TIMEOUT)
    space = memory or next((recipe.memory for recipe in recipes if recipe.memory), None)
    return replace(stage, timeout=seconds, memory=space)


def _retries(stage: Stage, recipes: Sequence[Recipe], retries: int | None) -> int:
    """How often a command may be run again; a check gives the same answer each time."""
    if stage.command is None:
        return 0
    given = {kind: number for recipe in recipes for kind, number in recipe.retries.items()}
    return given.get(stage.kind.value, given.get("", 0)) if retries is None else retries
