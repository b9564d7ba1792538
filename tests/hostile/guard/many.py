"""Runs many trueline commands, each in a process of its own that is forked from one which has imported the frameworks.

    python many.py COMMANDS.json ANSWERS.json SECONDS

An answer is the exit code, what was printed, and what was complained about. Negative codes are signals.
"""

import contextlib
import json
import os
import sys
import tempfile
import time


def one(words, seconds):
    """A command and its answer."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os._exit(_child(words, out, err))
        code = _wait(child, seconds)
        out.seek(0), err.seek(0)
        return {
            "code": code,
            "out": out.read().decode("utf-8", "replace"),
            "err": err.read().decode("utf-8", "replace"),
        }


def _child(words, out, err):
    os.setpgid(0, 0)
    for stream, number in ((out, 1), (err, 2)):
        os.dup2(stream.fileno(), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
    from trueline.cli import main

    sys.argv = ["trueline", *words]
    try:
        code = main(words)
    except SystemExit as error:
        code = error.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    with contextlib.suppress(Exception):
        sys.stdout.flush(), sys.stderr.flush()
    return code if isinstance(code, int) else 0


def _wait(child, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    with contextlib.suppress(OSError):
        os.killpg(child, 9)
    os.waitpid(child, 0)
    return -9


if __name__ == "__main__":
    commands, answers, seconds = sys.argv[1:]
    import torch  # noqa: F401

    import trueline.cli
    import trueline.diagnose.replaying  # noqa: F401

    with open(commands, encoding="utf-8") as file:
        listed = json.load(file)
    found = [one(words, float(seconds)) for words in listed]
    with open(answers, "w", encoding="utf-8") as file:
        json.dump(found, file)
