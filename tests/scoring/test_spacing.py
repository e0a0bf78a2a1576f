"""A tokenised text beside a plain one is told to the user, and nothing else is."""

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import as_document
from fairseq_posattn.scoring.metrics.runs import Samples
from fairseq_posattn.scoring.metrics.scores import Scoring, Translations
from fairseq_posattn.scoring.metrics.texts import Text, spaced_differently
from support.files import write
from support.scored_systems import request

PLAIN = {
    "ja": ["私は昨日、新しい本を三冊買いました。", "これはペンです。", "彼は学生ではありません。"],
    "zh": ["他昨天在北京买了一本书。", "我用 Windows 系统，她不用。", "好的，我们走吧。"],
    "en": ["Well, the dog barks.", "It costs 3.5 euros, they say.", "Nobody has seen it."],
}
TOKENISED = {
    "ja": ["私 は 昨日 、 新しい 本 を 三 冊 買い まし た 。", "これ は ペン です 。"]
    + ["彼 は 学生 で は あり ませ ん 。"],
    "zh": [
        "他 昨天 在 北京 买 了 一 本 书 。",
        "我 用 Windows 系统 ， 她 不 用 。",
        "好 的 ， 走 吧 。",
    ],
    "en": ["Well , the dog barks .", "It costs 3.5 euros , they say .", "Nobody has seen it ."],
}


@pytest.mark.parametrize("language", PLAIN)
@pytest.mark.parametrize("swapped", [False, True])
def test_one_side_is_tokenised(language, swapped):
    texts = Text("plain", PLAIN[language]), Text("tokenised", TOKENISED[language])
    found = spaced_differently(*(reversed(texts) if swapped else texts))
    assert "are spaced differently" in found and "\n" not in found
    assert "plain" in found and "tokenised" in found


@pytest.mark.parametrize("language", PLAIN)
def test_texts_that_are_spaced_alike(language):
    for texts in (PLAIN[language], TOKENISED[language]):
        shorter = [line[: len(line) * 2 // 3] for line in texts]
        for others in (texts, shorter, texts[::-1]):
            assert spaced_differently(Text("a", texts), Text("b", others)) is None


@pytest.mark.parametrize("lines", [[], [""], ["", ""], ["a"], ["。"], [" "], ["\u3000"]])
def test_texts_that_say_nothing(lines):
    for others in (lines, PLAIN["ja"], TOKENISED["en"]):
        assert spaced_differently(Text("a", lines), Text("b", others)) is None


# posattn score


@pytest.fixture
def score_files(scored, monkeypatch, tmp_path, capsys):
    """Score texts of these lines; -> the scores, and what stands on stderr."""
    monkeypatch.chdir(tmp_path)

    def score_files(*options, **texts):
        for name, lines in texts.items():
            write(tmp_path / name, lines)
        return scored("hyp", *options)["scores"], capsys.readouterr().err

    return score_files


@pytest.mark.parametrize("hypotheses", ["plain", "tokenised"])
def test_a_warning_and_the_score(score_files, hypotheses):
    ours, theirs = (PLAIN, TOKENISED) if hypotheses == "plain" else (TOKENISED, PLAIN)
    options = "--references", "ref", "--tokenize", "zh"
    scores, printed = score_files(*options, hyp=ours["zh"], ref=theirs["zh"])
    assert printed.startswith("warning: hyp and ref are spaced differently (spaces between ")
    assert printed.count("\n") == 1 and len(printed) <= 300
    expected = Translations(Scoring([theirs["zh"]], request("", "zh")), [ours["zh"]])
    assert scores == as_document(expected.scores(Samples()))


def test_every_reference_and_the_baseline_are_looked_at(score_files):
    plain, tokenised = PLAIN["en"], TOKENISED["en"]
    options = "--references", "ref", "other", "--baseline", "base", "--samples", 2
    texts = {"hyp": plain, "ref": plain, "other": plain, "base": plain}
    for name in ("other", "base"):
        _, printed = score_files(*options, **{**texts, name: tokenised})
        assert f"{name} " in printed and printed.startswith("warning: ")
    assert score_files(*options, **texts)[1] == ""


# what a language's name means, and texts in which no spaces divide words

REFERENCE = ("--references", "ref")


@pytest.mark.parametrize("name", ["zh", "cmn", "zh_CN", "chinese"])
def test_a_perfect_translation_into_chinese(score_files, name):
    """With unknown names of Chinese, BLEU was 0.00."""
    scores, quiet = score_files(*REFERENCE, "-t", name, hyp=PLAIN["zh"], ref=PLAIN["zh"])
    assert scores["BLEU"]["score"] == pytest.approx(100) and not quiet
    assert "|tok:zh|" in scores["BLEU"]["signature"] and "tokenised BLEU" not in scores


@pytest.mark.parametrize("name", ["de", "German"])
def test_german_by_any_name(score_files, name):
    scores, _ = score_files(*REFERENCE, "-t", name, hyp=["Die Bus-Linie."], ref=["Die Bus-Linie."])
    assert scores["tokenised BLEU"]["signature"].endswith("|moses:de|compounds:split")


def test_a_language_that_nobody_knows(score_files):
    message = r"--target-lang klingon is not a known language; the nearest names are .*"
    with pytest.raises(InputError, match=message):
        score_files(*REFERENCE, "-t", "klingon", hyp=["nuqneH"], ref=["nuqneH"])
    options = (*REFERENCE, "-t", "klingon", "--tokenize", "13a")
    scores, _ = score_files(*options, hyp=["a b c d"], ref=["a b c d"])
    assert scores["BLEU"]["score"] == pytest.approx(100)


THAI = ["ฉันไปโรงเรียนทุกวันแต่วันนี้ฉันหยุด เพราะไม่สบาย"]


@pytest.mark.parametrize(
    ("options", "lines", "named"),
    [
        ("", PLAIN["zh"], "BLEU (13a), TER; give the language with --target-lang"),
        ("-t de", PLAIN["ja"], "BLEU (13a), TER, tokenised BLEU; give the language"),
        ("-t zh --nist", PLAIN["zh"], "NIST BLEU (13a); use the other scores"),
        ("-t th", THAI, "TER; use the other scores"),
        ("-t th --tokenize 13a", THAI, "BLEU (13a), TER; give the language"),
        ("-t zh", PLAIN["zh"], ""),
        ("--tokenize none", TOKENISED["zh"], ""),
        ("", PLAIN["en"], ""),
    ],
)
def test_words_where_there_are_no_spaces(score_files, options, lines, named):
    _, printed = score_files(*REFERENCE, *options.split(), hyp=lines, ref=lines)
    warnings = [line for line in printed.splitlines() if line.startswith("warning: ref: ")]
    assert len(warnings) == bool(named) and named in "".join(warnings)
    assert not named or "are wrong: " + named in warnings[0]
