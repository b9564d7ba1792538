"""Results for people and programs: text, CSV, JSON, one HTML page.

Each writer takes a comparison (``subject.ComparisonView``) and a text stream. They are imported one by one, because a
command uses one or two of them and should start at once.
"""
