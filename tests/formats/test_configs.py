"""Config lines: what is read, what is refused, what is written."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import Any

import pytest

from trueline.cases import Case, TensorSpec
from trueline.errors import UsageError
from trueline.formats.configs import (
    ConfigError,
    ConfigTensor,
    config_line,
    config_to_case,
    parse_config,
    parse_configs,
)
from trueline.ops.mapping.rows import rows
from trueline.records import Call, Level, Phase, Role, TensorRecord

SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "api_configs_sample.txt"

LINES = [
    'paddle.abs(Tensor([1, 100],"float64"), )',
    'paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, )',
    'paddle.full(shape=list[Tensor([1],"int32"),Tensor([1],"int32"),], fill_value=3, )',
    'paddle.pow(Tensor([2, 3, 4],"float32"), Tensor([],"float32"), )',
    'paddle.var(Tensor([],"float32"), list[], )',
    'paddle.Tensor.any(Tensor([1],"bool"), axis=tuple(), )',
    'paddle.tensordot(Tensor([5],"float64"), Tensor([5],"float64"), list[list[1,0,2,3,],list[],], )',
    'paddle.Tensor.__getitem__(Tensor([105344, 128],"float32"), tuple(slice(None,None,None),118,), )',
    'paddle.Tensor.__getitem__(Tensor([2, 117],"int64"), tuple(Ellipsis,slice(-1,None,None),), )',
    'paddle.Tensor.__getitem__(Tensor([3, 4],"int16"), tuple(list[True,False,True,],list[False,True,],), )',
    'paddle.Tensor.__sub__(Tensor([2, 3, 4],"complex64"), complex(0.0,2.0), )',
    'paddle.full(shape=10, dtype="complex128", fill_value=complex(nan,-math.inf), )',
    "paddle.full(tuple(32,32,), fill_value=-math.inf, dtype=Dtype(float32), )",
    'paddle.einsum("nbka,ahc->nbkhc", Tensor([1, 3, 5, 6],"float16"), Tensor([6, 2, 4],"float16"), )',
    'paddle.nn.functional.layer_norm(Tensor([1, 2, 2],"float32"), 2, epsilon=1e-05, weight=None, bias=None, )',
    'paddle.Tensor.__rpow__(Tensor([32],"float16"), 10000, )',
    'paddle.where(Tensor([2, 1, 111, 111],"bool"), 0.0, -65504.0, )',
    'paddle.zeros(list[0,3,], "int64", )',
    'torch.Tensor.to(Tensor([2, 3, 4, 4],"float32"), memory_format=torch.channels_last, )',
    "torch.zeros(tuple(2,3,), device=Place(cuda:0), dtype=Dtype(bfloat16), layout=torch.strided, )",
    'torch.einsum(\'"\', Tensor([2],"float32"), )',
]


@pytest.mark.parametrize("line", LINES)
def test_what_is_read_is_written_alike(line: str) -> None:
    assert config_line(config_to_case(parse_config(line))) == line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("2.", 2.0),
        (".5", 0.5),
        ("1e-05", 1e-05),
        ("True", True),
        ("None", None),
        ('"a, b)"', "a, b)"),
        ("'sum'", "sum"),
        ('""', ""),
        ("math.inf", {"$float": "inf"}),
        ("-math.inf", {"$float": "-inf"}),
        ("nan", {"$float": "nan"}),
        ("42.1+42.1j", {"$complex": [42.1, 42.1]}),
        ("-1e-3-2j", {"$complex": [-0.001, -2.0]}),
        ("2j", {"$complex": [0.0, 2.0]}),
        ("complex(nan,-math.inf)", {"$complex": ["nan", "-inf"]}),
        ("VarType(float16)", {"$dtype": "float16"}),
        ("type(numpy.float32)", {"$dtype": "float32"}),
        ("type(int)", {"$dtype": "int64"}),
        ("Ellipsis", {"$ellipsis": True}),
        ("slice(1,None,2)", {"$slice": [1, None, 2]}),
        ("slice(4)", {"$slice": [None, 4, None]}),
        ("list[1, (2)]".replace("(2)", "tuple(2,)"), [1, {"$tuple": [2]}]),
        ("list[list[],tuple(),]", [[], {"$tuple": []}]),
    ],
)
def test_values(text: str, value: Any) -> None:
    for line in (f"paddle.f({text}, )", f"paddle.f({text})", f"paddle.f(a={text}, )"):
        config = parse_config(line)
        assert [*config.args, *config.kwargs.values()] == [value]


def test_tensors_are_numbered_in_order() -> None:
    config = parse_config('paddle.f(list[Tensor([2],"bool"),Tensor([],"int8"),], y=Tensor([0, 3],"float32"), )')
    assert config.args == [[{"$t": 0}, {"$t": 1}]]
    assert config.kwargs == {"y": {"$t": 2}}
    assert config.tensors == (ConfigTensor((2,), "bool"), ConfigTensor((), "int8"), ConfigTensor((0, 3), "float32"))


def test_a_case_has_gradients_where_there_can_be_some() -> None:
    line = 'paddle.f(Tensor([2],"float32"), x=Tensor([2],"int64"), z=Tensor([1],"complex64"), )'
    case = config_to_case(parse_config(line))
    assert [(spec.path, spec.requires_grad) for spec in case.tensors] == [
        ("args.0", True), ("kwargs.x", False), ("kwargs.z", True)]  # fmt: skip
    assert case.backward
    assert not config_to_case(parse_config('paddle.f(Tensor([2],"int64"), )')).backward


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "expected the dotted name"),
        ("abs(1, )", "expected the dotted name"),
        ("paddle.abs(Tensor([2],", "not a value"),
        ('paddle.abs(Tensor([2],"float32"), ', "ends in the middle"),
        ('paddle.abs(Tensor([2],"float31"), )', "unknown dtype 'float31'"),
        ('paddle.abs(Tensor([2,,3],"float32"), )', "is not a shape"),
        ("paddle.f(1 2, )", "not a value"),
        ("paddle.f(a=1, 2, )", "positional argument after"),
        ("paddle.f(a=1, a=2, )", "given twice"),
        ("paddle.f(1, ) + 1", "follows the closing"),
        ("paddle.f(list[a=1,], )", "a name (a=) inside"),
        ("paddle.f(slice(), )", "one to three parts"),
        ("paddle.f(complex(1), )", "two numbers"),
        ("paddle.f(complex(1,None), )", "two numbers"),
        ("paddle.f(Dtype(float7), )", "unknown dtype"),
        ("paddle.f(1.2.3, )", "not a number"),
        ("torch.f(torch.load, )", "torch.load is not a value"),
        ("torch.f(Place(), )", "not a value"),
        ("paddle.f(__import__('os').system('true'), )", "not a value"),
        ("paddle.f(lambda: 1, )", "not a value"),
    ],
)
def test_what_is_not_of_this_language_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match="line 7, column") as caught:
        parse_config(line, 7)
    assert complaint in str(caught.value)
    assert isinstance(caught.value, UsageError)


def test_many_lines() -> None:
    found = list(parse_configs(["# a comment", "", LINES[0], "nonsense", LINES[1]]))
    assert [number for number, _ in found] == [3, 4, 5]
    assert isinstance(found[1][1], ConfigError)
    assert "line 4" in str(found[1][1])


def test_what_a_line_cannot_hold_is_said() -> None:
    case = Case("paddle.f", {"args": [{"$object": "some.Thing", "text": "x"}], "kwargs": {}})
    with pytest.raises(ConfigError, match=r"some\.Thing"):
        config_line(case)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": 1}, "type dict"),
        ({"$object": "torch.memory_format", "text": "torch.load"}, "memory_format"),
        ({"$object": "torch._C.Generator", "text": "torch.strided"}, "Generator"),
        ({"$slice": [{"$t": 0}, None, None]}, "inside a slice"),
        ({"$t": 1}, "tensor 1 .* not recorded"),
        ("a\"b'c", "both kinds of quotes"),
        ("a\nb", "line breaks"),
    ],
)
def test_every_value_without_a_place_in_a_line_has_its_reason(value: Any, reason: str) -> None:
    case = Case("torch.f", {"args": [value], "kwargs": {}}, (TensorSpec("args.0", "int64", ()),))
    with pytest.raises(ConfigError, match=reason):
        config_line(case)


def test_a_call_of_a_run_is_written_as_its_case_is() -> None:
    case = config_to_case(parse_config(LINES[1]))
    inputs = tuple(
        TensorRecord(Role.INPUT, spec.path, 0, f"paddle.{spec.dtype}", spec.shape, (1,), "cpu") for spec in case.tensors
    )
    call = Call(1, case.api, 0, 0, 0, Phase.FORWARD, Level.API, arguments=case.arguments, tensors=inputs)
    assert config_line(call) == LINES[1]


@pytest.mark.skipif(not SAMPLE.exists(), reason="needs the sample of real config lines")
def test_real_lines_come_back_as_they_were() -> None:
    """All are read again as the same, and all but those that spell a value in another way are the same text."""
    lines = SAMPLE.read_text().splitlines()
    other = []
    for line in lines:
        config = parse_config(line)
        written = config_line(config_to_case(config))
        assert parse_config(written) == config or "nan" in line
        if written != line:
            other.append(line)
    assert len(lines) == 3000 and len(other) < 20
    assert all(re.search(r"VarType|type\(|\d\.[,)]|[-+ ]\.\d|\dj|inf|nan|\[\d+,\d", line) for line in other), other


def test_sizes_and_devices_are_written() -> None:
    arguments = {"args": [{"$size": [2, 3]}], "kwargs": {"place": {"$device": "cpu"}, "x": {"$t": 0}}}
    case = Case("paddle.f", arguments, (TensorSpec("kwargs.x", "bfloat16", (4,)),))
    assert config_line(case) == 'paddle.f(tuple(2,3,), place=Place(cpu), x=Tensor([4],"bfloat16"), )'


def test_examples_of_the_mapping_are_config_lines() -> None:
    for row in rows().values():
        for line in (*row.examples, *row.differs):
            config = parse_config(line)
            assert config.api == row.paddle
            assert parse_config(config_line(config_to_case(config))) == config or "nan" in line


def test_reading_is_fast() -> None:
    """Far below what it does on an idle machine (80,000 lines a second), far above what eval-based readers do."""
    lines = LINES * 200
    started = time.perf_counter()
    for line in lines:
        parse_config(line)
    assert len(lines) / (time.perf_counter() - started) > 5_000


@pytest.mark.skipif(not SAMPLE.exists(), reason="the sample of real lines is not here")
def test_real_lines() -> None:
    found = list(parse_configs(SAMPLE.read_text(encoding="utf-8").splitlines()))
    refused = [str(config) for _, config in found if isinstance(config, ConfigError)]
    assert len(found) == 3000
    assert not refused
    assert all(math.prod(tensor.shape) >= 0 for _, config in found for tensor in getattr(config, "tensors", ()))
