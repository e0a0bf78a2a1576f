"""Read NIST files (.sgm, .xml) that contain the sources, references or translations of a test set.

Tags may be in upper or lower case, and attributes may be in any order, with or without quotes. A
`<seg>` may be inside `<hl>` or `<p>`, and may span several lines. A set contains the segments by
one translator. Its name is the `sysid` (or `refid`) of its `<doc>` or enclosing `<refset>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar, NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.records import option

# only complete entities are decoded; the ampersands in AT&T and Q&amplifier are text
BARE_AMPERSAND = re.compile(r"&(?!(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z]\w*);)")
WHITESPACE = re.compile(r"[ \t\r\n\f\v]+")  # other whitespace, such as U+3000, is text
SETS = ("srcset", "refset", "tstset")


@dataclass(frozen=True, kw_only=True)
class SgmRequest:
    """The options of `posattn sgm`."""

    command: ClassVar = "posattn sgm"
    file: str = option("file with sources, references or translations (.sgm or .xml)")
    out: str = option("write one segment per line to this file", required=True)
    set: str | None = option("select a set by its sysid or refid", None, metavar="ID", either="set")
    first: bool = option("select the first of several sets", False, either="set")
    like: str | None = option(
        "write the segments in the same order as this file", None, metavar="SOURCE"
    )


class Key(NamedTuple):
    """The document and the number of a segment, which identify it in all sets."""

    document: str
    segment: str

    def __str__(self) -> str:
        return f"segment {self.segment} of document {self.document}"


@dataclass
class SegmentSet:
    """The segments by one translator, or of the source, in file order.

    lines: the line number of each segment.
    """

    path: str
    name: str
    texts: dict[Key, str] = field(default_factory=dict)
    lines: dict[Key, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.path} (set {self.name})" if self.name else self.path

    def in_order_of(self, other: SegmentSet) -> list[str]:
        """Return the texts in the order of another set; raise InputError if the segments differ."""
        for one, two in ((self, other), (other, self)):
            for key, line in one.lines.items():
                if key not in two.texts:
                    raise InputError(
                        f"{one.path}:{line}: {key} is missing in {two}; add it there or remove it "
                        "here, because all sets need the same segments"
                    )
        return [self.texts[key] for key in other.texts]


class SegmentReader(HTMLParser):
    """Parses a file into segment sets."""

    def __init__(self, path: str):
        super().__init__(convert_charrefs=True)
        self.path = path
        self.sets: dict[str, SegmentSet] = {}
        self.set_name, self.document_name = "", ""
        self.document: str | None = None
        self.segment: tuple[Key, int] | None = None
        self.pieces: list[str] = []

    def read(self, text: str) -> None:
        """Parse the whole text of a file; raise an InputError for invalid markup."""
        try:
            self.feed(text)
            self.close()
        except InputError:
            raise
        except (AssertionError, ValueError) as error:  # html.parser raises them for bad markup
            what = str(error).partition(";")[0]
            raise self.fault(f"{what}; correct the markup here, or remove it") from error
        self.check_outside_segment("the end of the file")

    def set_cdata_mode(self, *_, **__) -> None:
        """Do nothing: unlike <script> in HTML, no element contains unparsed text."""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        attributes = {name: (value or "").strip() for name, value in attrs}
        self.check_outside_segment(f"<{tag}>")
        if tag in SETS:
            self.set_name = attributes.get("refid") or attributes.get("sysid") or ""
        elif tag == "doc":
            if not attributes.get("docid"):
                raise self.fault("<doc> has no docid; give each document its own")
            self.document = attributes["docid"]
            named = attributes.get("sysid") or attributes.get("refid")
            self.document_name = named or self.set_name
        elif tag == "seg":
            if self.document is None:
                raise self.fault("<seg> is outside of <doc>; put it into <doc docid=...>")
            if not attributes.get("id"):
                raise self.fault(
                    f"<seg> has no id in document {self.document}; number the segments of each "
                    "document"
                )
            self.segment = Key(self.document, attributes["id"]), self.getpos()[0]
            self.pieces = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "seg" and self.segment:
            (key, line), self.segment = self.segment, None
            self.store(key, line)
            return
        self.check_outside_segment(f"</{tag}>")
        if tag in SETS:
            self.set_name = ""
        elif tag == "doc":
            self.document = None

    def store(self, key: Key, line: int) -> None:
        one = self.sets.setdefault(self.document_name, SegmentSet(self.path, self.document_name))
        if key in one.texts:
            raise InputError(
                f"{self.path}:{line}: {key} already occurs in line {one.lines[key]}; "
                "remove one of them, or give the documents of each set their own sysid"
            )
        one.texts[key] = WHITESPACE.sub(" ", "".join(self.pieces)).strip(" ")
        one.lines[key] = line

    def handle_data(self, data: str) -> None:
        if self.segment:
            self.pieces.append(data)

    def unknown_decl(self, data: str) -> None:
        """Raise an InputError for a declaration inside a segment."""
        self.check_outside_segment(f"<![{data[:8]}")

    def check_outside_segment(self, found: str) -> None:
        """Raise an InputError if a tag, or the end of the file, occurs inside a segment."""
        if self.segment:
            key, line = self.segment
            raise self.fault(
                f"{found} occurs inside {key}, which starts in line {line}; "
                "close the segment with </seg>, or write a literal less-than sign as &lt;"
            )

    def fault(self, what: str) -> InputError:
        return InputError(f"{self.path}:{self.getpos()[0]}: {what}")


def read_sets(path: str | Path) -> list[SegmentSet]:
    """Return all sets in a file; raise an InputError if there are none."""
    reader = SegmentReader(str(path))
    text = "\n".join(read_lines(path))
    reader.read(BARE_AMPERSAND.sub("&amp;", text) + "\n")
    if not reader.sets:
        raise InputError(
            f"{path}: the file contains no <seg>; use a file in NIST's format (posattn score also "
            "reads plain text, with --references)"
        )
    return list(reader.sets.values())


def read_set(path: str | Path, name: str | None = None) -> SegmentSet:
    """Return the set called `name`, or the only set in the file.

    Example:

        read_set("newstest2014-ende-ref.de.sgm").texts.values()
    """
    sets = read_sets(path)
    found = sets if name is None else [one for one in sets if one.name == name]
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(one.name) for one in sets)
    if name is None:
        raise InputError(
            f"{path}: the file contains several sets ({names}); use a file with a single set, or, "
            "if it is the FILE of posattn sgm, select one with --set"
        )
    raise InputError(f"{path}: the file contains no set {name!r}; choose one of {names}")
