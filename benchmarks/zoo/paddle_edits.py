"""What the cases on Paddle share: reaching a layer, editing only one of them, changing the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built


def at(built: Built, path: str) -> Any:
    """The layer of that path."""
    layer = built.model
    for part in path.split("."):
        layer = layer._sub_layers[part]
    return layer


def put(built: Built, path: str, layer: Any) -> None:
    """Another layer in that place."""
    parent, _, name = path.rpartition(".")
    (at(built, parent) if parent else built.model)._sub_layers[name] = layer


def edit_one(layer: Any, *changes: tuple[str, str], name: str = "forward", count: int = 1) -> None:
    """Edits the source of a method for this layer only; the others of its class keep theirs."""
    kind = type(layer)
    edited = type(kind.__name__, (kind,), {"__module__": kind.__module__})
    edit_function(edited, name, *changes, count=count)
    layer.__class__ = edited


def edit_model(built: Built, *changes: tuple[str, str], name: str = "forward", count: int = 1) -> None:
    """Edits a method of the outermost layer."""
    edit_one(built.model, *changes, name=name, count=count)


def edit_program(module: str, function: str, *changes: tuple[str, str], count: int = 1) -> None:
    """Edits the code of a program of the zoo: its loop or its loss. Only before it is built."""
    from benchmarks.zoo.source import imported

    edit_function(imported(f"benchmarks.zoo.programs.{module}"), function, *changes, count=count)


def set_value(parameter: Any, change: Callable[[Any], Any]) -> None:
    """Changes the value of a parameter or buffer, by numpy."""
    value = parameter.numpy().copy()
    parameter.set_value(change(value).astype(value.dtype))


def adamw(built: Built, learning_rate: Any, **options: Any) -> None:
    """A new AdamW for the program, with other options than its own."""
    import paddle

    built.optimizer = paddle.optimizer.AdamW(learning_rate, parameters=built.model.parameters(), **options)


def recompute_layers(built: Built, path: str) -> None:
    """Recomputes each layer of a list in the backward pass. A layer says by ``keep_random_state`` how."""
    from paddle.distributed.fleet.utils import recompute

    for layer in at(built, path):

        def forward(*inputs: Any, plain: Any = layer.forward, owner: Any = layer, **named: Any) -> Any:
            return recompute(plain, *inputs, preserve_rng_state=getattr(owner, "keep_random_state", True), **named)

        layer.forward = forward


def own_gelu(right: bool) -> Callable[[Any], Any]:
    """GELU as a paddle.autograd.PyLayer with a derivative written by hand, right or without its second term."""
    import paddle
    from paddle.autograd import PyLayer

    class Gelu(PyLayer):
        @staticmethod
        def forward(context: Any, inputs: Any) -> Any:
            context.save_for_backward(inputs)
            return inputs * 0.5 * (1.0 + paddle.erf(inputs * 0.5**0.5))

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            (inputs,) = context.saved_tensor()
            slope = 0.5 * (1.0 + paddle.erf(inputs * 0.5**0.5))
            if right:
                slope = slope + inputs * paddle.exp(inputs * inputs * -0.5) * 0.3989422804014327
            return gradient * slope

    return Gelu.apply


def formers(path: str) -> Any:
    """A module of PaddleFormers."""
    from benchmarks.zoo.programs.paddle_formers import transformers
    from benchmarks.zoo.source import imported

    transformers()
    return imported(f"paddleformers.{path}")
