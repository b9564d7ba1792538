"""run_ut: whom it believes, what it counts, which rule decides; and what a dump of the checker holds."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.compat.conftest import ROOT, Shell
from tests.helpers.checks import result_of
from trueline.compat.api_accuracy_checker.run_ut import without_dropout
from trueline.compat.api_accuracy_checker.verdicts import SAME_KERNELS, Tally, vouched
from trueline.compat.places import torch_place
from trueline.formats.foreign import ForeignCall
from trueline.records import Phase, Verdict

FAULTY = """
# Stands for a CPU whose relu is wrong, in every dtype: {factor} times too large, and infinite above 1.5 where said.
import importlib.machinery, sys
class Faulty:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            def relu(x):
                y = module.clamp_min(x, 0) * {factor}
                return module.where(y > 1.5, module.full_like(y, float("inf")), y) if {infinite} else y
            module._faulty = module.library.Library("aten", "IMPL")
            module._faulty.impl("relu", relu, "CPU")
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Faulty())
"""


def faulty(folder: Path, factor: float, *, infinite: bool) -> str:
    """The path for Python of a machine whose relu is wrong."""
    folder.mkdir()
    text = FAULTY.format(factor=factor, infinite=infinite)
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return f"{ROOT / 'src'}:{folder}"


def written(folder: Path, calls: dict[str, Any]) -> None:
    (folder / "forward_info_0.json").write_text(json.dumps(calls), encoding="utf-8")


def tensor(shape: list[int], *, requires_grad: bool = False) -> dict[str, Any]:
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, "Max": 2.0, "Min": -1.0,
            "requires_grad": requires_grad}  # fmt: skip


def rows(path: Path) -> dict[str, dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return {row["API name"]: row for row in csv.DictReader(stream)}


def test_a_faulty_cpu_is_not_held_against_itself(tmp_path: Path, shell: Shell) -> None:
    """Its relu is wrong in float64 as well: the gold must share no kernel with it."""
    pytest.importorskip("torch")
    written(tmp_path, {"Functional*relu*0": {"args": [tensor([64])], "kwargs": {}},
                       "Torch*abs*0": {"args": [tensor([64])], "kwargs": {}}})  # fmt: skip
    path = faulty(tmp_path / "machine", 1.01, infinite=False)
    said = shell("python -m trueline.compat run_ut -forward ./forward_info_0.json", codes=(1,), PYTHONPATH=path).stdout
    found = rows(tmp_path / "accuracy_checking_result.csv")
    assert (found["Functional*relu*0"]["Forward Test Success"], found["Functional*relu*0"]["Verdict"]) == (
        "error", "FAIL"
    )  # fmt: skip
    assert SAME_KERNELS in found["Functional*relu*0"]["Message"]
    assert (found["Torch*abs*0"]["Forward Test Success"], found["Torch*abs*0"]["Verdict"]) == ("pass", "PASS")
    assert "2 API calls, 2 tested on torch:cpu" in said
    assert "by the document's rule: error 1, pass 1\n" in said and "by trueline's rule: FAIL 1, PASS 1\n" in said
    assert "exit code 1: by both rules; trueline's finds Functional*relu*0 wrong" in said


def test_an_infinity_that_no_input_explains_is_abnormal(tmp_path: Path, shell: Shell) -> None:
    pytest.importorskip("torch")
    written(tmp_path, {"Functional*relu*0": {"args": [tensor([64])], "kwargs": {}}})
    path = faulty(tmp_path / "machine", 1.0, infinite=True)
    command = "python -m trueline.compat run_overflow_check -forward ./forward_info_0.json"
    said = shell(command, codes=(1,), PYTHONPATH=path).stdout
    assert "[Functional*relu*0] is an abnormal overflow" in said and "which fits float32" in said


def test_the_benchmark_of_the_document_is_of_the_same_precision(tmp_path: Path, shell: Shell) -> None:
    """FAQ 3: float32 for the half types. A healthy convolution in float32 is no error; what is not there to be tested
    is a row as well, and attention is tested without its dropout."""
    pytest.importorskip("torch")
    half = {**tensor([4, 64]), "dtype": "torch.float16"}
    written(tmp_path, {
        "Functional*conv2d*0": {"args": [tensor([4, 3, 16, 16]), tensor([8, 3, 3, 3])], "kwargs": {}},
        "Functional*conv2d*1": {"args": [tensor([2, 3, 9, 9]), tensor([8, 3, 3, 3])], "kwargs": {}},
        "Torch*abs*0": {"args": [half], "kwargs": {}},
        "Functional*scaled_dot_product_attention*0": {
            "args": [tensor([1, 2, 8, 4])] * 3, "kwargs": {"dropout_p": {"type": "float", "value": 0.1}}},
        "Distributed*all_reduce*0": {"args": [tensor([4])], "kwargs": {}},
    })  # fmt: skip
    said = shell("python -m trueline.compat run_ut -forward ./forward_info_0.json").stdout
    assert "5 API calls, 4 tested on torch:cpu" in said
    assert "by the document's rule: SKIP 1, pass 4\n" in said and "trueline's rule: NOT_COMPARED 1, PASS 4\n" in said
    assert "exit code 0: no API is wrong by either rule" in said
    found = rows(tmp_path / "accuracy_checking_result.csv")
    assert len(found) == 5 and "communicates" in found["Distributed*all_reduce*0"]["Message"]
    with open(tmp_path / "accuracy_checking_details.csv", encoding="utf-8-sig", newline="") as stream:
        dtypes = {row["API Name"]: (row["Bench Dtype"], row["DEVICE Dtype"]) for row in csv.DictReader(stream)}
    assert dtypes["Functional*conv2d*0.forward.output.0"] == ("torch.float32", "torch.float32")
    assert dtypes["Torch*abs*0.forward.output.0"] == ("torch.float32", "torch.float16")


def test_who_decided_is_said() -> None:
    good, bad, nothing = Verdict.PASS, Verdict.FAIL, Verdict.NOT_COMPARED
    lines = Tally({"a": bad, "b": good}, {"a": good, "b": good}, ["c"]).lines("torch:cpu")
    assert lines == [
        "3 API calls, 2 tested on torch:cpu",
        "  by the document's rule: SKIP 1, error 1, pass 1",
        "  by trueline's rule: NOT_COMPARED 1, PASS 2",
        "exit code 1: by the document's rule alone, a; trueline's finds them right (column Verdict)",
    ]
    alone = Tally({"a": good}, {"a": bad}, [])
    assert (alone.code, alone.lines("x")[-1]) == (
        1, "exit code 1: by trueline's rule alone, a; the document's lets them pass"
    )  # fmt: skip
    assert Tally({"a": nothing}, {"a": nothing}, []).code == 2


def test_equal_to_itself_is_no_pass() -> None:
    old, wrong = result_of(Verdict.PASS), result_of(Verdict.FAIL)
    found = vouched(old, wrong)
    assert found.verdict is Verdict.FAIL and found.findings[0].verdict is Verdict.FAIL and SAME_KERNELS in found.reason
    assert vouched(old, old).verdict is Verdict.PASS


def test_dropout_of_attention_is_left_out() -> None:
    api = "torch.nn.functional.scaled_dot_product_attention"
    by_place = ForeignCall(api, 0, Phase.FORWARD, arguments={"args": [1, 2, 3, None, 0.1], "kwargs": {}})
    by_name = ForeignCall(api, 0, Phase.FORWARD, arguments={"args": [], "kwargs": {"dropout_p": 0.1}})
    other = ForeignCall("torch.nn.functional.dropout", 0, Phase.FORWARD, arguments={"args": [1, 0.1]})
    for call in (by_place, by_name, other):
        without_dropout(call)
    assert by_place.arguments == {"args": [1, 2, 3, None, 0.0], "kwargs": {}}
    assert by_name.arguments == {"args": [], "kwargs": {"dropout_p": 0.0}}
    assert other.arguments == {"args": [1, 0.1]}


def test_an_npu_is_taken_where_torch_npu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: nothing is executed on it here."""
    monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
    assert torch_place() == ("torch:npu:0", "")
