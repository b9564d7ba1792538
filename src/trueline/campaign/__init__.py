"""Checking many cases: plan, execute in worker processes, keep a ledger, resume, judge, keep what failed.

    sources     Runs, config lines and operators, item by item
    variants    what else is made of a case: other draws, layouts, shapes, dtypes
    planning    items -> cases in the ledger, in flat memory
    schedule    what a case will cost
    ledger      what is to be done and what was done, on disk: one final row a case; ledger_file: who may write it
    work, jobs  cases given out and their ends written down; what workers do with one
    executors   who does it: processes here, or a cluster
    modes       what can be asked for besides accuracy
    check       the whole of it; judging again what was kept
    shelf       the rows of a ledger as results that are read when they are looked at
    endings     how cases end, by name
    diff        two kept checks held against each other
    execute     the same without a reference: outputs and gradients as a Run
    failures    inputs, outputs and a script for each failure, shrunk
    triage      failures by likely cause
    tolerances  how large errors are, and tolerances to recommend
    export      calls of a Run as config lines
"""

from trueline.campaign.check import CheckReport, check, load_check

__all__ = ["CheckReport", "check", "load_check"]
