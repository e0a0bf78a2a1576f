"""F1 of words by their frequency in training, part of speech and relation."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.step_records import StepRecord
from fairseq_posattn.scoring.metrics import words
from fairseq_posattn.scoring.metrics.runs import Samples

REFERENCE = ["the dog sees the cat", "a bird sings", "cats sleep"]
TRANSLATION = ["the dog dog sees a cat", "a cat sings", ""]
TRAINING = "the\n" * 12 + "the dog\n" * 3 + "sees a a\ncat\nsings\n"


def by_loops(reference, translation, chosen):
    """Precision, recall and F1 of the chosen words, counted one by one."""
    right = of_reference = of_translation = 0
    for wanted, written in zip(reference, translation, strict=True):
        left = Counter(word for word in wanted if chosen(word))
        of_reference += sum(left.values())
        for word in written:
            if chosen(word):
                of_translation += 1
                if left[word]:
                    left[word] -= 1
                    right += 1
    precision = right / of_translation if of_translation else 0
    recall = right / of_reference if of_reference else 0
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0


def test_groups_of_random_words_equal_plain_counting():
    random = Random(1)
    vocabulary = [f"w{k}" for k in range(30)]
    reference, translation = (
        [random.choices(vocabulary, k=random.randint(0, 9)) for _ in range(40)] for _ in range(2)
    )
    group = {word: str(k % 4) for k, word in enumerate(vocabulary)}
    found = words.groups(reference, [translation], group.get, samples=Samples(20))
    assert sorted(one.name for one in found) == ["0", "1", "2", "3"]
    for one in found:
        members = {word for word in vocabulary if group[word] == one.name}
        expected = by_loops(reference, translation, members.__contains__)
        assert (one.precision, one.recall, one.f1) == pytest.approx([100 * n for n in expected])
        assert one.words == sum(word in members for line in reference for word in line)
        assert one.interval[0] <= one.f1 <= one.interval[1]


def test_several_runs_have_their_mean():
    reference, runs = [["a", "b"]], [[["a", "b"]], [["a", "c"]]]
    (one,) = words.groups(reference, runs, lambda word: "all", samples=Samples(5))
    assert (one.precision, one.recall, one.f1) == (75, 75, 75)


@pytest.fixture
def files(tmp_path):
    for name, lines in (("ref", REFERENCE), ("hyp", TRANSLATION), ("base", REFERENCE)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "train").write_text(TRAINING)
    for name, lines in (("ref", REFERENCE), ("hyp", TRANSLATION)):
        rows = []
        for line in lines:
            tokens = line.split()
            tags = ["NOUN" if word.startswith(("dog", "cat", "bird")) else "X" for word in tokens]
            rows += [
                f"{k}\t{word}\t_\t{tag}\t_\t_\t{k - 1}\t{'root' if k == 1 else 'dep'}\t_\t_"
                for k, (word, tag) in enumerate(zip(tokens, tags, strict=True), start=1)
            ]
            rows.append("")
        (tmp_path / f"{name}.conllu").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def scored(scored, files):
    run, given = scored, [files / "hyp", "--references", files / "ref", "--samples", 10]
    return lambda *options: run(*given, *options)["words"]


def test_words_by_frequency(files, scored):
    """the is there 15 times, dog 3 times, a twice, and bird, cats and sleep never."""
    found = scored("--train-target", files / "train")["frequency"]
    assert [(one["name"], one["words"]) for one in found] == [
        *(("0", 3), ("1", 3), ("2–4", 2), ("10–99", 2))
    ]
    never, once, twice, often = found
    assert (never["f1"], never["recall"]) == (0, 0)
    # cat, cat, sings and sees are written; sees, one cat and sings are right of 3
    assert (once["precision"], once["recall"]) == (75, 100)
    assert twice["recall"] == 100 and twice["precision"] == 50  # dog twice, and a twice
    assert (often["precision"], often["recall"]) == (100, 50)


def test_counts_are_kept(files, scored):
    """They are taken again for the same text and the same words, and for no others."""
    counts = files / "counts.json"
    options = ["--train-target", files / "train", "--train-counts", counts]
    first = scored(*options)
    kept = StepRecord.read(counts)
    assert kept.answer["the"] == 15
    replace(kept, answer=dict.fromkeys(kept.answer, 2000)).write(counts)
    assert {one["name"] for one in scored(*options)["frequency"]} == {*("0", "≥ 1000")}
    (files / "train").write_text(TRAINING + "bird\n")
    changed = scored(*options)["frequency"]
    assert changed[1]["words"] == first["frequency"][1]["words"] + 1


def test_words_by_part_of_speech_and_relation(files, scored):
    trees = ["--reference-trees", files / "ref.conllu", "--hypothesis-trees", files / "hyp.conllu"]
    with pytest.raises(InputError, match=r"hyp has 3 lines, but .*hyp.conllu has 2 trees"):
        scored(*trees)
    texts = [files / "hyp", files / "base"]
    texts[0].write_text(texts[1].read_text())
    (files / "hyp.conllu").write_text((files / "ref.conllu").read_text().replace("NOUN", "VERB"))
    found = scored(*trees)
    pos = {one["name"]: (one["words"], one["f1"]) for one in found["pos"]}
    # a word with another tag is another one
    assert pos == {"X": (6, 100), "NOUN": (4, 0), "VERB": (0, 0)}
    assert {one["name"]: one["f1"] for one in found["relation"]} == {"dep": 100, "root": 100}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--reference-trees", "ref.conllu"], "and --hypothesis-trees require each other"),
        (
            ["--reference-trees", "ref.conllu", "--hypothesis-trees", "ref.conllu", "ref.conllu"],
            "--hypothesis-trees has 2 files, but there are 1 translation",
        ),
    ],
)
def test_trees_that_do_not_fit(options, message, files, scored, monkeypatch):
    monkeypatch.chdir(files)
    with pytest.raises(InputError, match=message):
        scored(*options)
