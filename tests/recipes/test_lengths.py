"""The recipe about lengths: joined captions, its models, and its table."""

from support.commands import ROOT, script
from support.files import lines_of, write

FOLDER = ROOT / "recipes/lengths"


def test_two_captions_become_one(tmp_path):
    write(tmp_path / "test.en", ["a dog .", "b", "c", "d ."])
    script(FOLDER / "corpus.py").join(tmp_path / "test.en", tmp_path / "joined.en")
    assert lines_of(tmp_path / "joined.en") == ["a dog . b", "c d ."]


def test_bleu_by_length(tmp_path):
    """Sentences of 3, 13 and 30 pieces; the last one is translated wrongly."""
    lengths = script(FOLDER / "lengths.py")
    sources = [" ".join("x" * n) for n in (3, 13, 30)]
    right = ["ein Hund läuft schnell .", "das Kind lacht sehr laut .", "der Ball ist rot ."]
    wrong = [*right[:2], "Wasser"]
    write(tmp_path / "data.work/test.pieces.en", sources)
    write(tmp_path / "data.work/test1.pieces.en", sources[:1])
    run = tmp_path / "runs/rope.demo.seed1.0123abcd"
    for test, references, translations in (
        ("test_2016_flickr", right, wrong),
        ("joined", right[:1], [f"{right[0]} {right[0]}"]),
    ):
        write(tmp_path / f"raw/{test}.de", references)
        write(run / f"{test}.hyp", translations)
    [row] = lengths.rows(tmp_path)
    assert row[0] == "`rope`"
    assert [cell.split(" ")[0] for cell in row[1:5]] == ["100.0", "100.0", "", "0.0"]
    assert row[6] == "2.00"  # twice as long as the reference
