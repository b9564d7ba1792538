"""``run_paddle`` and ``run_torch``: every call of a dumped JSON file alone, on a device, in some dtypes.

    <out>/Warning_list.txt                         calls that did not return, and why
    <out>/backend_output, backend_output_backward  see ``outputs``
    <out>/profile_analyze.log, memory_analyze.log  -mode pro and mem

With several dtypes each has a folder of its own, ``<out>/FP32``, and inputs of its own: those of the JSON file, rounded
to its dtype, as a run in this dtype alone has them. With --same_inputs all are fed the same numbers, which the coarsest
of them can hold, so that a comparison of two dtypes measures the operator and not the rounding of its input.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trueline.compat.command import EXIT_CLEAN, EXIT_FAILED, Parser, glued, run_command
from trueline.compat.paddleapex.outputs import RUN, Replay, has_outputs, write_outputs, write_replay
from trueline.compat.paddleapex.timed import write_logs
from trueline.compat.places import paddle_place, say, torch_gpu_place
from trueline.dtypes import dtype_named
from trueline.errors import UsageError
from trueline.formats.limits import read_json

DTYPES = {
    "FP32": "float32", "FP16": "float16", "BF16": "bfloat16", "FP64": "float64",
    "FLOAT32": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16", "FLOAT64": "float64",
}  # fmt: skip
MODES = ("acc", "mem", "pro")
WARNINGS = "Warning_list.txt"


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
    options.add_argument("-op", "--op_name", default="", help="only these: paddle.add, or one call, 'paddle.add*0'")
    options.add_argument("-mode", "--mode", default="all", help="acc, mem, pro, some of them with commas, or all")
    options.add_argument(
        "--same_inputs", action="store_true",
        help="with several dtypes: feed all of them the numbers that the coarsest can hold",
    )  # fmt: skip
    options.add_argument(
        "--fallback", choices=("cpu",), default="", help="where this machine has no such device, run on the CPU instead"
    )
    return options


def main(words: Sequence[str] | None = None) -> int:
    return run_command(parser(), lambda one: run(one, *paddle_place(one.backend, one.fallback)), _words(words))


def main_torch(words: Sequence[str] | None = None) -> int:
    return run_command(
        parser("run_torch"), lambda one: run(one, *torch_gpu_place(one.backend, one.fallback)), _words(words)
    )


def _words(words: Sequence[str] | None) -> list[str]:
    """The document writes ``-out[path]``, without a space."""
    return glued("-out", sys.argv[1:] if words is None else words)


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
        rounded_to = coarsest if options.same_inputs else ""
        if coarsest:
            say(_of_the_inputs(rounded_to))
        home, returned = Path(options.dump_path), 0
        warnings: list[str] = []
        for word, dtype in dtypes.items() or (("", ""),):
            leg = word if len(dtypes) > 1 else ""
            folder = home / leg
            folder.mkdir(parents=True, exist_ok=True)
            target = f"{place}/{dtype}" if dtype else place
            found, said = _one(source, folder, target, modes, rounded_to)
            returned += found
            warnings += [f"{leg} {line}" if leg else line for line in said]
    _write_warnings(home / WARNINGS, warnings)
    return EXIT_CLEAN if returned else EXIT_FAILED


def _of_the_inputs(rounded_to: str) -> str:
    if rounded_to:
        return f"--same_inputs: every dtype is fed the same numbers, those that {rounded_to} can hold"
    return (
        "every dtype has its own inputs, rounded to it: comparing two dtypes also measures that rounding "
        "(--same_inputs feeds all of them the same numbers)"
    )


def _write_warnings(path: Path, lines: Sequence[str]) -> None:
    """Once, at the top of the output; a second mode or key adds to what an earlier call found."""
    with open(path, "a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    if lines:
        print(f"{len(lines)} warnings: {path}")


def _one(source: Path, folder: Path, target: str, modes: Sequence[str], rounded_to: str) -> tuple[int, list[str]]:
    """All calls in one dtype; gives how many returned, and what is to be warned of."""
    returned, warnings = 0, []
    if "acc" in modes:
        from trueline.campaign.execute import execute

        if (folder / RUN).exists() or has_outputs(folder):
            raise UsageError(f"{folder} holds results already; choose another -out or remove it")
        report = execute(source, target=target, out=folder / RUN, inputs_rounded_to=rounded_to)
        write_replay(folder, Replay(target, rounded_to))
        warnings += [f"{count} x {reason}" for reason, count in report.skipped.items()]
        warnings += [f"{key}: {reason}" for key, reason in write_outputs(source, folder)]
        returned = report.returned
        print(f"{target}: {report.returned} of {report.cases} cases returned; {folder}")
    if "pro" in modes or "mem" in modes:
        from trueline.campaign.profile import profile

        timed = profile(source, target=target)
        write_logs(source, timed.results, folder, modes)
        returned = max(returned, timed.timed)
        print(f"{target}: {timed.timed} cases timed; {folder}")
    return returned, warnings


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
    table = content if isinstance(content, dict) else {}
    kept = {key: value for key, value in table.items() if key in keys or key.rpartition("*")[0] in keys}
    unknown = [key for key in keys if key not in table and not any(one.rpartition("*")[0] == key for one in table)]
    if unknown:
        near = difflib.get_close_matches(unknown[0], [*table, *(one.rpartition("*")[0] for one in table)], n=1)
        hint = f"did you mean {near[0]}?" if near else f"its keys look like {next(iter(table), 'none')}"
        raise UsageError(f"-op: {path} has no {', '.join(unknown)}; {hint}")
    chosen = scratch / path.name
    chosen.write_text(json.dumps(kept), encoding="utf-8")
    return chosen
