"""Read files of NIST (.sgm, .xml) with the sources, references or translations of a test set.

Tags may have any case, and attributes any order, with or without quotes. A `<seg>` may stand in
`<hl>` and `<p>`, and go over several lines. A set is what one translator wrote; the `sysid` (or
`refid`) of a `<doc>`, or of the `<refset>` around it, names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines

# only complete entities are decoded; the ampersand of AT&T or Q&amplifier is part of the text
BARE_AMPERSAND = re.compile(r"&(?!(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z]\w*);)")
WHITESPACE = re.compile(r"[ \t\r\n\f\v]+")  # others, such as U+3000, belong to the text
SETS = ("srcset", "refset", "tstset")


class Key(NamedTuple):
    """Names a segment by document and number, in the same way in all sets."""

    document: str
    segment: str

    def __str__(self) -> str:
        return f"segment {self.segment} of document {self.document}"


@dataclass
class SegmentSet:
    """Holds the segments of one translator, or of the source, in the order of the file."""

    path: str
    name: str
    texts: dict[Key, str] = field(default_factory=dict)
    lines: dict[Key, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.path} (set {self.name})" if self.name else self.path

    def in_order_of(self, other: SegmentSet) -> list[str]:
        """Return the texts in the order of another set, which must have the same segments."""
        for one, two in ((self, other), (other, self)):
            for key, line in one.lines.items():
                if key not in two.texts:
                    raise InputError(
                        f"{one.path}:{line}: {key} is missing in {two}; "
                        "all sets need the same segments: add it there, or remove it here"
                    )
        return [self.texts[key] for key in other.texts]


class SegmentReader(HTMLParser):
    """Collects the segments of a file and the lines in which they stand."""

    def __init__(self, path: str):
        super().__init__(convert_charrefs=True)
        self.path = path
        self.sets: dict[str, SegmentSet] = {}
        self.set_name, self.document_name = "", ""
        self.document: str | None = None
        self.segment: tuple[Key, int] | None = None
        self.pieces: list[str] = []

    def read(self, text: str) -> None:
        """Read the whole text of a file."""
        try:
            self.feed(text)
            self.close()
        except InputError:
            raise
        except (AssertionError, ValueError) as error:  # html.parser raises them for bad markup
            what = str(error).partition(";")[0]
            raise self.fault(f"{what}; mend the markup here, or remove it") from error
        self.check_outside_segment("the end of the file")

    def set_cdata_mode(self, *_, **__) -> None:
        """Do nothing, because no element hides its tags here as a script in a web page does."""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        """Note a set, or begin a document or a segment."""
        attributes = {name: (value or "").strip() for name, value in attrs}
        self.check_outside_segment(f"<{tag}>")
        if tag in SETS:
            self.set_name = attributes.get("refid") or attributes.get("sysid") or ""
        elif tag == "doc":
            if not attributes.get("docid"):
                raise self.fault("this <doc> has no docid; give each document its own")
            self.document = attributes["docid"]
            named = attributes.get("sysid") or attributes.get("refid")
            self.document_name = named or self.set_name
        elif tag == "seg":
            if self.document is None:
                raise self.fault("this <seg> is outside a <doc>; put it into <doc docid=...>")
            if not attributes.get("id"):
                raise self.fault(
                    f"a <seg> has no id in document {self.document}; number the segments of a "
                    "document"
                )
            self.segment = Key(self.document, attributes["id"]), self.getpos()[0]
            self.pieces = []

    def handle_endtag(self, tag: str) -> None:
        """End a segment, a document or a set."""
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
        """Store the text of the segment that ends."""
        one = self.sets.setdefault(self.document_name, SegmentSet(self.path, self.document_name))
        if key in one.texts:
            raise InputError(
                f"{self.path}:{line}: {key} stands already in line {one.lines[key]}; "
                "remove one, or tell several sets apart by the sysid of their documents"
            )
        one.texts[key] = WHITESPACE.sub(" ", "".join(self.pieces)).strip(" ")
        one.lines[key] = line

    def handle_data(self, data: str) -> None:
        """Keep the text of a segment, and drop all other text."""
        if self.segment:
            self.pieces.append(data)

    def unknown_decl(self, data: str) -> None:
        """Refuse a declaration within a segment."""
        self.check_outside_segment(f"<![{data[:8]}")

    def check_outside_segment(self, found: str) -> None:
        """Refuse a tag, or the end of the file, within a segment."""
        if self.segment:
            key, line = self.segment
            raise self.fault(
                f"{found} stands within {key}, which starts in line {line}; "
                "close the segment with </seg>, and write a less-than sign as &lt;"
            )

    def fault(self, what: str) -> InputError:
        """Return an error that names the current line."""
        return InputError(f"{self.path}:{self.getpos()[0]}: {what}")


def read_sets(path: str | Path) -> list[SegmentSet]:
    """Return all sets of a file."""
    reader = SegmentReader(str(path))
    text = "\n".join(read_lines(path))
    reader.read(BARE_AMPERSAND.sub("&amp;", text) + "\n")
    if not reader.sets:
        raise InputError(
            f"{path}: there is no <seg>; name a file of NIST's format, "
            "or give plain lines with --references"
        )
    return list(reader.sets.values())


def read_set(path: str | Path, name: str | None = None) -> SegmentSet:
    """Return the only set of a file, or the one of that name."""
    sets = read_sets(path)
    found = sets if name is None else [one for one in sets if one.name == name]
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(one.name) for one in sets)
    if name is None:
        raise InputError(
            f"{path}: the file has several sets ({names}); name a file with one, or use --set"
        )
    raise InputError(f"{path}: the file has no set {name!r}; choose one of {names}")
