"""What pages ask of many cases at once: the same as going through the cases, and nothing that a request says is SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from benchmarks.view_ledger import make_ledger

from trueline.campaign import load_check
from trueline.campaign.columns import Query
from trueline.campaign.ledger_file import LEDGER_FILE
from trueline.campaign.overview import SCORE_EDGES, Overview
from trueline.campaign.shelf import Results
from trueline.cases import CaseResult
from trueline.records import Verdict
from trueline.report.check_cells import Failing, dtype_of, overview_of

CASES, ENDED = 1_500, 1_400


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = make_ledger(tmp_path_factory.mktemp("campaign") / "check", CASES, apis=60, ended=ENDED, faulty=12)
    found = load_check(folder).results
    assert isinstance(found, Results)
    return found


@pytest.fixture(scope="module")
def overview(results: Results) -> Overview:
    return results.overview()


@pytest.fixture(scope="module")
def cases(results: Results) -> list[CaseResult]:
    return list(results)


def test_cells_count_every_case_once(overview: Overview, cases: list[CaseResult]) -> None:
    cells = overview.cells()
    assert sum(cell.cases for cell in cells) == CASES
    assert sum(cell.cases for cell in cells if cell.verdict is None) == CASES - ENDED
    counted = Counter[object]()
    for cell in cells:
        counted[cell.api, cell.dtype, cell.ending, cell.verdict] += cell.cases
    expected = Counter(
        (one.case.api, dtype_of(one.case), one.ending.value, one.verdict) if n < ENDED
        else (one.case.api, dtype_of(one.case), "waiting", None) for n, one in enumerate(cases)
    )  # fmt: skip
    assert counted == expected


def test_results_in_memory_are_overseen_alike(overview: Overview, cases: list[CaseResult]) -> None:
    listed = overview_of(cases[:ENDED])
    ended = [cell for cell in overview.cells() if cell.verdict is not None]
    assert sorted(listed.cells(), key=repr) == sorted(ended, key=repr)
    looks = [_looks(overview.failing()), _looks(listed.failing())]
    assert looks[0] == looks[1] and looks[0]


def _looks(failing: Iterable[Failing]) -> Counter[tuple[str, ...]]:
    counted = Counter[tuple[str, ...]]()
    for one in failing:
        counted[one.api, one.dtype, one.ending, one.reason] += one.cases
    return counted


QUERIES: dict[str, tuple[Query, Callable[[int, CaseResult], bool]]] = {
    "all": (Query(), lambda n, one: True),
    "wrong": (Query(kind="wrong"), lambda n, one: n < ENDED and one.verdict >= Verdict.FAIL),
    "not right": (Query(kind="notright"), lambda n, one: n >= ENDED or one.verdict > Verdict.PASS),
    "errors": (Query(kind="error"), lambda n, one: n < ENDED and one.verdict is Verdict.ERROR),
    "passed": (Query(kind="pass"), lambda n, one: n < ENDED and one.verdict is Verdict.PASS),
    "crashed": (Query(ending="crashed"), lambda n, one: n < ENDED and one.ending.value == "crashed"),
    "waiting": (Query(ending="waiting"), lambda n, one: n >= ENDED),
    "dtype": (Query(dtypes=("int64",)), lambda n, one: dtype_of(one.case) == "int64"),
    "api": (Query(api="torch.fft.operator_3"), lambda n, one: one.case.api == "torch.fft.operator_3"),
    "name": (Query(text="FFT operator_3"), lambda n, one: "fft" in one.case.api and "operator_3" in one.case.api),
    "reason": (Query(text="sigsegv"), lambda n, one: n < ENDED and "SIGSEGV" in one.reason),
    "several": (Query(kind="wrong", dtypes=("float32", "float16"), text="operator_1"),
                lambda n, one: n < ENDED and one.verdict >= Verdict.FAIL and "operator_1" in one.case.api
                and dtype_of(one.case) in ("float32", "float16")),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_a_filter_lets_through_what_going_through_all_cases_does(
    overview: Overview, cases: list[CaseResult], name: str
) -> None:
    query, fits = QUERIES[name]
    expected = [n for n, one in enumerate(cases) if fits(n, one)]
    assert expected, "the test has something to find"
    assert overview.order(query).tolist() == expected


def test_orders(overview: Overview, cases: list[CaseResult]) -> None:
    def order(sort: str, *, down: bool = True, **words: str) -> list[int]:
        return [int(n) for n in overview.order(Query(sort=sort, down=down, **words))]

    worst = order("verdict")
    assert sorted(worst) == list(range(CASES))
    told = [n for n in worst if n < ENDED and cases[n].verdict > Verdict.PASS]
    assert worst[: len(told)] == told
    keys = [(-cases[n].verdict, -(cases[n].score if cases[n].score is not None else float("-inf")), n) for n in told]
    assert keys == sorted(keys)
    assert all(n >= ENDED for n in worst[-(CASES - ENDED) :]), "what waits comes last"
    assert sorted(order("verdict", kind="wrong")) == [n for n in sorted(told) if cases[n].verdict >= Verdict.FAIL]
    assert [cases[n].case.api for n in order("api", down=False)] == sorted(one.case.api for one in cases)
    counts = [cases[n].case.count for n in order("calls")]
    assert counts == sorted(counts, reverse=True)
    assert order("position") == list(range(CASES))[::-1], "an order that nobody knows is that of the cases"
    slowest = overview.slowest(3)
    assert [one.seconds for one in slowest] == sorted((one.seconds for one in slowest), reverse=True)
    positions = overview.positions(one.key for one in slowest)
    assert [positions[one.key] for one in slowest] == order("seconds")[:3]


HOSTILE = ["'", "'; DROP TABLE cases; --", "%", "_", "\\", '"', "\0", "a) OR (1=1", "x" * 5_000]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_word_of_a_request_becomes_sql(overview: Overview, cases: list[CaseResult], text: str) -> None:
    def has(n: int, one: CaseResult, word: str) -> bool:
        told = n < ENDED and one.verdict > Verdict.PASS
        return word in one.case.api.lower() or (told and word in one.reason.lower())

    words = text.lower().split()
    assert overview.order(Query(text=text)).tolist() == [
        n for n, one in enumerate(cases) if all(has(n, one, word) for word in words)
    ]
    for query in (Query(api=text), Query(ending=text), Query(dtypes=(text,))):
        assert len(overview.order(query)) == 0
    assert len(overview.order(Query(kind=text, sort=text, down=True))) == CASES, "what nobody knows filters nothing"
    assert sum(cell.cases for cell in overview.cells()) == CASES


def test_scores_are_counted_in_bins(overview: Overview, cases: list[CaseResult]) -> None:
    bins = overview.scores()
    scored = [one for one in cases[:ENDED] if one.score is not None]
    assert sum(n for _, _, n in bins) == len(scored)
    above = SCORE_EDGES.index(1.0) + 2
    wrong = sum(n for told, place, n in bins if place >= above)
    assert wrong == sum(one.score is not None and one.score >= 1.0 for one in scored) and wrong > 0
    assert sum(n for told, place, n in bins if place == 0) == sum(one.score == 0 for one in scored)


def test_rows_are_read_in_the_order_asked_for(overview: Overview, cases: list[CaseResult]) -> None:
    wanted = [7, 1_450, 3, 99_999]
    found = overview.results(wanted)
    assert [(position, ended) for position, ended, _ in found] == [(7, True), (1_450, False), (3, True)]
    assert [result for _, _, result in found] == [cases[7], cases[1_450], cases[3]]


def test_progress(overview: Overview) -> None:
    progress = overview.progress()
    assert (progress.cases, progress.left) == (CASES, CASES - ENDED) and progress.cost_left > 0


def test_the_matrix_needs_no_row_of_the_table(overview: Overview, results: Results) -> None:
    """What is counted of a million cases comes from an index alone."""
    with results.shelf.open() as connection:
        for query in (
            "SELECT api, dtype, ending, verdict, COUNT(*), MAX(score) FROM judged WHERE position IS NOT NULL "
            "GROUP BY ending, verdict, api, dtype",
            "SELECT position, api, seconds FROM judged WHERE position IS NOT NULL AND seconds > 0 "
            "ORDER BY seconds DESC LIMIT 10",
        ):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
            assert any("COVERING INDEX case_cells" in line for line in plan), plan


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    folder = make_ledger(tmp_path / "check", 50, apis=3)
    before = (folder / LEDGER_FILE).read_bytes()
    results = load_check(folder).results
    assert isinstance(results, Results)
    assert len(results.overview().order(Query(sort="verdict", down=True))) == 50
    assert (folder / LEDGER_FILE).read_bytes() == before, "nothing was written"
