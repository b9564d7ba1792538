"""How outputs that may honestly differ are brought into a form that may not: one module a family of operators.

``ops.equivalence`` holds the table that says which operator follows which of these rules, and why.
"""
