"""Sphinx's settings. The pages are Markdown that GitHub can show too. A browser fetches nothing from elsewhere."""

from typing import Any

project = "torch-backend"
author = "The torch-backend authors"
copyright = "the torch-backend authors, BSD-3-Clause"
# Texts contain code without markup, whose quotes and dots must not change.
smartquotes = False
html_title = "torch-backend"

extensions = ["myst_parser"]
# Headings get GitHub's anchors. The references write directives with :::, and pages write pictures as <img>.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "html_image", "attrs_block"]
# Pages may begin a part at ###. A source file that the highlighter does not understand is shown without colours.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "monokai"

add_module_names = False
modindex_common_prefix = ["tb_"]
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"


def _look_up_types_exactly(app: Any, doctree: Any) -> None:
    """Resolves types in signatures by their full names. Otherwise `bytes` would link to tb_ops.Fallback.bytes."""
    for node in doctree.findall():
        if node.tagname == "pending_xref" and node.get("refdomain") == "py":
            node.attributes.pop("refspecific", None)


def setup(app: Any) -> None:
    app.connect("doctree-read", _look_up_types_exactly)
