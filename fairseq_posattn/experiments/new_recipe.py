"""Create a recipe for a custom corpus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import PLAIN, is_plain
from fairseq_posattn.experiments.corpora import PACKED
from fairseq_posattn.experiments.recipe import FILE
from fairseq_posattn.experiments.sizes import DEMO, FEW, fitted, size_on_gpus, symbols
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import count_lines, read_lines
from fairseq_posattn.text.languages import language

VALID = ("valid", "val", "dev")
TEMPLATE = """\
# Written by posattn recipe new; edit it as you like. docs/recipes.md explains all keys.
title = "{source} to {target}"
source = "{source}"
target = "{target}"

[corpus]
folder = {folder}
train = "{train}"
valid = "{valid}"
tests = [{tests}]

[corpus.prepare] # options of posattn prepare
{prepare}

[training] # options of fairseq-train
share-all-embeddings = true

# The models have the size `{size}` on GPUs and `demo` on a CPU. Values given here override the
# hyper-parameters in fairseq_posattn/fairseq_plugin/config/sizes.toml.
[sizes.{size}]

{demo}

[evaluation]
beam = 5
lenpen = 1.0

# The baseline; the model of Wang et al. (2019), which reads trees; and the same model with chains
# instead of trees: only a gain over this control can be attributed to syntax.
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


def new_recipe(folder: Path, source: str, target: str, corpus: Path) -> Path:
    """Create a recipe for the texts in a folder, and return the path of its recipe.toml.

    corpus: folder that contains the training set (train), the validation set (valid, val or dev)
        and at least one test set (test*) in both languages.

    Raises InputError if one of these texts is missing or the recipe already exists.
    """
    path = folder / FILE
    if path.exists():
        raise InputError(
            f"{path}: the recipe already exists; choose another folder, or delete the recipe"
        )
    if not corpus.is_dir():
        raise InputError(
            f"{corpus}: there is no such folder; give the path of the corpus with --from"
        )
    names = texts_in(corpus, source, target)
    valid = next((name for name in VALID if name in names), None)
    tests = sorted(name for name in names if name.startswith("test"))
    for name in (source, target, *tests):
        if not is_plain(name):
            raise InputError(f"'{name}' is not {PLAIN}; rename it")
    missing = [
        f"{name}.{source} and {name}.{target}"
        for name, there in (("train", "train" in names), ("valid", valid), ("test", tests))
        if not there
    ]
    if missing:
        raise InputError(
            f"{corpus}: the folder contains no {', no '.join(missing)}; put the texts there "
            "under these names, one sentence per line (they may be compressed)"
        )
    texts = [text_of(corpus, f"train.{language}") for language in (source, target)]
    pairs = count_lines(texts[0])
    content = TEMPLATE.format(
        source=source,
        target=target,
        folder=json.dumps(str(corpus.resolve()), ensure_ascii=False),
        train="train",
        valid=valid,
        tests=", ".join(f'"{name}"' for name in tests),
        prepare=prepare_options(source, target, pairs, texts),
        size=size_on_gpus(pairs),
        demo=demo_size(pairs),
    )
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        file.write(content)
    return path


def demo_size(pairs: int) -> str:
    """Return the table [sizes.demo] for recipe.toml, adjusted to the corpus size."""
    own = fitted(DEMO, pairs)
    training = own.pop("training", {})
    lines = [f"[sizes.{DEMO}]" + (f" # fitted to {pairs:,} pairs" if own else "")]
    lines += [f"{name} = {value}" for name, value in own.items()]
    if training:
        lines += ["", f"[sizes.{DEMO}.training]"]
        lines += [f"{name} = {value}" for name, value in training.items()]
    return "\n".join(lines)


def prepare_options(source: str, target: str, pairs: int, texts: Sequence[Path] = ()) -> str:
    """Return recommended options of posattn prepare for a corpus.

    pairs: number of sentence pairs in the training set.
    texts: files of the training set.
    """
    number, segmenter = symbols(pairs), []
    if not (language(source).spaced and language(target).spaced):
        segmenter = ['segmenter = "sentencepiece" # for text without spaces between words']
        if pairs < FEW:  # sentencepiece fails if the text is too small for the number of pieces
            characters = {char for text in texts for line in read_lines(text) for char in line}
            number = min(number, pairs + len(characters))
    return "\n".join([f"symbols = {number}", *segmenter])


def texts_in(corpus: Path, source: str, target: str) -> list[str]:
    """Return the names of the texts in a folder that exist in both languages."""
    names = [path.name for path in corpus.iterdir()]
    of_source, of_target = (
        {name.removesuffix(end) for name in names for end in ends if name.endswith(end)}
        for ends in ([f".{suffix}{end}" for end in PACKED] for suffix in (source, target))
    )
    return sorted(of_source & of_target)


def text_of(corpus: Path, name: str) -> Path:
    return next(path for end in PACKED if (path := corpus / f"{name}{end}").exists())
