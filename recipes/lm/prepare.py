"""Write the Penn Treebank or WikiText-2 with one sentence per line, for fairseq-preprocess.

    python recipes/lm/prepare.py --corpus wikitext-2 --data DIR --out WORK/text

WikiText-2 is processed as in the authors' program. That program appends <eos> to each line of the
corpus, and later to each sentence, so the last sentence of a line ends with two of them, and a
blank line consists of two. fairseq-preprocess appends </s> to each line, so the second one is
written here. counts.json states how many words the authors' program would read and predict (see
counting.py).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from counting import AS_PUBLISHED, WORDS_READ, as_published
from sentences import Splitter, by_punkt, by_rules, punkt_is_there

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import PACKED
from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import folder_written_whole, written_whole
from fairseq_posattn.files.files import read_lines

SPLITS = ("train", "valid", "test")
FILES = {"ptb": "ptb.{split}.txt", "wikitext-2": "wiki.{split}.tokens"}
ENDS = {"ptb": [], "wikitext-2": ["</s>"]}  # in addition to the </s> that fairseq appends


def find(data: Path, corpus: str, split: str) -> Path:
    """Return the plain or compressed file of a split; raise an InputError if there is none."""
    name = FILES[corpus].format(split=split)
    for suffix in PACKED:
        if (path := data / f"{name}{suffix}").exists():
            return path
    raise InputError(
        f"{data} has no {name} (or .xz, .gz, .zst); give the folder with the three files of "
        f"{corpus} with --data, or another corpus with --corpus"
    )


def one_sentence(words: list[str]) -> Iterator[list[str]]:
    """Yield the line itself, for corpora with one sentence per line."""
    yield words


def splitter(corpus: str, wanted: str) -> tuple[str, Splitter]:
    """Return the name and the function of the sentence splitter."""
    if corpus == "ptb":
        return "none", one_sentence
    if wanted == "punkt" and not punkt_is_there():
        raise InputError(
            "--splitter punkt: nltk or its data are missing; run pip install nltk and python -m "
            "nltk.downloader punkt_tab (for older nltk: punkt), or use --splitter rules"
        )
    if wanted == "punkt" or (wanted == "auto" and punkt_is_there()):
        return "punkt", by_punkt
    return "rules", by_rules


def sentences_of(line: str, split_line: Splitter, ends: list[str]) -> list[list[str]]:
    """Split a line into sentences, and append `ends` to the last; a blank line is one sentence."""
    words = line.split()
    *others, last = split_line(words) if words else [[]]
    return [*others, [*last, *ends]]


def write_split(
    source: Path, target: Path, read: Callable[[str], list[list[str]]], limit: int | None
) -> dict:
    """Write the sentences of a file, up to about `limit` words, and return the counts."""
    counts = dict.fromkeys(("sentences", "words", "blank_lines", *AS_PUBLISHED), 0)
    with written_whole(target) as file:
        for line in read_lines(source):
            if limit is not None and counts["words"] >= limit:
                break
            counts["words"] += len(line.split())
            counts["blank_lines"] += not line.split()
            for sentence in read(line):
                file.write(" ".join(sentence) + "\n")
                counts["sentences"] += 1
                for name, count in as_published(len(sentence) + 1, WORDS_READ).items():
                    counts[name] += count
    if not counts["words"]:
        remedy = "download it again" if limit is None else "download it again, or increase --words"
        raise InputError(f"{source} contains no words; {remedy}")
    return counts


def prepare(corpus: str, data: Path, out: Path, wanted: str, limit: int | None) -> dict:
    """Write train.txt, valid.txt, test.txt and counts.json."""
    name, split_line = splitter(corpus, wanted)
    found = {"corpus": corpus, "splitter": name}
    sources = {split: find(data, corpus, split) for split in SPLITS}
    read = partial(sentences_of, split_line=split_line, ends=ENDS[corpus])
    with folder_written_whole(out, replace=True) as folder:
        for split, source in sources.items():
            share = limit if limit is None or split == "train" else limit // 10
            found[split] = write_split(source, folder / f"{split}.txt", read, share)
        with written_whole(folder / "counts.json") as file:
            json.dump(found, file, indent=1)
    return found


def main() -> None:
    """Prepare the corpus and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--corpus", choices=FILES, required=True, help="corpus to prepare")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with the three files of the corpus"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the text")
    parser.add_argument(
        "--splitter",
        choices=("auto", "punkt", "rules"),
        default="auto",
        help="sentence splitter for WikiText: nltk's punkt as published, our own rules, or (auto, "
        "the default) punkt if it is installed and otherwise our rules",
    )
    parser.add_argument(
        "--words",
        type=int,
        help="use only the first N words of train, and N/10 of valid and test (default: all)",
    )
    arguments = parser.parse_args()
    found = prepare(
        arguments.corpus, arguments.data, arguments.out, arguments.splitter, arguments.words
    )
    print(f"sentence splitter: {found['splitter']}")
    for split in SPLITS:
        print(split, ", ".join(f"{count} {name}" for name, count in found[split].items()))


if __name__ == "__main__":
    command_line.run(main)
