"""The predecessors' own names, for a path: ``python -m trueline.compat`` says where this folder lies."""
