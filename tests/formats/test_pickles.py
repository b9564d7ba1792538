"""The reader of serialised Python: values as Python's own reader gives them, and nothing that runs anything."""

from __future__ import annotations

import collections
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from trueline.formats.limits import ForeignFileError
from trueline.formats.pickles import Builder, Stateful, load

VALUES: list[Any] = [
    None, True, 0, -1, 255, 65536, -(2**31), 2**40, -(2**70), 1.5, float("inf"), "", "x" * 300, "ü€😀",
    [], [1, [2, (3,)]], (), (1,), (1, 2), (1, 2, 3), tuple(range(9)), {}, {"a": {"b": 1}, 2: (3, 4)},
    list(range(3000)), {str(number): number for number in range(2000)},
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20])
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    found, length = load(content + b"rest", {})
    assert found == value and type(found) is type(value)
    assert length == len(content)


def test_bytes_are_views_and_shared_values_are_shared() -> None:
    shared = [1]
    content, pair = load(pickle.dumps((b"abc", [shared, shared]), 4), {})[0]
    assert bytes(content) == b"abc"
    assert pair[0] is pair[1]


class _Payload:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self._call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("function", [os.system, eval, exec, __import__, getattr, sys.exit, open, compile])
def test_a_payload_is_refused_and_does_not_run(function: Any, protocol: int, tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    content = pickle.dumps(_Payload(function, f"touch {witness}"), protocol)
    with pytest.raises(ForeignFileError):
        load(content, {})
    assert not witness.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x80", b"\x80\x63.", b".", b"(", b"t.", b"X\xff\xff\xff\xffa.", b"\x8e" + b"\xff" * 8, b"h\x05.", b"u.",
        b"]K\x01s.", b"}(K\x01u.", b"\x8b\xff\xff\xff\x7f.", b"cos\nsystem\n.", b"cos\nsystem", b"c" + b"x" * 5000,
        b"i__main__\nx\n.", b"o.", b"\x82\x01.", b"\x97.", b"Pname\n.", b"K\x01Q.", b"K\x01K\x02R.", b"K\x01}b.",
        b"((((" * 1000, b"]2a" * 10, b"r\xff\xff\xff\x7f.",
    ],
)  # fmt: skip
def test_damaged_data_is_an_error_that_says_so(content: bytes) -> None:
    with pytest.raises(ForeignFileError, match="cannot read the data"):
        load(content, {})


def test_only_listed_names_are_called_and_with_what_the_file_says() -> None:
    content = pickle.dumps(collections.OrderedDict([("a", 1)]), 2)
    with pytest.raises(ForeignFileError, match=r"collections\.OrderedDict"):
        load(content, {})
    assert load(content, {"collections.OrderedDict": Builder(dict)})[0] == {"a": 1}


def test_a_listed_name_that_is_no_builder_is_not_called() -> None:
    with pytest.raises(ForeignFileError, match="no function of data"):
        load(b"cos\nsystem\n(X\x04\x00\x00\x00truetR.", {"os.system": os.system})


def test_state_goes_only_to_what_asks_for_it() -> None:
    class Thing(Stateful):
        state: Any = None

        def set_state(self, state: Any) -> None:
            self.state = state

    found, _ = load(b"ca\nb\n)R}X\x01\x00\x00\x00kK\x01sb.", {"a.b": Builder(Thing)})
    assert found.state == {"k": 1}
    with pytest.raises(ForeignFileError, match="state"):
        load(b"]K\x01b.", {})


def test_a_key_that_would_take_for_ever_to_hash_is_refused() -> None:
    nest = b")" + b"2\x86" * 60  # each tuple holds the one before it twice
    with pytest.raises(ForeignFileError, match="nest of tuples"):
        load(b"}" + nest + b"K\x01s.", {})


def test_values_kept_elsewhere_are_asked_for() -> None:
    assert load(b"X\x01\x00\x00\x00aQ.", {}, lambda key: key + "!")[0] == "a!"
