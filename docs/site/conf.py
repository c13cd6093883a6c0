"""Configure Sphinx: MyST reads the pages, furo shows them, and nothing is loaded from elsewhere."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "Head to Head"
author = "the authors of Head to Head"
copyright = "the authors of Head to Head, Apache 2.0"
release = version = installed_version("headtohead")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # blocks of YAML and shell with `...` in them

smartquotes = False

html_theme = "furo"
html_title = "Head to Head"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8ab8f0", "color-brand-content": "#8ab8f0"},
}
pygments_style = "friendly"
pygments_dark_style = "native"
