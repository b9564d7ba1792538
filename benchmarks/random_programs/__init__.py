"""Small random torch programs and random edits of them: what an edit does to the numbers is measured without the tool,
and a comparison must say the same.

    python -m benchmarks.random_programs [--seeds 0-999] [--half work|counted|all] [--data tensors,stats] [--show]

A seed gives one program and one edit of it. Both are run in this process, in their own precision and in float64: an
edit *keeps* the mathematics where float64 sees none of it and the difference lies within three times the rounding of
the reference; it *changes* something where some loss, output, gradient, parameter or buffer differs by more than thirty
times that, in float64 too. What lies between is not judged. Seeds are halved by the rule of ``halves.py``.
"""
