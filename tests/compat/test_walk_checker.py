"""Walks through the document of the api_accuracy_checker, in its order, with its commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.compat.conftest import NAMES, Shell

pytest.importorskip("torch")

from trueline.compat.api_accuracy_checker.config import CheckerConfig
from trueline.compat.api_accuracy_checker.run_ut import main as run_ut
from trueline.compat.api_accuracy_checker.run_ut import parser
from trueline.errors import UsageError
from trueline.report.check_csv import RESULT_COLUMNS

MAIN = """
import torch
{imports}
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randint(0, 4, (40,)))
for number, (inputs, labels) in enumerate(torch.utils.data.DataLoader(data, batch_size=4)):
    print("iteration", number)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    print(loss.item())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("the end")
"""
BY_HAND = """
import torch
import api_accuracy_checker.dump as DP
value = torch.randn(4, 4, requires_grad=True)
for number in range(5):
    DP.dump.set_dump_switch("ON")
    print("iteration", number)
    torch.nn.functional.relu(value @ value).sum().backward()
"""
OVERFLOW = {
    "Functional*relu*0": [[1.0, 2.0], []],
    "Tensor*mul*0": [[60000.0, 65000.0], [60000.0, 65000.0]],
}


def table(path: Path) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    return tuple(reader.fieldnames or ()), rows


def info(folder: Path, what: str) -> dict[str, object]:
    (path,) = folder.glob(f"{what}_info_*.json")
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_the_document(tmp_path: Path, shell: Shell) -> None:
    folder = NAMES / "api_accuracy_checker" / "run_ut"
    # 2: the import alone; the training ends after its second iteration
    (tmp_path / "main.py").write_text(MAIN.format(imports="import api_accuracy_checker.dump"), encoding="utf-8")
    done = shell("python main.py", codes=(1,))
    assert done.stderr.rstrip().endswith("Exception: Model pretest: exit after iteration 1.")
    assert "iteration 1" in done.stdout and "iteration 2" not in done.stdout
    forward, backward, stack = (info(tmp_path, what) for what in ("forward", "backward", "stack"))
    assert {"Functional*linear*0", "Functional*linear*1", "Functional*cross_entropy*0"} <= set(forward)
    assert set(stack) == set(forward) and set(backward) <= set(forward) and "Functional*linear*1" in backward
    assert "main.py, line" in str(stack["Functional*linear*0"])
    assert "cross_entropy(model(inputs), labels)" in str(stack["Functional*linear*0"])  # the text of the line
    assert not {"Torch*ones_like*0", "Tensor*item*0"} & set(forward)  # nothing that the program computes

    # 3: the test of every API
    (file,) = tmp_path.glob("forward_info_*.json")
    pid = file.stem.rpartition("_")[2]
    for what in ("forward", "backward", "stack"):
        (tmp_path / f"{what}_info_{pid}.json").rename(tmp_path / f"{what}_info_0.json")
    words = f"-forward {tmp_path}/forward_info_0.json -backward {tmp_path}/backward_info_0.json"
    said = shell(f"python {folder}/run_ut.py {words} --out_path {tmp_path}/result").stdout
    assert said.startswith(f"{len(forward)} API calls, {len(forward)} tested on torch:")
    assert f"by the document's rule: pass {len(forward)}\n" in said
    assert "exit code 0: no API is wrong by either rule" in said
    columns, rows = table(tmp_path / "result" / "accuracy_checking_result.csv")
    assert columns == (*RESULT_COLUMNS, "Verdict", "Reason")
    tested = {row["API name"]: row for row in rows}
    assert set(tested) >= {"Functional*linear*0", "Functional*linear*1", "Functional*cross_entropy*0"}
    assert set(tested) == set(forward)
    linear = tested["Functional*linear*1"]
    assert (linear["Forward Test Success"], linear["Backward Test Success"], linear["Verdict"]) == (
        "pass",
        "pass",
        "PASS",
    )
    columns, rows = table(tmp_path / "result" / "accuracy_checking_details.csv")
    assert columns[0] == "API Name" and "Functional*linear*1.backward.output.0" in {row["API Name"] for row in rows}

    # 4: what fails is kept
    shell(f"python {folder}/run_ut.py {words} -save_error_data")
    assert (tmp_path / "accuracy_checking_details.csv").exists()
    assert len(list((tmp_path / "ut_error_data").iterdir())) == 1
    assert parser().parse_args(["-forward", "f", "-error_data_path", "kept"]).error_data_path == "kept"


def test_real_data_and_another_iteration(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "my" / "dump" / "path").mkdir(parents=True)
    imports = (
        "from api_accuracy_checker.dump import msCheckerConfig\n"
        'msCheckerConfig.update_config(dump_path="my/dump/path", real_data=True, enable_dataloader=True, target_iter=2)'
    )
    (tmp_path / "main.py").write_text(MAIN.format(imports=imports), encoding="utf-8")
    done = shell("python main.py", codes=(1,))
    assert "exit after iteration 2" in done.stderr
    folder = tmp_path / "my" / "dump" / "path"
    assert list((folder / "forward_real_data").glob("Functional*linear*0*.pt"))
    assert list((folder / "backward_real_data").glob("*.pt"))
    (file,) = folder.glob("forward_info_*.json")
    shell(f"run_ut() {{ python -m trueline.compat run_ut \"$@\"; }}; run_ut -forward {file} -backward "
          f"{str(file).replace('forward', 'backward')}")  # fmt: skip
    _, rows = table(tmp_path / "accuracy_checking_result.csv")
    assert {row["Verdict"] for row in rows} <= {"PASS", "NOT_COMPARED"}


def test_the_switch_where_there_is_no_loader(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "main.py").write_text(BY_HAND, encoding="utf-8")
    done = shell("python main.py", codes=(1,))
    assert "Model pretest: exit after iteration 1." in done.stderr and "iteration 2" not in done.stdout
    assert "Functional*relu*0" in info(tmp_path, "forward")


def test_overflows(tmp_path: Path, shell: Shell) -> None:
    """The second tool of the document: which overflows had to be."""

    def tensor(values: list[float]) -> dict[str, object]:
        low, high = (min(values), max(values)) if values else (0.0, 0.0)
        return {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [8], "Max": high, "Min": low,
                "requires_grad": False}  # fmt: skip

    content = {key: {"args": [tensor(one) for one in given if one], "kwargs": {}} for key, given in OVERFLOW.items()}
    (tmp_path / "forward_info_0.json").write_text(json.dumps(content), encoding="utf-8")
    script = NAMES / "api_accuracy_checker" / "run_ut" / "run_overflow_check.py"
    done = shell(f"python {script} -forward ./forward_info_0.json")
    assert "[Functional*relu*0] does not overflow" in done.stdout
    assert "[Tensor*mul*0] is a normal overflow" in done.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dump_path": "missing/folder"}, "not a folder"),
        ({"target_iter": -1}, "counts from 0"),
        ({"real_data": "yes"}, "is a bool"),
        ({"nonsense": 1}, "has no 'nonsense'"),
    ],
)
def test_a_wrong_setting_is_said(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        CheckerConfig().update_config(**given)


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_ut(["-forward", str(tmp_path / "missing.json")]) == 2
    assert "no file" in capsys.readouterr().err
    (tmp_path / "forward_info_0.json").write_text("{", encoding="utf-8")
    assert run_ut(["-forward", str(tmp_path / "forward_info_0.json")]) == 2
    assert "forward_info_0.json" in capsys.readouterr().err
