"""The program in docs/parsing_and_clusters.md that makes CoNLL-U with spaCy, and a stand-in."""

import io
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, text_of
from support.commands import ROOT
from support.files import write
from support.in_process import end_of

LINES = ["Dogs bark .", "", "  He  sees\u00a0two cats .", "Go ! Run !"]


def pretended(text: str) -> list[SimpleNamespace]:
    """Return tokens as spaCy has them: spaces in a row are some, and a sentence ends at a mark."""
    tokens = [
        SimpleNamespace(i=i, text=word, is_space=word.isspace(), pos_="X", dep_="dep")
        for i, word in enumerate(re.findall(r"\S+|(?<=\s)\s+", text))
    ]
    root = None
    for token in tokens:
        root = root or token
        token.head = root
        root = None if token.text in ".!" else root
    return tokens


@pytest.fixture
def printed(monkeypatch, capsys):
    page = (ROOT / "docs/parsing_and_clusters.md").read_text()
    [program] = re.findall(r"```python\n(import sys, spacy\n.+?)```", page, re.DOTALL)
    spacy = ModuleType("spacy")
    spacy.load = lambda name: pretended
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in LINES)))
    exec(program, {})
    return capsys.readouterr().out


@pytest.mark.long(ci=True)
def test_its_trees_are_those_of_the_lines(printed, tmp_path):
    trees, text = write(tmp_path / "trees", printed), write(tmp_path / "text", LINES)
    blocks = list(read_blocks(str(trees)))
    assert [text_of(block) for block in blocks] == [line.strip() for line in LINES]
    first = parse_all_columns(blocks[0])
    assert (first.words, first.parents) == (["Dogs", "bark", "."], [0, 1, 1])
    assert first.relations == ["root", "dep", "dep"]
    given = [text, "--parser", "conllu", "--trees", trees, "--out", tmp_path / "out.conllu"]
    assert "has 2 roots" in end_of("parse", *given)
    end_of("parse", *given, "--several-roots", "first")
    found = [
        parse_all_columns(block).parents for block in read_blocks(str(tmp_path / "out.conllu"))
    ]
    assert found == [[0, 1, 1], [], [0, 1, 1, 1, 1], [0, 1, 1, 3]]
