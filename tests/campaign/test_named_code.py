"""Code that a kept check names is not imported because its files name it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import trueline
from trueline.campaign.triage import triage
from trueline.cli.main import main
from trueline.errors import UsageError
from trueline.store.seal import seal_database, sealed_text

EVIL = "open('imported', 'w').close()\ndef rule(evidence, case):\n    return 'PASS', 'all is well'\n"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    trueline.check(ops="torch.cos", target="torch:cpu", out=folder / "check", workers=0, limit=1)
    return folder / "check"


@pytest.fixture
def check(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy in a folder where a module lies that leaves a mark when it is imported."""
    (tmp_path / "evil_rules.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "evil_rules", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return Path(shutil.copytree(kept, tmp_path / "check"))


def rewrite(check: Path, **fields: object) -> None:
    head = json.loads((check / "check.json").read_text())
    (check / "check.json").write_text(sealed_text({**head, **fields}))


@pytest.mark.parametrize(
    "words",
    [
        ["report", "check"],
        ["report", "check", "--html", "page.html"],
        ["diff", "check", "check"],
        ["triage", "check", "--no-opinions"],
        ["tolerances", "check"],
        ["check", "--ops", "torch.cos", "--target", "torch:cpu", "--baseline", "check"],
        ["view", "check", "--no-browser"],
    ],
)
def test_a_stored_function_is_refused_as_a_standard(
    words: list[str], check: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite(check, standard="evil_rules:rule")
    code = main(words)
    assert not (tmp_path / "imported").exists()
    assert code == 2 or words[0] == "tolerances", "tolerances judges nothing by it"
    if code == 2:
        assert "--standard evil_rules:rule" in capsys.readouterr().err


def test_a_function_that_the_command_line_names_judges(check: Path, tmp_path: Path) -> None:
    rewrite(check, standard="evil_rules:rule")
    assert main(["report", "check", "--standard", "evil_rules:rule"]) == 0
    assert (tmp_path / "imported").exists()
    assert main(["diff", "check", "check", "--standard", "evil_rules:rule"]) == 0


def test_stored_overrides_are_refused_unless_they_are_repeated(check: Path, tmp_path: Path) -> None:
    rewrite(check, overrides={"torch.cos": "evil_rules:rule"})
    with pytest.raises(UsageError, match=r"--override torch\.cos=evil_rules:rule.*--no-opinions"):
        triage(check, workers=1)
    assert main(["triage", "check", "--no-opinions"]) == 0
    assert not (tmp_path / "imported").exists()
    assert triage(check, workers=1, overrides={"torch.cos": "evil_rules:rule"}).groups == ()


def test_rules_in_a_file_of_limits_are_data_and_are_read(check: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text('[[rule]]\nfail = { "gold.max_ulp" = 1e9 }\n')
    rewrite(check, standard="ours.toml")
    assert main(["report", "check"]) == 0


@pytest.mark.parametrize("where", ["api", "dtype", "path"])
def test_what_a_stored_case_says_does_not_become_a_script_that_runs(where: str, check: Path, tmp_path: Path) -> None:
    """A failure of a stranger's check is written as a script, which is run to see that it shows it."""
    code = "__import__('os').system('touch imported')"
    with sqlite3.connect(check / "ledger.db") as ledger:
        ((case,),) = ledger.execute("SELECT case_json FROM cases LIMIT 1").fetchall()
        content = json.loads(case)
        if where == "api":
            content["api"] = f"torch.cos if {code} else torch.cos"
        elif where == "dtype":
            content["arguments"]["kwargs"] = {"dtype": {"$dtype": f"float32) or {code} or kind(torch.float32"}}
        else:
            content["tensors"][0]["path"] = f"args.0{{{code}}}"
        ledger.execute("UPDATE cases SET case_json = ?", (json.dumps(content),))
        ledger.execute("UPDATE cases SET api = ?", (content["api"],))
        measured = {"key": "x", "candidate": {"status": "raised", "reason": "no"}, "reference": {"status": "returned"}}
        ledger.execute(
            "UPDATE cases SET ending = 'target raises', verdict = 3, reason = 'no', measured_json = ?",
            (json.dumps(measured),),
        )
    seal_database(check / "ledger.db")
    triage(check, workers=1, timeout=30)
    assert not list(tmp_path.rglob("imported"))
