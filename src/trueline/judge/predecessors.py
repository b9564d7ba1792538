"""The standards of other tools by name, and those of them that take settings: ``allclose(rtol=1e-3, atol=1e-3)``."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from trueline.errors import UsageError

_ASCEND = "trueline.judge.predecessors_ascend"
_APEX = "trueline.judge.predecessors_apex"
_MSPROBE = "trueline.judge.predecessors_msprobe"
_TOLERANCES = "trueline.judge.tolerances"

PREDECESSORS: dict[str, str] = {
    "allclose": f"{_TOLERANCES}:Allclose",
    "apex": f"{_APEX}:Apex",
    "apex-multi": f"{_APEX}:ApexMulti",
    "assert-close": f"{_TOLERANCES}:AssertClose",
    "bitwise": f"{_TOLERANCES}:Bitwise",
    "msprobe": f"{_MSPROBE}:Msprobe",
    "msprobe-absolute": f"{_MSPROBE}:MsprobeAbsolute",
    "msprobe-acc-check": f"{_MSPROBE}:MsprobeAccCheck",
    "msprobe-benchmark": f"{_MSPROBE}:MsprobeBenchmark",
    "msprobe-binary": f"{_MSPROBE}:MsprobeBinary",
    "msprobe-thousandth": f"{_MSPROBE}:MsprobeThousandth",
    "msprobe-ulp": f"{_MSPROBE}:MsprobeUlp",
    "precheck": f"{_ASCEND}:Precheck",
    "precheck-2023": f"{_ASCEND}:Precheck2023",
    "precheck-document": f"{_ASCEND}:precheck_document",
    "ptdbg": f"{_ASCEND}:CheckPtdbg",
    "ptdbg-2023": f"{_ASCEND}:ptdbg_2023",
}
"""Name -> ``module:factory``; the factory takes no arguments but settings."""

SETTABLE = ("allclose", "assert-close")
_CALL = re.compile(r"\s*([\w-]+)\s*\((.*)\)\s*", re.DOTALL)
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def is_call(text: str) -> bool:
    """Whether a standard is written with settings."""
    return _CALL.fullmatch(text) is not None


def standard_with_settings(text: str) -> Any:
    """The standard that is meant by ``name(setting=value, ...)``."""
    match = _CALL.fullmatch(text)
    name = match[1] if match else text
    if match is None or name not in SETTABLE:
        raise UsageError(f"{text!r}: only {' and '.join(SETTABLE)} take settings, as in allclose(rtol=1e-3, atol=1e-3)")
    module, _, attribute = PREDECESSORS[name].partition(":")
    factory = getattr(import_module(module), attribute)
    known = {setting: type(parameter.default) for setting, parameter in inspect.signature(factory).parameters.items()}
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in match[2].split(","))):
        setting, equals, value = (word.strip() for word in part.partition("="))
        if not equals or setting not in known:
            raise UsageError(f"{text!r}: {part!r} is not a setting of {name}; it takes {', '.join(known)}")
        settings[setting] = _value(text, setting, value, known[setting])
    return factory(**settings)


def _value(text: str, setting: str, value: str, kind: type[Any]) -> Any:
    try:
        return _TRUTH[value.lower()] if kind is bool else float(value)
    except (KeyError, ValueError):
        what = "true or false" if kind is bool else "a number"
        raise UsageError(f"{text!r}: {setting} must be {what}, got {value!r}") from None
