"""Segments of NIST's files, however they are written; what cannot be right is named."""

import sys

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.scoring.metrics.sgm import Key, read_set, read_sets
from support.commands import run


def document(body: str, attributes: str = 'docid="d"') -> str:
    return f"<refset>\n<doc {attributes}>\n{body}\n</doc>\n</refset>\n"


def numbered(*texts: str) -> str:
    return "\n".join(f'<seg id="{k}">{text}</seg>' for k, text in enumerate(texts, start=1))


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('<seg id="1">one</seg>', "one"),
        ("<seg id='1'> one </seg>", "one"),
        ("<seg id=1>one</seg>", "one"),
        ('<SEG ID="1">one</SEG>', "one"),
        ('<seg\n id="1">one</seg>', "one"),
        ('<seg id="1">\n one\n\t two \n</seg>', "one two"),
        ('<hl><seg id="1">one</seg></hl>', "one"),
        ('<p><seg id="1">one</seg>\n<p>', "one"),
        ('<style><seg id="1">one</seg></style>', "one"),
        ('<seg id="1"></seg>', ""),
        ('<seg id="1"/>', ""),
        ('<seg id="1">&lt;b&gt; &amp; &quot;c&apos;&#228;&#xE4;</seg>', "<b> & \"c'ää"),
        ('<seg id="1">&amp;lt;</seg>', "&lt;"),
        ('<seg id="1">AT&T, Q& A, a&ampb &</seg>', "AT&T, Q& A, a&ampb &"),
        ('<seg id="1">3 < 4 <5</seg>', "3 < 4 <5"),
        ('<seg id="1">a\u3000b\u00a0c\u2028d</seg>', "a\u3000b\u00a0c\u2028d"),
        ('<!-- <seg id="0">no</seg> --><seg id="1">one</seg>', "one"),
    ],
)
def test_a_segment(write, segment, text):
    assert read_set(write("a.sgm", document(segment))).texts == {Key("d", "1"): text}


@pytest.mark.parametrize("kind", ["srcset", "refset", "tstset", "REFSET"])
def test_kinds_of_sets_and_prologues(write, kind):
    prologue = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE mteval SYSTEM "m.dtd">\n<mteval>'
    body = document(numbered("one", "two")).replace("refset", kind)
    found = read_set(write("a.sgm", f"{prologue}{body}</mteval>"))
    assert list(found.texts.values()) == ["one", "two"]


def test_several_sets_in_a_file(write):
    path = write(
        "a.sgm",
        document(numbered("a one", "a two"), 'docid="d" sysid="A"')
        + document(numbered("b one", "b two"), 'sysid=B docid="d"')
        + document(numbered("c one", "c two")).replace("<refset>", '<refset refid="C">')
        + document(numbered("d one", "d two"), 'docid="d" refid="D"'),
    )
    sets = read_sets(path)
    assert [one.name for one in sets] == ["A", "B", "C", "D"]
    assert sets[2].in_order_of(sets[0]) == ["c one", "c two"]
    assert list(read_set(path, "B").texts.values()) == ["b one", "b two"]
    with pytest.raises(InputError, match=r"several sets \('A', 'B', 'C', 'D'\).*--set"):
        read_set(path)
    with pytest.raises(InputError, match="no set 'E'; choose one of 'A'"):
        read_set(path, "E")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plain\n", "a.sgm: the file contains no <seg>; .*--references"),
        (document("<seg>x</seg>"), "a.sgm:3: <seg> has no id in document d; number"),
        (document(numbered("x"), 'sysid="s"'), "a.sgm:2: <doc> has no docid; give"),
        ('<seg id="1">x</seg>', "a.sgm:1: <seg> is outside of <doc>"),
        (document('<seg id="1">x</seg>\n<seg id="1">y</seg>'), "a.sgm:4: segment 1 .* in line 3"),
        (document(numbered("x")) * 2, "a.sgm:8: segment 1 of document d .* in line 3; .*sysid"),
        (document('<seg id="1">x\n<seg id="2">y</seg>'), "a.sgm:4: <seg> occurs inside segment 1"),
        (
            document('<seg id="1">x<y</seg>') + document("<p>", "docid=e"),
            "occurs inside segment 1 .*&lt;",
        ),
        (document('<seg id="1">x'), "a.sgm:4: </doc> occurs inside segment 1 .* line 3; .*</seg>"),
        ('<doc docid="d">\n<seg id="1">x', "the end of the file occurs inside segment 1"),
        (document(numbered("x&#" + "9" * 5000 + ";")), "a.sgm:3: .*; correct the markup here"),
        ("<![x y[<seg>", "a.sgm:1: .*; correct the markup here"),
    ],
)
def test_faults(write, text, message):
    with pytest.raises(InputError, match=message):
        read_sets(write("a.sgm", text))


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        (["x", "y"], ["x"], r"a\.sgm:4: segment 2 of document d is missing in .*b\.sgm"),
        (["x"], ["x", "y"], r"b\.sgm:4: segment 2 of document d is missing in .*a\.sgm"),
    ],
)
def test_sets_need_the_same_segments(write, one, two, message):
    sets = [
        read_set(write(name, document(numbered(*texts))))
        for texts, name in ((one, "a.sgm"), (two, "b.sgm"))
    ]
    with pytest.raises(InputError, match=message):
        [one.in_order_of(sets[0]) for one in sets]


def test_command(write, tmp_path):
    path = write("a.sgm", document(numbered("one", "two &amp;\nthree"), 'docid="d" sysid="A"'))
    command = sys.executable, "-m", "fairseq_posattn.cli.sgm", path, "--out"
    run(*command, tmp_path / "text", "--set", "A")
    assert (tmp_path / "text").read_text() == "one\ntwo & three\n"
    other = write("source.sgm", document('<seg id="2">zwei</seg><seg id="1">eins</seg>'))
    run(*command, tmp_path / "text", "--first", "--like", other)
    assert (tmp_path / "text").read_text() == "two & three\none\n"
    failed = run(*command, tmp_path / "none", "--set", "B", check=False)
    assert failed.returncode == 1
    assert failed.stdout.startswith("error: ") and failed.stdout.count("\n") == 1
    assert not (tmp_path / "none").exists()
