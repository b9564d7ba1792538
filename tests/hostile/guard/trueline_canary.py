"""A module that no file may get imported: it says so by writing a file."""

import os

with open(os.path.join(os.environ["TRUELINE_BAIT"], "ran-0000"), "w", encoding="utf-8") as file:
    file.write("imported")


def run(*arguments, **named):
    """Stands for any function that a file may name."""
    with open(os.path.join(os.environ["TRUELINE_BAIT"], "ran-0000"), "a", encoding="utf-8") as file:
        file.write(" and called")
    return arguments[0] if arguments else None


class Evil:
    """Stands for any class that a file may name."""

    def __init__(self, *arguments, **named):
        run()
