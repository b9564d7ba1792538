"""What a check says of config lines of Paddle's whose answers are known: no false alarm, nothing missed."""

from __future__ import annotations

import pytest

from trueline.cases import CaseResult, Target
from trueline.formats.configs import config_to_case, parse_config
from trueline.judge.calibrated import Calibrated
from trueline.judge.checks import judge_case
from trueline.ops.domains import with_domains
from trueline.records import Verdict
from trueline.replay.worker import measure_case

pytest.importorskip("paddle")
pytest.importorskip("torch")


def checked(line: str) -> CaseResult:
    case = with_domains(config_to_case(parse_config(line), 3))
    return judge_case(case, measure_case(case, Target.parse("paddle:cpu"), Target.parse("torch:cpu")), Calibrated())


@pytest.mark.parametrize(
    "line",
    [
        # Results that have names in Paddle and numbers in torch
        'paddle.topk(Tensor([4, 50],"float32"), 3, )',
        'paddle.compat.sort(Tensor([3, 5],"float32"), )',
        # Gradients that arrive at arguments that are changed in place, under another name in torch
        'paddle.nn.utils.vector_to_parameters(Tensor([10],"float32"), list[Tensor([2, 3],"float32"),'
        'Tensor([4],"float32"),], )',
        'paddle.increment(x=Tensor([1],"float32"), value=2.0, )',
        # No gradient in one framework, zeros in the other
        'paddle.cdist(Tensor([9, 4],"float32"), Tensor([0, 4],"float32"), p=1, )',
        'paddle.floor_divide(Tensor([5],"float32"), Tensor([5],"float32"), )',
        # Long sums, one after another
        'paddle.Tensor.bmm(Tensor([1, 30000, 3],"float32"), Tensor([1, 3, 2],"float32"), )',
        'paddle.expand_as(Tensor([1, 1],"float32"), Tensor([300, 400],"float32"), )',
        # Factors of which one triangle counts, singular values that are cut off
        'paddle.linalg.cholesky_solve(Tensor([4, 2],"float64"), Tensor([4, 4],"float64"), upper=True, )',
        'paddle.linalg.pinv(Tensor([4, 6],"float64"), rcond=0.5, )',
        # Values without indices, indices into what was flattened
        'paddle.sort(Tensor([100],"float16"), )',
        'paddle.cummax(Tensor([9, 9],"float32"), )',
        'paddle.nn.functional.interpolate(Tensor([1, 2, 40, 50],"float32"), size=tuple(53,61,), mode="bilinear", )',
    ],
)
def test_no_false_alarm(line: str) -> None:
    result = checked(line)
    assert result.verdict in (Verdict.PASS, Verdict.WARN), result.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('paddle.stanh(Tensor([3, 4],"float64"), 0.67, 1.7159, )', "off by"),
        ('paddle.nn.functional.celu(Tensor([3, 4],"float64"), 0.2, )', "off by"),
        ('paddle.nn.functional.label_smooth(Tensor([3, 4],"float64"), epsilon=0.3, )', "off by"),
        ('paddle.nn.functional.avg_pool1d(Tensor([2, 3, 8],"float64"), 3, )', "gradient"),
        ('paddle.bitwise_and(Tensor([3],"int64"), Tensor([3],"int64"), out=Tensor([3],"int64"), )',
         "must be written to, and was not"),
        ('paddle.diag_embed(Tensor([2, 3],"float32"), )', "no gradient"),
        ('paddle.multiplex(list[Tensor([4, 3],"float32"),Tensor([4, 3],"float32"),], Tensor([2, 1],"int32"), )',
         "shape"),
    ],
)  # fmt: skip
def test_nothing_missed(line: str, reason: str) -> None:
    result = checked(line)
    assert result.verdict is Verdict.FAIL and reason in result.reason, result.reason
