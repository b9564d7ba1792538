"""Draws small programs: a module of a few statements, a loss, an optimizer, two steps; and writes them as Python."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.random_programs.writings import WAYS

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Statement:
    """One of them; ``way`` is how it is written."""

    kind: str
    target: str
    operands: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    way: int = 0

    def lines(self) -> list[str]:
        names = dict(zip("ab", self.operands, strict=False))
        own = {letter: f"self.{name}" for letter, name in zip("pqr", self.parameters, strict=False)}
        text = WAYS[self.kind][self.way].format(o=self.target, t=f"{self.target}_", **names, **own, **self.options)
        return text.split("\n")


@dataclass(frozen=True)
class Training:
    """How a program learns. ``extra`` lines stand between the backward and the update."""

    loss: str = "mse"
    way: int = 0
    optimizer: str = "SGD"
    options: Mapping[str, Any] = field(default_factory=dict)
    written: bool = False
    """Whether the update is written by hand (SGD alone)."""
    clip: float | None = None
    clip_way: int = 0
    parts: int = 1
    """Into how many parts a batch is cut whose gradients are summed."""
    left_out: str = ""
    """A parameter that the optimizer is not given."""
    frozen: str = ""
    zero: bool = True
    seed: int = 0
    before: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    batches: tuple[int, ...] = (0, 1)
    weights: tuple[float, ...] = (1.0, 0.5)
    """What each output counts for in the loss."""


@dataclass(frozen=True)
class Program:
    seed: int
    shape: Shape
    dtype: str
    autocast: bool
    statements: tuple[Statement, ...]
    parameters: Mapping[str, Shape]
    buffers: Mapping[str, Shape]
    modules: Mapping[str, int]
    shapes: Mapping[str, Shape]
    outputs: tuple[str, ...]
    training: Training


class _Drawing:
    """A program while it is being drawn."""

    def __init__(self, chance: random.Random, shape: Shape) -> None:
        self.chance = chance
        self.shapes: dict[str, Shape] = {"x": shape}
        self.statements: list[Statement] = []
        self.parameters: dict[str, Shape] = {}
        self.buffers: dict[str, Shape] = {}
        self.modules: dict[str, int] = {}
        self.last = "x"

    def parameter(self, *shape: int) -> str:
        name = f"w{len(self.parameters)}"
        self.parameters[name] = shape
        return name

    def say(
        self, kind: str, shape: Shape, operands: tuple[str, ...], names: tuple[str, ...] = (), **options: Any
    ) -> None:
        target = f"v{len(self.statements)}"
        self.statements.append(Statement(kind, target, operands, names, options))
        self.shapes[target] = shape
        self.last = target

    def other(self) -> str | None:
        """Another value of the last one's shape."""
        found = [name for name, shape in self.shapes.items() if shape == self.shapes[self.last] and name != self.last]
        return self.chance.choice(found) if found else None

    def step(self) -> None:
        x, shape = self.last, self.shapes[self.last]
        draw = self.chance.choice(_KINDS)
        draw(self, x, shape)


def _linear(one: _Drawing, x: str, shape: Shape) -> None:
    width = one.chance.choice((shape[-1], shape[-1], 6, 8, 12))
    names = (one.parameter(width, shape[-1]), one.parameter(width))
    if shape[-1] % 2 == 0 and width % 2 == 0 and one.chance.random() < 0.7:
        one.say("linear", (*shape[:-1], width), (x,), names)
    else:
        one.say("project", (*shape[:-1], width), (x,), names[:1])


def _norm(one: _Drawing, x: str, shape: Shape) -> None:
    kind = one.chance.choice(("layer_norm", "rms_norm", "batch_norm"))
    if kind == "batch_norm" and len(shape) == 2:
        name = f"n{len(one.modules)}"
        one.modules[name] = shape[-1]
        one.say("batch_norm", shape, (x,), module=name, eps=1e-5)
    elif kind == "rms_norm":
        one.say(kind, shape, (x,), (one.parameter(shape[-1]),), eps=1e-5)
    else:
        one.say("layer_norm", shape, (x,), (one.parameter(shape[-1]), one.parameter(shape[-1])), eps=1e-5)


def _elementwise(one: _Drawing, x: str, shape: Shape) -> None:
    kinds = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "softplus", "double", "square", "flip", "cumsum")
    one.say(one.chance.choice(kinds), shape, (x,))


def _constant(one: _Drawing, x: str, shape: Shape) -> None:
    kind = one.chance.choice(("scale", "shift", "clamp", "masked", "leaky", "softmax", "normalize", "center"))
    options: dict[str, Any] = {"factor": one.chance.choice((0.3, 0.75, 1.2))}
    if kind == "leaky":
        options = {"slope": 0.1}
    elif kind in ("softmax", "center"):
        options = {"dim": -1}
    elif kind == "normalize":
        options = {"eps": 1e-3}
    one.say(kind, shape, (x,), **options)


def _binary(one: _Drawing, x: str, shape: Shape) -> None:
    other = one.other()
    if other is None:
        return _elementwise(one, x, shape)
    kind = one.chance.choice(("add", "add", "sub", "mul", "div", "changed", "cat"))
    if kind == "cat":
        return one.say("cat", (*shape[:-1], 2 * shape[-1]), (x, other))
    options = {"factor": one.chance.choice((0.5, 1.3))} if kind == "changed" else {}
    return one.say(kind, shape, (x, other), **options)


def _shaped(one: _Drawing, x: str, shape: Shape) -> None:
    if shape[-1] % 2 == 0 and shape[-1] > 4 and one.chance.random() < 0.4:
        one.say("glu", (*shape[:-1], shape[-1] // 2), (x,))
    elif len(shape) == 3:
        kind = one.chance.choice(("transpose", "flatten", "pool", "highest"))
        after = {
            "transpose": (shape[0], shape[2], shape[1]),
            "flatten": (shape[0], shape[1] * shape[2]),
        }.get(kind, (shape[0], shape[2]))
        one.say(kind, after, (x,))
    else:
        one.say("filled", shape, (x,))


def _large(one: _Drawing, x: str, shape: Shape) -> None:
    kind = one.chance.choice(("attention", "conv", "mlp", "average", "dropout"))
    width = shape[-1]
    if kind == "mlp" or (kind in ("attention", "conv") and len(shape) != 3):
        one.say("mlp", shape, (x,), (one.parameter(2 * width, width), one.parameter(width, 2 * width)))
    elif kind == "attention":
        one.say("attention", shape, (x,), (one.parameter(3 * width, width),))
    elif kind == "conv":
        one.say("conv", shape, (x,), (one.parameter(shape[1], shape[1], 3), one.parameter(shape[1])))
    elif kind == "average":
        name = f"b{len(one.buffers)}"
        one.buffers[name] = shape[1:]
        one.say("average", shape, (x,), (name,))
    else:
        one.say("dropout", shape, (x,), chance=0.2)


_KINDS = (_linear, _linear, _norm, _elementwise, _elementwise, _constant, _binary, _binary, _shaped, _large)


def draw_program(seed: int) -> Program:
    chance = random.Random(f"program {seed}")
    shape = chance.choice(((6, 8), (5, 12), (4, 5, 8), (3, 6, 8)))
    one = _Drawing(chance, shape)
    _linear(one, "x", shape)
    for _ in range(chance.randint(3, 9)):
        one.step()
    _linear(one, one.last, one.shapes[one.last])
    outputs = [one.last]
    if chance.random() < 0.3:
        outputs.append(chance.choice([s.target for s in one.statements[:-1]]))
    dtype = chance.choice(("float32",) * 6 + ("bfloat16", "float64"))
    autocast = dtype == "float32" and chance.random() < 0.1
    return Program(
        seed, shape, dtype, autocast, tuple(one.statements), one.parameters, one.buffers, one.modules, one.shapes,
        tuple(outputs), _draw_training(chance, dtype),
    )  # fmt: skip


def _draw_training(chance: random.Random, dtype: str) -> Training:
    optimizer = chance.choice(("SGD", "SGD", "Adam", "AdamW"))
    options: dict[str, Any] = {"lr": chance.choice((0.01, 0.05)) if optimizer == "SGD" else 0.003}
    written = False
    if optimizer == "SGD":
        written = chance.random() < 0.3
        if not written and chance.random() < 0.6:
            options["momentum"] = 0.9
    if not written and chance.random() < 0.5:
        options["weight_decay"] = 0.05
    return Training(
        loss=chance.choice(("mse", "mse", "smooth", "entropy", "square")),
        optimizer=optimizer,
        options=options,
        written=written,
        clip=chance.choice((None, None, 0.1)),
        parts=chance.choice((1, 1, 1, 2)),
        seed=chance.randint(0, 99),
    )


# Writing.

_LOSSES: Mapping[str, tuple[str, ...]] = {
    "mse": ("F.mse_loss({o}, {y})", "({o} - {y}).square().mean()", "(({o} - {y}) ** 2).sum() / {o}.numel()"),
    "smooth": (
        "F.smooth_l1_loss({o}, {y})",
        "torch.where(({o} - {y}).abs() < 1.0, 0.5 * ({o} - {y}).square(), ({o} - {y}).abs() - 0.5).mean()",
    ),
    "entropy": (
        "F.cross_entropy({o}.flatten(0, -2), {y}.flatten(0, -2).argmax(-1))",
        "F.nll_loss(F.log_softmax({o}.flatten(0, -2), -1), {y}.flatten(0, -2).argmax(-1))",
    ),
    "square": ("{o}.square().mean() + ({o} * {y}).sum() * 0.01", "0.01 * ({y} * {o}).sum() + {o}.pow(2).mean()"),
    # What edits alone write.
    "sum": ("({o} - {y}).square().sum()",),
    "absolute": ("F.l1_loss({o}, {y})",),
}
LOSS_WAYS = {name: len(ways) for name, ways in _LOSSES.items()}
_CLIPS = (
    "torch.nn.utils.clip_grad_norm_(parameters, {clip})",
    "torch.nn.utils.clip_grad_norm_(parameters, {clip}, foreach=False)",
    "norm = torch.sqrt(sum(p.grad.square().sum() for p in parameters if p.grad is not None))\n"
    "for p in parameters:\n"
    "    if p.grad is not None:\n"
    "        p.grad.mul_(torch.clamp({clip} / (norm + 1e-6), max=1.0))",
)
CLIP_WAYS = len(_CLIPS)


def source_of(program: Program) -> str:
    """The program as Python. Its names from outside: ``DTYPE``, ``AUTOCAST``, ``start``, ``see``, ``end``."""
    lines = ["class Model(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
    for name, shape in program.parameters.items():
        lines.append(f"        self.{name} = torch.nn.Parameter(start({name!r}, {shape}))")
    for name, shape in program.buffers.items():
        lines.append(f"        self.register_buffer({name!r}, torch.zeros({shape}, dtype=DTYPE))")
    for name, width in program.modules.items():
        lines.append(f"        self.{name} = torch.nn.BatchNorm1d({width}, dtype=DTYPE)")
    lines += ["", "    def forward(self, x):"]
    for statement in program.statements:
        lines += [f"        {line}" for line in statement.lines()]
    lines += [f"        return {', '.join(program.outputs)}", "", *_training(program)]
    return "\n".join(lines) + "\n"


def _training(program: Program) -> list[str]:
    one = program.training
    lines = ["def train(model, batches):"]
    if one.frozen:
        lines.append(f"    model.{one.frozen}.requires_grad_(False)")
    lines += [f"    {line}" for line in one.before]
    kept = f" if p is not model.{one.left_out}" if one.left_out else ""
    lines.append(f"    parameters = [p for p in model.parameters(){kept}]")
    if not one.written:
        options = "".join(f", {name}={value!r}" for name, value in one.options.items())
        lines.append(f"    optimizer = torch.optim.{one.optimizer}(parameters{options})")
    lines.append(f"    for step, number in enumerate({one.batches}):")
    lines.append(f"        torch.manual_seed({one.seed} + step)")
    if one.zero:
        lines.append("        model.zero_grad()")
    lines += [f"        {line}" for line in _loss(program)]
    if one.clip is not None:
        lines += [f"        {line}" for line in _CLIPS[one.clip_way].format(clip=one.clip).split("\n")]
    lines += [f"        {line}" for line in one.extra]
    lines.append("        see('gradients', model)")
    if one.written:
        lines += [
            "        with torch.no_grad():",
            "            for p in parameters:",
            "                if p.grad is not None:",
            f"                    p.sub_({one.options['lr']} * p.grad)",
        ]
    else:
        lines.append("        optimizer.step()")
    return [*lines, "        end(model)"]


def _loss(program: Program) -> list[str]:
    one = program.training
    lines = [f"for x, *y in parts(batches[number], {one.parts}):"]
    outs = ", ".join(f"out{place}" for place in range(len(program.outputs)))
    template = _LOSSES[one.loss][one.way]
    terms = [
        f"({template.format(o=f'out{place}', y=f'y[{place}]')})" + (f" * {weight}" if weight != 1.0 else "")
        for place, weight in zip(range(len(program.outputs)), one.weights, strict=False)
        if weight
    ]
    lines += [
        "    with torch.autocast('cpu', torch.bfloat16, enabled=AUTOCAST):",
        f"        {outs} = model(x)",
        f"        loss = {' + '.join(terms)}",
        f"    see('outputs', {outs}, loss)",
        "    loss.backward()",
    ]
    return lines
