"""The site of the documentation: `make site` builds it into build/site, to be opened from there or put onto any web server."""

from __future__ import annotations

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from stoker import __version__

project = "Stoker"
version = release = __version__
html_title = "Stoker"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "examples/**/README.md",
    "examples/README.md",
    "benchmarks/README.md",
    "monitoring/README.md",
    "*.md",
]
myst_heading_anchors = 4  # as GitHub makes them, so that links hold in both places
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # examples with `…` in them
highlight_language = "none"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Diagrams are shown as their text, which says the same: to draw them a browser would fetch a program."""
    app.add_lexer("mermaid", TextLexer)
