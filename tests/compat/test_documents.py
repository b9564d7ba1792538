"""The snippets and commands of two documents, typed as they are printed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.compat.conftest import NAMES, Shell
from tests.compat.documents import DOCUMENTS, LISTED, PTDBG, ROOT, printed

pytest.importorskip("torch")

PROGRAM = '''
import shutil, json
from pathlib import Path
from ptdbg_ascend import *
import torch

model = torch.nn.Conv2d(1, 1, 3)
value = torch.randn(1, 1, 8, 8)

def train(times=4):
    """Calls everything that the document names: conv2d, batch_norm, abs, permute, transpose, relu, some times each."""
    total = torch.zeros(())
    for _ in range(times):
        hidden = value.abs().permute(0, 1, 2, 3).transpose(2, 3)
        total = total + torch.relu(model(torch.batch_norm(
            hidden, None, None, None, None, True, 0.1, 1e-5, False))).argmax().float() + model(hidden).sum()
        total = total + torch.relu(model(hidden)).sum()
    total.backward()

def names(tag, name="npu_dump_scope"):
    lines = Path(f"{tag}_v1.0/rank0/{name}.pkl").read_text().splitlines()
    return {json.loads(line)[0].rpartition("_stack")[0] or json.loads(line)[0].split("_input")[0].split("_output")[0]
            for line in lines}

seed_all()
seed_all(mode=True)
for side in ("npu", "gpu"):
    set_dump_path("./npu_dump.pkl", dump_tag="dump_conv2d")
    register_hook(model, acc_cmp_dump)
    set_dump_switch("ON")
    train()
    set_dump_switch("OFF")
    shutil.copy("dump_conv2d_v1.0/rank0/npu_dump.pkl", f"./{side}_dump.pkl")
    stamp = "20230104_13434" if side == "npu" else "20230104_132544"
    shutil.copytree("dump_conv2d_v1.0/rank0/npu_dump", f"./{side}_dump_{stamp}")
    shutil.copytree("dump_conv2d_v1.0/rank0/npu_dump", "xxx", dirs_exist_ok=True)
    set_dump_path("./npu_dump.pkl", dump_tag="dump_conv2d")
    register_hook(model, acc_cmp_dump)
    set_dump_switch("ON", mode="api_stack")
    train()
    set_dump_switch("OFF")
    shutil.copy("dump_conv2d_v1.0/rank0/api_stack_npu_dump.pkl", f"./api_stack_{side}_dump.pkl")
    shutil.copytree("dump_conv2d_v1.0/rank0/api_stack_npu_dump", f"./api_stack_{side}_dump_{stamp}")
Path("output").mkdir()
dump_result_param={
"npu_pkl_path": "./npu_dump.pkl",
"bench_pkl_path": "./gpu_dump.pkl",
"npu_dump_data_dir": "./npu_dump_20230104_13434",
"bench_dump_data_dir": "./gpu_dump_20230104_132544",
"is_print_compare_log": True
}
compare(dump_result_param, "./output", True)
dump_result_param={
"npu_pkl_path": "./api_stack_npu_dump.pkl",
"bench_pkl_path": "./api_stack_gpu_dump.pkl",
"npu_dump_data_dir": "./api_stack_npu_dump_20230104_13434",
"bench_dump_data_dir": "./api_stack_gpu_dump_20230104_132544",
"is_print_compare_log": True
}
compare(dump_result_param, "./output", True, stack_mode=True)

set_dump_path("./npu_dump_scope.pkl")
register_hook(model, acc_cmp_dump)
found = {}
'''
MODES = tuple(line for line in PTDBG if line.startswith("set_dump_switch(\"ON\", ") and "conv2d" not in line)
ACL = '''
register_hook(model, acc_cmp_dump, dump_mode='acl', dump_config='dump.json')
set_dump_switch("ON", mode="acl", scope=["Tensor_permute_1_forward"])
train()
set_dump_switch("OFF")
register_hook(model, acc_cmp_dump, dump_mode='acl', dump_config='dump.json')
set_dump_switch("ON", mode="acl", scope=["Functional_conv2d_1_backward"])
set_backward_input(["xxx/Functional_conv2d_1_backward_input.0.npy"])
train()
set_dump_switch("OFF")
for rank_id in (0, 1):
    for folder in ("dump_path", "dump_gpu"):
        set_dump_path(f'./{folder}/myDump.pkl', dump_tag='dump_conv2d')
        register_hook(model, acc_cmp_dump, rank=rank_id)
        set_dump_switch("ON")
        train()
        set_dump_switch("OFF")
compare_distributed('dump_path/dump_conv2d_v1.0', 'dump_gpu/dump_conv2d_v1.0', './output')
for tag in ("all", "conv2d_stack"):
    set_dump_path('./dump_resnet50/dump.pkl', dump_tag=tag)
print("FOUND", json.dumps({name: sorted(one) for name, one in found.items()}))
'''
OVERFLOW = """
from ptdbg_ascend import *
import torch
seed_all()
model = torch.nn.Linear(2, 2)
{register}
set_overflow_check_switch("OFF")
torch.full((3,), 900.0).exp()
set_overflow_check_switch("ON")
for _ in range(3):
    torch.full((3,), 900.0).exp()
set_overflow_check_switch("OFF")
"""
CONFIG = {"dump": {"dump_list": [], "dump_path": "acl", "dump_mode": "all", "dump_op_switch": "on"}}
MAIN = """
{imports}
import torch
model = torch.nn.Linear(4, 2)
data = torch.utils.data.TensorDataset(torch.randn(12, 4))
for (value,) in torch.utils.data.DataLoader(data, batch_size=4):
    model(value).sum().backward()
"""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_printed_line_is_accounted_for(name: str) -> None:
    """Either a test types it, or both guides list it with the reason."""
    title, known = DOCUMENTS[name]
    guides = [ROOT / "docs" / place / f"{name}.md" for place in ("coming-from", "zh")]
    for line, where in known.items():
        if where == LISTED:
            assert all(f"`{line}`" in guide.read_text(encoding="utf-8") for guide in guides), line
        else:
            assert (ROOT / "tests" / "compat" / where).is_file()
    lines = printed(title)
    if lines is None:
        pytest.skip("the document itself is not here: its lines are those of tests/compat/documents.py")
    assert lines and not set(lines) - set(known)


def _mode(line: str) -> str:
    """A mode as it is printed, around one step; what it has dumped goes into ``found``."""
    step = f"{line}\ntrain()\nset_dump_switch('OFF')\n"
    if '"acl"' in line:
        return step
    name = "api_stack_npu_dump_scope" if "api_stack" in line else "npu_dump_scope"
    return f"{step}found[{line!r}] = names('ptdbg_dump', {name!r})\n"


def test_ptdbg_as_printed(tmp_path: Path, shell: Shell) -> None:
    modes = "".join(_mode(line) for line in MODES)
    (tmp_path / "dump.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "main.py").write_text(PROGRAM + modes + ACL, encoding="utf-8")
    said = shell("python main.py").stdout
    found = json.loads(said.partition("FOUND ")[2])
    lists, ranges, only = (
        [set(one) for line, one in found.items() if any(f'mode="{mode}"' in line for mode in modes)]
        for modes in (("list",), ("range", "stack"), ("api_list",))
    )
    assert {"Tensor_permute_1_forward", "Tensor_transpose_2_forward", "Torch_relu_3_backward"} in lists
    assert {"Tensor_permute_1_forward", "Tensor_transpose_2_forward", "Torch_relu_3_forward"} in lists
    assert len(ranges) == 3 and all({"Tensor_abs_1_forward", "Tensor_transpose_2_forward"} <= one for one in ranges)
    assert all("Tensor_abs_0_forward" not in one and not any("backward" in name for name in one) for one in ranges)
    assert {name.rsplit("_", 2)[0] for name in only[0]} == {"Torch_relu"}
    assert len(list((tmp_path / "output").glob("compare_result_2*.csv"))) >= 1
    assert len(list((tmp_path / "output").glob("advisor_*.txt"))) >= 3
    assert len(list((tmp_path / "output").glob("compare_result_rank*-rank*_*.csv"))) == 2
    assert len(list((tmp_path / "output").glob("compare_result_merged_*.csv"))) == 1
    kernels = {path.name.partition(".")[0] for path in (tmp_path / "acl").rglob("*.npy")}
    assert {"abs", "permute", "convolution_backward"} == kernels
    assert sorted(one.name for one in (tmp_path / "dump_path" / "dump_conv2d_v1.0").iterdir()) == ["rank0", "rank1"]


@pytest.mark.parametrize(("register", "times", "kernels"), [
    ("register_hook(model, overflow_check, overflow_nums=2)", 2, False),
    ("register_hook(model, overflow_check, dump_mode='acl', dump_config='{folder}/dump.json')", 1, True),
])  # fmt: skip
def test_overflow_checks_as_printed(tmp_path: Path, shell: Shell, register: str, times: int, kernels: bool) -> None:
    (tmp_path / "dump.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    program = OVERFLOW.format(register=register.replace("{folder}", str(tmp_path)))
    (tmp_path / "main.py").write_text(program, encoding="utf-8")
    last = shell("python main.py", codes=(1,)).stderr.rstrip().splitlines()[-1]
    assert last.startswith(f"ValueError: [overflow {times} times]: dump file is saved in '") and last.endswith(".pkl'.")
    assert len(list((tmp_path / "ptdbg_dump_v1.0" / "rank0").glob("Overflow_info_*.pkl"))) == times
    assert bool(list((tmp_path / "acl").rglob("exp.*.npy"))) is kernels


def test_the_checker_as_printed(tmp_path: Path, shell: Shell) -> None:
    home = tmp_path / "att"
    tools = home / "debug" / "accuracy_tools"
    shutil.copytree(NAMES, tools)
    (tmp_path / "my" / "dump" / "path").mkdir(parents=True)
    imports = (
        "from api_accuracy_checker.dump import msCheckerConfig\nmsCheckerConfig.update_config("
        'dump_path="my/dump/path", real_data=True, enable_dataloader=True, target_iter=1)'
    )
    path = "export PYTHONPATH=$PYTHONPATH:$ATT_HOME/debug/accuracy_tools/"
    real = {"ATT_HOME": str(home), "PYTHONPATH": str(ROOT / "src")}
    for text in ("import api_accuracy_checker.dump", imports):
        (tmp_path / "main.py").write_text(MAIN.format(imports=text), encoding="utf-8")
        done = shell(f"{path}\npython main.py", codes=(1,), **real)
        assert done.stderr.rstrip().endswith("Exception: Model pretest: exit after iteration 1.")
    assert list((tmp_path / "my" / "dump" / "path" / "forward_real_data").glob("*.pt"))
    run_ut = tools / "api_accuracy_checker" / "run_ut"
    for what in ("forward", "backward"):
        (file,) = tmp_path.glob(f"{what}_info_*.json")
        shutil.copy(file, run_ut / f"{what}_info_0.json")
    place = f"{path}\ncd $ATT_HOME/debug/accuracy_tools/api_accuracy_checker/run_ut\n"
    command = "python run_ut.py -forward ./forward_info_0.json -backward ./backward_info_0.json -save_error_data"
    said = shell(f"{place}{command}", **real).stdout
    assert "exit code 0: no API is wrong by either rule" in said and (run_ut / "ut_error_data").is_dir()
    assert (run_ut / "accuracy_checking_result.csv").is_file() and (run_ut / "accuracy_checking_details.csv").is_file()
    said = shell(f"{place}python run_overflow_check.py -forward ./forward_info_0.json", **real).stdout
    assert "[Functional*linear*0] does not overflow" in said
