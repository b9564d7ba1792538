"""Checking many cases: plan, execute in worker processes, keep a ledger, resume, judge, keep what failed.

    sources    Runs, config lines and operators -> cases
    ledger     what was done, on disk
    check      the whole of it; judging again what was kept
    execute    the same without a reference: outputs and gradients as a Run
    failures   inputs, outputs and a script for each failure, shrunk
"""

from trueline.campaign.check import CheckReport, check, load_check

__all__ = ["CheckReport", "check", "load_check"]
