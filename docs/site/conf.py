"""Build the documentation site: sphinx-build -W --keep-going -c docs/site . build/site

The pages are the Markdown files of the checkout and two generated ones, docs/site/stages.md and
docs/site/score_json.md. docs/README.md gives the navigation, and api.rst the reference of the
Python API.
"""

import os
import re
import sys
from pathlib import Path

from fairseq_posattn.scoring.score_document import document

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "docs"))
import stages  # noqa: E402

project = "fairseq_posattn"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
include_patterns = ["*.md", "docs/*.md", "docs/site/*.md", "docs/site/*.rst"]
include_patterns += ["recipes/README.md", "recipes/*/README.md"]
root_doc = "README"
html_theme = "furo"
html_title = project
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
autodoc_typehints = "description"
toc_object_entries = False


def navigation() -> str:
    """Return a toctree for each heading of docs/README.md, with the pages that it links."""
    text = (CHECKOUT / "docs/README.md").read_text(encoding="utf-8")
    trees = {"Overview": ["/docs/README", "/docs/faq", "/docs/glossary"]}
    for section in text.split("\n## ")[1:]:
        links = re.findall(r"^- \[.*?\]\(([\w./]+\.md)\)", section, re.M)
        trees[section.partition("\n")[0]] = [
            f"/{os.path.normpath(f'docs/{link}')}" for link in links
        ]
    trees["Reference"] += ["/docs/site/stages", "/docs/site/score_json", "/docs/site/api"]
    trees["Recipes"] = ["/recipes/*/README"]
    trees["Project"] = ["/CHANGELOG"]
    options = ":hidden:\n:glob:\n:caption:"
    return "\n\n".join(
        "\n".join([f"```{{toctree}}\n{options} {title}\n", *pages, "```"])
        for title, pages in trees.items()
    )


def add_navigation(app, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += "\n" + navigation() + "\n"


def write_index(app, error: Exception | None) -> None:
    """Let the address of the site lead to its first page."""
    if error is None:
        link = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        Path(app.outdir, "index.html").write_text(link)


def as_markup(app, what: str, name: str, obj, options, lines: list[str]) -> None:
    """Separate the parameters of a docstring, and mark its indented examples as code."""
    found, mode = [], ""
    for line in lines:
        if line.startswith(" ") and not mode:
            found += ["::", ""]
            mode = "code"
        elif line and not line.startswith(" "):
            mode = "parameter" if re.match(r"\w+(, \w+)*: ", line) else ""
            found += [""] * bool(mode)
        found.append(line.strip() if mode == "parameter" else line)
    lines[:] = found


def write_reference(app) -> None:
    for name, page in {"stages": stages.page(), "score_json": document()}.items():
        (CHECKOUT / f"docs/site/{name}.md").write_text(page, encoding="utf-8")


def setup(app) -> None:
    app.connect("builder-inited", write_reference)
    app.connect("autodoc-process-docstring", as_markup)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_index)
