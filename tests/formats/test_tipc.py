"""Configs of TIPC as they are, and as they are when somebody edited them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.tipc_project import LONG, SHORT, short_config
from trueline.errors import UsageError
from trueline.formats.tipc import by_mode, looks_like_tipc, parse_tipc, read_tipc


def test_the_short_form() -> None:
    config = parse_tipc(SHORT)
    assert config.form == "tipc-32"
    assert config["model_name"].value == "tiny"
    assert (config["epochs"].key, config["epochs"].line) == ("--epochs", 6)
    assert (config["infer_batch"].key, config["infer_batch"].values) == ("--batch-size", ("1", "3"))
    assert [entry.key for entry in config.trainers] == ["norm_train"]
    assert not config["weights"].given
    assert config.notes == ()


def test_the_long_form() -> None:
    config = parse_tipc(LONG)
    assert config.form == "tipc-51"
    assert config["autocast"].values == ("null", "amp")
    assert config["precision"].values == ("fp32", "fp16", "int8")
    assert [entry.value for entry in config.exports][:2] == [
        "tools/export_model.py -c tiny.yml -o",
        "deploy/export.py -c tiny.yml -o",
    ]
    assert config.blocks["train_benchmark_params"]["epoch"].value == "2"
    assert config.notes == ()


def test_values_by_mode() -> None:
    assert dict(by_mode(parse_tipc(SHORT)["epochs"])) == {"lite_train_lite_infer": "5", "whole_train_whole_infer": "90"}


def changed(text: str, line: int, *new: str) -> str:
    """The text with one line replaced."""
    lines = text.split("\n")
    lines[line - 1 : line] = new
    return "\n".join(lines)


REPAIRED = {
    "a colon in a value": (changed(SHORT, 11, "--data-path:http://host:80/x"), 11, "cut it to 'http'"),
    "a comment": (changed(SHORT, 5, "# who uses which card", "use-gpu:False"), 5, "comment"),
    "## removed": (changed(SHORT, 12), 12, "would read another line"),
    "## blank": (changed(SHORT, 12, ""), 13, "would read another line"),
    "CRLF": (SHORT.replace("\n", "\r\n"), 1, "Windows line ends"),
    "two lines changed places": (
        changed(
            changed(SHORT, 6, "--batch-size:lite_train_lite_infer=4|whole_train_whole_infer=128"),
            8,
            "--epochs:lite_train_lite_infer=5|whole_train_whole_infer=90",
        ),
        8,
        "told by its key",
    ),
    "no title": (changed(SHORT, 1), 1, "no title"),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_what_people_do_to_configs_is_repaired_and_said(name: str) -> None:
    text, line, message = REPAIRED[name]
    config = parse_tipc(text)
    right = parse_tipc(SHORT)
    assert any(note.line == line and message in note.message for note in config.notes), config.notes
    for role, entry in right.entries.items():
        if role != "data_path":
            assert (config[role].key, config[role].value) == (entry.key, entry.value), role


REJECTED = {
    "no colon": (changed(SHORT, 9, "--pretrained null"), "line 9: .*neither key:value"),
    "a line missing": (changed(SHORT, 6), "line 9: 4 lines between gpu_list and train_model_name"),
    "trainer missing": (changed(SHORT, 13), "no line trainer:"),
    "the same twice": (
        SHORT.replace("eval:train.py --test-only", "eval:a.py\neval:b.py"),
        "line 18: eval stands here and",
    ),
    "inference incomplete": (SHORT.replace("--img-path:./images/demo.jpg\n", ""), "4 lines follow inference"),
    "out of order": (
        SHORT.replace("eval:", "eval0:").replace("gpu_list:-1", "eval:x\ngpu_list:-1"),
        "line 4: eval stands",
    ),
    "nothing": ("", "no config of TIPC"),
    "another tester": ("===========================serving_params====\nmodel_name:x\n", "tester of serving"),
    "a title alone": ("=====train_params=====\n", "no config of TIPC"),
    "another tester, which infers": (
        "=====ptq_params=====\nmodel_name:x\n##\n=====infer_params=====\ninference:infer.py\n",
        "tester of quantisation",
    ),
    "quant missing": (LONG.replace("infer_quant:False|True\n", ""), "infer_quant"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_cannot_be_understood_is_rejected_with_its_line(name: str) -> None:
    text, message = REJECTED[name]
    with pytest.raises(UsageError, match=message):
        parse_tipc(text)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "config.txt"
    path.write_bytes(b"model_name:x\npython:\xff\n")
    with pytest.raises(UsageError, match="line 2: not UTF-8"):
        read_tipc(path)
    path.write_bytes(b"x" * (1 << 21))
    with pytest.raises(UsageError, match="right file"):
        read_tipc(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_tipc(tmp_path / "none.txt")


def test_which_files_are_its_configs() -> None:
    assert looks_like_tipc(SHORT) and looks_like_tipc(LONG)
    assert looks_like_tipc(short_config().partition("\n")[2])
    assert not looks_like_tipc("model: tiny\ntrain: {command: train.py}\n")
