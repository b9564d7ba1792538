"""Measurements of trueline beside its strongest peer; every figure in the README comes from here.

Run from the root of the repository: ``python -m benchmarks.overhead``, ``python -m benchmarks.faults.run``.
"""
