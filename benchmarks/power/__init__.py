"""How often a verdict on a single call is right: wrong kernels that must be found, honest ones that must not alarm."""
