"""What torch's compiler consists of, as far as we listen to it, and what it says of a graph that it compiles. Which
parts there are depends on the version of torch; one that is not there is not listened to."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import torch

GRAPHS = "torch._dynamo.output_graph"
STAGES = "torch._functorch._aot_autograd.graph_compile"
LISTENED = frozenset({GRAPHS, STAGES})
"""The modules in which the compiler hands graphs on; a program may import them at any time."""

COMPILED_GRAPH = "__compiled_fn"
"""How the names begin under which compiled graphs stand among the globals of a program."""

LOGGED: dict[str, tuple[str, ...]] = {
    "_log_joint_graph": ("joint",),
    "_log_fw_bw_graphs": ("forward", "backward"),
    "_log_inference_graph": ("inference",),
}
"""Functions by which torch tells its log of graphs that it has made -> what their first arguments are."""

BACKENDS = frozenset({"inductor", "aot_eager", "eager", "aot_eager_decomp_partition", "cudagraphs", "aot_ts"})
"""The backends of torch's own that a recorded graph may be compiled by again."""

_CONFIGS = {"inductor": "torch._inductor.config", "functorch": "torch._functorch.config"}
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+?)_at_(\d+)")


def compiles() -> list[types.FunctionType]:
    """The function by which a graph is handed to a backend."""
    kind = getattr(sys.modules.get(GRAPHS), "OutputGraph", None)
    found = [vars(kind).get(name) for name in ("_call_user_compiler", "call_user_compiler")] if kind else []
    return [one for one in found if isinstance(one, types.FunctionType)][:1]


def installs() -> list[types.FunctionType]:
    """The function by which a compiled graph becomes a global of the program."""
    kind = getattr(sys.modules.get(GRAPHS), "OutputGraph", None)
    found = vars(kind).get("install_global_unsafe") if kind else None
    return [found] if isinstance(found, types.FunctionType) else []


def logs() -> list[tuple[types.FunctionType, tuple[str, ...]]]:
    """The functions that hear of graphs which the compiler has made of one."""
    module = sys.modules.get(STAGES)
    found = [(getattr(module, name, None), stages) for name, stages in LOGGED.items()]
    return [(one, stages) for one, stages in found if isinstance(one, types.FunctionType)]


def compiled_graphs() -> list[types.FunctionType]:
    """The compiled graphs that exist already."""
    if GRAPHS not in sys.modules:
        return []
    found: dict[int, types.FunctionType] = {}
    for module in list(sys.modules.values()):
        space = getattr(module, "__dict__", None)
        for name, value in list(space.items()) if isinstance(space, dict) else ():
            if isinstance(name, str) and name.startswith(COMPILED_GRAPH) and isinstance(value, types.FunctionType):
                found[id(value)] = value
    return list(found.values())


def function_of(frame: Any) -> tuple[str, types.CodeType]:
    """The function of the program that a graph is a part of, and its code. What comes behind a graph break is a part of
    it too; a module of torch's own is called through a function of the compiler's, and stands for itself."""
    code: types.CodeType = frame.f_code
    inner = (getattr(frame, "f_locals", None) or {}).get("fn") if code.co_filename.endswith(_INLINING) else None
    if isinstance(inner, torch.nn.Module):
        return type(inner).__qualname__, getattr(type(inner).forward, "__code__", code)
    own = getattr(inner, "__code__", None)
    code = own if isinstance(own, types.CodeType) else code
    name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    return _RESUMED.sub(lambda found: found[1], name), code


_INLINING = "torch/_dynamo/external_utils.py"
"""Where the function lies by which the compiler calls what is torch's own."""


def how_compiled(compiler: Any) -> dict[str, Any]:
    """By what a graph is compiled, as far as it is numbers and names: the backend and its settings."""
    backend: Any = getattr(compiler, "compiler_fn", None)
    inner: Any = getattr(backend, "_torchdynamo_orig_backend", backend)
    function = getattr(inner, "compiler_fn", inner)  # torch wraps what has no settings of inductor's
    name = getattr(inner, "compiler_name", None) or getattr(backend, "_compiler_name", None)
    found: dict[str, Any] = {"backend": str(name or getattr(function, "__name__", type(function).__name__))}
    if found["backend"] not in BACKENDS:
        found["place"] = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    if isinstance(getattr(inner, "config", None), dict):
        found["options"] = _numbers(inner.config)
    if getattr(inner, "dynamic", None) is not None:
        found["dynamic"] = bool(inner.dynamic)
    changed = {name: _numbers(_changed(place)) for name, place in _CONFIGS.items()}
    return found | {"settings": {name: values for name, values in changed.items() if values}}


def modes_now() -> dict[str, Any]:
    """The modes in which a graph is compiled, and will run."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    lowered = {one: str(torch.get_autocast_dtype(one)).removeprefix("torch.") for one in devices if _lowers(one)}
    return ({"autocast": lowered} if lowered else {}) | {"grad": torch.is_grad_enabled()}


def _lowers(device: str) -> bool:
    return bool(torch.is_autocast_enabled(device))


def _numbers(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that are truths and numbers. Text may be a path or a command, which no file is to bring along."""
    return {name: value for name, value in settings.items() if isinstance(value, bool | int | float)}


def _changed(place: str) -> dict[str, Any]:
    """The settings of a part of torch that are not what torch ships."""
    module: Any = sys.modules.get(place)
    is_default = getattr(module, "_is_default", None)
    settings = getattr(module, "_config", None)
    if is_default is None or not isinstance(settings, dict):
        return {}
    return {name: getattr(module, name) for name in settings if not is_default(name)}
