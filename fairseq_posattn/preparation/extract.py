"""Extract words, parents and labels from CoNLL-U."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from fairseq_posattn.io.atomic import written_together
from fairseq_posattn.io.progress import progress
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.lines import NO_TREE, labels_line, parents_line, words_line
from fairseq_posattn.trees.sentence import Sentence, labels_of


@dataclass
class Extracted:
    """This class counts what a treebank held."""

    sentences: int = 0
    words: int = 0
    without_tree: int = 0


def extract(
    treebanks: Sequence[str], out: str, several_roots: str = "error", tokens: bool = False
) -> Extracted:
    """Write the sentences of all treebanks to `out`.words, .parents and .labels, and count them.

    tokens: write words as the text has them (im), and not as the tree has them (in, dem).
    """
    found = Extracted()
    files = [f"{out}.{kind}" for kind in ("words", "parents", "labels")]
    with written_together(files) as (words, parents, labels):
        for sentence in progress(
            chain.from_iterable(read_labelled(path, several_roots) for path in treebanks)
        ):
            forms, counts = sentence.words, None
            if tokens:
                forms, counts = sentence.tokens, sentence.words_of_token
            words.write(words_line(forms) + "\n")
            parents.write(parents_line(sentence.parents, counts) + "\n")
            labels.write(line_of_labels(sentence) + "\n")
            found.sentences += 1
            found.words += len(sentence.words)
            found.without_tree += sentence.parents is None
    return found


def line_of_labels(sentence: Sentence) -> str:
    """Return the line of labels of a sentence, or `-` if it has no tree."""
    return NO_TREE if sentence.parents is None else labels_line(labels_of(sentence))
