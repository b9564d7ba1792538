"""Names of calls and tensors as ptdbg_ascend writes them: ``Functional_linear_0_forward_input.0``."""

from __future__ import annotations

from trueline.formats.names import stem_of
from trueline.records import Call, Level, Phase, Role, TensorRecord

_ROLE_WORDS = {Role.INPUT: "input", Role.OUTPUT: "output", Role.PARAMETER: "parameters"}


def call_name(call: Call) -> str:
    """``Functional_linear_0_forward``. ptdbg has no word for a module's call; msprobe's ``Module`` is used."""
    if call.level is Level.MODULE:
        stem = "_".join(part for part in ("Module", call.module, call.module_class) if part)
    else:
        stem = "_".join(stem_of(call.api))
    return f"{stem}_{call.index}_{call.phase.value}"


def tensor_name(call: Call, tensor: TensorRecord) -> str:
    """``Functional_linear_0_forward_input.0``."""
    return f"{call_name(call)}_{_ROLE_WORDS[tensor.role]}{_place(call, tensor)}"


def _place(call: Call, tensor: TensorRecord) -> str:
    """The path without the word that the role says already: ``args.0`` of an input is ``.0``."""
    given = tensor.role is Role.INPUT
    redundant = ("args", "kwargs") if given is (call.phase is Phase.FORWARD) else ("out",)
    head, _, rest = tensor.path.partition(".")
    kept = rest if head in redundant else tensor.path
    if not kept and given and call.phase is Phase.BACKWARD:
        kept = "0"  # a hook of ptdbg is given a tuple, however few the gradients
    return f".{kept}" if kept else ""
