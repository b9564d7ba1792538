"""Why a command ended badly, from what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueline.pipeline.reasons import last_words, reason_in

PADDLE = '''
loading
Traceback (most recent call last):
  File "/home/me/project/deploy/infer.py", line 31, in <module>
    predictor = create_predictor(config)
  File "/usr/lib/python3/dist-packages/paddle/inference/wrapper.py", line 12, in create
    return core.create(config)
RuntimeError: (NotFound) Cannot open file ./output/inference.pdmodel, please confirm whether the file is normal.
  [Hint: Expected static_cast<bool>(fin.is_open()) == true, but received static_cast<bool>(fin.is_open()):0 != true:1.] (at /paddle/x.cc:2)
'''  # noqa: E501
CHAINED = '''
Traceback (most recent call last):
  File "a.py", line 1, in one
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "tools/train.py", line 7, in two
    raise KeyError("lr")
KeyError: 'lr'
'''
CAUGHT = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: caught\n" + "going on\n" * 5
CRASHED = '''
--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::AnalysisPredictor::Run()

----------------------
Error Message Summary:
----------------------
FatalError: `Segmentation fault` is detected by the operating system.
  [TimeInfo: *** Aborted at 1700000000 ***]
'''


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (PADDLE, 1, ("RuntimeError: (NotFound) Cannot open file ./output/inference.pdmodel", "(infer.py:31)",
                     "Paddle 3 writes inference.json")),
        (CHAINED, 1, ("KeyError: 'lr' (train.py:7)",)),
        (CAUGHT, 1, ("going on",)),
        (CHAINED + "gave up\n", 3, ("gave up",)),
        (CRASHED, -11, ("FatalError: `Segmentation fault` is detected",)),
        ("bash: line 1: python3.7: command not found\n", 127, ("there is no python3.7 here",)),
        ("one\n\n  \n", 2, ("one",)),
        ("", 1, ()),
        ("Traceback (most recent call last):\n", 1, ("Traceback",)),
    ],
)  # fmt: skip
def test_the_reason_is_the_first_line_of_the_exception(
    tmp_path: Path, text: str, code: int, words: tuple[str, ...]
) -> None:
    (tmp_path / "log.txt").write_text(text)
    found = reason_in(tmp_path / "log.txt", code)
    assert all(one in found for one in words) and bool(found) == bool(words)
    assert "Hint" not in found


def test_no_log_has_no_words(tmp_path: Path) -> None:
    assert reason_in(tmp_path / "none", 1) == last_words(tmp_path / "none") == ""
