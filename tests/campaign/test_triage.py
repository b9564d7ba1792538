"""Triage of real checks: planted faults and real defects, told apart by doing cases again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402 - only where torch is
from trueline.campaign.triage import triage  # noqa: E402
from trueline.cli.main import main  # noqa: E402
from trueline.errors import UsageError  # noqa: E402
from trueline.groups import Group, Label, Look, Triage  # noqa: E402

KERNELS = "tests.campaign.kernels"
FAULTS = "tests.helpers.faulty_paddle"
PLANTED = {
    "torch.exp": (f"{KERNELS}:exp_nan", Label.TARGET, Look.NOT_FINITE),
    "torch.tanh": (f"{KERNELS}:tanh_wrong_gradient", Label.TARGET, Look.FACTOR),
    "torch.sigmoid": (f"{KERNELS}:sigmoid_other_dtype", Label.TARGET, Look.STRUCTURE),
    "torch.nn.functional.gelu": (f"{KERNELS}:gelu_scaled", Label.TARGET, Look.FACTOR),
    "torch.nn.functional.silu": (f"{KERNELS}:silu_raises", Label.TARGET, Look.RAISES),
    "torch.erf": (f"{KERNELS}:segfault", Label.CRASHES, Look.CRASH),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kept check of torch against itself, six operators of which are faulty."""
    folder = tmp_path_factory.mktemp("checks")
    shapes = {api: ("[16, 33]", "[40]") if api == "torch.nn.functional.gelu" else ("[16, 33]",) for api in PLANTED}
    shapes["torch.cos"] = ("[5]",)
    lines = [f'{api}(Tensor({shape},"float32"), )\n' for api, chosen in shapes.items() for shape in chosen]
    (folder / "lines.txt").write_text("".join(lines), encoding="utf-8")
    overrides = {api: kernel for api, (kernel, _, _) in PLANTED.items()}
    trueline.check(
        folder / "lines.txt", target="torch:cpu", overrides=overrides, out=folder / "planted", workers=1, timeout=30
    )
    return folder / "planted"


@pytest.fixture(scope="module")
def found(planted: Path) -> Triage:
    overrides = {api: kernel for api, (kernel, _, _) in PLANTED.items()}
    return triage(planted, workers=1, timeout=30, representatives=1, scripts=1, overrides=overrides)


def of_api(found: Triage, api: str) -> Group:
    (group,) = [group for group in found.groups if api in group.apis]
    return group


@pytest.mark.parametrize("api", PLANTED)
def test_each_fault_is_a_group_with_the_right_label(found: Triage, api: str) -> None:
    _, label, look = PLANTED[api]
    group = of_api(found, api)
    assert (group.label, group.signature.look) == (label, look), group.why
    assert group.of == group.size == len(group.members) == (2 if api == "torch.nn.functional.gelu" else 1)


def test_nothing_is_lost_between_check_and_groups(planted: Path, found: Triage) -> None:
    report = trueline.load_check(planted)
    assert sum(group.size for group in found.groups) == len(report.failures)
    assert found.cases == len(report.results) and not any("torch.cos" in group.apis for group in found.groups)
    assert found.labels == {
        label: sum(group.size for group in found.groups if group.label.value == label) for label in found.labels
    }


def test_files_say_what_was_found_and_scripts_show_it(found: Triage) -> None:
    content = json.loads((found.folder / "groups.json").read_text(encoding="utf-8"))
    assert [group["name"] for group in content["groups"]] == [group.name for group in found.groups]
    page = (found.folder / "groups.md").read_text(encoding="utf-8")
    first = found.groups[0]
    assert first.label is Label.CRASHES and f"## {first.name}" in page and "crashes the process" in page
    scripted = [group for group in found.groups if group.folder is not None]
    assert scripted == [first] and first.reproduced, first.note
    assert "only 1 were asked for" in found.groups[-1].note
    assert first.folder is not None and (first.folder / "repro.py").is_file()


def test_the_command_line(planted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["triage", str(planted), "--out", str(out), "--no-opinions"]) == 1
    told = capsys.readouterr().out
    assert "undecided" in told and "torch.erf" in told and (out / "groups.md").is_file()
    assert main(["triage", str(planted), "--out", str(out), "--no-opinions", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["groups"], "the folder of an earlier triage may be used again"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work", encoding="utf-8")
    for words in (
        [str(tmp_path / "nothing")],
        [str(planted), "--representatives", "9"],
        [str(planted), "--scripts", "-1"],
        [str(planted), "--out", str(tmp_path / "other"), "--no-opinions"],
        [str(planted), "--out", str(tmp_path / "other" / "thesis.txt"), "--no-opinions"],
    ):
        assert main(["triage", *words]) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert (tmp_path / "other" / "thesis.txt").exists()


def test_a_check_without_failures_has_no_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trueline.check(ops="torch.cos", target="torch:cpu", out=tmp_path / "check", workers=0)
    assert main(["triage", str(tmp_path / "check")]) == 0
    assert "0 of" in capsys.readouterr().out
    with pytest.raises(UsageError, match="is not a check"):
        triage(tmp_path)


LINES = """
paddle.stanh(Tensor([128],"float64"), )
paddle.argmax(Tensor([64],"float32"), )
paddle.nn.functional.gelu(Tensor([128],"float32"), )
paddle.incubate.nn.functional.fused_rms_norm(Tensor([2, 256],"float32"), Tensor([256],"float32"), Tensor([256],"float32"), 1e-06, begin_norm_axis=1, )
paddle.Tensor.min(Tensor([120000],"float64"), )
paddle.erfinv(Tensor([8],"float16"), )
paddle.abs(Tensor([8],"float32"), )
"""  # noqa: E501 - a config is one line
RMS_NORM = """
import paddle
one = paddle.ones([256])
paddle.incubate.nn.functional.fused_rms_norm(paddle.ones([2, 256]), one, one, 1e-06, begin_norm_axis=1)
"""


def rms_norm_crashes() -> bool:
    """Whether Paddle's kernel ends the process here: it needs instructions that not every processor has."""
    return subprocess.run([sys.executable, "-c", RMS_NORM], capture_output=True, check=False).returncode < 0


def test_defects_of_paddle_are_found_with_the_right_labels(tmp_path: Path) -> None:
    """The float32 constants in a float64 kernel, the quadratic gradient, the crash; beside planted faults that only
    the frameworks' own float64 and differences of the forward can tell from a wrong mapping."""
    pytest.importorskip("paddle")
    (tmp_path / "lines.txt").write_text(LINES, encoding="utf-8")
    faults = {"paddle.argmax": f"{FAULTS}:next_index", "paddle.nn.functional.gelu": f"{FAULTS}:half_gradient"}
    report = trueline.check(
        tmp_path / "lines.txt", target="paddle:cpu", reference="torch:cpu", overrides=faults, out=tmp_path / "check",
        workers=1, timeout=4,
    )  # fmt: skip
    assert len(report.results) == 7
    found = triage(tmp_path / "check", workers=1, timeout=30, scripts=1, overrides=faults)
    labels = {group.apis[0].rpartition(".")[2]: (group.label, group.signature.look) for group in found.groups}
    crash = {"fused_rms_norm": (Label.CRASHES, Look.CRASH)} if rms_norm_crashes() else {}
    assert labels == crash | {
        "stanh": (Label.TARGET, Look.NARROWER),
        "argmax": (Label.TARGET, Look.EXACT),
        "gelu": (Label.TARGET, Look.FACTOR),
        "min": (Label.TOO_SLOW, Look.TIMEOUT),
        "erfinv": (Label.UNSUPPORTED, Look.MISSING_KERNEL),
    }, [(group.name, group.why) for group in found.groups]
    slow = of_api(found, "paddle.Tensor.min")
    assert slow.opinions[0].exponent is not None and 1.5 <= slow.opinions[0].exponent <= 3.0, slow.why
    assert "super-linear" in slow.why
    if crash:
        assert found.groups[0].label is Label.CRASHES and found.groups[0].reproduced, found.groups[0].note
    assert "derivative" in of_api(found, "paddle.nn.functional.gelu").why
