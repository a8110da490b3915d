"""Sphinx configuration: Markdown pages, reference from docstrings."""

import headrace

project = "Headrace"
author = "The Headrace developers"
copyright = author
version = release = headrace.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Headrace {version}"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
