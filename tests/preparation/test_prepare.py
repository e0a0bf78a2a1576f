"""preprocess/prepare.py: from raw parallel text to data, step by step, whatever happens."""

import io
import json
import lzma
import os
import random
import re
import shutil
from contextlib import redirect_stderr
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import sacremoses
import sentencepiece
from fairseq.data import Dictionary, indexed_dataset
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import sha256
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.requests import asked
from fairseq_posattn.jobs import running
from fairseq_posattn.preparation.request import PreparationRequest
from fairseq_posattn.text.parsing.options import ParserSettings
from support import reference_projection as reference
from support.commands import step
from support.files import lines_of, write
from support.killed import killed_at
from support.raw_corpus import (
    KINDS,
    MAX_LENGTH,
    MAX_RATIO,
    MAX_WORDS,
    SENTENCEPIECE,
    SIZES,
    Corpus,
    contents,
    prepare,
    stored_trees,
)

pytest.importorskip("stanza")

SPM = [kind for kind in KINDS if "-" in kind]


class Prepared(NamedTuple):
    """A data directory, the files it was made from, and those between."""

    kind: str
    data: Path
    raw: Path

    def lines(self, name: str) -> list[str]:
        return lines_of(Path(f"{self.data}.work") / name)

    def has(self, option: str) -> bool:
        return option in KINDS[self.kind]

    @property
    def tokenize(self) -> str:
        return self.kind.rpartition("-")[2]


@pytest.fixture(params=KINDS, scope="module")
def prepared(request, corpus) -> Prepared:
    return Prepared(request.param, corpus.data(request.param), corpus.folder / "raw")


# What each step makes, done again slowly with the tools themselves.


def normal(line: str, language: str, prepared: Prepared) -> str:
    if not prepared.has("--no-normalize"):
        line = sacremoses.MosesPunctNormalizer(language).normalize(line)
    return " ".join(line.split())


def by_moses(line: str, language: str) -> str:
    return " ".join(sacremoses.MosesTokenizer(language).tokenize(line, escape=False))


@pytest.mark.parametrize("split", SIZES)
def test_texts(prepared, split):
    for language in ("de", "en"):
        expected = [
            normal(line, language, prepared)
            for line in lines_of(prepared.raw / f"{split}.{language}")
        ]
        tokenized = prepared.tokenize == "moses"
        if language == "en":
            tokenized = prepared.kind in ("stanza", "moses")
        if tokenized:
            expected = [by_moses(line, language) for line in expected]
        assert prepared.lines(f"{split}.text.{language}") == expected
        assert ("“" in str(expected)) == prepared.has("--no-normalize")


def trees_of(path: Path) -> list[reference.Sentence]:
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        blocks = file.read().removesuffix("\n\n").split("\n\n")
    return [reference.read_sentence(block.split("\n")) for block in blocks]


def parsed(prepared: Prepared, split: str) -> list[reference.Sentence]:
    return trees_of(Path(f"{prepared.data}.work/{split}.conllu.xz"))


@pytest.mark.parametrize("split", SIZES)
def test_trees_are_those_of_the_lines(prepared, split):
    trees, lines = parsed(prepared, split), prepared.lines(f"{split}.text.de")
    assert [found.text for found in trees] == lines
    for found, line in zip(trees, lines, strict=True):
        assert reference.matches(line, found.tokens)
        if prepared.tokenize != "stanza":
            assert found.tokens == line.split()
    longest = max(len(found.parents) for found in trees)
    assert longest > MAX_WORDS  # parsed in parts
    several = [max(found.words_of_token, default=1) > 1 for found in trees]
    assert any(several) == (prepared.tokenize == "stanza")
    if prepared.tokenize == "stanza":
        assert any(found.tokens != found.text.split() for found in trees)


def given_to_segmenter(prepared: Prepared, split: str) -> dict[str, list[str]]:
    text = {language: prepared.lines(f"{split}.text.{language}") for language in ("de", "en")}
    if prepared.kind == "stanza":
        text["de"] = [" ".join(found.tokens) for found in parsed(prepared, split)]
    return text


def learnt(prepared: Prepared, texts: list[list[str]]):
    """Learn a model from the texts, and return the function from a line to its pieces."""
    lines = [line for text in texts for line in text]
    options = dict(zip(KINDS[prepared.kind], KINDS[prepared.kind][1:], strict=False))
    symbols, model = options["--symbols"], io.BytesIO()
    if prepared.kind in SPM:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=options.get("--model-type", "unigram"),
            vocab_size=symbols,
            character_coverage=options.get("--character-coverage", 0.9995),
            num_threads=1,
            minloglevel=2,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        return lambda line: processor.encode(line, out_type=str)
    codes = io.StringIO()
    with redirect_stderr(io.StringIO()):
        learn_bpe(
            [f"{line}\n" for line in lines], codes, symbols, options.get("--min-frequency", 2)
        )
    codes.seek(0)
    return lambda line: BPE(codes).process_line(line).split()


def test_pieces(prepared):
    texts = given_to_segmenter(prepared, "train")
    if prepared.has("--separate"):
        pieces_of = {language: learnt(prepared, [text]) for language, text in texts.items()}
    else:
        pieces_of = dict.fromkeys(texts, learnt(prepared, list(texts.values())))
    for split in SIZES:
        for language, text in given_to_segmenter(prepared, split).items():
            expected = [" ".join(pieces_of[language](line)) for line in text]
            assert prepared.lines(f"{split}.pieces.{language}") == expected


def pairs(prepared: Prepared, split: str) -> list[tuple[list[str], list[str]]]:
    sides = [prepared.lines(f"{split}.pieces.{language}") for language in ("de", "en")]
    return [(a.split(), b.split()) for a, b in zip(*sides, strict=True)]


def kept(prepared: Prepared, split: str) -> list[int]:
    """The sentences that are left: of training those within the limits."""
    found = pairs(prepared, split)
    if split != "train":
        return list(range(len(found)))
    lengths = [sorted(map(len, pair)) for pair in found]
    return [
        k
        for k, (short, long) in enumerate(lengths)
        if short and long <= MAX_LENGTH and long / short <= MAX_RATIO
    ]


def binarized(data: Path, split: str, language: str) -> list[list[str]]:
    dictionary = Dictionary.load(str(data / f"dict.{language}.txt"))
    found = indexed_dataset.make_dataset(str(data / f"{split}.de-en.{language}"), "mmap")
    assert all(numbers[-1] == dictionary.eos() for numbers in found)
    return [[dictionary[number] for number in numbers[:-1]] for numbers in found]


@pytest.mark.parametrize("split", SIZES)
def test_binarized_pieces(prepared, split):
    found = [binarized(prepared.data, split, language) for language in ("de", "en")]
    known = [
        set(Dictionary.load(str(prepared.data / f"dict.{language}.txt")).symbols)
        for language in ("de", "en")
    ]
    expected = [pairs(prepared, split)[k] for k in kept(prepared, split)]
    for side in (0, 1):
        assert found[side] == [
            [piece if piece in known[side] else "<unk>" for piece in pair[side]]
            for pair in expected
        ]
    joined = (prepared.data / "dict.de.txt").read_bytes() == (
        prepared.data / "dict.en.txt"
    ).read_bytes()
    assert joined != prepared.has("--separate")


def spans_of_pieces(prepared: Prepared, split: str):
    text = given_to_segmenter(prepared, split)["de"]
    pieces = [source for source, _ in pairs(prepared, split)]
    if prepared.kind not in SPM:
        return [reference.subword_nmt_spans(*both) for both in zip(text, pieces, strict=True)]
    model = sentencepiece.SentencePieceProcessor(model_file=str(prepared.data / "segmenter"))
    return [reference.sentencepiece_spans(model, line) for line in text]


def expected_trees(prepared: Prepared, split: str, trees: list[reference.Sentence]) -> list:
    spans = spans_of_pieces(prepared, split)
    found = []
    for k in kept(prepared, split):
        words = reference.word_spans(trees[k].tokens, trees[k].words_of_token)
        found.append((trees[k].parents, reference.project(trees[k].parents, words, spans[k])))
    return found


@pytest.mark.parametrize("split", SIZES)
def test_trees_of_the_pieces(prepared, split):
    """They belong to the right lines, also after some were left out."""
    expected = expected_trees(prepared, split, parsed(prepared, split))
    assert stored_trees(prepared.data, split) == expected


def test_choices(prepared, corpus):
    tokenize = prepared.tokenize
    assert json.loads((prepared.data / "prepare.json").read_text()) == {
        "version": 1,
        "source": "de",
        "target": "en",
        "normalize": not prepared.has("--no-normalize"),
        "tokenize": tokenize,
        "target_tokenize": "spaces" if prepared.has("--target-tokenize") else "moses",
        "segmenter": "sentencepiece" if prepared.kind in SPM else "subword-nmt",
        "separator": "@@",
        "segmenter_file": "segmenter",
        "parser": {
            "parser": "stanza",
            "lang": "de",
            "model_dir": str(corpus.models),
            "package": "default",
            "tokenized": tokenize != "stanza",
            "max_words": MAX_WORDS,
            "long_lines": "cut",
            "on_failure": "stop",
            "several_roots": "error",
        },
        "control": {"kind": "own", "flip": 0.0, "seed": 1},
        "lowercase": False,
        "model_dir_from_here": os.path.relpath(corpus.models, prepared.data),
        "segmenter_sha256": sha256(prepared.data / "segmenter"),
    }
    work = Path(f"{prepared.data}.work")
    assert (prepared.data / "segmenter").read_bytes() == (work / "segmenter").read_bytes()


@pytest.mark.long(but=["stanza"])
def test_fairseq_trains(prepared, corpus):
    assert corpus.model(prepared.kind).exists()


# Trees that were made elsewhere.

GIVEN = ("--parser", "conllu", "--tokenize", "moses", "--symbols", 90)


def given_options(corpus, out: Path, *more) -> list:
    return corpus.options(*GIVEN, *more, "--out", out, raw="tidy")


def test_folders_whose_names_are_no_options(corpus, tmp_path, monkeypatch):
    """Also where a shell or a terminal would read more into them."""
    monkeypatch.chdir(tmp_path)
    prepare(*given_options(corpus, "")[:-2], "--out=-data", "--work=--help")
    odd = tmp_path / "a b\n-c $HOME \"q' ü(1)|;&*[x]\x1b[31m\u202e"
    prepare(*given_options(corpus, odd))
    assert contents(odd) == contents(tmp_path / "-data")


def test_given_trees_of_several_roots(own, tmp_path):
    """There is an error, and its advice works."""
    trees = own.folder / "tidy/test.conllu"
    blocks = trees.read_text().split("\n\n")
    k = next(k for k, block in enumerate(blocks) if re.search("\t3\tdep", block))
    blocks[k] = re.sub("\t3\tdep", "\t0\troot", blocks[k], count=1)
    trees.write_text("\n\n".join(blocks))
    options = given_options(own, tmp_path / "data")
    assert "--several-roots first" in fails(*options)
    prepare(*options, "--several-roots", "first")
    assert len(stored_trees(tmp_path / "data", "test")) == SIZES["test"]


@pytest.mark.parametrize("kind", ["moses", "bpe-moses"])
def test_given_trees(corpus, tmp_path, kind):
    """The tokens of the treebank are not those of the lines: stops touch their words there."""
    options = given_options(corpus, tmp_path / "data", *KINDS[kind], "--tokenize", "spaces")
    prepare(*options)
    prepared = Prepared(kind, tmp_path / "data", corpus.folder / "tidy")
    for split in SIZES:
        trees = trees_of(corpus.folder / f"tidy/{split}.conllu")
        assert stored_trees(prepared.data, split) == expected_trees(prepared, split, trees)
        assert any(found.tokens != found.text.split() for found in trees)
    about = json.loads((prepared.data / "prepare.json").read_text())
    assert about["parser"]["parser"] == "conllu"


@pytest.fixture
def own(corpus, tmp_path) -> Corpus:
    """A copy of the raw text that a test may change."""
    for name in ("raw", "tidy"):
        shutil.copytree(corpus.folder / name, tmp_path / "corpus" / name)
    return Corpus(tmp_path / "corpus", corpus.models)


def test_given_trees_may_be_packed(own, tmp_path):
    prepare(*given_options(own, tmp_path / "data"))
    for split in SIZES:
        path = own.folder / f"tidy/{split}.conllu"
        Path(f"{path}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    prepare(*given_options(own, tmp_path / "packed"))
    assert contents(tmp_path / "packed") == contents(tmp_path / "data")


# Begun again: the same command, another one, other text.


def times(*folders: Path) -> dict[Path, int]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in files}


def steps_done(capsys, *options) -> set[str]:
    """The steps that a run did, not those done before."""
    capsys.readouterr()
    prepare(*options)
    lines = capsys.readouterr().err.splitlines()
    assert all(f"{line.removesuffix(' ...')}: already done" not in lines for line in lines)
    return {line.removesuffix(" ...") for line in lines if line.endswith(" ...")}


def test_the_same_command_again(own, tmp_path, capsys):
    out = tmp_path / "data"
    options = given_options(own, out)
    assert len(steps_done(capsys, *options)) == 26
    folders = out, Path(f"{out}.work"), own.folder
    before = times(*folders)
    assert steps_done(capsys, *options) == set()
    assert times(*folders) == before
    for path in (*own.folder.rglob("*"), *Path(f"{out}.work").glob("*.text.*")):
        os.utime(path)
    assert steps_done(capsys, *options) == set()


ALL = {
    *(f"{name}.{split}" for name in ("parse", "extract", "project", "filter") for split in SIZES),
    *(
        f"{n}.{s}.{language}"
        for n in ("normalize", "segment")
        for s in SIZES
        for language in ("de", "en")
    ),
    *("learn.segmenter", "binarize"),
}
PARSED = {step for step in ALL if step.split(".")[0] in ("parse", "extract")}
SOURCE_TEXT = {step for step in ALL if step.startswith("normalize") and step.endswith("de")}
TARGET_TEXT = {step for step in ALL if step.startswith("normalize") and step.endswith("en")}
AFTER_LEARNING = ALL - PARSED - SOURCE_TEXT - TARGET_TEXT
# options: steps that are done again, and those that are if what they take has become another
CHANGES = {
    ("--symbols", 60): ({"learn.segmenter", "binarize"}, AFTER_LEARNING),
    ("--min-frequency", 9): ({"learn.segmenter"}, AFTER_LEARNING),
    ("--separate",): (AFTER_LEARNING | {"learn.segmenter.target"}, set()),
    (*SENTENCEPIECE, "--symbols", 100): (AFTER_LEARNING | TARGET_TEXT, set()),
    ("--target-tokenize", "spaces"): ({*TARGET_TEXT, "binarize"}, AFTER_LEARNING),
    ("--tokenize", "spaces"): ({*SOURCE_TEXT, *PARSED, "binarize"}, AFTER_LEARNING),
    ("--no-normalize",): ({*SOURCE_TEXT, *TARGET_TEXT, "binarize"}, set()),  # it is tidy
    ("--max-length", 20): ({"filter.train", "binarize"}, set()),
    ("--max-ratio", 1.5): ({"filter.train", "binarize"}, set()),
    ("--min-length", 9): ({"filter.train", "binarize"}, set()),
    ("--shard-lines", 7): (set(), set()),
    ("--workers", 2): (set(), set()),
    ("--binarize-workers", 2): (set(), set()),
}


@pytest.fixture(scope="module")
def done(corpus, tmp_path_factory) -> Path:
    """Return the data directory of a finished run with GIVEN."""
    out = tmp_path_factory.mktemp("done") / "data"
    prepare(*given_options(corpus, out))
    return out


def copy_of(done: Path, folder: Path) -> Path:
    """As it would be, had the run been there: file names are among the choices."""
    out = folder / "data"
    shutil.copytree(done, out)
    shutil.copytree(f"{done}.work", f"{out}.work")
    return out


@pytest.mark.long(but=["--separate", "--tokenize", "--target-tokenize", "--max-length"])
@pytest.mark.parametrize("more", CHANGES, ids=lambda more: more[-2] if len(more) > 1 else more[0])
def test_a_changed_choice(corpus, done, tmp_path, capsys, more):
    """Only what depends on it is done again, and the result is that of a new run."""
    certain, possible = CHANGES[more]
    out = copy_of(done, tmp_path)
    again = steps_done(capsys, *given_options(corpus, out, *more))
    assert certain <= again <= certain | possible
    prepare(*given_options(corpus, tmp_path / "new", *more))
    assert contents(out) == contents(tmp_path / "new")
    assert (contents(out) == contents(done)) == ("binarize" not in again)


def test_several_test_sets(corpus, done, tmp_path):
    """Numbered as fairseq does; each is what it would be alone."""
    out = tmp_path / "data"
    sets = [corpus.folder / f"tidy/{name}" for name in ("test", "valid")]
    prepare(*given_options(corpus, out), "--test", *sets)
    for name in ("de.bin", "de.idx", "de.tree.bin", "en.bin", "en.idx"):
        assert (out / f"test.de-en.{name}").read_bytes() == (
            done / f"test.de-en.{name}"
        ).read_bytes()
        expected = (done / f"valid.de-en.{name}").read_bytes()
        assert (out / f"test1.de-en.{name}").read_bytes() == expected


def test_shards(corpus, done, tmp_path, capsys):
    """Together they hold what one folder would, with the same dictionaries; fairseq takes turns."""
    out = tmp_path / "data"
    options = [*given_options(corpus, out), "--shards", 3]
    prepare(*options)
    shards = [out / f"shard{k}" for k in range(3)]
    assert f"{':'.join(map(str, shards))}: the data are ready" in capsys.readouterr().err
    whole = Prepared("given", done, corpus.folder / "tidy")
    for language in ("de", "en"):
        lines = whole.lines(f"train.clean.{language}")
        texts = [
            lines_of(tmp_path / f"data.work/train.clean.shard{k}.{language}") for k in range(3)
        ]
        assert [texts[k % 3][k // 3] for k in range(len(lines))] == lines
        for shard in shards:
            name = f"dict.{language}.txt"
            assert (shard / name).read_bytes() == (done / name).read_bytes()
    found = [stored_trees(shard, "train") for shard in shards]
    expected = stored_trees(done, "train")
    assert [found[k % 3][k // 3] for k in range(len(expected))] == expected
    for path in sorted(done.glob("valid.*")):
        assert (shards[0] / path.name).read_bytes() == path.read_bytes()
    assert not list(shards[1].glob("valid.*"))
    assert all(json.loads((shard / "prepare.json").read_text()) for shard in shards)
    assert steps_done(capsys, *options) == set()
    prepare(*options, "--max-length", 14)  # fewer pairs have their words less often
    words = lines_of(shards[2] / "dict.de.txt")
    assert words == lines_of(shards[0] / "dict.de.txt")
    assert words != lines_of(done / "dict.de.txt")


def test_shards_number_their_labels_alike(own, tmp_path):
    """Also where the trees of one shard alone have changed since they were made."""
    trees, out = own.folder / "tidy/train.conllu", tmp_path / "data"
    options = [*given_options(own, out), "--shards", 2]
    prepare(*options)
    blocks = trees.read_text().split("\n\n")
    k = next(k for k in range(40, len(blocks)) if blocks[k].count("\tdep\t") == 6)
    blocks[k] = blocks[k].replace("\tdep\t", "\tconj\t")
    trees.write_text("\n\n".join(blocks))
    prepare(*options)
    names = [(out / f"shard{k}/dict.de.relations.txt").read_text() for k in range(2)]
    assert names[0] == names[1] and "conj" in names[0]


CHANGED_INPUTS = {  # of the test set: what is replaced, by what, and the steps that see it
    "en": ("dnuh", "DNUH", ("normalize.test.en", "segment.test.en", "filter.test")),
    "de": (
        *("Hund", "HUND"),
        ("normalize.test.de", "parse.test", "segment.test.de", "project.test", "filter.test"),
    ),
    "conllu": (
        *(r"(\t\.\tX\t_\t_\t)3", r"\g<1>1"),
        ("parse.test", "extract.test", "project.test", "filter.test"),
    ),
}


@pytest.mark.parametrize("name", CHANGED_INPUTS)
def test_a_changed_input(own, done, tmp_path, capsys, name):
    before, after, expected = CHANGED_INPUTS[name]
    out, path = copy_of(done, tmp_path), own.folder / f"tidy/test.{name}"
    path.write_text(re.sub(before, after, path.read_text()))
    if name == "de":
        given = path.with_suffix(".conllu")
        given.write_text(re.sub(before, after, given.read_text()))
        expected = (*expected, "extract.test")
    assert steps_done(capsys, *given_options(own, out)) == {*expected, "binarize"}
    prepare(*given_options(own, tmp_path / "new"))
    assert contents(out) == contents(tmp_path / "new") != contents(done)


@pytest.mark.parametrize("name", ["train.de-en.de.tree.idx", "segmenter", "dict.en.txt"])
@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_damaged_data_are_made_again(corpus, done, tmp_path, capsys, name, damage):
    out = copy_of(done, tmp_path)
    whole = (out / name).read_bytes()
    (out / name).unlink() if damage == "gone" else (out / name).write_bytes(whole[:-5])
    assert steps_done(capsys, *given_options(corpus, out)) == {"binarize"}
    assert contents(out) == contents(done)
    assert steps_done(capsys, *given_options(corpus, out)) == set()


def test_a_damaged_file_between_the_steps(corpus, done, tmp_path, capsys):
    """What follows is not done again, because what it takes is as it was."""
    out = copy_of(done, tmp_path)
    Path(f"{out}.work/test.pieces.en").write_text("nothing\n")
    assert steps_done(capsys, *given_options(corpus, out)) == {"segment.test.en"}
    assert contents(out) == contents(done)


# Killed.


def survive_kills(rng: random.Random, longest: int, out: Path, options: list) -> int:
    """How often it was killed before it came to an end."""
    kills = 0
    while killed_at(rng.randrange(1, longest), prepare, *options):
        kills += 1
        if (out / "prepare.json").exists():
            assert (out / "dict.en.txt").exists()
        assert kills < 1000
    return kills


def leftovers(out: Path) -> list[Path]:
    found = [*out.parent.glob("*"), *out.parent.glob(f"{out.name}*/**/*")]
    return [
        path
        for path in found
        if out.name in path.name
        and (path.name[0] == "." or path.name.endswith((".parts", ".lock")))
    ]


@pytest.mark.long(ci=["0"])
@pytest.mark.parametrize("seed", range(2))
def test_killed_again_and_again(corpus, done, tmp_path, seed):
    out = tmp_path / "data"
    options = given_options(corpus, out, "--shard-lines", 50)
    # The longest step makes the data folder in place of another one, with 84 changes of the disk.
    kills = survive_kills(random.Random(seed), 100, out, options)
    assert kills >= 5
    assert contents(out) == contents(done)
    assert leftovers(out) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["stanza", "unigram-stanza"])
def test_killed_again_and_again_with_other_choices(corpus, tmp_path, kind):
    """Also between two commands that differ."""
    rng, out = random.Random(kind), tmp_path / "data"
    options = corpus.options(*KINDS[kind], "--out", out, "--shard-lines", 50)
    for more in (("--max-words", 9), ("--no-normalize",), ("--separate",), ("--symbols", 80)):
        for _ in range(3):
            killed_at(rng.randrange(1, 150), prepare, *options, *more)
    survive_kills(rng, 70, out, options)
    assert contents(out) == contents(corpus.data(kind))
    assert leftovers(out) == []


@pytest.mark.long(ci=True)
def test_a_choice_changed_in_the_middle_of_a_parse(corpus, tmp_path, capsys):
    """What was parsed with the other one is of no use; with the same one, it is."""
    work = tmp_path / "data.work"
    options = corpus.options("--tokenize", "spaces", "--shard-lines", 50, "--symbols", 90)

    def break_off_in_parse(*more) -> None:
        error = InputError("broken off")
        with (
            mock.patch.object(running, "join", side_effect=error),
            pytest.raises(InputError, match="broken off"),
        ):
            prepare(*options, "--out", tmp_path / "data", *more)

    def shards() -> dict:
        return times(work / "train.conllu.xz.parts/done")

    break_off_in_parse("--max-words", 9)
    first = shards()
    assert len(first) == 8
    break_off_in_parse("--max-words", 9, "--on-failure", "flat")  # the remedy when it fails
    assert shards() == first
    break_off_in_parse()
    assert not shards().items() & first.items()
    prepare(*options, "--out", tmp_path / "data")
    prepare(*options, "--out", tmp_path / "new")
    assert contents(tmp_path / "data") == contents(tmp_path / "new")


def test_a_second_run_at_the_same_time(corpus, tmp_path):
    with locked(tmp_path / "data.work"):
        assert "another run is writing here" in fails(*given_options(corpus, tmp_path / "data"))


# The real command, whose parsers are processes of their own.


@pytest.mark.long(ci=True)
def test_the_command(corpus, tmp_path):
    out = tmp_path / "data"
    options = corpus.options(*KINDS["stanza"], "--out", out, splits=["train"])
    printed = step("prepare", *options).stdout
    assert "ready for --task structured_translation" in printed
    expected, found = contents(corpus.data("stanza")), contents(out)
    of_all, of_train = (json.loads(files.pop("checksums.json")) for files in (expected, found))
    assert of_train == {name: of_all[name] for name in of_all if name.startswith("train")}
    assert found == {
        name: file for name, file in expected.items() if name.split(".")[0] not in ("valid", "test")
    }


def test_settings_of_the_parser(corpus):
    """Options that no data here are made with."""
    more = ("--lang", "gsw", "--package", "hdt", "--on-failure", "flat", "--long-lines", "skip")
    options = corpus.options(*more, "--tokenize", "spaces", "--max-words", 77, "--out", "data")
    options += ["--model-dir", "models", "--several-roots", "first"]  # the folder as seen from here
    models = str(Path.cwd() / "models")
    expected = ParserSettings("stanza", "gsw", models, "hdt", True, 77, "skip", "flat", "first")
    assert asked(PreparationRequest, None, list(map(str, options))).settings == expected


# Errors.


def fails(*options) -> str:
    """Return the one line of an error."""
    said = io.StringIO()
    with redirect_stderr(said), pytest.raises(SystemExit) as ended:
        command_line.run(lambda: prepare(*options))
    assert ended.value.code == 1
    before, _, message = said.getvalue().rpartition("error: ")
    assert message.count("\n") == 1
    assert "Traceback" not in before
    return message


def write_tidy(own: Corpus, name: str, lines: list[str]) -> None:
    write(own.folder / "tidy" / name, lines)


def test_different_numbers_of_lines(own, tmp_path):
    write_tidy(own, "train.en", lines_of(own.folder / "tidy/train.en")[1:])
    message = fails(*given_options(own, tmp_path / "data"))
    for part in ("tidy/train.de has 160", "tidy/train.en has 159"):
        assert part in message
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("split", SIZES)
def test_empty_files(own, tmp_path, split):
    for language in ("de", "en"):
        write_tidy(own, f"{split}.{language}", [])
    assert f"tidy/{split}.de: the file is empty" in fails(*given_options(own, tmp_path / "data"))
    assert not (tmp_path / "data").exists()
    assert leftovers(tmp_path / "data") == []


@pytest.mark.parametrize("end, what", [("conllu", "the file is missing"), ("en", "No such file")])
def test_no_given_trees_or_no_text(own, tmp_path, end, what):
    (own.folder / f"tidy/valid.{end}").unlink()
    assert f"tidy/valid.{end}: {what}" in fails(*given_options(own, tmp_path / "data"))


def test_given_trees_of_other_lines(own, tmp_path):
    """Named by their places; once they are right, the same command goes on."""
    path = own.folder / "tidy/valid.conllu"
    right = path.read_text()
    blocks = right.split("\n\n")
    path.write_text("\n\n".join([blocks[1], blocks[0], *blocks[2:]]))
    message = fails(*given_options(own, tmp_path / "data"))
    assert "valid.text.de:1, " in message
    assert "the tree has" in message and "parse and segment the same lines (the text is" in message
    assert not (tmp_path / "data").exists()
    path.write_text(right)
    prepare(*given_options(own, tmp_path / "data"))
    assert leftovers(tmp_path / "data") == []


def test_all_pairs_left_out(corpus, tmp_path):
    message = fails(*given_options(corpus, tmp_path / "data", "--max-length", 1))
    assert "no pair is within the limits (" in message
    assert not (tmp_path / "data").exists()
    assert leftovers(tmp_path / "data") == []
    assert not list(tmp_path.rglob("train.clean.*"))


def test_a_folder_that_holds_something_else(corpus, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/thesis.tex").write_text("mine")
    message = fails(*given_options(corpus, tmp_path / "data"))
    assert f"{tmp_path}/data: the folder contains no preprocess.log" in message
    assert (tmp_path / "data/thesis.tex").read_text() == "mine"


def test_options_that_cannot_work(corpus, tmp_path):
    out = ("--out", tmp_path / "data")
    message = fails(*corpus.options("--parser", "conllu", *out, raw="tidy"))
    assert "--tokenize stanza (the default) requires --parser stanza" in message
    assert not (tmp_path / "data.work").exists()
