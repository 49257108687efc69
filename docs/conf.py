# SPDX-License-Identifier: Apache-2.0
"""The documentation site: `make docs` builds it with Sphinx, strictly, for use without a network.

Pages are plain Markdown that also reads well in a repository browser. What follows from code or
results is written at build time by `building`; nothing of it is kept in the repository.
"""

import html
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import building  # noqa: E402

project, author = "Holdfast", "The Holdfast developers"
copyright = author
html_title = "Holdfast"
extensions = ["myst_nb"]
root_doc = "index"
exclude_patterns = ["examples", "_templates", "generated/ours.md", "generated/start.md"]
templates_path = ["_templates"]

myst_enable_extensions = ["html_image", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]  # as repository browsers spell it
html_math_renderer = "mathml"
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["holdfast.css"]
html_logo = html_favicon = "_static/logo.svg"
html_extra_path = ["generated/extra"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style, pygments_dark_style = "friendly", "github-dark"


def adapt(app, name, source):
    source[0] = building.adapted(name, source[0])


def formula(self, node):
    """A formula as MathML, which browsers set by themselves: no script, no font, no network."""
    import latex2mathml.converter
    from docutils import nodes

    tex = node.astext()
    shown = "inline" if isinstance(node, nodes.math) else "block"
    made = latex2mathml.converter.convert(tex, display=shown)
    self.body.append(made.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1))
    raise nodes.SkipNode


INDEXED = re.compile(
    r"(?<![A-Za-z0-9_.])((?:[^\W\d_]\u0304?|max|min))_(old|half|[^\W_ᵀ]{1,2})(?!\w*[^\Wᵀ])"
)
"""A letter with an index, as pages spell it: V_r, D_KL, max_s."""


def indices(app, doctree):
    """Set V_r in running text with its index below the line; code, formulas and titles stay."""
    from docutils import nodes

    for text in list(doctree.findall(nodes.Text)):
        verbatim = nodes.literal, nodes.FixedTextElement, nodes.math, nodes.title, nodes.raw
        above = text.parent
        while above is not None and not isinstance(above, verbatim):
            above = above.parent
        if above is not None or not INDEXED.search(text):
            continue
        parts = INDEXED.split(text)
        made = [nodes.Text(parts[0])]
        for base, index, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            made += [nodes.emphasis("", base), nodes.subscript("", index), nodes.Text(rest)]
        text.parent.replace(text, made)


def setup(app):
    building.write()
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("source-read", adapt)
    app.connect("doctree-read", indices)
    return {"parallel_read_safe": True}
