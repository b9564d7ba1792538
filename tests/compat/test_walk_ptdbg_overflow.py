"""Walks through scenario 3 of ptdbg_ascend's document, overflows, and its list of operators of the NPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compat.conftest import Shell

pytest.importorskip("torch")

HEAD = """
import json, os
from pathlib import Path
from ptdbg_ascend import *
import torch

seed_all()
seed_all(mode=True)
model = torch.nn.Linear(8, 8).half()
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def step(factor):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.1)
    hidden = model(torch.ones(4, 8).half())
    loss = (hidden * factor).exp().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", factor)
"""
TWICE = """
register_hook(model, overflow_check, overflow_nums=2)
step(1.0)
step(1000.0)
step(1.0)
step(2000.0)
step(1.0)
"""
KERNELS = """
config = {"dump": {"dump_list": [], "dump_path": "acl", "dump_mode": "all", "dump_op_switch": "on"}}
Path("dump.json").write_text(json.dumps(config))
register_hook(model, overflow_check, dump_mode='acl', dump_config='dump.json')
set_overflow_check_switch("OFF")
step(1000.0)
set_overflow_check_switch("ON")
step(1000.0)
set_overflow_check_switch("OFF")
"""

OPERATORS = (
    "one_ npu_sort_v2 npu_transpose npu_broadcast npu_dtype_cast empty_with_format npu_one_hot npu_stride_add "
    "npu_ps_roi_pooling npu_roi_align npu_nms_v4 npu_iou npu_nms_with_mask npu_pad npu_bounding_box_encode "
    "npu_bounding_box_decode npu_batch_nms npu_slice _npu_dropout npu_indexing npu_ifmr npu_max npu_scatter "
    "npu_layer_norm_eval npu_alloc_float_status npu_get_float_status npu_clear_float_status npu_confusion_transpose "
    "npu_bmmV2 fast_gelu npu_sub_sample npu_deformable_conv2d npu_mish npu_anchor_response_flags npu_yolo_boxes_encode "
    "npu_grid_assign_positive npu_normalize_batch npu_masked_fill_range npu_linear npu_bert_apply_adam npu_giou "
    "npu_ciou npu_ciou_backward npu_diou npu_diou_backward npu_sign_bits_pack npu_sign_bits_unpack"
).split()
STAND_IN = """
# Stands in for torch_npu: operators of its names, registered with torch as it does, and its dump.
import torch
_library = torch.library.Library("npu", "DEF")
for _name in NAMES.split():
    _library.define(f"{_name}(Tensor value) -> Tensor")
    _library.impl(_name, lambda value: value * 2, "CompositeExplicitAutograd")
    globals()[_name] = getattr(torch.ops.npu, _name)

class npu:
    @staticmethod
    def init_dump(): print("torch_npu: init_dump")
    @staticmethod
    def set_dump(path): print("torch_npu: set_dump", path)
    @staticmethod
    def finalize_dump(): print("torch_npu: finalize_dump")
"""
NPU = """
import json
from pathlib import Path
import torch, torch_npu
from ptdbg_ascend import *
set_dump_path("./npu_dump.pkl")
register_hook(torch.nn.Linear(2, 2), acc_cmp_dump)
set_dump_switch("ON", mode="api_stack")
value = torch.ones(2, 2)
for name in NAMES.split():
    getattr(torch_npu, name)(value)
set_dump_switch("OFF")
config = {"dump": {"dump_list": [], "dump_path": "acl", "dump_mode": "all", "dump_op_switch": "on"}}
Path("dump.json").write_text(json.dumps(config))
register_hook(torch.nn.Linear(2, 2), acc_cmp_dump, dump_mode="acl", dump_config="dump.json")
set_dump_switch("ON", mode="acl", scope=["Torch_abs_0_forward"])
torch.abs(value)
set_dump_switch("OFF")
"""


def test_the_program_ends_at_the_second_overflow(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text(HEAD + TWICE, encoding="utf-8")
    done = shell("python train.py", codes=(1,))
    assert "step 1.0" in done.stdout and done.stdout.count("step") < 5
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("ValueError: [overflow 2 times]: dump file is saved in '") and last.endswith(".pkl'.")
    folder = tmp_path / "ptdbg_dump_v1.0" / "rank0"
    files = sorted(folder.glob("Overflow_info_*.pkl"))
    assert len(files) == 2
    lines = [json.loads(line) for line in files[0].read_text(encoding="utf-8").splitlines()]
    assert {line[0].rpartition("_forward")[0] for line in lines} == {"Tensor_exp_1"}  # counted from the beginning
    assert all(line[5] == [] for line in lines if len(line) > 2)  # no statistics, as the document says
    assert (files[0].with_suffix("") / "Tensor_exp_1_forward_output.npy").exists()

    # what the other tool makes of it
    (forward,) = tmp_path.glob("forward_info_*.json")
    done = shell(f"python -m trueline.compat run_overflow_check -forward {forward}")
    assert "[Tensor*exp*1] is a normal overflow" in done.stdout


def test_kernels_of_an_overflow(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text(HEAD + KERNELS, encoding="utf-8")
    done = shell("python train.py", codes=(1,))
    assert "[overflow 1 times]" in done.stderr
    assert len(list((tmp_path / "ptdbg_dump_v1.0" / "rank0").glob("Overflow_info_*.pkl"))) == 1
    assert list((tmp_path / "acl").rglob("exp.*.output.0.npy"))


def test_operators_of_the_npu(tmp_path: Path, shell: Shell) -> None:
    assert len(OPERATORS) == 47
    line = f'NAMES = "{" ".join(OPERATORS)}"\n'
    (tmp_path / "torch_npu.py").write_text(line + STAND_IN, encoding="utf-8")
    (tmp_path / "train.py").write_text(line + NPU, encoding="utf-8")
    done = shell("python train.py")
    path = tmp_path / "ptdbg_dump_v1.0" / "rank0" / "api_stack_npu_dump.pkl"
    names = {json.loads(line)[0] for line in path.read_text(encoding="utf-8").splitlines()}
    assert {f"NPU_{name}_0_forward_output" for name in OPERATORS} <= names
    # the acl modes use the dump of torch_npu where there is one
    said = [one for one in done.stdout.splitlines() if one.startswith("torch_npu")]
    assert said == ["torch_npu: init_dump", "torch_npu: set_dump dump.json", "torch_npu: finalize_dump"]
