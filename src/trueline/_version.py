"""The version of trueline; the only place where it stands."""

__version__ = "0.1.0"
