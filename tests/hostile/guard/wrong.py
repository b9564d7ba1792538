"""Overrides that the victim's own command line names: kernels that are wrong, so that a check has failures to keep."""


def relu(x, *_, **__):
    """Wrong everywhere."""
    return x * 2 + 1
