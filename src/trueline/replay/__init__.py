"""Cases and their execution alone: from a Run to Cases, from a Case to what was measured of it.

    cases         which calls of a Run are which Cases; refusals, precision: which are none, and what autocast did
    inputs        what a Case is given, loaded or drawn; likeness, stream: how it is drawn
    worker        one Case executed and measured, in this process; golds: what may judge
    translated    a Case of one framework executed by the other
    comparing     what is compared with what; forms: by which rule
    pool          worker processes that outlive what Cases do to them; tasks: who may run when and how long; staff,
                  zygote: who is hired; serve, board, process, jobs, measuring: their insides
    reduce, keep  what is left of a failure, and what is kept of it
"""
