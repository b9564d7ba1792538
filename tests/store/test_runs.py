"""Runs on disk that are whole, cut short, damaged, foreign or from the future; no framework is needed for any of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.synthetic import Bits, Spec, array, write_run
from trueline.cli.main import main
from trueline.errors import CorruptRunError, NotARunError, RunVersionError, UsageError
from trueline.records import Level, Phase, StateMoment
from trueline.report.call_numbers import call_numbers
from trueline.store import open_run
from trueline.store.columns import CALL_COLUMNS, NONE, STATE, STATE_PREFIX, Batch, Payload
from trueline.store.finish import finish_rank
from trueline.store.journal import MAGIC, DamagedJournal, JournalWriter, read_frames
from trueline.store.seal import seal_database, sealed_text
from trueline.store.segments import SegmentWriter
from trueline.store.writer import RankWriter, write_run_info

SPECS = [Spec("torch.sin", [array(8, 4)], [array(8, 4)], module="first"), Spec("torch.cos", [array(3)], [array(3)])]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", SPECS)


def unfinished(run: Path, *more: tuple[bytes, bytes]) -> Path:
    """Puts a Run back to where its program was killed: journal instead of database, with more frames at its end."""
    folder = run / "rank0"
    specs = run.parent / "again"
    writer = RankWriter(specs, 0)
    row = dict.fromkeys(CALL_COLUMNS, NONE) | {"level": 0, "phase": 0, "api": 0, "nth": 0, "step": 0, "thread": 0}
    for number in range(5):
        calls = np.array([list({**row, "id": number, "nth": number}.values())], dtype=np.int64)
        names = {"names": [[0, "torch.sin"]]} if number == 0 else {}
        writer.submit(Batch(definitions=names, calls=calls))
    writer.drain()
    kept = [*read_frames(specs / "rank0" / "journal.bin"), *more]
    shutil.rmtree(folder)
    folder.mkdir()
    journal = JournalWriter(folder / "journal.bin")
    for kind, payload in kept:
        journal.append(kind, payload)
    journal.close()
    writer.close({})
    return folder / "journal.bin"


def test_a_whole_run(run: Path) -> None:
    with open_run(run) as opened:
        first, second = opened.rank(0).trace()
        assert (first.api, first.module, first.level, first.phase) == ("torch.sin", "first", Level.API, Phase.FORWARD)
        assert np.array_equal(opened.rank(0).tensor(second.inputs[0]), SPECS[1].inputs[0])
        with pytest.raises(UsageError, match="has no rank 3; it has 0"):
            opened.rank(3)
        with pytest.raises(ValueError, match="read-only"):
            opened.rank(0).tensor(first.inputs[0])[0] = 1


def test_plain_sqlite_opens_it(run: Path) -> None:
    connection = sqlite3.connect(run / "rank0" / "calls.db")
    rows = connection.execute("SELECT api, nth, phase FROM call_list").fetchall()
    connection.close()
    assert rows == [("torch.sin", 0, "forward"), ("torch.cos", 0, "forward")]
    assert not (run / "rank0" / "journal.bin").exists()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("nothing", lambda path: None),
        ("file", lambda path: path.write_text("a file")),
        ("empty folder", lambda path: path.mkdir()),
        ("other folder", lambda path: (path.mkdir(), (path / "model.bin").write_text("weights"))),
        ("no ranks", lambda path: (path.mkdir(), None)),
    ],
)
def test_foreign_paths(name: str, make: object, tmp_path: Path, run: Path) -> None:
    path = tmp_path / "foreign"
    make(path)  # type: ignore[operator]
    if name == "no ranks":
        shutil.copy(run / "run.json", path / "run.json")
    with pytest.raises(NotARunError, match="foreign"):
        open_run(path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format_version": 1}', '"text"', "\x00\x01"])
def test_a_damaged_head(content: str, run: Path) -> None:
    (run / "run.json").write_text(content)
    with pytest.raises(CorruptRunError, match=r"run\.json"):
        open_run(run)


def test_a_head_that_is_not_text(run: Path) -> None:
    (run / "run.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CorruptRunError, match=r"run\.json"):
        open_run(run)


def test_a_newer_version(run: Path) -> None:
    head = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**head, "format_version": 99, "tool_version": "9.9"}))
    with pytest.raises(RunVersionError, match=r"format 99 by trueline 9\.9.*update trueline"):
        open_run(run)


def test_a_newer_database(run: Path) -> None:
    connection = sqlite3.connect(run / "rank0" / "calls.db")
    connection.execute("UPDATE meta SET value = '7' WHERE key = 'format_version'")
    connection.commit()
    connection.close()
    with pytest.raises(RunVersionError, match="format 7"):
        open_run(run).rank(0)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "header"])
def test_a_damaged_database(damage: str, run: Path) -> None:
    file = run / "rank0" / "calls.db"
    content = file.read_bytes()
    changed = {"empty": b"", "text": b"text" * 1000, "cut": content[: len(content) // 2], "header": b"x" + content[1:]}
    file.write_bytes(changed[damage])
    with pytest.raises(CorruptRunError, match=r"calls.db"):
        list(open_run(run).rank(0).trace())


def test_a_rank_without_files(run: Path) -> None:
    (run / "rank0" / "calls.db").unlink()
    with pytest.raises(CorruptRunError, match="neither"):
        open_run(run).rank(0)


@pytest.mark.parametrize("lost", [0, 1, 5, 9, 30])
def test_a_journal_that_was_cut_gives_what_is_whole(lost: int, run: Path) -> None:
    journal = unfinished(run)
    with open(journal, "r+b") as file:
        file.truncate(journal.stat().st_size - lost)
    reader = open_run(run).rank(0)
    assert reader.call_count == (5 if lost == 0 else 4)
    assert not reader.certificate.complete
    assert reader.certificate.calls == {"api forward": reader.call_count}


@pytest.mark.parametrize("place", [-40, -120, 25, 300])
def test_a_journal_with_a_wrong_bit_is_refused_and_says_what_can_be_read(place: int, run: Path) -> None:
    journal = unfinished(run)
    content = bytearray(journal.read_bytes())
    content[place] ^= 1
    journal.write_bytes(content)
    with pytest.raises(CorruptRunError, match=r"journal\.bin: it is damaged at byte \d+.*truncate -s") as caught:
        open_run(run).rank(0)
    found = re.search(r"truncate -s (\d+)", str(caught.value))
    assert found is not None
    os.truncate(journal, int(found[1]))
    assert open_run(run).rank(0).call_count < 5


@pytest.mark.parametrize("change", ["lost", "doubled", "exchanged"])
def test_a_journal_whose_frames_are_not_in_their_order_is_refused(change: str, run: Path) -> None:
    journal = unfinished(run)
    content = journal.read_bytes()
    pieces, place = [content[: len(MAGIC)]], len(MAGIC)
    for _, payload in read_frames(journal):
        pieces.append(content[place : place + 13 + len(payload)])
        place += len(pieces[-1])
    orders = {"lost": [0, 1, 2, 4, 5], "doubled": [0, 1, 2, 2, 3, 4, 5], "exchanged": [0, 1, 3, 2, 4, 5]}
    journal.write_bytes(b"".join(pieces[number] for number in orders[change]))
    with pytest.raises(CorruptRunError, match="damaged at byte"):
        open_run(run).rank(0)


def test_a_journal_with_zeros_behind_it_lost_its_power(run: Path) -> None:
    journal = unfinished(run)
    with open(journal, "ab") as file:
        file.write(bytes(5000))
    assert open_run(run).rank(0).call_count == 5


def test_a_journal_of_another_rank_is_refused(run: Path) -> None:
    journal = unfinished(run)
    (run / "rank1").mkdir()
    shutil.copy(journal, run / "rank1" / "journal.bin")
    with pytest.raises(CorruptRunError, match="that of rank 0"):
        open_run(run).rank(1)


@pytest.mark.parametrize("content", [b"", MAGIC[:7], MAGIC])
def test_a_program_killed_at_once_leaves_an_empty_run(content: bytes, run: Path) -> None:
    journal = unfinished(run)
    journal.write_bytes(content)
    reader = open_run(run).rank(0)
    assert reader.call_count == 0
    assert not reader.certificate.complete


def test_a_journal_without_its_first_line_was_cut_where_tensors_were_written_behind_it(run: Path) -> None:
    journal = unfinished(run)
    journal.write_bytes(b"")
    (journal.parent / "tensors-00000.safetensors").write_bytes(bytes(100))
    with pytest.raises(CorruptRunError, match=r"journal\.bin: it was cut before its first line"):
        open_run(run).rank(0)


def test_numbers_of_layouts_need_not_be_consecutive(run: Path) -> None:
    database = run / "rank0" / "calls.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE visits SET layout = layout + 1000000000000")
        connection.execute("UPDATE layouts SET id = id + 1000000000000")
    seal_database(database)
    trace = open_run(run).rank(0).trace()
    assert trace.limits(trace.visits[:, 4]).tolist() == [pytest.approx(128.0)] * 4
    numbers = call_numbers(trace)
    assert np.isfinite(numbers["headroom"]).all()
    assert main(["overflow", str(run)]) == 0


def test_what_a_call_was_given_is_left_out_where_the_program_was_killed_before_the_call(run: Path) -> None:
    layouts = json.dumps({"layouts": [[0, "float32", [3], [1], "cpu", 0]]}).encode()
    visits = np.array([[4, 0, 0, 0, 0], [5, 0, 0, 1, 0]], dtype="<i8").tobytes()
    unfinished(run, (b"D", layouts), (b"V", visits))
    trace = open_run(run).rank(0).trace()
    assert trace.visits.tolist() == [[4, 0, 0, 0, 0]]
    assert [len(trace.visits_of(position)) for position in range(len(trace))] == [0, 0, 0, 0, 1]


def test_a_tensor_that_was_kept_in_a_dtype_that_is_none(run: Path) -> None:
    database = run / "rank0" / "calls.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE layouts SET dtype = 'sixteen'")
    connection.close()
    seal_database(database)
    trace = open_run(run).rank(0).trace()
    with pytest.raises(CorruptRunError, match=r"calls\.db: tensor 0 was kept in 'sixteen'"):
        trace.call(0)


def test_a_call_that_was_given_no_arguments_at_all(run: Path) -> None:
    """An empty list of arguments is one; ``null`` is none."""
    database = run / "rank0" / "calls.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE trees SET tree = 'null' WHERE id = (SELECT min(arguments) FROM calls)")
    connection.close()
    seal_database(database)
    with pytest.raises(CorruptRunError, match=r"calls\.db: row \d+ of trees: it is no tree of arguments"):
        open_run(run).rank(0).trace().call(0)


def with_state(run: Path, moment: str) -> Path:
    """Adds a state to a Run: a tensor that its calls have seen, by a name."""
    database = run / "rank0" / "calls.db"
    row = dict.fromkeys(CALL_COLUMNS, NONE) | {"id": 99, "level": STATE, "phase": 0, "nth": 0, "step": 0, "thread": 0}
    row |= {"api": 99, "arguments": 99}
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO names VALUES (99, ?)", (STATE_PREFIX + moment,))
        connection.execute("INSERT INTO trees VALUES (99, ?)", (json.dumps({"outputs": {"$t": 0}}),))
        connection.execute(f"INSERT INTO calls VALUES ({', '.join('?' * len(row))})", list(row.values()))
        connection.execute("INSERT INTO visits SELECT 99, 0, role, tensor, layout FROM visits LIMIT 1")
    connection.close()
    seal_database(database)
    return run


def test_a_run_of_before_there_were_states(run: Path) -> None:
    database = run / "rank0" / "calls.db"
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE meta SET value = '2' WHERE key = 'format_version'")
    connection.close()
    seal_database(database)
    head = {**json.loads((run / "run.json").read_text()), "format_version": 2}
    (run / "run.json").write_text(sealed_text(head))
    with open_run(run) as opened:
        trace = opened.rank(0).trace()
        assert opened.info.format_version == 2
        assert (trace.states, len(trace.state_visits), len(trace)) == ((), 0, 2)
    assert main(["compare", str(run), str(run)]) == 0


def test_a_state_has_a_moment_that_is_known(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state,) = open_run(with_state(run, "left")).rank(0).trace().states
    assert (state.moment, state.call, list(state.values)) == (StateMoment.LEFT, 99, ["outputs"])
    strange = with_state(write_run(run.parent / "strange", SPECS), "resting")
    with pytest.raises(CorruptRunError, match="row 99 of calls is a state at no known moment"):
        _ = open_run(strange).rank(0).trace().states
    assert main(["compare", str(run), str(strange)]) == 2
    said = capsys.readouterr().err
    assert "row 99 of calls is a state at no known moment" in said and "Traceback" not in said


def test_a_foreign_journal(run: Path) -> None:
    journal = unfinished(run)
    journal.write_bytes(b"something else altogether\n" * 10)
    with pytest.raises(CorruptRunError, match="journal"):
        open_run(run).rank(0)


def test_a_journal_of_a_kind_that_is_not_known(run: Path) -> None:
    unfinished(run, (b"?", b"abc"))
    with pytest.raises(CorruptRunError, match=r"journal\.bin.*kind b'\?'"):
        open_run(run).rank(0)


def test_a_killed_run_on_a_disk_that_cannot_be_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished(run)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: False if mode == os.W_OK else real(path, mode))
    before = sorted(os.listdir(run / "rank0"))
    with open_run(run) as opened:
        assert opened.rank(0).call_count == 5
    assert sorted(os.listdir(run / "rank0")) == before


def test_finishing_leaves_no_draft(run: Path) -> None:
    journal = unfinished(run, (b"?", b"abc"))
    with pytest.raises(DamagedJournal):
        finish_rank(journal.parent, 0)
    assert os.listdir(journal.parent) == ["journal.bin"]


def test_an_existing_rank_is_refused(run: Path) -> None:
    with pytest.raises(UsageError, match="exists already; choose another path"):
        RankWriter(run, 0)


def test_the_first_head_wins(run: Path) -> None:
    info = open_run(run).info
    before = (run / "run.json").read_bytes()
    write_run_info(run, type(info)(**{**{name: getattr(info, name) for name in info.__slots__}, "host": "another"}))
    assert (run / "run.json").read_bytes() == before
    assert sorted(os.listdir(run)) == ["rank0", "run.json"]


def test_segments_roll_over_and_stay_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.numpy import load_file

    monkeypatch.setattr("trueline.store.segments.SEGMENT_BYTES", 10_000)
    writer = SegmentWriter(tmp_path)
    values = [np.full(700, number, dtype=np.float32) for number in range(20)]
    places = [writer.append(n, "float32", (700,), memoryview(value)) for n, value in enumerate(values)]
    writer.close()
    assert len({file for file, _, _ in places}) == len(list(tmp_path.iterdir())) > 3
    found: dict[str, np.ndarray] = {}  # type: ignore[type-arg]
    for file in tmp_path.iterdir():
        found |= load_file(file)
    assert all(np.array_equal(found[f"tensor.{number}"], value) for number, value in enumerate(values))


def test_headers_have_room_for_many_names(tmp_path: Path) -> None:
    from safetensors import safe_open

    writer = SegmentWriter(tmp_path)
    for number in range(5000):
        writer.append(number, "bool", (1, 1, 1, 1, 1, 1), memoryview(b"\1"))
    writer.close()
    names = []
    for file in sorted(tmp_path.iterdir()):
        with safe_open(file, framework="numpy") as handle:
            names += [name for name in handle.keys() if name.startswith("tensor.")]  # noqa: SIM118 - no mapping
    assert len(names) == 5000


def test_every_dtype_comes_back_as_it_went(tmp_path: Path) -> None:
    from trueline.dtypes import DTYPES

    given = {}
    for name, row in DTYPES.items():
        raw = np.random.default_rng(row.code).integers(0, 256, (3, 2, row.itemsize), dtype=np.uint8)
        raw = raw % 2 if name == "bool" else raw
        given[name] = raw.reshape(3, 2 * row.itemsize).view(row.storage)
    path = write_run(tmp_path / "run", [Spec("torch.neg", [Bits(value, name)], []) for name, value in given.items()])
    reader = open_run(path).rank(0)
    for call in reader.trace():
        kept = reader.tensor(call.inputs[0])
        assert kept.tobytes() == given[call.inputs[0].dtype].tobytes()
        assert kept.shape == (3, 2)


def test_a_fault_while_writing_is_said_once_and_the_rest_is_swallowed(tmp_path: Path) -> None:
    def fail() -> memoryview:
        raise OSError(28, "No space left on device")

    writer = RankWriter(tmp_path / "run", 0)

    def write() -> None:
        for number in range(100):
            writer.submit(Batch(payloads=[Payload(number, "float32", (1,), fail)]))
        writer.drain()
        writer.close({})

    with pytest.warns(RuntimeWarning, match="stopped recording, the program goes on.*No space left") as caught:
        write()
    assert len(caught) == 1
    assert "No space left" in writer.failed


def test_no_framework_is_imported(run: Path) -> None:
    code = (
        "import sys; from trueline.store import open_run; print(len(list(open_run(sys.argv[1]).rank(0).trace())));"
        "assert 'torch' not in sys.modules"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert (answer.stdout, answer.returncode) == ("2\n", 0), answer.stderr


def test_pages_in_the_middle_that_are_damaged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [Spec(f"torch.f{n}", [array(4)], [array(4)]) for n in range(300)])
    file = run / "rank0" / "calls.db"
    content = bytearray(file.read_bytes())
    for start in range(8 * 4096, len(content) - 4096, 4096):
        content[start : start + 64] = b"\xa5" * 64
    file.write_bytes(content)
    seal_database(file)
    with pytest.raises(CorruptRunError, match=r"calls.db: it is damaged"):
        list(open_run(run).rank(0).trace())


def test_looking_at_a_run_that_is_still_written_does_it_no_harm(tmp_path: Path) -> None:
    run = write_run(tmp_path / "done", SPECS)
    live = tmp_path / "live"
    live.mkdir()
    shutil.copy(run / "run.json", live / "run.json")
    writer = RankWriter(live, 0)
    row = dict.fromkeys(CALL_COLUMNS, NONE) | {"level": 0, "phase": 0, "step": 0, "thread": 0}
    for number in range(3):
        writer.submit(Batch(calls=np.array([list({**row, "id": number}.values())], dtype=np.int64)))
        writer.drain()
        with open_run(live) as opened:
            assert opened.rank(0).call_count == number + 1
            assert not opened.rank(0).certificate.complete
    writer.close({"complete": True})
    assert writer.failed == ""
    reader = open_run(live).rank(0)
    assert reader.call_count == 3 and reader.certificate.complete
