"""Paddle, the only place where it is imported.

    watch      every way by which calls reach us; the Watcher      doors    names that are set and put back
    calls      calls, written down                                 names    what is a call, found by introspection
    backward, graph   their gradients                              pylayers, layers, optimizers   what runs them
    tensors    which tensor is which                               reading  their statistics and bytes
    witness    what Paddle itself says it computed
    execute    one call, run alone
    light      a light watch; ``light_calls``, ``light_held``: the calls of a step, held
"""
