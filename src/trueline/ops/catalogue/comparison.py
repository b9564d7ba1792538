"""Comparisons and tests, whose results are bools or counts and must be equal to the last one."""

from __future__ import annotations

from trueline.ops.catalogue.language import B, I, Row, T, forward

_COMPARISONS = """eq ne gt ge lt le not_equal greater greater_equal less less_equal"""
_TESTS = "isnan isinf isfinite isneginf isposinf isreal signbit logical_not"
_LOGIC = "logical_and logical_or logical_xor"

ROWS: list[Row] = [
    *[
        row
        for name in _COMPARISONS.split()
        for row in (
            forward(f"torch.{name}", T(16, 33, of="halves"), T(16, 33, of="halves")),
            forward(f"torch.{name}", T(4, 1, 9, of="halves"), T(5, 1, of="halves")),
            forward(f"torch.{name}", T(16, 33, of="normal nan inf"), 0.5),
            forward(f"torch.{name}", I(6, 11, of="normal ties(4)"), I(11, of="normal ties(4)")),
            forward(f"torch.{name}", T(0, 3), T(3)),
        )
    ],
    *[
        forward(f"torch.Tensor.{name}", T(6, 11, of="halves"), T(11, of="halves"))
        for name in "eq ne gt ge lt le __eq__ __ne__ __gt__ __ge__ __lt__ __le__".split()
    ],
    *[
        row
        for name in _TESTS.split()
        for row in (
            forward(f"torch.{name}", T(16, 33, of="normal nan inf zeros(0.2)")),
            forward(f"torch.{name}", T()),
            forward(f"torch.{name}", T(5, 7, layout="turned")),
        )
    ],
    *[
        row
        for name in _LOGIC.split()
        for row in (
            forward(f"torch.{name}", B(16, 33), B(33)),
            forward(f"torch.{name}", T(6, 11, of="normal zeros"), T(6, 11, of="normal zeros")),
            forward(f"torch.{name}", I(6, 11, of="index(2)"), B(6, 1)),
        )
    ],
    *[
        row
        for name in ("isclose", "allclose")
        for row in (
            forward(f"torch.{name}", T(6, 11, of="halves"), T(6, 11, of="halves")),
            forward(f"torch.{name}", T(6, 11, of="halves nan"), T(6, 11, of="halves nan"), equal_nan=True),
            forward(f"torch.{name}", T(6, 11, of="constant(1.5)"), T(6, 11, of="constant(1.5)"), rtol=1e-3, atol=0.0),
        )
    ],
    *[
        row
        for name in ("any", "all")
        for row in (
            forward(f"torch.{name}", B(6, 11, of="boolean(0.1)")),
            forward(f"torch.{name}", B(6, 11, of="boolean(0.9)"), dim=1),
            forward(f"torch.{name}", T(6, 11, of="normal zeros(0.9)"), dim=0, keepdim=True),
            forward(f"torch.{name}", B(0, 3), dim=0),
            forward(f"torch.Tensor.{name}", B(6, 11, of="boolean(0.5)"), 1),
        )
    ],
    forward("torch.equal", T(6, 11, of="constant(2)"), T(6, 11, of="constant(2)")),
    forward("torch.equal", T(6, 11), T(6, 11)),
    forward("torch.count_nonzero", T(6, 11, of="normal zeros")),
    forward("torch.count_nonzero", T(6, 11, 3, of="normal zeros"), dim=1),
    forward("torch.nonzero", T(6, 11, of="normal zeros")),
    forward("torch.nonzero", B(3, 5, 7), as_tuple=True),
    forward("torch.nonzero", B(0, 5)),
    forward("torch.nonzero_static", T(6, 11, of="normal zeros"), size=20),
    forward("torch.argwhere", T(6, 11, of="normal zeros")),
    forward("torch.isin", I(6, 11, of="index(20)"), I(5, of="index(20)")),
    forward("torch.isin", I(6, 11, of="index(20)"), I(5, of="index(20)"), invert=True),
    forward("torch.is_nonzero", T(1, of="constant(1)")),
]
