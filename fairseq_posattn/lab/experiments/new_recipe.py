"""Make a recipe for a corpus of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import count_lines
from fairseq_posattn.lab.experiments.allowed import PLAIN, is_plain
from fairseq_posattn.lab.experiments.corpora import PACKED
from fairseq_posattn.lab.experiments.recipe import FILE
from fairseq_posattn.text.languages import language

VALID = ("valid", "val", "dev")
SMALL = 200_000  # corpora of fewer sentences get models that learn from little
TEMPLATE = """\
# This file was written by recipes/new.sh; change whatever you like. docs/recipes.md explains it.
title = "{source} to {target}"
source = "{source}"
target = "{target}"

[corpus]
folder = {folder}
train = "{train}"
valid = "{valid}"
tests = [{tests}]

[corpus.prepare] # options of posattn-prepare
{prepare}

[training] # options of fairseq-train
share-all-embeddings = true

{sizes}
[evaluation]
beam = 5
lenpen = 1.0

# The baseline, the model of Wang et al. (2019), which reads trees, and the same with chains for
# trees: only what it gains over that comes from syntax.
[[models]]
model = "sequence"
size = "{size}"

[[models]]
model = "structural"
size = "{size}"

[[models]]
model = "structural"
name = "structural_chain"
trees = "chain"
size = "{size}"
"""
IWSLT = """\
[sizes.small] # 6 + 6 layers of width 512, an evening on one GPU
arch = "_iwslt_de_en"
updates = 20000
batch_tokens = 8192
save_every = 1000
averaged = 5

[sizes.small.training]
lr = 5e-4
dropout = 0.3
warmup-updates = 4000

[sizes.demo] # 3 + 2 layers of width 128, half an hour on a CPU
arch = "_tiny"
updates = 2000
batch_tokens = 1700
save_every = 100
averaged = 5

[sizes.demo.training]
lr = 4e-3
dropout = 0.1
warmup-updates = 300
encoder-layers = 3
decoder-layers = 2
encoder-attention-heads = 4
decoder-attention-heads = 4
encoder-embed-dim = 128
decoder-embed-dim = 128
encoder-ffn-embed-dim = 256
decoder-ffn-embed-dim = 256
"""
WMT = """\
[sizes.base] # Transformer Base of Vaswani et al. (2017), days on 8 GPUs
arch = "_wmt_en_de"
updates = 100000
batch_tokens = 32768
averaged = 5

[sizes.base.training]
lr = 7e-4
dropout = 0.1
warmup-updates = 4000
"""


def new_recipe(folder: Path, source: str, target: str, corpus: Path) -> Path:
    """Write the recipe for the texts of a folder, and return its file.

    The folder has train, valid (or val, or dev) and one or several test sets, test*, in both
    languages.
    """
    path = folder / FILE
    if path.exists():
        raise InputError(f"{path}: there is a recipe already; name another one, or delete this one")
    if not corpus.is_dir():
        raise InputError(f"{corpus}: there is no such folder; name that of the corpus with --from")
    names = texts_in(corpus, source, target)
    valid = next((name for name in VALID if name in names), None)
    tests = sorted(name for name in names if name.startswith("test"))
    for name in (source, target, *tests):
        if not is_plain(name):
            raise InputError(f"'{name}' is not {PLAIN}; give it such a name")
    missing = [
        f"{name}.{source} and {name}.{target}"
        for name, there in (("train", "train" in names), ("valid", valid), ("test", tests))
        if not there
    ]
    if missing:
        raise InputError(
            f"{corpus}: there is no {', no '.join(missing)}, plain or compressed; put the texts "
            "there under these names, one sentence a line"
        )
    large = sentences(corpus, f"train.{source}") >= SMALL
    content = TEMPLATE.format(
        source=source,
        target=target,
        folder=toml_string(str(corpus.resolve())),
        train="train",
        valid=valid,
        tests=", ".join(toml_string(name) for name in tests),
        prepare=prepare_options(source, target, large),
        sizes=WMT if large else IWSLT,
        size="base" if large else "small",
    )
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        file.write(content)
    return path


def prepare_options(source: str, target: str, large: bool) -> str:
    """Return the options of posattn-prepare that suit the languages and the size."""
    lines = [f"symbols = {32000 if large else 8000}"]
    if not (language(source).spaced and language(target).spaced):
        lines.append('segmenter = "sentencepiece" # for text without spaces between words')
    return "\n".join(lines)


def texts_in(corpus: Path, source: str, target: str) -> list[str]:
    """Return the names of the texts that a folder has in both languages."""
    names = [path.name for path in corpus.iterdir()]

    def of(suffix: str) -> set[str]:
        ends: Sequence[str] = [f".{suffix}{end}" for end in PACKED]
        return {name.removesuffix(end) for name in names for end in ends if name.endswith(end)}

    return sorted(of(source) & of(target))


def sentences(corpus: Path, name: str) -> int:
    """Return how many lines a text has, plain or compressed."""
    return next(
        count_lines(corpus / f"{name}{end}") for end in PACKED if (corpus / f"{name}{end}").exists()
    )


def toml_string(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
