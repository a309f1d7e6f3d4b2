"""The documentation's site: `make docs`. Sphinx, because it is kept up, reads our Markdown, searches, and checks links.

Material for MkDocs is at the end of its life and MkDocs itself has had no release for long; a site on them would be
moved again soon.
"""

import re
from typing import Any

from conceptlens.core.version import __version__

project = "conceptlens"
author = "The conceptlens authors"
copyright = author
version = release = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = f"conceptlens {__version__}"
html_static_path = ["_static"]
templates_path = ["_templates"]  # the menu of versions, in the place that furo keeps for it
html_css_files = ["site.css"]
html_theme_options = {
    "source_repository": "https://github.com/conceptlens/conceptlens/",
    "source_branch": "main",
    "source_directory": "docs/",
}
pygments_style, pygments_dark_style = "tango", "monokai"
highlight_language = "none"  # of a listing that names no language
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # levels may be skipped; a listing may be no program
linkcheck_timeout, linkcheck_retries = 15, 2
REPOSITORY = "https://github.com/conceptlens/conceptlens/blob/main/"


def outside(app: Any, name: str, source: list[str]) -> None:
    """Links to files of the repository that are not on the site lead to the repository."""
    source[0] = re.sub(r"\]\(\.\./([^)\s]+)\)", rf"]({REPOSITORY}\1)", source[0])


def setup(app: Any) -> None:
    app.connect("source-read", outside)
