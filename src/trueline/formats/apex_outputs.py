"""What PaddleAPEX's ``run_paddle`` leaves of each call, for its comparison: read, ours and the old tool's.

    FOLDER/backend_output/paddle.add*0.<n>.npy            ours: the n-th output; bfloat16 as float32, and named
          /backend_output/paddle.add*0.<n>.bfloat16.npy   so that nothing else is needed to read it
          /backend_output_backward/...                    the gradients
          /output/paddle.add*0                            the old tool's: paddle.save([any bfloat16?, outputs])
          /output_backward/paddle.add*0

The old tool casts bfloat16 to float32 and says so once for all outputs of a call; before July 2024 it said nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, DType
from trueline.formats.foreign import ForeignTensor
from trueline.formats.limits import refuse
from trueline.formats.npy import read_npy
from trueline.formats.paddle_files import NumpyArray, read_paddle
from trueline.formats.tensor_files import narrow
from trueline.records import Phase

Array = np.ndarray[Any, Any]

FOLDERS: Mapping[Phase, tuple[str, ...]] = {
    Phase.FORWARD: ("backend_output", "output"),
    Phase.BACKWARD: ("backend_output_backward", "output_backward"),
}
"""The names of the folders: the document's and ours, then that of the old tool's last version."""
_KEY = re.compile(r"[A-Za-z_][\w.]*\*\d{1,12}")
_NPY = re.compile(rf"(?P<key>{_KEY.pattern})\.(?P<number>\d{{1,6}})(?:\.(?P<dtype>[a-z][a-z0-9_]*))?\.npy")
_MOST_OUTPUTS = 100_000


@dataclass(slots=True)
class Outputs:
    """The files of one replay: (direction, key) -> its files, by the number of the output, -1 for one that holds all.
    ``left_out`` are files that are none of these."""

    files: dict[tuple[Phase, str], dict[int, Path]] = field(default_factory=dict)
    left_out: list[Path] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(key for _, key in self.files))

    def tensors(self, phase: Phase, key: str) -> list[ForeignTensor]:
        """All outputs of a call in one direction, in order."""
        found: list[ForeignTensor] = []
        for number, path in sorted(self.files.get((phase, key), {}).items()):
            found += _saved(path) if number < 0 else [_plain(path)]
        return found


def find_outputs(folder: Path) -> Outputs | None:
    """The outputs below the folder of one replay; None where there are none."""
    places = {phase: next((folder / name for name in names if (folder / name).is_dir()), None)
              for phase, names in FOLDERS.items()}  # fmt: skip
    if places[Phase.FORWARD] is None:
        return None
    found = Outputs()
    for phase, place in places.items():
        for path in sorted(place.iterdir()) if place is not None else ():
            _enter(found, phase, path)
    return found


def _enter(found: Outputs, phase: Phase, path: Path) -> None:
    if named := _NPY.fullmatch(path.name):
        found.files.setdefault((phase, named["key"]), {})[int(named["number"])] = path
    elif _KEY.fullmatch(path.name):
        found.files.setdefault((phase, path.name), {})[-1] = path
    else:
        found.left_out.append(path)


def _plain(path: Path) -> ForeignTensor:
    array, kept = read_npy(path)
    named = _NPY.fullmatch(path.name)
    wanted = (named["dtype"] or "") if named is not None else ""
    return _tensor(path, array, kept, DTYPES.get(wanted))


def _saved(path: Path) -> list[ForeignTensor]:
    """All tensors in a file of the old tool, in order; they are read at once, since they lie in one value."""
    value = read_paddle(path)
    halved = False
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], bool):
        halved, value = value
    arrays = list(_flat(value, path))
    if len(arrays) > _MOST_OUTPUTS:
        refuse(path, f"it has {len(arrays):,} outputs")
    said = DTYPES["bfloat16"] if halved else None
    return [_tensor(path, array, kept, said if kept.name == "float32" else None) for array, kept in arrays]


def _flat(value: Any, path: Path) -> Iterator[tuple[Array, DType]]:
    """Paddle writes a tensor as (name, array); outputs nest in lists, and None stands for one that is none."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
            one = one[1]
        if isinstance(one, NumpyArray):
            yield one.array()
        elif isinstance(one, list | tuple):
            waiting += reversed(one)
        elif one is not None and not isinstance(one, bool | int | float | str):
            refuse(path, f"it holds {type(one).__name__}, which is no output of a call")


def _tensor(path: Path, array: Array, kept: DType, said: DType | None) -> ForeignTensor:
    """A tensor in the dtype that it had: bfloat16 again, where none of its numbers says that it was another."""
    narrowed = None if said is None else narrow(array, kept, said)
    if narrowed is not None and said is not None:
        array, kept = narrowed, said
    remark = f"{path.name} holds numbers that are no {said.name}" if said is not None and narrowed is None else ""
    return ForeignTensor(kept.name, tuple(array.shape), fetch=partial(_content, array, kept, remark))


def _content(array: Array, kept: DType, remark: str) -> tuple[Array, DType, str]:
    return array, kept, remark
