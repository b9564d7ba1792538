"""Paddle's APIs and torch's, held against each other as data: ``rows`` (what is what), ``converters`` (values written
differently), ``translate`` (a Case of one framework as a Case of the other)."""

from trueline.ops.mapping.rows import Row, disagreements, row, row_for, rows, torch_rows

__all__ = ["Row", "disagreements", "row", "row_for", "rows", "torch_rows"]
