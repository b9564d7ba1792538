"""Loads the C extension that records calls; there is none where it was not built, or where the environment variable
``TRUELINE_NO_KERNELS`` is set to anything but 0. Then Python does the same, slower."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.torch import flatten
from trueline.frameworks.torch.graph import ACCUMULATE

if TYPE_CHECKING:
    from trueline.frameworks.torch.watch import Watch


def fast_calls() -> Any:
    """The extension, ready to be used; None where there is none."""
    return None if os.environ.get("TRUELINE_NO_KERNELS", "0") not in ("", "0") else _load()


@cache
def _load() -> Any:
    try:
        calls = import_module("trueline.frameworks.torch._calls")
        calls.prepare(
            torch.Tensor,
            torch.nn.Parameter,
            flatten.TENSOR,
            flatten.flatten_other,
            OrderedDict,
            torch.autograd.Function._register_hook,  # type: ignore[attr-defined]
        )
        return calls
    except (ImportError, AttributeError, TypeError):
        return None


def quick_registration(calls: Any) -> Callable[[], None]:
    """Lets hooks of ours be registered at nodes without a handle for each, which takes longer than all the rest of it;
    gives what undoes that."""
    kind: Any = torch.autograd.Function
    kind._register_hook = calls.registrar

    def undo() -> None:
        del kind._register_hook  # torch's own is inherited

    return undo


def recorder_for(watch: Watch, calls: Any, **constants: Any) -> Any:
    """What records the calls of a Watch in its place; None where each call has to be asked about, or be marked."""
    if calls is None or watch.stacks.finder is None or watch.selection.narrow or watch.scope.witness:
        return None
    return calls.Recorder(
        watch=watch,
        notebook=watch.notebook,
        state=watch.state,
        look_all=watch.desk.look_all,
        next_call=watch.notebook.next_call,
        next_sequence=torch.autograd._get_sequence_nr,  # type: ignore[attr-defined]
        grad_enabled=torch.is_grad_enabled,
        graph_task=torch._C._current_graph_task_id,
        no_torch_function=torch._C.DisableTorchFunction,
        accumulate=ACCUMULATE,
        finder=watch.stacks.finder,
        stacks_wanted=watch.scope.stacks,
        backward_wanted=watch.scope.backward,
        zero=0,
        one=1,
        **constants,
    )
