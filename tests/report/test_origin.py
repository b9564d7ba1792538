"""Every kind of origin in words: the cause first, then its calls on both sides, or the values that it is about."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.report.fake_comparison import FakeComparison
from tests.web.words import entries
from trueline.records import Call, Frame, Level, Origin, Phase, Verdict
from trueline.report.given_away import given_away, worst_first
from trueline.report.json import comparison_head
from trueline.report.origin_wording import confirmation, headline
from trueline.report.page_data import page_data
from trueline.report.phrases import as_data
from trueline.report.sentences import as_phrase, asked
from trueline.report.terminal import plain
from trueline.report.text import comparison_blocks
from trueline.report.verdict_wording import next_commands

GELU = "torch.nn.functional.gelu.18.backward in encoder.layers.2.mlp"


class Parted(FakeComparison):
    """A comparison whose origin is of another kind."""

    def __init__(self, kind: str, cause: str = "", *, mode: str = "tensors", **changes: Any) -> None:
        super().__init__(fault=150, mode=mode)
        self._kind, self._cause, self._changes = kind, cause, changes

    @property
    def origin(self) -> Origin | None:
        origin = super().origin
        assert origin is not None
        return replace(origin, kind=self._kind, headline=self._cause, **self._changes)


def call(number: int, name: str, module: str = "layers.0.mlp") -> Call:
    return Call(
        number, f"torch.{name}", number, 1, 0, Phase.FORWARD, Level.API, module,
        stack=(Frame("/home/me/model.py", 40 + number, "forward"),),
    )  # fmt: skip


def text_of(comparison: FakeComparison, **options: Any) -> str:
    return plain(comparison_blocks(comparison, **options))


NAMES = ("layers.0.weight", "layers.1.weight", "layers.2.weight")


@pytest.mark.parametrize(
    ("kind", "cause", "names", "expected"),
    [
        ("call", "", (), f"{GELU} went wrong first"),
        ("call", "the gradient of layers.0.weight differs", NAMES[:1],
         "the gradient of layers.0.weight differs, in step 1"),
        ("argument", "kwargs.eps: 1e-06 -> 0.001; args.1: 2 -> 3", (),
         f"eps: 1e-06 -> 0.001; args[1]: 2 -> 3 in {GELU}"),
        ("argument", "a value is taken from another place", (), f"a value is taken from another place in {GELU}"),
        ("region", "the reference computes silu, the candidate gelu", (),
         "the reference computes silu, the candidate gelu, in encoder.layers.2.mlp"),
        ("missing", "only the reference computes mul", (), "only the reference computes mul, in encoder.layers.2.mlp"),
        ("precision", "", (), f"{GELU} works in another precision"),
        ("precision", "works in bfloat16 where the reference works in float32", (),
         f"{GELU} works in bfloat16, the reference in float32"),
        ("call", "the loss loss differs", (),
         f"the loss differs; no call stands out, {GELU} makes the most of what arrives at it"),
        ("state", "the gradient of a and 2 more is summed up otherwise", ("a", "b", "c"),
         "the gradient of a and 2 more is summed up otherwise, in step 1"),
        ("data", "x differs", ("x", "mask"), "the two programs are given other data: x and 1 more, in step 1"),
        ("state", "layers.0.weight differs from the start", NAMES[:1], "layers.0.weight differs from the start"),
        ("state", "layers.0.weight differs from the start", NAMES,
         "layers.0.weight and 2 more differ from the start"),
        ("state", "the Runs had parted before step 3: record from the start", NAMES[:1],
         "the Runs had parted before step 3: record from the start (layers.0.weight differs)"),
        ("state", "layers.0.weight differs before step 3", NAMES,
         "the Runs had parted before step 3: record from the start (layers.0.weight and 2 more differ)"),
        ("state", "layers.0.weight differs", NAMES[:1],
         "the two programs hold other values: layers.0.weight, in step 1"),
        ("randomness", "", (), f"random numbers differ from {GELU} on: nothing after it can be compared"),
        ("update", "kwargs.lr: 0.1 -> 0.2", NAMES, f"lr: 0.1 -> 0.2 in {GELU}: it updates layers.0.weight and 2 more "
         "otherwise"),
        ("update", "updates are 2 times as large: layers.0.weight and 2 more", NAMES,
         "the candidate's updates are 2 times as large: layers.0.weight and 2 more, in step 1"),
        ("update", "layers.0.weight is updated in the reference alone", NAMES[:1],
         "only the reference updates layers.0.weight, in step 1"),
    ],
)  # fmt: skip
def test_the_headline_is_the_cause(kind: str, cause: str, names: tuple[str, ...], expected: str) -> None:
    comparison = Parted(kind, cause, names=names)
    assert text_of(comparison).splitlines()[0] == f"FAIL  {expected}"
    assert comparison_head(comparison)["summary"] == expected == comparison_head(comparison)["origin"]["headline"]


def test_every_headline_is_known_in_chinese() -> None:
    known = {english for name in ("chinese_divergence.js", "chinese_sentences.js") for english, _ in entries(name)}
    for cause in (
        "the reference computes silu, the candidate gelu", "only the candidate computes mul", "updates differ: a",
        "a gets a gradient in the candidate alone", "a and 3 more stay as they are in the candidate",
        "rank 3: only 9 of 12 values that the programs give away were compared", "a moves in the candidate alone",
        "only 20% of the calls could be laid side by side", "a is there in the reference alone",
    ):  # fmt: skip
        data = as_data(as_phrase(cause))
        assert data["say"] in known, cause
    assert as_phrase("something new") == "something new"


def test_arguments_are_told_as_they_are_written() -> None:
    assert asked("kwargs.eps: 1e-05 -> 0.1") == "eps: 1e-05 -> 0.1"
    assert asked("args.1: 0.9 -> 0.8; args.2.0: 'kwargs.x: 1' -> 2") == (
        "args[1]: 0.9 -> 0.8; args[2].0: 'kwargs.x: 1' -> 2"
    )


def region(left: int, right: int, **changes: Any) -> Parted:
    calls = tuple(call(n, "mul") for n in range(left)), tuple(call(n + 20, "add") for n in range(right))
    cause = "the reference computes mul, the candidate add"
    return Parted("region", cause, reference_calls=calls[0], candidate_calls=calls[1], **changes)


def test_the_calls_of_a_region_stand_beside_each_other_with_their_lines() -> None:
    text = text_of(region(1, 2))
    assert text.startswith("FAIL  the reference computes mul, the candidate add, in layers.0.mlp\n")
    assert "the reference computes" in text and "the candidate computes" in text
    (first,) = [line for line in text.splitlines() if "torch.mul.0.forward" in line and "torch.add.20.forward" in line]
    assert first.split("  ")[-1].strip() == "model.py:60 in forward" and "model.py:40 in forward" in first
    assert "torch.add.21.forward and 1 before it" in text
    assert "confirmed by replaying the calls of both sides in float64" in text
    assert "trueline show runs/good torch.mul.0.forward --step 1" in text
    assert "trueline show runs/bad torch.add.21.forward --step 1" in text


def test_long_regions_are_cut_and_one_side_alone_is_said() -> None:
    text = text_of(region(12, 9))
    assert "and 4 more" in text and "and 1 more" in text and "torch.mul.7.forward" in text
    assert "torch.mul.8.forward" not in text.split("values that the programs")[0]
    lonely = text_of(Parted("missing", "only the reference computes mul", reference_calls=(call(0, "mul"),)))
    assert "the candidate computes nothing in its place" in lonely
    page = page_data(region(12, 9))["head"]["origin"]
    assert len(page["reference_calls"]) == 8 and page["more_reference_calls"] == 4
    assert len(comparison_head(region(12, 9))["origin"]["reference_calls"]) == 12


@pytest.mark.parametrize("kind", ["state", "update"])
def test_values_are_named_and_no_senseless_call_is_shown(kind: str) -> None:
    comparison = Parted(kind, "layers.0.weight differs", names=tuple(f"layers.{n}.weight" for n in range(12)))
    text = text_of(comparison)
    assert "layers.7.weight" in text and "and 4 more" in text and "layers.8.weight" not in text
    assert "trueline show" not in text and "FAIL, origin" not in text
    assert "the values of both sides were compared themselves" in text
    head = page_data(comparison)["head"]
    assert head["position"] is None and not head["origin"]["of_calls"] and "detail" not in head["origin"]
    assert len(head["origin"]["names"]) == 9 and head["origin"]["names"][-1] == "and 4 more"


@pytest.mark.parametrize("kind", ["state", "data"])
def test_the_call_that_takes_the_values_is_told_with_its_line(kind: str) -> None:
    taking = (call(3, "matmul"),)
    comparison = Parted(kind, "x differs", names=("x",), reference_calls=taking, candidate_calls=taking)
    text = text_of(comparison)
    assert "taken by  torch.matmul.3.forward" in text and "model.py:43 in forward" in text
    assert ("trueline show" in text) == (kind == "data")
    origin = page_data(comparison)["head"]["origin"]
    assert origin["taken"] and not origin["of_calls"]


def test_random_numbers_are_told_with_what_to_do() -> None:
    text = text_of(Parted("randomness", mode="stats"))
    assert "seed both programs alike before the first step that is recorded: torch.manual_seed(0)" in text
    assert "keep its tensors" not in text, "a replay of random numbers proves nothing"


def test_an_argument_that_was_replayed_is_proof_enough() -> None:
    origin = Parted("argument", "kwargs.eps: 1 -> 2", confirmed=None).origin
    assert origin is not None
    assert "computes rightly what it was asked for" in confirmation(origin, "tensors")
    assert confirmation(replace(origin, evidence={}), "stats").startswith("not confirmed: a replay needs the tensors")


def test_a_tensor_that_one_side_lacks_needs_no_replay() -> None:
    comparison = Parted("call", mode="stats", confirmed=None)
    origin = comparison.origin
    assert origin is not None
    pair = origin.comparison
    tensors = tuple(replace(one, candidate=None, distance=None) for one in pair.tensors)
    lonely = Parted(
        "call", mode="stats", confirmed=None, comparison=replace(pair, tensors=tensors, output_distance=0.0)
    )
    assert "one side takes or gives a tensor that the other does not" in text_of(lonely)
    assert "keep its tensors" not in text_of(lonely) and "keep its tensors" in text_of(comparison)


# What the programs give away.


def test_what_is_given_away_is_one_line_with_the_largest_difference() -> None:
    wrong = given_away(FakeComparison(fault=150)).sentence()
    assert wrong == (
        "3 of 6 values that the programs give away differ (1 of 2 losses, 2 of 4 gradients); "
        "the largest difference is 3.0e-02 (gradient of layers.0.weight, step 1)"
    )
    fine = text_of(FakeComparison(fault=None))
    assert "6 values that the programs give away agree (2 losses, 4 gradients)" in fine
    assert "the largest difference is 3.0e-07 (gradient of layers.0.weight, step 0)" in fine


def test_counts_agree_everywhere() -> None:
    comparison = FakeComparison(fault=150)
    sums, head, page = given_away(comparison), comparison_head(comparison), page_data(comparison)["head"]
    assert head["given_away"]["differ"] == page["given_away"]["differ"] == sums.wrong == 3
    assert head["given_away"]["compared"] == sums.compared == 6
    assert [row[6] for row in page["given_away"]["rows"]] == ["FAIL"] * 3 + ["PASS"] * 3
    assert sum(row["compared"] for row in head["given_away"]["kinds"].values()) == 6
    assert f"{sums.wrong} of {sums.compared} values" in text_of(comparison)


def test_the_worst_comes_first_and_the_page_is_bounded() -> None:
    comparison = FakeComparison(fault=150)
    comparison.observables = comparison.observables * 60
    distances = [one.distance for one in worst_first(comparison.observables) if one.verdict is Verdict.FAIL]
    assert distances == sorted(distances, reverse=True)
    page = page_data(comparison)["head"]["given_away"]
    assert len(page["rows"]) == 200 and page["more"] == 160


def test_what_one_side_lacks_was_not_compared() -> None:
    comparison = FakeComparison(fault=None)
    lonely = replace(
        comparison.observables[0], candidate=None, verdict=Verdict.NOT_COMPARED, distance=None,
        reason="only the reference has it",
    )  # fmt: skip
    comparison.observables = [lonely]
    assert given_away(comparison).sentence() == "nothing that the programs give away was compared; 1 was not compared"


# Too little to say.


class Thin(FakeComparison):
    verdict = Verdict.NOT_COMPARED

    def __init__(self) -> None:
        super().__init__(fault=None)
        self.too_little = ["only 30 of 100 values that the programs give away were compared"]
        self.notes = [*self.notes, *self.too_little]


def test_too_little_is_the_headline_with_the_share_and_the_way_to_take_it() -> None:
    text = text_of(Thin())
    assert text.startswith("NOT COMPARED  only 30 of 100 values that the programs give away were compared\n")
    assert text.count("only 30 of 100") == 1, "not once more as a note"
    assert "trueline compare runs/good runs/bad --allow-partial" in text
    assert "--allow-partial" not in text_of(Thin(), partial=True)
    assert comparison_head(Thin())["too_little"] == Thin().too_little


def test_a_missing_rank_is_the_headline() -> None:
    comparison = Thin()
    comparison.too_little, comparison.notes = [], ["the candidate has no rank 1; it was not compared"]
    assert text_of(comparison).startswith("NOT COMPARED  the candidate has no rank 1; it was not compared\n")


def test_calls_that_were_not_compared_are_told_with_their_share() -> None:
    comparison = Thin()
    comparison.too_little = []
    assert text_of(comparison).startswith("NOT COMPARED  only 396 of 400 calls could be compared (99%)")


# What follows.


def test_without_an_origin_nothing_follows() -> None:
    comparison = FakeComparison(fault=None)
    comparison.series()["inherited"][:] = True
    assert "follow" not in text_of(comparison) and "First calls" not in text_of(comparison)
    columns = page_data(comparison)["columns"]
    assert columns["inherited"] == page_data(FakeComparison(fault=None))["columns"]["inherited"]


def test_what_came_before_the_origin_does_not_follow_from_it() -> None:
    comparison = FakeComparison(fault=150)
    usual = comparison.series()["inherited"].sum()
    comparison.series()["inherited"][:100] = True
    assert f"{usual:,} follow from the origin" in text_of(comparison)


def test_calls_of_one_side_are_named() -> None:
    comparison = FakeComparison(size=400, renamed=True)
    comparison.unmatched = {"extra": 8, "missing": 0, "ranks": {0: {"extra": 8, "missing": 0}}}
    (line,) = [one for one in text_of(comparison).splitlines() if "calls only in the candidate" in one]
    assert line.strip().startswith("8 calls only in the candidate: torch.Tensor.__add__.1.forward, ")
    assert line.endswith(", …") and line.count("torch.") == 4


def test_commands_are_plain_text() -> None:
    json.dumps(next_commands(region(2, 2)))
    origin = region(2, 2).origin
    assert origin is not None and headline(origin).endswith("in layers.0.mlp")
