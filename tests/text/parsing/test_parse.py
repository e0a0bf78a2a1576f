"""parse.py: a line in is a tree out, always, in the same order, and the tree that stanza gives."""

import lzma
import os
import random
import shutil
import sys
from pathlib import Path

import pytest
import zstandard

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parsing import run as whole_run
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.parsers import parse_safely
from fairseq_posattn.text.parsing.stanza_parser import at_spaces, load_pipeline
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.conllu import read_blocks, read_conllu
from fairseq_posattn.trees.sentence import Sentence
from support.commands import run, step
from support.files import write
from support.parse_toys import conllu_row, make_toy_treebank, parse_here

SHAPES = [True, False]  # tokenized, raw
LINE = "la rudabo pesorudat tse musozo kat kogego"
LONG = " ".join((LINE.split() * 143)[:1000])
CONTRACTED = "der Hund ging im Wald vom Berg zum Haus."

# what other readers take for the end of a line or of a column
ENDS_OF_LINES = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"

# line -> its words, when they are separated by spaces or tabs
HARD_LINES = {
    "": [],
    "   ": [],
    " \t ": [],
    "kat": ["kat"],
    "  la\t rudabo  ": ["la", "rudabo"],
    "la\u00a0rudabo pesorudat": ["la␣rudabo", "pesorudat"],
    "\u00a0": ["␣"],
    "la\u3000rudabo \u3000 tse": ["la␣rudabo", "␣", "tse"],
    "la\u2028rudabo\u2029 tse\u0085": ["la␣rudabo␣", "tse␣"],
    "la\rrudabo \x0btse\x0c": ["la␣rudabo", "␣tse␣"],
    "la \x1c rudabo\x1dtse\x1e\x1f": ["la", "␣", "rudabo␣tse␣␣"],
    "la\u200brudabo pe\u200dsorudat \u200b": ["la\u200brudabo", "pe\u200dsorudat", "\u200b"],
    "\ufeffla rudabo": ["\ufeffla", "rudabo"],
    "\ufeff": ["\ufeff"],
    "la \x01ruda\x7fbo \x00 tse": ["la", "\x01ruda\x7fbo", "\x00", "tse"],
    "la 👩\u200d👩\u200d👧 🇩🇪 \U0010ffff": ["la", "👩\u200d👩\u200d👧", "🇩🇪", "\U0010ffff"],
    "ru\u0301da\u0308bo \u0301 tse": ["ru\u0301da\u0308bo", "\u0301", "tse"],
    "\u200frudabo \u202etse\u202c \u200f": ["\u200frudabo", "\u202etse\u202c", "\u200f"],
    "السلام عليكم": ["السلام", "عليكم"],
    "我们 在 学校": ["我们", "在", "学校"],
    "x" * 3000: ["x" * 3000],
    f"la {'ab' * 1500} tse": ["la", "ab" * 1500, "tse"],
    "1\tla\t_\t_": ["1", "la", "_", "_"],
    "# text = la": ["#", "text", "=", "la"],
    "# sent_id = 7": ["#", "sent_id", "=", "7"],
    "1-2 1.1 10 000 - _ ␣": ["1-2", "1.1", "10", "000", "-", "_", "␣"],
    "<UNK> <PAD> <ROOT> \\n la": ["<UNK>", "<PAD>", "<ROOT>", "\\n", "la"],
    "la rudabo pesorudat. un kelo rebat!": ["la", "rudabo", "pesorudat.", "un", "kelo", "rebat!"],
}


@pytest.fixture(scope="module")
def toy(stanza_models) -> ParserSettings:
    return ParserSettings(model_dir=str(stanza_models.toy), tokenized=True)


@pytest.fixture(scope="module")
def contracted(stanza_models) -> ParserSettings:
    return ParserSettings(lang="de", model_dir=str(stanza_models.contracted))


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory) -> list[str]:
    """Sentences as stanza was trained on."""
    folder = tmp_path_factory.mktemp("ordinary")
    make_toy_treebank(folder, 2, 2, 60)
    blocks = read_blocks(str(folder / "test.src.conllu"))
    return [block.lines[1].removeprefix("# text = ") for block in blocks]


def having(settings: ParserSettings, **changed) -> ParserSettings:
    return ParserSettings(**{**settings.__dict__, **changed})


def is_tree(parents: list[int]) -> bool:
    """Every word climbs to the one root."""

    def climbs(word: int) -> bool:
        for _ in parents:
            word = parents[word - 1]
            if word == 0:
                return True
        return False

    return parents.count(0) == 1 and all(climbs(word) for word in range(1, len(parents) + 1))


def characters(text: str) -> str:
    return "".join(c for c in text if not c.isspace() and c != "␣")


def assert_trees_of(lines: list[str], path: Path) -> list[Sentence]:
    """Check that each line has one tree with its characters, in order; return the sentences."""
    comments = [
        [line for line in block.lines if line[0] == "#"] for block in read_blocks(str(path))
    ]
    assert [kept[0] for kept in comments] == [f"# sent_id = {k + 1}" for k in range(len(lines))]
    texts = [kept[1].removeprefix("# text = ") for kept in comments]
    assert texts == ["".join("␣" if c in ENDS_OF_LINES else c for c in line) for line in lines]
    sentences = list(read_conllu(path))
    for line, sentence in zip(lines, sentences, strict=True):
        assert characters("".join(sentence.tokens)) == characters(line)
        assert is_tree(sentence.parents) if sentence.words else sentence.parents == []
    return sentences


# A line in is a tree out.


@pytest.mark.parametrize("shard_lines", [1, 9])
def test_hard_lines_tokenized(toy, tmp_path, shard_lines):
    """A shard of one line begins with what may be taken for a mark of the file."""
    lines = [line for hard in HARD_LINES for line in (hard, LINE)] + [""]
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    assert parse_here(text, out, toy, shard_lines) == []
    sentences = assert_trees_of(lines, out)
    assert [s.words for s in sentences[::2]] == [*HARD_LINES.values(), []]
    assert {tuple(s.parents) for s in sentences[1::2]} == {tuple(sentences[1].parents)}


@pytest.mark.parametrize("model", ["toy", "contracted"])
def test_hard_lines_raw(request, tmp_path, model):
    settings = having(request.getfixturevalue(model), tokenized=False)
    lines = [line for hard in HARD_LINES for line in (hard, LINE)] + [""]
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    assert parse_here(text, out, settings, 9) == []
    sentences = assert_trees_of(lines, out)
    for hard, sentence in zip(HARD_LINES, sentences[::2], strict=False):
        assert bool(sentence.words) == bool(hard.strip()), hard
    assert {tuple(s.words) for s in sentences[1::2]} == {tuple(sentences[1].words)}


@pytest.mark.parametrize("tokenized", SHAPES)
def test_random_lines(contracted, tmp_path, tokenized):
    rng = random.Random(f"lines {tokenized}")
    alphabet = [part for part in HARD_LINES if len(part) < 100]
    alphabet += ["im", "zum", "Haus.", *"(),'\"␣", "...", "2/3", " ", " ", "\u00a0"]
    lines = ["".join(rng.choices(alphabet, k=rng.randrange(8))) for _ in range(200)]
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    parse_here(text, out, having(contracted, tokenized=tokenized), 30)
    assert_trees_of(lines, out)


@pytest.mark.long
def test_threads_of_the_parser(toy):
    """One, because several workers share a machine; on a cluster, as many as a worker has CPUs."""
    from fairseq_posattn.jobs.cluster import PARSER_THREADS

    program = (
        "import sys, torch\n"
        "from fairseq_posattn.text.parsing.loading import load_parser\n"
        "from fairseq_posattn.text.parsing.options import ParserSettings\n"
        "load_parser(ParserSettings(model_dir=sys.argv[1], tokenized=True))\n"
        "print(torch.get_num_threads())\n"
    )
    for threads, env in ((1, {}), (3, {PARSER_THREADS: "3"})):
        printed = run(sys.executable, "-c", program, toy.model_dir, env=env).stdout
        assert printed.splitlines()[-1] == str(threads)


def test_raw_lines_may_have_tokens_with_spaces(toy, monkeypatch):
    """Some languages of stanza do (French numbers); the toy's tokeniser must be made to."""
    from fairseq_posattn.text.parsing.loading import load_parser

    parser = load_parser(having(toy, tokenized=False))

    def tokenized(documents, processors):
        for document in documents:
            rows = [{"id": 1, "text": "10 000", "start_char": 0, "end_char": 6}]
            rows.append({"id": 2, "text": "kat", "start_char": 7, "end_char": 10})
            document.sentences = type(document)([rows]).sentences
        return documents

    monkeypatch.setattr(parser.pipeline, "process", tokenized)
    [line] = parser.tokenize(["10 000 kat"])
    monkeypatch.undo()
    [line] = parser.trees([line])
    assert line.words == ["10 000", "kat"]
    assert is_tree(line.parents)


@pytest.mark.parametrize("ending", ["conllu", "conllu.xz", "conllu.zst"])
def test_the_same_trees_whatever_the_packing(toy, ordinary, tmp_path, ending):
    text = write(tmp_path / "text", ordinary)
    plain, packed = tmp_path / "plain.conllu", tmp_path / f"packed.{ending}"
    parse_here(text, plain, toy)
    parse_here(text, packed, toy, 25)  # three streams, one after the other
    sentences = assert_trees_of(ordinary, packed)
    assert [s.words for s in sentences] == [line.split() for line in ordinary]
    assert [s.parents for s in sentences] == [s.parents for s in read_conllu(plain)]
    unpack = {
        "conllu": lambda packed: packed,
        "conllu.xz": lzma.decompress,
        "conllu.zst": lambda packed: (
            zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).readall()
        ),
    }
    assert unpack[ending](packed.read_bytes()) == plain.read_bytes()


# Lines that are too long.


def bare_heads(settings: ParserSettings, words: list[str]) -> list[int]:
    document = load_pipeline(having(settings, tokenized=True))([words])
    return [word.head for word in document.sentences[0].words]


def too_long(words: int) -> str:
    return f"the line has {words} words, more than --max-words"


@pytest.mark.long(ci=True)
def test_long_line_cut(toy, tmp_path):
    lines = [LINE, LONG, "", LINE]
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    [[number, note]] = parse_here(text, out, having(toy, max_words=300), 1)
    assert number == 2
    assert note == f"{too_long(1000)}, so it was parsed in 4 parts"
    _, sentence, _, _ = assert_trees_of(lines, out)
    expected, root = [], None
    for start in range(0, 1000, 300):  # each part as stanza parses it, below the first one's root
        heads = bare_heads(toy, LONG.split()[start : start + 300])
        root = root or heads.index(0) + 1
        expected += [head + start if head else root if start else 0 for head in heads]
    assert sentence.parents == expected
    deprels = [row.split("\t")[7] for row in list(read_blocks(str(out)))[1].lines[3:]]
    assert [k for k, deprel in enumerate(deprels) if deprel == "parataxis"] == [
        k for k, head in enumerate(expected) if k >= 300 and head == root
    ]


def test_long_line_skipped(toy, tmp_path):
    lines = [LINE, LONG, LINE]
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    notes = parse_here(text, out, having(toy, long_lines="skip"))
    assert notes == [[2, f"{too_long(1000)}, so it was skipped and has no tree"]]
    before, skipped, after = read_conllu(out)
    assert skipped.words == LONG.split()
    assert skipped.parents is None
    assert before.parents == after.parents == bare_heads(toy, LINE.split())


@pytest.mark.parametrize("longest", [7, 8])
def test_a_line_is_never_cut_within_a_token(contracted, tmp_path, longest):
    line = " ".join(["im Haus zum Wald"] * 10)  # 60 words
    text, out = write(tmp_path / "text", [line]), tmp_path / "out.conllu"
    [[_, note]] = parse_here(text, out, having(contracted, max_words=longest))
    [sentence] = assert_trees_of([line], out)
    assert sentence.tokens == line.split()
    assert sentence.words == ["in", "dem", "Haus", "zu", "dem", "Wald"] * 10
    assert note == f"{too_long(60)}, so it was parsed in {10 if longest == 7 else 8} parts"


# The same trees as stanza's own.


def rows_of(path: Path) -> list[list[tuple]]:
    """Of each word: number, form, upos, head, relation."""
    return [
        [
            tuple(columns[k] for k in (0, 1, 3, 6, 7))
            for columns in (line.split("\t") for line in block.lines if line[0] != "#")
        ]
        for block in read_blocks(str(path))
    ]


def bare_pipeline(settings: ParserSettings):
    import stanza

    processors = {"processors": "tokenize,pos,lemma,depparse", "download_method": None}
    cut = {
        "tokenize_pretokenized": settings.tokenized,
        "tokenize_no_ssplit": not settings.tokenized,
    }
    quiet = {"use_gpu": False, "logging_level": "ERROR"}
    return stanza.Pipeline(settings.lang, dir=settings.model_dir, **processors, **cut, **quiet)


def rows_of_stanza(sentence) -> list[tuple]:
    rows = []
    for token in sentence.tokens:
        if len(token.id) > 1:
            rows.append((f"{token.id[0]}-{token.id[-1]}", token.text, "_", "_", "_"))
        rows += [
            (str(word.id), word.text, word.upos, str(word.head), word.deprel)
            for word in token.words
        ]
    return rows


def test_trees_are_those_of_a_bare_pipeline(toy, ordinary, tmp_path):
    document = bare_pipeline(toy)([line.split() for line in ordinary])
    expected = [rows_of_stanza(sentence) for sentence in document.sentences]
    assert len({row[4] for rows in expected for row in rows}) > 5  # a parser that has learnt
    text = write(tmp_path / "text", ordinary)
    for shard_lines in (2000, 7):
        parse_here(text, tmp_path / "out.conllu", toy, shard_lines)
        assert rows_of(tmp_path / "out.conllu") == expected


def test_raw_trees_are_those_of_a_bare_pipeline(contracted, tmp_path):
    lines = [
        CONTRACTED,
        "der Mann kam zum Fluss.",
        "Im Turm stand der Ball. der Hund lief ins Haus.",
        "der Berg blieb.",
    ]
    pipeline = bare_pipeline(contracted)
    expected = []
    for line in lines:
        [sentence] = pipeline(line).sentences
        expected.append(rows_of_stanza(sentence))
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    for shard_lines in (2000, 1):
        parse_here(text, out, contracted, shard_lines)
        assert rows_of(out) == expected


def test_multiword_tokens(contracted, tmp_path):
    text, out = write(tmp_path / "text", [CONTRACTED]), tmp_path / "out.conllu"
    parse_here(text, out, contracted)
    [sentence] = read_conllu(out)
    words, tokens = " ".join(sentence.words), " ".join(sentence.tokens)
    assert words == "der Hund ging in dem Wald von dem Berg zu dem Haus ."
    assert tokens == "der Hund ging im Wald vom Berg zum Haus ."
    assert sentence.words_of_token == [1, 1, 1, 2, 1, 2, 1, 2, 1, 1]
    assert out.read_text().splitlines()[:8] == [
        "# sent_id = 1",
        f"# text = {CONTRACTED}",
        "1\tder\tder\tDET\t_\t_\t2\tdet\t_\t_",
        "2\tHund\tHund\tNOUN\t_\t_\t3\tnsubj\t_\t_",
        "3\tging\tging\tVERB\t_\t_\t0\troot\t_\t_",
        "4-5\tim\t_\t_\t_\t_\t_\t_\t_\t_",
        "4\tin\tin\tADP\t_\t_\t6\tcase\t_\t_",
        "5\tdem\tdem\tDET\t_\t_\t6\tdet\t_\t_",
    ]


# Trees made elsewhere.

GIVEN = """\
# a comment
1\tshe\t_\t_\t_\t_\t2\t_\t_\t_
2\tsaw\t_\t_\t_\t_\t0\t_\t_\t_
3\thim\t_\t_\t_\t_\t2\t_\t_\t_

# of an empty line

1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_
1\tin\t_\t_\t_\t_\t3\t_\t_\t_
2\tdem\t_\t_\t_\t_\t3\t_\t_\t_
3\tHaus\t_\t_\t_\t_\t0\t_\t_\t_
3.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_

1\t10 000\t_\t_\t_\t_\t0\t_\t_\t_

1\tno\t_\t_\t_\t_\t_\t_\t_\t_
2\ttree\t_\t_\t_\t_\t_\t_\t_\t_

"""
GIVEN_LINES = ["she saw him", "", "imHaus", "10 000", "no tree"]
GIVEN_PARENTS = [[2, 0, 2], [], [3, 3, 0], [0], None]


def given(tmp_path: Path, trees: str, lines: list[str] = GIVEN_LINES) -> list:
    """Return the arguments of parse_here for given trees."""
    (tmp_path / "trees.conllu").write_text(trees)
    text = write(tmp_path / "text", lines)
    return [text, tmp_path / "out.conllu", ParserSettings("conllu"), 2, tmp_path / "trees.conllu"]


@pytest.mark.parametrize("shard_lines", [1, 2, 100])
def test_given_trees_are_passed_on(tmp_path, shard_lines):
    text, out, settings, _, trees = given(tmp_path, GIVEN)
    parse_here(text, out, settings, shard_lines, trees)
    expected, found = list(read_conllu(trees)), list(read_conllu(out))
    assert [s.parents for s in found] == GIVEN_PARENTS
    assert [s.words for s in found] == [s.words for s in expected]
    assert [s.multiword for s in found] == [s.multiword for s in expected]


def test_relations_and_tags_are_passed_on(tmp_path):
    row = "{}\t{}\tlemma{}\tU{}\tX{}\tF=1\t{}\t{}\t_\t_"
    rows = [row.format(1, "she", 1, 1, 1, 2, "nsubj"), row.format(2, "saw", 2, 2, 2, 0, "root")]
    again = row.format(3, "him", 3, 3, 3, 0, "root")
    arguments = given(tmp_path, "\n".join([*rows, again]) + "\n\n", ["she saw him"])
    arguments[2] = having(arguments[2], several_roots="first")
    parse_here(*arguments)
    mended = row.format(3, "him", 3, 3, 3, 2, "parataxis")
    assert arguments[1].read_text().splitlines()[2:5] == [*rows, mended]


@pytest.mark.long(ci=True)
def test_tags_can_be_left_out(tmp_path):
    """The tree and its relations stay; with tags it is another result, which is made anew."""
    row = "{}\t{}\tlemma\tU\tX\tF=1\t{}\t{}\t_\t_"
    rows = [row.format(1, "she", 2, "nsubj"), row.format(2, "saw", 0, "root")]
    arguments = given(tmp_path, "\n".join(rows) + "\n\n", ["she saw"])
    text, out, *_, trees = arguments
    step("parse", text, "--parser", "conllu", "--trees", trees, "--out", out, "--no-tags")
    expected = [line.replace("lemma\tU\tX\tF=1", "_\t_\t_\t_") for line in rows]
    assert out.read_text().splitlines()[2:4] == expected
    step("parse", text, "--parser", "conllu", "--trees", trees, "--out", out)
    assert out.read_text().splitlines()[2:4] == rows


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("2\tsaw\t_\t_\t_\t_\t0", "2\tsaw\t_\t_\t_\t_\t7", r"trees\.conllu:3: .*word 2 is 7"),
        ("3\tHaus\t", "3\tHaus\t_\t", r"trees\.conllu:11: CoNLL-U has 10 columns"),
        ("10 000", "10 001", r"text:4, .*trees\.conllu:14: text and tree do not match"),
        ("\thim\t", "\ther\t", r"text:1, .*trees\.conllu:1: text and tree do not match"),
    ],
)
def test_broken_given_trees_are_named(tmp_path, before, after, message):
    broken = GIVEN.replace(before, after)
    assert broken != GIVEN
    arguments = given(tmp_path, broken)
    with pytest.raises(TreeError, match=message):
        parse_here(*arguments)
    assert not arguments[1].exists()
    shutil.rmtree(tmp_path / "out.conllu.parts")
    parse_here(*given(tmp_path, GIVEN))


def test_as_many_given_trees_as_lines(tmp_path):
    for lines, message in [
        ([*GIVEN_LINES, "more"], "5 trees for 6 lines"),
        (GIVEN_LINES[:-1], "5 trees for 4 lines"),
    ]:
        with pytest.raises(InputError, match=rf"trees\.conllu: the file has {message}"):
            parse_here(*given(tmp_path, GIVEN, lines))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["text", "trees.conllu"]


def test_several_roots_of_given_trees(tmp_path):
    """The advice of the error must work, with shards that were done before."""
    trees = GIVEN.replace("1\tin\t_\t_\t_\t_\t3", "1\tin\t_\t_\t_\t_\t0")
    text, out, settings, _, trees = given(tmp_path, trees)
    with pytest.raises(
        TreeError, match=r"trees\.conllu:11: the sentence has 2 roots \(words 1, 3\).*first"
    ):
        parse_here(text, out, settings, 1, trees)
    assert (tmp_path / "out.conllu.parts/done/00001.json").exists()
    parse_here(text, out, having(settings, several_roots="first"), 1, trees)
    assert [s.parents for s in read_conllu(out)] == [[2, 0, 2], [], [0, 3, 1], [0], None]


# Models that cannot be loaded.


def assert_one_line(result, *expected: str) -> None:
    """Check that a step ended with an error of one line that has these parts.

    On a machine that is busy it has said before how far it was.
    """
    assert result.returncode == 1, result.stdout
    *progress, line = result.stdout.splitlines()
    assert all(" lines/s]" in said for said in progress), result.stdout
    assert line.startswith("error: ")
    for part in expected:
        assert part in line


@pytest.mark.long
def test_download_without_network(tmp_path):
    text = write(tmp_path / "text", ["kat"])
    options = [
        text,
        "--model-dir",
        tmp_path / "new",
        "--download",
        "--out",
        tmp_path / "out.conllu",
    ]
    proxy = "http://127.0.0.1:9"  # nobody listens there
    no_network = {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": "", "no_proxy": ""}
    result = step("parse", *options, check=False, env=no_network, fresh=True)
    assert_one_line(result, "cannot be downloaded", "check the network", "--model-dir")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tokenize/toy.pt", lambda file: file.write_bytes(b"")),
        ("pos/toy.pt", lambda file: file.write_bytes(file.read_bytes()[:-5000])),
        ("depparse/toy.pt", lambda file: file.write_text("not a model")),
        ("depparse/toy.pt", lambda file: file.unlink()),
    ],
)
def test_torn_model(toy, tmp_path, capfd, name, damage):
    models = shutil.copytree(toy.model_dir, tmp_path / "models")
    damage(models / "en" / name)
    with pytest.raises(InputError, match=r"no stanza model .*--download.*--model-dir") as error:
        load_pipeline(having(toy, model_dir=str(models), tokenized=False))
    assert f"{models}/en/{name}" in str(error.value)  # the file is named
    assert len(str(error.value).splitlines()) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", ["", "{", "{}", '{"en": {}}', "[]"])
def test_torn_list_of_models(toy, tmp_path, content):
    models = shutil.copytree(toy.model_dir, tmp_path / "models")
    (models / "resources.json").write_text(content)
    with pytest.raises(InputError, match=r"no stanza model for 'en' .*--model-dir"):
        load_pipeline(having(toy, model_dir=str(models)))


def test_models_without_a_tokeniser(toy, tmp_path):
    models = shutil.copytree(toy.model_dir, tmp_path / "models")
    shutil.rmtree(models / "en" / "tokenize")
    with pytest.raises(InputError, match=r"have no tokeniser; .* with --tokenize moses or spaces"):
        load_pipeline(having(toy, model_dir=str(models), tokenized=False))
    load_pipeline(having(toy, model_dir=str(models), tokenized=True))


@pytest.mark.parametrize(
    "changed", [{"lang": "xx"}, {"lang": "de"}, {"package": "none"}, {"model_dir": os.devnull}]
)
def test_unknown_models(toy, changed):
    with pytest.raises(InputError, match=r"no stanza model for '..' .*; .*--download") as error:
        load_pipeline(having(toy, **changed))
    assert len(str(error.value).splitlines()) == 1


# A sentence that makes the parser fail.


class Stub:
    """Fails on BAD lines; each word is a child of the one before."""

    def __init__(self, fault: str = "raises"):
        self.fault, self.calls = fault, []

    def words(self, line: str) -> Sentence:
        return at_spaces(line)

    def parse(self, lines: list[str]) -> list[Sentence]:
        self.calls.append(len(lines))
        parsed = [self.tree(line) for line in lines]
        if self.fault == "drops":
            return [result for line, result in zip(lines, parsed, strict=True) if "BAD" not in line]
        if self.fault == "shifts" and any("BAD" in line for line in lines):
            return parsed[1:] + parsed[:1]
        return parsed

    def tree(self, line: str) -> Sentence:
        parents = list(range(len(line.split())))
        if "BAD" in line:
            if self.fault == "raises":
                raise RuntimeError("too hard\nreally")
            parents = {"cycle": [2, 1], "roots": [0, 0], "outside": [0, 7]}.get(self.fault, parents)
            if self.fault == "words":
                line = line.replace("BAD", "GOOD")
        return Sentence(line.split(), parents)


FAULTS = ["raises", "drops", "cycle", "roots", "outside", "words"]
BAD_AT = {0, 13, 14, 30, 41}
MIXED_LINES = [f"{'BAD' if k in BAD_AT else 'line'} {k}" for k in range(42)]


@pytest.mark.parametrize("fault", FAULTS)
def test_failing_lines_get_flat_trees(fault):
    stub = Stub(fault)
    parsed = parse_safely(stub.parse, stub.words, MIXED_LINES, lambda k: f"f:{k + 1}", "flat")
    for k, (line, result) in enumerate(zip(MIXED_LINES, parsed, strict=True)):
        assert result.tokens == line.split()
        assert result.parents == [0, 1]
        assert bool(result.note) == (k in BAD_AT)
    assert all("flat tree" in parsed[k].note for k in BAD_AT)
    assert len(stub.calls) <= 1 + 2 * 6 * len(BAD_AT)  # halving finds them


@pytest.mark.parametrize("fault", FAULTS)
def test_failing_line_stops(fault):
    stub = Stub(fault)
    with pytest.raises(InputError, match=r"^f:14: the parser failed .*'BAD 13'.*--on-failure flat"):
        parse_safely(stub.parse, stub.words, MIXED_LINES[1:], lambda k: f"f:{k + 2}", "stop")


def test_shifted_results_are_noticed():
    """Line by line there is nothing to shift."""
    stub = Stub("shifts")
    parsed = parse_safely(stub.parse, stub.words, MIXED_LINES, lambda k: "", "stop")
    assert [result.tokens for result in parsed] == [line.split() for line in MIXED_LINES]


@pytest.mark.parametrize("at_once", [1000, 3])
def test_failing_line_in_a_shard(tmp_path, monkeypatch, at_once):
    """What is done stays; the message tells the line of the source, and its advice works."""
    stub = Stub()
    monkeypatch.setattr(whole_run, "load_parser", lambda settings: stub)
    monkeypatch.setattr(whole_run, "LINES_AT_ONCE", at_once)
    lines = [line.replace("BAD", "line") if k < 30 else line for k, line in enumerate(MIXED_LINES)]
    text, out, settings = write(tmp_path / "text", lines), tmp_path / "out.conllu", ParserSettings()
    with pytest.raises(InputError, match=rf"^{text}:31: .*failed \(RuntimeError: too hard\)"):
        parse_here(text, out, settings, 8)
    done = tmp_path / "out.conllu.parts" / "done"
    assert sorted(path.name for path in done.glob("*.json")) == [f"{k:05d}.json" for k in range(3)]
    stub.calls.clear()
    notes = parse_here(text, out, having(settings, on_failure="flat"), 8)
    assert stub.calls[0] == min(at_once, 8)
    assert 18 < sum(stub.calls) < 42 + 18  # not the shards that were done
    assert [number for number, _ in notes] == [31, 42]
    sentences = assert_trees_of(lines, out)
    assert [s.parents for s in sentences] == [[0, 1]] * 42
    assert out.read_text().count("# note = the parser failed (RuntimeError: too hard)") == 2


@pytest.mark.long(ci=True)
def test_failing_shard_of_the_command(tmp_path):
    """The error of a worker is one line; the shards before it are kept."""
    lines = [f"line {k}" for k in range(12)]
    heads = [5 if k == 9 else 0 for k in range(12)]
    rows = [
        [conllu_row(1, "line", "X", 2, "_"), conllu_row(2, str(k), "X", head, "_"), "\n"]
        for k, head in enumerate(heads)
    ]
    (tmp_path / "trees.conllu").write_text("".join("\n".join(block) for block in rows))
    text, out = write(tmp_path / "text", lines), tmp_path / "out.conllu"
    options = [text, "--parser", "conllu", "--trees", tmp_path / "trees.conllu", "--out", out]
    options += ["--shard-lines", 2, "--workers", 2]
    result = step("parse", *options, check=False)
    assert_one_line(result, "trees.conllu:29: the parent of word 2 is 5")
    done = {path.name for path in (tmp_path / "out.conllu.parts/done").glob("*.json")}
    assert {f"{k:05d}.json" for k in range(4)} <= done
    assert "00004.json" not in done
    assert not out.exists()
    assert not (tmp_path / "out.conllu.parts.lock").exists()


# Options and files that cannot be right.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "out.txt"], "the name must end in .conllu.xz or .conllu.zst or .conllu"),
        (["--out", "out.conllu", "--trees", "trees"], "require each other; give both or neither"),
        (["--out", "out.conllu", "--parser", "conllu", "--trees", "none"], "none: No such file"),
    ],
)
def test_options_that_cannot_work(tmp_path, options, message):
    write(tmp_path / "text", ["kat"])
    assert_one_line(step("parse", "text", *options, check=False, cwd=tmp_path), message)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_sources_that_cannot_be_read(tmp_path):
    (tmp_path / "latin").write_bytes(b"kat\nk\xe4t\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "torn.xz").write_bytes(lzma.compress(b"kat\n" * 1000)[:-20])
    for name, message in [
        ("latin", "latin:2: the line is not UTF-8"),
        ("empty", "empty: the file is empty"),
        ("torn.xz", "truncated or corrupted"),
    ]:
        with pytest.raises(InputError, match=message):
            parse_here(tmp_path / name, tmp_path / "out.conllu", ParserSettings())
        assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("content", [b"la\nkat", b"\xef\xbb\xbfla\r\nkat\r\n"])
def test_ends_of_lines(toy, tmp_path, content):
    (tmp_path / "text").write_bytes(content)
    parse_here(tmp_path / "text", tmp_path / "out.conllu", toy, 1)
    assert [s.words for s in read_conllu(tmp_path / "out.conllu")] == [["la"], ["kat"]]
