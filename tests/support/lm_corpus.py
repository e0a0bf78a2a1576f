"""These corpora look like WikiText-2 or the Penn Treebank; training on them takes seconds."""

import random
from pathlib import Path

NOUNS = ["dog", "cat", "bird", "king", "lobster"]
VERBS = ["sees", "likes", "hears"]


def sentence(rng: random.Random) -> list[str]:
    words = ["The", rng.choice(NOUNS), rng.choice(VERBS), "the", rng.choice(NOUNS)]
    for _ in range(rng.randrange(3)):
        words += ["and", "the", rng.choice(NOUNS)]
    return [*words, "."]


def make_wikitext(folder: Path, paragraphs: int = 30) -> None:
    """Write headings, blank lines, paragraphs of three sentences, and a sentence over 35 words."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(("train", "valid", "test")):
        rng, lines = random.Random(number), []
        for _ in range(paragraphs if split == "train" else 5):
            text = [word for _ in range(3) for word in sentence(rng)]
            lines += ["", " = Title = ", "", " " + " ".join(text)]
        lines.append(" ".join(["The", *["dog and"] * 30, "cat ."]))
        (folder / f"wiki.{split}.tokens").write_text("\n".join(lines) + "\n")


def make_ptb(folder: Path, sentences: int = 60) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(("train", "valid", "test")):
        rng = random.Random(number)
        lines = [" " + " ".join(sentence(rng)) + " " for _ in range(sentences)]
        (folder / f"ptb.{split}.txt").write_text("\n".join(lines) + "\n")
