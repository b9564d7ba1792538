"""Inductor without its code generation: all passes over the graphs run, and what they leave is interpreted.

Some ten times faster, for testing faults that are planted into graphs. Faults in kernels, in wrappers or in the
calling of compiled code do not show here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


def _interpret(module: Any, inputs: Any, **more: Any) -> Callable[[list[Any]], Any]:
    import torch._inductor.config as inductor
    from torch._inductor.fx_passes.post_grad import view_to_reshape

    view_to_reshape(module)
    for stage in (inductor.post_grad_custom_pre_pass, inductor.post_grad_custom_post_pass):
        if stage is not None:
            stage(module.graph)
    module.recompile()

    def run(values: list[Any]) -> Any:
        given = list(values)
        values.clear()
        return module(*given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


@contextmanager
def interpreted() -> Iterator[None]:
    import torch._inductor.compile_fx as compiling

    honest = compiling.compile_fx_inner
    named = dict(compiling.compile_fx.__kwdefaults__ or {})
    placed = compiling.compile_fx.__defaults__ or ()
    with (
        mock.patch.object(compiling, "compile_fx_inner", _interpret),
        mock.patch.object(
            compiling.compile_fx, "__defaults__", tuple(_interpret if one is honest else one for one in placed) or None
        ),
        mock.patch.object(
            compiling.compile_fx,
            "__kwdefaults__",
            {name: _interpret if one is honest else one for name, one in named.items()} or None,
        ),
    ):
        yield
