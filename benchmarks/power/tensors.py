"""Inputs that many elementwise kernels are tried on."""

from __future__ import annotations

from benchmarks.power.recipes import Arguments, Draw, call


def hidden(d: Draw) -> Arguments:
    """The hidden state of a small transformer."""
    return call(d.normal(4, 64, 512))


def small(d: Draw) -> Arguments:
    return call(d.normal(32, 100))


def strong(d: Draw) -> Arguments:
    """Logits, larger than activations."""
    return call(d.normal(64, 1000, std=4.0))


def image(d: Draw) -> Arguments:
    return call(d.normal(4, 32, 28, 28))


def positive(d: Draw) -> Arguments:
    """Variances and probabilities."""
    return call(d.uniform(64, 256, low=1e-3, high=3.0))


def pair(d: Draw) -> Arguments:
    return call(d.normal(4, 64, 256), d.normal(4, 64, 256))


def with_vector(d: Draw) -> Arguments:
    """A hidden state and a vector that is broadcast."""
    return call(d.normal(4, 64, 256), d.normal(256))


def ratio(d: Draw) -> Arguments:
    return call(d.normal(64, 256), d.uniform(64, 256, low=0.5, high=4.0))
