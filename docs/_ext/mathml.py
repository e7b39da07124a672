"""Equations as MathML, which browsers draw themselves: no script, no font, no request."""

from html import escape

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml, unichar2tex
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)


def _mathml(node: nodes.Element, *, block: bool) -> str:
    """Translate the LaTeX of a node, or warn and show it as it is."""
    source = node.astext().translate(unichar2tex.uni2tex_table)
    if block and "\\\\" in source and "\\begin" not in source:  # as sphinx.ext.mathjax does
        source = rf"\begin{{align}}{source}\end{{align}}"
    try:
        return str(latex2mathml.tex2mathml(source, as_block=block))
    except MathError as error:
        _log.warning("this equation has no MathML: %s", error, location=node)
        return f"<code>{escape(source)}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write an equation within a line."""
    self.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation on a line of its own, with its number if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(_mathml(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; ``html_math_renderer`` selects it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
