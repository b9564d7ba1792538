"""Models that are read once for many commands: what takes longest in a warm command is to read its model.

A copy of the warm process (``infer_worker``) reads its model and says which it was. While it goes on, the warm process
reads the same, and later copies that ask for it are given what lies there: their own copy of it, untouched, as all of
their memory is. Not at the same time: two that read with several threads each take more than twice as long on a few
cores, and what ends a copy must not end the warm process. It must be asked for by the same function with the same
arguments, and the files must be as they were; what is asked for twice is read. Only what stays in the memory of the
host is shared: a device does not survive the copying.

What is read is written down as a **recipe**, plain enough for JSON: the name of a function and its arguments. Of
Paddle's predictors, whose argument is an object, those are the calls by which the object was made. Needs nothing but
Python: it runs in the interpreter of the project that is tested.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FUNCTIONS = ("torch.export.load", "torch.jit.load", "paddle.jit.load")
PREDICTOR = "paddle.inference.create_predictor"
_CONFIG = "Config"
_CALLS = "_trueline_calls"
_DEVICE = re.compile(r"(cuda|gpu|xpu|npu|mps|mtia)(:\d+)?")
_DEVICE_CALL = re.compile(r"(?!disable_).*(gpu|xpu|npu|ipu|cuda|device|tensorrt|trt|cinn)")
_PLAIN = (str, int, float, bool, type(None))
_MOST_KEPT = 4
_MOST_BYTES = 1 << 30
_MOST_CREDIT = 4
_HARD = 2

Recipe = list[Any]
"""The name of a function, then its arguments; of a predictor the calls that made its config."""


class Unshared(Exception):
    """What was read cannot be written down as a recipe, or must not be shared."""


class Kept:
    """What the warm process has read, by recipe. ``credit`` is how often it may read something that nobody may want:
    what is taken earns, what is read costs."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, list[Any]]] = {}
        self._refused: set[str] = set()
        self._credit = 1

    def read(self, recipe: Recipe) -> None:
        """Reads a model for the copies to come, where that is likely to be of use."""
        key = _key(recipe)
        if key in self._kept or key in self._refused or self._credit <= 0:
            return
        self._credit -= 1
        try:
            files = files_of(recipe)
            if not 0 < sum(size for _, size, *_ in files) <= _MOST_BYTES:
                raise Unshared(key)
            with quiet_threads():
                made = _done(recipe)
        except BaseException:  # the copy will say what is wrong with it
            self._refused.add(key)
            return
        self._kept[key] = (made, files)
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def taken(self) -> None:
        """A copy has used something that was read for it."""
        self._credit = min(self._credit + 1, _MOST_CREDIT)

    def take(self, recipe: Recipe) -> list[Any]:
        """In a copy: what was read, alone in a list, or nothing. It is given once."""
        made, files = self._kept.pop(_key(recipe), (None, None))
        return [] if files is None or files != files_of(recipe) else [made]


class Habits:
    """Which command asked for which model: of commands that differ in a number alone (how many threads), the next one's
    model is known before it is born. Only numbers are guessed: with another word the model might be one that cannot be
    read, which is for a copy to find out."""

    def __init__(self) -> None:
        self._last: tuple[list[str], Recipe] | None = None
        self._idle: set[str] = set()

    def asked(self, words: list[str], recipe: Recipe) -> None:
        """A command asked for a model. Options that differ from the last one's, which asked for the same, do nothing
        to it: the size of a batch."""
        if self._last is not None and _key(self._last[1]) == _key(recipe):
            self._idle.update(_changed(self._last[0], words))
        self._last = words, recipe

    def foreseen(self, words: list[str]) -> Recipe | None:
        """What a command will ask for, where one option alone can make the difference; None where nobody knows."""
        if self._last is None or not self._idle:
            return None
        before, recipe = self._last
        changed = [pair for name, pair in _changed(before, words).items() if name not in self._idle]
        if len(changed) != 1:
            return None
        old, new = (_number(text) for text in changed[0])
        if old is None or new is None or sum(type(leaf) is int and leaf == old for leaf in _leaves(recipe)) != 1:
            return None
        guessed: Recipe = _with_number(recipe, old, new)
        return guessed


def _changed(before: list[str], words: list[str]) -> dict[str, tuple[str, str]]:
    """The options (or places) in which two commands differ, with their values; none where they are made otherwise."""
    if len(before) != len(words):
        return {}
    found = {}
    for place, (old, new) in enumerate(zip(before, words, strict=True)):
        if old != new:
            (name, _, first), (other, _, second) = old.rpartition("="), new.rpartition("=")
            if name != other:
                return {}
            option = words[place - 1] if place and words[place - 1].startswith("-") else str(place)
            found[name or option] = (first, second)
    return found


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _with_number(value: Any, old: int, new: int) -> Any:
    if isinstance(value, list):
        return [_with_number(item, old, new) for item in value]
    if isinstance(value, dict):
        return {name: _with_number(item, old, new) for name, item in value.items()}
    return new if type(value) is int and value == old else value


def offer(kept: Kept, tell: Callable[[dict[str, Any]], None]) -> None:
    """In a copy: puts itself before the functions that read models. ``tell`` carries {"load": recipe} and {"took":
    recipe} to the warm process."""
    for name in FUNCTIONS:
        with contextlib.suppress(KeyError, AttributeError):
            _replace(name, functools.partial(_plain_recipe, name), kept, tell)
    with contextlib.suppress(KeyError, AttributeError):
        _replace(PREDICTOR, _predictor_recipe, kept, tell)
        module = sys.modules[PREDICTOR.rpartition(".")[0]]
        setattr(module, _CONFIG, _recorded(getattr(module, _CONFIG)))


def _replace(name: str, recipe_of: Callable[..., Recipe], kept: Kept, tell: Callable[[dict[str, Any]], None]) -> None:
    place, _, last = name.rpartition(".")
    module = sys.modules[place]
    original = getattr(module, last)

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        try:
            recipe = recipe_of(*args, **kwargs)
        except Unshared:
            return original(*args, **kwargs)
        ready = kept.take(recipe)
        if ready:
            tell({"took": recipe})
            return ready[0]
        made = original(*args, **kwargs)
        tell({"load": recipe})
        return made

    setattr(module, last, load)


# Recipes


def _plain_recipe(name: str, *args: Any, **kwargs: Any) -> Recipe:
    values, named = _plain(args, kwargs)
    if _device_in_use() or any(_DEVICE.fullmatch(str(value)) for value in (*values, *named.values())):
        raise Unshared(name)
    return [name, values, named]


def _predictor_recipe(config: Any) -> Recipe:
    calls = getattr(config, _CALLS, None)
    if calls is None or _device_in_use() or any(_DEVICE_CALL.match(name) for name, _, _ in calls):
        raise Unshared(PREDICTOR)
    return [PREDICTOR, *[[name, *_plain(args, kwargs)] for name, args, kwargs in calls]]


def _plain(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as JSON has them: paths become strings, all else must be plain."""

    def plain(value: Any) -> Any:
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(value, _PLAIN):
            raise Unshared(type(value).__name__)
        return value

    return [plain(value) for value in args], {name: plain(value) for name, value in kwargs.items()}


def _recorded(kind: Any) -> Any:
    """A class like Paddle's config whose objects remember by which calls they became what they are. What a call gives
    back that could be changed (the list of passes) is no longer in our hands: then nothing is shared."""

    class Config(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            object.__setattr__(self, _CALLS, [("", args, kwargs)])

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name.startswith("_") or not callable(value):
                return value

            @functools.wraps(value)
            def call(*args: Any, **kwargs: Any) -> Any:
                made = value(*args, **kwargs)
                if made is None:
                    getattr(self, _CALLS).append((name, args, kwargs))
                elif not isinstance(made, _PLAIN):
                    getattr(self, _CALLS).append((name, (made,), {}))
                return made

            return call

    Config.__module__, Config.__qualname__ = kind.__module__, kind.__qualname__
    return Config


def _done(recipe: Recipe) -> Any:
    """Does what a recipe says."""
    name, *rest = recipe
    place, _, last = name.rpartition(".")
    module = importlib.import_module(place)
    if name != PREDICTOR:
        args, kwargs = rest
        return getattr(module, last)(*args, **kwargs)
    (_, args, kwargs), *calls = rest
    config = getattr(module, _CONFIG)(*args, **kwargs)
    for method, args, kwargs in calls:
        getattr(config, method)(*args, **kwargs)
    return getattr(module, last)(config)


def _key(recipe: Recipe) -> str:
    return json.dumps(recipe, sort_keys=True)


def files_of(recipe: Recipe) -> list[list[Any]]:
    """The files that a recipe names, also those whose names begin as it says: name, size, time and number of each."""
    texts = {leaf for leaf in _leaves(recipe) if isinstance(leaf, str) and leaf}
    names = {text for text in texts if os.path.lexists(os.path.dirname(text) or ".")}
    found = {path for text in names for path in (text, *glob.glob(f"{glob.escape(text)}*")) if os.path.isfile(path)}
    states = [(path, os.stat(path)) for path in sorted(found)]
    return [[path, state.st_size, state.st_mtime_ns, state.st_ino] for path, state in states]


def _leaves(value: Any) -> Iterator[Any]:
    """All that stands in a recipe."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
        return
    for item in value:
        yield from _leaves(item)


# What reading leaves behind


def _device_in_use() -> bool:
    """Whether what is read may come to lie on a device: torch has begun to use one, or Paddle was built for one."""
    torch, paddle = sys.modules.get("torch"), sys.modules.get("paddle")
    kinds: list[Any] = [getattr(torch, name, None) for name in ("cuda", "xpu", "mtia")]
    awake = any(kind.is_initialized() for kind in kinds if hasattr(kind, "is_initialized"))
    return awake or (paddle is not None and bool(paddle.is_compiled_with_cuda() or paddle.is_compiled_with_xpu()))


def rest_threads() -> bool:
    """Ends the threads of OpenMP that reading has started; says whether those that are left may come back by
    themselves. GNU's runtime must let them go before a process is copied, those of Intel and LLVM start anew in a
    copy."""
    libraries = _threading_libraries()
    for path in libraries:
        if "gomp" in os.path.basename(path):
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(path).omp_pause_resource_all(_HARD)
    return any("gomp" not in os.path.basename(path) for path in libraries)


@contextlib.contextmanager
def quiet_threads() -> Iterator[None]:
    """Threads of Intel's and LLVM's OpenMP that have nothing to do wait without turning, which they would for a fifth
    of a second, on cores that the next copy wants."""
    before = []
    for path in _threading_libraries():
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(path)
            before.append((library, library.kmp_get_blocktime()))
            library.kmp_set_blocktime(0)
    try:
        yield
    finally:
        for library, milliseconds in before:
            library.kmp_set_blocktime(milliseconds)


def _threading_libraries() -> set[str]:
    """The runtimes of OpenMP that are loaded."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    return {line.split()[-1] for line in maps.splitlines() if re.search(r"lib(iomp5|omp|gomp)[^/]*\.so", line)}
