"""What the two sides of a ported model share: weights by name, made with numpy, written into either framework.

Names and layouts are those of torch. On Paddle's side the weight of a Linear lies the other way around, the buffers of
a BatchNorm are called otherwise, and what torch packs (query, key and value) lies in three parameters.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import BeforeEdit, Setting

Rename = Callable[[str], str | tuple[str, int]]


def made(name: str, shape: Iterable[int]) -> np.ndarray:
    """The weight of that name, the same in every process."""
    shape = tuple(shape)
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    values = generator.standard_normal(shape)
    last = name.rpartition(".")[2]
    if last == "running_var":
        return 0.5 + generator.random(shape)
    if last == "running_mean":
        return 0.2 * values
    if len(shape) > 1:
        return values * np.sqrt(1.5 / np.prod(shape[1:]))
    return 1 + 0.1 * values if last == "weight" else 0.1 * values


def numbers(name: str) -> np.random.Generator:
    """A generator for the data of a program."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def fill_torch(model: Any) -> Any:
    """Writes all parameters and running statistics of a torch model."""
    import torch

    with torch.no_grad():
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            if isinstance(value, torch.nn.Parameter) or name.endswith(("running_mean", "running_var")):
                value.copy_(torch.from_numpy(made(name, value.shape)))
    return model


def batch_norm(name: str) -> str:
    """Torch's name of a buffer of a BatchNorm."""
    start, dot, last = name.rpartition(".")
    return start + dot + {"_mean": "running_mean", "_variance": "running_var"}.get(last, last)


def attention(name: str) -> str | tuple[str, int]:
    """Torch's name of a parameter of a Transformer, where the projections of query, key and value are packed."""
    name = name.replace("cross_attn", "multihead_attn")
    for third, letter in enumerate("qkv"):
        if f".{letter}_proj." in name:
            return name.replace(f".{letter}_proj.", ".in_proj_"), third
    return name


def fill_paddle(model: Any, rename: Rename = batch_norm) -> dict[str, tuple[Any, bool]]:
    """Writes all parameters of a Paddle model; ``rename`` gives torch's name of each, or the name of what is packed
    there and which third of it this is. Returns the parameters by torch's names, and whether each lies transposed."""
    import paddle

    linear = {id(layer.weight) for layer in model.sublayers() if isinstance(layer, paddle.nn.Linear)}
    ported = {}
    running = [(name, value) for name, value in model.named_buffers() if name.endswith(("_mean", "_variance"))]
    for name, parameter in (*model.named_parameters(), *running):
        known, shape = rename(name), list(parameter.shape)
        transposed = id(parameter) in linear
        if transposed:
            shape.reverse()
        if isinstance(known, tuple):
            known, third = known
            values = made(known, [3 * shape[0], *shape[1:]])[third * shape[0] : (third + 1) * shape[0]]
            known = f"{known}.{third}"
        else:
            values = made(known, shape)
        parameter.set_value((values.T if transposed else values).astype(str(parameter.dtype).rpartition(".")[2]))
        ported[known] = (parameter, transposed)
    return ported


def use(setting: Setting) -> None:
    """Paddle makes its parameters in that dtype from now on."""
    import paddle

    paddle.set_default_dtype(setting.dtype)


def torch_watched(model: Any, *names: str, gradient: bool = False) -> dict[str, np.ndarray]:
    """Some parameters, or their gradients, as arrays."""
    known = dict(model.named_parameters())
    title = "gradient of" if gradient else "updated"
    return {
        f"{title} {name}": (known[name].grad if gradient else known[name]).numpy(force=True).copy() for name in names
    }


def paddle_watched(ported: dict[str, tuple[Any, bool]], *names: str, gradient: bool = False) -> dict[str, np.ndarray]:
    """The same of a Paddle model, as torch lays them out."""
    title = "gradient of" if gradient else "updated"
    given = {}
    for name in names:
        parameter, transposed = ported[name]
        values = (parameter.grad if gradient else parameter).numpy()
        given[f"{title} {name}"] = values.T if transposed else values
    return given


def written(module: str, function: str, *changes: tuple[str, str]) -> BeforeEdit:
    """An edit of a function of one of these programs: the text of the port is another."""

    def edit(setting: Setting) -> None:
        edit_function(imported(f"benchmarks.zoo.programs.{module}"), function, *changes)

    return edit
