"""What the documents of ptdbg_ascend and api_accuracy_checker print to be typed, line by line, and what becomes of it.

A line is ``as written`` (the test that types it), or ``listed``: the guide says why it cannot be had. Where the
documents themselves are there (``../shared/seeds``), every line of their code blocks must be among these.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT.parent / "shared" / "seeds"

TYPED, WALK, OVERFLOW = "test_documents.py", "test_walk_ptdbg.py", "test_ptdbg_overflow_check.py"
LISTED = "listed"

PTDBG: dict[str, str] = {
    "pip3 install ./ptdbg_ascend-{version}-py3-none-any.whl": LISTED,
    "pip3 install ./ptdbg_ascend-{version}-py3-none-any.whl --force-reinstall": LISTED,
    "Successfully installed ptdbg_ascend-{version}": LISTED,
    "from ptdbg_ascend import *": TYPED,
    "seed_all()": TYPED,
    "seed_all(mode=True)": TYPED,
    'set_dump_path("./npu_dump.pkl", dump_tag="dump_conv2d")': TYPED,
    'set_dump_path("./npu_dump_scope.pkl")': TYPED,
    "set_dump_path('./dump_resnet50/dump.pkl', dump_tag='all')": TYPED,
    "set_dump_path('./dump_resnet50/dump.pkl', dump_tag='conv2d_stack')": TYPED,
    "register_hook(model, acc_cmp_dump)": TYPED,
    "register_hook(model, acc_cmp_dump, rank=rank_id)": TYPED,
    "register_hook(model, acc_cmp_dump, dump_mode='acl', dump_config='dump.json')": TYPED,
    "register_hook(model, overflow_check, overflow_nums=2)": TYPED,
    "register_hook(model, overflow_check, dump_mode='acl', dump_config='/home/xxx/dump.json')": TYPED,
    'set_dump_switch("ON")': TYPED,
    'set_dump_switch("OFF")': TYPED,
    'set_dump_switch("ON", mode="list", scope=["Tensor_permute_1_forward", "Tensor_transpose_2_forward", '
    '"Torch_relu_3_backward"])': TYPED,
    'set_dump_switch("ON", mode="list", scope=["Tensor_permute_1_forward", "Tensor_transpose_2_forward", '
    '"Torch_relu_3_forward"])': TYPED,
    'set_dump_switch("ON", mode="range", scope=["Tensor_abs_1_forward", "Tensor_transpose_3_forward"])': TYPED,
    'set_dump_switch("ON", mode="range", scope=["Tensor_abs_1_forward", "Tensor_transpose_2_forward"])': TYPED,
    'set_dump_switch("ON", mode="stack", scope=["Tensor_abs_1_forward", "Tensor_transpose_3_forward"])': TYPED,
    'set_dump_switch("ON", mode="acl", scope=["Tensor_abs_1_forward"])': TYPED,
    'set_dump_switch("ON", mode="acl", scope=["Tensor_permute_1_forward"])': TYPED,
    'set_dump_switch("ON", mode="acl", scope=["Functional_conv2d_1_backward"])': TYPED,
    'set_dump_switch("ON", mode="api_list", api_list=["relu"])': TYPED,
    'set_dump_switch("ON", mode="api_stack")': TYPED,
    'set_dump_switch("ON", filter_switch="OFF")': TYPED,
    'set_backward_input(["xxx/Functional_conv2d_1_backward_input.0.npy"])': TYPED,
    'set_overflow_check_switch("ON")': TYPED,
    'set_overflow_check_switch("OFF")': TYPED,
    'compare(dump_result_param, "./output", True)': TYPED,
    'compare(dump_result_param, "./output", True, stack_mode=True)': TYPED,
    "compare_distributed('dump_path/dump_conv2d_v1.0', 'dump_gpu/dump_conv2d_v1.0', './output')": TYPED,
    'parse("./npu_dump.pkl", "Torch_batch_normal_1_forward")': LISTED,
}
CHECKER: dict[str, str] = {
    "export PYTHONPATH=$PYTHONPATH:$ATT_HOME/debug/accuracy_tools/": TYPED,
    "pip3 install tqdm prettytable pyyaml": LISTED,
    "import api_accuracy_checker.dump": TYPED,
    "import api_accuracy_checker.dump as DP": "test_walk_checker.py",
    'DP.dump.set_dump_switch("ON")': "test_walk_checker.py",
    "Exception: Model pretest: exit after iteration 1.": TYPED,
    "from api_accuracy_checker.dump import msCheckerConfig": TYPED,
    'msCheckerConfig.update_config(dump_path="my/dump/path", real_data=True, enable_dataloader=True, target_iter=1)':
        TYPED,
    "cd $ATT_HOME/debug/accuracy_tools/api_accuracy_checker/run_ut": TYPED,
    "python run_ut.py -forward ./forward_info_0.json -backward ./backward_info_0.json": TYPED,
    "python run_ut.py -forward ./forward_info_0.json -backward ./backward_info_0.json -save_error_data": TYPED,
    "python run_overflow_check.py -forward ./forward_info_0.json": TYPED,
}  # fmt: skip
DOCUMENTS = {"ptdbg_ascend": ("PyTorch精度工具使用指南", PTDBG),
             "api_accuracy_checker": ("Ascend模型精度预检工具", CHECKER)}  # fmt: skip

_FENCE = re.compile(r"^\s*```")
_NOT_TYPED = re.compile(r"^(#|\.\.\.|比对示例|dump_result_param=|\"|\}|\{|[├│|└]|\W*$)")


def printed(title: str) -> list[str] | None:
    """The lines of the code blocks of a document, without comments, trees and data; None where it is not there."""
    for path in sorted(SEEDS.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if title in text[:200]:
            return list(_lines_of(text))
    return None


def _lines_of(text: str) -> list[str]:
    inside, found = False, []
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
            continue
        typed = line.split("    #")[0].strip()
        if inside and not _NOT_TYPED.match(typed):
            found.append(typed)
    return found
