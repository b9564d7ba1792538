"""``run_paddle`` and ``run_torch``: every call of a dumped JSON file alone, on a device, in some dtypes.

    <out>/backend_output/<key>.<n>.npy             what a call gave; bfloat16 as float32
    <out>/backend_output_backward/<key>.<n>.npy    the gradients that it gave
    <out>/Warning_list.txt                         calls that did not return, and why
    <out>/profile_analyze.log, memory_analyze.log  -mode pro and mem
    <out>/run                                      ours: the same as a Run, bit for bit; acc_direct_cmp reads it
    <out>/keys.json                                ours: which keys of the JSON file each call of the Run stands for

With several dtypes each has a folder of its own, ``<out>/FP32``; all are fed the same numbers, which the coarsest of
them can hold, so that a comparison measures the operator and not the rounding of its input.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueline.compat.alike import calls_alike
from trueline.compat.command import EXIT_CLEAN, EXIT_FAILED, Parser, run_command
from trueline.compat.paddleapex.timed import write_logs
from trueline.compat.places import gpus, paddle_place, say
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.formats.limits import read_json
from trueline.numerics import widen
from trueline.records import Call, Phase
from trueline.store import RankReader, open_run

DTYPES = {
    "FP32": "float32", "FP16": "float16", "BF16": "bfloat16", "FP64": "float64",
    "FLOAT32": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "FLOAT64": "float64",
}  # fmt: skip
MODES = ("acc", "mem", "pro")
RUN, KEYS, WARNINGS = "run", "keys.json", "Warning_list.txt"
FOLDERS = {Phase.FORWARD: "backend_output", Phase.BACKWARD: "backend_output_backward"}


def parser(command: str = "run_paddle") -> Parser:
    options = Parser(
        command,
        "Runs every call of a JSON file of the Tracer alone, forward and backward.",
        f"{command} -json dump_info/rank0_step5/forward_rank0_all.json -out fp32 -dtype FP32 -mode acc",
    )
    options.add_argument("-json", "--json", required=True, help="a JSON file of the Tracer")
    options.add_argument("-out", "--dump_path", default=f"./{command.partition('_')[2]}/", help="where results go")
    options.add_argument("-backend", "--backend", default="gpu", choices=("gpu", "npu", "cpu"), help="the device")
    options.add_argument(
        "-dtype", "--dtype", "--enforce-dtype", default="", help="FP32,FP16,BF16: every call once in each"
    )
    options.add_argument("-real", "--real_data", default="", help="the folder with the tensors of the dump")
    options.add_argument("-op", "--op_name", default="", help="only these keys: 'paddle.add*0'")
    options.add_argument("-mode", "--mode", default="all", help="acc, mem, pro, some of them with commas, or all")
    return options


def main(words: Sequence[str] | None = None) -> int:
    return run_command(parser(), lambda options: run(options, *paddle_place(options.backend)), words)


def main_torch(words: Sequence[str] | None = None) -> int:
    return run_command(parser("run_torch"), lambda options: run(options, *_torch_place(options.backend)), words)


def _torch_place(backend: str) -> tuple[str, str]:
    if backend == "cpu" or not gpus():
        return "torch:cpu", "" if backend == "cpu" else "no GPU here: the APIs run on the CPU, torch:cpu"
    return "torch:cuda:0", ""


def run(options: argparse.Namespace, place: str, notice: str) -> int:
    from trueline.exchange import import_apex

    modes, dtypes = _modes(options.mode), _dtypes(options.dtype)
    say(notice)
    with tempfile.TemporaryDirectory(prefix="trueline-apex-") as scratch:
        if options.real_data and not Path(options.real_data).is_dir():
            raise UsageError(f"-real: there is no folder {options.real_data}")
        calls, source = _chosen(Path(options.json), options.op_name, Path(scratch)), Path(scratch) / "calls"
        import_apex(calls, source, tensors=options.real_data or Path(options.json).parent)
        coarsest = min(dtypes.values(), key=lambda one: dtype_named(one).digits) if len(dtypes) > 1 else ""
        returned = 0
        for word, dtype in dtypes.items() or (("", ""),):
            folder = Path(options.dump_path) / (word if len(dtypes) > 1 else "")
            folder.mkdir(parents=True, exist_ok=True)
            target = f"{place}/{dtype}" if dtype else place
            returned += _one(source, folder, target, modes, coarsest)
    return EXIT_CLEAN if returned else EXIT_FAILED


def _one(source: Path, folder: Path, target: str, modes: Sequence[str], rounded_to: str) -> int:
    """All calls in one dtype; gives how many returned."""
    returned = 0
    if "acc" in modes:
        from trueline.campaign.execute import execute

        if (folder / RUN).exists():
            raise UsageError(f"{folder} holds results already; choose another -out or remove it")
        report = execute(source, target=target, out=folder / RUN, inputs_rounded_to=rounded_to)
        _write_outputs(source, folder, report.skipped)
        returned = report.returned
        print(f"{target}: {report.returned} of {report.cases} cases returned; {folder}")
    if "pro" in modes or "mem" in modes:
        from trueline.campaign.profile import profile

        timed = profile(source, target=target)
        write_logs(source, timed.results, folder, modes)
        returned = max(returned, timed.timed)
        print(f"{target}: {timed.timed} cases timed; {folder}")
    return returned


def _modes(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["all"]:
        return list(MODES)
    if not words or any(word not in MODES for word in words):
        raise UsageError(f"-mode {text!r}: write all, or some of {', '.join(MODES)} with commas")
    return words


def _dtypes(text: str) -> dict[str, str]:
    words = [word.strip().upper() for word in text.split(",") if word.strip()]
    unknown = next((word for word in words if word not in DTYPES), None)
    if unknown is not None:
        raise UsageError(f"-dtype: {unknown!r} is none of FP32, FP16, BF16")
    return {word: DTYPES[word] for word in words}


def _chosen(path: Path, wanted: str, scratch: Path) -> Path:
    """The JSON file, or one with the wanted keys alone."""
    if not path.is_file():
        raise UsageError(f"-json: there is no file {path}")
    keys = [key.strip() for key in wanted.split(",") if key.strip()]
    if not keys:
        return path
    content = read_json(path)
    kept = {key: content[key] for key in keys if key in content} if isinstance(content, dict) else {}
    if not kept:
        raise UsageError(f"-op: {path} has no {', '.join(keys)}; its keys look like {next(iter(content), 'none')}")
    chosen = scratch / path.name
    chosen.write_text(json.dumps(kept), encoding="utf-8")
    return chosen


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


def _write_outputs(source: Path, folder: Path, skipped: Mapping[str, int]) -> None:
    """The files of the old tool, from the Run."""
    keys = keys_of(source)
    with open_run(folder / RUN) as run:
        reader = run.rank(0)
        place, names = -1, {}
        warnings = [f"{count} x {reason}" for reason, count in skipped.items()]
        for call in reader.trace():
            if call.phase is Phase.FORWARD:
                place += 1
                names[f"{call.api}*{call.index}"] = keys[place]
                if call.raised:
                    warnings += [f"{key}: {call.raised}" for key in keys[place]]
            _save(reader, call, keys[place], folder / FOLDERS[call.phase])
    for one in FOLDERS.values():
        (folder / one).mkdir(exist_ok=True)
    (folder / WARNINGS).write_text("".join(f"{line}\n" for line in warnings), encoding="utf-8")
    (folder / KEYS).write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")


def _save(reader: RankReader, call: Call, keys: Sequence[str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for number, record in enumerate(call.outputs):
        values: Any = reader.tensor(record)
        if record.dtype not in np.sctypeDict:  # numpy has no such type: the same numbers in one that it has
            values = widen(values, dtype_named(record.dtype)).astype(np.float32)
        for key in keys:
            np.save(folder / f"{key}.{number}.npy", values, allow_pickle=False)
