"""A script of plain torch that shows what the compiler gets wrong: the piece, the values with which it was tried, what
it gave, and what it should have given."""

from __future__ import annotations

import base64
from typing import Any

import torch

from trueline.frameworks.torch.arrays import bits_of
from trueline.frameworks.torch.graph_trial import Court
from trueline.frameworks.torch.rebuild import dtype_name

_HEAD = '''"""{title}

{about}
Needs torch alone; written by trueline.
"""

import base64

import torch
from torch import device, inf, nan  # names in the code of a graph


def tensor(content, dtype, shape, requires_grad):
    raw = torch.frombuffer(bytearray(base64.b64decode(content)), dtype=torch.uint8)
    made = raw.view(dtype).reshape(shape) if raw.numel() else torch.empty(shape, dtype=dtype)
    return made.clone().requires_grad_(requires_grad)


def inputs():
    return [
{inputs}
    ]


class Piece(torch.nn.Module):
    def __init__(self):
        super().__init__()
{constants}

{code}


def results(call):
    torch.manual_seed(0)
    given = inputs()
    made = call(*given)
    found = {{f"output {{n}}": one.detach().clone() for n, one in enumerate(made) if isinstance(one, torch.Tensor)}}
    ends = [one for one in made if isinstance(one, torch.Tensor) and one.requires_grad]
    leaves = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
    if ends and leaves:
        gradients = torch.autograd.grad(ends, leaves, [torch.ones_like(one) for one in ends], allow_unused=True)
        found |= {{f"gradient {{n}}": one for n, one in enumerate(gradients) if one is not None}}
    found |= {{f"input {{n}} afterwards": one.detach() for n, one in enumerate(given) if isinstance(one, torch.Tensor)}}
    return found


if __name__ == "__main__":
    eager = results(Piece())
    compiled = results(torch.compile(Piece(), backend={backend!r}, dynamic={dynamic!r}{options}))
    for name, one in eager.items():
        other = compiled.get(name)
        off = float("nan") if other is None else float((one.double() - other.double()).norm() / one.double().norm())
        print(f"{{name}}: eager and compiled are {{off:.3g}} apart")
'''


def script(title: str, found: Any) -> str:
    """The script for what a search has found."""
    court, piece, how = found.repro
    module = piece.module()
    lines = [f"        {_value(court, name)},  # {name}" for name in piece.begins]
    constants = [
        f"        self.register_buffer({name!r}, {_tensor(value)})" for name, value in module.named_buffers()
    ] or ["        pass"]
    about = [f"{one.name}: off by {one.error:.3g} compiled, {one.honest:.3g} in eager" for one in found.evidence]
    sources = [f"{node.operator}  {node.module}  {node.source}" for node in piece.nodes]
    told = "\n".join([*sources, "", *about, f"goes wrong in {found.stage}" if found.stage else ""])
    code = "\n".join(f"    {line}" if line else "" for line in module.code.strip("\n").splitlines())
    backend = how.backend if isinstance(how.backend, str) else "inductor"
    options = f", options={dict(how.options)!r}" if backend == "inductor" and how.options else ""
    return _HEAD.format(
        title=title,
        about=told.replace("\\", "/").replace('"""', "'''"),
        inputs="\n".join(lines),
        constants="\n".join(constants),
        code=code,
        backend=backend,
        dynamic=how.dynamic,
        options=options,
    )


def _value(court: Court, name: str) -> str:
    value = court.values[name]
    return _tensor(value) if isinstance(value, torch.Tensor) else repr(value)


def _tensor(value: torch.Tensor) -> str:
    content = base64.b64encode(bits_of(value.detach()).tobytes()).decode()
    kind = f"torch.{dtype_name(value.dtype)}"
    return f"tensor({content!r}, {kind}, {tuple(value.shape)!r}, {bool(value.requires_grad)!r})"
