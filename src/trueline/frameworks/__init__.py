"""The only door to a framework: each lives in a package of its own, imported when it is needed."""
