"""The readers that are fuzzed: how a small dump of each kind is made, and how it is read to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES
from trueline.errors import TruelineError
from trueline.formats import (
    apex,
    checker_json,
    configs,
    msprobe,
    msprobe_writer,
    npy,
    paddle_files,
    ptdbg,
    tensor_files,
    torch_files,
)
from trueline.formats.foreign import ForeignCall, ForeignDump, ForeignTensor, Summary
from trueline.pipeline.config import read_config
from trueline.pipeline.plan import plan_pipeline
from trueline.records import Frame, Phase, Role


def _tensor(seed: int, dtype: str = "float32") -> ForeignTensor:
    values = np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else values.astype(dtype)
    summary = Summary(float(values.max()), float(values.min()), float(values.mean()), 1.0)
    return ForeignTensor(dtype, (4, 6), True, summary=summary, fetch=lambda: (bits, DTYPES[dtype], ""))


def _calls(api: str) -> Iterator[ForeignCall]:
    """A few calls with everything that a dump can hold."""
    stack = (Frame("train.py", 12, "step"), Frame("train.py", 30, "<module>"))
    for number, dtype in enumerate(("float32", "bfloat16", "int64")):
        arguments = {
            "args": [{"$t": 0}, [{"$t": 1}, 2.5, None], {"$slice": [0, None, 2]}],
            "kwargs": {"dim": -1, "dtype": {"$dtype": "float32"}, "name": "x", "size": {"$size": [2, 3]}},
        }
        tensors = [(Role.INPUT, _tensor(number, dtype)), (Role.INPUT, _tensor(9)), (Role.OUTPUT, _tensor(number + 3))]
        yield ForeignCall(
            api, number, Phase.FORWARD, arguments=arguments, result={"out": {"$t": 2}}, tensors=tensors, stack=stack
        )
        back = [(Role.INPUT, _tensor(number + 20)), (Role.OUTPUT, _tensor(number + 21))]
        yield ForeignCall(
            api, number, Phase.BACKWARD, arguments={"out": {"$t": 0}}, result={"args.0": {"$t": 1}}, tensors=back
        )


def _widen(array: Any, dtype: Any) -> Any:
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype.name == "bfloat16" else array


def _fill(writer: Any, api: str = "torch.nn.functional.linear") -> None:
    for call in _calls(api):
        writer.add(call)
    writer.close()


def _make_tensor_files(folder: Path) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        found, known, _ = _tensor(1, dtype).fetch()  # type: ignore[misc]
        torch_files.write_tensor(folder / f"torch_{dtype}.pt", found, known)
        paddle_files.write_tensor(folder / f"paddle_{dtype}.pt", "x", found, known)
        npy.write_npy(folder / f"{dtype}.npy", found)


@dataclass(frozen=True)
class Reader:
    """One reader: how its dump is made, how it is read to the end, which of its files are damaged, and whether a
    whole dump can be imported as a Run."""

    make: Callable[[Path], None]
    read: Callable[[Path], object]
    pattern: str = "*"
    imports: bool = False


def _consume(dump: ForeignDump) -> None:
    for part in dump.ranks:
        for call in part.calls:
            for _, tensor in call.tensors:
                if tensor.fetch is not None:
                    np.ascontiguousarray(tensor.fetch()[0])


def _read_files(folder: Path, pattern: str) -> None:
    """Reads every file, whatever the others do; the last error of ours counts."""
    last: TruelineError | None = None
    for path in sorted(folder.glob(pattern)):
        try:
            np.ascontiguousarray(tensor_files.read_tensor(path)[0])
        except TruelineError as error:
            last = error
    if last is not None:
        raise last


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _make_apex(folder: Path) -> None:
    _fill(apex.Writer(folder, 0, 0, real=True), "paddle.nn.functional.linear")


_CONFIG_LINES = """\
paddle.add(Tensor([4, 6],"float32"), Tensor([4, 6],"float32"), )
paddle.concat(list[Tensor([2, 3],"float64"),Tensor([2, 3],"float64"),], axis=1, )
paddle.nn.functional.conv2d(Tensor([1, 3, 8, 8],"float16"), Tensor([4, 3, 3, 3],"float16"), padding=tuple(1,1,), )
paddle.slice(Tensor([5, 6],"int64"), axes=list[0,1,], starts=list[0,-1,], ends=list[3,2147483647,], )
paddle.full(shape=list[3,4,], fill_value=-1e-05, dtype=VarType(float32), name=None, )
paddle.Tensor.__getitem__(Tensor([7, 3],"bfloat16"), tuple(slice(None,None,None),-1,True,"x",), )
"""
_TIPC_LINES = """\
===========================train_params===========================
model_name:fuzzed
python:python3
gpu_list:-1
null:null
--amp_level:null|O1|O2
--epochs:lite_train_lite_infer=4|whole_train_whole_infer=12
--output-dir:./output/
--batch-size:lite_train_lite_infer=16|whole_train_whole_infer=32
--pretrained:null
train_model_name:latest.pt
train_infer_img_dir:./data
null:null
##
trainer:norm_train
norm_train:train.py
pact_train:null
fpgm_train:null
distill_train:null
null:null
null:null
##
===========================eval_params===========================
eval:train.py --test-only
null:null
##
===========================infer_params===========================
--save-inference-dir:./output/
--pretrained:
norm_export:export.py
quant_export:null
fpgm_export:null
distill_export:null
export1:null
export2:null
##
train_model:./output/latest.pt
infer_export:export.py
infer_quant:False
inference:infer.py
--use_gpu:True|False
--enable_mkldnn:True|False
--cpu_threads:1|6
--batch_size:1|16
--use_tensorrt:False
--precision:fp32|int8
--model_dir:./output/
--image_dir:./data
null:null
--benchmark:True
null:null
"""


def _read_config_lines(folder: Path) -> None:
    """Reads every line and writes it again; the last line that cannot be read counts."""
    last: TruelineError | None = None
    with (folder / "configs.txt").open(encoding="utf-8", errors="replace") as lines:
        for _, config in configs.parse_configs(lines):
            if isinstance(config, configs.ConfigError):
                last = config
            else:
                configs.config_line(configs.config_to_case(config))
    if last is not None:
        raise last


def _read_tipc(folder: Path) -> None:
    recipe = read_config(folder / "config.txt")
    for mode in ("lite_train_lite_infer", "whole_infer"):
        plan_pipeline([recipe], mode)


READERS: dict[str, Reader] = {
    "npy": Reader(_make_tensor_files, lambda folder: _read_files(folder, "*.npy"), "*.npy"),
    "torch": Reader(_make_tensor_files, lambda folder: _read_files(folder, "torch_*.pt"), "torch_*.pt"),
    "paddle": Reader(_make_tensor_files, lambda folder: _read_files(folder, "paddle_*.pt"), "paddle_*.pt"),
    "configs": Reader(lambda folder: _write_text(folder / "configs.txt", _CONFIG_LINES), _read_config_lines),
    "tipc": Reader(lambda folder: _write_text(folder / "config.txt", _TIPC_LINES), _read_tipc),
    "msprobe": Reader(
        lambda folder: _fill(msprobe_writer.Writer(folder, 0, 0, widen=_widen)),
        lambda folder: _consume(msprobe.read(folder)),
        imports=True,
    ),
    "ptdbg": Reader(
        lambda folder: _fill(ptdbg.Writer(folder / "rank0", "dump", widen=_widen, data="dump")),
        lambda folder: _consume(ptdbg.read(folder)),
        imports=True,
    ),
    "checker": Reader(
        lambda folder: _fill(checker_json.Writer(folder, 0, real=True)),
        lambda folder: _consume(checker_json.read(folder)),
        imports=True,
    ),
    "apex": Reader(_make_apex, lambda folder: _consume(apex.read(folder)), imports=True),
}
