"""A predecessor's names in a project: they work there as they are written, nothing of the project's is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compat.conftest import Shell
from trueline.compat.adopting import DOORS, MEMORY, adopt, remove
from trueline.compat.adopting.placing import BEFORE
from trueline.errors import UsageError


def everything(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_adopted_is_taken_away_again(door: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n", encoding="utf-8")
    before = everything(tmp_path)
    done = adopt(door, tmp_path)
    assert done.written and set(everything(tmp_path)) == {*before, MEMORY, *done.written}
    assert adopt(door, tmp_path).written == done.written  # again changes nothing
    gone = remove(door, tmp_path)
    assert gone.removed == done.written
    assert everything(tmp_path) == before and [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize("door", DOORS)
def test_no_file_of_a_project_is_written_over(door: str, tmp_path: Path) -> None:
    """A project that has a file of every name: those that are for filling in stay, of the others there is a copy."""
    for item in DOORS[door].items():
        (tmp_path / item.target).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / item.target).write_text(f"the project's {item.target}\n", encoding="utf-8")
    before = everything(tmp_path)
    done = adopt(door, tmp_path)
    after = everything(tmp_path)
    for name, content in before.items():
        assert after[done.copies.get(name, name)] == content
    assert set(done.written) == set(done.copies) and done.written
    assert all(f".{BEFORE}." in copy for copy in done.copies.values())
    gone = remove(door, tmp_path)
    assert everything(tmp_path) == before and gone.restored == done.written


def test_what_the_user_has_changed_stays(tmp_path: Path) -> None:
    (tmp_path / "engineV2.py").write_text("theirs\n", encoding="utf-8")
    adopt("apitest", tmp_path)
    for name in ("engineV2.py", "tools/tol_csv_stat.py"):
        (tmp_path / name).write_text("changed\n", encoding="utf-8")
    assert adopt("apitest", tmp_path).left == ["engineV2.py", "tools/tol_csv_stat.py"]
    gone = remove("apitest", tmp_path)
    assert gone.changed == ["engineV2.changed-by-you.py", "tools/tol_csv_stat.py"]
    assert (tmp_path / "engineV2.py").read_text(encoding="utf-8") == "theirs\n"
    assert (tmp_path / "engineV2.changed-by-you.py").read_text(encoding="utf-8") == "changed\n"
    assert (tmp_path / "tools" / "tol_csv_stat.py").read_text(encoding="utf-8") == "changed\n"


def test_two_predecessors_in_one_project(tmp_path: Path) -> None:
    first = adopt("apex", tmp_path / "project")
    second = adopt("ptdbg", tmp_path / "project")
    assert "setup.py" in first.written  # the folder was made for it: it is what a checkout was
    remove("apex", tmp_path / "project")
    assert set(everything(tmp_path / "project")) == {MEMORY, *second.written}


def test_a_project_with_something_in_it_gets_no_setup(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "setup.py" not in adopt("apex", tmp_path).written


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("nonsense", "not whole JSON"),
        ('{"format": 9, "doors": {}}', "format is 9"),
        ('{"format": 1, "doors": {"apex": {"written": {"../theirs": "x"}, "copies": {}, "folders": []}}}', "no file"),
        ('{"format": 1, "doors": {"apex": {"written": {"/etc/x": ""}, "copies": {}, "folders": []}}}', "no file below"),
        ('{"format": 1, "doors": {"apex": 3}}', "doors"),
    ],
)  # fmt: skip
def test_a_damaged_memory_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / MEMORY).write_text(content, encoding="utf-8")
    for do in (adopt, remove):
        with pytest.raises(UsageError, match=said):
            do("apex", tmp_path)
    assert list(everything(tmp_path)) == [MEMORY]


def test_nothing_is_written_out_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "tools").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="leads out of"):
        adopt("apitest", tmp_path / "project")
    assert not list((tmp_path / "elsewhere").iterdir()) and not (tmp_path / "project" / "engineV2.py").exists()


def test_a_link_in_the_place_of_a_file_is_kept_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text("shared\n", encoding="utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "engineV2.py").symlink_to(tmp_path / "shared.py")
    adopt("apitest", tmp_path / "project")
    assert (tmp_path / "shared.py").read_text(encoding="utf-8") == "shared\n"
    remove("apitest", tmp_path / "project")
    assert (tmp_path / "project" / "engineV2.py").is_symlink()


def test_the_folder_of_the_project_is_meant(tmp_path: Path) -> None:
    (tmp_path / "test_tipc").mkdir()
    with pytest.raises(UsageError, match=f"give the folder of the project, {tmp_path}$"):
        adopt("tipc", tmp_path / "test_tipc")
    assert not list((tmp_path / "test_tipc").iterdir())


def test_what_was_not_adopted_is_not_removed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has not adopted apex"):
        remove("apex", tmp_path)
    adopt("ptdbg", tmp_path)
    with pytest.raises(UsageError, match="only ptdbg"):
        remove("apex", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no folder"):
        adopt("apex", tmp_path / "file")


IMPORTS = {
    "ptdbg": "from ptdbg_ascend import *; register_hook, compare",
    "checker": "from importlib.util import find_spec; assert find_spec('api_accuracy_checker.dump')",  # it starts one
    "apex": "from paddleapex import Tracer; Tracer()",
}


@pytest.mark.parametrize("door", IMPORTS)
def test_names_are_found_from_the_folder_of_the_script(door: str, tmp_path: Path, adopted_shell: Shell) -> None:
    adopt(door, tmp_path / "project")
    (tmp_path / "project" / "main.py").write_text(IMPORTS[door] + "\n", encoding="utf-8")
    adopted_shell(f"python {tmp_path / 'project' / 'main.py'}")


COMMANDS = {
    "apex": "cd paddleapex/apex && python run_paddle.py --help",
    "checker": "cd api_accuracy_checker/run_ut && python run_ut.py --help",
    "apitest": "python engineV2.py --help && python tools/retest_remover.py --help && bash -n run-example.sh",
}


@pytest.mark.parametrize("door", COMMANDS)
def test_scripts_lie_where_the_documents_call_them(door: str, tmp_path: Path, adopted_shell: Shell) -> None:
    adopt(door, tmp_path / "project")
    adopted_shell(COMMANDS[door], folder=tmp_path / "project")


def test_the_config_of_the_project_is_in_force(tmp_path: Path, adopted_shell: Shell) -> None:
    """PaddleAPEX tells its user to edit tool_config.yaml below the package: that of the project is read, not ours."""
    adopt("apex", tmp_path)
    path = tmp_path / "paddleapex" / "api_tracer" / "configs" / "tool_config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("target_step: [0]", "target_step: [7]"), encoding="utf-8")
    (tmp_path / "main.py").write_text(
        "from paddleapex import Tracer\nc = Tracer().config\nprint(c.target_step, c.op_target)\n", encoding="utf-8"
    )
    said = adopted_shell("python main.py").stdout
    assert said == f"(7,) {path.parent / 'op_target.yaml'}\n"


def test_the_memory_is_plain(tmp_path: Path) -> None:
    done = adopt("ptdbg", tmp_path)
    content = json.loads((tmp_path / MEMORY).read_text(encoding="utf-8"))
    assert content["format"] == 1 and list(content["doors"]["ptdbg"]["written"]) == done.written
