"""PyTorch, the only place where it is imported.

    doors      every way by which calls reach us; the Watcher
    watch      calls, written down            backward, graph   their gradients
    tensors    which tensor is which          readers, device_readers   reading them in groups
    names      what functions are called      modules, stacks   where they were called
    replay     one recorded call, run again
"""
