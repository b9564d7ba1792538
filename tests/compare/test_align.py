"""Which call is which, in traces that are not equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.synthetic import Spec, array, write_run
from trueline.compare import Alignment, Match, align_calls, pair_leaves
from trueline.records import Phase
from trueline.store import Trace, open_run

X = array(4, 8)
W = array(8, 8, seed=1)


def call(api: str, module: str = "m", inputs: Any = (X,), shape: tuple[int, ...] = (4, 8), **other: Any) -> Spec:
    return Spec(api, list(inputs), [np.zeros(shape, dtype=np.float32)], module=module, **other)


def aligned(tmp_path: Path, left: list[Spec], right: list[Spec]) -> tuple[Alignment, Trace, Trace]:
    traces = []
    for name, specs in (("a", left), ("b", right)):
        traces.append(open_run(write_run(tmp_path / name, specs, data="structure")).rank(0).trace())
    everything = [np.arange(len(trace)) for trace in traces]
    return align_calls(traces[0], everything[0], traces[1], everything[1]), traces[0], traces[1]


def rows(alignment: Alignment) -> list[tuple[int, int, Match]]:
    columns = (alignment.reference.tolist(), alignment.candidate.tolist(), map(Match, alignment.match.tolist()))
    return list(zip(*columns, strict=True))


def path_of(trace: Trace, visit: int) -> str:
    """The path of a tensor of the first call."""
    return trace.path_of(0, int(trace.visits[visit, 1]))


def test_an_inserted_call_is_one_extra_row(tmp_path: Path) -> None:
    plain = [call("torch.relu", f"layer.{n}") for n in range(5)]
    found, _, _ = aligned(tmp_path, plain, [*plain[:2], call("torch.tanh", "layer.1"), *plain[2:]])
    assert [row[2] for row in rows(found)] == [Match.SAME, Match.SAME, Match.EXTRA, Match.SAME, Match.SAME, Match.SAME]


def test_one_more_call_of_the_same_api_shifts_nothing_else(tmp_path: Path) -> None:
    plain = [call("torch.relu") for _ in range(6)]
    found, _, _ = aligned(tmp_path, plain, [*plain, call("torch.relu")])
    assert sorted(row[2] for row in rows(found)) == [Match.SAME] * 6 + [Match.EXTRA]


def test_a_missing_call_stands_where_the_reference_made_it(tmp_path: Path) -> None:
    plain = [call(f"torch.f{n}") for n in range(4)]
    found, _, _ = aligned(tmp_path, plain, [plain[0], plain[2], plain[3]])
    assert rows(found)[1] == (1, -1, Match.MISSING)


def test_reordered_calls_find_each_other(tmp_path: Path) -> None:
    a, b, c = (call(f"torch.{name}") for name in ("relu", "tanh", "exp"))
    found, _, _ = aligned(tmp_path, [a, b, c], [c, a, b])
    assert {(row[0], row[1]) for row in rows(found)} == {(0, 1), (1, 2), (2, 0)}
    assert [row[2] for row in rows(found)].count(Match.MOVED) == 1


def test_other_names_of_the_same_operator(tmp_path: Path) -> None:
    left = [call("torch.relu"), call("torch.Tensor.matmul", inputs=(X, W)), call("torch.nn.functional.softmax")]
    right = [call("torch.relu"), call("torch.Tensor.__matmul__", inputs=(X, W)), call("torch.softmax")]
    found, reference, candidate = aligned(tmp_path, left, right)
    assert [row[2] for row in rows(found)] == [Match.SAME, Match.RENAMED, Match.RENAMED]
    leaves = pair_leaves(found, reference, candidate)
    assert leaves.row.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert (leaves.reference == leaves.candidate).all()


def test_forms_of_an_operator_with_their_arguments_in_another_order(tmp_path: Path) -> None:
    """Exported graphs call kernels, which take weights before running statistics and give other outputs beside; and
    they know no modules."""
    weight, bias, mean, variance = (array(8, seed=number) for number in range(4))
    statistics = {"args.1": mean + 1, "args.2": variance + 1}
    keywords = {"weight": weight, "bias": bias}
    eager = Spec("torch.nn.functional.batch_norm", [X, mean, variance], [X.copy()], keywords, statistics, module="m")
    exported = Spec("torch.ops.aten.batch_norm.default", [X, weight, bias, mean, variance], [X.copy()])
    native = Spec("torch.native_batch_norm", [X, weight, bias, mean, variance], [X.copy(), mean + 2, variance + 2])
    for name, other in (("exported", exported), ("native", native)):
        found, reference, candidate = aligned(tmp_path / name, [eager], [other])
        assert rows(found) == [(0, 0, Match.RENAMED)]
        leaves = pair_leaves(found, reference, candidate)
        pairs = zip(leaves.reference[~leaves.output], leaves.candidate[~leaves.output], strict=True)
        paths = [(path_of(reference, left), path_of(candidate, right)) for left, right in pairs]
        assert set(paths) == {
            ("args.0", "args.0"), ("kwargs.weight", "args.1"), ("kwargs.bias", "args.2"), ("args.1", "args.3"),
            ("args.2", "args.4"),
        }  # fmt: skip


def test_a_wrapper_around_the_model_changes_nothing(tmp_path: Path) -> None:
    left = [call("torch.relu", f"encoder.{n}") for n in range(3)]
    right = [call("torch.relu", f"module.encoder.{n}") for n in range(3)]
    found, _, _ = aligned(tmp_path, left, right)
    assert {row[2] for row in rows(found)} == {Match.SAME}


def test_modules_of_another_name_are_matched_by_operator_and_shape(tmp_path: Path) -> None:
    left = [call("torch.relu", "blocks.0"), call("torch.tanh", "blocks.1")]
    right = [call("torch.relu", "layers.0"), call("torch.tanh", "layers.1")]
    found, _, _ = aligned(tmp_path, left, right)
    assert rows(found) == [(0, 0, Match.RENAMED), (1, 1, Match.RENAMED)]


def test_several_calls_against_one_are_no_counterparts(tmp_path: Path) -> None:
    """What they compute together is a region; which of them stands for which nobody can say."""
    head, tail = call("torch.relu"), call("torch.exp")
    steps = [
        call("torch.matmul", inputs=(X, W), shape=(4, 4)),
        call("torch.mul", shape=(4, 4)),
        call("torch.softmax", shape=(4, 4)),
        call("torch.matmul", inputs=(X, W)),
    ]
    fused = call("torch.nn.functional.scaled_dot_product_attention", inputs=(X, X, X))
    found, reference, candidate = aligned(tmp_path, [head, *steps, tail], [head, fused, tail])
    pairs = [row for row in rows(found) if row[0] >= 0 and row[1] >= 0]
    assert [(row[0], row[1]) for row in pairs] == [(0, 0), (5, 2)]
    assert [row[2] for row in rows(found)].count(Match.MISSING) == 4
    assert pair_leaves(found, reference, candidate).output.any()


def test_backward_calls_follow_their_forward_call(tmp_path: Path) -> None:
    def run(reverse: bool) -> list[Spec]:
        forwards = [call("torch.relu", "m") for _ in range(3)]
        backwards = [
            Spec("torch.relu", [X], [X.copy()], module="m", phase=Phase.BACKWARD, forward=one) for one in forwards
        ]
        return [*forwards, *(backwards[::-1] if reverse else backwards)]

    found, reference, candidate = aligned(tmp_path, run(False), run(True))
    for left, right, match in rows(found):
        assert match is Match.SAME
        assert reference.column("forward")[left] == candidate.column("forward")[right]


def test_leaves_that_only_one_side_has(tmp_path: Path) -> None:
    left = [Spec("torch.cat", [[X, W]], [X.copy()])]
    right = [Spec("torch.cat", [[X]], [X.copy()])]
    found, reference, candidate = aligned(tmp_path, left, right)
    leaves = pair_leaves(found, reference, candidate)
    lonely = np.flatnonzero(leaves.candidate == -1)
    assert len(lonely) == 1
    assert path_of(reference, leaves.reference[lonely[0]]) == "args.0.1"
