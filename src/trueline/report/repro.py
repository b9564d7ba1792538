"""A script that shows one failure again with nothing but torch and numpy: no trueline, one file, short.

It rebuilds the inputs (written out where they are few, drawn by numpy where that shows the failure too, else read from
the safetensors file beside it), makes the call on the device and, for the truth, in float64 on the CPU, prints the
worst element, and exits with 1 where it goes wrong again.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.cases import Status
from trueline.dtypes import dtype_named
from trueline.ops.equivalence import rule_for
from trueline.report.repro_frameworks import Side, framework_imports, framework_script, needs_of
from trueline.report.repro_how import called, how_lines
from trueline.report.repro_source import array_source, call_source, needs_kind, number_source, refuse_code
from trueline.tree import Tree, tensor_paths

_WIDTH = 118
_ALL = "out if isinstance(out, (list, tuple)) else [out]"


@dataclass(frozen=True, slots=True)
class ReproTensor:
    """One tensor of the script. Its content is ``values`` (numbers that the script writes out), or drawn as
    ``drawn = (seed, low, high)`` says (low and high bound integers; floats are normal), or read under ``saved`` from
    ``repro.safetensors`` beside the script where there is neither."""

    name: str
    path: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    requires_grad: bool = False
    values: np.ndarray[Any, Any] | None = None
    drawn: tuple[int, int, int] | None = None
    saved: str = ""


@dataclass(frozen=True, slots=True)
class Repro:
    """What a script is made of. ``override`` is ``(folder, module, function)`` of what is called in place of the API.
    ``part`` and ``path`` name the tensor that is wrong; ``error`` is the largest error seen there (infinite where NaN
    or Inf disagree), ``structure`` what is wrong with its looks; ``status`` and ``reason`` how the call ended.
    ``limit`` is the seconds or the bytes that it had. ``free`` says that the operator leaves some choice, so that the
    script holds the result against that of torch in the same dtype and with the same seed, not against float64."""

    api: str
    arguments: Tree
    tensors: Sequence[ReproTensor]
    gradients: Sequence[ReproTensor]
    device: str
    title: str
    reason: str
    override: tuple[str, str, str] | None = None
    autocast: str = ""
    seed: int = 0
    backward: bool = False
    part: str = "output"
    path: str = "out"
    error: float = 0.0
    exact: bool = False
    structure: str = ""
    status: Status = Status.RETURNED
    limit: float = 0.0
    free: bool = False
    candidate: Side | None = None
    """The call as the candidate's framework makes it and, in ``truth``, as the reference's does, where one of them is
    not torch; None where torch is all there is."""
    truth: Side | None = None
    how: str = ""
    """What stands after the plus sign of the Target (``cases.Target``): ``compile``, ``static``, ``amp-bfloat16``."""


def repro_script(repro: Repro) -> str:
    """The text of the script. Raises ``NotWritable`` where an argument cannot be written as source."""
    _refuse_code(repro)
    if repro.candidate is not None and repro.truth is not None:
        return _script_of_frameworks(repro, repro.candidate, repro.truth)
    how = how_lines("torch", repro.device, repro.how)
    body = [*_inputs(repro), "", "", *how, *_run(repro), "", "", *_ending(repro)]
    text = "\n".join([*_head(repro), *_imports(repro, "\n".join(body)), *body]) + "\n"
    return text


def _refuse_code(repro: Repro) -> None:
    """What comes from the case, and with it from a file, is to be names and words and nothing that runs."""
    sides = [side for side in (repro.candidate, repro.truth) if side is not None]
    tensors = [*repro.tensors, *repro.gradients]
    paths = [path for side in sides for pair in side.paths.items() for path in pair]
    texts = [repro.device, repro.autocast, repro.part, repro.path, repro.how, *paths]
    texts += [text for one in tensors for text in (one.name, one.path, one.dtype, one.saved)]
    texts += [side.device for side in sides]
    refuse_code([repro.api, *(side.api for side in sides), *(side.framework for side in sides)], texts)


def _script_of_frameworks(repro: Repro, candidate: Side, truth: Side) -> str:
    body = framework_script(repro, candidate, truth)
    text = "\n".join(body)
    head = _head(repro, needs_of(candidate, truth))
    imports = [*_standard(text), "", *framework_imports(candidate, truth, text), *_override(repro), ""]
    return "\n".join([*head, *imports, *body]) + "\n"


def _head(repro: Repro, needs: str = "Needs torch and numpy.") -> list[str]:
    title, reason = (textwrap.wrap(_harmless(text), _WIDTH - 3)[:3] for text in (repro.title, repro.reason))
    last = f"{needs} Exits with 1 if it goes wrong again."
    return ['"""' + "\n".join(title), "", *reason, last, '"""', ""]


def _harmless(text: str) -> str:
    """In a docstring."""
    return text.replace("\\", "/").replace('"', "'")


def _imports(repro: Repro, body: str) -> list[str]:
    lines = [*_standard(body), ""]
    if "np." in body:
        lines.append("import numpy as np")
    lines.append("import torch")
    if "load_file(" in body:
        lines.append("from safetensors.torch import load_file")
    return [*lines, *_override(repro), ""]


def _standard(body: str) -> list[str]:
    """The imports of what Python itself has."""
    standard = [name for name in ("os", "resource", "signal", "sys") if f"{name}." in body or name == "sys"]
    lines = [f"import {name}" for name in standard]
    special = [name for name in ("inf", "nan") if _has_word(body, name)]
    return [*lines, f"from math import {', '.join(special)}"] if special else lines


def _override(repro: Repro) -> list[str]:
    if repro.override is None:
        return []
    folder, module, function = repro.override
    name, _, rest = function.partition(".")
    lines = ["", f"sys.path.insert(0, {folder!r})", f"from {module} import {name} as override"]
    return [*lines, f"override = override.{rest}"] if rest else lines


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.'\"]){word}(?![\w'\"=])", text) is not None


# The inputs


def _inputs(repro: Repro) -> list[str]:
    everything = [*repro.tensors, *repro.gradients]
    lines = []
    if any(tensor.values is None and tensor.drawn is None for tensor in everything):
        lines.append('saved = load_file(__file__.replace("repro.py", "repro.safetensors"))')
    for tensor in everything:
        lines.append(f"{tensor.name} = {_content(tensor)}")
        if tensor.strides is not None:
            empty = f"torch.empty_strided({tensor.shape}, {tensor.strides}, dtype={tensor.name}.dtype)"
            lines.append(f"{tensor.name} = {empty}.copy_({tensor.name})")
    return lines


def _content(tensor: ReproTensor) -> str:
    dtype = f"torch.{tensor.dtype}"
    if tensor.values is not None:
        if tensor.values.size == 0:
            return f"torch.empty({tensor.shape}, dtype={dtype})"
        if tensor.values.size > 1 and (tensor.values == tensor.values.reshape(-1)[0]).all():
            first = array_source(tensor.values.reshape(-1)[:1].reshape(()))
            return f"torch.full({tensor.shape}, {first}, dtype={dtype})"
        return _folded(f"torch.tensor({array_source(tensor.values)}, dtype={dtype})")
    if tensor.drawn is not None:
        seed, low, high = tensor.drawn
        generator = f"np.random.default_rng({seed})"
        if high > low:
            return f"torch.from_numpy({generator}.integers({low}, {high}, {tensor.shape})).to({dtype})"
        wide = "" if tensor.dtype == "float64" else ", np.float32"
        return f"torch.from_numpy({generator}.standard_normal({tensor.shape}{wide})).to({dtype})"
    if tensor.dtype.startswith("complex"):  # bytes, in one more dimension
        return f'saved["{tensor.saved}"].view({dtype}).squeeze(-1)'
    return f'saved["{tensor.saved}"]'


def _folded(text: str) -> str:
    """A long line, broken between numbers."""
    return "\n".join(textwrap.wrap(text, _WIDTH - 20, subsequent_indent="    ", break_long_words=False))


# The call


def _run(repro: Repro) -> list[str]:
    names = {tensor.path: tensor.name.upper() for tensor in repro.tensors}
    lines = ["def run(function, device, wide):", *_put(), *_kind(repro)]
    if _draws(repro):
        lines.append(f"    torch.manual_seed({repro.seed})")
    for tensor in repro.tensors:
        grad = ", True" if tensor.requires_grad and repro.backward else ""
        lines.append(f"    {tensor.name.upper()} = put({tensor.name}{grad})")
    owned = {tensor.path for tensor in repro.tensors if tensor.requires_grad and repro.backward and _changed(repro)}
    given = {
        number: f"{names[path]}{_lowered(repro, path)}{'.clone()' if path in owned else ''}"
        for number, path in tensor_paths(repro.arguments)
    }
    lines.append(f"    out = function({call_source(repro.arguments, given)})")
    if repro.gradients:
        outputs = ", ".join(_at(gradient.path, names) for gradient in repro.gradients)
        arriving = ", ".join(f"put({gradient.name})" for gradient in repro.gradients)
        lines.append(f"    torch.autograd.backward([{outputs}], [{arriving}])")
    if _shows_looks(repro):
        results = f"[{_wrong(repro, names)}]" if repro.part == "gradient" else _ALL
        held, before = (", ".join(one) for one in (names.values(), (tensor.name for tensor in repro.tensors)))
        return [*_about_looks(), *lines, f"    return looks({results}, [{held}], [{before}])"]
    return [*lines, f"    return {_wrong(repro, names)}"]


def _shows_looks(repro: Repro) -> bool:
    return bool(repro.structure) and not repro.free and repro.status is Status.RETURNED


def _draws(repro: Repro) -> bool:
    """Whether random numbers may be drawn."""
    rule = rule_for(repro.api)
    return (rule is not None and rule.random) or "dropout" in str(repro.arguments)


def _lowered(repro: Repro, path: str) -> str:
    """What autocast does to a tensor on its way into the call."""
    dtype = next(tensor.dtype for tensor in repro.tensors if tensor.path == path)
    if not repro.autocast or not dtype_named(dtype).is_float or dtype == "float64":
        return ""
    return f".to(torch.float64 if wide else torch.{repro.autocast})"


def _put() -> list[str]:
    return [
        "    def put(tensor, grad=False):",
        "        dtype = torch.float64 if wide and tensor.is_floating_point() else tensor.dtype",
        "        return tensor.to(device, dtype, copy=True).requires_grad_(grad)",
        "",
    ]


def _kind(repro: Repro) -> list[str]:
    if not needs_kind(repro.arguments):
        return []
    return [
        "    def kind(dtype):",
        "        return torch.float64 if wide and dtype.is_floating_point else dtype",
        "",
    ]


def _changed(repro: Repro) -> bool:
    """Whether the call may work in place, which autograd forbids on its leaves."""
    if repro.override is not None:
        return True
    last = repro.api.rpartition(".")[2]
    named = repro.arguments.get("kwargs", {})
    return (last.endswith("_") and not last.endswith("__")) or "out" in named or bool(named.get("inplace"))


def _wrong(repro: Repro, names: dict[str, str]) -> str:
    if repro.part == "gradient":
        return f"{names[repro.path]}.grad"
    return _at(repro.path, names)


def _at(path: str, names: dict[str, str]) -> str:
    """The expression for an output (``out.1`` is ``out[1]``) or for an argument that the call changed."""
    root, *steps = path.split(".")
    if root != "out":
        return names.get(path, "out")
    return "out" + "".join(f"[{step}]" if step.isdigit() else f"[{step!r}]" for step in steps)


# What goes wrong


def _ending(repro: Repro) -> list[str]:
    function = "override" if repro.override is not None else _function(repro.api)
    function = called(function, repro.api, repro.how)
    actual = f'run({function}, "{repro.device}", False)'
    if repro.status in (Status.CRASHED, Status.TIMED_OUT, Status.OUT_OF_MEMORY):
        return dying(repro, actual)
    if repro.status is not Status.RETURNED:
        return raising(actual)
    if _shows_looks(repro):
        return _looks(repro, actual)
    return _numbers(repro, actual)


def _function(api: str) -> str:
    parts = api.split(".")
    if parts[-1] == "__get__":
        return f"(lambda tensor: tensor.{parts[-2]})"
    return api


def _numbers(repro: Repro, actual: str) -> list[str]:
    what = f"gradient of {repro.path}" if repro.part == "gradient" else repro.path
    measure = "(actual != expected).double()" if repro.exact else "(actual - expected).abs()"
    floating = "" if repro.exact else ".double()"
    if repro.exact or repro.free:
        limit = "error.max() > 0"
    elif math.isinf(repro.error):
        limit = "error.max() == inf"
    else:
        limit = f"error.max() >= {number_source(float(f'{repro.error / 2:.3g}'))}"
    return [
        f"actual = {actual}.detach().cpu(){floating}",
        f'expected = run({_function(repro.api)}, "cpu", {not repro.free}).detach(){floating}',
        "same = (actual == expected) | ((actual != actual) & (expected != expected))",
        f"error = torch.where(same, 0.0, {measure}.nan_to_num(nan=inf))",
        "where = np.unravel_index(int(error.argmax()), tuple(error.shape))",
        'worst = f"expected {expected[where].item()!r}, got {actual[where].item()!r}"',
        f'print(f"{what}{{[int(n) for n in where]}}: {{worst}}")',
        f"sys.exit(1 if {limit} else 0)",
    ]


def _looks(repro: Repro, actual: str) -> list[str]:
    return [
        f"actual = {actual}",
        f'expected = run({_function(repro.api)}, "cpu", False)',
        'print(f"expected {expected}\\ngot      {actual}")',
        "sys.exit(1 if actual != expected else 0)",
    ]


def _about_looks() -> list[str]:
    """A function for what is to be seen of results besides their numbers, and of what happened to the arguments."""
    return [
        "def looks(results, arguments, before):",
        "    def one(result):",
        "        if not isinstance(result, torch.Tensor):",
        "            return type(result)",
        "        owners = [result.data_ptr() == other.data_ptr() for other in arguments]",
        "        same = [result is other for other in arguments]",
        '        return result.dtype, tuple(result.shape), result.stride(), {"is": same, "shares memory": owners}',
        "",
        "    changed = [not torch.equal(now.cpu(), old) for now, old in zip(arguments, before)]",
        '    return [one(result) for result in results], {"changed": changed}',
        "",
        "",
    ]


def raising(actual: str) -> list[str]:
    """The end of a script about a call that raises."""
    return [
        "try:",
        f"    {actual}",
        "except Exception as error:",
        '    print(f"it raises {type(error).__name__}: {error}")',
        "    sys.exit(1)",
    ]


def dying(repro: Repro, actual: str) -> list[str]:
    """The call is made in a child, which may die of it."""
    lines = ["child = os.fork()", "if child == 0:"]
    if repro.status is Status.TIMED_OUT:
        lines.append(f"    signal.alarm({max(1, math.ceil(repro.limit))})  # so many seconds it has")
    if repro.status is Status.OUT_OF_MEMORY:
        allowed = int(repro.limit) + (2 << 30)
        lines.append(f"    resource.setrlimit(resource.RLIMIT_DATA, ({allowed}, {allowed}))")
        lines += ["    try:", f"        {actual}", "    except (MemoryError, RuntimeError) as error:"]
        lines += ["        print(str(error).partition(chr(10))[0], flush=True)", "        os._exit(1)"]
    else:
        lines.append(f"    {actual}")
    lines += ["    os._exit(0)", "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"]
    ways = {Status.CRASHED: "crashes", Status.TIMED_OUT: "does not return", Status.OUT_OF_MEMORY: "eats all memory"}
    lines.append(f'print(f"it {ways[repro.status]}: its process ended with {{code}}" if code else "it returns")')
    return [*lines, "sys.exit(1 if code else 0)"]
