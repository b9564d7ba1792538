"""Faults planted in the example projects, and the same projects as they are: what a pipeline says of them."""
