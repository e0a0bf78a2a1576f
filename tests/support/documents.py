"""Take the documents of the checkout apart: code blocks with their marks, headings, links, names.

A block of bash is checked: its syntax, and that each option exists. It says before the fence
whether it is run, too: `<!-- run in: FOLDER -->`, or `<!-- not run: REASON -->`. Lines of commands
without a language are checked only. A block of Python is run; marks stand above one that needs
files.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.commands import ROOT

RECIPES = ROOT / "recipes"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
MARK = re.compile(r"<!-- (run in|not run): (.+?) -->\n\Z")
LINK = re.compile(r"\]\(([^()\s]+)\)")
BACKTICKS = re.compile(r"`([^`\n]+)`")
COMMENT = re.compile(r"<!-- (.+?) -->")
PATH = re.compile(r"(?:recipes|docs|tests|fairseq_posattn|preprocess|\.ci)/[\w./-]*")
NAME = re.compile(r"[\w.-]+\.(?:sh|py|sbatch|tsv|toml|txt|yaml)")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]+)")


class Block(NamedTuple):
    """A fenced block has a mark, (`run in`, FOLDER) or (`not run`, REASON), or none."""

    document: Path
    line: int
    language: str
    code: str
    mark: tuple[str, str]

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Return all documents that a reader of today needs; CHANGELOG.md names what is gone."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    return [*found, ROOT / "recipes/README.md", *sorted(ROOT.glob("recipes/*/README.md"))]


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of all documents in one of these languages, in order."""
    found = (block for document in documents() for block in blocks_of(document))
    return [block for block in found if block.language in languages]


def blocks_of(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        mark = MARK.search(before)
        line = before.count("\n") + 1
        yield Block(document, line, match[1], match[2], (mark[1], mark[2]) if mark else ("", ""))


def prose(document: Path) -> str:
    """Return the text of a document without its blocks."""
    return FENCE.sub("", document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def broken_links(document: Path) -> Iterator[str]:
    """Yield the links to files and headings that are not there."""
    for target in LINK.findall(prose(document)):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if "://" in target:
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


def missing_paths(document: Path) -> list[str]:
    """Return the names in backticks and in marks that look like files of the checkout and are not
    there."""
    text = prose(document)
    words = " ".join(BACKTICKS.findall(text) + COMMENT.findall(text)).split()
    return [word for word in (word.strip("();,") for word in words) if is_missing(word, document)]


def is_missing(word: str, document: Path) -> bool:
    """A bare name in a document of the recipes is that of a file somewhere in the recipes."""
    if PATH.fullmatch(word):
        return not is_made(word) and not (ROOT / word).exists()
    bare = NAME.fullmatch(word) and document.is_relative_to(RECIPES)
    return bool(bare) and not any(RECIPES.glob(f"**/{word}"))


def is_made(path: str) -> bool:
    """Return whether a path names a file that a recipe makes."""
    return bool({"work", "results"} & set(path.split("/")))
