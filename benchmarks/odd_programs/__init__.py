"""Small torch programs that do unusual things, run bare and observed: an observer may change nothing they see.

Each program returns its result and what it saw on the way: which functions its own modes were told of, which texts its
exceptions had, whether a tensor died when it should. ``python -m benchmarks.odd_programs.run`` runs them bare and in
every way to observe, and compares bit for bit; it then looks for what is left behind in the process.

The programs are halved by the hash of their names (``halves.py``): the working half may be looked into while the tool
is mended, the counted half is only counted.
"""
