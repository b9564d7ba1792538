"""Domains: every source draws what its name says, in every kind of type."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.cases import TensorSpec
from trueline.errors import UsageError
from trueline.ops.binding import listed_signatures, parameter, signature
from trueline.ops.domains import CHANGES, SOURCES, domain_for, draw, is_structural, parse
from trueline.ops.names import canonical
from trueline.ops.needs import _STRUCTURAL, listed_needs
from trueline.records import Statistics
from trueline.tree import Tree, tensor_paths

ARGUMENTS = {
    "index": "(7)",
    "distinct": "(9)",
    "distinct_along": "(9, 0)",
    "plane_distinct": "(90, 2)",
    "lengths": "(2, 5)",
    "offsets": "(12)",
    "labels": "(5, -100, 0.3)",
    "simplex_along": "(1)",
    "pivots": "(4)",
    "chosen": "(5)",
    "classes": "(5)",
    "segments": "(5)",
    "parts": "(20)",
    "sizes": "(4, 1)",
}
SHAPES = {"boxes": (3, 4), "offsets": (4,), "packed_factors": (2, 4, 4)}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "int8", "bool", "complex64"])
def test_every_source_draws_the_shape_and_kind_asked_for(name: str, dtype: str) -> None:
    shape = SHAPES.get(name, (3, 4, 4))
    values = draw(name + ARGUMENTS.get(name, ""), generator(), shape, dtype)
    again = draw(name + ARGUMENTS.get(name, ""), generator(), shape, dtype)
    wanted = {"float32": "f8", "bfloat16": "f8", "int64": "i8", "int8": "i1", "bool": "?", "complex64": "c16"}[dtype]
    assert values.shape == shape
    assert values.dtype == np.dtype(wanted)
    assert np.array_equal(values, again, equal_nan=values.dtype.kind in "fc")


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_keeps_the_shape(change: str) -> None:
    numbers = "(2)" if change in ("scaled", "shifted") else ""
    for shape in [(), (0,), (5,), (3, 4)]:
        assert draw(f"normal {change}{numbers}", generator(), shape).shape == shape


@pytest.mark.parametrize(
    ("domain", "low", "high"),
    [
        ("uniform(-2, 3)", -2, 3),
        ("positive", 0.05, 8),
        ("probability", 0, 1),
        ("unit_open", -1, 1),
        ("above_one", 1, 9.1),
        ("index(7)", 0, 6),
        ("index(7, 2)", 2, 6),
        ("lengths(2, 5)", 2, 5),
        ("labels(5, -1, 0.3)", -1, 4),
        ("near_overflow", -(2.0**127), 2.0**127),
        ("log_probability", -50, 0),
    ],
)
def test_ranges(domain: str, low: float, high: float) -> None:
    values = draw(domain, generator(), (50, 20))
    assert values.min() >= low and values.max() <= high
    assert len(np.unique(values)) > 1


def test_indices_that_may_not_repeat_do_not() -> None:
    for row in draw("distinct(30)", generator(), (5, 20), "int64"):
        assert len(set(row)) == 20 and max(row) < 30
    for column in draw("distinct_along(9, 0)", generator(), (6, 5), "int64").T:
        assert len(set(column)) == 6
    assert len(np.unique(draw("plane_distinct(40, 2)", generator(), (1, 4, 5), "int64"))) == 20
    assert sorted(draw("permutation", generator(), (12,), "int64")) == list(range(12))
    wide = draw("distinct(50000)", generator(), (40, 300), "int64")
    assert all(len(set(row)) == 300 for row in wide) and wide.max() < 50000 and len(np.unique(wide)) > 5000
    with pytest.raises(UsageError, match="do not exist"):
        draw("distinct(3)", generator(), (4,), "int64")


def test_matrices_are_what_they_are_called() -> None:
    for dtype in ("float64", "complex128"):
        matrix = draw("positive_definite", generator(), (2, 6, 6), dtype)
        assert np.allclose(matrix, np.swapaxes(matrix, -1, -2).conj())
        assert np.linalg.eigvalsh(matrix).min() > 0.49
        turned = draw("orthogonal", generator(), (5, 5), dtype)
        assert np.allclose(turned @ turned.conj().T, np.eye(5))
        assert np.linalg.cond(draw("invertible", generator(), (8, 8), dtype)) < 7
        lower = draw("lower_triangular", generator(), (16, 16), dtype)
        assert np.array_equal(lower, np.tril(lower)) and np.linalg.cond(lower) < 20
    assert np.linalg.eigvalsh(draw("symmetric", generator(), (4, 4), "float64")).min() < 0
    assert np.linalg.svd(draw("invertible", generator(), (5, 3), "float64"))[1].min() > 0.49


def test_shares_are_kept() -> None:
    assert 0.45 < (draw("normal zeros(0.5)", generator(), (4000,)) == 0).mean() < 0.55
    assert 0.2 < draw("boolean(0.25)", generator(), (4000,), "bool").mean() < 0.3
    assert 0.25 < (draw("labels(5, -100, 0.3)", generator(), (4000,), "int64") == -100).mean() < 0.35
    values = draw("normal nan(0.1) inf(0.1)", generator(), (4000,))
    assert np.isnan(values).any() and np.isposinf(values).any() and np.isneginf(values).any()
    assert np.isnan(draw("normal nan(0.0001)", generator(), (3,))).sum() == 1
    assert len(np.unique(draw("normal ties(5)", generator(), (400,)))) == 5


def test_masks_have_as_many_as_asked_for() -> None:
    assert draw("chosen(17)", generator(), (6, 11), "bool").sum() == 17
    closed = draw("offsets(12, 1)", generator(), (5,), "int64")
    assert closed[0] == 0 and closed[-1] == 12 and (np.diff(closed) >= 0).all()


def test_ranges_follow_the_type() -> None:
    assert 2.0**14 < np.abs(draw("near_overflow(0.9)", generator(), (100,), "float16")).max() < 65504
    assert np.abs(draw("near_overflow(0.9)", generator(), (100,), "bfloat16")).max() > 1e38
    assert np.abs(draw("tiny", generator(), (100,), "float16")).max() < 1e-3


def test_sums_and_orders() -> None:
    assert np.allclose(draw("simplex", generator(), (3, 7)).sum(-1), 1)
    assert np.allclose(draw("simplex_along(1)", generator(), (3, 7, 2)).sum(1), 1)
    assert np.allclose(np.exp(draw("log_probability", generator(), (3, 7))).sum(-1), 1)
    assert (np.diff(draw("sorted", generator(), (3, 7))) >= 0).all()
    offsets = draw("offsets(12)", generator(), (5,), "int64")
    assert offsets[0] == 0 and (np.diff(offsets) >= 0).all() and offsets.max() < 12
    boxes = draw("boxes(20)", generator(), (9, 4))
    assert (boxes[:, 2:] > boxes[:, :2]).all() and boxes.max() <= 20


def test_what_is_not_a_domain_is_refused_with_the_names_that_are() -> None:
    with pytest.raises(UsageError, match=r"unknown source 'normel'; known: normal"):
        parse("normel")
    with pytest.raises(UsageError, match="unknown change"):
        parse("normal uniform")
    with pytest.raises(UsageError, match="is not a list of numbers"):
        parse("index(n)")
    with pytest.raises(UsageError, match="is not a domain"):
        parse("normal)")


def specs(arguments: Tree, *shapes: tuple[int, ...], dtype: str = "float32", integers: str = "") -> list[TensorSpec]:
    paths = [path for _, path in tensor_paths(arguments)]
    kinds = ["int64" if path in integers.split() else dtype for path in paths]
    return [TensorSpec(path, kind, shape) for path, kind, shape in zip(paths, kinds, shapes, strict=True)]


def leaves(count: int, *more: Tree, **keywords: Tree) -> Tree:
    return {"args": [{"$t": n} for n in range(count)] + list(more), "kwargs": keywords}


def test_domains_of_captured_calls() -> None:
    two = leaves(2)
    assert domain_for("torch.nn.functional.embedding", "args.0", two, specs(two, (3,), (50, 8))) == "index(50)"
    assert domain_for("torch.embedding", "args.1", two, specs(two, (50, 8), (3,))) == "index(50)"
    given = {"args": [{"$t": 0}, 1, {"$t": 1}], "kwargs": {}}
    assert domain_for("torch.Tensor.gather", "args.2", given, specs(given, (4, 9), (4, 3))) == "index(9)"
    assert domain_for("torch.gather", "args.0", given, specs(given, (4, 9), (4, 3))) == ""
    labels = specs(two, (4, 9), (4,), integers="args.1")
    assert domain_for("torch.nn.functional.cross_entropy", "args.1", two, labels) == "index(9)"
    soft = specs(two, (4, 9), (4, 9))
    assert domain_for("torch.nn.functional.cross_entropy", "args.1", two, soft) == "simplex_along(1)"
    one = leaves(1)
    for api in ("torch.log", "torch.Tensor.sqrt_", "torch.rsqrt"):
        assert domain_for(api, "args.0", one, specs(one, (4,))) == "positive"
    assert domain_for("torch.linalg.cholesky", "args.0", one, specs(one, (4, 4))) == "positive_definite"
    assert domain_for("torch.relu", "args.0", one, specs(one, (4,))) == ""
    named = {"args": [], "kwargs": {"input": {"$t": 0}, "target": {"$t": 1}}}
    assert (
        domain_for("torch.nn.functional.binary_cross_entropy", "kwargs.input", named, specs(named, (4,), (4,)))
        == "probability"
    )


def test_indices_inside_brackets_point_into_their_own_dimension() -> None:
    whole = {"$slice": [None, None, None]}
    given = {"args": [{"$t": 0}, {"$tuple": [whole, {"$t": 1}]}], "kwargs": {}}
    answer = domain_for("torch.Tensor.__getitem__", "args.1.1", given, specs(given, (4, 9), (3,), integers="args.1.1"))
    assert answer == "index(9)"
    given = {"args": [{"$t": 0}, {"$tuple": [{"$ellipsis": True}, {"$t": 1}]}], "kwargs": {}}
    tensors = specs(given, (4, 9, 5), (3,), integers="args.1.1")
    assert domain_for("torch.Tensor.__getitem__", "args.1.1", given, tensors) == "index(5)"
    given = {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}
    tensors = specs(given, (4, 9), (3,), integers="args.1")
    assert domain_for("torch.Tensor.__getitem__", "args.1", given, tensors) == "index(4)"


def statistics(count: int, *, zeros: int = 0, mean: float = 0.0, minimum: float = 0.0, infinite: int = 0) -> Statistics:
    return Statistics(count, minimum, 10.0, mean, 1.0, 0, 0, infinite, zeros, 0, 0)


def test_domains_follow_what_was_recorded() -> None:
    two = leaves(2)
    mask = TensorSpec("args.1", "bool", (6, 11), statistics=statistics(66, zeros=50))
    given = [TensorSpec("args.0", "float32", (6, 11)), mask]
    assert domain_for("torch.masked_select", "args.1", two, given) == "chosen(16)"
    assert domain_for("torch.Tensor.__getitem__", "args.1", two, given) == "chosen(16)"
    labels = [
        TensorSpec("args.0", "float32", (100, 11)),
        TensorSpec("args.1", "int64", (100,), statistics=statistics(100, mean=-26.25, minimum=-100)),
    ]
    assert domain_for("torch.nn.functional.cross_entropy", "args.1", two, labels) == "labels(11, -100, 0.298)"
    four = leaves(4)
    shapes = [TensorSpec(f"args.{place}", "float32", (1, 4, 9, 9)) for place in range(3)]
    for infinite, domain in ((20, "attention_mask(0.247)"), (0, "")):
        mask = TensorSpec("args.3", "float32", (9, 9), statistics=statistics(81, infinite=infinite))
        api = "torch.nn.functional.scaled_dot_product_attention"
        assert domain_for(api, "args.3", four, [*shapes, mask]) == domain


def test_every_need_is_a_domain_of_a_known_parameter() -> None:
    for name, row in listed_needs().items():
        assert canonical(f"torch.{name}") == name or name.startswith("torch."), name
        for parameter_name, need in row.items():
            if isinstance(need, str):
                parse(need)
            if row.keys() != {"input", "A"}:
                assert parameter_name in {known for known, _ in signature(name)}, (name, parameter_name)


def test_structural_domains_exist() -> None:
    assert set(SOURCES) >= _STRUCTURAL
    assert is_structural("distinct(4)") and not is_structural("index(4)") and not is_structural("normal zeros(0.5)")


def test_signatures_are_those_of_torch() -> None:
    """A row whose operator torch no longer has, or whose parameters stand elsewhere, must not stay."""
    torch = pytest.importorskip("torch")
    rooms = {"torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.special", "torch._C._nn"}
    for name in listed_signatures():
        places = [name] if "." in name else [f"{room}.{name}{tail}" for room in rooms for tail in ("", "_", "2d")]
        found = [place for place in places if _lookup(torch, place) is not None]
        assert found, f"torch has no {name}"


def _lookup(torch: object, path: str) -> object | None:
    value: object | None = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def test_positions_of_parameters_agree_with_torch() -> None:
    torch = pytest.importorskip("torch")
    from inspect import signature as python_signature

    for name in (name for name in listed_signatures() if "." not in name):
        function = _lookup(torch, f"torch.nn.functional.{name}")
        try:
            names = list(python_signature(function).parameters) if function is not None else []
        except (TypeError, ValueError):
            continue
        if names and names[0] not in ("args", "func"):
            ours = [known for known, _ in signature(f"torch.nn.functional.{name}")]
            assert ours == names[: len(ours)], name


def test_kernels_are_given_their_arguments_as_torch_exports_them() -> None:
    """``torch.nn.functional`` may have another order than the kernel of the same name."""
    torch = pytest.importorskip("torch")
    for name in ("batch_norm", "native_batch_norm", "cudnn_batch_norm", "instance_norm", "embedding", "bilinear"):
        wanted = [argument.name for argument in getattr(torch.ops.aten, name).default._schema.arguments]
        tensors = [one for one in wanted if one in ("input", "weight", "bias", "running_mean", "running_var")]
        for api in (f"torch.{name}", f"aten.{name}.default", f"torch.ops.aten.{name}.default"):
            for one in tensors:
                assert parameter(api, f"args.{wanted.index(one)}") == one, (api, one)


def test_paths_to_parameters() -> None:
    assert parameter("torch.nn.functional.embedding", "args.1") == "weight"
    assert parameter("torch.Tensor.__getitem__", "args.1.0") == "indices"
    assert parameter("torch.linalg.solve", "kwargs.A") == "A"
    assert parameter("torch.linalg.cholesky", "kwargs.A") == "input"
    assert parameter("torch.relu", "args.0") is None
