"""What a reader of device memory takes for the program's own peak, when captures follow one another; and how it reads
tensors of an accelerator without Triton, on a stand-in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trueline.frameworks.torch import device_readers  # noqa: E402
from trueline.frameworks.torch.fast import KNOWN_DTYPES  # noqa: E402
from trueline.records import Data  # noqa: E402

DEVICE = torch.device("cuda", 7)


class _Told(device_readers.DeviceReader):
    """A reader that is told what the device would answer."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._device = DEVICE
        self._peak = self._own_peak()

    def _most_used(self) -> int:
        return self.most

    def ends(self, most: int) -> None:
        device_readers._peaks[self._device] = self._peak, most


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(device_readers, "_peaks", {})


def test_what_captures_held_does_not_add_up() -> None:
    most = 1000
    for _ in range(9):
        reader = _Told(most)
        assert reader._peak == 1000
        most = most + 50
        reader.ends(most)


def test_a_program_that_grew_between_captures_is_believed() -> None:
    _Told(1000).ends(1080)
    assert _Told(5000)._peak == 5000


def test_a_peak_that_was_reset_is_believed() -> None:
    _Told(1000).ends(1080)
    assert _Told(300)._peak == 300


# A stand-in for the module of an accelerator without Triton, as torch_npu's: its memory is the host's, its streams and
# events keep a log.


class Stream:
    def __init__(self, log: list[Any], number: int) -> None:
        self._log, self.stream_id = log, number

    def wait_stream(self, other: Stream) -> None:
        self._log.append(("wait", self.stream_id, other.stream_id))

    def wait_event(self, event: Event) -> None:
        self._log.append(("wait for the copy", self.stream_id))


class Event:
    def __init__(self, log: list[Any]) -> None:
        self._log, self.done = log, False

    def record(self, stream: Stream) -> None:
        self._log.append(("record", stream.stream_id))

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self._log.append(("synchronize",))


class OnDevice(torch.Tensor):
    """A tensor that says on which stream it is kept alive."""

    log: list[Any]

    def record_stream(self, stream: Any) -> None:
        self.log.append(("kept by", stream.stream_id))


class Accelerator:
    """Stands in for ``torch.npu``."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.now = self.first = Stream(self.log, 0)
        self._streams = 0

    def Stream(self, device: Any) -> Stream:
        self._streams += 1
        return Stream(self.log, self._streams)

    def Event(self) -> Event:
        return Event(self.log)

    def current_stream(self, device: Any) -> Stream:
        return self.now

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.now = self.now, stream
        self.log.append(("on", stream.stream_id))
        yield
        self.now = before

    def tensor(self, *values: float) -> Any:
        made = torch.tensor(values).as_subclass(OnDevice)
        made.log = self.log
        return made


NPU = torch.device("privateuseone", 0)


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    made = Accelerator()
    monkeypatch.setattr(torch, "privateuseone", made, raising=False)
    read = device_readers.plain.plain_statistics

    def looked(tensor: Any, **options: Any) -> Any:
        made.log.append(("read", made.now.stream_id, float(tensor.sum())))
        return read(tensor, **options)

    monkeypatch.setattr(device_readers, "plain", SimpleNamespace(plain_statistics=looked))
    return made


class Notes:
    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.statistics: list[Any] = []

    def hand_over(self, statistics: Any, payloads: Any = ()) -> None:
        self.payloads += payloads
        self.statistics += [] if statistics is None else [statistics]


def reader_of(data: Data) -> tuple[Any, Notes]:
    notes = Notes()
    return device_readers.DeviceReader(NPU, notes, data), notes  # type: ignore[arg-type]


def looks(reader: Any, *tensors: Any) -> None:
    for number, tensor in enumerate(tensors):
        reader.add(tensor, number, number, KNOWN_DTYPES[tensor.dtype], True)


def test_tensors_are_read_on_the_stream_that_made_them(accelerator: Accelerator) -> None:
    reader, notes = reader_of(Data.STATS)
    first, second = accelerator.first, Stream(accelerator.log, 7)
    looks(reader, accelerator.tensor(1.0))
    accelerator.now = second
    looks(reader, accelerator.tensor(2.0), accelerator.tensor(3.0))
    # the group of the first stream was sent off when the second came, on the first
    assert accelerator.log == [("on", 0), ("read", 0, 1.0)]
    accelerator.now = first
    reader.end_step()
    assert accelerator.log[2:] == [("on", 7), ("read", 7, 2.0), ("read", 7, 3.0)]
    numbers, rows = notes.statistics[0]()
    assert len(numbers) == 3 and rows["mean"].tolist() == [1.0, 2.0, 3.0]


def test_bytes_are_copied_beside_the_program(accelerator: Accelerator) -> None:
    reader, notes = reader_of(Data.TENSORS)
    looks(reader, accelerator.tensor(1.0, 2.0))
    reader.launch()
    own = 1
    # the copy waits for what the program has said so far, on a stream of its own, and keeps the tensor until then
    assert accelerator.log == [("read", 0, 3.0), ("wait", own, 0), ("on", own), ("kept by", own), ("record", own)]
    reader.settle({0})  # the program is about to write there: its stream waits, not the program
    assert accelerator.log[-1] == ("wait for the copy", 0)
    assert np.frombuffer(notes.payloads[0].fetch(), np.float32).tolist() == [1.0, 2.0]
    assert accelerator.log[-1] == ("synchronize",)
    reader.settle({0})
    assert accelerator.log[-1] == ("synchronize",), "waited for once"


def test_a_device_without_streams_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "privateuseone", SimpleNamespace(), raising=False)
    reader, notes = reader_of(Data.TENSORS)
    looks(reader, torch.tensor([4.0, 5.0]))
    reader.end_step()
    assert np.frombuffer(notes.payloads[0].fetch(), np.float32).tolist() == [4.0, 5.0]
    assert notes.statistics[0]()[1]["mean"].tolist() == [4.5]
