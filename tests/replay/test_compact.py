"""Evidence in few bytes: nothing of it is lost, and what is all right is short."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from tests.campaign import records
from trueline.cases import CaseMeasured, Evidence, Outcome, Status
from trueline.records import Measurement
from trueline.replay.compact import NAMES, evidence_from_list, evidence_to_list
from trueline.replay.serial import measured_from_json, measured_to_json

EQUAL = Measurement(
    count=6, equal=6, cosine=1.0, max_abs=0.0, mean_abs=0.0, max_rel=0.0, mean_rel=0.0, rmse=0.0, normalized=0.0,
    bias=0.0, max_ulp=0.0, mean_ulp=0.0, within=(1.0, 1.0, 1.0, 1.0), nan_mismatch=0, infinity_mismatch=0, worst=-1,
    worst_reference=math.nan, worst_candidate=math.nan, reference_norm=2.0, candidate_norm=2.0, reference_max=1.0,
)  # fmt: skip


def there_and_back(evidence: Evidence) -> Evidence:
    return evidence_from_list(json.loads(json.dumps(evidence_to_list(evidence), allow_nan=False)))


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence("output", "out", "float32", (2, 3)),
        Evidence("output", "out", "float32", (), structure="shape is [3]", exact=True),
        Evidence("gradient", "args.0", "int64", (0,), note="no gold"),
        Evidence("output", "out.1", "float32", (6,), gold=EQUAL, honest=EQUAL, direct=EQUAL, numbers={"peak": 0.0}),
        Evidence("output", "out", "float32", (6,), gold=EQUAL, direct=records.MEASUREMENT, numbers={"size_0": 3.5}),
        Evidence("output", "out", "float32", (6,), gold=records.MEASUREMENT, honest=EQUAL),
        Evidence("output", "out", "float32", (6,), numbers={"spread": math.inf, "bias": math.nan, "peak": -math.inf}),
        Evidence("output", "out", "float32", (6,), numbers=dict.fromkeys(NAMES, 0.25)),
    ],
)
def test_evidence_comes_back_as_it_was(evidence: Evidence) -> None:
    back = there_and_back(evidence)
    assert repr(replace(back, numbers={})) == repr(replace(evidence, numbers={}))
    assert repr(sorted(back.numbers.items())) == repr(sorted(evidence.numbers.items()))


def test_numbers_come_back_to_the_last_bit_in_any_choice() -> None:
    chosen = random.Random(3)
    for _ in range(200):
        names = [*chosen.sample(NAMES, chosen.randrange(len(NAMES))), *chosen.choice([(), ("new_one",)])]
        numbers = {name: chosen.choice([0.0, 1.0, chosen.gauss(0, 1e5), 1e-300, math.inf]) for name in names}
        assert there_and_back(Evidence("output", "out", "float16", (1,), numbers=numbers)).numbers == numbers


def test_numbers_of_numpy_become_pythons() -> None:
    numbers = {"peak": np.float32(0.5), "spread": np.float64("nan"), "mine": np.int64(3)}
    found = replace(EQUAL, count=np.int64(6), max_abs=np.float32(0.5))  # type: ignore[arg-type]
    back = there_and_back(Evidence("output", "out", "float32", (np.int64(6),), gold=found, numbers=numbers))  # type: ignore[arg-type]
    assert back.gold == replace(EQUAL, max_abs=0.5) or repr(back.gold) == repr(replace(EQUAL, max_abs=0.5))
    assert back.numbers["peak"] == 0.5 and math.isnan(back.numbers["spread"]) and back.numbers["mine"] == 3.0


def test_what_is_right_is_short() -> None:
    numbers = dict.fromkeys(NAMES[:68], 0.0) | {"compared": 6.0, "peak_at": -1.0}
    evidence = Evidence("output", "out", "float32", (2, 3), gold=EQUAL, honest=EQUAL, direct=EQUAL, numbers=numbers)
    returned = Outcome(Status.RETURNED, seconds=0.001)
    measured = CaseMeasured("k" * 16, returned, returned, (evidence,) * 2)
    text = json.dumps(measured_to_json(measured), separators=(",", ":"))
    assert len(text) < 450
    assert measured_from_json(json.loads(text)).candidate == measured.candidate


def test_masks_have_a_place_for_all_that_is_measured() -> None:
    """A number that is not in ``NAMES`` is kept too, but costs more: the list must not fall behind."""
    pytest.importorskip("torch")
    from trueline.cases import Target
    from trueline.formats.configs import config_to_case, parse_config
    from trueline.ops.domains import with_domains
    from trueline.replay.worker import measure_case

    for dtype in ("float32", "int64", "complex64"):
        line = f'torch.add(Tensor([2, 3],"{dtype}"), Tensor([2, 3],"{dtype}"), )'
        case = with_domains(config_to_case(parse_config(line), 5))
        measured = measure_case(case, Target.parse("torch:cpu"), Target.parse("torch:cpu/float64"))
        assert measured.evidence, measured
        for evidence in measured.evidence:
            assert set(evidence.numbers) <= set(NAMES), set(evidence.numbers) - set(NAMES)
