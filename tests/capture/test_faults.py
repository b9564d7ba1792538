"""Faults of the world and of ours: one warning, the program goes on to the same loss, and the Run keeps what it has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import trueline
from tests.helpers.models import train
from trueline.errors import CorruptRunError
from trueline.store import open_run

SOURCE = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE / "src"), str(SOURCE)]), "OMP_NUM_THREADS": "1"}


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_program_leaves_what_was_flushed(tmp_path: Path) -> None:
    child = start(
        """
        import sys, time, torch, trueline
        with trueline.capture(sys.argv[1], data="tensors") as capture:
            for step in range(2):
                y = torch.full((64, 200), float(step)).sin()
                capture.step()
            for _ in range(10_000_000):
                torch.ones(20).cos()  # in the middle of a step, with much unwritten
                if _ == 5000:
                    print("killable", flush=True)
        """,
        tmp_path / "run",
    )
    assert child.stdout is not None and child.stdout.readline() == "killable\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    reader = open_run(tmp_path / "run").rank(0)
    certificate = reader.certificate
    assert not certificate.complete
    assert "without a word" in certificate.stopped_because
    for step in range(2):
        full, sin = reader.trace(step)
        assert (full.api, sin.api) == ("torch.full", "torch.Tensor.sin")
        assert (reader.tensor(full.outputs[0]) == step).all()
        assert sin.outputs[0].statistics is not None
    assert len(reader.trace(2)) > 5000, "a long step is flushed on the way"
    assert certificate.calls["api forward"] == reader.call_count
    assert open_run(tmp_path / "run").rank(0).call_count == reader.call_count, "it opens a second time too"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_full_disk_is_one_warning_and_the_same_loss(data: str, small_disk: Path) -> None:
    if data == "stats":  # leave room for the journal, not for the database
        (small_disk / "ballast").write_bytes(bytes(520 << 10))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capture = trueline.capture(small_disk / "run", data=data)
        captured = train("transformer", capture)
    ours = [str(one.message) for one in caught if "trueline" in str(one.message)]
    assert len(ours) == 1, ours
    assert "the program goes on" in ours[0]
    assert train("transformer").differences(captured) == []
    assert capture.certificate is not None and (data == "stats" or not capture.certificate.complete)
    (small_disk / "ballast").unlink(missing_ok=True)
    for file in small_disk.glob("run/rank0/*.safetensors"):
        file.unlink()  # room for the reader to finish the journal
    reader = open_run(small_disk / "run").rank(0)
    assert not reader.certificate.complete or data == "stats"
    assert reader.call_count > 0


def test_a_full_disk_is_why_the_run_is_incomplete(small_disk: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train("transformer", trueline.capture(small_disk / "run", data="tensors"))
    with open_run(small_disk / "run") as run:
        certificate = run.rank(0).certificate
    assert not certificate.complete
    assert "No space left" in certificate.stopped_because


def test_a_watch_on_a_full_disk_is_one_warning(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(1008 << 10))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        captured = train("transformer", trueline.watch(small_disk / "run"))
    ours = [str(one.message) for one in caught if "trueline" in str(one.message)]
    assert len(ours) == 1 and "the program goes on" in ours[0]
    assert train("transformer").differences(captured) == []
    with open_run(small_disk / "run") as run:
        assert not run.rank(0).certificate.complete


def test_a_file_that_may_not_grow_is_one_warning(tmp_path: Path) -> None:
    child = start(
        """
        import resource, sys
        import torch
        import trueline
        from tests.helpers.models import train
        torch.set_num_threads(1)
        expected = train("mixed")
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        found = train("mixed", trueline.capture(sys.argv[1], data="tensors"))
        print("same" if expected.differences(found) == [] else "changed")
        """,
        tmp_path / "run",
    )
    output, errors = child.communicate(timeout=60)
    assert (child.returncode, output) == (0, "same\n"), errors
    assert errors.count("trueline stopped recording, the program goes on") == 1, errors


@pytest.mark.filterwarnings("ignore:.*autocast:FutureWarning")  # torch 2.4 says it of its own checkpoints
def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    capture = trueline.capture(tmp_path / "file" / "run")
    with pytest.warns(RuntimeWarning, match="records nothing, the program goes on") as caught:
        captured = train("mixed", capture)
    assert [warning.category for warning in caught].count(RuntimeWarning) == 1
    assert train("mixed").differences(captured) == []


def test_warnings_that_are_errors_do_not_stop_the_program(tmp_path: Path) -> None:
    """Where the user turned warnings into errors, the writer's own thread must survive its warning."""
    writer_warned = []

    class Broken:
        def __call__(self) -> memoryview:
            raise OSError(28, "no space left on device")

    from trueline.store.columns import Batch, Payload
    from trueline.store.writer import RankWriter

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = RankWriter(tmp_path / "run", 0)
        for _ in range(100):  # more than the queue holds
            writer.submit(Batch(payloads=[Payload(0, "float32", (1,), Broken())]))
        writer.drain()
        writer_warned.append(writer.failed)
        writer.close({})
    assert "no space left" in writer_warned[0]


@pytest.mark.parametrize("place", ["look_all", "before_change", "changed"])
def test_a_fault_of_ours_never_reaches_the_program(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trueline.frameworks.torch.tensors import TensorDesk

    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")  # the C extension would take the place of look_all

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(TensorDesk, place, fail)
    capture = trueline.capture(tmp_path / "run")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        captured = train("mixed", capture)
    monkeypatch.undo()
    assert train("mixed").differences(captured) == []
    assert len([one for one in caught if "stopped recording" in str(one.message)]) == 1
    assert capture.certificate is not None
    assert not capture.certificate.complete and "planted" in capture.certificate.stopped_because
    assert any("planted" in reason for reason in capture.certificate.not_recorded)


def test_a_tensor_that_cannot_be_copied_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tensor whose bytes cannot be had costs that tensor, with its reason, and nothing else."""

    class Unreadable(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.as_subclass:
                raise RuntimeError("may not be looked into")
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(3).as_subclass(Unreadable)
    with trueline.capture(tmp_path / "run", data="tensors") as capture:
        y = x.sin()
        torch.ones(4).cos()
    assert torch.equal(torch.Tensor(y.tolist()), torch.ones(3).sin())
    assert capture.certificate is not None and capture.certificate.complete
    calls = list(open_run(tmp_path / "run").rank(0).trace())
    assert calls[-1].outputs[0].stored


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with trueline.capture(tmp_path / "run", data="tensors"):
        torch.ones(100, 200).sin()
    return tmp_path / "run"


def test_a_program_that_never_stops_its_capture(tmp_path: Path) -> None:
    child = start(
        """
        import sys, torch, trueline
        trueline.capture(sys.argv[1]).start()
        torch.ones(3).sin()
        """,
        tmp_path / "run",
    )
    child.communicate(timeout=60)
    assert child.returncode == 0
    certificate = open_run(tmp_path / "run").rank(0).certificate
    assert certificate.complete and certificate.calls == {"api forward": 2}


def test_truncated_tensor_files_are_said(run: Path) -> None:
    (file,) = run.glob("rank0/*.safetensors")
    with open(file, "r+b") as handle:
        handle.truncate(file.stat().st_size - 1000)
    with pytest.raises(CorruptRunError, match="bytes of at least"):
        open_run(run).rank(0)
    file.unlink()
    with pytest.raises(CorruptRunError, match="cannot read"):
        open_run(run).rank(0)


def test_nothing_waits_for_ever(tmp_path: Path) -> None:
    """Stopping takes as long as writing what is left, not longer."""
    capture = trueline.capture(tmp_path / "run", data="tensors").start()
    for _ in range(50):
        torch.ones(100, 100).sin()
    begun = time.perf_counter()
    capture.stop()
    assert time.perf_counter() - begun < 10


