"""See benchmarks/zoo/spec.py."""
