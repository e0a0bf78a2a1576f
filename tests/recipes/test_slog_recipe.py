"""The recipe for SLOG: trees and alignments of sentences made by hand for each category, and the
way from published files to a table."""

# ruff: noqa: E501 (a form stands on one line)

import base64
import os
import shutil
import sys
import zipfile
from itertools import combinations, pairwise, product
from math import log

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.conllu import block, read_conllu
from fairseq_posattn.trees.sentence import Sentence
from support.commands import ROOT, run, script
from support.experiments import TINY, Experiment, copy_of, in_process
from support.files import lines_of, with_unknown_compression

FOLDER = ROOT / "recipes/slog"

# category, sentence, form, and parent and label of each word
CASES = """\
PP on object
The cat ate a cake on the table .
eat ( agent = * cat , theme = cake ( nmod . on = * table ) )
2:det 3:nsubj 0:root 5:det 3:obj 8:case 8:det 5:nmod 3:punct

PP_modif_subj
The cat on a table ate .
eat ( agent = * cat ( nmod . on = table ) )
2:det 6:nsubj 5:case 5:det 2:nmod 0:root 6:punct

PP_modif_iobj
Emma gave a cat on the table a cake .
give ( agent = Emma , recipient = cat ( nmod . on = * table ) , theme = cake )
2:nsubj 0:root 4:det 2:iobj 7:case 7:det 4:nmod 9:det 2:obj 2:punct

PP_3
Emma saw a cake in a box on the table beside a cat .
see ( agent = Emma , theme = cake ( nmod . in = box ( nmod . on = * table ( nmod . beside = cat ) ) ) )
2:nsubj 0:root 4:det 2:obj 7:case 7:det 4:nmod 10:case 10:det 7:nmod 13:case 13:det 10:nmod 2:punct

CP_3
Emma said that a cat hoped that Liam knew that the dog slept .
say ( agent = Emma , ccomp = hope ( agent = cat , ccomp = know ( agent = Liam , ccomp = sleep ( agent = * dog ) ) ) )
2:nsubj 0:root 6:mark 5:det 6:nsubj 2:ccomp 9:mark 9:nsubj 6:ccomp 13:mark 12:det 13:nsubj 9:ccomp 2:punct

center_embed_3
Emma saw the cat that a dog that the boy that Liam liked fed chased .
see ( agent = Emma , theme = * cat ( nmod = chase ( agent = dog ( nmod = feed ( agent = * boy ( nmod = like ( agent = Liam , theme = * boy ) ) , theme = dog ) ) , theme = * cat ) ) )
2:nsubj 0:root 4:det 2:obj 15:obj 7:det 15:nsubj 14:obj 10:det 14:nsubj 13:obj 13:nsubj 10:acl:relcl 7:acl:relcl 4:acl:relcl 2:punct

RC_modif_subj
A cat that Emma fed slept .
sleep ( agent = cat ( nmod = feed ( agent = Emma , theme = cat ) ) )
2:det 6:nsubj 5:obj 5:nsubj 2:acl:relcl 0:root 6:punct

RC_modif_iobj
Emma gave the cat that slept a cake .
give ( agent = Emma , recipient = * cat ( nmod = sleep ( agent = * cat ) ) , theme = cake )
2:nsubj 0:root 4:det 2:iobj 6:nsubj 4:acl:relcl 8:det 2:obj 2:punct

RC_iobj_extracted
Liam saw a cat that Emma gave the cake to .
see ( agent = Liam , theme = cat ( nmod = give ( agent = Emma , theme = * cake , recipient = cat ) ) )
2:nsubj 0:root 4:det 2:obj 7:obl 7:nsubj 4:acl:relcl 9:det 7:obj 7:case 2:punct

RC passive
Liam saw the cat that was fed by Emma .
see ( agent = Liam , theme = * cat ( nmod = feed ( theme = * cat , agent = Emma ) ) )
2:nsubj 0:root 4:det 2:obj 7:nsubj:pass 7:aux:pass 4:acl:relcl 9:case 7:obl:agent 2:punct

Q_subj_active
Who gave a cake to the cat ?
give ( agent = ? , theme = cake , recipient = * cat )
2:nsubj 0:root 4:det 2:obj 7:case 7:det 2:obl 2:punct

Q_subj_passive
What was given to Emma ?
give ( theme = ? , recipient = Emma )
3:nsubj:pass 3:aux:pass 0:root 5:case 3:obl 3:punct

Q_dobj_ditransV
What did Emma give the cat ?
give ( agent = Emma , theme = ? , recipient = * cat )
4:obj 4:aux 4:nsubj 0:root 6:det 4:iobj 4:punct

Q_iobj_ditransV
Who did Emma give the cake to ?
give ( agent = Emma , theme = * cake , recipient = ? )
4:obl 4:aux 4:nsubj 0:root 6:det 4:obj 4:case 4:punct

Q_long_mv
What did Emma say that the cat ate ?
say ( agent = Emma , ccomp = eat ( agent = * cat , theme = ? ) )
8:obj 4:aux 4:nsubj 0:root 8:mark 7:det 8:nsubj 4:ccomp 4:punct

Q_modified_NPs
What did the cat in a box eat ?
eat ( agent = * cat ( nmod . in = box ) , theme = ? )
8:obj 8:aux 4:det 8:nsubj 7:case 7:det 4:nmod 0:root 8:punct

xcomp
The cat on a table wanted to sleep .
want ( agent = * cat ( nmod . on = table ) , xcomp = sleep ( agent = * cat ( nmod . on = table ) ) )
2:det 6:nsubj 5:case 5:det 2:nmod 0:root 8:mark 6:xcomp 6:punct

passive
The cake was given to Emma by a cat .
give ( theme = * cake , recipient = Emma , agent = cat )
2:det 4:nsubj:pass 4:aux:pass 0:root 6:case 4:obl 9:case 9:det 4:obl:agent 4:punct

standalone
the cat on a table
* cat ( nmod . on = table )
2:det 0:root 5:case 5:det 2:nmod

standalone RC
a cat that Emma fed
cat ( nmod = feed ( agent = Emma , theme = cat ) )
2:det 0:root 5:obj 5:nsubj 2:acl:relcl

primitive
cat
cat
0:root
"""
CASES = [case.split("\n") for case in CASES.strip().split("\n\n")]


@pytest.fixture
def tree_of():
    return script(FOLDER / "forms.py").tree_of


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_tree_of_each_category(tree_of, case):
    _, sentence, form, expected = case
    assert " ".join(f"{parent}:{label}" for _, parent, label in tree_of(sentence, form)) == expected


@pytest.mark.parametrize(
    "form",
    [
        "eat ( agent = * dog )",  # another noun
        "eat ( agent = cat )",  # another article
        "sleep ( agent = * cat )",  # another verb
        "eat ( agent = * cat , theme = cake )",  # an argument that the sentence lacks
        "eat",  # one that the form lacks
    ],
)
def test_a_form_of_another_sentence_is_refused(tree_of, form):
    with pytest.raises(InputError, match="does not match the form"):
        tree_of("The cat ate .", form)


ALIGNED = {  # word of the sentence for each name of the form, where names stand several times
    "center_embed_3": "see=saw Emma=Emma cat=cat chase=chased dog=dog feed=fed boy=boy like=liked Liam=Liam boy=boy dog=dog cat=cat",
    "RC_iobj_extracted": "see=saw Liam=Liam cat=cat give=gave Emma=Emma cake=cake cat=cat",
    "xcomp": "want=wanted cat=cat table=table sleep=sleep cat=cat table=table",
    "Q_long_mv": "say=say Emma=Emma eat=ate cat=cat ?=What",
    "primitive": "cat=cat",
}


@pytest.mark.parametrize("name", ALIGNED)
def test_names_come_from_words(name):
    aligned = script(FOLDER / "alignments.py").aligned
    read_form = script(FOLDER / "forms.py").read_form
    _, sentence, form, expected = next(case for case in CASES if case[0] == name)
    words, names = sentence.split(), form.split()
    tree = [one.split(":", 1) for one in expected.split()]
    parents, labels = [int(parent) for parent, _ in tree], [label for _, label in tree]
    found = aligned(words, parents, labels, read_form(form))
    assert " ".join(f"{names[at]}={words[k]}" for at, k in found.items()) == ALIGNED[name]


def test_the_nearest_of_two_words_of_one_name_is_meant():
    aligned = script(FOLDER / "alignments.py").aligned
    sentence = "Liam saw that the cat liked the cat"
    form = "see ( agent = Liam , ccomp = like ( agent = * cat , theme = * cat ) )"
    labels = "nsubj root mark det nsubj ccomp det obj"
    node = script(FOLDER / "forms.py").read_form(form)
    found = aligned(sentence.split(), [2, 0, 6, 5, 6, 2, 8, 6], labels.split(), node)
    assert [found[at] for at, name in enumerate(form.split()) if name == "cat"] == [4, 7]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ("eat ( agent = * cat )", "right"),
        ("eat ( agent = cat )", "word"),
        ("feed ( agent = * dog )", "word"),
        ("eat ( theme = * cat )", "structure"),
        ("eat ( agent = * cat ( nmod = eat ) )", "structure"),
        ("eat ( agent = * cat", "length"),
        ("eat ( agent = * cat ) )", "length"),
        ("eat ( agent = * dog ) )", "length"),
        (") )", "length"),
        ("", "length"),
    ],
)
def test_kinds_of_errors(found, kind):
    errors = script(FOLDER / "errors.py")
    assert errors.kind_of(found.split(), ["eat", "(", "agent", "=", "*", "cat", ")"]) == kind


def test_attachments_of_a_parser_are_counted_by_category(tmp_path):
    def treebank(name, *trees):
        rows = ["".join(f"{k}\tw{k}" + "\t_" * 4 + f"\t{h}\t{label}\t_\t_\n" for k, h, label in tree)
                for tree in trees]  # fmt: skip
        (tmp_path / name).write_text("\n".join([*rows, ""]))
        return tmp_path / name

    first, second = (
        [(1, 2, "det"), (2, 0, "root")],
        [(1, 0, "root"), (2, 1, "obj"), (3, 1, "punct")],
    )
    gold = treebank("gold.conllu", first, second)
    other = [(1, 0, "root"), (2, 1, "obl"), (3, 2, "punct")]
    (tmp_path / "labels").write_text("short\nlong\n")
    command = [sys.executable, FOLDER / "attachments.py", gold, "--labels", tmp_path / "labels"]
    found = run(*command, treebank("found.conllu", first, other)).stdout
    assert [line.split() for line in found.splitlines()[1:]] == [
        ["long", "1", "66.7", "33.3", "0.0"],
        ["short", "1", "100.0", "100.0", "100.0"],
        ["all", "2", "80.0", "60.0", "50.0"],
    ]
    for file, why in (
        (treebank("one.conllu", first), "differ in their number of sentences"),
        (treebank("other.conllu", second, first), "the words differ from"),
    ):
        refused = run(*command, file, check=False)
        assert refused.returncode and why in refused.stdout and "Traceback" not in refused.stdout


def test_counted_rules_compose(tmp_path):
    """Rules that are counted in CASES produce the forms of combinations that are not among them."""
    new = [
        (
            "The boy on the table gave a cake in a box to a cat that slept .",
            "give ( agent = * boy ( nmod . on = * table ) , theme = cake ( nmod . in = box ) , "
            "recipient = cat ( nmod = sleep ( agent = cat ) ) )",
        ),
        ("Who did Liam feed ?", "feed ( agent = Liam , theme = ? )"),
    ]
    forms = script(FOLDER / "forms.py")
    for name, pairs in (("train", [case[1:3] for case in CASES]), ("gen", new)):
        with open(tmp_path / f"{name}.conllu", "w") as trees:
            for k, pair in enumerate(pairs):
                words, parents, relations = map(list, zip(*forms.tree_of(*pair), strict=True))
                trees.write(block(pair[0], Sentence(words, parents, relations=relations), k))
        (tmp_path / f"{name}.lf").write_text("".join(f"{form}\n" for _, form in pairs))
    (tmp_path / "gen.lf").write_text(f"{new[0][1]}\nfeed ( theme = ? , agent = Liam )\n")
    (tmp_path / "gen.category").write_text("modified\nquestion\n")
    found = run(sys.executable, FOLDER / "counted_forms.py", tmp_path).stdout
    assert found.split() == ["modified", "100.0", "question", "0.0", "mean", "50.0"]


# What training has: short sentences, with modifiers of objects, relative clauses, and clauses in clauses.
TAUGHT = """\
The dog that Emma fed ate .
2:det 6:nsubj 5:obj 5:nsubj 2:acl:relcl 0:root 6:punct

Liam saw the boy that a cat chased .
2:nsubj 0:root 4:det 2:obj 7:obj 6:det 7:nsubj 4:acl:relcl 2:punct

Emma liked Liam on a box .
2:nsubj 0:root 2:obj 6:case 6:det 3:nmod 2:punct

A dog fed the boy in the box .
2:det 3:nsubj 0:root 5:det 3:obj 8:case 8:det 5:nmod 3:punct

Emma said that Liam hoped that a cat slept .
2:nsubj 0:root 5:mark 5:nsubj 2:ccomp 9:mark 8:det 9:nsubj 5:ccomp 2:punct

Liam gave a cake to Emma .
2:nsubj 0:root 4:det 2:obj 6:case 2:obl 2:punct

the box beside Liam
2:det 0:root 4:case 2:nmod

What did Emma give to the cat ?
4:obj 4:aux 4:nsubj 0:root 7:case 7:det 4:obl 4:punct
"""


def tree_from(sentence, tree):
    parents, relations = zip(*(one.split(":", 1) for one in tree.split()), strict=True)
    return Sentence(sentence.split(), [int(p) for p in parents], relations=list(relations))


@pytest.fixture
def taught():
    return [tree_from(*case.split("\n")) for case in TAUGHT.strip().split("\n\n")]


@pytest.fixture
def grammar(taught):
    return script(FOLDER / "grammar.py").Grammar(taught)


@pytest.mark.parametrize(
    "name", ["PP_modif_subj", "center_embed_3", "RC_modif_subj", "Q_iobj_ditransV"]
)
def test_the_grammar_reads_structures_that_it_has_not_seen(grammar, name):
    _, sentence, _, expected = next(case for case in CASES if case[0] == name)
    assert grammar.parse(sentence.split()).parents == tree_from(sentence, expected).parents


def test_the_grammar_recurses_to_any_depth(grammar):
    tree = grammar.parse(["Emma", *["said", "that", "Liam"] * 12, "slept", "."])
    assert tree.parents[1] == 0 and list(tree.parents[4:36:3]) == list(range(2, 35, 3))


def test_a_sentence_that_the_grammar_cannot_read_is_flat_and_says_so(grammar):
    tree = grammar.parse(["did", "did", "that"])
    assert list(tree.parents) == [0, 1, 1] and tree.note == "the grammar has no tree"


def projective(parents):
    """Return whether parents, counted from 1, make a tree without crossing edges."""
    for k in range(len(parents)):
        seen, at = set(), k + 1
        while at and at not in seen:
            seen.add(at)
            at = parents[at - 1]
        if at:
            return False
    ends = [sorted((k, parent)) for k, parent in enumerate(parents, start=1)]
    return not any(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(ends, 2))


def slow_score(taught, kinds, tree):
    """Return the score of a tree by its definition, or None where a child was never seen."""

    def phrase(t, k):
        left = [j for j in range(k) if t.parents[j] == k + 1]
        word = kinds(t.words[left[0]]) if left and t.relations[left[0]] != "det" else "<noun>"
        opener = (t.relations[left[0]], word) if word[0] != "<" else None
        return kinds(t.words[k]), opener

    def decisions(t):
        for k in range(len(t.words)):
            left = [j for j in range(k) if t.parents[j] == k + 1]
            right = [j for j in range(k, len(t.words)) if t.parents[j] == k + 1]
            for side, places in (("left", left[::-1]), ("right", right)):
                taken = [
                    (t.relations[j], phrase(t, j)) for j in places if t.relations[j] != "punct"
                ]
                for before, child in pairwise(["first", *taken, "stop"]):
                    yield t.words[k], phrase(t, k), side, before, child

    known = [decision for t in taught for decision in decisions(t)]
    roots = [phrase(t, t.parents.index(0)) for t in taught]
    count = roots.count(phrase(tree, tree.parents.index(0)))
    total = log(count) if count else None
    for word, is_now, side, before, child in decisions(tree):
        alike = [one for one in known if one[2:4] == (side, before)]
        share = 0.0
        for times, there in (
            (1, [one for one in alike if one[:2] == (word, is_now)]),
            (1 / 3, [one for one in alike if (one[0], one[1][0]) == (word, is_now[0])]),
            (1 / 9, [one for one in alike if one[1] == is_now]),
            (1 / 27, [one for one in alike if one[1][0] == is_now[0]]),
        ):
            if there:
                share += times * [one[4] for one in there].count(child) / len(there)
        if total is None or not share:
            return None
        total += log(share)
    return total


@pytest.mark.parametrize(
    "words", ["Liam gave a cat", "the cat beside Emma", "cat that Emma fed", "Emma said Liam slept"]
)
def test_no_tree_is_better_than_that_of_the_grammar(grammar, taught, words):
    """Of all trees that are scored one by one, the best is the grammar's."""
    words = words.split()
    used = {(grammar.kind(w), r) for t in taught for w, r in zip(t.words, t.relations, strict=True)}
    labels = [sorted(r for kind, r in used if kind == grammar.kind(w)) for w in words]
    scores = {}
    for parents in product(range(len(words) + 1), repeat=len(words)):
        if parents.count(0) != 1 or not projective(parents):
            continue
        for chosen in product(*labels):
            if [label == "root" for label in chosen] != [parent == 0 for parent in parents]:
                continue
            tree = Sentence(words, parents, relations=chosen)
            score = slow_score(taught, grammar.kind, tree)
            if score is not None:
                scores[parents, chosen] = score
    found = grammar.parse(words)
    assert max(scores, key=scores.get) == (tuple(found.parents), tuple(found.relations))


# a zip of gen.tsv with one line, `cat cat primitive`, under the password of SLOG
LOCKED = (
    "UEsDBAoACQAAANd9eV2QuZVcHgAAABIAAAAHAAAAZ2VuLnRzdup26pjXIixuWZDF7QRF2uYsWeLNk4XQ"
    "LzpXZz4PBVBLBwiQuZVcHgAAABIAAABQSwECHgMKAAkAAADXfXldkLmVXB4AAAASAAAABwAAAAAAAAAB"
    "AAAApIEAAAAAZ2VuLnRzdlBLBQYAAAAAAQABADUAAABTAAAAAAA="
)


def lines() -> str:
    return "".join(f"{sentence}\t{form}\t{name}\n" for name, sentence, form, _ in CASES)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with the published files, of hand-made sentences."""
    folder = tmp_path_factory.mktemp("published")
    for name in ("train", "dev", "test"):
        (folder / f"{name}.tsv").write_text(lines() * 2)
    with zipfile.ZipFile(folder / "generalization_sets.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("sets/cogs_LF/gen_cogsLF.tsv", "other\tforms\tare left out\n")
        archive.writestr("sets/varfree_LF/gen_varfreeLF.tsv", lines())
    return folder


def prepared(folder, work, recipe="slog", *models):
    experiment = Experiment(recipe, work)
    limited = ["--models", *models] if models else []
    experiment.start("prepare", "--from", folder, "--any-size", *limited)
    return experiment


@pytest.fixture(scope="module")
def slog(published, tmp_path_factory):
    models = ["walk", "walk_chain", "walk_labels_grammar", "walk_local", "walk_flip0.4"]
    models += ["walk_recombined", "walk_recombined_open_chain"]
    return prepared(published, tmp_path_factory.mktemp("slog") / "work", "slog", *models)


@pytest.mark.long(ci=True)
def test_files_become_texts_with_trees_alignments_and_categories(slog):
    work = slog.work
    for name, times in {"train": 2, "gen": 1}.items():
        cases = CASES * times
        raw = work / "raw"
        assert lines_of(raw / f"{name}.en") == [case[1] for case in cases]
        assert lines_of(raw / f"{name}.lf") == [case[2] for case in cases]
        assert lines_of(raw / f"{name}.category") == [case[0] for case in cases]
        trees = read_conllu(str(raw / f"{name}.conllu"))
        assert [" ".join(tree.words) for tree in trees] == [case[1] for case in cases]
        assert lines_of(raw / f"{name}.align")[-1] == "0-0"
    assert (work / "data.chain/train.align.en-lf.idx").exists()
    for name in ("grammar", "local"):
        gold, found = (read_conllu(str(work / f"raw/{n}/gen.conllu")) for n in (".", name))
        pairs = list(zip(gold, found, strict=True))  # the parsers have seen these sentences
        assert sum(a.parents == b.parents for a, b in pairs) > 0.7 * len(CASES)
        assert all(a.words == b.words for a, b in pairs)
        assert (work / f"data.{name}/test1.en-lf.en.idx").exists()
    folders = [work / "raw/recombined", work / "raw/recombined_chain"]
    for text, times in {"train": 2, "dev": 2, "gen": 1}.items():
        texts = [lines_of(folder / f"{text}.en") for folder in folders]
        assert texts[0][: times * len(CASES)] == [case[1] for case in CASES * times]
        assert texts[0] == texts[1]
        assert (len(texts[0]) > times * len(CASES)) == (text == "train")
        trees = read_conllu(str(folders[1] / f"{text}.conllu"))
        assert all(list(tree.parents) == [*range(len(tree.words))] for tree in trees)
    assert (work / "data.recombined_chain/train.align.en-lf.idx").exists()


@pytest.mark.long(ci=True)
def test_trees_without_words(slog, published, tmp_path):
    """Only trees and labels, brackets and roles are left, and each name comes from its word."""
    work = slog.work
    other = prepared(published, tmp_path / "other", "slog/tree_only").work
    trees, blank = (read_conllu(str(one / "raw/gen.conllu")) for one in (work, other))
    for (name, _, form, _), tree, bare in zip(CASES, trees, blank, strict=True):
        assert (tree.parents, tree.relations) == (bare.parents, bare.relations), name
        assert set(bare.words) == {"w"} and len(bare.words) == len(tree.words)
        lost = {word for word in form.split() if word.isalpha()} - {"nmod"}
        kept = {word for word, behind in pairwise([*form.split(), ""]) if behind == "="}
        shown = lines_of(other / "raw/gen.shape")[[case[0] for case in CASES].index(name)]
        assert not {*shown.split()} & (lost - kept), name
        assert shown.split().count("(") == form.split().count("(") and "*" not in shown
    for kind in ("train", "gen"):
        texts = zip(
            *(lines_of(one / f"raw/{kind}.{end}") for one, end in ((work, "lf"), (other, "shape"))),
            *(lines_of(one / f"raw/{kind}.align") for one in (work, other)),
            strict=True,
        )
        for form, shape, pairs, bare in texts:
            places = [k for k, part in enumerate(form.split()) if part != "*"]
            named = [pair.split("-") for pair in bare.split()]
            assert [f"{word}-{places[int(at)]}" for word, at in named] == pairs.split()
            assert {shape.split()[int(at)] for _, at in named} <= {"w", "?"}


def damage(folder, what):
    zipped = folder / "generalization_sets.zip"
    if what == "line":
        (folder / "dev.tsv").write_text(lines() + "The cat ate .\teat (\tx\n")
        return f"error: {folder}/dev.tsv:{len(CASES) + 1}: the line does not contain a sentence, form and cat"
    if what == "torn":
        zipped.write_bytes(zipped.read_bytes()[:-40])
        return "the archive is incomplete or damaged"
    if what == "missing":
        zipped.unlink()
        return f"{folder} has no generalization_sets.zip or generalization_half.zip; copy one"
    if what == "compression":
        zipped.write_bytes(with_unknown_compression(zipped.read_bytes()))
        reason = "That compression method is not supported"
        return f"{zipped}: Python does not support this compression ({reason}); convert"
    zipped.write_bytes(base64.b64decode(LOCKED))
    return f"{zipped}: SLOG_PASSWORD does not contain the right password; export the one from the"


@pytest.mark.parametrize("what", ["line", "torn", "missing", "compression", "password"])
def test_damaged_files_are_named(published, tmp_path, monkeypatch, what):
    monkeypatch.setenv("SLOG_PASSWORD", os.fsdecode(b"\xff"))  # is no UTF-8
    message = damage(folder := shutil.copytree(published, tmp_path / "damaged"), what)
    words = ("prepare", "slog", "--from", folder, "--any-size", "--work", tmp_path / "work")
    code, _, err = in_process(*words)
    assert code == 1 and message in err and not (tmp_path / "work/data").exists()


@pytest.mark.long(ci=True)
def test_the_password_opens_the_sets(published, tmp_path, monkeypatch):
    folder = shutil.copytree(published, tmp_path / "locked")
    (folder / "generalization_sets.zip").unlink()
    (folder / "generalization_half.zip").write_bytes(base64.b64decode(LOCKED))
    monkeypatch.setenv("SLOG_PASSWORD", "slog")
    work = prepared(folder, tmp_path / "work", "slog", "walk").work
    assert lines_of(work / "raw/gen.lf") == ["cat"]


@pytest.mark.long
def test_from_files_to_a_table(slog, tmp_path):
    experiment = copy_of(slog, tmp_path)
    models = ["walk", "walk_chain", "walk_labels_grammar", "walk_flip0.4"]
    how = ["--cpu", "--size", "demo", "--updates", 4, "--last", 1, "--seeds", "1-2"]
    how += ["--examples", 1]
    experiment.start("table", "--models", *models, *how, "--baseline", "walk_chain", "--", *TINY)
    rows = [line.split("|") for line in lines_of(experiment.work / "subsets.md") if "|" in line]
    first = [row[1].strip(" *") for row in rows]
    table = rows[first.index("category") :]
    assert [cell.strip() for cell in table[0][3:9]] == [
        *("walk.demo", "walk_chain.demo", "walk_flip0.4.demo", "walk_labels_grammar.demo"),
        *("Transformers of Li et al.", "AM-Parser"),
    ]
    assert {"xcomp", "center_embed_3", "PP_modif_subj", "mean"} <= {row[1].strip() for row in table}
    assert [
        cell.strip() for cell in table[first[first.index("category") :].index("mean")][7:9]
    ] == [*("40.6", "70.8")]
    for seed in (1, 2):  # trained once, and tested twice
        pair = [
            experiment.work.glob(f"runs/{m}.demo.seed{seed}.*/checkpoint_last.pt")
            for m in ("walk", "walk_flip0.4")
        ]
        [one], [other] = map(list, pair)
        assert one.read_bytes() == other.read_bytes() and lines_of(
            one.parent / "gen.src"
        ) == lines_of(other.parent / "gen.src")
    hypotheses = list(experiment.work.glob("runs/walk.*/gen.hyp"))
    counted = run(
        sys.executable, FOLDER / "errors.py", *hypotheses, "--raw", experiment.work / "raw"
    )
    assert len(counted.stdout.splitlines()) == 1 + len(CASES)
    [averaged] = experiment.work.glob("runs/walk.demo.seed1.*/averaged.pt")
    labels = ("--labels", experiment.work / "raw/gen.category")
    how = ("--path", averaged, "--gen-subset", "test1", "--cpu", *labels)
    found = run(sys.executable, FOLDER / "oracle.py", experiment.work / "data", *how).stdout
    rows = [line.split() for line in found.splitlines()[-len(CASES) :]]
    right = {" ".join(name): float(share) for *name, _, share, _, _, _ in rows}
    texts = [lines_of(averaged.parent / "gen.hyp")]
    texts += [lines_of(experiment.work / f"raw/gen.{kind}") for kind in ("lf", "category")]
    for found, form, name in zip(*texts, strict=True):  # greedy search writes what has no error
        assert right[name] == 100 * (found == form)
