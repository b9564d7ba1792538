"""The folder of one replay: what ``run_paddle`` writes into it, and the Run that a comparison makes of it.

    <out>/backend_output/<key>.<n>.npy             what a call gave; bfloat16 as float32, <key>.<n>.bfloat16.npy
    <out>/backend_output_backward/<key>.<n>.npy    the gradients that it gave
    <out>/replay.json                              ours: where it ran, in which dtype, on which inputs
    <out>/run                                      ours: the same as a Run, with the inputs
    <out>/keys.json                                ours: which keys of the JSON file each call of the Run stands for

A comparison reads the first two, whoever wrote them, and takes from the others only what went in. So what somebody
brings from another machine, or changes, is what is compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueline.checked import Unfit, json_value, record, text_of
from trueline.compat.alike import calls_alike
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.exchange.importing import write_dump
from trueline.exchange.outgoing import calls_of
from trueline.formats.apex_outputs import FOLDERS, Outputs, find_outputs
from trueline.formats.foreign import ForeignCall, ForeignDump, ForeignRank, ForeignTensor
from trueline.numerics import widen
from trueline.records import Call, Phase, Role
from trueline.store import RankReader, open_run

RUN, KEYS, REPLAY = "run", "keys.json", "replay.json"

Keys = Mapping[str, Sequence[str]]
"""What the Run calls a call (``paddle.add*0``) -> the keys of the dump that it stands for."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How a folder came about. ``inputs`` is the dtype to which all inputs were rounded before that of the target,
    empty where they were not."""

    target: str
    inputs: str = ""


def write_replay(folder: Path, replay: Replay) -> None:
    content = {"target": replay.target, "inputs": replay.inputs}
    (folder / REPLAY).write_text(json.dumps(content) + "\n", encoding="utf-8")


def replay_of(folder: Path) -> Replay | None:
    """How a folder came about; None where it does not say, as those of the old tool."""
    path = folder / REPLAY
    if not path.exists():
        return None
    try:
        return record(Replay, json_value(text_of(path)))
    except Unfit as error:
        raise UsageError(f"{path} is damaged: {error}") from None


# Writing.


def write_outputs(source: Path, folder: Path) -> list[tuple[str, str]]:
    """The files of the old tool, from the Run; gives the keys of calls that did not return, and why."""
    keys = keys_of(source)
    for names in FOLDERS.values():
        (folder / names[0]).mkdir(exist_ok=True)
    failed: list[tuple[str, str]] = []
    names_of: dict[str, list[str]] = {}
    with open_run(folder / RUN) as run:
        reader = run.rank(0)
        place = -1
        for call in reader.trace():
            if call.phase is Phase.FORWARD:
                place += 1
                names_of[f"{call.api}*{call.index}"] = keys[place]
                failed += [(key, call.raised) for key in keys[place] if call.raised]
            _save(reader, call, keys[place], folder / FOLDERS[call.phase][0])
    (folder / KEYS).write_text(json.dumps(names_of, indent=1) + "\n", encoding="utf-8")
    return failed


def _save(reader: RankReader, call: Call, keys: Sequence[str], folder: Path) -> None:
    for number, tensor in enumerate(call.outputs):
        values: Any = reader.tensor(tensor)
        suffix = ""
        if tensor.dtype not in np.sctypeDict:  # numpy has no such type: the same numbers in one that it has
            values = widen(values, dtype_named(tensor.dtype)).astype(np.float32)
            suffix = f".{tensor.dtype}"
        for key in keys:
            np.save(folder / f"{key}.{number}{suffix}.npy", values, allow_pickle=False)


def key_of(call: str) -> str:
    """``paddle.add*0`` of the call ``paddle.add.0.forward``."""
    api, _, number = call.rpartition(".")[0].rpartition(".")
    return f"{api}*{number}"


def keys_of(source: Path) -> list[list[str]]:
    """The keys that each case of a source stands for, in the order in which cases are executed."""
    from trueline.replay.cases import cases_from_run

    cases = cases_from_run(source).cases
    alike = calls_alike(source, cases)
    return [[key_of(name) for name in alike[case.calls[0]]] for case in cases]


# Reading.


def has_outputs(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in FOLDERS[Phase.FORWARD])


def runs_of(folders: Sequence[Path], outs: Sequence[Path]) -> list[str]:
    """Writes the outputs of replays that are to be compared as Runs, with the inputs where all of them have these;
    gives all keys, also of calls that did not return. A replay without any output becomes no Run."""
    inputs = all((folder / RUN).is_dir() for folder in folders)
    found = [_run_of(folder, out, inputs) for folder, out in zip(folders, outs, strict=True)]
    return list(dict.fromkeys(key for keys in found for key in keys))


def _run_of(folder: Path, out: Path, inputs: bool) -> list[str]:
    found = find_outputs(folder)
    if found is None:
        raise UsageError(f"{folder} holds no outputs: it is what was given to run_paddle -out, with -mode acc or all")
    known = _keys(folder)
    calls = list(known) if known else found.keys
    framework = "paddle"
    if (folder / RUN).is_dir():
        with open_run(folder / RUN) as run:
            framework = run.info.framework
    if found.keys:
        part = ForeignRank(0, 0, _calls(folder, found, known, inputs))
        write_dump(ForeignDump("apex", framework, [part]), folder, out)
    return list(dict.fromkeys([*(key for name in calls for key in known.get(name, [name])), *found.keys]))


def _keys(folder: Path) -> Keys:
    path = folder / KEYS
    if not path.exists():
        return {}
    try:
        found = json_value(text_of(path, 64 << 20))
        if not isinstance(found, dict) or not all(isinstance(one, list) for one in found.values()):
            raise Unfit("it is no table of keys")
    except Unfit as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    return {str(name): [str(key) for key in keys] for name, keys in found.items()}


def _calls(folder: Path, found: Outputs, known: Keys, inputs: bool) -> Iterator[ForeignCall]:
    """Every call with outputs: those of the Run with what went into them, then the others."""
    told: set[tuple[Phase, str]] = set()
    if inputs:
        with open_run(folder / RUN) as run:
            for call, foreign in calls_of(run.rank(0), 0):
                for key in known.get(f"{call.api}*{call.index}", ()):
                    told.add((call.phase, key))
                    if outputs := found.tensors(call.phase, key):
                        yield _named(_with_outputs(foreign, outputs), key)
    for phase, key in sorted(found.files, key=lambda one: (one[1], one[0] is Phase.BACKWARD)):
        if (phase, key) not in told:
            bare = ForeignCall("", 0, phase, arguments={"args": [], "kwargs": {}} if phase is Phase.FORWARD else {})
            if outputs := found.tensors(phase, key):  # the old tool writes a file for nothing too
                yield _named(_with_outputs(bare, outputs), key)


def _named(call: ForeignCall, key: str) -> ForeignCall:
    call.api, _, number = key.rpartition("*")
    call.index = int(number)
    return call


def _with_outputs(call: ForeignCall, outputs: Sequence[ForeignTensor]) -> ForeignCall:
    """A new call of the same inputs that gave these."""
    inputs = [one for one in call.tensors if one[0] is Role.INPUT]
    places = [number for number, (role, _) in enumerate(call.tensors) if role is Role.OUTPUT]
    made = ForeignCall(call.api, call.index, call.phase, module=call.module, arguments=call.arguments, stack=call.stack)
    if len(places) == len(outputs) and places:
        made.tensors, made.result = list(call.tensors), call.result
        for number, tensor in zip(places, outputs, strict=True):
            made.tensors[number] = (Role.OUTPUT, tensor)
        return made
    if places and places[0] < len(inputs):
        made.arguments, inputs = None, []  # leaves are told by their numbers, and these have moved
    made.tensors = [*inputs, *((Role.OUTPUT, tensor) for tensor in outputs)]
    leaves = [{"$t": len(inputs) + number} for number in range(len(outputs))]
    made.result = {"out": leaves[0] if len(leaves) == 1 else {"$tuple": leaves}}
    return made
