"""How the pages of this folder become a site: ``python -m sphinx -W docs site``."""

project = "trueline"
author = "the trueline authors"
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "trueline"
html_show_sourcelink = False
exclude_patterns = ["*.py"]
nitpicky = True
