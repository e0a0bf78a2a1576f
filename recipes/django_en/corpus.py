"""Split the corpus of Oda et al. (2015), and convert its lines of Python to tokens with trees.

Both sides are split into words and punctuation marks. The labels of a line are `yes` or `no`:
whether the same line of Python occurs in the training set, and whether it contains a string.
"""

from __future__ import annotations

from itertools import islice

from syntax import tree_of, words_of

from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.atomic import written_together
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.terminal import say
from fairseq_posattn.trees.conllu import block
from fairseq_posattn.trees.sentence import Sentence, Tags

FILES = ("all.code", "all.anno")
LABELS = ("in_training", "has_string")


def collect(collector: Collector) -> None:
    """Write both sides of each text, with trees and labels."""
    paths = [collector.find(name) for name in FILES]
    corpus = collector.content.corpus
    lines = ([line.strip() for line in read_lines(path)] for path in paths)
    pairs = zip(*lines, strict=True)
    training: set[str] = set()
    for name in corpus.names:
        size = int(corpus.sentences[name][0])
        start = collector.raw / name
        if collector.shell.does(f"write {start} from {' and '.join(map(str, paths))}"):
            of_split = list(islice(pairs, size))
            if name == corpus.train:
                training = {code for code, _ in of_split}
            write(str(start), collector.languages, of_split, training)
        for language in collector.languages:
            collector.expect(f"{name}.{language}")


def write(start: str, languages: tuple, pairs: list[tuple[str, str]], training: set[str]) -> None:
    """Write trees, both sides and labels of a split to the files START.*."""
    failed = 0
    with written_together([f"{start}.{kind}" for kind in ("conllu", *languages, *LABELS)]) as files:
        for number, (code, description) in enumerate(pairs, start=1):
            tree = tree_of(code)
            failed += tree is None
            sentence = tree or chain(words_of(code))
            source = " ".join(sentence.words)
            checks = (code in training, "'" in code or '"' in code)
            labels = ("yes" if check else "no" for check in checks)
            parts = (source, " ".join(words_of(description)), *labels)
            files[0].write(block(source, sentence, number))
            for file, part in zip(files[1:], parts, strict=True):
                file.write(f"{part}\n")
    say(f"{start}: {failed} of {len(pairs):,} lines cannot be parsed and get a chain as their tree")


def chain(words: list[str]) -> Sentence:
    """Return a tree in which each word is a child of the preceding one."""
    labels = ["root", *(len(words) - 1) * ["dep"]]
    return Sentence(words, [*range(len(words))], relations=labels, tags=[Tags()] * len(words))
