"""How a script makes a call that its Target does not make eagerly: as a graph, or under autocast.

The script has a small function that takes the function to be called and gives what is called in its place; the truth is
always computed eagerly.
"""

from __future__ import annotations

_COMPILE = [
    "def compiled(function):",
    "    def call(*args, **kwargs):",
    "        return function(*args, **kwargs)",
    "",
    "    return torch.compile(call, fullgraph=True, dynamic=False)",
]
_STATIC = [
    "def graph_of(function):",
    "    @paddle.jit.not_to_static",
    "    def traced(args, kwargs):",
    "        return function(*args, **kwargs)",
    "",
    "    def forward(args, kwargs):",
    "        return traced(args, kwargs)",
    "",
    "    graph = paddle.jit.to_static(forward, full_graph=True, backend={backend!r})",
    "    return lambda *args, **kwargs: graph(list(args), kwargs)",
]
_AUTOCAST = [
    "def lowered(function):",
    "    def call(*args, **kwargs):",
    "        with {context}:",
    "            return function(*args, **kwargs)",
    "",
    "    return call",
]
_METHODS = "paddle.Tensor."


def how_lines(framework: str, device: str, how: str) -> list[str]:
    """The function that the script needs for what stands after the plus sign of its Target; empty for nothing."""
    if not how:
        return []
    name, _, dtype = how.partition("-")
    if name == "amp":
        context = f'torch.autocast("{device.partition(":")[0]}", dtype=torch.{dtype}, cache_enabled=False)'
        if framework == "paddle":
            context = f'paddle.amp.auto_cast(enable=True, level="O1", dtype="{dtype}")'
        return [*(line.format(context=context) for line in _AUTOCAST), "", ""]
    if name == "compile":
        return [*_COMPILE, "", ""]
    return [*(line.format(backend="CINN" if name == "cinn" else None) for line in _STATIC), "", ""]


def called(function: str, api: str, how: str) -> str:
    """The expression for what is called in place of a function."""
    name = how.partition("-")[0]
    if not name:
        return function
    if name in ("static", "cinn") and function == api and api.startswith(_METHODS):
        # In a graph there are no tensors, only symbols, which have the same methods.
        function = f"(lambda tensor, *args, **kwargs: tensor.{api.removeprefix(_METHODS)}(*args, **kwargs))"
    wrapper = {"amp": "lowered", "compile": "compiled"}.get(name, "graph_of")
    return f"{wrapper}({function})"
