"""Dumps: a switch that is on for some steps, and the folders that it leaves.

    <folder>/<tag>_v1.0/rank0/<name>.pkl     a line for each tensor: name, dtype, shape, statistics; stacks
    <folder>/<tag>_v1.0/rank0/<name>/*.npy   the tensors

Nothing is hooked but while the switch is on. A second dump with the same path and tag takes the place of the first.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trueline.capture import Capture, capture
from trueline.capture import seed_all as seed_everything
from trueline.compat.places import say
from trueline.compat.ptdbg_ascend.kernels import KernelDump, default_dump_config, read_dump_config
from trueline.compat.ptdbg_ascend.names import call_named, calls_between
from trueline.compat.ptdbg_ascend.overflowing import OverflowCheck
from trueline.compat.ptdbg_ascend.writing import write_dump
from trueline.errors import TruelineError, UsageError
from trueline.store.arrays import ArrayFiles

VERSION = "v1.0"
DEFAULT_TAG = "ptdbg_dump"
MODES = ("all", "list", "range", "stack", "acl", "api_list", "api_stack")
_SWITCH = ("ON", "OFF")
_STACKED = ("list", "range", "stack", "api_stack")
"""The modes in which stacks are written."""


def acc_cmp_dump() -> None:
    """Given to ``register_hook`` to say that calls are to be dumped; never called."""


def overflow_check() -> None:
    """Given to ``register_hook`` to say that overflows are to be found; never called."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What ``set_dump_switch("ON", ...)`` asks for."""

    mode: str = "all"
    scope: tuple[str, ...] = ()
    api_list: tuple[str, ...] = ()
    filtered: bool = True

    def options(self) -> dict[str, Any]:
        """The same in the words of ``capture``."""
        given: dict[str, Any] = {
            "data": "structure" if self.mode == "stack" else "tensors",
            "integers": not self.filtered,
            "stacks": self.mode in _STACKED,
        }
        calls = [call_named(name) for name in self.scope]
        if self.mode in ("list", "acl"):
            given["calls"] = calls
        elif self.mode in ("range", "stack") and calls and not any(name.endswith(".backward") for name in calls):
            given["between"] = calls  # what lies between others is known when the backward has run
        elif self.mode == "api_list":
            given["apis"] = [form for name in self.api_list for form in (name, f"{name}_")]
        return given

    def chosen(self, run: Path) -> frozenset[str] | None:
        """The calls of a Run that are to be written, forward and backward told apart; None for all."""
        names = [call_named(name) for name in self.scope]
        if self.mode == "list":
            return frozenset(names)
        return frozenset(calls_between(run, *names)) if self.mode in ("range", "stack") and names else None


@dataclass(slots=True)
class Session:
    """What was set, and the dump that is on."""

    path: Path | None = None
    tag: str = DEFAULT_TAG
    rank: int = 0
    registered: bool = False
    dump_config: Path | None = None
    gradients: tuple[Path, ...] = ()
    overflow: OverflowCheck | None = None
    wish: Wish = field(default_factory=Wish)
    _capture: Capture | None = None

    @property
    def folder(self) -> Path:
        root = Path() if self.path is None else self.path.parent
        return root / f"{self.tag}_{VERSION}" / f"rank{self.rank}"

    def begin(self, wish: Wish) -> None:
        self.end()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.wish = wish
        scratch = Path(tempfile.mkdtemp(prefix=".trueline-", dir=self.folder))
        self._capture = capture(scratch / "run", framework="torch", **wish.options())
        self._capture.tensors = ArrayFiles  # what is dumped is what the capture has written
        self._capture.start()
        self._capture.step()  # said once, so that the program's optimizers end no step: the switch does
        atexit.register(self.end)

    def end(self) -> None:
        """Ends the dump, if one is on, and writes its files."""
        if self._capture is None:
            return
        recorded, self._capture = self._capture, None
        atexit.unregister(self.end)
        recorded.stop()
        try:
            self._write(recorded.path)
        except TruelineError as error:  # never the end of the program
            say(f"nothing was dumped: {error}")
        finally:
            shutil.rmtree(recorded.path.parent, ignore_errors=True)

    def _write(self, run: Path) -> None:
        assert self.path is not None
        if self.wish.mode == "acl":
            calls = [call_named(name) for name in self.wish.scope]
            config = self.dump_config or default_dump_config(self.folder)
            KernelDump(read_dump_config(config), config).of_run(run, calls, self.gradients)
            return
        name = ("api_stack_" if self.wish.mode == "api_stack" else "") + self.path.stem
        write_dump(
            run, self.folder, name, stacks=self.wish.mode in _STACKED, integers=not self.wish.filtered,
            stack_only=self.wish.mode == "stack", calls=self.wish.chosen(run),
        )  # fmt: skip


session = Session()


def seed_all(seed: int = 1234, mode: bool = False) -> None:
    """Fixes random numbers; with ``mode`` asks for deterministic algorithms too."""
    seed_everything(seed, mode)


def set_dump_path(fpath: str, dump_tag: str = DEFAULT_TAG) -> None:
    """Where dumps go: a file ``name.pkl``, which gives them their name, and a tag for their folder."""
    path = Path(fpath)
    if path.suffix != ".pkl":
        raise UsageError(f"set_dump_path takes the path of a .pkl file, for example ./dump/npu_dump.pkl, not {fpath!r}")
    if not dump_tag or "/" in dump_tag:
        raise UsageError(f"dump_tag is the name of a folder, not {dump_tag!r}")
    session.end()
    session.path, session.tag, session.registered = path, dump_tag, False


def register_hook(
    model: Any,
    hook: Any,
    overflow_nums: int = 1,
    dump_mode: str = "api",
    dump_config: str | None = None,
    rank: int | None = None,
) -> None:
    """Says what is to be done: ``acc_cmp_dump`` lets ``set_dump_switch`` dump calls, ``overflow_check`` begins to look
    for overflows at once and ends the program at the ``overflow_nums``-th. ``rank`` names the folder; by default the
    number of the model's device."""
    if hook not in (acc_cmp_dump, overflow_check):
        raise UsageError("register_hook takes acc_cmp_dump or overflow_check as its second argument")
    if dump_mode not in ("api", "acl"):
        raise UsageError(f"dump_mode is api or acl, not {dump_mode!r}")
    if dump_mode == "acl":
        if dump_config is None:
            raise UsageError("dump_mode='acl' needs dump_config, the path of a dump.json")
        read_dump_config(Path(dump_config))
    config = None if dump_config is None else Path(dump_config)
    session.rank = _rank_of(model) if rank is None else rank
    if hook is overflow_check:
        if session.overflow is not None:
            session.overflow.stop()
        session.overflow = OverflowCheck(session.folder, overflow_nums, config if dump_mode == "acl" else None)
        session.overflow.start()
        return
    if session.path is None:
        raise UsageError("call set_dump_path before register_hook: it says where dumps go")
    session.registered, session.dump_config = True, config


def set_dump_switch(
    switch: str,
    mode: str = "all",
    scope: Sequence[str] = (),
    api_list: Sequence[str] = (),
    filter_switch: str = "ON",
) -> None:
    """Begins (``ON``) or ends (``OFF``) a dump. ``scope`` are names of calls: for ``list`` and ``acl`` all of them, for
    ``range`` and ``stack`` the first and the last; a ``_forward`` does not stand for its ``_backward``. ``api_list``
    are names of APIs without what stands before them: ``relu`` is torch.relu, torch.nn.functional.relu, Tensor.relu and
    relu_, and not relu6. ``filter_switch="OFF"`` also dumps integers and bools."""
    _one_of("switch", switch, _SWITCH)
    if switch == "OFF":
        session.end()
        return
    _one_of("mode", mode, MODES)
    _one_of("filter_switch", filter_switch, _SWITCH)
    if not session.registered:
        raise UsageError("call set_dump_path and register_hook(model, acc_cmp_dump) before set_dump_switch")
    wish = Wish(mode, tuple(scope), tuple(api_list), filter_switch == "ON")
    _check(wish)
    session.begin(wish)


def set_overflow_check_switch(switch: str, filter_switch: str = "ON") -> None:
    """Looks for overflows in some steps only: ``ON`` before, ``OFF`` after them."""
    _one_of("switch", switch, _SWITCH)
    _one_of("filter_switch", filter_switch, _SWITCH)
    if session.overflow is None:
        raise UsageError("call register_hook(model, overflow_check) before set_overflow_check_switch")
    if switch == "ON":
        session.overflow.start()
    else:
        session.overflow.stop()


def set_backward_input(backward_input: Sequence[str]) -> None:
    """The gradients with which the kernels of a backward call are dumped, as .npy files of an earlier dump."""
    paths = tuple(Path(one) for one in backward_input)
    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        raise UsageError(f"set_backward_input: there is no file {missing}")
    session.gradients = paths


def _check(wish: Wish) -> None:
    if wish.mode in ("list", "acl") and not wish.scope:
        raise UsageError(f"mode {wish.mode!r} needs scope: the names of the calls to dump")
    if wish.mode in ("range", "stack") and wish.scope and len(wish.scope) != 2:
        raise UsageError(f"mode {wish.mode!r} takes two names, the first and the last, not {len(wish.scope)}")
    if wish.mode == "range" and not wish.scope:
        raise UsageError("mode 'range' needs scope: the first and the last call")
    if wish.mode == "api_list" and not wish.api_list:
        raise UsageError("mode 'api_list' needs api_list: for example ['relu']")
    wish.options()  # names that cannot be read are an error now
    if wish.mode == "acl":
        from trueline.compat.places import has_npu

        if not has_npu():
            say("no Ascend NPU here: acl mode dumps the kernels that torch calls, on the device of the call")


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"{name} is one of {', '.join(choices)}, not {value!r}")


def _rank_of(model: Any) -> int:
    """The number of the device that the model is on; else that of the process."""
    from trueline.frameworks import machine

    parameters = getattr(model, "parameters", None)
    first = next(iter(parameters()), None) if callable(parameters) else None
    index = getattr(getattr(first, "device", None), "index", None)
    return machine.adapter("torch").rank()[0] if index is None else int(index)
