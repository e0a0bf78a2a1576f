"""Texts without spaces between words, from raw text to a score, by the defaults alone."""

import json
import random
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.text.live.providers import parser_settings
from support.commands import PLUGIN, TINY, fairseq, run, step
from support.files import lines_of, write

WHO = ["我", "他", "她", "老师", "学生", "医生", "朋友", "孩子"]
DOES = ["看见", "喜欢", "买了", "找到", "忘了", "画了"]
WHAT = ["书", "苹果", "房子", "汽车", "小狗", "花园", "电脑", "雨伞"]
WORDS = """I he she teacher student doctor friend child sees likes bought found forgot painted
book apple house car puppy garden computer umbrella"""
ENGLISH = dict(zip([*WHO, *DOES, *WHAT], WORDS.split(), strict=True))
UNSEEN = "龘靐齉"


def write_corpus(folder: Path, language: str) -> None:
    rng = random.Random("without spaces")
    for split, size in (("train", 120), ("valid", 12), ("test", 12)):
        words = [[rng.choice(part) for part in (WHO, DOES, WHAT)] for _ in range(size)]
        chinese = ["".join(sentence) + "。" for sentence in words]
        english = [" ".join(map(ENGLISH.get, sentence)) + "." for sentence in words]
        if split == "train":
            chinese[7], english[8], english[9] = "", "far too long " * 30, "much longer " * 8
        if split == "valid":
            chinese = [line.replace("。", f"{UNSEEN}。") for line in chinese]
        write(folder / f"{split}.{language}", chinese)
        write(folder / f"{split}.en", english)


def prepare(folder: Path, source: str, target: str, *more):
    return step(
        *("prepare", "--source", source, "--target", target, "--train", folder / "train"),
        *("--valid", folder / "valid", "--test", folder / "test", "--out", folder / "data"),
        *("--tokenize", "moses", "--parser", "none", "--symbols", 80, "--max-length", 60, *more),
    ).stdout


def chosen(folder: Path) -> dict:
    return json.loads((folder / "data/prepare.json").read_text())


@pytest.mark.long(ci=True)
def test_from_raw_text_to_a_score(tmp_path):
    """Files, dictionaries and fairseq keep the user's word for the language."""
    write_corpus(tmp_path, "zh_CN")
    printed = prepare(tmp_path, "en", "zh_CN")
    assert f"{tmp_path}/train.zh_CN (Chinese): the text has no spaces between words, so" in printed
    about = chosen(tmp_path)
    assert about["segmenter"] == "sentencepiece"
    assert (about["target"], about["target_code"], "source_code" in about) == ("zh_CN", "zh", False)
    data, run_folder = tmp_path / "data", tmp_path / "run"
    assert (data / "dict.zh_CN.txt").exists()
    common = ("--user-dir", PLUGIN, "--task", "structured_translation", "--cpu")
    fairseq(
        *("train", data, *common, "--arch", "posattn_transformer", *TINY, "--optimizer", "adam"),
        *("--lr", "5e-3", "--max-tokens", 1000, "--max-update", 4, "--save-dir", run_folder),
    )
    model = run_folder / "checkpoint_last.pt"
    log = fairseq("generate", data, *common, "--path", model, "--max-len-b", 20).stdout
    write(tmp_path / "log", log)
    program = (sys.executable, "-m")
    words = ("fairseq_posattn.cli.translations", data, tmp_path / "log", "--out", tmp_path / "hyp")
    run(*program, *words)
    assert len(lines_of(tmp_path / "hyp")) == 12
    reference = tmp_path / "test.zh_CN"
    for hypotheses, expected in ((tmp_path / "hyp", ""), (reference, "BLEU            100.00")):
        words = ("fairseq_posattn.cli.score", hypotheses, "--references", reference)
        scored = run(*program, *words, "--target-lang", "zh_CN").stdout
        assert "|tok:zh|" in scored and expected in scored and "no spaces" not in scored


@pytest.mark.long(ci=True)
def test_what_was_dropped_and_what_is_unknown(tmp_path):
    write_corpus(tmp_path, "zho")
    printed = prepare(tmp_path, "zho", "en")
    kept = "train: 117 of 120 pairs were kept; dropped by their numbers of pieces: "
    rules = [
        "1 over 60 (--max-length)",
        "1 over a ratio of 3 (--max-ratio)",
        "1 with an empty side",
    ]
    found = re.search(f"^{re.escape(kept)}(.*)$", printed, re.M)
    assert sorted(found[1].split(", ")) == rules
    assert "valid: 12 of 12 pairs were kept\n" in printed
    warnings = [line for line in printed.splitlines() if line.startswith("warning: ")]
    unknown = r"warning: .*/valid\.clean\.no_trees\.zho: (\d+) of (\d+) pieces \((.*) %\) are"
    one, all_of_them, percent = re.match(unknown, warnings[0]).groups()
    assert len(warnings) == 1 and int(one) >= 12 and UNSEEN in warnings[0]
    assert float(percent) == pytest.approx(100 * int(one) / int(all_of_them), abs=0.06)
    assert "a higher --character-coverage or more training text may help" in warnings[0]


@pytest.mark.long(ci=True)
def test_names_that_are_no_languages(tmp_path):
    """The text shows whether it has spaces; a choice of the user's own is followed in silence."""
    write_corpus(tmp_path, "xx")
    printed = prepare(tmp_path, "xx", "en", "--max-length", 250)
    assert f"{tmp_path}/train.xx: the text has no spaces between words, so sentencepiece" in printed
    assert chosen(tmp_path)["segmenter"] == "sentencepiece"
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}.lf", lines_of(tmp_path / f"{split}.en"))
    printed = prepare(tmp_path, "lf", "en", "--work", tmp_path / "other")
    assert "train.lf: 'lf' is not a known language, so words are split at spaces" in printed
    assert chosen(tmp_path)["segmenter"] == "subword-nmt"
    own = ("--work", tmp_path / "third", "--segmenter", "subword-nmt")
    assert "spaces" not in prepare(tmp_path, "xx", "en", *own)
    assert chosen(tmp_path)["segmenter"] == "subword-nmt"
    (tmp_path / "data/checksums.json").unlink()  # as an earlier version left them
    printed = prepare(tmp_path, "xx", "en", *own[:2])
    assert (
        "data in" in printed
        and "were segmented by subword-nmt, so subword-nmt is used again" in printed
    )
    assert chosen(tmp_path)["segmenter"] == "subword-nmt"
    assert json.loads((tmp_path / "data/checksums.json").read_text())


@pytest.mark.long(ci=True)
def test_what_the_parser_calls_the_language(tmp_path):
    write_corpus(tmp_path, "zh_TW")
    prepare(tmp_path, "zh_TW", "en")
    assert chosen(tmp_path)["parser"]["lang"] == "zh-hant"
    options = {"parser_lang": None, "parser_dir": None, "parser_tokenized": False}
    cfg = SimpleNamespace(source_lang="zh_TW", missing_tree="error", **options)
    assert parser_settings(cfg, None).lang == "zh-hant"


@pytest.mark.long(ci=True)
def test_too_many_pieces_are_refused_before_the_parse(tmp_path):
    """Here the parse would fail, because there are no trees."""
    write_corpus(tmp_path, "zho")
    given = ("prepare", "--source", "zho", "--target", "en", "--parser", "conllu", "--tokenize")
    given += ("moses", "--symbols", 4000, "--out", tmp_path / "data")
    files = [word for s in ("train", "valid", "test") for word in (f"--{s}", tmp_path / s)]
    printed = step(*given, *files, check=False).stdout
    assert re.search(r"for --symbols 4000; give at most --symbols \d+, or more text", printed)
