"""A capture or a watch begins whole or not at all, and ends whatever comes meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import trueline
from tests.capture.test_faults import environment
from trueline.frameworks.switch import Undo
from trueline.frameworks.torch import doors, modes
from trueline.report.partial import partial_paths
from trueline.store import open_run

MAKERS: dict[str, Callable[[Path], Any]] = {
    "capture": lambda path: trueline.capture(path),
    "kernels": lambda path: trueline.capture(path, level="kernel"),
    "modules": lambda path: trueline.capture(path, level="module"),
    "watch": lambda path: trueline.watch(path),
}
PLACES = [
    (doors.TorchWatcher, "_find"), (doors.TorchWatcher, "_open_modes"), (doors.TorchWatcher, "_found_module"),
    (doors.TorchWatcher, "_splice_methods"), (doors, "push"), (doors, "push_kernels"), (doors, "on_import"),
    (doors, "quick_registration"), (doors, "quiet_properties"), (modes.ApiMode, "__init__"),
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
@pytest.mark.parametrize("maker", MAKERS)
def test_what_cannot_begin_leaves_nothing_behind(
    maker: str, place: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def fail(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(*place, fail)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with MAKERS[maker](tmp_path / "run"):
            torch.ones(3).sin()
    if not asked:
        pytest.skip("this way has no such door")
    assert len([warning for warning in caught if "planted" in str(warning.message)]) == 1
    certificate = open_run(tmp_path / "run").rank(0).certificate
    assert not certificate.complete and "planted" in certificate.stopped_because and not certificate.calls
    assert "planted" in partial_paths([str(tmp_path / "run")])[0]


def test_every_step_of_an_undo_is_done() -> None:
    done: list[str] = []
    undo = Undo()

    def fail() -> None:
        done.append("failed")
        raise ZeroDivisionError

    for step in (lambda: done.append("first"), fail, lambda: done.append("last")):
        undo.add(step)
    with pytest.raises(ZeroDivisionError):
        undo.all()
    assert done == ["last", "failed", "first"] and not undo


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("what", ["capture", "watch"])
def test_an_interrupt_while_stopping_is_heard_when_the_run_is_whole(what: str, tmp_path: Path) -> None:
    answer = run(
        f"""
        import os, signal, sys, torch, trueline
        from trueline.store.writer import RankWriter
        drained = RankWriter.drain
        times = []
        def drain(self):
            if not times:
                times.append(os.kill(os.getpid(), signal.SIGINT))
            drained(self)
        RankWriter.drain = drain
        try:
            with trueline.{what}(sys.argv[1]):
                torch.ones(3).sin()
        except KeyboardInterrupt:
            print("heard", torch._C._len_torch_function_stack(), signal.getsignal(signal.SIGINT).__name__)
        """,
        tmp_path / "run",
    )
    assert answer.stdout == "heard 0 default_int_handler\n", answer.stderr
    assert open_run(tmp_path / "run").rank(0).certificate.complete


def test_a_handler_that_ends_the_program_ends_it_when_the_run_is_whole(tmp_path: Path) -> None:
    answer = run(
        """
        import os, signal, sys, torch, trueline
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        from trueline.capture.notebook import Notebook
        flushed = Notebook.flush
        times = []
        def flush(self):
            if not times:
                times.append(os.kill(os.getpid(), signal.SIGTERM))
            flushed(self)
        Notebook.flush = flush
        with trueline.capture(sys.argv[1]):
            torch.ones(3).sin()
        print("not reached")
        """,
        tmp_path / "run",
    )
    assert (answer.returncode, answer.stdout) == (7, ""), answer.stderr
    certificate = open_run(tmp_path / "run").rank(0).certificate
    assert certificate.complete and certificate.calls == {"api forward": 2}


@pytest.mark.parametrize("what", ["capture", "watch"])
def test_what_a_handler_raises_while_it_begins_reaches_the_program(what: str, tmp_path: Path) -> None:
    answer = run(
        f"""
        import os, signal, sys, torch, trueline
        from trueline.store import writer
        class Asked(Exception):
            pass
        def ask(number, frame):
            raise Asked
        signal.signal(signal.SIGTERM, ask)
        made = writer.RankWriter.__init__
        def make(self, *words):
            os.kill(os.getpid(), signal.SIGTERM)
            made(self, *words)
        writer.RankWriter.__init__ = make
        try:
            with trueline.{what}(sys.argv[1]):
                print("not reached")
        except Asked:
            print("heard", torch._C._len_torch_function_stack(), signal.getsignal(signal.SIGTERM).__name__)
        """,
        tmp_path / "run",
    )
    assert (answer.stdout, answer.stderr) == ("heard 0 ask\n", "")
    certificate = open_run(tmp_path / "run").rank(0).certificate
    assert (certificate.complete, certificate.stopped_because) == (False, "interrupted as it began")


@pytest.mark.parametrize("what", ["capture", "watch"])
def test_four_threads_train_at_once(what: str, tmp_path: Path) -> None:
    def train(seed: int, found: dict[int, list[Any]]) -> None:
        generator = torch.Generator().manual_seed(seed)
        weight = torch.nn.Parameter(torch.rand(8, 8, generator=generator))
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (torch.rand(4, 8, generator=generator) @ weight).square().mean().backward()
            optimizer.step()
        found[seed] = weight.detach().tolist()

    def all_of_them() -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        threads = [threading.Thread(target=train, args=(seed, found)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return found

    bare = all_of_them()
    with getattr(trueline, what)(tmp_path / "run") as one:
        seen = all_of_them()
    assert seen == bare
    if what == "capture":
        assert not one.certificate.partial
    else:
        assert one.counts["overflows"] == 0 and not one._troubles


def test_no_warning_becomes_an_error_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(doors.TorchWatcher, "_find", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with trueline.capture(tmp_path / "run"):
            assert torch.ones(3).sin().shape == (3,)


def command(tmp_path: Path, program: str, *options: str) -> tuple[int, str, dict[str, Any]]:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    told = tmp_path / "told.json"
    answer = subprocess.run(
        [sys.executable, "-m", "trueline", "capture", "--out", tmp_path / "run", "--json", told, *options,
         "--", sys.executable, script],
        env={**environment(), "PYTHONUNBUFFERED": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return answer.returncode, answer.stderr, json.loads(told.read_text())


@pytest.mark.parametrize(
    ("program", "why"),
    [("print(1)", "imported neither torch nor paddle"), ("import torch", "made no call that was asked for")],
)
def test_nothing_recorded_is_exit_code_two_with_the_reason(program: str, why: str, tmp_path: Path) -> None:
    code, errors, told = command(tmp_path, program)
    assert code == 2 and why in errors, errors
    assert "nothing was recorded" in errors and why in told["error"]


def test_a_rank_that_was_not_asked_for_is_the_reason(tmp_path: Path) -> None:
    code, errors, _ = command(tmp_path, "import torch; torch.ones(3).sin()", "--ranks", "5")
    assert code == 2 and "rank 0 was not asked for" in errors, errors


def test_the_exit_code_of_a_program_that_failed_is_kept(tmp_path: Path) -> None:
    code, errors, _ = command(tmp_path, "import sys; sys.exit(3)")
    assert code == 3 and "nothing was recorded" in errors


def test_a_partial_record_is_called_so_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.frameworks.torch.tensors import TensorDesk

    with trueline.capture(tmp_path / "whole"):
        torch.ones(3).sin()
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    look_all, calls = TensorDesk.look_all, iter([0, 0, 0, 0])

    def looks_four_times(*given: Any) -> None:
        next(calls)
        look_all(*given)

    monkeypatch.setattr(TensorDesk, "look_all", looks_four_times)
    with trueline.capture(tmp_path / "part"):
        torch.ones(3).sin()
        torch.ones(3).cos()
    monkeypatch.undo()
    whole, part = str(tmp_path / "whole"), str(tmp_path / "part")
    assert partial_paths([whole]) == []
    for words in (["show", part], ["compare", whole, part], ["overflow", part]):
        text = trueline_command(words)
        assert text.splitlines()[0].startswith("PARTIAL RECORD") and "StopIteration" in text.partition("\n\n")[0]
        assert next(iter(json.loads(trueline_command([*words, "--json"])))) == "partial"
    assert "PARTIAL" not in trueline_command(["show", whole])


def trueline_command(words: list[str]) -> str:
    return subprocess.run(
        [sys.executable, "-m", "trueline", *words], env=environment(), capture_output=True, text=True, check=False
    ).stdout


def test_a_signal_that_nobody_handles_is_left_alone() -> None:
    from trueline.capture.interrupts import HeldSignals

    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with HeldSignals():
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
