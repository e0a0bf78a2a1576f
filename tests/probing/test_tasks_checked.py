"""The check of probing tasks, the format of their files, and what the command refuses."""

import json
import random
from pathlib import Path

import pytest

from fairseq_posattn.probing.tasks import Example, read_examples
from support.probes import FILES
from support.probes import probe_tasks as called

LABELS = {
    "sentence_length": "012345",
    "word_content": ["house", "river", "tower"],
    "tree_depth": "5678",
    "top_constituents": ["NP_VP_.", "S_,_NP", "OTHER"],
    "top_relations": ["nsubj_obj", "nsubj_advmod", "OTHER"],
    "bigram_shift": "OI",
    "past_present": ["PAST", "PRES"],
    "subj_number": ["NN", "NNS"],
    "obj_number": ["NN", "NNS"],
    "odd_man_out": "OC",
    "coordination_inversion": "OI",
}
NAMES = list(FILES)
CHANGING = ["BShift", "SOMO", "CoordInv"]


def rows_of(file, of_each=3):
    """Lines without a fault: in each split the same number of sentences for each label."""
    rows = []
    for split in ("tr", "va", "te"):
        for number in range(of_each * (4 if split == "tr" else 1)):
            for label in LABELS[file]:
                words = [f"{name}-{split}-{number}-{label}" for name in ("the", "cat", "slept")]
                rows.append([split, label, f"{' '.join(words)} here ."])
    return rows


def written(folder, file, rows):
    folder.mkdir(exist_ok=True)
    text = "".join("\t".join(row) + "\n" for row in rows)
    (folder / f"{file}.txt").write_text(text, encoding="utf-8")
    return folder


def of_split(rows, split):
    return [row for row in rows if row[0] == split]


def faults_of(folder, *options):
    """What the check finds; its exit code must fit."""
    code, said = called("--check", folder, *options)
    found = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert code == (1 if found else 0), said
    assert "Traceback" not in said and "unexpected" not in said
    if found:
        last = said.splitlines()[-1]
        assert last == f"error: {folder}: {len(found)} fault(s) found; they are listed above"
    return found


# -------------------------------------------------------------------------------- folders to check


def test_folders_without_a_fault(tmp_path):
    for file in LABELS:
        written(tmp_path / "tasks", file, rows_of(file))
    code, said = called("--check", tmp_path / "tasks")
    assert code == 0
    lines = said.splitlines()
    assert [line.partition(":")[0] for line in lines] == NAMES
    for line, file in zip(lines, LABELS, strict=True):
        sentences, classes = len(rows_of(file)), len(LABELS[file])
        assert line.endswith(f": {sentences} sentences, {classes} classes, no fault")


def dev_is_test(rows):
    return [*of_split(rows, "tr"), *of_split(rows, "va")] + [
        ["te", *row[1:]] for row in of_split(rows, "va")
    ]


def without_test(rows):
    return [row for row in rows if row[0] != "te"]


def unbalanced_test(rows):
    more = [["te", rows[0][1], f"one more sentence {number}"] for number in range(40)]
    return [*rows, *more]


@pytest.mark.parametrize(
    "plant, words",
    [
        (dev_is_test, "dev and test consist of the same sentences"),
        (
            lambda rows: [*rows, ["va", *rows[0][1:]], ["va", rows[1][1], "one more sentence"]],
            "train and dev share 1 sentence(s), such as: the-tr-0",
        ),
        (
            lambda rows: [*rows[:-1], ["te", *rows[0][1:]]],
            "train and test share 1 sentence(s), such as: the-tr-0",
        ),
        (
            lambda rows: [*rows, of_split(rows, "va")[0]],
            "1 sentence(s) occur more than once in dev, such as: the-va-0",
        ),
        (unbalanced_test, "sentences in test"),
        (
            lambda rows: [row for row in rows if row[0] != "va" or row[1] != rows[0][1]],
            "1 label(s) do not occur in dev",
        ),
        (
            lambda rows: [*rows, ["te", "other", "a sentence with a label of its own"]],
            "1 label(s) do not occur in train, such as other",
        ),
        (without_test, "test contains no sentences"),
        (lambda rows: [[row[0], "O", row[2]] for row in rows], "all sentences have the same label"),
    ],
)
@pytest.mark.parametrize("file", ["tree_depth", "bigram_shift"])
def test_a_planted_fault_is_found(file, plant, words, tmp_path):
    folder = written(tmp_path, file, plant(rows_of(file)))
    if file == "tree_depth" and plant is unbalanced_test:  # SentEval's own file is uneven
        code, said = called("--check", folder)
        assert code == 0 and "0 fault" not in said
        assert f"{words}; an even share" in said and "so this is not counted as a fault" in said
        return
    assert any(words in fault for fault in faults_of(folder))


def test_labels_that_chance_made_uneven_are_no_fault(tmp_path):
    """Each of 1,000 sentences of test drew one of 100 labels."""
    dice = random.Random(3)
    labels = [f"w{number}" for number in range(100)]
    rows = [["tr", label, f"the {label} {n}"] for label in labels for n in range(20)]
    rows += [["va", label, f"a {label} {n}"] for label in labels for n in range(3)]
    rows += [["te", dice.choice(labels), f"some sentence {n}"] for n in range(1000)]
    assert faults_of(written(tmp_path, "past_present", rows)) == []


@pytest.mark.parametrize("change", [str.upper, lambda text: text.replace(" ", "   ")])
def test_a_sentence_in_capitals_or_with_spaces_is_the_same_sentence(change, tmp_path):
    rows = rows_of("past_present")
    for split, fault in (("va", "share 1 sentence(s)"), ("tr", "occur more than once in train")):
        shouted = [split, rows[0][1], change(rows[0][2])]
        found = faults_of(written(tmp_path, "past_present", [*rows, shouted]))
        assert any(fault in one for one in found)


BOTH_FORMS = {
    "BShift": ("a dog saw the cat there", "a dog the saw cat there"),
    "SOMO": ("a dog saw the cat there", "a dog saw the moon there"),
    "CoordInv": ("He came and she went .", "She went and he came ."),
}


@pytest.mark.parametrize("name", CHANGING)
def test_a_sentence_in_both_forms(name, tmp_path):
    """The original is in train; its changed form is in train, too, or in test."""
    original, changed = BOTH_FORMS[name]
    labels = LABELS[FILES[name]]
    for place in ("tr", "te"):
        rows = [*rows_of(FILES[name]), ["tr", labels[0], original], [place, labels[1], changed]]
        (fault,) = faults_of(written(tmp_path, FILES[name], rows))
        assert "both unchanged and changed" in fault and fault.endswith(original)
    # the same sentence with both labels is one, however many words it has
    doubtful = [["tr", label, f"a b c d {n}"] for label in labels for n in range(5)]
    found = faults_of(written(tmp_path, FILES[name], [*rows_of(FILES[name]), *doubtful]))
    assert found[-1].startswith("5 sentence(s) may occur both unchanged and changed")


@pytest.mark.parametrize("name", [*CHANGING, "Tense", "SentLen"])
def test_sentences_alike_that_are_no_fault(name, tmp_path):
    """Two changed sentences may be alike, and those of a task that changes none."""
    label, other, *_ = LABELS[FILES[name]]
    changing = name in CHANGING
    for one, like in [BOTH_FORMS[name]] if changing else BOTH_FORMS.values():
        pair = [["tr", label, one], ["tr", label if changing else other, like]]
        rest = [["tr", other, "quite another one"], ["tr", other, "and one more of them"]]
        rows = [*rows_of(FILES[name]), *pair, *(rest if changing else [])]
        assert faults_of(written(tmp_path, FILES[name], rows)) == []


def test_all_tasks_of_a_folder_are_checked_or_those_named(tmp_path):
    written(tmp_path, "past_present", dev_is_test(rows_of("past_present")))
    written(tmp_path, "odd_man_out", without_test(rows_of("odd_man_out")))
    written(tmp_path, "subj_number", rows_of("subj_number"))
    (tmp_path / "notes.txt").write_text("no task\n")
    assert len(faults_of(tmp_path)) == 2
    assert faults_of(tmp_path, "--task", "SubjNum") == []
    assert len(faults_of(tmp_path, "--task", "SubjNum", "odd_man_out")) == 1
    assert len(faults_of(tmp_path, "--task", "past_present.txt")) == 1


# ------------------------------------------------------------------------------ the format of files


def test_oddities_of_senteval(tmp_path):
    """Columns in between, spaces at the end, ends of lines as on Windows, no last end of line."""
    path = tmp_path / "tree_depth.txt"
    path.write_bytes(
        b"tr\t5\ta b c \r\n"
        b"va\t6\t17\t0.25\td  e\n"
        b"te\t5\t\tf g\t\n"
        b"tr\t12\th\xc2\xa0i \xe2\x80\x9ej\xe2\x80\x9c"
    )
    assert list(read_examples(path)) == [
        Example("tr", "5", ["a", "b", "c"]),
        Example("va", "6", ["d", "e"]),
        Example("te", "5", ["f", "g"]),
        Example("tr", "12", ["h", "i", "„j“"]),
    ]


GOOD = b"tr\tO\ta good line\n"


@pytest.mark.parametrize(
    "line, words",
    [
        (b"tr\tO a sentence\n", "the line has 2 column(s)"),
        (b"tr O a sentence\n", "the line has 1 column(s)"),
        (b"train\tO\ta sentence\n", "the split is 'train'; write tr, va or te"),
        (b"tr\t\ta sentence without a label\n", ""),
        (b"tr\tO\tnot \xff UTF-8\n", "the line is not UTF-8"),
    ],
)
def test_malformed_lines_are_refused(line, words, tmp_path):
    path = tmp_path / "bigram_shift.txt"
    path.write_bytes(GOOD + GOOD.replace(b"good", b"better") + line + GOOD)
    code, said = called("--check", tmp_path)
    assert (code, said.count("\n")) == (1, 1) and said.startswith(f"error: {path}:3: {words}")
    path.write_text("")
    assert called("--check", tmp_path)[1].startswith(f"error: {path} is empty")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--check", "missing"], "missing is not a folder"),
        (
            ["--check", "empty"],
            "empty contains no probing task; specify a folder with at least one of sent",
        ),
        (["--check", "good", "--task", "SentLen"], "good contains no sentence_length.txt"),
        (["--check", "good", "--task", "BShift", "Nothing"], "there is no probing task 'Nothing'"),
        (["corpus.conllu", "--check", "good"], "--check builds no tasks"),
    ],
)
def test_what_cannot_be_checked(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "good", "bigram_shift", rows_of("bigram_shift"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("")
    code, said = called(*arguments)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("error: ") and words in said


# ------------------------------------------------------------------------- what cannot be made


def flat(words):
    """Return a sentence whose words are children of the first."""
    rows = []
    for number, word in enumerate(words, start=1):
        head, name = ("1", "dep") if number > 1 else ("0", "root")
        rows.append("\t".join([str(number), word, "_", "X", "_", "_", head, name, "_", "_"]))
    return "\n".join(rows) + "\n\n"


CORPUS = "".join(
    flat([f"word{number}", *["and"] * (size - 1)]) for size in (6, 10, 14) for number in range(20)
)
NO_TREES = CORPUS.replace("\t1\tdep", "\t_\t_").replace("\t0\troot", "\t_\t_")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with corpora, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "corpus": CORPUS,
        "no_trees": NO_TREES,
        "empty": "",
        "two_roots": CORPUS.replace("\t1\tdep", "\t0\troot", 1),
        "columns": CORPUS + "1\tword\n\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.conllu").write_text(text)
    (tmp_path / "old").mkdir()
    (tmp_path / "old/kept.txt").write_text("kept\n")
    return tmp_path


def everything(folder):
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


FEW = ["--min-sentences", "10"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["corpus.conllu", "--out", "new"], "no task can be made"),
        (["corpus.conllu", "--out", "new", *FEW, "--task", "Tense"], "Tense: 0 sentences are left"),
        (["corpus.conllu", "--out", "new", *FEW, "--task", "Nothing"], "no probing task 'Nothing'"),
        (["corpus.conllu", "--out", "new", *FEW, "--task", "TopConst"], "TopConst cannot be built"),
        (["corpus.conllu", "--out", "old", *FEW], "old: the folder already exists"),
        (["corpus.conllu", "--out", "corpus.conllu", *FEW, "--overwrite"], "this is not a folder"),
        (
            ["corpus.conllu", "--out", "new", "--form-counts", "5", "4"],
            "--form-counts 5 4: LOW exceeds HIGH; swap them",
        ),
        (["no_trees.conllu", "--out", "new", *FEW], "sentences have no tree, and 0 sentences are"),
        (["empty.conllu", "--out", "new", *FEW], "empty.conllu contains no sentences"),
        (["missing.conllu", "--out", "new", *FEW], "missing.conllu: No such file or directory"),
        (["two_roots.conllu", "--out", "new", *FEW], "two_roots.conllu:"),
        (["columns.conllu", "--out", "new", *FEW], "CoNLL-U has 10 columns"),
        ([], "give CoNLL-U files and --out FOLDER"),
        (["no_trees.conllu", "--out", "old", *FEW, "--overwrite"], "sentences have no tree"),
    ],
)
def test_refusals_leave_nothing_behind(arguments, words, here):
    before = everything(here)
    code, said = called(*arguments)
    assert (code, said.count("\n")) == (1, 1), said
    assert said.startswith("error: ") and words in said
    assert "Traceback" not in said and "unexpected" not in said
    assert everything(here) == before


@pytest.mark.parametrize(
    "options",
    [["--seed", "-1"], ["--sizes", "1", "2"], ["--sizes", "1", "2", "0"], ["--several-roots", "x"]],
)
def test_options_that_cannot_be(options, here):
    before = everything(here)
    code, said = called("corpus.conllu", "--out", "new", *options)
    assert code == 2 and f"argument {options[0]}: " in said
    assert everything(here) == before


def test_tasks_that_are_too_small_are_left_out_and_named(here):
    code, said = called("corpus.conllu", "--out", "new", *FEW)
    assert code == 0
    record = json.loads(Path("new/tasks.json").read_text())
    assert sorted([*record["tasks"], *record["refused"]]) == sorted(set(NAMES) - {"TopConst"})
    assert "SentLen" in record["tasks"] and "Tense" in record["refused"]
    made = {path.stem for path in Path("new").glob("*.txt")}
    assert made == {FILES[name] for name in record["tasks"]}
    for name, reason in record["refused"].items():
        assert f"{name}: not made, because {reason}" in said
    assert "0 sentences are left, fewer than 10" in record["refused"]["Tense"]


def test_the_least_number_of_sentences(here):
    """There are 20 sentences of each of three lengths, and all of them are taken."""
    options = ["corpus.conllu", "--out", "new", "--task", "SentLen", "--min-sentences"]
    code, said = called(*options, 61)
    assert code == 1 and "60 sentences are left, fewer than 61" in said
    assert called(*options, 60)[0] == 0


def test_a_folder_is_replaced_only_if_asked(here):
    options = ["corpus.conllu", "--out", "old", *FEW, "--task", "SentLen"]
    code, said = called(*options)
    assert code == 1 and "--overwrite" in said and Path("old/kept.txt").exists()
    code, _ = called(*options, "--overwrite")
    assert code == 0
    assert Path("old/sentence_length.txt").exists() and not Path("old/kept.txt").exists()
    (here / "blank").mkdir()  # an empty folder is as good as none
    assert called(*options[:2], "blank", *options[3:])[0] == 0


def test_several_roots_can_be_mended(here):
    options = ["--out", "new", *FEW, "--task", "SentLen", "--several-roots", "first"]
    code, said = called("two_roots.conllu", *options)
    assert code == 0, said
    code, said = called("--check", "new")
    assert code == 0, said
