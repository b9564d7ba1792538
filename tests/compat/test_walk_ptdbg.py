"""Walks through the document of ptdbg_ascend, in its order, with its snippets."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.compat.conftest import Shell

torch = pytest.importorskip("torch")

from trueline.compat import ptdbg_ascend  # noqa: E402
from trueline.compat.ptdbg_ascend import compare, compare_distributed, parse  # noqa: E402
from trueline.compat.ptdbg_ascend.names import call_named  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.report.csv import COLUMNS  # noqa: E402

HEAD = """
import json, sys
from pathlib import Path
from ptdbg_ascend import *
import torch

seed_all()
seed_all(mode=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = torch.randn(4, 8)

def train():
    hidden = torch.abs(data).permute(1, 0).transpose(0, 1) * FACTOR
    kinds = hidden.argmax(1) % 4
    loss = torch.nn.functional.cross_entropy(model(hidden), kinds)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WHOLE = """
FACTOR = float(sys.argv[2])
set_dump_path(f"./{sys.argv[1]}_dump.pkl", dump_tag="dump_conv2d")
register_hook(model, acc_cmp_dump)
train()
set_dump_switch("ON")
train()
set_dump_switch("OFF")
train()
set_dump_path(f"./stack/{sys.argv[1]}_dump.pkl")
register_hook(model, acc_cmp_dump, rank=int(sys.argv[3]))
set_dump_switch("ON", mode="api_stack")
train()
set_dump_switch("OFF")
"""
CARDS = """
FACTOR = 1.0
for side in ("dump_path", "dump_gpu"):
    model.load_state_dict({name: torch.full_like(value, 0.5) for name, value in model.state_dict().items()})
    set_dump_path(f"./{side}/myDump.pkl", dump_tag="dump_conv2d")
    for rank_id in (0, 1):
        register_hook(model, acc_cmp_dump, rank=rank_id)
        set_dump_switch("ON", mode="api_stack")
        train()
        set_dump_switch("OFF")
"""
MODES = """
FACTOR = 1.0
def dump(name, **options):
    set_dump_path(f"./{name}/npu_dump_scope.pkl")
    register_hook(model, acc_cmp_dump)
    set_dump_switch("ON", **options)
    train()
    set_dump_switch("OFF")

scope = ["Tensor_permute_0_forward", "Tensor_transpose_0_forward", "Functional_relu_0_backward"]
dump("list", mode="list", scope=scope)
dump("range", mode="range", scope=["Torch_abs_0_forward", "Tensor_transpose_0_forward"])
dump("stack", mode="stack", scope=["Torch_abs_0_forward", "Tensor_transpose_0_forward"])
dump("api_list", mode="api_list", api_list=["relu"])
dump("integers", filter_switch="OFF")

config = {"dump": {"dump_list": [], "dump_path": "acl_output", "dump_mode": "all", "dump_op_switch": "on"}}
Path("dump.json").write_text(json.dumps(config))
set_dump_path("./acl/npu_dump_scope.pkl")
register_hook(model, acc_cmp_dump, dump_mode='acl', dump_config='dump.json')
set_dump_switch("ON", mode="acl", scope=["Torch_abs_0_forward"])
train()
set_dump_switch("OFF")
gradient = "integers/ptdbg_dump_v1.0/rank0/npu_dump_scope/Functional_linear_0_backward_input.0.npy"
Path("dump.json").write_text(json.dumps({"dump": {**config["dump"], "dump_path": "acl_backward"}}))
register_hook(model, acc_cmp_dump, dump_mode='acl', dump_config='dump.json')
set_dump_switch("ON", mode="acl", scope=["Functional_linear_0_backward"])
set_backward_input([gradient])
train()
set_dump_switch("OFF")
"""


def names_in(path: Path) -> list[str]:
    return [json.loads(line)[0] for line in path.read_text(encoding="utf-8").splitlines()]


def table(path: Path) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    return tuple(reader.fieldnames or ()), rows


def test_whole_dumps_and_their_comparison(tmp_path: Path, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(HEAD + WHOLE, encoding="utf-8")
    shell("python train.py npu 1.01 0")
    shell("python train.py gpu 1.0 0")
    folder = tmp_path / "dump_conv2d_v1.0" / "rank0"
    names = names_in(folder / "npu_dump.pkl")
    assert "Tensor_permute_0_forward_input.0" in names and "Functional_linear_1_backward_output.0" in names
    assert not any(name.endswith("_stack_info") for name in names)
    files = {path.stem for path in (folder / "npu_dump").glob("*.npy")}
    assert files <= set(names) and "Functional_linear_0_forward_output" in files
    assert "Tensor_argmax_0_forward_output" not in names  # integers are filtered

    # the comparison
    (tmp_path / "output").mkdir()
    param = {
        "npu_pkl_path": str(folder / "npu_dump.pkl"),
        "bench_pkl_path": str(folder / "gpu_dump.pkl"),
        "npu_dump_data_dir": str(folder / "npu_dump"),
        "bench_dump_data_dir": str(folder / "gpu_dump"),
        "is_print_compare_log": True,
    }
    path = compare(param, str(tmp_path / "output"), True)
    assert path.name.startswith("compare_result_") and path.suffix == ".csv"
    columns, rows = table(path)
    assert columns == COLUMNS
    reached = {row["NPU Name"]: row["Accuracy Reached or Not"] for row in rows}
    assert reached["Torch_abs_0_forward_output"] == "Yes"
    verdicts = {row["NPU Name"]: row["Verdict"] for row in rows if row["Verdict"] == "FAIL"}
    assert next(iter(verdicts)) == "Tensor_mul_0_forward_output"
    (advice,) = (tmp_path / "output").glob("advisor_*.txt")
    assert "trueline: torch.Tensor.mul.0.forward went wrong first" in advice.read_text(encoding="utf-8")
    assert "Suspect Nodes" in capsys.readouterr().out

    # with stacks
    folder = tmp_path / "stack" / "ptdbg_dump_v1.0" / "rank0"
    stacked = {
        "npu_pkl_path": str(folder / "api_stack_npu_dump.pkl"),
        "bench_pkl_path": str(folder / "api_stack_gpu_dump.pkl"),
        "npu_dump_data_dir": str(folder / "api_stack_npu_dump"),
        "bench_dump_data_dir": str(folder / "api_stack_gpu_dump"),
        "is_print_compare_log": False,
    }
    columns, rows = table(compare(stacked, str(tmp_path / "output"), True, stack_mode=True))
    assert columns == (*COLUMNS, "NPU_Stack_Info") and "train.py" in rows[0]["NPU_Stack_Info"]

    # scenario 2
    parse(str(folder / "api_stack_npu_dump.pkl"), "Functional_linear_1_forward")
    said = capsys.readouterr().out
    assert "Functional_linear_1_forward_stack_info" in said and "train.py" in said
    assert "  [Functional_linear_1_forward_output][dtype: torch.float32][shape: [4, 4]][max: " in said


def test_the_modes(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text(HEAD + MODES, encoding="utf-8")
    done = shell("python train.py")
    found = {
        name: names_in(tmp_path / name / "ptdbg_dump_v1.0" / "rank0" / "npu_dump_scope.pkl")
        for name in ("list", "range", "stack", "api_list", "integers")
    }
    stems = {name: {one.rpartition("_forward")[0] or one.rpartition("_backward")[0] for one in names}
             for name, names in found.items()}  # fmt: skip
    assert stems["list"] == {"Tensor_permute_0", "Tensor_transpose_0", "Functional_relu_0"}
    assert stems["range"] == {"Torch_abs_0", "Tensor_permute_0", "Tensor_transpose_0"}
    assert "Torch_abs_0_forward_stack_info" in found["range"]
    assert found["stack"] and all(name.endswith("_stack_info") for name in found["stack"])
    assert stems["api_list"] == {"Functional_relu_0"}
    assert "Tensor_argmax_0_forward_output" in found["integers"]
    assert "no Ascend NPU here: acl mode dumps the kernels" in done.stderr
    kernels = [path.name for path in (tmp_path / "acl_output").rglob("*.npy")]
    assert any(name.startswith("abs.") and ".input.0" in name for name in kernels)
    assert any(name.startswith("abs.") and ".output.0" in name for name in kernels)
    backward = {path.name.partition(".")[0] for path in (tmp_path / "acl_backward").rglob("*.npy")}
    assert backward & {"mm", "addmm"} and len(list((tmp_path / "acl_backward").rglob("mm.*.output.*.npy"))) >= 1


def test_several_cards(tmp_path: Path, shell: Shell) -> None:
    """Scenario 4: rank folders, compared pair by pair."""
    (tmp_path / "train.py").write_text(HEAD + CARDS, encoding="utf-8")
    shell("mkdir output && python train.py")
    sides = [tmp_path / side / "dump_conv2d_v1.0" for side in ("dump_path", "dump_gpu")]
    assert sorted(one.name for one in sides[0].iterdir()) == ["rank0", "rank1"]
    found = compare_distributed(str(sides[0]), str(sides[1]), str(tmp_path / "output"), stack_mode=True)
    assert len(found) == 2 and "rank1-rank1" in found[1].name
    assert {row["Verdict"] for row in table(found[1])[1]} <= {"PASS", "NOT_COMPARED"}
    (sides[1] / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match=r"holds notes\.txt"):
        compare_distributed(str(sides[0]), str(sides[1]), str(tmp_path / "output"))


def test_names() -> None:
    assert call_named("Tensor_permute_1_forward") == "torch.Tensor.permute.1.forward"
    assert call_named("Functional_layer_norm_12_backward") == "torch.nn.functional.layer_norm.12.backward"
    with pytest.raises(UsageError, match="not the name of a call"):
        call_named("permute")


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.compat.ptdbg_ascend import dumping

    monkeypatch.setattr(dumping, "session", dumping.Session())
    model = torch.nn.Linear(2, 2)
    with pytest.raises(UsageError, match=r"\.pkl file"):
        ptdbg_ascend.set_dump_path("folder")
    with pytest.raises(UsageError, match="set_dump_path before"):
        ptdbg_ascend.register_hook(model, ptdbg_ascend.acc_cmp_dump)
    ptdbg_ascend.set_dump_path(str(tmp_path / "a.pkl"))
    with pytest.raises(UsageError, match="register_hook"):
        ptdbg_ascend.set_dump_switch("ON")
    with pytest.raises(UsageError, match="needs dump_config"):
        ptdbg_ascend.register_hook(model, ptdbg_ascend.acc_cmp_dump, dump_mode="acl")
    with pytest.raises(UsageError, match="second argument"):
        ptdbg_ascend.register_hook(model, print)
    ptdbg_ascend.register_hook(model, ptdbg_ascend.acc_cmp_dump)
    for given, said in (
        ({"mode": "nonsense"}, "mode is one of"),
        ({"mode": "list"}, "needs scope"),
        ({"mode": "range", "scope": ["Torch_abs_0_forward"]}, "two names"),
        ({"mode": "api_list"}, "needs api_list"),
        ({"mode": "acl"}, "needs scope"),
        ({"mode": "list", "scope": ["abs"]}, "not the name of a call"),
        ({"filter_switch": "maybe"}, "filter_switch"),
    ):
        with pytest.raises(UsageError, match=said):
            ptdbg_ascend.set_dump_switch("ON", **given)
    with pytest.raises(UsageError, match="no file"):
        ptdbg_ascend.set_backward_input([str(tmp_path / "x.npy")])
    with pytest.raises(UsageError, match="npu_pkl_path is missing"):
        compare({}, str(tmp_path))
    with pytest.raises(UsageError, match="unknown key"):
        compare({"nonsense": 1}, str(tmp_path))
    with pytest.raises(UsageError, match="there is no"):
        compare({"npu_pkl_path": "a", "bench_pkl_path": "b"}, str(tmp_path))
    with pytest.raises(UsageError, match="no file"):
        parse(str(tmp_path / "missing.pkl"), "x")
