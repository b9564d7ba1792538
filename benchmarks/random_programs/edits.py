"""Random edits of a program: such that should keep the mathematics, and such that should not.

Whether one does is measured (``truth.py``), not told here. Each edit takes a program and a source of chance, and gives
another program, or None where it has no place in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.random_programs.programs import CLIP_WAYS, LOSS_WAYS, Program, Statement
from benchmarks.random_programs.writings import WAYS

Edit = Callable[[Program, random.Random], "Program | None"]
KEEPING: dict[str, Edit] = {}
CHANGING: dict[str, Edit] = {}


def _keeping(edit: Edit) -> Edit:
    KEEPING[edit.__name__] = edit
    return edit


def _changing(edit: Edit) -> Edit:
    CHANGING[edit.__name__] = edit
    return edit


def edited(program: Program, seed: int) -> tuple[str, Program]:
    """The edit of a seed: one of the table that has a place in the program, half of them of each sort."""
    chance = random.Random(f"edit {seed}")
    table = KEEPING if chance.random() < 0.4 else CHANGING
    names = list(table)
    for _ in range(200):
        name = chance.choice(names)
        found = table[name](program, chance)
        if found is not None:
            return name, found
    raise LookupError(f"no edit has a place in program {program.seed}")


def _with(program: Program, place: int, *statements: Statement) -> Program:
    """Other statements in the place of one."""
    before, after = program.statements[:place], program.statements[place + 1 :]
    return replace(program, statements=(*before, *statements, *after))


def _choose(program: Program, chance: random.Random, kinds: tuple[str, ...] = ()) -> int | None:
    places = [n for n, one in enumerate(program.statements) if not kinds or one.kind in kinds]
    return chance.choice(places) if places else None


def _after(program: Program, chance: random.Random, kind: str, way: int = 0, **options: Any) -> Program | None:
    """Another call on what a statement makes, which all later statements take instead."""
    place = _choose(program, chance)
    if place is None:
        return None
    old = program.statements[place]
    inner = replace(old, target=f"{old.target}_inner")
    return _with(program, place, inner, Statement(kind, old.target, (inner.target,), (), options, way))


def _training(program: Program, **changes: Any) -> Program:
    return replace(program, training=replace(program.training, **changes))


def _options(program: Program, **options: Any) -> Program:
    return _training(program, options={**program.training.options, **options})


# Such that should keep the mathematics.


def _rewrite(program: Program, chance: random.Random) -> Program | None:
    place = _choose(program, chance, tuple(kind for kind, ways in WAYS.items() if len(ways) > 1))
    if place is None:
        return None
    old = program.statements[place]
    way = chance.randrange(1, len(WAYS[old.kind]))
    return _with(program, place, replace(old, way=way))


@_keeping
def written_otherwise(program: Program, chance: random.Random) -> Program | None:
    return _rewrite(program, chance)


@_keeping
def written_otherwise_again(program: Program, chance: random.Random) -> Program | None:
    """Several statements at once."""
    changed: Program | None = program
    for _ in range(3):
        changed = None if changed is None else _rewrite(changed, chance)
    return changed


@_keeping
def linear_written_otherwise(program: Program, chance: random.Random) -> Program | None:
    place = _choose(program, chance, ("linear", "project", "attention", "mlp", "layer_norm", "softmax"))
    if place is None:
        return None
    old = program.statements[place]
    return _with(program, place, replace(old, way=chance.randrange(1, len(WAYS[old.kind]))))


@_keeping
def reordered(program: Program, chance: random.Random) -> Program | None:
    """Two neighbours of which neither takes what the other makes."""
    places = [
        n
        for n, (one, two) in enumerate(zip(program.statements, program.statements[1:], strict=False))
        if one.target not in two.operands and two.target not in one.operands
    ]
    if not places:
        return None
    place = chance.choice(places)
    one, two = program.statements[place : place + 2]
    return _with(_with(program, place, two), place + 1, one)


@_keeping
def unused_call(program: Program, chance: random.Random) -> Program | None:
    place = _choose(program, chance)
    if place is None:
        return None
    old = program.statements[place]
    return _with(program, place, old, Statement("unused", old.target, (old.target,)))


@_keeping
def copied(program: Program, chance: random.Random) -> Program | None:
    return _after(program, chance, "copy", chance.randrange(len(WAYS["copy"])))


@_keeping
def loss_written_otherwise(program: Program, chance: random.Random) -> Program | None:
    ways = LOSS_WAYS[program.training.loss]
    return _training(program, way=chance.randrange(1, ways)) if ways > 1 else None


@_keeping
def optimizer_otherwise(program: Program, chance: random.Random) -> Program | None:
    one = program.training
    if one.written:
        return _training(program, written=False)
    if one.optimizer == "SGD" and set(one.options) == {"lr"} and chance.random() < 0.5:
        return _training(program, written=True)
    return _options(program, **chance.choice(({"foreach": True}, {"foreach": False}, {"fused": True})))


@_keeping
def clipping_otherwise(program: Program, chance: random.Random) -> Program | None:
    if program.training.clip is None:
        return None
    return _training(program, clip_way=chance.randrange(1, CLIP_WAYS))


@_keeping
def same_program(program: Program, chance: random.Random) -> Program | None:
    return program


# Such that should change something.


@_changing
def dropped(program: Program, chance: random.Random) -> Program | None:
    places = [
        n
        for n, one in enumerate(program.statements)
        if one.operands and program.shapes[one.operands[0]] == program.shapes[one.target]
    ]
    if not places:
        return None
    place = chance.choice(places)
    old = program.statements[place]
    names = {old.target: old.operands[0]}
    later = tuple(
        replace(one, operands=tuple(names.get(name, name) for name in one.operands))
        for one in program.statements[place + 1 :]
    )
    outputs = tuple(names.get(name, name) for name in program.outputs)
    return replace(program, statements=(*program.statements[:place], *later), outputs=outputs)


@_changing
def operands_swapped(program: Program, chance: random.Random) -> Program | None:
    place = _choose(program, chance, ("sub", "div", "cat", "changed"))
    if place is None:
        return None
    old = program.statements[place]
    return _with(program, place, replace(old, operands=old.operands[::-1]))


@_changing
def other_operand(program: Program, chance: random.Random) -> Program | None:
    place = _choose(program, chance)
    if place is None:
        return None
    old = program.statements[place]
    which = chance.randrange(len(old.operands))
    known = ["x", *(one.target for one in program.statements[:place])]
    same = [n for n in known if program.shapes[n] == program.shapes[old.operands[which]] and n != old.operands[which]]
    if not same:
        return None
    operands = list(old.operands)
    operands[which] = chance.choice(same)
    return _with(program, place, replace(old, operands=tuple(operands)))


@_changing
def other_constant(program: Program, chance: random.Random) -> Program | None:
    places = [n for n, one in enumerate(program.statements) if set(one.options) & {"factor", "slope", "eps", "chance"}]
    if not places:
        return None
    place = chance.choice(places)
    old = program.statements[place]
    options = {
        name: value * chance.choice((0.5, 0.9, 1.02, 1.5)) if isinstance(value, float) and name != "eps" else value
        for name, value in old.options.items()
    }
    if "eps" in options:
        options["eps"] = chance.choice((1e-6, 1e-3, 1e-2))
    if "module" in options:  # its epsilon stands in the module
        return _with(program, place, replace(old, options=options, way=1))
    return _with(program, place, replace(old, options=options))


@_changing
def other_dimension(program: Program, chance: random.Random) -> Program | None:
    place = _choose(program, chance, ("softmax", "center"))
    if place is None:
        return None
    old = program.statements[place]
    return _with(program, place, replace(old, options={**old.options, "dim": chance.choice((0, 1))}))


@_changing
def other_function(program: Program, chance: random.Random) -> Program | None:
    kinds = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softplus")
    place = _choose(program, chance, kinds)
    if place is None:
        return None
    old = program.statements[place]
    return _with(program, place, replace(old, kind=chance.choice([kind for kind in kinds if kind != old.kind])))


@_changing
def through_lower_precision(program: Program, chance: random.Random) -> Program | None:
    lower = chance.choice(("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"))
    return _after(program, chance, "through", lower=lower)


@_changing
def transposed_weight(program: Program, chance: random.Random) -> Program | None:
    places = [
        n
        for n, one in enumerate(program.statements)
        if one.kind in ("linear", "project") and len(set(program.parameters[one.parameters[0]])) == 1
    ]
    if not places:
        return None
    place = chance.choice(places)
    old = program.statements[place]
    return _with(program, place, replace(old, parameters=(f"{old.parameters[0]}.t()", *old.parameters[1:])))


@_changing
def detached(program: Program, chance: random.Random) -> Program | None:
    return _after(program, chance, "detach")


@_changing
def element_changed(program: Program, chance: random.Random) -> Program | None:
    return _after(program, chance, "element", index=chance.randrange(12))


@_changing
def extra_call(program: Program, chance: random.Random) -> Program | None:
    if chance.random() < 0.5:
        return _after(program, chance, "other", function=chance.choice(("tanh", "neg", "sin", "relu")))
    return _after(program, chance, "scale", factor=chance.choice((1.01, 0.5, -1.0)))


@_changing
def halves_exchanged(program: Program, chance: random.Random) -> Program | None:
    """The outputs of a chunk: gate and value, or query and key."""
    place = _choose(program, chance, ("glu", "attention"))
    if place is None:
        return None
    old = program.statements[place]
    wrong = f"{old.kind}_exchanged"
    return _with(program, place, replace(old, kind=wrong, way=chance.randrange(len(WAYS[wrong]))))


@_changing
def learning_rate(program: Program, chance: random.Random) -> Program | None:
    return _options(program, lr=program.training.options["lr"] * chance.choice((0.5, 0.95, 1.1, 2.0)))


@_changing
def optimizer_constant(program: Program, chance: random.Random) -> Program | None:
    one = program.training
    if one.written:
        return None
    if one.optimizer == "SGD":
        choices = [{"momentum": 0.8}, {"weight_decay": 0.1}, {"dampening": 0.1, "momentum": 0.9}]
        choices += [{"nesterov": True}] if one.options.get("momentum") else []
    else:
        choices = [{"betas": (0.8, 0.999)}, {"betas": (0.9, 0.9)}, {"weight_decay": 0.2}, {"eps": 1e-4}]
    return _options(program, **chance.choice(choices))


@_changing
def parameter_left_out(program: Program, chance: random.Random) -> Program | None:
    return _training(program, left_out=chance.choice(list(program.parameters)))


@_changing
def parameter_frozen(program: Program, chance: random.Random) -> Program | None:
    return _training(program, frozen=chance.choice(list(program.parameters)))


@_changing
def parameter_element(program: Program, chance: random.Random) -> Program | None:
    name = chance.choice(list(program.parameters))
    line = f"model.{name}.data.view(-1)[{chance.randrange(4)}] *= {chance.choice((1.1, -1.0, 2.0))}"
    return _training(program, before=(line,))


@_changing
def gradient_element(program: Program, chance: random.Random) -> Program | None:
    name = chance.choice(list(program.parameters))
    index, factor = chance.randrange(4), chance.choice((1.5, 0.0))
    line = f"if model.{name}.grad is not None:\n            model.{name}.grad.view(-1)[{index}] *= {factor}"
    return _training(program, extra=(line,))


@_changing
def gradient_scaled(program: Program, chance: random.Random) -> Program | None:
    name = chance.choice(list(program.parameters))
    line = f"if model.{name}.grad is not None:\n            model.{name}.grad.mul_({chance.choice((0.5, 1.1))})"
    return _training(program, extra=(line,))


@_changing
def clipping_changed(program: Program, chance: random.Random) -> Program | None:
    return _training(program, clip=None if program.training.clip is not None else 0.02)


@_changing
def other_loss(program: Program, chance: random.Random) -> Program | None:
    return _training(program, loss=chance.choice(("sum", "absolute", "smooth", "mse")), way=0)


@_changing
def output_left_out(program: Program, chance: random.Random) -> Program | None:
    if len(program.outputs) < 2:
        return None
    return _training(program, weights=chance.choice(((1.0, 0.0), (1.0, 0.6), (0.0, 0.5))))


@_changing
def gradients_kept(program: Program, chance: random.Random) -> Program | None:
    """The gradients of the first step are still there in the second."""
    return _training(program, zero=False)


@_changing
def other_batches(program: Program, chance: random.Random) -> Program | None:
    return _training(program, batches=chance.choice(((1, 0), (0, 0), (0, 2))))


@_changing
def other_parts(program: Program, chance: random.Random) -> Program | None:
    """The batch is cut otherwise, and nobody divides the loss by the number of parts."""
    return _training(program, parts=3 - program.training.parts)


@_changing
def other_seed(program: Program, chance: random.Random) -> Program | None:
    if not any(one.kind == "dropout" for one in program.statements):
        return None
    return _training(program, seed=program.training.seed + 500)


TABLES: Mapping[str, Mapping[str, Edit]] = {"keeping": KEEPING, "changing": CHANGING}
