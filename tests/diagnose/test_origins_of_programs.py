"""Where two small programs part, told as they would be by somebody who sees both: one test for each idea."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, write_run

torch = pytest.importorskip("torch")

import trueline  # noqa: E402
from trueline.diagnose.comparison import Comparison  # noqa: E402
from trueline.records import Phase, Verdict  # noqa: E402

Step = Callable[[int], Any]


def captured(path: Path, build: Callable[[bool], Step], edited: bool, data: str) -> Path:
    torch.manual_seed(0)
    step = build(edited)
    with trueline.capture(path, data=data) as capture:
        for index in range(2):
            step(index)
            capture.step()
    return path


@pytest.fixture(params=["tensors", "stats"])
def compared(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[bool], Step]], Comparison]:
    """Records a program as it is and edited, and compares the two."""

    def compare(build: Callable[[bool], Step]) -> Comparison:
        paths = [captured(tmp_path / str(edited), build, edited, request.param) for edited in (False, True)]
        return trueline.compare(*paths)

    return compare


def named(report: Comparison) -> set[str]:
    """The operators that an origin consists of."""
    assert report.origin is not None
    origin = report.origin
    calls = [*origin.reference_calls, *origin.candidate_calls] or [origin.comparison.call]
    return {call.api.rpartition(".")[2].strip("_") for call in calls}


def data(rows: int = 6, columns: int = 8, seed: int = 1) -> Any:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_calls_in_another_order_are_no_excuse_for_each_other(compared: Any) -> None:
    """What each of two exchanged calls gives follows from the other: both together are the difference."""

    def build(edited: bool) -> Step:
        x, model = data(), torch.nn.Linear(8, 4)

        def step(_: int) -> Any:
            mixed = x.clone()
            if edited:
                mixed.mul_(0.7).add_(mixed.flip(0).mul_(0.3))
            else:
                other = mixed.flip(0).mul_(0.3)
                mixed.mul_(0.7).add_(other)
            return model(mixed).sum().backward()

        return step

    report = compared(build)
    assert report.verdict is Verdict.FAIL and named(report) & {"flip", "mul", "add"}


def test_a_graph_that_one_side_keeps_is_told_by_the_call_that_lets_go_of_it(compared: Any) -> None:
    def build(edited: bool) -> Step:
        model = torch.nn.ModuleList([torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)])
        x = data()

        def step(_: int) -> Any:
            hidden = model[0](x)
            target = hidden if edited else hidden.detach()
            (model[1](hidden) - target.tanh()).square().sum().backward()

        return step

    report = compared(build)
    assert report.verdict is Verdict.FAIL and named(report) == {"detach"}
    assert report.origin.kind == "missing" and report.origin.shows is Phase.BACKWARD
    assert "only the candidate follows gradients" in report.origin.headline


def test_what_a_program_computes_outside_of_modules_counts(compared: Any) -> None:
    def build(edited: bool) -> Step:
        model, x = torch.nn.Linear(8, 8).eval(), data()
        mask = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]).unsqueeze(1)

        @torch.no_grad()
        def step(_: int) -> Any:
            states = model(x)
            mean = states.mean(0) if edited else (states * mask).sum(0) / mask.sum(0)
            return torch.nn.functional.normalize(mean, dim=0)

        return step

    report = compared(build)
    assert report.verdict is Verdict.FAIL and named(report) & {"mean", "mul", "sum", "div"}
    wrong = [one for one in report.observables if one.verdict is Verdict.FAIL]
    assert wrong and {one.kind for one in wrong} == {"result"}


def test_memory_written_through_a_view_is_made_from_what_was_written(compared: Any) -> None:
    def build(edited: bool) -> Step:
        model, x = torch.nn.Linear(8, 4), data()

        def step(_: int) -> Any:
            scale = torch.as_tensor([0.5, 2.0] if edited else [2.0, 0.5]).repeat(4)
            batch = x.new_zeros(8, 8)
            batch[1:7].copy_(x * scale)
            return model(batch).sum().backward()

        return step

    report = compared(build)
    assert report.verdict is Verdict.FAIL and named(report) == {"as_tensor"}
    assert report.origin.kind == "argument"


def test_memory_that_nobody_has_written_explains_nothing(tmp_path: Path) -> None:
    """Also where it happens to hold no numbers on one side."""
    x = np.linspace(-1.0, 1.0, 32, dtype=np.float32)
    runs = []
    for name, junk, wrong in (("good", 0.0, 1.0), ("bad", np.nan, 1.1)):
        given = (np.tanh(x) * wrong).astype(np.float32)
        specs = [Spec("torch.empty", [], [np.full(32, junk, np.float32)]), Spec("torch.tanh", [x], [given])]
        runs.append(write_run(tmp_path / name, specs))
    with trueline.compare(*runs) as report:
        assert named(report) == {"tanh"}


def test_weights_updated_by_hand_tell_what_went_wrong_in_the_step_before(compared: Any) -> None:
    def build(edited: bool) -> Step:
        weight = (0.1 * data(8, 4, seed=2)).requires_grad_()
        x = data()

        def step(_: int) -> Any:
            (x @ weight).square().sum().backward()
            with torch.no_grad():
                weight.sub_(weight.grad, alpha=0.02 if edited else 0.01)
            weight.grad = None

        return step

    report = compared(build)
    assert report.verdict is Verdict.FAIL and named(report) == {"sub"}
    assert report.origin.kind == "argument" and report.first_divergence.step == 0


def test_what_cannot_be_laid_side_by_side_is_neither_right_nor_wrong(compared: Any) -> None:
    """Padding that a mask keeps out of the loss: all that has the same size agrees, the output has not."""

    def build(edited: bool) -> Step:
        model = torch.nn.Linear(8, 4)
        x = data(6)

        def step(_: int) -> Any:
            batch = torch.nn.functional.pad(x, (0, 0, 0, 2)) if edited else x
            mask = (torch.arange(len(batch)) < 6).float().unsqueeze(1)
            (model(batch) * mask).square().sum().backward()

        return step

    report = compared(build)
    assert report.verdict is Verdict.NOT_COMPARED
    assert any("tensors of other sizes" in note for note in report.notes)


def test_two_models_of_one_class_are_not_exchanged(compared: Any) -> None:
    """They are numbered as they first run; the one that is trained is the same on both sides."""

    def build(edited: bool) -> Step:
        trained, frozen = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4).requires_grad_(False)
        optimizer, x = torch.optim.Adam(trained.parameters()), data()

        def step(_: int) -> Any:
            first, second = (trained, frozen) if edited else (frozen, trained)
            one, other = first(x), second(x)
            optimizer.zero_grad()
            (one - other).square().sum().backward()
            optimizer.step()

        return step

    assert compared(build).verdict in (Verdict.PASS, Verdict.WARN)


def test_a_gradient_that_vanishes_is_rounding_on_both_sides(compared: Any) -> None:
    """A bias before a softmax over all: its gradient is zero but for what rounding leaves."""

    def build(edited: bool) -> Step:
        model = torch.nn.Linear(8, 1)
        optimizer, x = torch.optim.AdamW(model.parameters(), lr=0.01), data(64)
        value = data(64, 4, seed=3)

        def step(_: int) -> Any:
            scores = model(x).squeeze(1)
            if edited:
                shifted = (scores - scores.max().detach()).exp()
                weights = shifted / shifted.sum()
            else:
                weights = scores.softmax(0)
            optimizer.zero_grad()
            (weights @ value).square().sum().backward()
            optimizer.step()

        return step

    assert compared(build).verdict in (Verdict.PASS, Verdict.WARN)


def test_parameters_packed_otherwise_are_no_fault(compared: Any) -> None:
    """Two layers beside each other, and one that holds the weights of both."""

    class Beside(torch.nn.Module):
        def __init__(self, packed: bool) -> None:
            super().__init__()
            parts = [torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)]
            self.head, self.packed = torch.nn.Linear(8, 8), packed
            if packed:
                self.both = torch.nn.Linear(8, 8)
                with torch.no_grad():
                    self.both.weight.copy_(torch.cat([one.weight for one in parts]))
                    self.both.bias.copy_(torch.cat([one.bias for one in parts]))
            else:
                self.first, self.second = parts

        def forward(self, x: Any) -> Any:
            left, right = self.both(x).chunk(2, -1) if self.packed else (self.first(x), self.second(x))
            return self.head(torch.cat([left.tanh(), right.relu()], -1))

    def build(edited: bool) -> Step:
        torch.manual_seed(5)
        model = Beside(False)
        if edited:
            torch.manual_seed(5)
            model = Beside(True)
            torch.manual_seed(5)
            model.head.load_state_dict(Beside(False).head.state_dict())
        optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), data()

        def step(_: int) -> Any:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        return step

    assert compared(build).verdict is not Verdict.FAIL


def test_a_mask_does_not_hide_what_is_beside_it(tmp_path: Path) -> None:
    def build(edited: bool) -> Step:
        torch.manual_seed(0)
        first, second, third = (torch.nn.Linear(8, 8).bfloat16() for _ in range(3))
        mask = torch.full((6, 6), torch.finfo(torch.bfloat16).min, dtype=torch.bfloat16).triu(1)

        def step(index: int) -> Any:
            x = data().bfloat16()
            scores = first(x) @ second(x).T * (0.5 if edited else 0.4)
            weights = torch.softmax(torch.tanh(scores) + mask, -1)
            loss = (x + 0.02 * third(weights @ x)).square().mean()
            loss.backward()
            return loss

        return step

    paths = [captured(tmp_path / str(edited), build, edited, "tensors") for edited in (False, True)]
    with trueline.compare(*paths) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None
        assert named(report) == {"mul"} and report.origin.comparison.call.phase is Phase.FORWARD


def test_another_mask_is_told_where_it_is_added(compared: Any) -> None:
    def build(edited: bool) -> Step:
        torch.manual_seed(0)
        first = torch.nn.Linear(8, 8)
        least = torch.finfo(torch.float32).min
        masks = [torch.full((6, 6), least).triu(1), torch.full((6, 6), least).triu(2)]

        def step(index: int) -> Any:
            x = first(data())
            loss = (torch.softmax(x @ x.T + masks[edited], -1) @ x).square().mean()
            loss.backward()
            return loss

        return step

    report = compared(build)
    assert report.verdict is Verdict.FAIL and report.origin is not None
    assert named(report) & {"add"}, report.origin.explanation


class Rubbish(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """What lies in memory that is handed out before anybody has written it."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made.fill_(self._number) if func is torch.Tensor.new_empty else made


@pytest.mark.parametrize("data_kept", ["tensors", "stats"])
@pytest.mark.parametrize("fault", [False, True])
def test_memory_that_is_written_piece_by_piece_is_made_of_its_pieces(
    tmp_path: Path, fault: bool, data_kept: str
) -> None:
    def build(edited: bool) -> Step:
        first, second = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

        def step(index: int) -> Any:
            x = data()
            left, right = first(x), second(x) * (2.0 if edited and fault else 1.0)
            joined = x.new_empty(6, 8)
            joined[:, :4].copy_(left)
            joined[:, 4:].copy_(right)
            return joined.square().mean().backward()

        return step

    paths = []
    for edited in (False, True):
        with Rubbish(1e6 if edited else 1.0):
            paths.append(captured(tmp_path / str(edited), build, edited, data_kept))
    with trueline.compare(*paths) as report:
        if fault:
            assert report.verdict is Verdict.FAIL and named(report) == {"mul"}, report.origin
        else:
            assert report.verdict <= Verdict.WARN, report.origin and report.origin.explanation


def test_a_change_below_the_rounding_that_follows_is_told(compared: Any) -> None:
    """Targets in float32 are spread over one class less; in bfloat16 that is less than a few roundings, and comes near
    to what it should be: nearness shows nothing there."""

    def build(edited: bool) -> Step:
        x, model = data(64, 16), torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        model.to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        labels = torch.arange(64) % 10

        def step(index: int) -> Any:
            smooth = torch.full((64, 10), 0.3 / (9 if edited else 10)).scatter_(1, labels[:, None], 0.7)
            output = model(x.to(torch.bfloat16))
            loss = -(smooth.to(torch.bfloat16) * output.log_softmax(-1)).sum(-1).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    with compared(build) as report:
        assert report.verdict is Verdict.FAIL and named(report) == {"full"}


def test_a_scale_of_the_loss_that_is_undone_is_no_fault(compared: Any) -> None:
    def build(edited: bool) -> Step:
        x, model = data(), torch.nn.Linear(8, 4)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0 if edited else 1024.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(index: int) -> None:
            optimizer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()

        return step

    with compared(build) as report:
        assert report.verdict <= Verdict.WARN and report.origin is None
        told = {one.reason for one in report.observables if one.kind == "loss"}
        assert told == {"2**-4 times as large, which is undone before gradients are used"}


def test_a_scale_of_the_loss_that_stays_is_told(compared: Any) -> None:
    def build(edited: bool) -> Step:
        x, model = data(), torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(index: int) -> None:
            optimizer.zero_grad()
            (model(x).square().mean() * (2.0 if edited else 8.0)).backward()
            optimizer.step()

        return step

    with compared(build) as report:
        assert report.verdict is Verdict.FAIL and named(report) == {"mul"}


def experts(edited: str) -> Callable[[bool], Step]:
    """A mixture of experts, each token with one of them."""

    def build(edit: bool) -> Step:
        x = data(24, 8)
        router, experts = torch.nn.Linear(8, 4), torch.nn.Parameter(torch.randn(4, 8, 8) * 0.3)
        optimizer = torch.optim.SGD([*router.parameters(), experts], lr=0.01)

        def step(index: int) -> None:
            chosen = router(x).argmax(-1)
            out = torch.zeros_like(x)
            numbers = range(4)
            for number in reversed(numbers) if edit else numbers:
                (place,) = torch.where(chosen == number)
                weight = experts[number] * 1.1 if edit and edited == "wrong" and number > 1 else experts[number]
                out.index_add_(0, place, torch.nn.functional.silu(torch.nn.functional.linear(x[place], weight)))
            (out * router(x).sigmoid().sum(-1, keepdim=True)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    return build


def test_a_loop_the_other_way_round_is_no_fault(compared: Any) -> None:
    with compared(experts("right")) as report:
        assert report.verdict <= Verdict.WARN, report.origin and report.origin.explanation


def test_a_fault_in_a_loop_the_other_way_round_is_told(compared: Any) -> None:
    with compared(experts("wrong")) as report:
        assert report.verdict is Verdict.FAIL and "mul" in named(report)


def test_a_choice_between_what_is_level_may_go_either_way(compared: Any) -> None:
    """The scores of two experts differ by less than rounding for some tokens; the two round them otherwise."""

    def build(edited: bool) -> Step:
        x, experts = data(256, 8), torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))
        weights = torch.randn(4, 8)
        weights[1] = weights[0] + 2e-7 * torch.randn(8)
        optimizer = torch.optim.SGD(experts.parameters(), lr=0.01)

        def step(index: int) -> None:
            scores = (x[:, None] * weights).sum(-1) if edited else torch.nn.functional.linear(x, weights)
            chosen = scores.topk(1, dim=-1)[1][:, 0]
            out = torch.zeros_like(x)
            for number in range(4):
                (place,) = torch.where(chosen == number)
                out = out.index_add(0, place, experts[number](x[place]))
            out.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    with compared(build) as report:
        assert report.verdict <= Verdict.NOT_COMPARED and report.origin is None  # so many that nobody can say more
        assert any("level but for rounding" in note for note in report.notes)


def test_gradients_that_part_are_told_by_the_forward_that_they_follow(compared: Any) -> None:
    """The mean of the means of rows of unequal length is near the mean of all, in bfloat16; its gradients are not."""

    def build(edited: bool) -> Step:
        x, model = data(60, 16).to(torch.bfloat16), torch.nn.Linear(16, 12, dtype=torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        labels = torch.arange(60) % 12
        labels[4:20] = -100

        def step(index: int) -> None:
            logits, loss = model(x), torch.nn.functional.cross_entropy
            result = loss(logits, labels)
            if edited:  # what the model itself returns is not used
                rows = [loss(logits[at : at + 20], labels[at : at + 20]) for at in (0, 20, 40)]
                result = torch.stack(rows).mean()
            result.backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    with compared(build) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None
        assert {"stack", "mean"} & named(report) and report.origin.shows is Phase.FORWARD
