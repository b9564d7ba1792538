"""The configuration of the Tracer lies in ``configs``."""
