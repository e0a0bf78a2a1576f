"""The recipe for GeoQuery: trees, programs and entities made by hand, and the way from published
files of invented examples to texts."""

# ruff: noqa: E501 (an example stands on one line)

import json
import xml.etree.ElementTree as xml
from dataclasses import replace

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.commands import Shell
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.trees.conllu import block, read_conllu
from fairseq_posattn.trees.sentence import Sentence, Tags
from support.commands import ROOT, script
from support.experiments import TINY, Experiment, in_process
from support.files import lines_of

FOLDER = ROOT / "recipes/geoquery"

TREES = """\
(SBARQ (WHNP (WP What)) (SQ (VBZ is) (NP (NP (DT the) (JJS longest) (NN road)) (PP (IN in) (NP (NNP Oz))))))
2:WHNP 0:root 5:DT 5:JJS 2:NP 5:PP 6:NP

(SBARQ (WHNP (WDT Which) (NNS towns)) (SQ (VBP do) (NP (NNS roads)) (VP (VB cross))))
2:WDT 5:WHNP 5:VBP 5:NP 0:root

(S (VP (VB List) (NP (NP (NNS towns)) (SBAR (WHNP (WDT that)) (S (VP (VBP touch) (NP (NNP Oz))))))))
0:root 1:NP 4:WHNP 2:SBAR 4:NP

(SBARQ (WHADJP (WRB How) (JJ big)) (SQ (VBZ is) (NP (DT the) (NN town) (NN hall))))
2:WRB 3:WHADJP 0:root 6:DT 6:NN 3:NP

(SBARQ (WHNP (WHNP (WP What) (NN town) (POS 's)) (NN mayor)) (SQ (VBZ is) (ADJP (JJ new))))
2:WP 4:WHNP 2:POS 5:WHNP 0:root 5:ADJP

(NP (DT the) (JJS biggest))
2:DT 0:root

(FRAG (UH well) (RB now))
2:UH 0:root
"""


@pytest.mark.parametrize("case", TREES.strip().split("\n\n"))
def test_heads_and_relations_of_a_tree(case):
    constituency = script(FOLDER / "constituency.py")
    tree, expected = case.split("\n")
    words = constituency.words_of(constituency.read_phrase(tree))
    assert " ".join(f"{word.parent + 1}:{word.relation}" for word in words) == expected


@pytest.mark.parametrize("tree", ["", "(NP", "(NP (DT the)", "(NP (DT the)) (NN town)", "(DT a b)"])
def test_a_torn_tree_is_refused(tree):
    with pytest.raises(InputError):
        script(FOLDER / "constituency.py").read_phrase(tree)


PROGRAMS = {  # program: normal form of Shaw et al., and prefix notation
    "answer(city(loc_2(stateid('oz'))))": (
        "answer ( intersection ( city , loc_2 ( stateid(oz) ) ) )",
        "answer city loc_2 stateid(oz)",
    ),
    "answer(count(river(all)))": ("answer ( count ( river ) )", "answer count river all"),
    "answer(most(state(loc_1(city(all)))))": (
        "answer ( most ( state , loc_1 , city ) )",
        "answer most state loc_1 city all",
    ),
    "answer(largest_one(area_1(state(next_to_2(stateid('oz'))))))": (
        "answer ( largest_one ( area_1 , intersection ( state , next_to_2 ( stateid(oz) ) ) ) )",
        "answer largest_one area_1 state next_to_2 stateid(oz)",
    ),
    "answer(exclude(state(all), loc_1(cityid('glinda city', _))))": (
        "answer ( exclude ( state , loc_1 ( cityid(glinda city,_) ) ) )",
        "answer exclude state all loc_1 cityid(glinda city,_)",
    ),
    "answer(place(elevation_2(0)))": (
        "answer ( intersection ( place , elevation_2 ( 0 ) ) )",
        "answer place elevation_2 0",
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_notations_of_a_program(program):
    funql = script(FOLDER / "funql.py")
    names = funql.re.findall(r"'[^']*'|[^\s(),']+", program)
    nodes = ((k, "Place") for k, name in enumerate(n for n in names if n not in ("all", "_")))
    term = funql.read(program, nodes)
    found = [" ".join(name for name, _ in funql.NOTATIONS[n](term)) for n in ("funql", "prefix")]
    assert tuple(found) == PROGRAMS[program]


FACTS = """\
state('oz','oz','emerald city',1,2,3,'emerald city','red town','old red town','glinda').
city('oz','oz','slipper',40).
river('yellow brick',3,['oz']).
mountain('oz','oz','grey peak',9).
highlow('oz','oz','high spot',9,'low spot',1).
country('usa',1,2).
"""


@pytest.mark.parametrize(
    ("asked", "names", "expected"),
    [
        ("Is Oz in oz", ["stateid(oz)"], "is m0 in oz"),
        ("is slipper oz big", ["cityid(slipper,oz)", "cityid(slipper,_)"], "is m0 big"),
        ("is slipper in oz", ["cityid(slipper,_)", "stateid(oz)"], "is m0 in m1"),
        ("old red town and red town", ["cityid(red town,_)"], "old m0 and red town"),
        ("is the united states big", ["countryid(usa)"], "is the m0 big"),
        ("how high is grey peak", ["placeid(grey peak)"], "how high is m0"),
        ("how high is low spot", ["placeid(low spot)"], "how high is m0"),
        ("is slippers red", ["cityid(slipper,_)"], "is slippers red"),
        ("what state 's river is yellow brick", ["riverid(yellow brick)"], "what states river is m0"),
    ],
)  # fmt: skip
def test_entities_become_placeholders(asked, names, expected):
    entities = script(FOLDER / "entities.py")
    known = entities.read_entities(FACTS.splitlines())
    found = entities.question(asked.split())
    entities.replace_entities(found, names, known)
    assert " ".join(found.words) == expected
    assert [k for part in found.parts for k in part] == list(range(len(asked.split())))


# question, its tree, the node that each word expresses, its program and the kinds of its nodes
QUESTIONS = [
    (
        "(S (VP (VB Name) (NP (NP (DT the) (NNS cities)) (PP (IN in) (NP (NNP Oz))))))",
        "0 1 1 2 4",
        "answer(city(loc_2(stateid('oz'))))",
        ["answer ( *n:City )", "city ( *n:City )", "loc_2 ( *n:State )", "stateid ( *n:StateName )", "' oz '"],
    ),
    (
        "(SBARQ (WHNP (WP What)) (SQ (VBZ is) (NP (DT the) (JJS largest) (NN city))))",
        "0 0 1 1 2",
        "answer(largest(city(all)))",
        ["answer ( *n:City )", "largest ( *n:City )", "city ( all )"],
    ),
    (
        "(S (VP (VB List) (NP (DT the) (NNS rivers))))",
        "0 1 1",
        "answer(river(all))",
        ["answer ( *n:River )", "river ( all )"],
    ),
]  # fmt: skip


def example(number, tree, nodes, program, parse):
    words = [word.rstrip(")") for word in tree.split() if "(" not in word]
    marks = (f"{word}-[X:{node}]" for word, node in zip(words, nodes.split(), strict=True))
    made = (f'<node id="{k}"> *n:Any -&gt; ({{ {name} }}) </node>' for k, name in enumerate(parse))
    return (
        f'<example id="{number}"><nl lang="en">{" ".join(words)} .</nl><syn lang="en">\n{tree}\n'
        f'</syn><augsyn lang="en">\n(S {" ".join(marks)})\n</augsyn>'
        f'<mrl lang="geo-funql">\n{program}\n</mrl><mrl-parse>{"".join(made)}</mrl-parse></example>'
    )


@pytest.fixture
def published(tmp_path):
    """A folder with the published files: 30 questions, and one without a tree."""
    folder = tmp_path / "published"
    folder.mkdir()
    examples = [example(k, *QUESTIONS[k % 3]) for k in range(30)]
    without = '<example id="30"><nl lang="en">who ?</nl></example>'
    (folder / "geography.xml").write_text(f"<examples>{''.join(examples)}{without}</examples>")
    (folder / "geobase").write_text(FACTS)
    halves = {"train": list(range(20)), "test": list(range(29, 19, -1))}
    for split in ("standard", "length_1", "template_1", "tmcd_1"):
        (folder / f"{split}.json").write_text(json.dumps(halves))
    return folder


def collect(folder, raw, recipe="geoquery"):
    raw.mkdir()
    Collector(read_recipe(recipe), Shell(), folder, raw, any_size=True).collect()
    return raw


def test_published_files_become_texts_with_trees_and_alignments(published, tmp_path):
    raw = collect(published, tmp_path / "raw")
    expected = ["list the rivers", "what is the largest city", "name the cities in m0"]
    assert lines_of(raw / "test.en")[:3] == expected
    assert lines_of(raw / "test.prefix")[1:3] == ["answer largest city all", "answer city loc_2 m0"]
    assert lines_of(raw / "test.program_depth")[:3] == ["depth 1", "depth 2", "depth 3"]
    # `the` and `largest` express the same name and are equally high: the last one is chosen
    found = [set(line.split()) for line in lines_of(raw / "test.align")[:3]]
    assert found[0] == {"0-0", "2-1", "2-2"} and found[1] == {"1-0", "3-1", "4-2", "4-3"}
    assert found[2] == {"0-0", "2-1", "3-2", "4-3"}
    trees = list(read_conllu(str(raw / "test.conllu")))
    assert trees[2].words[-1] == "m0" and list(trees[2].parents) == [0, 3, 1, 3, 4]


def test_brackets_and_names_without_words_are_aligned():
    one = made(0, *CITIES)
    tokens = "answer ( intersection ( major , intersection ( city , loc_2 ( m0 ) ) ) )"
    _, _, program, pairs, _ = one.parts("funql")
    assert program == f"{tokens}\n"
    words = {int(at): one.words[int(k)].form for k, at in (p.split("-") for p in pairs.split())}
    names = {at: name for at, name in enumerate(tokens.split()) if name not in "(,)"}
    assert words == dict(
        zip(names, ["name", "big", "big", "cities", "cities", "in", "m0"], strict=True)
    )


def test_the_longest_questions_of_training_are_held_out(published, tmp_path):
    raw = collect(published, tmp_path / "raw", "geoquery/length_dev")
    fit, dev = (lines_of(raw / f"{name}.en") for name in ("train", "dev"))
    assert dev == lines_of(raw / "test.en")
    assert len(dev) == 6 and len(fit) == 14 and {len(line.split()) for line in dev} == {5}


def test_whole_programs_of_training_are_held_out(published, tmp_path):
    """The first half contains seven, seven and six questions of three programs."""
    raw = collect(published, tmp_path / "raw", "geoquery/tmcd_dev")
    train, dev = (lines_of(raw / f"{name}.prefix") for name in ("train", "dev"))
    assert len(train) + len(dev) == 20 and not set(train) & set(dev) and len(set(dev)) == 1


@pytest.mark.parametrize("split", ["template", "tmcd", "standard"])
def test_each_split_has_its_file(published, tmp_path, split):
    for path in published.glob("*.json"):
        if not path.name.startswith(split):
            path.unlink()
    raw = collect(published, tmp_path / "raw", f"geoquery/{split}")
    assert len(lines_of(raw / "train.en")) == 20 and len(lines_of(raw / "test.en")) == 10


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("geography.xml", "[X:4]", "[X:4] more-[X:4]", "example 0 is invalid (augsyn has 6 words"),
        ("geography.xml", "(S (VP", "S (VP", "example 0 is invalid (the tree has no constituent"),
        ("geography.xml", "city ( all )", "all", "does not contain the name 'city'"),
        ("geography.xml", "stateid('oz'))))", "stateid('oz')))", "has no ')' at character 34"),
        ("geography.xml", "</examples>", "", "geography.xml: no element found"),
        ("length_1.json", "[0,", "[900,", "length_1.json: a split or example is missing (900); do"),
        ("length_1.json", '"train"', '"trained"', "example is missing ('train')"),
    ],
)  # fmt: skip
def test_damaged_files_are_named(published, tmp_path, file, old, new, message):
    text = (published / file).read_text()
    assert old in text
    (published / file).write_text(text.replace(old, new, 1))
    words = ("prepare", "geoquery", "--from", published, "--any-size", "--work", tmp_path / "w")
    code, _, err = in_process(*words)
    assert code == 1 and message in err and not list((tmp_path / "w/raw").glob("*.en"))


@pytest.mark.parametrize("file", ["geography.xml", "geobase", "length_1.json"])
def test_a_missing_file_is_named(published, tmp_path, file):
    (published / file).unlink()
    words = ("prepare", "geoquery", "--from", published, "--any-size", "--work", tmp_path / "w")
    code, _, err = in_process(*words)
    assert code == 1 and file.split(".")[0] in err and "--from" in err


def made(number, tree, nodes, program, kinds):
    """Return an example with the given kinds of its nodes."""
    parse = [f"*n:{kind} -> ({{ {name} }})" for kind, name in (one.split(":") for one in kinds)]
    root = xml.fromstring(example(number, tree, nodes, program, parse))
    for node, text in zip(root.iter("node"), parse, strict=True):
        node.text = text
    entities = script(FOLDER / "entities.py").read_entities(FACTS.splitlines())
    corpus = script(FOLDER / "corpus.py")
    return corpus.example(root, corpus.words_of(corpus.read_phrase(tree)), entities)


CITIES = (
    "(S (VP (VB Name) (NP (NP (JJ big) (NNS cities)) (PP (IN in) (NP (NNP Oz))))))",
    "0 1 2 3 5",
    "answer(major(city(loc_2(stateid('oz')))))",
    ["Query:answer", "City:major", "City:city", "City:loc_2", "State:stateid", "StateName:' oz '"],
)
STATE = (
    "(SBARQ (WHNP (WP What)) (SQ (VBZ is) (NP (DT the) (JJS largest) (NN state))))",
    "0 0 1 1 2",
    "answer(largest(state(all)))",
    ["Query:answer", "State:largest", "State:state ( all )"],
)
TOWNS = (
    "(S (VP (VB List) (NP (JJ small) (NNS towns))))",
    "0 1 2",
    "answer(smallest(city(all)))",
    ["Query:answer", "City:smallest", "City:city ( all )"],
)


def exchanged(*examples):
    found = script(FOLDER / "recombine.py").recombined(examples, 100, unknown=0)
    return {one.text: " ".join(part.name for part in one.program.parts) for one in found}


def test_a_term_replaces_one_of_its_kind():
    assert exchanged(made(0, *CITIES), made(1, *STATE)) == {
        "name big cities in the largest state": "answer major city loc_2 largest state all",
        "what is m0": "answer m0",
    }


def test_a_name_with_a_hole_replaces_one_and_a_modifier_is_added():
    nouns = {"big cities": "major city", "small cities": "smallest city"}
    nouns |= {"small towns": "smallest city", "big towns": "major city"}
    expected = {
        f"{verb} {noun}{place}": f"answer {names} {term}"
        for verb in ("name", "list")
        for noun, names in nouns.items()
        for place, term in {"": "all", " in m0": "loc_2 m0"}.items()
    }
    del expected["name big cities in m0"], expected["list small towns"]  # they are not new
    found = exchanged(made(0, *CITIES), made(1, *TOWNS))
    assert set(found) <= set(expected) and all(found[text] == expected[text] for text in found)
    # a modifier is never taken away
    assert set(expected) - set(found) == {
        f"{verb} {noun} cities" for verb in ("name", "list") for noun in ("big", "small")
    }


def test_words_of_an_exchange_keep_their_heads_and_names():
    new = script(FOLDER / "recombine.py").recombined(
        [made(0, *CITIES), made(1, *STATE)], 100, unknown=0
    )
    [one] = [one for one in new if len(one.words) > 3]
    assert one.text == "name big cities in the largest state"
    assert [word.parent for word in one.words] == [-1, 2, 0, 2, 6, 6, 3]
    assert [word.relation for word in one.words][-3:] == ["DT", "JJS", "NP"]
    pairs = one.parts("prefix")[3].split()
    names = ["answer", "major", "city", "loc_2", "largest", "state", "all"]
    named = {names[int(at)]: one.words[int(k)].form for k, at in (p.split("-") for p in pairs)}
    assert named == {
        **{"answer": "name", "major": "big", "city": "cities", "loc_2": "in"},
        **{"largest": "largest", "state": "state", "all": "state"},
    }


@pytest.mark.parametrize(("names", "whole"), [("most state loc_2 m0", True), ("most m0", False)])
def test_names_that_belong_together_are_not_separated(names, whole):
    program, term = None, script(FOLDER / "funql.py").Term
    for name in reversed(names.split()):
        program = term(name, (program,) if program else ())
    new = replace(made(0, *STATE), program=program)
    assert script(FOLDER / "recombine.py").fits(new) is whole


def test_recombined_examples_are_added_to_the_training_part(published, tmp_path):
    raw = collect(published, tmp_path / "raw")
    train, test = (
        [lines_of(raw / f"{trees}{name}.en") for trees in ("", "recombined/", "recombined_chain/")]
        for name in ("train", "test")
    )
    assert test[0] == test[1] == test[2] and train[1] == train[2]
    assert train[1][:20] == train[0] and len(train[1]) > 20
    new = train[1][20:]
    assert not set(new) & set(train[0]) and "<unk>" in " ".join(new).split()
    gold, chain = (
        list(read_conllu(str(raw / f"{trees}/test.conllu")))
        for trees in ("recombined", "recombined_chain")
    )
    assert list(gold[2].parents) == [0, 3, 1, 3, 4] and list(chain[2].parents) == [0, 1, 2, 3, 4]


@pytest.mark.long
def test_from_files_to_a_table(published, tmp_path):
    experiment = Experiment("geoquery", tmp_path / "work")
    models = ["walk", "walk_chain", "relative"]
    experiment.start("prepare", "--from", published, "--any-size", "--models", *models)
    how = ["--cpu", "--size", "demo", "--updates", 4, "--last", 1, "--examples", 0]
    experiment.start("table", "--models", *models, *how, "--", *TINY, "--max-tokens", 60)
    text = (experiment.work / "table.md").read_text()
    assert all(f"| `{model}` |" in text for model in models)
    subsets = (experiment.work / "subsets.md").read_text()
    assert all(f"depth {k}" in subsets for k in (1, 2, 3))


def test_trees_of_a_parser_and_chains(published, tmp_path):
    """The parser's trees lack the question mark, even if it was the root; towns of two words are one."""
    raw = collect(published, tmp_path / "raw")
    questions = lines_of(raw / "questions.txt")
    assert questions[0] == "Name the cities in Oz ?" and not (raw / "recombined_parsed").exists()
    with open(published / "questions.conllu", "w") as out:
        for k, line in enumerate(questions):
            words = line.split()
            parents = [len(words)] * (len(words) - 1) + [0]
            tags = [Tags("_", "NOUN", "_", "_")] * len(words)
            relations = ["nsubj"] * len(words)
            out.write(block(line, Sentence(words, parents, relations=relations, tags=tags), k))
    raw = collect(published, tmp_path / "again")
    for kind, parents in (("parsed", [0, 1, 1, 1, 1]), ("along_chain", [0, 1, 2, 3, 4])):
        trees = list(read_conllu(str(raw / f"recombined_{kind}/test.conllu")))
        assert trees[2].words[-1] == "m0" and list(trees[2].parents) == parents
    lines = (published / "questions.conllu").read_text()
    (published / "questions.conllu").write_text(lines.replace("\tOz\t", "\tother\t"))
    with pytest.raises(InputError, match="words differ from the question"):
        collect(published, tmp_path / "wrong")
