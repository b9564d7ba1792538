"""Results for people and programs: text, CSV, JSON, JUnit, one HTML page.

Each writer takes a comparison (``subject.ComparisonView``), or the head and the results of a check (``check_*`` and
``junit``), and a text stream. They are imported one by one, because a command uses one or two of them and should start
at once.
"""
