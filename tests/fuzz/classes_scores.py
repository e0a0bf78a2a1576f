"""What posattn score compares: plain texts, references in NIST's form, trees, examples."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from .classes_logs import write
from .mutations import COLUMNS, JSON, LINES, Mutation
from .registry import Command, add, program

HYPOTHESES = ["The dog barks.", "It rains, & pours.", "", "Nobody has seen the cat since Tuesday."]
REFERENCES = ["A dog barks.", "It rains & it pours.", "Yes.", "Nobody saw the cat since Tuesday."]
TREES = """\
1\tDer\t_\t_\t_\t_\t2\tdet\t_\t_
2\tHund\t_\t_\t_\t_\t3\tnsubj\t_\t_
3\tbellt\t_\t_\t_\t_\t0\troot\t_\t_

1\tEs\t_\t_\t_\t_\t2\texpl\t_\t_
2\tregnet\t_\t_\t_\t_\t0\troot\t_\t_

1\tJa\t_\t_\t_\t_\t0\troot\t_\t_

1\tNiemand\t_\t_\t_\t_\t0\troot\t_\t_

"""


def lines(texts) -> str:
    return "".join(f"{text}\n" for text in texts)


def texts(folder: Path) -> None:
    write(folder / "hyp", lines(HYPOTHESES))
    write(folder / "base", lines(HYPOTHESES[:3] + ["Nobody"]))
    write(folder / "ref0", lines(REFERENCES))
    write(folder / "ref1", lines(HYPOTHESES))
    write(folder / "source", lines(["Der Hund bellt", "Es regnet", "Ja", "Niemand"]))
    write(folder / "pieces", lines(["Der Hu@@ nd bellt", "Es reg@@ net", "Ja", "Nie@@ mand"]))
    write(folder / "trees.conllu", TREES)


def plain(folder: Path) -> Command:
    options = [folder / "hyp", "--references", folder / "ref0", folder / "ref1", "-t", "de"]
    for name in ("baseline", "source", "pieces", "trees"):
        file = {"baseline": "base", "trees": "trees.conllu"}.get(name, name)
        options += [f"--{name}", folder / file]
    return Command(program("score"), [*options, "--samples", 2, "--json", folder / "out.json"])


add("plain texts", texts, "*", COLUMNS, "out.json", share=0.5)(plain)

# NIST's form


def segments(texts, system: str) -> str:
    found = [f'<refset setid="x" srclang="any" trglang="en" refid="{system}">']
    for k, text in enumerate(texts):
        if k % 2 == 0:
            found.append(f'<doc docid="d{k // 2}" genre="nw" sysid="{system}">\n<hl>')
        escaped = text.replace("&", "&amp;")
        found.append(f'<seg id="{k % 2 + 1}"> {escaped} &quot;&#8220;&lt; </seg>')
        if k % 2:
            found.append("</hl>\n</doc>")
    return "\n".join(['<?xml version="1.0"?>', "<!DOCTYPE mteval>", *found, "</refset>", ""])


def sgm(folder: Path) -> None:
    texts(folder)
    write(folder / "ref.sgm", segments(REFERENCES, "A") + segments(HYPOTHESES, "B"))
    write(folder / "src.sgm", segments(REFERENCES, "source").replace("refset", "srcset"))


def another_tag(data: bytes, random: random.Random) -> bytes:
    """Put another piece of markup in the place of one."""
    found = [match.span() for match in re.finditer(rb"<[^>]*>|&[^;]*;", data)]
    begin, end = random.choice(found) if found else (0, 0)
    tags = ["<seg", "</seg>", "<doc>", "<![", "<![CDATA[", "]]>", "<!--", "<!x", "<?", "</>", "<>"]
    tags += [
        "<!DOCTYPE [<!ENTITY a 'b'>]>",
        "&",
        "&#",
        "&#x110000;",
        "&#xd800;",
        "&#0;",
        "<script>",
    ]
    tags += ['<seg id="1">', '<doc docid="">', "<seg id=1 id=2>", "<textarea>"]
    tags += ["&#" + "9" * 5000 + ";"]
    return data[:begin] + random.choice(tags).encode() + data[end:]


SGM: list[Mutation] = [*LINES, *[another_tag] * 8]

add("SGML: score", sgm, "*.sgm", SGM, "out.json")(
    lambda folder: Command(
        program("score"),
        [folder / "hyp", "--sgm", folder / "ref.sgm", "--sgm-source", folder / "src.sgm"]
        + ["--json", folder / "out.json"],
    )
)
add("SGML: lines", sgm, "*.sgm", SGM, "o")(
    lambda folder: Command(
        program("sgm"),
        [folder / "ref.sgm", "--set", "B", "--like", folder / "src.sgm", "--out", folder / "o"],
    )
)

# what other commands wrote


def given(name: str):
    """Return a function that writes texts, and a file that posattn score takes over."""

    def build(folder: Path) -> None:
        from . import classes_report

        texts(folder)
        write(folder / f"{name}.json", json.dumps(getattr(classes_report, name.upper())))

    return build


def taken_over(name: str):
    def command(folder: Path) -> Command:
        options = [folder / "hyp", "--references", folder / "ref0", "--json", folder / "out.json"]
        return Command(program("score"), [*options, f"--{name}", folder / f"{name}.json"])

    return command


for name, share in (("examples", 0.5), ("heads", 0.2)):
    add(f"{name}: score", given(name), f"{name}.json", JSON, "out.json", share=share)(
        taken_over(name)
    )


def labelled(folder: Path) -> None:
    texts(folder)
    for name in ("hyp", "ref0"):
        rows = []
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            rows += [f"{k}\t{w}\t_\tX\t_\t_\t{k - 1}\tdep\t_\t_" for k, w in words(line)]
            rows.append("")
        write(folder / f"{name}.conllu", "".join(f"{row}\n" for row in rows))


def words(line: str) -> Iterator[tuple[int, str]]:
    return enumerate(line.split() or ["_"], start=1)


add("words: score", labelled, "*.conllu ref0", COLUMNS, "out.json", share=0.3)(
    lambda folder: Command(
        program("score"),
        [folder / "hyp", "--references", folder / "ref0", "--json", folder / "out.json"]
        + ["--train-target", folder / "ref0", "--reference-trees", folder / "ref0.conllu"]
        + ["--hypothesis-trees", folder / "hyp.conllu", "--samples", 2],
    )
)
