"""CoNLL-U: read by extract.py, packed or not, and by the provider of trees for new text."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

from .corpora import WORDS, write_text
from .mutations import BYTES, COLUMNS
from .registry import Command, add, calling, program

TREEBANK = """\
# sent_id = 1
# text = Im Haus liest Ann .
1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\tin\tADP\tAPPR\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\tART\t_\t3\tdet\t_\t_
3\tHaus\tHaus\tNOUN\tNN\t_\t4\tobl\t_\t_
4\tliest\tlesen\tVERB\tVVFIN\t_\t0\troot\t_\t_
5\tAnn\tAnn\tPROPN\tNE\t_\t4\tnsubj\t_\t_
6\t.\t.\tPUNCT\t$.\t_\t4\tpunct\t_\t_

# an empty sentence

1\t10 000\t_\tNUM\tCARD\t_\t0\troot\t_\t_
1.1\tso\t_\tX\tX\t_\t_\t_\t_\t_
2\tNüsse\t_\tNOUN\tNN\t_\t1\tdep\t_\t_

1\tohne\t_\tADP\tAPPR\t_\t_\t_\t_\t_
2\tBaum\t_\tNOUN\tNN\t_\t_\t_\t_\t_

"""
OUTPUTS = "out.words out.parents out.labels"


def build(folder: Path) -> None:
    (folder / "train.conllu").write_text(TREEBANK, encoding="utf-8")


def extracting(folder: Path, name: str, *options: str) -> Command:
    files = [folder / name, "--out", folder / "out"]
    return Command(program("extract"), [*files, *options])


def build_packed(folder: Path) -> None:
    import zstandard

    text = TREEBANK.encode() * 20
    (folder / "train.conllu.xz").write_bytes(lzma.compress(text))
    (folder / "train.conllu.gz").write_bytes(gzip.compress(text))
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    (folder / "train.conllu.zst").write_bytes(packed)


def result(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in OUTPUTS.split()]


@add("CoNLL-U of new text", write_text, "train.conllu", COLUMNS)
@calling
def give_trees(folder: Path) -> None:
    """What fairseq-interactive --tree-file does with the lines of train.de."""
    from fairseq_posattn.text.live.providers import ConlluProvider
    from fairseq_posattn.text.live.segmented import SegmentedLine

    provider = ConlluProvider(str(folder / "train.conllu"))
    provider.parsed([SegmentedLine(line.strip(), "", []) for line in WORDS])


CONLLU = {"build": build, "damaged": "train.conllu", "mutations": COLUMNS, "outputs": OUTPUTS}

add("CoNLL-U", **CONLLU)(lambda f: extracting(f, "train.conllu"))
add("CoNLL-U, tokens", **CONLLU)(
    lambda f: extracting(f, "train.conllu", "--tokens", "--several-roots", "first")
)
for ending in ("xz", "gz", "zst"):
    add(
        f"CoNLL-U, packed as {ending}",
        build_packed,
        f"train.conllu.{ending}",
        BYTES,
        OUTPUTS,
        share=0.3,
    )(lambda f, name=f"train.conllu.{ending}": extracting(f, name))
