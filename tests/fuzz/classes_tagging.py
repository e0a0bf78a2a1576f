"""The tagger's inputs: tagged sentences, its data directory, word vectors, text to tag."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.files import write

from .corpora import WORDS, conllu, must_pass
from .mutations import COLUMNS, JSON, LINES, OFFSETS
from .registry import Command, add, calling, made_once, program

WIDTH = 4


def write_tagged(folder: Path) -> None:
    """Write tagged.conllu, and the same in two columns as tagged.columns."""
    sentences = [line.split() for line in WORDS if line]
    text = "".join(map(conllu, sentences))
    (folder / "tagged.conllu").write_text(text, "utf-8")
    rows = [line.split("\t") for line in text.split("\n")]
    columns = [f"{row[1]}\t{row[3]}" if len(row) > 3 else "" for row in rows if row[0][:1] != "#"]
    (folder / "tagged.columns").write_text("\n".join(columns), "utf-8")


def binarizing(folder: Path, name: str) -> Command:
    sets = [option for kind in ("train", "valid") for option in (f"--{kind}", folder / name)]
    options = ["--destdir", folder / "data", "--words", "100%"]
    return Command(program("binarize_tagging"), [*sets, *options])


@made_once
def data(folder: Path) -> None:
    write_tagged(folder)
    must_pass(binarizing(folder, "tagged.conllu"))


def build_data(folder: Path) -> None:
    shutil.copytree(data() / "data", folder / "data")


def build_vectors(folder: Path) -> None:
    build_data(folder)
    words = sorted({word for line in WORDS for word in line.split()})
    rows = [
        " ".join([word, *(f"{k / 7 + j:.3f}" for j in range(WIDTH))])
        for k, word in enumerate(words)
    ]
    header = f"{len(words)} {WIDTH}"
    (folder / "vectors.vec").write_text("\n".join([header, *rows, ""]), "utf-8")


def read_all(folder: Path) -> None:
    """What a training reads: the dictionaries and every batch."""
    from fairseq_posattn.tagging.task import TaggingConfig, TaggingTask

    task = TaggingTask.setup_task(TaggingConfig(data=str(folder / "data")))
    task.load_dataset("train")
    dataset = task.dataset("train")
    for k in range(0, len(dataset), 3):
        batch = dataset.collater([dataset[j] for j in range(k, min(k + 3, len(dataset)))])
        known = {"words": task.vocabulary.words, "spellings": task.vocabulary.chars}
        for name, dictionary in known.items():
            assert batch["net_input"][name].min() >= 0
            assert batch["net_input"][name].max() < len(dictionary)


def load_vectors(folder: Path) -> None:
    import torch

    from fairseq_posattn.tagging.vocabulary import Vocabulary, load_vectors

    words = Vocabulary.load(folder / "data").words
    embedding = torch.zeros(len(words), WIDTH)
    load_vectors(str(folder / "vectors.vec"), words, embedding)
    assert embedding.isfinite().all()


for name in ("tagged.conllu", "tagged.columns"):
    add(name, write_tagged, name, COLUMNS, "data/*")(
        lambda folder, name=name: binarizing(folder, name)
    )
reading = calling(read_all)
add("tagging.json", build_data, "data/tagging.json", JSON)(reading)
add(
    "dictionaries of the tagger",
    build_data,
    "data/dict.*.txt data/ambiguous.txt",
    COLUMNS,
    also_named="dict.word.txt dict.char.txt dict.tag.txt train.word train.char",
)(reading)
also_named = "train.word train.char train.tag"
add(".bin and .idx of the tagger", build_data, "data/train.*", OFFSETS, also_named=also_named)(
    reading
)
add("word vectors", build_vectors, "vectors.vec", COLUMNS)(calling(load_vectors))


@made_once
def model(folder: Path) -> None:
    from support.in_process import call

    build_data(folder)
    options = ["--task", "tagging", "--arch", "san_tagger", "--criterion", "tagging", "--cpu"]
    options += ["--optimizer", "adam", "--lr", "0.01", "--max-update", "2", "--batch-size", "4"]
    options += ["--encoder-embed-dim", "8", "--char-embed-dim", "8", "--encoder-layers", "1"]
    options += ["--save-dir", folder / "model", "--num-workers", "0"]
    call("train", folder / "data", *options)


def build_text(folder: Path) -> None:
    shutil.copy(model() / "model/checkpoint_last.pt", folder / "model.pt")
    shutil.copytree(model() / "data", folder / "data")
    write(folder / "text", WORDS)
    sentences = "".join(conllu(line.split(), tags=False) for line in WORDS if line)
    (folder / "text.conllu").write_text(sentences, encoding="utf-8")


def tagging(folder: Path, name: str) -> Command:
    from fairseq_posattn.cli.tag import main

    options = [folder / "model.pt", "--data", folder / "data", "--cpu"]
    files = ["--text", folder / name, "--out", folder / "out"]
    return Command(main, [*options, *files])


for name, mutations in (("text", LINES), ("text.conllu", COLUMNS)):
    add(f"new {name} to tag", build_text, name, mutations, "out", share=0.2)(
        lambda folder, name=name: tagging(folder, name)
    )
