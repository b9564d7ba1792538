"""What a user may say beside a config: where results lie, by whose custom, and which Python runs the scripts.

    tipc    ./test_tipc/output/MODEL/MODE/norm_train_gpus_0_autocast_False_nodes_1.log, lines with the name of the model
    log     ./log/MODEL/MODE/norm_train_gpus_0, lines without it: the first scripts of the short form, and the documents
            that show them

The long form came later; its results always lie where ``tipc`` has them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from trueline.errors import UsageError
from trueline.pipeline.recipe import TIPC_SHORT, Recipe

LOG, TIPC = "log", "tipc"
LAYOUTS = (TIPC, LOG)
LOG_OUTPUT = "./log"
_PATIENCE = 60.0


def arranged(recipe: Recipe, layout: str, python: str) -> Recipe:
    """A recipe as the user wants it; empty words change nothing."""
    if layout not in ("", *LAYOUTS):
        raise UsageError(f"there is no layout {layout!r}; there are {', '.join(LAYOUTS)}")
    if layout == LOG and recipe.form == TIPC_SHORT:
        recipe = replace(recipe, output=LOG_OUTPUT, plain_names=True)
    return replace(recipe, python=python) if python else recipe


def check_interpreters(recipes: Sequence[Recipe]) -> None:
    """Every config's Python must run, before anything else does: else each of its commands fails alike."""
    seen: set[str] = set()
    for recipe in recipes:
        if recipe.python not in seen and (said := _refusal(recipe)):
            raise UsageError(
                f"{recipe.config}: its interpreter {recipe.python!r} does not run here ({said}); name one that does in "
                f"the config, or say --python {os.path.basename(sys.executable)} (for TIPC's scripts: "
                f"export TRUELINE_PIPELINE_OPTIONS='--python {os.path.basename(sys.executable)}')"
            )
        seen.add(recipe.python)


def _refusal(recipe: Recipe) -> str:
    """Why an interpreter cannot be used; empty where it can. It may be several words, or need the variables of the
    config: a shell finds out, as it does later."""
    try:
        ended = subprocess.run(
            ["bash", "-c", f"{recipe.python} -c ''"], capture_output=True, text=True, errors="replace",
            env={**os.environ, **recipe.environment}, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except OSError:  # no bash: the commands themselves will say what is wrong
        return ""
    except subprocess.TimeoutExpired:
        return f"it took more than {_PATIENCE:g} s"
    if not ended.returncode:
        return ""
    words = ended.stderr.strip().splitlines()
    return words[0].strip() if words else f"exit code {ended.returncode}"
