"""Make parallel text with trees of treebanks whose sentences have translations.

A translation is a comment of its sentence (`# text_en = ...`), or the text of the sentence in a
second treebank that has the same name (`# sent_id = ...`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_together
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.preparation.corpus import ALIGN, Treebanks
from fairseq_posattn.trees.conllu import (
    ConlluBlock,
    comment_of,
    parse_block,
    raw_text,
    read_blocks,
)
from fairseq_posattn.trees.lines import words_line

NONE = ("", "...", "…")  # such a comment says that there is no translation
SHOWN = 5  # so many sentences of each kind are named on the screen


def files_of(prefix: str, languages: Sequence[str], aligned: bool = False) -> list[str]:
    """Return the files that `write_translated` writes: trees, both texts, what it left out, and
    alignments."""
    kinds = ["conllu", *languages, "left_out", *([ALIGN] if aligned else [])]
    return [f"{prefix}.{kind}" for kind in kinds]


@dataclass
class LeftOut:
    """This counts and names the sentences that have no partner, by the reason."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, block: ConlluBlock, why: str) -> str:
        """Note a sentence, and return a line that says so."""
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
    """Write the sentences of a treebank that have a translation to the `files_of` a prefix.

    treebanks: that of the source and, unless a comment has the translations, that of the target.
    found_by: says what tells the translation of a sentence.
    The source has the tokens of the treebank between spaces. aligned: PREFIX.align gets the comment
    `align`, or an empty line where there is none.
    """
    source, *others = treebanks
    align_by, comment = found_by.align_by, found_by.target_comment
    partners = named_blocks(others[0], align_by) if others else {}
    seen: dict[str, int] = {}
    left, kept = LeftOut(), 0
    files = files_of(prefix, languages, aligned)
    with written_together(files) as (trees, words, target, left_out, *alignments):
        for block in progress(read_blocks(source)):
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
                f"{source}: no sentence has a translation, for there were {left or 'no sentences'};"
                " name another comment with "
                + ("--align-by" if others else "--target-comment")
                + ", or other treebanks"
            )
    rest = f"; left out were {left}: see {prefix}.left_out" if left.names else ""
    say(f"{source}: {kept:,} sentences have a translation{rest}")


def named_blocks(path: str, align_by: str) -> dict[str, ConlluBlock]:
    """Return the sentences of a treebank by their names; those without one are not found."""
    found: dict[str, ConlluBlock] = {}
    seen: dict[str, int] = {}
    for block in read_blocks(path):
        if (name := name_of(block, align_by, seen)) is not None:
            found[name] = block
    return found


def name_of(block: ConlluBlock, align_by: str, seen: dict[str, int]) -> str | None:
    """Return the name of a sentence, and refuse a second one with the same name."""
    name = comment_of(block, align_by)
    if name is not None and seen.setdefault(name, block.line) != block.line:
        raise InputError(
            f"{block.path}:{block.line}: there is another sentence with {align_by} = {name}, in "
            f"line {seen[name]}; give each a name of its own, or choose another comment with "
            "--align-by"
        )
    return name
