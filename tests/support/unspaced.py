"""Corpora of languages that write no spaces: Japanese to English, and English to Chinese."""

import random
from pathlib import Path

from support.files import write
from support.parse_toys import conllu_row, make_toy_treebank

SPLITS = {"train": 120, "valid": 12, "test": 12}
NOUNS = {
    "ファイル": "file",
    "ﾌｫﾙﾀﾞ": "folder",  # half-width, with a combining mark
    "図書館": "library",
    "ガラス": "glass",  # the first letter decomposed
    "㌔": "kilo",  # one character that NFKC writes as two
}
VERBS = {"保存": "save", "削除": "delete", "確認": "check"}
DIGITS = str.maketrans("0123456789", "０１２３４５６７８９")


def japanese(rng: random.Random) -> tuple[list[str], list[int], str]:
    """Return the words of `１０ 時 に 図書館 を 確認 し た 。`, their heads and a translation."""
    hour, noun, verb = rng.randrange(1, 25), rng.choice(list(NOUNS)), rng.choice(list(VERBS))
    words = [str(hour).translate(DIGITS), "時", "に", noun, "を", verb, "し", "た", "。"]
    english = f"I {VERBS[verb]} the {NOUNS[noun]} at {hour} ."
    return words, [2, 6, 2, 6, 4, 0, 6, 6, 6], english


def write_japanese_to_english(folder: Path) -> None:
    """Write SPLIT.ja with spaces between the words, as a Japanese tokenizer does, and its trees."""
    rng = random.Random(1)
    for split, size in SPLITS.items():
        pairs = [japanese(rng) for _ in range(size)]
        blocks = [
            "\n".join(
                conllu_row(number, word, "X", head, "dep" if head else "root")
                for number, (word, head) in enumerate(zip(words, heads, strict=True), 1)
            )
            for words, heads, _ in pairs
        ]
        write(folder / f"{split}.conllu", "".join(f"{block}\n\n" for block in blocks))
        write(folder / f"{split}.ja", [" ".join(words) for words, _, _ in pairs])
        write(folder / f"{split}.en", [english for _, _, english in pairs])


def write_english_to_chinese(folder: Path) -> None:
    """Write sentences of the toy language, and a Chinese character for each of their words."""
    treebank = folder.with_name("treebank")
    make_toy_treebank(treebank, *SPLITS.values())
    for split, name in {"train": "train", "valid": "dev", "test": "test"}.items():
        text = (treebank / f"{name}.src.conllu").read_text()
        rows = [
            [line.split("\t")[1] for line in block.splitlines() if line[0] != "#"]
            for block in text.strip().split("\n\n")
        ]
        write(folder / f"{split}.en", [" ".join(words) for words in rows])
        write(folder / f"{split}.zh", ["".join(map(character, words)) + "。" for words in rows])


def character(word: str) -> str:
    return chr(0x4E00 + sum(map(ord, word)) % 1000)
