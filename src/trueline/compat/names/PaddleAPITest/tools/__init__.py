"""``retest_remover.py`` and ``tol_csv_stat.py``."""
