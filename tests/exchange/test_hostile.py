"""Dumps that are damaged, hostile or of an unknown kind: one clear error, exit code 2, nothing written, nothing run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Spec, array, write_run
from trueline.cli import export as export_command
from trueline.cli import import_ as import_command
from trueline.errors import TruelineError, UsageError
from trueline.exchange import export_run, import_run
from trueline.store import open_run

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = array(4, 8)
    paddle = Spec("paddle.abs", [x], [np.abs(x)])
    return write_run(tmp_path_factory.mktemp("hostile") / "run", [Spec("torch.abs", [x], [np.abs(x)]), paddle])


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content) or content))


def put(*keys: Any, value: Any) -> Callable[[Any], None]:
    """A change of the value under some keys."""

    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


MSPROBE = "step0/rank0/dump.json"
CALL = ("data", "Torch.abs.0.forward")
FIRST = (*CALL, "input_args", 0)
ESCAPES = [
    "../../../etc/passwd",
    "/etc/passwd",
    "..",
    "a/b.pt",
    "a\\b.pt",
    "C:x.pt",
    "x\x00.pt",
    "",
    "y" * 2000,
    "y" * 300,  # a name, but no file can have it
    "\ud800",
]


@pytest.mark.parametrize("name", ESCAPES, ids=range(len(ESCAPES)))
def test_names_do_not_lead_out_of_the_dump(name: str, run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "dump", format="msprobe")
    edit_json(tmp_path / "dump" / MSPROBE, put(*FIRST, "data_name", value=name))
    if not name:  # msprobe's word for no file
        assert import_run(tmp_path / "dump", tmp_path / "out").calls == 2
        return
    with pytest.raises(TruelineError, match="cannot read"):
        import_run(tmp_path / "dump", tmp_path / "out")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dump"]


def test_a_link_that_leads_out_is_refused(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.npy"
    np.save(secret, np.zeros(3, np.float32))
    export_run(run, tmp_path / "dump", format="ptdbg")
    file = next((tmp_path / "dump/rank0/dump").glob("Torch_abs_0_forward_input*.npy"))
    file.unlink()
    file.symlink_to(secret)
    with pytest.raises(TruelineError, match="leads out"):
        import_run(tmp_path / "dump", tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("framework", value="mindspore"), "framework 'mindspore'"),
        (put("task", value="free_benchmark"), "task 'free_benchmark' is not known"),
        (put("data", value=[]), "no table 'data'"),
        (put(*FIRST, "shape", value=[10**30]), "not a shape"),
        (put(*FIRST, "shape", value=[2**50, 2**50]), "absurd"),
        (put(*FIRST, "shape", value=[4, 9]), "the dump says"),
        (put(*FIRST, "shape", value=[-1]), "not a shape"),
        (put(*FIRST, "dtype", value="torch.float7"), "not known"),
        (put(*FIRST, "dtype", value=None), "not a name"),
        (put(*CALL, "input_args", value=[[[[[[[[[[]]]]]]]]]] * 9), None),
        (put("data", "x" * 5000, value={}), "not a name"),
    ],
    ids=range(11),
)
def test_records_that_make_no_sense(change: Callable[[Any], None], says: str | None, run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "dump", format="msprobe")
    edit_json(tmp_path / "dump" / MSPROBE, change)
    if says is None:
        assert import_run(tmp_path / "dump", tmp_path / "out").calls == 2
        return
    with pytest.raises(TruelineError, match=says):
        import_run(tmp_path / "dump", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("depth", [100, 100_000])
def test_arguments_that_are_nested_absurdly(depth: int, run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "dump", format="msprobe")
    path = tmp_path / "dump" / MSPROBE
    path.write_text(path.read_text().replace('"input_args": [', '"input_args": [' + "[" * depth + "]" * depth + ",", 1))
    with pytest.raises(TruelineError, match=r"nested absurdly|not whole JSON"):
        import_run(tmp_path / "dump", tmp_path / "out")


@pytest.mark.parametrize("format", ["msprobe", "ptdbg", "checker", "apex"])
def test_a_dump_cut_off_anywhere(format: str, run: Path, tmp_path: Path) -> None:
    """Every file of a dump, cut at several places: an error, or what is whole (a file of lines)."""
    export_run(run, tmp_path / "dump", format=format)
    unread = ("_half.json", "_other.json")  # they repeat what another one says
    files = [one for one in (tmp_path / "dump").rglob("*") if one.is_file() and not one.name.endswith(unread)]
    for file in sorted(files):
        whole = file.read_bytes().rstrip()
        for share in (0.0, 0.3, 0.7, 0.99):
            file.write_bytes(whole[: int(len(whole) * share)])
            says = _refusal(tmp_path / "dump", tmp_path / "out", format)
            assert "cannot read" in says or "holds no calls" in says or (not says and file.suffix == ".pkl")
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
        file.write_bytes(whole)
    assert not list(tmp_path.glob(".*"))


def _refusal(dump: Path, out: Path, format: str) -> str:
    """Why a dump is not read; empty where it is, and then there is something in the Run."""
    try:
        import_run(dump, out, format=format)
    except TruelineError as error:
        return str(error)
    with open_run(out) as opened:
        assert opened.rank(0).call_count
    return ""


def test_a_real_pickle_in_the_place_of_ptdbg_lines(tmp_path: Path) -> None:
    import pickle

    class Payload:
        def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/x.pkl").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(TruelineError, match="nothing in it was executed"):
        import_run(tmp_path / "dump", tmp_path / "out")
    assert not (tmp_path / "ran").exists()


def test_a_payload_in_a_tensor_file_is_not_run(run: Path, tmp_path: Path) -> None:
    import io
    import pickle
    import zipfile

    class Payload:
        def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload(), 2))
    for format in ("msprobe", "checker", "apex"):
        export_run(run, tmp_path / format, format=format)
        for content in (stream.getvalue(), pickle.dumps(Payload(), 4)):
            for file in (tmp_path / format).rglob("*.pt"):
                file.write_bytes(content)
            with pytest.raises(TruelineError, match="system"):
                import_run(tmp_path / format, tmp_path / "out")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "path", ["../forward_real_data/../../x.pt", "/etc/passwd", "x.pt", "other/x.pt", "forward_real_data/..", 7]
)
def test_datapaths_of_the_checker(path: Any, run: Path, tmp_path: Path) -> None:
    export_run(run, tmp_path / "dump", format="checker")
    edit_json(tmp_path / "dump/forward_info_0.json", put("Torch*abs*0", "args", 0, "datapath", value=path))
    with pytest.raises(TruelineError, match="cannot read"):
        import_run(tmp_path / "dump", tmp_path / "out")


def test_a_dump_from_another_machine_is_read_where_it_is(run: Path, tmp_path: Path) -> None:
    """The paths in it are those of the machine that wrote it."""
    export_run(run, tmp_path / "dump", format="checker")
    edit_json(
        tmp_path / "dump/forward_info_0.json",
        put("Torch*abs*0", "args", 0, "datapath", value="/home/npu/forward_real_data/Torch_abs_0.0.pt"),
    )
    name = next((tmp_path / "dump/forward_real_data").iterdir())
    name.rename(name.with_name("Torch_abs_0.0.pt"))
    assert import_run(tmp_path / "dump", tmp_path / "out").stored_bytes == 4 * 8 * 4


def test_memory_stays_bounded(run: Path, tmp_path: Path) -> None:
    """A shape of a terabyte, with room for half a gigabyte."""
    export_run(run, tmp_path / "dump", format="msprobe")
    edit_json(tmp_path / "dump" / MSPROBE, put(*FIRST, "shape", value=[1 << 38]))
    script = (
        "import atexit, re, resource, sys\n"
        # Not ru_maxrss: a child begins with that of its parent, here all the tests that ran before.
        "peak = lambda: re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "atexit.register(lambda: print('peak', peak()))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from trueline.cli import import_\n"
        "import_.run(import_.parser().parse(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "dump"), "--out", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "ForeignFileError" in done.stderr and "MemoryError" not in done.stderr
    assert int(done.stdout.rpartition("peak")[2]) < 1 << 20


def test_what_is_no_dump(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, says in ((tmp_path / "empty", "no dump that is known"), (tmp_path / "not", "does not exist"),
                         (run, "is a Run already")):  # fmt: skip
        with pytest.raises(TruelineError, match=says):
            import_run(folder, tmp_path / "out")
    with pytest.raises(UsageError, match="unknown format"):
        import_run(run, tmp_path / "out", format="nonsense")
    export_run(run, tmp_path / "two", format="msprobe")
    export_run(run, tmp_path / "two_more", format="ptdbg")
    (tmp_path / "two_more/rank0").rename(tmp_path / "two/rank0")
    with pytest.raises(UsageError, match="msprobe or ptdbg: say which"):
        import_run(tmp_path / "two", tmp_path / "out")
    assert import_run(tmp_path / "two", tmp_path / "out", format="ptdbg").calls == 2
    with pytest.raises(UsageError, match="exists already"):
        import_run(tmp_path / "two", tmp_path / "out", format="ptdbg")


def test_files_are_known_by_their_names(run: Path, tmp_path: Path) -> None:
    files = {
        "msprobe": "step0/rank0/dump.json",
        "ptdbg": "rank0/dump.pkl",
        "checker": "forward_info_0.json",
        "apex": "rank0_step0/forward_rank0_all.json",
    }
    for format, name in files.items():
        export_run(run, tmp_path / format, format=format)
        found = import_run(tmp_path / format / name, tmp_path / f"{format}_run")
        assert found.format == format and found.calls >= 1
    (tmp_path / "renamed.json").write_bytes((tmp_path / "apex/rank0_step0/forward_rank0_all.json").read_bytes())
    with pytest.raises(TruelineError, match="no dump that is known"):
        import_run(tmp_path / "renamed.json", tmp_path / "out")
    assert import_run(tmp_path / "renamed.json", tmp_path / "out", format="apex").calls == 1


def test_gradients_of_msprobe_are_not_taken_for_those_of_arguments(run: Path, tmp_path: Path) -> None:
    """They are those of the last node of the graph, in an order of its own."""
    export_run(run, tmp_path / "dump", format="msprobe")
    leaf = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        "Max": 1.0,
        "Min": 0.0,
        "Mean": 0.5,
        "Norm": 1.0,
    }
    record = {"input": [leaf], "output": [leaf, None, leaf]}
    edit_json(tmp_path / "dump" / MSPROBE, put("data", "Torch.abs.0.backward", value=record))
    module = {"input": [leaf], "output": [leaf]}
    edit_json(tmp_path / "dump" / MSPROBE, put("data", "Module.a.b.Linear.backward.0", value=module))
    import_run(tmp_path / "dump", tmp_path / "out")
    with open_run(tmp_path / "out") as opened:
        calls = list(opened.rank(0).trace())
    assert [one.path for one in calls[-2].outputs] == ["gradients.0", "gradients.2"]
    assert calls[-2].forward_id == calls[0].id
    assert [one.path for one in calls[-1].outputs] == ["args.0"] and calls[-1].module == "a.b"


def test_the_commands(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(run), "--format", "ptdbg", "--out", str(tmp_path / "dump")]
    assert export_command.run(export_command.parser().parse(words)) == 0
    assert "2 calls with 4 tensors" in capsys.readouterr().out
    words = [str(tmp_path / "dump"), "--out", str(tmp_path / "back"), "--json"]
    assert import_command.run(import_command.parser().parse(words)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "ptdbg" and found["calls"] == 2 and found["left_out"] == {}
    for bad in ([str(run)], [str(run), "--format", "apex"], [str(run), "--configs", "x", "--format", "apex"],
                [str(run), str(run), "--format", "apex", "--out", "x"]):  # fmt: skip
        with pytest.raises(UsageError):
            export_command.run(export_command.parser().parse(bad))


def test_files_as_the_old_tools_wrote_them(tmp_path: Path) -> None:
    """Lines and entries as their documents show them."""
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "npu_dump.pkl").write_text(
        '["Functional_linear_0_forward_input.0", 0, [], "torch.float32", [2, 16], [2.0942, -2.9441, 0.0236, 10.157]]\n'
        '["Functional_linear_0_forward_input.1", 0, [], "<class \'float\'>", [], [0.5, 0.5, 0.5]]\n'
        '["Functional_linear_0_forward_output", 0, [], "torch.float32", [2, 32], [1.7517, -1.3328, 0.0049]]\n'
        '["Functional_linear_0_forward_stack_info", [["/p/linear.py", "134", "forward", "return F.linear(...)"]]]\n'
        '["Functional_linear_0_backward_input.0", 101, [], "torch.float32", [2, 32], []]\n'
    )
    assert import_run(folder, tmp_path / "a").calls == 2
    with open_run(tmp_path / "a") as opened:
        first, second = opened.rank(0).trace()
        assert first.source == "/p/linear.py:134 in forward" and first.arguments["args"] == [{"$t": 0}, 0.5]
        assert second.step == 0 and second.forward_id == first.id and second.tensors[0].missing
    (folder / "npu_dump.pkl").unlink()
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 16], "Max": 3.029, "Min": -2.359}
    half, none = {"type": "float", "value": 0.5}, {"type": "NoneType", "value": None}
    forward = {
        "Functional_dropout_0": {"args": [tensor, half], "kwargs": {}},
        "Functional*linear*1": {"args": [tensor], "kwargs": {"bias": none}},
    }
    (folder / "forward_info_2039.json").write_text(json.dumps(forward))
    (folder / "stack_info_2039.json").write_text(
        json.dumps(
            {"Functional*linear*1": ["File /x.py, line 9, in f, \n code", "File /y.py, line 3, in <module>, \n c"]}
        )
    )
    assert import_run(folder, tmp_path / "b").calls == 2
    with open_run(tmp_path / "b") as opened:
        first, second = opened.rank(0).trace()
        assert first.name == "torch.nn.functional.dropout.0.forward" and first.arguments["args"][1] == 0.5
        assert second.source == "/x.py:9 in f" and second.arguments["kwargs"] == {"bias": None}
        assert first.tensors[0].statistics is not None and first.tensors[0].statistics.maximum == 3.029


def test_a_dump_as_msprobe_writes_it(tmp_path: Path) -> None:
    """Records in the form that version 26.2 gave them: modules, gradients of parameters, an optimizer, checksums."""

    def leaf(*shape: int, **more: Any) -> dict[str, Any]:
        numbers = {"Max": 1.5, "Min": -1.0, "Mean": 0.25, "Norm": 3.0}
        return {
            "type": "torch.Tensor",
            "dtype": "torch.float32",
            "shape": shape,
            **numbers,
            "requires_grad": True,
            **more,
        }

    data = {
        "Functional.linear.0.forward": {
            "input_args": [leaf(32, 64), leaf(96, 64), leaf(96)], "input_kwargs": {}, "output": [leaf(32, 96)],
        },
        "Module.0.Linear.forward.0": {
            "input_args": [leaf(32, 64)], "input_kwargs": {}, "output": [leaf(32, 96)],
            "parameters": {"weight": leaf(96, 64), "bias": leaf(96)},
        },
        "Functional.linear.0.backward": {"input": [leaf(32, 96)], "output": [leaf(96), None, leaf(64, 96)]},
        "Module.0.Linear.parameters_grad.0": {"bias": [leaf(96)], "weight": [leaf(96, 64)]},
        "Module.0.Linear.backward.0": {"input": [leaf(32, 96)], "output": [None]},
        "Tensor.lerp_.0.forward": {
            "input_args": [leaf(96, 64), leaf(96, 64), {"type": "float", "value": 0.1}], "input_kwargs": {},
            "output": [leaf(96, 64)],
        },
    }  # fmt: skip
    place = tmp_path / "dump/step3/proc15878"
    place.mkdir(parents=True)
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (place / "dump.json").write_text(json.dumps(head))
    parents = {"Functional.linear.0.forward": "Module.0.Linear.forward.0", "Module.0.Linear.forward.0": None,
               "Tensor.lerp_.0.forward": "optimizer"}  # fmt: skip
    (place / "construct.json").write_text(json.dumps(parents))
    lines = ["File /v/site-packages/torch/nn/modules/linear.py, line 134, in forward, \n return F.linear(",
             "File /home/x/train.py, line 67, in step, \n logits = net(inputs)"]  # fmt: skip
    (place / "stack.json").write_text(json.dumps({"0": [["Functional.linear.0.forward"], lines]}))
    found = import_run(tmp_path / "dump", tmp_path / "out")
    assert (found.calls, found.steps, found.ranks, dict(found.left_out)) == (5, (3,), (0,), {})
    with open_run(tmp_path / "out") as opened:
        linear, module, back, module_back, optimizer = opened.rank(0).trace()
    assert linear.module == "0" and linear.module_class == "Linear" and linear.source == "/home/x/train.py:67 in step"
    assert [one.path for one in module.tensors][1:3] == ["parameters.weight", "parameters.bias"]
    assert back.forward_id == linear.id and module_back.forward_id == module.id
    assert sorted(one.path for one in module_back.outputs) == ["parameters.bias", "parameters.weight"]
    assert optimizer.context == "optimizer" and optimizer.arguments["args"][2] == 0.1


def test_checksums_say_what_is_equal(tmp_path: Path) -> None:
    from trueline.diagnose.runs import compare_runs
    from trueline.records import Verdict

    for name, output in (("a", "1a2b3c4d"), ("b", "1a2b3c4d"), ("c", "ffffffff")):
        place = tmp_path / name / "step0/rank0"
        place.mkdir(parents=True)
        leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 8], "requires_grad": False}
        record = {"input_args": [{**leaf, "md5": "00000001"}], "input_kwargs": {}, "output": [{**leaf, "md5": output}]}
        head = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": {"Torch.exp.0.forward": record}}
        (place / "dump.json").write_text(json.dumps(head))
        import_run(tmp_path / name, tmp_path / f"{name}_run")
    assert compare_runs(tmp_path / "a_run", tmp_path / "b_run").verdict is Verdict.PASS
    assert compare_runs(tmp_path / "a_run", tmp_path / "c_run").verdict is Verdict.NOT_COMPARED
