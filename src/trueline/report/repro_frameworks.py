"""Scripts for failures of Paddle, and of one framework held against the other: plain paddle, plain torch, numpy.

Inputs are numpy arrays, from which each framework makes its own tensors; results are numpy arrays again. A counterpart
that is a composition of ours is the one thing that such a script needs trueline for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trueline.cases import Status
from trueline.dtypes import dtype_named
from trueline.report.repro_how import called, how_lines
from trueline.report.repro_source import NotWritable, array_source, call_source, number_source
from trueline.tree import Tree, tensor_paths

if TYPE_CHECKING:
    from trueline.report.repro import Repro, ReproTensor

_COMPOSITE = "composite."


@dataclass(frozen=True, slots=True)
class Side:
    """A call as one framework makes it. ``paths`` says where the tensors of the case are in its arguments; those that
    it leaves out are where they were."""

    framework: str
    api: str
    arguments: Tree
    device: str
    paths: Mapping[str, str]


def framework_script(repro: Repro, candidate: Side, truth: Side) -> list[str]:
    """The lines of the script behind its imports: inputs, a function for each framework, and what goes wrong."""
    if repro.free and candidate.framework != truth.framework:
        raise NotWritable("an operator that leaves a choice, which the two frameworks make differently")
    sides = {side.framework: side for side in (candidate, truth)}
    lines = _inputs(repro, candidate.framework)
    if repro.how:
        lines += ["", "", *how_lines(candidate.framework, candidate.device, repro.how)[:-2]]
    for side in sides.values():
        lines += ["", "", *_run(repro, side)]
    return [*lines, "", "", *_ending(repro, candidate, truth)]


def framework_imports(candidate: Side, truth: Side, body: str) -> list[str]:
    """The imports of the frameworks, and of compositions that stand for a call of the other one."""
    frameworks = sorted({candidate.framework, truth.framework})
    lines = ["import numpy as np", *(f"import {name}" for name in frameworks)]
    if "load_file(" in body:
        lines.append(f"from safetensors.{candidate.framework} import load_file")
    for side in (candidate, truth):
        if side.api.startswith(_COMPOSITE):
            lines.append(f"from trueline.frameworks.{side.framework}.composites import composite_named")
    return list(dict.fromkeys(lines))


def needs_of(candidate: Side, truth: Side) -> str:
    """What must be installed."""
    names = [*sorted({candidate.framework, truth.framework}), "numpy"]
    if any(side.api.startswith(_COMPOSITE) for side in (candidate, truth)):
        names.append("trueline")
    return f"Needs {', '.join(names[:-1])} and {names[-1]}."


# The inputs


def _inputs(repro: Repro, framework: str) -> list[str]:
    everything = [*repro.tensors, *repro.gradients]
    lines = []
    if any(tensor.values is None and tensor.drawn is None for tensor in everything):
        lines.append('saved = load_file(__file__.replace("repro.py", "repro.safetensors"))')
    return [*lines, *(f"{tensor.name} = {_content(tensor, framework)}" for tensor in everything)]


def _content(tensor: ReproTensor, framework: str) -> str:
    kind = dtype_named(tensor.dtype)
    numpy = "float32" if kind.is_float and kind.itemsize < 4 else "bool_" if kind.name == "bool" else kind.name
    if tensor.values is not None:
        if tensor.values.size == 0:
            return f"np.empty({tensor.shape}, np.{numpy})"
        return f"np.array({array_source(tensor.values)}, np.{numpy})"
    if tensor.drawn is not None:
        seed, low, high = tensor.drawn
        generator = f"np.random.default_rng({seed})"
        if high > low:
            return f"{generator}.integers({low}, {high}, {tensor.shape}).astype(np.{numpy})"
        wide = "" if tensor.dtype == "float64" else ", np.float32"
        return f"{generator}.standard_normal({tensor.shape}{wide})"
    found = f'saved["{tensor.saved}"]'
    if kind.is_complex:  # bytes, in one more dimension
        return f"{found}.numpy().view(np.{kind.name}).squeeze(-1)"
    if numpy == "float32" and kind.name != "float32":
        return f"{found}.{'float()' if framework == 'torch' else 'astype({!r})'.format('float32')}.numpy()"
    return f"{found}.numpy()"


# The call


def _run(repro: Repro, side: Side) -> list[str]:
    names = {side.paths.get(tensor.path, tensor.path): tensor.name.upper() for tensor in repro.tensors}
    lines = [f"def {side.framework}_run(function, device, wide):", *_SETUP[side.framework]]
    if _names_dtype(side.arguments):
        lines += _KIND[side.framework]
    lines.append(f"    {side.framework}.{'manual_' if side.framework == 'torch' else ''}seed({repro.seed})")
    for tensor in repro.tensors:
        words = [tensor.name, repr(tensor.dtype)]
        if tensor.requires_grad and repro.backward:
            words.append("grad=True")
        if tensor.strides is not None:
            words.append(f"strides={tensor.strides}")
        lines.append(f"    {tensor.name.upper()} = put({', '.join(words)})")
    owned = repro.backward and _may_write(repro, side)
    given = {
        number: f"{names[path]}{'.clone()' if owned else ''}"
        for number, path in tensor_paths(side.arguments)
        if path in names
    }
    source = call_source(side.arguments, given)
    lines.append(f"    out = function({source.replace('kind(torch.', f'kind({side.framework}.')})")
    if repro.gradients:
        ends = ", ".join(_at(gradient.path, names) for gradient in repro.gradients)
        fed = ", ".join(f"put({gradient.name}, dtype_of({_at(gradient.path, names)}))" for gradient in repro.gradients)
        lines.append(f"    {side.framework}.autograd.backward([{ends}], [{fed}])")
    return [*lines, f"    return {_returned(repro, side, names)}"]


def _returned(repro: Repro, side: Side, names: Mapping[str, str]) -> str:
    if not repro.structure:
        return f"numbers({_wrong(repro, side, names)})"
    wrong = f"[{_wrong(repro, side, names)}]" if repro.part == "gradient" else "out"
    held = ", ".join(tensor.name.upper() for tensor in repro.tensors)
    before = ", ".join(f"put({tensor.name}, {tensor.dtype!r})" for tensor in repro.tensors)
    return f"looks({wrong}), [bool((numbers(a) != numbers(b)).any()) for a, b in zip([{held}], [{before}])]"


def _wrong(repro: Repro, side: Side, names: Mapping[str, str]) -> str:
    path = side.paths.get(repro.path, repro.path)
    return f"{names[path]}.grad" if repro.part == "gradient" else _at(path, names)


def _at(path: str, names: Mapping[str, str]) -> str:
    """The expression for an output (``out.1`` is ``out[1]``) or for an argument that the call changed."""
    root, *steps = path.split(".")
    if root != "out":
        return names.get(path, "out")
    return "out" + "".join(f"[{step}]" if step.isdigit() else f"[{step!r}]" for step in steps)


def _may_write(repro: Repro, side: Side) -> bool:
    last = side.api.rpartition(".")[2]
    return repro.override is not None or last == "__setitem__" or (last.endswith("_") and not last.endswith("__"))


def _names_dtype(tree: Tree) -> bool:
    if isinstance(tree, list):
        return any(_names_dtype(item) for item in tree)
    return isinstance(tree, dict) and ("$dtype" in tree or any(_names_dtype(item) for item in tree.values()))


_LAYOUT = [
    "        if strides is not None:",
    "            length = 1 + sum((n - 1) * step for n, step in zip(values.shape, strides))",
    "            memory = np.zeros(length, values.dtype)",
    "            steps = [step * values.itemsize for step in strides]",
    "            np.lib.stride_tricks.as_strided(memory, values.shape, steps)[...] = values",
]
_PADDLE = [
    "    paddle.set_device(device)",
    '    paddle.set_default_dtype("float64" if wide else "float32")',
    "",
    "    def dtype_of(tensor):",
    '        return str(tensor.dtype).split(".")[-1]',
    "",
    "    def put(values, dtype, grad=False, strides=None):",
    '        if wide and ("float" in dtype or "complex" in dtype):',
    '            dtype = "float64" if "float" in dtype else "complex128"',
    "        memory = values",
    *_LAYOUT,
    "        tensor = paddle.to_tensor(memory).astype(dtype)",
    "        tensor = tensor if strides is None else paddle.as_strided(tensor, list(values.shape), list(strides))",
    "        tensor.stop_gradient = not grad",
    "        return tensor",
    "",
    "    def numbers(tensor):",
    '        return np.asarray(tensor.astype("float64").numpy() if "float" in str(tensor.dtype) else tensor.numpy())',
    "",
    "    def looks(results):",
    "        results = results if isinstance(results, (list, tuple)) else [results]",
    "        return [r if r is None else (dtype_of(r), list(r.shape)) for r in results]",
    "",
]
_TORCH = [
    "    def dtype_of(tensor):",
    '        return str(tensor.dtype).split(".")[-1]',
    "",
    "    def put(values, dtype, grad=False, strides=None):",
    '        if wide and ("float" in dtype or "complex" in dtype):',
    '            dtype = "float64" if "float" in dtype else "complex128"',
    "        memory = values",
    *_LAYOUT,
    "        tensor = torch.tensor(memory, device=device).to(getattr(torch, dtype))",
    "        tensor = tensor if strides is None else tensor.as_strided(values.shape, strides)",
    "        return tensor.requires_grad_(grad)",
    "",
    "    def numbers(tensor):",
    "        tensor = torch.as_tensor(tensor).detach().cpu()",
    "        return np.asarray(tensor.double() if tensor.is_floating_point() else tensor)",
    "",
    "    def looks(results):",
    "        results = results if isinstance(results, (list, tuple)) else [results]",
    "        results = [r if r is None else torch.as_tensor(r) for r in results]",
    "        return [r if r is None else (dtype_of(r), list(r.shape)) for r in results]",
    "",
]
_SETUP = {"paddle": _PADDLE, "torch": _TORCH}
_KIND = {
    framework: [
        "    def kind(dtype):",
        f'        return {framework}.float64 if wide and "float" in str(dtype) else dtype',
        "",
    ]
    for framework in ("paddle", "torch")
}


# What goes wrong


def _ending(repro: Repro, candidate: Side, truth: Side) -> list[str]:
    function = "override" if repro.override is not None else _function(candidate)
    actual = _call(candidate, called(function, candidate.api, repro.how), False)
    if repro.status in (Status.CRASHED, Status.TIMED_OUT, Status.OUT_OF_MEMORY):
        from trueline.report.repro import dying

        return dying(repro, actual)
    if repro.status is not Status.RETURNED:
        from trueline.report.repro import raising

        return raising(actual)
    if repro.structure:
        return [
            f"actual = {actual}",
            f"expected = {_call(truth, _function(truth), False)}",
            'print(f"expected {expected}\\ngot      {actual}")',
            "sys.exit(1 if actual != expected else 0)",
        ]
    return _numbers(repro, actual, _call(truth, _function(truth), not repro.free))


def _numbers(repro: Repro, actual: str, expected: str) -> list[str]:
    what = f"gradient of {repro.path}" if repro.part == "gradient" else repro.path
    if repro.exact or repro.free:
        limit = "error.max() > 0"
    elif math.isinf(repro.error):
        limit = "error.max() == np.inf"
    else:
        limit = f"error.max() >= {number_source(float(f'{repro.error / 2:.3g}'))}"
    return [
        f"actual = {actual}",
        f"expected = {expected}",
        "same = (actual == expected) | ((actual != actual) & (expected != expected))",
        "gap = np.abs(np.subtract(actual, expected, dtype=np.result_type(actual, expected, np.float64)))",
        "error = np.where(same, 0.0, np.nan_to_num(gap, nan=np.inf, posinf=np.inf))",
        "where = np.unravel_index(int(error.argmax()), error.shape)",
        f'print(f"{what}{{[int(n) for n in where]}}: expected {{expected[where]!r}}, got {{actual[where]!r}}")',
        f"sys.exit(1 if {limit} else 0)",
    ]


def _call(side: Side, function: str, wide: bool) -> str:
    return f'{side.framework}_run({function}, "{side.device}", {wide})'


def _function(side: Side) -> str:
    if side.api.startswith(_COMPOSITE):
        return f"composite_named({side.api.removeprefix(_COMPOSITE)!r})"
    parts = side.api.split(".")
    if parts[-1] == "__get__" or re.fullmatch(r"(torch|paddle)\.Tensor\.(T|mT|H|real|imag)", side.api):
        return f"(lambda tensor: tensor.{parts[-2] if parts[-1] == '__get__' else parts[-1]})"
    return side.api


__all__: Sequence[str] = ("Side", "framework_imports", "framework_script", "needs_of")
