"""Translating Cases between the frameworks: names, places, defaults, values, and what has no counterpart."""

from __future__ import annotations

from typing import Any

import pytest

from trueline.cases import Case
from trueline.formats.configs import config_to_case, parse_config
from trueline.ops.binding import bind, parameter
from trueline.ops.domains import with_domains
from trueline.ops.facts import Kind, facts_of
from trueline.ops.mapping.rows import Row, row, row_for, rows, torch_rows
from trueline.ops.mapping.translate import NoCounterpart, translate
from trueline.ops.names import canonical


def case_of(line: str) -> Case:
    return config_to_case(parse_config(line))


def moved(line: str, framework: str = "torch") -> tuple[str, Any, dict[str, str]]:
    found = translate(case_of(line), framework)
    return found.case.api, found.case.arguments, dict(found.paths)


def test_names_are_changed_and_inputs_found_again() -> None:
    api, arguments, paths = moved('paddle.add(y=Tensor([3],"float32"), x=Tensor([2, 3],"float64"), )')
    assert api == "torch.add"
    assert arguments == {"args": [], "kwargs": {"input": {"$t": 0}, "other": {"$t": 1}}}
    assert paths == {"kwargs.x": "kwargs.input", "kwargs.y": "kwargs.other"}
    found = translate(case_of('paddle.add(y=Tensor([3],"float32"), x=Tensor([2, 3],"float64"), )'), "torch")
    assert {spec.path: spec.shape for spec in found.case.tensors} == {"kwargs.input": (2, 3), "kwargs.other": (3,)}


def test_lists_of_tensors_keep_their_places() -> None:
    _, _, paths = moved('paddle.stack(list[Tensor([2],"float32"),Tensor([2],"float32"),], 0, )')
    assert paths == {"args.0.0": "kwargs.tensors.0", "args.0.1": "kwargs.tensors.1"}


def test_defaults_that_differ_are_given() -> None:
    _, arguments, _ = moved('paddle.linalg.svd(Tensor([3, 3],"float32"), )')
    assert arguments["kwargs"]["full_matrices"] is False
    _, arguments, _ = moved('paddle.linalg.svd(Tensor([3, 3],"float32"), True, )')
    assert arguments["kwargs"]["full_matrices"] is True


def test_torch_names_that_paddle_takes_too_are_understood() -> None:
    plain = moved('paddle.sum(Tensor([2, 3],"float32"), axis=1, )')
    assert moved('paddle.sum(input=Tensor([2, 3],"float32"), dim=1, )')[1] == plain[1]


def test_dtypes_by_name_become_dtypes() -> None:
    _, arguments, _ = moved('paddle.sum(Tensor([2],"float32"), dtype="float64", )')
    assert arguments["kwargs"]["dtype"] == {"$dtype": "float64"}


def test_many_positional_arguments_are_handed_on() -> None:
    api, arguments, _ = moved('paddle.einsum("i,i->", Tensor([2],"float32"), Tensor([2],"float32"), )')
    assert (api, arguments) == ("torch.einsum", {"args": ["i,i->", {"$t": 0}, {"$t": 1}], "kwargs": {}})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("paddle.no_such_function(1, )", "is not mapped"),
        ('paddle.add(Tensor([2],"float32"), Tensor([2],"float32"), out=Tensor([2],"float32"), )', "out"),
        ('paddle.sum(Tensor([2],"float32"), axis=Tensor([1],"int64"), )', "numbers for its dimensions"),
        ('paddle.add(Tensor([2],"float32"), Tensor([2],"float32"), wrong=1, )', "wrong has no counterpart"),
        ('paddle.add(Tensor([2],"float32"), Tensor([2],"float32"), x=1, )', "twice"),
        ('paddle.abs(Tensor([2],"float32"), None, None, 1, )', "by position"),
        ('paddle.as_strided(Tensor([9],"float32"), list[2,], list[1,], 4, )', "offset"),
    ],
)
def test_what_has_no_counterpart_says_why(line: str, why: str) -> None:
    with pytest.raises(NoCounterpart, match=why):
        moved(line)


@pytest.mark.parametrize(
    ("line", "api", "keywords"),
    [
        ('torch.atan2(Tensor([2],"float32"), Tensor([2],"float32"), )', "paddle.atan2", {"x", "y"}),
        ('torch.Tensor.add(Tensor([2],"float32"), 2.0, alpha=2, )', "composite.add", {"input", "other", "alpha"}),
        ('torch.arcsinh(Tensor([2],"float32"), )', "paddle.asinh", {"x"}),
        ('torch.cat(list[Tensor([2],"float32"),], 0, )', "paddle.concat", {"x", "axis"}),
        ('torch.Tensor.view(Tensor([6],"float32"), 2, 3, )', "paddle.reshape", {"x", "shape"}),
        ('torch.max(Tensor([6],"float32"), )', "composite.max_along", {"input"}),
        ('torch.max(Tensor([6],"float32"), 0, )', "composite.max_along", {"input", "dim"}),
        ('torch.max(Tensor([6],"float32"), Tensor([6],"float32"), )', "paddle.maximum", {"x", "y"}),
        ("torch.zeros(2, 3, )", "paddle.zeros", {"shape"}),
    ],
)
def test_from_torch_to_paddle(line: str, api: str, keywords: set[str]) -> None:
    found, arguments, _ = moved(line, "paddle")
    assert found == api
    assert set(arguments["kwargs"]) == keywords


def test_sizes_given_one_by_one_are_gathered() -> None:
    assert moved('torch.Tensor.permute(Tensor([2, 3],"float32"), 1, 0, )', "paddle")[1]["kwargs"]["perm"] == [1, 0]


def test_operators_go_there_and_back() -> None:
    line = 'paddle.Tensor.__add__(Tensor([2],"float32"), 2.0, )'
    there = translate(case_of(line), "torch")
    back = translate(there.case, "paddle")
    assert (back.case.api, back.case.arguments) == (case_of(line).api, case_of(line).arguments)


def test_the_same_framework_is_no_translation() -> None:
    with pytest.raises(ValueError, match="already"):
        translate(case_of("paddle.zeros(2, )"), "paddle")


def test_the_short_language_of_rows() -> None:
    made = row("paddle.f", "torch.g", "x:input *more axis:dim=-1 k|number dtype name- out!=false +largest=true",
               '(f[3, 4], [d[2], (i[],)], "a[1](b", axis=1)', needs="x=index({x.axis})", order="input dim")  # fmt: skip
    assert dict(made.names) == {"x": "input", "*more": "*more", "axis": "dim", "k": "k", "dtype": "dtype", "name": "",
                                "out": ""}  # fmt: skip
    assert (made.defaults, made.fixed, made.forbidden) == ({"axis": -1}, {"largest": True}, {"out": False})
    assert dict(made.values) == {"k": "number", "dtype": "dtype"}
    assert made.dropped == ("name",)
    assert made.needs == {"x": "index({x.axis})"}
    config = parse_config(made.examples[0])
    assert config.args == [{"$t": 0}, [{"$t": 1}, {"$tuple": [{"$t": 2}]}], "a[1](b"]


def test_rows_are_found() -> None:
    assert row_for("paddle.concat") is rows()["paddle.concat"]
    assert row_for("paddle.nothing") is None
    assert "paddle.add" in {one.paddle for one in torch_rows("torch.add")}
    assert all(isinstance(one, Row) for one in rows().values())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("paddle.concat", "torch.cat"),
        ("paddle.Tensor.__add__", "torch.add"),
        ("paddle.Tensor.add_", "torch.Tensor.add_"),
        ("paddle.nn.functional.softmax", "torch.softmax"),
        ("paddle.transpose", "torch.permute"),
        ("paddle.nn.functional.linear", "torch.nn.functional.linear"),
        ("paddle.Tensor.__getitem__", "torch.Tensor.__getitem__"),
        ("paddle._C_ops.matmul", "torch.matmul"),
        ("paddle._C_ops.add_", "torch.add"),
        ("paddle._C_ops.adamw_", "torch._fused_adamw_"),
        ("paddle.equal", "torch.eq"),
    ],
)
def test_the_same_operator_has_the_same_name(ours: str, theirs: str) -> None:
    assert canonical(ours) == canonical(theirs)
    assert facts_of(ours).kind is facts_of(theirs).kind


def test_facts_are_known_for_most() -> None:
    unknown = [api for api in rows() if facts_of(api).kind is Kind.OTHER]
    assert len(unknown) < 0.2 * len(rows())


def test_arguments_are_bound_by_torch_names() -> None:
    bound = bind("paddle.sum", {"args": [{"$t": 0}], "kwargs": {"axis": 1}})
    assert bound.tensor("input") == "args.0"
    assert bound.get("dim") == 1
    assert parameter("paddle.gather", "args.1") == "index"
    assert parameter("paddle.nn.functional.linear", "kwargs.weight") == "weight"


@pytest.mark.parametrize(
    ("line", "domains"),
    [
        ('paddle.log(Tensor([3],"float32"), )', ["positive"]),
        ('paddle.gather(Tensor([5, 4],"float32"), Tensor([3],"int64"), axis=1, )', ["", "index(4)"]),
        ('paddle.gather(Tensor([5, 4],"float32"), Tensor([3],"int64"), )', ["", "index(5)"]),
        ('paddle.linalg.cholesky(x=Tensor([3, 3],"float32"), )', ["positive_definite"]),
        ('paddle.divide(Tensor([3],"float32"), Tensor([3],"int64"), )', ["", "nonzero"]),
        ('paddle.scatter(Tensor([5, 4],"float32"), Tensor([3],"int64"), Tensor([3, 4],"float32"), )',
         ["", "distinct(5)", ""]),
        ('paddle.scatter(Tensor([2, 4],"float32"), Tensor([3],"int64"), Tensor([3, 4],"float32"), )',
         ["", "index(2)", ""]),
        ('paddle.abs(Tensor([3],"int64"), )', ["normal"]),
        # An axis is one of the dimensions there are
        ('paddle.chunk(Tensor([3, 6],"float32"), 3, axis=Tensor([1],"int64"), )', ["", "distinct(2)"]),
        ('paddle.max(Tensor([2, 3, 4],"float32"), Tensor([2],"int64"), )', ["", "distinct(3)"]),
        # Sizes multiply to the elements there are: the first tensor takes what the numbers leave
        ('paddle.reshape(Tensor([12, 6],"float32"), list[Tensor([],"int32"),4,Tensor([],"int32"),], )',
         ["", "sizes(18,1)", "sizes(1,1)"]),
        # No more labels than frames can hold with a blank between equal ones
        ('paddle.nn.functional.ctc_loss(Tensor([9, 2, 5],"float32"), Tensor([2, 7],"int32"), Tensor([2],"int64"), '
         'Tensor([2],"int64"), )', ["log_probability", "index(5,1)", "lengths(9,9)", "lengths(1,4)"]),
        ('paddle.linalg.cholesky_solve(Tensor([3, 1],"float32"), Tensor([3, 3],"float32"), True, )',
         ["", "triangular(1)"]),
        ('paddle.linalg.cholesky_solve(Tensor([3, 1],"float32"), Tensor([3, 3],"float32"), )', ["", "triangular(0)"]),
        ('paddle.unknown(Tensor([3],"int64"), )', [""]),
    ],
)  # fmt: skip
def test_inputs_are_drawn_where_the_function_is_defined(line: str, domains: list[str]) -> None:
    assert [spec.domain for spec in with_domains(case_of(line)).tensors] == domains
