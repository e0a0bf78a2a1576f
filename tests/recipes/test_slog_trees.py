"""Trees of SLOG: sentences made by hand for each category, and the program on files of them."""

# ruff: noqa: E501 (a form stands on one line)

import sys
import zipfile

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.conllu import read_conllu
from support.commands import ROOT, run, script

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
    return script(FOLDER / "trees.py").tree_of


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
    with pytest.raises(InputError, match="cannot be read beside"):
        tree_of("The cat ate .", form)


def lines() -> str:
    return "".join(f"{sentence}\t{form}\t{name}\n" for name, sentence, form, _ in CASES)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "zip"])
def test_a_file_becomes_a_treebank(tmp_path, packed):
    path = tmp_path / ("sets.zip" if packed else "sets.tsv")
    if packed:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("gen.tsv", lines())
    else:
        path.write_text(lines())
    out = tmp_path / "out.conllu"
    run(sys.executable, FOLDER / "treebank.py", path, "--out", out)
    assert [" ".join(tree.words) for tree in read_conllu(str(out))] == [case[1] for case in CASES]
    assert f"# text_lf = {CASES[0][2]}\n# category = {CASES[0][0]}\n" in out.read_text()


@pytest.mark.parametrize("line", ["The cat ate .\teat (", "a cat", "a\tb\tc\td"])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "sets.tsv"
    path.write_text(lines() + line + "\tx\n")
    result = run(sys.executable, FOLDER / "treebank.py", path, "--out", tmp_path / "o", check=False)
    assert result.returncode == 1 and not (tmp_path / "o").exists()
    said = f"error: {path}:{len(CASES) + 1}: this is no sentence, form and category of SLOG"
    assert result.stdout.splitlines()[-1].startswith(said)


def test_a_damaged_zip_is_named(tmp_path):
    path = tmp_path / "sets.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gen.tsv", lines())
    path.write_bytes(path.read_bytes()[:-40])
    result = run(sys.executable, FOLDER / "treebank.py", path, "--out", tmp_path / "o", check=False)
    assert result.returncode == 1
    assert "the archive is incomplete or damaged" in result.stdout
