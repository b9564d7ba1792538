"""``trueline compare`` on real programs that part for different reasons: what the first line says, and that all reports
give the same counts."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import net
from tests.helpers.synthetic import Spec, array, write_run
from trueline.cli.main import main

torch = pytest.importorskip("torch")

import trueline  # noqa: E402


def train(path: Path, *, act: Any = None, eps: float = 1e-6, lr: float = 0.1, off: float = 0.0, p: float = 0.0,
          seed: int = 0, frozen: bool = False) -> Path:  # fmt: skip
    """Two steps of a small net."""
    from torch import nn

    torch.manual_seed(0)
    act = act or nn.functional.silu
    norm, up, down = nn.LayerNorm(8, eps=eps), nn.Linear(8, 16), nn.Linear(16, 8)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = norm, up, down

        def forward(self, x: Any) -> Any:
            x = nn.functional.dropout(x, p, training=p > 0)
            return self.down(act(self.up(self.norm(x))))

    model = Net()
    with torch.no_grad():
        up.weight[0, 0] += off
    if frozen:
        up.bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    data = [torch.randn(4, 8) for _ in range(2)]
    torch.manual_seed(seed)
    with trueline.capture(path) as capture:
        for batch in data:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            capture.step()
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder, known = tmp_path_factory.mktemp("causes"), dict[str, Path]()

    def make(name: str, **options: Any) -> Path:
        if name not in known:
            known[name] = train(folder / name, **options)
        return known[name]

    return make


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["compare", *(str(word) for word in words)])
    return code, capsys.readouterr().out


def page_of(file: Path) -> Any:
    """The data inside a page."""
    found = re.search(r'id="data"[^>]*>(.*?)</script>', file.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def written_gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + torch.erf(x * 0.7))


def written_silu(x: Any) -> Any:
    return x * torch.sigmoid(x)


def test_another_function_is_told_as_what_each_side_computes(made: Any, capsys: Any) -> None:
    gelu = made("gelu", act=torch.nn.functional.gelu)
    code, text = said(capsys, made("reference"), gelu)
    assert code == 1
    assert text.splitlines()[0].startswith("FAIL  the reference computes silu, the candidate gelu, in ")
    assert "follow from the origin" in text and "victim" not in text
    assert f"trueline show {made('reference')} torch.nn.functional.silu.0.forward" in text
    assert f"trueline show {gelu} torch.nn.functional.gelu.0.forward" in text


def test_a_region_of_several_calls_is_two_lists(made: Any, capsys: Any) -> None:
    _, text = said(capsys, made("reference"), made("written gelu", act=written_gelu))
    assert text.splitlines()[0].startswith("FAIL  the reference computes silu, the candidate mul, mul, erf, add, mul")
    (first,) = [line for line in text.splitlines() if "torch.nn.functional.silu.0.forward  test_compare" in line]
    assert "torch.Tensor.mul.0.forward" in first
    assert "torch.erf.0.forward" in text and "and 4 before it" in text


def test_the_same_written_out_passes_and_says_what_agrees(made: Any, capsys: Any) -> None:
    code, text = said(capsys, made("reference"), made("written silu", act=written_silu))
    assert code == 0 and text.startswith("PASS  ")
    assert re.search(r"values that the programs give away agree \(.*\); the largest difference is \S+ \(", text)
    assert "follow" not in text
    assert re.search(r"calls only in the candidate: torch.sigmoid.0.forward, ", text)


def test_a_changed_argument_is_the_headline(made: Any, capsys: Any) -> None:
    code, text = said(capsys, made("reference"), made("eps", eps=0.01))
    assert code == 1
    assert text.startswith("FAIL  eps: 1e-06 -> 0.01 in torch.nn.functional.layer_norm.0.forward in norm\n")


def test_another_learning_rate_is_an_update(made: Any, capsys: Any) -> None:
    code, text = said(capsys, made("reference"), made("lr", lr=0.2))
    assert code == 1 and text.startswith("FAIL  ")
    assert "norm.weight and 5 more" in text.splitlines()[0]
    assert "updates  norm.weight, norm.bias, up.weight" in text


def test_another_weight_is_a_state_and_no_call_is_shown(made: Any, capsys: Any) -> None:
    code, text = said(capsys, made("reference"), made("off", off=0.5))
    assert code == 1 and text.startswith("FAIL  up.weight differs from the start\n")
    assert "trueline show" not in text and "FAIL, origin" not in text
    _, content = said(capsys, made("reference"), made("off", off=0.5), "--json", "-")
    own = [one for one in json.loads(content)["observables"] if one["reason"] == "the origin itself"]
    assert [(one["kind"], one["name"], one["step"]) for one in own] == [("parameter", "up.weight", 0)]


def test_random_numbers_are_told_once_with_the_seed(made: Any, capsys: Any) -> None:
    code, text = said(capsys, made("drop", p=0.5), made("drop otherwise", p=0.5, seed=7))
    assert code == 1
    assert text.startswith("FAIL  random numbers differ from torch.nn.functional.dropout.0.forward")
    assert "torch.manual_seed(0)" in text


@pytest.mark.parametrize("name", ["gelu", "off", "written silu", "reference"])
def test_counts_agree_in_all_reports(name: str, made: Any, capsys: Any, tmp_path: Path) -> None:
    options = {"gelu": {"act": torch.nn.functional.gelu}, "off": {"off": 0.5}, "written silu": {"act": written_silu}}
    files = {kind: tmp_path / f"report.{kind}" for kind in ("json", "csv", "html")}
    _, text = said(
        capsys, made("reference"), made(name, **options.get(name, {})),
        *(word for kind, file in files.items() for word in (f"--{kind}", file)),
    )  # fmt: skip
    content = json.loads(files["json"].read_text())
    page = page_of(files["html"])["head"]
    with open(files["csv"], newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["Call"] == "N/A"]
    assert content["given_away"]["sentence"] in text
    given = [one for one in content["observables"] if one["kind"] != "parameter"]
    wrong = [one for one in given if one["verdict"] == "FAIL"]
    assert (content["given_away"]["compared"], content["given_away"]["differ"]) == (len(given), len(wrong))
    assert len(rows) == len(content["observables"])
    assert sum(row["Verdict"] == "FAIL" and row["NPU Name"][:10] != "parameter:" for row in rows) == len(wrong)
    assert page["given_away"]["differ"] == len(wrong)
    later = sum(call["inherited"] for call in content["calls"])
    assert (f"{later:,} follow from the origin" in text) == (later > 0) == (content["verdict"] == "FAIL")
    counts = content["counts"]
    assert f"{sum(counts.values()):,} calls: {counts['PASS']:,} passed" in text


# Too little to say.


@pytest.fixture
def thin(tmp_path: Path) -> tuple[Path, Path]:
    """Two Runs that agree where they can be laid side by side, which is little."""
    extra = [
        Spec("torch.exp", [array(5, seed=n + 50)], [array(5, seed=n + 90)], step=step) for step in range(2)
        for n in range(6)
    ]  # fmt: skip
    return write_run(tmp_path / "good", net(fault=False)), write_run(tmp_path / "bad", net(fault=False) + extra)


def test_too_little_is_exit_code_1_unless_it_is_allowed(thin: tuple[Path, Path], capsys: Any) -> None:
    code, text = said(capsys, *thin, "--no-replay")
    assert code == 1
    assert re.match(r"NOT COMPARED  only \d+% of the calls could be laid side by side\n", text)
    assert "--allow-partial" in text
    code, text = said(capsys, *thin, "--no-replay", "--allow-partial")
    assert code == 0 and text.startswith("NOT COMPARED  only ") and "--allow-partial" not in text
    assert "12 calls only in the candidate: torch.exp.0.forward, " in text


def test_a_gradient_that_one_side_lacks_is_named_by_its_parameter(made: Any, capsys: Any) -> None:
    code, text = said(capsys, made("reference"), made("frozen", frozen=True))
    assert code == 1 and text.startswith("FAIL  only the reference gives up.bias a gradient, in step 0\n")
    assert "keep its tensors" not in text and "trueline show" not in text
