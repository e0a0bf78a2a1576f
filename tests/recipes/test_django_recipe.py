"""The recipe for Django: trees of lines made by hand, and the way from the corpus to a table."""

import csv
import lzma
import os
import shutil
import sys

import pytest

from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.trees.conllu import read_labelled
from support.commands import ROOT, script
from support.experiments import TINY, Experiment
from support.files import lines_of, write

FOLDER = ROOT / "recipes/django_en"

# a line, and word, parent and label of each of its tokens
TREES = """\
a . b ( c )
a:2:value .:4:func b:2:name (:0:root c:4:args ):4:op

x = [ y , - 1 ]
x:2:targets =:0:root [:2:value y:3:elts ,:3:op -:3:elts 1:6:operand ]:3:op

return ( a + b ) * c
return:0:root (:7:op a:4:left +:7:left b:4:right ):7:op *:1:value c:7:right

a [ 1 : n ] = not b
a:2:value [:7:targets 1:4:lower ::2:slice n:4:upper ]:2:op =:0:root not:7:value b:8:operand

raise E ( "no '%s'" % key , 'a' )
raise:0:root E:3:func (:1:exc ":5:string no:11:left ':5:string %:6:string s:7:string ':8:string \
":9:string %:3:args key:11:right ,:3:op ':15:string a:3:args ':15:string ):3:op

x = 'é' + y
x:2:targets =:0:root ':4:string é:6:left ':4:string +:2:value y:6:right

[ f ( a ) for a in b if a ]
[:6:op f:3:func (:6:elt a:3:args ):3:op for:0:root a:6:target in:6:name b:6:iter if:6:name \
a:6:ifs ]:6:op

f ( x for x in y )
f:0:root (:4:op x:4:elt for:1:args x:4:target in:4:name y:4:iter ):4:op

from a . b import c as d
from:0:root a:1:name .:1:op b:1:name import:1:name c:1:names as:6:name d:6:name

if a in b :
if:0:root a:3:left in:1:test b:3:comparators ::1:op

elif a :
elif:0:root a:1:test ::1:op

else :
else:0:root ::1:op

for a in b :
for:0:root a:1:target in:1:name b:1:iter ::1:op

try :
try:0:root ::1:op

except E as e :
except:0:root E:1:type as:1:name e:1:name ::1:op

finally :
finally:0:root ::1:op

with open ( a ) as b :
with:0:root open:3:func (:1:context_expr a:3:args ):3:op as:1:name b:1:optional_vars ::1:op

def f ( self , a = 1 , ** b ) :
def:0:root f:1:name (:1:op self:1:args ,:1:op a:1:args =:1:op 1:1:defaults ,:1:op **:1:op \
b:1:kwarg ):1:op ::1:op

class A ( B ) :
class:0:root A:1:name (:1:op B:1:bases ):1:op ::1:op

@ property
@:0:root property:1:decorator_list

yield
yield:0:root

''
':0:root ':1:string
"""
CASES = [
    (line, rest.replace("\\\n", ""))
    for line, rest in (case.split("\n", 1) for case in TREES.strip().split("\n\n"))
]


@pytest.mark.parametrize(("line", "expected"), CASES, ids=[line for line, _ in CASES])
def test_the_tree_of_a_line(line, expected):
    tree = script(FOLDER / "syntax.py").tree_of(line)
    rows = zip(tree.words, tree.parents, tree.relations, strict=True)
    assert " ".join(f"{word}:{parent}:{label}" for word, parent, label in rows) == expected


def test_heads_have_the_class_of_their_node():
    tree = script(FOLDER / "syntax.py").tree_of("a . b ( 'c' )")
    tags = [tag.upos for tag in tree.tags]
    assert tags == ["Name", "Attribute", "NAME", "Call", "STRING", "Constant", "STRING", "OP"]


@pytest.mark.parametrize("line", ["print 'a'", "a b", "( a"])
def test_a_line_without_a_tree(line):
    assert script(FOLDER / "syntax.py").tree_of(line) is None


def descriptions(count: int) -> tuple[list[str], list[str]]:
    """Lines, indented as in a program, with descriptions; some are the same, one is no Python."""
    code, said = [], []
    for k in range(count):
        name, other = "abc"[k % 3], "xyz"[k % 4 % 3]
        code.append(["  {0} = {1}", "{0} . {1} ( ' {0} ' )", "    if {0} :"][k % 5 % 3])
        said.append(["{0} is {1}.", "call the method {0}.{1} with {0}.", "if {0},"][k % 5 % 3])
        code[-1], said[-1] = (text[-1].format(name, other) for text in (code, said))
    code[1], said[1] = "print {a b", "no Python."
    return code, said


@pytest.fixture
def recipe(tmp_path):
    """The recipe with a corpus of 60, 6 and 8 lines."""
    folder = tmp_path / "small"
    text = (FOLDER / "recipe.toml").read_text()
    for size, small in (("16000", "60"), ("1000]", "6]"), ("1805", "8"), ("15991", "60")):
        text = text.replace(f"[{size}", f"[{small}")
    write(folder / "recipe.toml", text.replace("symbols = 4000", "symbols = 20"))
    for name in ("corpus.py", "syntax.py"):
        (folder / name).symlink_to(FOLDER / name)
    for side, lines in zip(("code", "anno"), descriptions(74), strict=True):
        packed = "".join(f"{line}\n" for line in lines).encode()
        write(tmp_path / f"from/all.{side}.xz", lzma.compress(packed))
    return folder


@pytest.mark.long
def test_from_the_corpus_to_a_table(recipe, tmp_path):
    if not shutil.which("eflomal-align", path=os.path.dirname(sys.executable)):
        pytest.skip("eflomal is not installed; pip install eflomal")
    experiment = Experiment(str(recipe), tmp_path / "work")
    shown = experiment.start("prepare", "--from", tmp_path / "from").stdout
    assert "train: 1 of 60 lines cannot be parsed and get a chain as their tree" in shown
    raw = experiment.work / "raw"
    code, said = descriptions(74)
    assert lines_of(raw / "test.py")[0] == code[66].strip()
    assert lines_of(raw / "train.en")[:2] == ["a is x .", "no Python ."]
    assert len(said) == sum(len(lines_of(raw / f"{name}.en")) for name in ("train", "dev", "test"))
    training = {line.strip() for line in code[:60]}
    expected = ["yes" if line.strip() in training else "no" for line in code[66:]]
    assert lines_of(raw / "test.in_training") == expected
    expected = ["yes" if "'" in line else "no" for line in code[66:]]
    assert lines_of(raw / "test.has_string") == expected and "yes" in expected
    trees = list(read_labelled(str(raw / "train.conllu")))
    assert trees[1].parents == [0, 1, 2, 3]  # a chain
    how = ["--cpu", "--size", "demo", "--updates", 4, "--last", 1, "--examples", 0]
    models = ["walk", "walk_open_chain"]
    small = ("--decoder-layers", 2, "--max-tokens", 200)
    experiment.start("table", "--models", *models, *how, "--", *TINY, *small)
    rows = list(csv.DictReader((experiment.work / "table.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == models


def test_each_model_has_its_controls():
    models = {row.title: row for row in read_recipe("django_en").content.models}
    for name in ("structural", "tree_labels", "walk", "walk_labels", "walk_open"):
        for trees in ("chain", "shuffled"):
            of_trees = models[f"{name}_{trees}"]
            assert of_trees.trees == trees
            assert of_trees.training == models[name].training
    taught = {name for name, row in models.items() if row.training.get("load-alignments")}
    assert taught == {name for name in models if name.startswith("walk") and "untaught" not in name}
