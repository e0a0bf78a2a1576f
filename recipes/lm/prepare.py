"""One sentence a line from the Penn Treebank or WikiText-2, ready for fairseq-preprocess.

    python recipes/lm/prepare.py --corpus wikitext-2 --data DIR --out WORK/text

WikiText-2 is read as the authors' program reads it. It marks the end of each line of the corpus by
<eos>, and later the end of each sentence by another one: the last sentence of a line has two of
them, and a blank line is nothing but two. fairseq-preprocess marks the end of each line of ours by
</s>; a second one is written here. counts.json tells how many words that program would read, and
how many of them it would predict (see counting.py).
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
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import folder_written_whole, written_whole
from fairseq_posattn.io.files import read_lines

SPLITS = ("train", "valid", "test")
FILES = {"ptb": "ptb.{split}.txt", "wikitext-2": "wiki.{split}.tokens"}
PACKED = ("", ".xz", ".gz", ".zst")
ENDS = {"ptb": [], "wikitext-2": ["</s>"]}  # of a line, beside the one that fairseq writes


def find(data: Path, corpus: str, split: str) -> Path:
    name = FILES[corpus].format(split=split)
    for suffix in PACKED:
        if (path := data / f"{name}{suffix}").exists():
            return path
    raise InputError(
        f"{data}: no {name} (or .xz, .gz, .zst): --data names the folder of the three files of "
        f"{corpus}, --corpus which corpus that is"
    )


def one_sentence(words: list[str]) -> Iterator[list[str]]:
    """For a corpus that has one sentence a line."""
    yield words


def splitter(corpus: str, wanted: str) -> tuple[str, Splitter]:
    """The name of what finds the sentences of a line, and the function."""
    if corpus == "ptb":
        return "none", one_sentence
    if wanted == "punkt" and not punkt_is_there():
        raise InputError(
            "--splitter punkt: nltk or its data are not there: pip install nltk, "
            "python -m nltk.downloader punkt_tab (older nltk: punkt); or --splitter rules"
        )
    if wanted == "punkt" or (wanted == "auto" and punkt_is_there()):
        return "punkt", by_punkt
    return "rules", by_rules


def sentences_of(line: str, split_line: Splitter, ends: list[str]) -> list[list[str]]:
    """The sentences of a line, the last one with these ends; a blank line is one sentence."""
    words = line.split()
    *others, last = split_line(words) if words else [[]]
    return [*others, [*last, *ends]]


def write_split(
    source: Path, target: Path, read: Callable[[str], list[list[str]]], limit: int | None
) -> dict:
    """The sentences of a file, up to so many words; -> what was counted."""
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
        raise InputError(f"{source}: no words; get the file again")
    return counts


def prepare(corpus: str, data: Path, out: Path, wanted: str, limit: int | None) -> dict:
    """Writes train.txt, valid.txt, test.txt and counts.json."""
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", choices=FILES, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of the three files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--splitter",
        choices=("auto", "punkt", "rules"),
        default="auto",
        help="of WikiText: nltk's punkt as published, rules of ours, auto: punkt if it is there",
    )
    parser.add_argument(
        "--words", type=int, help="only about so many of training, a tenth of the others"
    )
    arguments = parser.parse_args()
    found = prepare(
        arguments.corpus, arguments.data, arguments.out, arguments.splitter, arguments.words
    )
    print(f"sentences: {found['splitter']}")
    for split in SPLITS:
        print(split, ", ".join(f"{count} {name}" for name, count in found[split].items()))


if __name__ == "__main__":
    command_line.run(main)
