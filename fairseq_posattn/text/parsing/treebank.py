"""Read a treebank, and write the input files of stanza's trainers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.conllu import (
    FORM,
    MULTIWORD,
    TEXT_COMMENT,
    ConlluBlock,
    block,
    parse_all_columns,
    read_blocks,
)
from fairseq_posattn.trees.sentence import Sentence, Tags, shortened

BEGINS_PARAGRAPH = re.compile(r"#\s*new(doc|par)\b")
PACKED = ("", ".gz", ".xz", ".zst")


def files_of(treebank: Path) -> tuple[Path, Path]:
    """Return the training and development files in a Universal Dependencies folder."""
    if not treebank.is_dir():
        raise InputError(
            f"{treebank}: there is no such folder; give the path of a Universal Dependencies "
            "treebank, or pass two files with --train and --dev"
        )
    train, dev = (one_file(treebank, f"*-ud-{split}.conllu") for split in ("train", "dev"))
    return train, dev


def one_file(treebank: Path, pattern: str) -> Path:
    """Return the only file that matches a pattern; it may be compressed."""
    found = sorted(path for end in PACKED for path in treebank.glob(pattern + end))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "no such file"
        raise InputError(
            f"{treebank}/{pattern}: expected one file, found {names}; pass the files with --train "
            "and --dev"
        )
    return found[0]


@dataclass
class Tree:
    """A sentence of a treebank, with its original text."""

    sentence: Sentence
    text: str
    begins_paragraph: bool

    def labels(self, mwt: bool) -> str:
        """Return stanza's label for each character.

        The last character of a token is labelled 1, or 3 if it is a multiword token. At the end of
        the sentence, these labels are 2 and 4. All other characters are labelled 0.

        mwt: whether to distinguish multiword tokens.
        """
        labels, end = [0] * len(self.text), 0
        for token, words in self.sentence.counted_tokens():
            end = self.text.find(token, end) + len(token)
            labels[end - 1] = 3 if mwt and words > 1 else 1
        labels[end - 1] += 1
        return "".join(map(str, labels))


def read_trees(path: Path) -> list[Tree]:
    """Read the sentences of a file; raise an InputError if a tree or a label is missing."""
    trees = [tree for given in read_blocks(str(path)) if (tree := read_tree(given))]
    if not trees:
        raise InputError(f"{path}: the file contains no sentences; use a file with trees")
    return trees


def read_tree(given: ConlluBlock) -> Tree | None:
    """Return the sentence of a block, or None if the block contains only comments."""
    sentence = parse_all_columns(given)
    if not sentence.words:
        return None
    if sentence.parents is None:
        raise InputError(
            f"{sentence.where}: the sentence has no tree (HEAD is _); remove the sentence"
        )
    rows = [(k, line.split("\t")) for k, line in enumerate(given.lines) if line[0] != "#"]
    words = [(k, row) for k, row in rows if row[0].isdecimal()]
    assert sentence.tags and sentence.relations
    for (k, _), tags, relation in zip(words, sentence.tags, sentence.relations, strict=True):
        if missing := "UPOS" if tags.upos == "_" else "DEPREL" if relation == "_" else None:
            where = f"{given.path}:{given.line + k}"
            raise InputError(f"{where}: the word has no {missing}, which training needs; add it")
    # restore spaces in words, which parse_all_columns escapes
    sentence.words = [row[FORM] for _, row in words]
    tokens = [row[FORM] for _, row in rows if MULTIWORD.fullmatch(row[0])]
    sentence.multiword = [
        (first, count, form)
        for (first, count, _), form in zip(sentence.multiword, tokens, strict=True)
    ]
    comments = [(k, line) for k, line in enumerate(given.lines) if line[0] == "#"]
    texts = ((k, found[1]) for k, line in comments if (found := TEXT_COMMENT.match(line)))
    k, text = next(texts, (0, None))
    begins = any(BEGINS_PARAGRAPH.match(line) for _, line in comments)
    if text is None:
        return Tree(sentence, str(sentence), begins)
    refuse_other_text(text, sentence, f"{given.path}:{given.line + k}")
    return Tree(sentence, text, begins)


def refuse_other_text(text: str, sentence: Sentence, where: str) -> None:
    """Raise an InputError unless a text consists of the tokens of its sentence."""
    rest = text
    for token in sentence.tokens:
        before, found, rest = rest.partition(token)
        if not found or before.strip():
            goes_on = shortened((before + found + rest).strip())
            raise InputError(
                f"{where}: the text continues with '{goes_on}', but the tree with "
                f"'{shortened(token)}'; correct the text, or remove this line"
            )


class Corpus(NamedTuple):
    """The trainers' input files for one split of the treebank."""

    conllu: Path
    text: Path
    labels: Path
    expansions: Path  # an empty list, which the tokeniser's trainer requires

    @classmethod
    def of(cls, start: Path) -> Corpus:
        """Return the paths of the files, which differ from `start` only in their suffixes."""
        return cls(*(start.with_suffix(f".{end}") for end in cls._fields))

    def write(self, trees: Sequence[Tree], mwt: bool) -> None:
        """Write the text and its labels for the tokeniser, and the trees for tagger and parser.

        In the trees, as in the pipeline, the lemma of each word is the word itself, and the only
        tags are UPOS tags.
        """
        texts, labels = [], []
        for paragraph in paragraphs(trees):
            texts.append(" ".join(tree.text for tree in paragraph))
            labels.append("0".join(tree.labels(mwt) for tree in paragraph))
        self.text.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
        self.labels.write_text("\n\n".join(labels) + "\n", encoding="utf-8")
        self.expansions.write_text("[]", encoding="utf-8")
        with open(self.conllu, "w", encoding="utf-8") as file:
            for number, tree in enumerate(trees, 1):
                pairs = zip(tree.sentence.words, tree.sentence.tags or [], strict=True)
                tags = [Tags(lemma=word, upos=tags.upos) for word, tags in pairs]
                file.write(block(tree.text, replace(tree.sentence, tags=tags), number))


def paragraphs(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """Yield the paragraphs of a treebank; if none are marked, each sentence is a paragraph."""
    are_marked = any(tree.begins_paragraph for tree in trees)
    paragraph: list[Tree] = []
    for tree in trees:
        if paragraph and (tree.begins_paragraph or not are_marked):
            yield paragraph
            paragraph = []
        paragraph.append(tree)
    yield paragraph


def spread(trees: Sequence[Tree], at_most: int | None) -> Sequence[Tree]:
    """Return at most `at_most` sentences, evenly spaced because treebanks are sorted by genre."""
    every = max(1, len(trees) // at_most) if at_most else 1
    return list(islice(trees[::every], at_most))
