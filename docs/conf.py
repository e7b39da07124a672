"""Sphinx configuration. Neither the build nor the pages need the network."""

import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib

import probprop

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
# The laboratory is documented from its sources if it, or what it needs, is not installed.
if find_spec("probprop_lab") is None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "lab" / "src"))
autodoc_mock_imports = [
    name
    for name in ("bayes_opt", "jax", "numpyro", "pooch", "probprop_lab.baselines._leapfrog")
    if find_spec(name) is None
]
matplotlib.use("agg")

project = "probprop"
author = "the probprop developers"
project_copyright = f"2026, {author}"
version = release = probprop.__version__

extensions = [
    "command_help",
    "mathml",
    "myst_parser",
    "numpydoc",
    "play",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_ext", "_templates", "results"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore = [("py:class", f"collections.abc.{name}") for name in ("Callable", "Sequence")]
default_role = "literal"  # what docstrings have in single backquotes is code

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = True
autosummary_ignore_module_all = False  # a package shows what its __all__ names
autodoc_typehints = "none"  # the docstrings have the types, with shapes and units
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the templates list them
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),  # what is printed, not what the last line returns
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 3600,  # the seconds an example took say more of the machine
    "write_computation_times": False,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "probprop"
html_static_path = ["_static"]
html_css_files = ["probprop.css"]
html_show_sourcelink = False
html_theme_options = {
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "getting-started": []}


def no_aliases(
    app: object, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Empty what Python says of a field of a named tuple, "Alias for field number 0"."""
    if any(line.strip().startswith("Alias for field number") for line in lines):
        lines.clear()


def setup(app: object) -> None:
    """Connect what Sphinx calls."""
    app.connect("autodoc-process-docstring", no_aliases)
