"""Text that sentencepiece rewrites (NFKC) is the text of its CoNLL-U file for every command."""

import random
from itertools import chain

import pytest

from fairseq_posattn.files.files import read_json_value
from fairseq_posattn.trees.conllu import read_conllu
from support import in_process
from support.commands import FULL_TREE
from support.files import lines_of, write
from support.parse_toys import conllu_row
from support.raw_corpus import prepare

CHANGED = {
    "full-width": ["１０", "時", "前", "に", "ＡＢＣ", "！"],
    "half-width katakana": ["ﾃﾞｰﾀ", "ﾊﾟﾝ", "を", "ﾀﾍﾞﾙ"],
    "ligatures": ["eﬀect", "ﬁnd", "oﬃce", "Ŀ", "½", "℃", "㍿"],
    "combining marks": ["cafe\u0301", "u", "\u0308ber", "a\u0323\u0302", "´"],
    "not visible": ["می\u200cروم", "so\u00adft", "a\u200bb", "\ufeffx"],
}
LANGUAGES = ("--source-lang", "xx", "--target-lang", "en")
TREES = {"with trees": FULL_TREE, "without trees": ()}


def sentences(rng: random.Random, size: int) -> list[list[str]]:
    """Return each kind of text alone, and mixed."""
    words = list(chain(*CHANGED.values()))
    mixed = [rng.sample(words, 6) for _ in range(size)]
    return [*CHANGED.values(), *mixed]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Write raw text with trees beside it."""
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random("compatible")
    for split in ("train", "valid", "test"):
        found = sentences(rng, 40 if split == "train" else 5)
        write(folder / f"{split}.xx", ["".join(words) for words in found])
        write(folder / f"{split}.en", ["a b c d"] * len(found))
        blocks = [
            "".join(f"{conllu_row(k, w, 'X', k - 1, 'dep')}\n" for k, w in enumerate(words, 1))
            for words in found
        ]
        write(folder / f"{split}.conllu", "\n".join(blocks) + "\n")
    return folder


@pytest.fixture(scope="module", params=TREES)
def model(request, texts):
    """Return data and a model that was hardly trained on them."""
    name = request.param
    out, parser = texts / name, "conllu" if TREES[name] else "none"
    splits = [word for s in ("train", "valid", "test") for word in (f"--{s}", texts / s)]
    prepare(
        *("--source", "xx", "--target", "en", *splits, "--parser", parser, "--tokenize", "moses"),
        *("--segmenter", "sentencepiece", "--symbols", 80, "--character-coverage", 1),
        *("--no-normalize", "--out", out),
    )
    run = texts / f"{name}.run"
    short = ("--max-update", "1", "--max-target-positions", "9")
    in_process.train(out, run, *LANGUAGES, *TREES[name], *short)
    return out, run / "checkpoint_last.pt"


@pytest.mark.parametrize("command", ["examples", "heads"])
def test_the_trees_of_the_text(model, texts, command):
    (data, path), out = model, texts / f"{command}.json"
    options = [data, "--path", path, "--cpu", "--trees", texts / "test.conllu", "--out", out]
    count = len(lines_of(texts / "test.xx"))
    if command == "examples":
        options += ["--sentences", *range(count), "--beam", 1]
    ended = in_process.posattn(command, *options)
    assert ended.code == 0, ended.err
    if command == "examples":
        words = [sentence.words for sentence in read_conllu(texts / "test.conllu")]
        assert [example["words"] for example in read_json_value(out, "")] == words


def test_another_text(model, texts):
    """A sentence that differs in one letter is refused where no tree tells its place."""
    data, path = model
    changed = (texts / "test.conllu").read_text().replace("に", "か", 1)
    other = write(texts / "other.conllu", changed)
    options = [data, "--path", path, "--cpu", "--trees", other, "--sentences", 0, "--beam", 1]
    ended = in_process.posattn("examples", *options, "--out", texts / "other.json")
    if "without" in data.name:
        assert ended.code == 1 and "sentence 0 is '１０ 時 前 か ＡＢＣ ！' here, but" in ended.err
    else:
        assert ended.code == 0
