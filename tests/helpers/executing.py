"""Makes Cases and their inputs out of tensors, for tests of execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trueline.cases import Case, TensorSpec
from trueline.frameworks.base import ArrayIn, ArrayOut, Inputs
from trueline.frameworks.keys import tree_of
from trueline.frameworks.torch.arrays import bits_of
from trueline.frameworks.torch.flatten import flatten
from trueline.tree import tensor_paths


def case_of(api: str, *args: Any, **kwargs: Any) -> tuple[Case, Inputs]:
    """A call as a Case with its inputs; it goes backward where one of the tensors requires a gradient."""
    leaves: list[torch.Tensor] = []
    tree, _ = tree_of(flatten({"args": list(args), "kwargs": kwargs}, leaves))
    specs, arrays = [], {}
    for number, path in tensor_paths(tree):
        tensor = leaves[number]
        name = str(tensor.dtype).removeprefix("torch.")
        strides = None if tensor.is_contiguous() else tuple(tensor.stride())
        specs.append(TensorSpec(path, name, tuple(tensor.shape), strides, tensor.requires_grad))
        arrays[path] = ArrayIn(bits_of(tensor), name)
    case = Case(api, tree, tuple(specs), backward=any(spec.requires_grad for spec in specs), seed=5)
    return case, Inputs(arrays, draw=ones)


def ones(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
    """Gradients of one, exact in every dtype."""
    return ArrayIn(np.ones(shape, dtype=np.float32), "float32")


def tensor(array: ArrayOut) -> torch.Tensor:
    """An output as a tensor again."""
    from trueline.frameworks.torch.rebuild import tensor_of

    assert array.bits is not None, array.note
    return tensor_of(array.bits, array.dtype)
