"""Models that a warm process reads once for many commands: who is given what, and who is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trueline.pipeline import warm_loads
from trueline.pipeline.processes import Ended, Running
from trueline.pipeline.starting import LOG_FILE, Starter
from trueline.pipeline.variants import Started, WarmWorker
from trueline.pipelines import Command, Stage, StageKind

FAKE = {
    "__init__.py": "from . import inference, jit\n"
    "def is_compiled_with_cuda(): return False\n"
    "def is_compiled_with_xpu(): return False\n",
    "jit.py": "import os, threading, time\n"
    "class Model:\n    def __init__(self, path): self.words = open(path).read(); self.reader = os.getpid()\n"
    "def load(path, trained=False):\n"
    "    if trained: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    "    return Model(path)\n",
    "inference.py": "import os\n"
    "class Config:\n    def __init__(self, path): self.path, self.threads = path, 1\n"
    "    def set_threads(self, count): self.threads = count\n    def enable_use_gpu(self): pass\n"
    "    def threads_now(self): return self.threads\n    def pass_builder(self): return []\n"
    "class Predictor:\n    def __init__(self, config):\n"
    "        self.words, self.reader = open(config.path).read() + str(config.threads), os.getpid()\n"
    "def create_predictor(config): return Predictor(config)\n",
}
"""A framework that is imported in no time, with the names of Paddle's."""

ASK = "import os, sys, paddle\nmodel = {}\nprint(model.words, model.reader == os.getpid(), flush=True)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FAKE.items():
        file = tmp_path / "library" / "paddle" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "model.json").write_text("first", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def worker(project: Path) -> Iterator[WarmWorker]:
    with WarmWorker(sys.executable, cwd=project) as made:
        yield made


def answered(worker: WarmWorker, log: Path, model: str) -> tuple[list[str], Started]:
    """What a command that reads a model says of it."""
    Path("infer.py").write_text(ASK.format(model), encoding="utf-8")
    log.unlink(missing_ok=True)
    started = worker.start(["infer.py"], log=log)
    assert started.wait(20) == 0, log.read_text(encoding="utf-8")
    time.sleep(0.05)  # the warm process reads what it was told of
    return log.read_text(encoding="utf-8").split(), started


def test_a_model_is_read_once_for_those_that_follow(worker: WarmWorker, tmp_path: Path) -> None:
    log, model = tmp_path / "log.txt", "paddle.jit.load('model.json')"
    said, started = answered(worker, log, model)
    assert said == ["first", "True"] and not started.took
    for _ in range(3):
        said, started = answered(worker, log, model)
        assert said == ["first", "False"] and started.took


def test_a_changed_file_is_read_again(worker: WarmWorker, project: Path, tmp_path: Path) -> None:
    log, model = tmp_path / "log.txt", "paddle.jit.load('model.json')"
    answered(worker, log, model)
    (project / "model.json").write_text("other", encoding="utf-8")
    said, started = answered(worker, log, model)
    assert said == ["other", "True"] and not started.took


def test_what_is_asked_for_twice_is_read(worker: WarmWorker, tmp_path: Path) -> None:
    log, model = tmp_path / "log.txt", "[paddle.jit.load('model.json') for _ in range(2)][1]"
    answered(worker, log, model)
    said, started = answered(worker, log, model)
    assert said == ["first", "True"] and started.took


CONFIG = "(lambda config: [{} paddle.inference.create_predictor(config)][-1])(paddle.inference.Config('model.json'))"


def test_predictors_are_told_apart_by_how_they_were_configured(worker: WarmWorker, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    four, eight = (CONFIG.format(f"config.set_threads({count}), config.threads_now(),") for count in (4, 8))
    assert answered(worker, log, four)[0] == ["first4", "True"]
    assert answered(worker, log, four)[0] == ["first4", "False"]
    assert answered(worker, log, eight)[0] == ["first8", "True"]
    assert answered(worker, log, eight)[0] == ["first8", "False"]


@pytest.mark.parametrize("call", ["config.enable_use_gpu(),", "config.pass_builder(),"])
def test_devices_and_open_lists_are_never_shared(worker: WarmWorker, tmp_path: Path, call: str) -> None:
    log, model = tmp_path / "log.txt", CONFIG.format(call)
    for _ in range(2):
        said, started = answered(worker, log, model)
        assert said == ["first1", "True"] and not started.took


def test_nothing_is_read_for_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no command takes what was read for it, reading stops; where they do, it goes on."""
    made: list[list[object]] = []
    monkeypatch.setattr(warm_loads, "_done", made.append)
    recipes = []
    for number in range(9):
        (tmp_path / str(number)).write_text("x", encoding="utf-8")
        recipes.append(["paddle.jit.load", [str(tmp_path / str(number))], {}])
    kept = warm_loads.Kept()
    for recipe in recipes[:4]:
        kept.read(recipe)
    assert made == recipes[:1]
    kept.taken()
    kept.read(recipes[4])
    kept.read(recipes[5])
    assert made == [recipes[0], recipes[4]]
    assert kept.take(recipes[4]) and not kept.take(recipes[4]) and not kept.take(recipes[5])


def recipe_for(threads: int) -> list[object]:
    return [warm_loads.PREDICTOR, ["", ["model.json"], {}], ["set_threads", [threads], {}], ["set_mkldnn", [True], {}]]


def words_for(threads: int, batch: int, mkldnn: bool = True) -> list[str]:
    return ["infer.py", f"--threads={threads}", f"--mkldnn={mkldnn}", "--batch", str(batch)]


def test_of_commands_that_differ_in_a_number_the_next_model_is_known() -> None:
    habits = warm_loads.Habits()
    assert habits.foreseen(words_for(1, 1)) is None
    habits.asked(words_for(1, 1), recipe_for(1))
    assert habits.foreseen(words_for(1, 3)) is None, "which options matter is not known yet"
    habits.asked(words_for(1, 3), recipe_for(1))
    assert habits.foreseen(words_for(2, 8)) == recipe_for(2), "a batch is known to do nothing"
    assert habits.foreseen(words_for(1, 8)) is None, "the same again, which is there"
    assert habits.foreseen(words_for(2, 8, mkldnn=False)) is None, "two may make the difference"
    assert habits.foreseen(words_for(1, 8, mkldnn=False)) is None, "a word is not guessed"
    assert habits.foreseen([*words_for(2, 8), "--more"]) is None
    assert habits.foreseen(["infer.py", "--other=2", *words_for(1, 3)[2:]]) is None


def test_a_number_that_stands_twice_is_not_guessed() -> None:
    habits = warm_loads.Habits()
    for batch in (1, 3):
        habits.asked(words_for(1, batch), [*recipe_for(1), ["set_cache", [1], {}]])
    assert habits.foreseen(words_for(2, 3)) is None


def test_a_model_that_was_foreseen_is_read_before_its_command_is_born(worker: WarmWorker, tmp_path: Path) -> None:
    log, model = tmp_path / "log.txt", CONFIG.format("config.set_threads(int(sys.argv[1])),")
    Path("infer.py").write_text(ASK.format(model), encoding="utf-8")
    said = []
    for words in (["4", "1"], ["4", "3"], ["8", "1"]):
        log.unlink(missing_ok=True)
        assert worker.start(["infer.py", *words], log=log).wait(20) == 0
        said.append(log.read_text(encoding="utf-8").split())
    assert said == [["first4", "True"], ["first4", "False"], ["first8", "False"]]


def ended(running: Running) -> Ended:
    while (end := running.poll()) is None:
        time.sleep(0.01)
    return end


def stage(*words: str) -> Stage:
    return Stage("infer", StageKind.INFER, Command(" ".join([sys.executable, "infer.py", *words])), timeout=60.0)


def test_a_failure_with_a_shared_model_does_not_count(project: Path, tmp_path: Path) -> None:
    """The command is run again as a plain process; since that ends well, nothing is shared any more."""
    text = "if model.reader != os.getpid(): sys.exit(3)\nprint('counted')\n"
    Path("infer.py").write_text(ASK.format("paddle.jit.load('model.json')") + text, encoding="utf-8")
    starter, folder = Starter(project, ()), tmp_path / "stage"
    try:
        for _ in range(3):
            starter.empty(folder)
            assert ended(starter.command(stage(), folder)).code == 0
            assert (folder / LOG_FILE).read_text(encoding="utf-8") == "first True\ncounted\n"
            time.sleep(0.05)
    finally:
        starter.close()


def test_a_command_that_always_fails_fails(project: Path, tmp_path: Path) -> None:
    Path("infer.py").write_text(ASK.format("paddle.jit.load('model.json')") + "sys.exit(4)", encoding="utf-8")
    starter, folder = Starter(project, ()), tmp_path / "stage"
    try:
        for _ in range(2):
            starter.empty(folder)
            assert ended(starter.command(stage(), folder)).code == 4
            assert len((folder / LOG_FILE).read_text(encoding="utf-8").splitlines()) == 1
            time.sleep(0.05)
    finally:
        starter.close()


def test_what_the_tester_ends_is_not_run_again(project: Path, tmp_path: Path) -> None:
    text = ASK.format("paddle.jit.load('model.json')") + "import time\nif len(sys.argv) > 1: time.sleep(60)\n"
    Path("infer.py").write_text(text, encoding="utf-8")
    starter, folder = Starter(project, ()), tmp_path / "stage"
    try:
        starter.empty(folder)
        assert ended(starter.command(stage(), folder)).code == 0
        time.sleep(0.05)
        starter.empty(folder)
        running = starter.command(stage("--slow"), folder)
        while "first False" not in (folder / LOG_FILE).read_text(encoding="utf-8"):
            assert running.poll() is None
            time.sleep(0.02)
        running.kill()
        assert ended(running).why == "ended by the tester"
        assert (folder / LOG_FILE).read_text(encoding="utf-8").count("first") == 1
    finally:
        starter.close()


def test_threads_that_reading_left_cost_the_sharing_only(project: Path, tmp_path: Path) -> None:
    text = ASK.format("paddle.jit.load('model.json', True)") + "print('infer_worker' in sys.orig_argv[1])\n"
    Path("infer.py").write_text(text, encoding="utf-8")
    starter, folder = Starter(project, ()), tmp_path / "stage"
    try:
        for _ in range(3):
            starter.empty(folder)
            assert ended(starter.command(stage(), folder)).code == 0
            assert (folder / LOG_FILE).read_text(encoding="utf-8") == "first True\nTrue\n"
            time.sleep(0.05)
    finally:
        starter.close()
