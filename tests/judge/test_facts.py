"""What is known of operators."""

from __future__ import annotations

import pytest

from trueline.ops import Kind, canonical, facts_of, module_key
from trueline.ops.facts import _TABLE


@pytest.mark.parametrize(
    ("api", "name"),
    [
        ("torch.Tensor.__matmul__", "matmul"),
        ("torch.matmul", "matmul"),
        ("torch.bmm", "matmul"),
        ("torch.Tensor.softmax", "softmax"),
        ("torch.nn.functional.softmax", "softmax"),
        ("torch.Tensor.add_", "add"),
        ("torch.Tensor.__radd__", "add"),
        ("torch._foreach_addcdiv_", "addcdiv"),
        ("torch.Tensor.T.__get__", "transpose"),
        ("torch.Tensor.__getitem__", "index"),
        ("torch.Tensor.bfloat16", "to"),
        ("torch.ops.aten.mul.default", "mul"),
        ("torch", "torch"),
    ],
)
def test_canonical_names(api: str, name: str) -> None:
    assert canonical(api) == name


def test_kinds() -> None:
    assert facts_of("torch.nn.functional.linear").kind is Kind.CONTRACTION
    assert facts_of("torch.distributed.scatter").kind is Kind.COLLECTIVE
    assert facts_of("torch.scatter").kind is Kind.MOVE
    assert facts_of("my.own.thing").kind is Kind.OTHER
    assert facts_of("torch.Tensor.add_").in_place
    assert not facts_of("torch.Tensor.__add__").in_place


def test_no_operator_is_of_two_kinds_and_all_are_canonical() -> None:
    names = [name for text in _TABLE.values() for name in text.split()]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)
    assert [name for name in names if canonical(f"torch.{name}") != name] == []


def test_wrappers_are_not_part_of_a_module_path() -> None:
    assert module_key("module._orig_mod.encoder.0") == "encoder.0"
    assert module_key("encoder.module_list.0") == "encoder.module_list.0"
