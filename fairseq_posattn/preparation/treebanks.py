"""Extract words, trees and translations from CoNLL-U, or replace trees by control trees.

The translation of a sentence is given in a comment (`# text_en = ...`), or it is the text of the
sentence with the same name (`# sent_id = ...`) in a second treebank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole, written_together
from fairseq_posattn.files.files import open_to_write
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.records import option
from fairseq_posattn.files.requests import options_of
from fairseq_posattn.files.terminal import say
from fairseq_posattn.preparation.corpus import ALIGN, Treebanks
from fairseq_posattn.text.parsing.options import root_option
from fairseq_posattn.trees.conllu import (
    DEPREL,
    HEAD,
    ConlluBlock,
    comment_of,
    parse_all_columns,
    parse_block,
    raw_text,
    read_blocks,
    read_labelled,
)
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.lines import NO_TREE, labels_line, parents_line, words_line
from fairseq_posattn.trees.sentence import labels_of

DEPS = 8  # the column of enhanced dependencies, which are removed from control trees


@dataclass
class Extracted:
    """How many sentences and words were extracted, and how many sentences have no tree."""

    sentences: int = 0
    words: int = 0
    without_tree: int = 0


@dataclass(frozen=True, kw_only=True)
class ExtractRequest:
    """The options of posattn extract."""

    command: ClassVar = "posattn extract"
    treebanks: list[str] = option(
        "treebanks to read, concatenated in this order; may be .gz, .xz or .zst", metavar="CONLLU"
    )
    out: str = option("write the files OUT.words, OUT.parents and OUT.labels", required=True)
    tokens: bool = option(
        "write contractions as in the text (im) instead of their syntactic words (in dem)", False
    )
    several_roots: str = root_option()


@dataclass(frozen=True, kw_only=True)
class ControlRequest:
    """The options of posattn trees."""

    command: ClassVar = "posattn trees"
    treebank: str = option("treebank to change; may be .gz, .xz or .zst", metavar="CONLLU")
    out: str = option(
        "write the treebank to this file (.conllu, .conllu.xz or .conllu.zst)", required=True
    )
    control: TreeControl = options_of(TreeControl)
    several_roots: str = root_option()


def extract(request: ExtractRequest) -> Extracted:
    """Write the sentences of all treebanks to `out`.words, .parents and .labels."""
    found = Extracted()
    files = [f"{request.out}.{kind}" for kind in ("words", "parents", "labels")]
    with written_together(files) as (words, parents, labels):
        found_in = (read_labelled(path, request.several_roots) for path in request.treebanks)
        for sentence in Progress(chain.from_iterable(found_in)):
            forms, counts = sentence.words, None
            if request.tokens:
                forms, counts = sentence.tokens, sentence.words_of_token
            words.write(words_line(forms) + "\n")
            parents.write(parents_line(sentence.parents, counts) + "\n")
            has_none = sentence.parents is None
            labels.write((NO_TREE if has_none else labels_line(labels_of(sentence))) + "\n")
            found.sentences += 1
            found.words += len(sentence.words)
            found.without_tree += has_none
    return found


def control_treebank(request: ControlRequest) -> None:
    """Write a copy of a treebank with control trees."""
    sentences, out, control = 0, request.out, request.control
    with replaced_whole(out) as partial, open_to_write(partial) as file:
        for block in Progress(read_blocks(request.treebank)):
            lines = controlled(block, control, request.several_roots)
            file.write(("\n".join(lines) + "\n\n").encode())
            sentences += 1
    say(f"{out}: wrote {sentences:,} sentences with trees of the control '{control.tag}'")


def controlled(block: ConlluBlock, control: TreeControl, several_roots: str) -> list[str]:
    """Return the CoNLL-U lines of a sentence with its control tree."""
    sentence = control.of(parse_all_columns(block, several_roots))
    if sentence.parents is None:
        return block.lines
    tree = iter(zip(sentence.parents, sentence.relations or [], strict=True))
    lines = []
    for line in block.lines:
        columns = line.split("\t")
        if columns[0].isdigit():
            parent, columns[DEPREL] = next(tree)
            columns[HEAD], columns[DEPS] = str(parent), "_"
        lines.append("\t".join(columns))
    return lines


NONE = ("", "...", "…")  # comments of sentences without a translation
SHOWN = 5  # maximum number of excluded sentences that the log names for each reason


def files_of(prefix: str, languages: Sequence[str], aligned: bool = False) -> list[str]:
    """Return the files that `write_translated` writes: trees, texts, exclusions and alignments."""
    kinds = ["conllu", *languages, "left_out", *([ALIGN] if aligned else [])]
    return [f"{prefix}.{kind}" for kind in kinds]


@dataclass
class LeftOut:
    """The names of the excluded sentences, by reason."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, block: ConlluBlock, why: str) -> str:
        """Record an excluded sentence, and return its line for the file PREFIX.left_out."""
        name = comment_of(block, "sent_id") or f"line {block.line}"
        self.names.setdefault(why, []).append(name)
        return f"{block.path}:{block.line}\t{name}\t{why}\n"

    def __str__(self) -> str:
        parts = []
        for why, names in self.names.items():
            more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            parts.append(f"{len(names):,} {why} ({', '.join(names[:SHOWN])}{more})")
        return ", ".join(parts)


def write_translated(
    treebanks: Sequence[str],
    found_by: Treebanks,
    prefix: str,
    languages: Sequence[str],
    several_roots: str = "error",
    aligned: bool = False,
) -> None:
    """Write the sentences of a treebank that have translations, as parallel text with trees.

    treebanks: the source treebank and, unless the translations are comments, the target treebank.
    found_by: the options that specify how to find the translation of a sentence.
    aligned: whether to write the comments `align` to PREFIX.align, which contains an empty line for
        each sentence without this comment.
    """
    source, *others = treebanks
    align_by, comment = found_by.align_by, found_by.target_comment
    partners = named_blocks(others[0], align_by) if others else {}
    seen: dict[str, int] = {}
    left, kept = LeftOut(), 0
    files = files_of(prefix, languages, aligned)
    with written_together(files) as (trees, words, target, left_out, *alignments):
        for block in Progress(read_blocks(source)):
            sentence = parse_block(block, several_roots)
            if others:
                name = name_of(block, align_by, seen)
                partner = partners.pop(name, None) if name is not None else None
                text = raw_text(partner) if partner else None
                why = f"without a partner in {others[0]}"
            else:
                text, why = comment_of(block, comment or ""), f"without a {comment}"
            if text is None or text in NONE or not sentence.words:
                left_out.write(left.add(block, why if sentence.words else "without words"))
                continue
            trees.write("\n".join(block.lines) + "\n\n")
            words.write(words_line(sentence.tokens) + "\n")
            target.write(text + "\n")
            for file in alignments:
                file.write((comment_of(block, ALIGN) or "") + "\n")
            kept += 1
        for partner in partners.values():
            left_out.write(left.add(partner, f"of {others[0]} without a partner"))
        if not kept:
            raise InputError(
                f"{source}: no sentence has a translation ({left or 'no sentences'}); choose "
                "another comment with "
                + ("--align-by" if others else "--target-comment")
                + ", or other treebanks"
            )
    rest = f"; left out: {left}; see {prefix}.left_out" if left.names else ""
    say(f"{source}: {kept:,} sentences have a translation{rest}")


def named_blocks(path: str, align_by: str) -> dict[str, ConlluBlock]:
    """Return the sentences of a treebank, by the value of their comment `align_by`."""
    found: dict[str, ConlluBlock] = {}
    seen: dict[str, int] = {}
    for block in read_blocks(path):
        if (name := name_of(block, align_by, seen)) is not None:
            found[name] = block
    return found


def name_of(block: ConlluBlock, align_by: str, seen: dict[str, int]) -> str | None:
    """Return a sentence's comment `align_by`, or None; raise an InputError if it is not unique."""
    name = comment_of(block, align_by)
    if name is not None and seen.setdefault(name, block.line) != block.line:
        raise InputError(
            f"{block.path}:{block.line}: the sentence in line {seen[name]} also has "
            f"{align_by} = {name}; make the names unique, or choose another comment with --align-by"
        )
    return name
