"""Keys of arguments that no framework knows."""

from __future__ import annotations

from typing import Any

from trueline.frameworks.keys import object_key


class Refuses:
    @property
    def dtype(self) -> Any:
        raise ValueError("the type of value is nullptr")


def test_an_object_whose_properties_fail_is_named_by_its_type_alone() -> None:
    """The values of graphs of Paddle 3.0 do so: a call that is given one must be recorded nevertheless."""
    assert object_key(Refuses(), Refuses) == ("$object", f"{__name__}.Refuses", "")
    assert object_key(len, type(len))[2] == "len"
