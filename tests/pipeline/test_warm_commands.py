"""Commands as copies of a warm process: what they see, how they end, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trueline.pipeline.starting import LOG_FILE, Starter
from trueline.pipeline.variants import WarmRefused, WarmWorker, warm_words
from trueline.pipelines import Command, Stage, StageKind

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def worker(project: Path) -> Iterator[WarmWorker]:
    with WarmWorker(sys.executable, cwd=project) as made:
        yield made


THREADED = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
"""A library that starts a thread when it is imported."""


def library_of(tmp_path: Path, name: str, text: str) -> Path:
    """A folder outside of the project with one module."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def write(project: Path, text: str, name: str = "infer.py") -> list[str]:
    (project / name).write_text(text, encoding="utf-8")
    return [name]


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and is waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(processes: list[int], seconds: float = 2.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(alive(one) for one in processes):
            return True
        time.sleep(0.02)
    return False


def test_a_script_sees_what_a_command_would(project: Path, worker: WarmWorker, tmp_path: Path) -> None:
    words = write(
        project,
        "import os, sys\nimport helper\n"
        "print(sys.argv, __name__, os.getcwd(), helper.__file__, os.environ['TRUELINE_STAGE'])\n"
        "print(os.getpgid(0) == os.getpid(), sys.stdin.read() == '')\n",
    )
    write(project, "", "helper.py")
    log = tmp_path / "log.txt"
    started = worker.start([*words, "--batch-size=3", "a b"], log=log, environment={"TRUELINE_STAGE": "infer 3"})
    assert started.wait(20) == 0
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"['infer.py', '--batch-size=3', 'a b'] __main__ {project} {project / 'helper.py'} infer 3"
    assert lines[1] == "True True"
    assert started.peak_bytes > 1 << 20


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit(77)", 77, ""),
        ("raise SystemExit('no such model')", 1, "no such model"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, ""),
        ("import atexit; atexit.register(print, 'the end')", 0, "the end"),
    ],
)
def test_exit_codes_are_those_of_a_command(
    project: Path, worker: WarmWorker, tmp_path: Path, text: str, code: int, said: str
) -> None:
    log = tmp_path / "log.txt"
    assert worker.start(write(project, text), log=log).wait(20) == code
    assert said in log.read_text(encoding="utf-8")


def test_a_missing_script_fails(worker: WarmWorker, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert worker.start(["nowhere.py"], log=log).wait(20) == 1
    assert "FileNotFoundError" in log.read_text(encoding="utf-8")


def test_copies_share_no_state(project: Path, worker: WarmWorker, tmp_path: Path) -> None:
    words = write(
        project,
        "import json, random, numpy\n"
        "json.count = getattr(json, 'count', 0) + 1\nprint(json.count, random.random(), numpy.random.rand())\n",
    )
    answers = []
    for number in range(3):
        log = tmp_path / f"{number}.txt"
        assert worker.start(words, log=log).wait(20) == 0
        answers.append(log.read_text(encoding="utf-8").split())
    assert [one[0] for one in answers] == ["1", "1", "1"]
    assert len({one[1] for one in answers}) == 3 and len({one[2] for one in answers}) == 3


def test_libraries_are_imported_once_also_late_ones(project: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for name in ("early", "late"):
        text = f"with open({str(tmp_path / name)!r}, 'a') as file: file.write('x')\n"
        (library / f"{name}_library.py").write_text(text, encoding="utf-8")
    words = write(project, "import early_library\ndef main():\n    import late_library\nmain()\n")
    with WarmWorker(sys.executable, cwd=project, environment={"PYTHONPATH": str(library)}) as worker:
        for number in range(4):
            assert worker.start(words, log=tmp_path / f"{number}.txt").wait(20) == 0
    assert (tmp_path / "early").read_text(encoding="utf-8") == "x"
    assert (tmp_path / "late").read_text(encoding="utf-8") == "xx"  # by the first copy, and then by the worker


def test_modules_can_be_run(project: Path, worker: WarmWorker, tmp_path: Path) -> None:
    (project / "package").mkdir()
    write(project, "", "package/__init__.py")
    write(project, "import sys\nprint(__name__, sys.argv[1:])\n", "package/tool.py")
    for number in range(2):
        log = tmp_path / f"{number}.txt"
        assert worker.start(["-m", "package.tool", "x"], log=log).wait(20) == 0
        assert log.read_text(encoding="utf-8").strip() == "__main__ ['x']"


SLEEPER = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(os.getpid(), child.pid, flush=True)\ntime.sleep(600)\n"
)


def processes_in(log: Path) -> list[int]:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if log.exists() and len(words := log.read_text(encoding="utf-8").split()) >= 2:
            return [int(word) for word in words]
        time.sleep(0.02)
    raise AssertionError(f"{log} says no processes")


def test_killing_a_command_ends_its_children(project: Path, worker: WarmWorker, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    started = worker.start(write(project, SLEEPER), log=log)
    processes = processes_in(log)
    assert started.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.1)
    started.kill()
    assert started.wait(5) == -signal.SIGKILL
    assert gone(processes)
    assert worker.start(write(project, "print('still there')"), log=tmp_path / "next.txt").wait(20) == 0


@pytest.mark.parametrize("own_session", [False, True])
def test_what_a_command_leaves_running_is_ended(
    project: Path, worker: WarmWorker, tmp_path: Path, own_session: bool
) -> None:
    text = SLEEPER.replace("600)'])", f"600)'], start_new_session={own_session})").replace("\ntime.sleep(600)\n", "\n")
    log = tmp_path / "log.txt"
    assert worker.start(write(project, text), log=log).wait(20) == 0
    assert gone(processes_in(log))


def test_closing_the_worker_ends_all(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with WarmWorker(sys.executable, cwd=project) as worker:
        started = worker.start(write(project, SLEEPER), log=log)
        processes = processes_in(log)
    assert started.poll() == -signal.SIGKILL
    assert gone(processes)
    with pytest.raises(WarmRefused, match="ended"):
        worker.start(["infer.py"], log=log)


def test_killing_the_tester_leaves_nothing(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    write(project, SLEEPER)
    tester = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom trueline.pipeline.variants import WarmWorker\n"
            f"worker = WarmWorker(sys.executable, cwd={str(project)!r})\n"
            f"worker.start(['infer.py'], log={str(log)!r})\nprint(worker._process.pid, flush=True)\ntime.sleep(600)\n",
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        text=True,
    )
    assert tester.stdout is not None
    worker = int(tester.stdout.readline())
    processes = [worker, *processes_in(log)]
    assert all(alive(one) for one in processes)
    tester.kill()
    tester.wait()
    tester.stdout.close()
    assert gone(processes)


def test_what_a_copy_could_not_be_is_refused(project: Path, worker: WarmWorker, tmp_path: Path) -> None:
    words = write(project, "print('hello')")
    with pytest.raises(WarmRefused, match="OMP_NUM_THREADS"):
        worker.start(words, log=tmp_path / "log.txt", environment={"OMP_NUM_THREADS": "17"})
    with pytest.raises(WarmRefused, match="no interpreter"):
        WarmWorker("python-that-is-not-there", cwd=project)


def test_threads_are_not_copied(project: Path, tmp_path: Path) -> None:
    library = library_of(tmp_path, "threaded", THREADED)
    words = write(project, "import threaded\n")
    with (
        WarmWorker(sys.executable, cwd=project, environment={"PYTHONPATH": str(library)}) as worker,
        pytest.raises(WarmRefused, match=r"threads .*: Thread-1 \(sleep\), python"),
    ):
        worker.start(words, log=tmp_path / "log.txt")


def test_threads_of_what_is_imported_late_cost_the_learning_only(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = library_of(tmp_path, "threaded", THREADED)
    monkeypatch.setenv("PYTHONPATH", str(library))
    write(project, "import sys\ndef late():\n    import threaded\nlate()\nprint('infer_worker' in sys.orig_argv[1])\n")
    stage = Stage("infer", StageKind.INFER, Command(f"{sys.executable} infer.py"), timeout=60.0)
    starter, folder = Starter(project, ()), tmp_path / "stage"
    try:
        for _ in range(3):
            starter.empty(folder)
            running = starter.command(stage, folder)
            while running.poll() is None:
                time.sleep(0.01)
            assert (folder / LOG_FILE).read_text(encoding="utf-8") == "True\n" and not starter.refused(stage)
            time.sleep(0.05)
    finally:
        starter.close()


def test_devices_sleep_while_the_warm_process_imports(project: Path, tmp_path: Path) -> None:
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    library = library_of(tmp_path, "counting", f"import os\nSEEN = os.environ.get('{name}')\n")
    words = write(project, f"import os, counting\nprint(counting.SEEN, os.environ.get('{name}'))\n")
    with WarmWorker(sys.executable, cwd=project, environment={"PYTHONPATH": str(library)}) as worker:
        log = tmp_path / "log.txt"
        assert worker.start(words, log=log).wait(20) == 0
    assert log.read_text(encoding="utf-8") == "1 None\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{sys.executable} infer.py --a=1 --b='x y'", ["infer.py", "--a=1", "--b=x y"]),
        (f"{sys.executable} -m tool --a", ["-m", "tool", "--a"]),
        (f"{sys.executable} -m", None),
        (f"{sys.executable} -c 'print(1)'", None),
        (f"{sys.executable} infer.py > log 2>&1", None),
        (f"{sys.executable} infer.py --list $HOME", None),
        (f"FLAGS_a=1 {sys.executable} infer.py", None),
        ("bash infer.sh", None),
        ("python-that-is-not-there infer.py", None),
        (f"{sys.executable} 'infer.py", None),
        ("", None),
    ],
)
def test_which_lines_can_be_copies(line: str, words: list[str] | None) -> None:
    assert warm_words(line, sys.executable) == words
