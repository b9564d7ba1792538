"""Standards of the user: TOML files and functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.checks import case_of, evidence_of
from trueline.cases import Evidence
from trueline.errors import UsageError
from trueline.judge.checks import check_standard_named
from trueline.records import Verdict

VALUES = np.random.default_rng(5).uniform(1, 2, size=400)

LIMITS = """\
name = "ours"

[[rule]]
dtype = ["float16", "bfloat16"]
fail = { "gold.max_ulp" = 8, "gold.cosine" = { below = 0.9 } }

[[rule]]
api = "torch.nn.*"
dtype = "float32"
warn = { "gold.mean_rel" = 1e-6 }
fail = { "gold.mean_rel" = 1e-4, "numbers.bench_within_thousandth" = { below = 0.5 } }

[[rule]]
part = "gradient"
fail."gold.rmse / honest.rmse" = 3
"""


def judged(file: Path, evidence: Evidence, api: str = "torch.nn.functional.gelu") -> tuple[Verdict, str, float | None]:
    found = check_standard_named(str(file)).judge_tensor(evidence, case_of(api))
    return found.verdict, found.reason, found.score


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    file = tmp_path / "limits.toml"
    file.write_text(LIMITS)
    return file


def test_rules_are_chosen_by_dtype_and_api(limits: Path) -> None:
    assert check_standard_named(str(limits)).name == "ours"
    off = evidence_of(VALUES * (1 + 1e-5), VALUES, VALUES)
    assert judged(limits, off)[0] is Verdict.WARN
    assert judged(limits, off, "torch.matmul")[0] is Verdict.NOT_COMPARED
    assert judged(limits, evidence_of(VALUES * 1.01, VALUES, VALUES))[0] is Verdict.FAIL
    assert judged(limits, evidence_of(VALUES * 1.001, VALUES, VALUES, "float16"), "torch.matmul")[0] is Verdict.PASS
    verdict, reason, score = judged(limits, evidence_of(VALUES * 1.1, VALUES, VALUES, "float16"), "torch.matmul")
    assert verdict is Verdict.FAIL and "gold.max_ulp is" in reason and score is not None and score > 1
    assert judged(limits, evidence_of(-VALUES, VALUES, VALUES, "float16"), "x")[0] is Verdict.FAIL


def test_ratios_and_parts(limits: Path) -> None:
    noise = np.random.default_rng(1).normal(size=400) * 1e-3
    mild = evidence_of(VALUES + 2 * noise, VALUES + noise, VALUES, part="gradient", path="args.0")
    wild = evidence_of(VALUES + 4 * noise, VALUES + noise, VALUES, part="gradient", path="args.0")
    assert judged(limits, mild, "torch.matmul")[0] is Verdict.PASS
    verdict, reason, score = judged(limits, wild, "torch.matmul")
    assert verdict is Verdict.FAIL and "gold.rmse / honest.rmse is 4, limit 3" in reason
    assert score == pytest.approx(4 / 3, rel=1e-3)


def test_what_was_not_measured_is_not_compared(limits: Path) -> None:
    verdict, reason, _ = judged(limits, evidence_of(VALUES, VALUES, None))
    assert verdict is Verdict.NOT_COMPARED and "was not taken" in reason


def test_nan_is_beyond_any_limit(tmp_path: Path) -> None:
    file = tmp_path / "nan.toml"
    file.write_text('[[rule]]\nfail = { "numbers.bench_max_abs" = 1e9 }\n')
    nan = np.array([np.nan, 1.0])
    verdict, _, score = judged(file, evidence_of(nan, nan, nan))
    assert verdict is Verdict.FAIL and score == np.inf
    assert check_standard_named(str(file)).name == "nan.toml"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[[rule]\n", None, "not TOML"),
        ("x = 1\n", 1, "unknown key 'x'"),
        ('name = "a"\n', 1, "no [[rule]]"),
        ('[[rule]]\nfail = { "gold.max_ulp" = 8 }\n\n[[rule]]\n# api\napis = "x"\nfail = { "gold.max_ulp" = 8 }\n', 6,
         "unknown key 'apis'"),
        ('[[rule]]\napi = 3\nfail = { "gold.max_ulp" = 8 }\n', 2, "api must be a text or a list"),
        ('\n[[rule]]\ndtype = "float32"\n', 2, "without limits"),
        ('[[rule]]\npart = "input"\nfail = { "gold.max_ulp" = 8 }\n', 2, "part must be"),
        ('[[rule]]\nfail = { "gold.maxulp" = 8 }\n', 2, "'gold.maxulp' is no number"),
        ('[[rule]]\nfail = { "numbers" = 8 }\n', 2, "is no number"),
        ('[[rule]]\nfail = { "gold.max_ulp" = "8" }\n', 2, "must be a number or"),
        ('[[rule]]\nfail = { "gold.max_ulp" = { over = 8 } }\n', 2, "must be a number or"),
        ('[[rule]]\nfail = { "gold.max_ulp" = true }\n', 2, "must be a number or"),
        ("[[rule]]\nwarn = 3\n", 2, "warn must be a table"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        check_standard_named(str(file))
    assert message in str(caught.value)
    assert (f"wrong.toml:{line}: " if line else "line 1") in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: cannot be read"):
        check_standard_named("nowhere.toml")


FUNCTIONS = """\
from trueline.cases import TensorFinding
from trueline.records import Verdict

def finding(evidence, case):
    return TensorFinding(evidence, Verdict.WARN, case.api, 0.5)

def pair(evidence, case):
    return ("FAIL", "by name")

def triple(evidence, case):
    return Verdict.PASS, "with score", 0.25

def wrong(evidence, case):
    return "fine"

number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_standards.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("here")
def test_functions_may_answer_in_three_ways() -> None:
    evidence, case = evidence_of(VALUES, VALUES, VALUES), case_of()
    answers = {}
    for name in ("finding", "pair", "triple"):
        standard = check_standard_named(f"my_own_standards:{name}")
        found = standard.judge_tensor(evidence, case)
        assert found.evidence is evidence
        answers[name] = (found.verdict, found.reason, found.score)
    assert answers == {
        "finding": (Verdict.WARN, case.api, 0.5),
        "pair": (Verdict.FAIL, "by name", None),
        "triple": (Verdict.PASS, "with score", 0.25),
    }


@pytest.mark.usefixtures("here")
def test_functions_that_cannot_be_used_are_told() -> None:
    with pytest.raises(UsageError, match=r"answered 'fine' for torch\.nn\.functional\.gelu; it must answer"):
        check_standard_named("my_own_standards:wrong").judge_tensor(evidence_of(VALUES, VALUES, VALUES), case_of())
    with pytest.raises(UsageError, match="has no function 'nothing'"):
        check_standard_named("my_own_standards:nothing")
    with pytest.raises(UsageError, match="has no function 'number'"):
        check_standard_named("my_own_standards:number")
    with pytest.raises(UsageError, match="cannot be imported"):
        check_standard_named("no_such_module_of_mine:x")
