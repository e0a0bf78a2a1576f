"""Names of languages mean what users of machine translation mean by them."""

import re

import pytest
from sacrebleu import DATASETS
from sacrebleu.metrics import BLEU
from sacremoses.corpus import NonbreakingPrefixes

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.languages import find, known, lacks_spaces, language

SAME = {
    "zh": "zho chi cmn cn zh_CN zh-cn zh-Hans zho_Hans zh_TW chinese Mandarin Traditional_Chinese",
    "de": "deu ger German de_DE de-de de-AT deu_Latn de_XX DE",
    "pt": "por pt_BR pt-br Portuguese",
    "ja": "jpn ja_XX jp jpn_Jpan japanese",
    "el": "ell gre",
    "sr": "srp sr-Latn sr_Cyrl srp_Cyrl",
    "ar": "arb_Arab",
    "ht": "haitian-creole",
    "es": "es-419",
}


@pytest.mark.parametrize("code", SAME)
def test_names_of_a_language(code):
    assert {find(name).code for name in [code, *SAME[code].split()]} == {code}


@pytest.mark.parametrize("name", ["klingon", "src", "xx", "en-de", "zh-en", "de_clean", "", "-"])
def test_what_is_no_language(name):
    assert find(name) is None and language(name).spaced
    with pytest.raises(InputError, match=r"is not a known language; the nearest names are .* \("):
        known("--target-lang", name)


@pytest.mark.parametrize(("name", "near"), [("chinees", "Chinese (zh)"), ("en-de", "German (de)")])
def test_the_nearest_names(name, near):
    with pytest.raises(InputError, match=re.escape(near)):
        known("--target-lang", name)


def test_what_libraries_know_is_known():
    pairs = {pair for dataset in DATASETS.values() for pair in dataset.langpairs}
    names = {name for pair in pairs for name in pair.split("-", 1)}
    names |= {*NonbreakingPrefixes().available_langs.values(), *BLEU._TOKENIZER_MAP}
    assert {name for name in names if find(name) is None} == set()
    assert all(language(name).tokenizer == one for name, one in BLEU._TOKENIZER_MAP.items())


def test_stanzas_names_are_kept():
    constant = pytest.importorskip("stanza.models.common.constant")
    names = {code for code, _ in constant.lcode2lang_raw} - {"ajp"}
    assert {name for name in names if language(name).stanza != name} == set()
    asked = ["zh", "cmn", "zh_CN", "zh_TW", "zho_Hant", "se", "nob", "ger", "toy"]
    assert [language(name).stanza for name in asked] == [
        *("zh", "zh", "zh-hans", "zh-hant", "zh-hant", "sme", "nb", "de", "toy")
    ]


@pytest.mark.parametrize("name", ["zh_TW", "yue", "jpn", "th", "khm", "lao", "Burmese"])
def test_languages_without_spaces(name):
    assert not language(name).spaced and language(name).tokenizer


def test_pinyin_has_spaces():
    assert language("zh-Latn").spaced and language("zh-Latn").tokenizer is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["他昨天在北京买了一本书。", "我用 Windows 系统，她不用。"], True),
        (["これはペンです。"], True),
        (["ฉันไปโรงเรียนทุกวันแต่วันนี้ฉันหยุด เพราะไม่สบาย"], True),
        (["ខ្ញុំស្រលាញ់ភាសាខ្មែរ"], True),
        (["ຂ້ອຍຮັກພາສາລາວ"], True),
        (["ကျွန်တော်မြန်မာစာကိုချစ်တယ်"], True),
        (["他 昨天 在 北京 买 了 一 本 书 。"], False),
        (["ฉัน ไป โรงเรียน ทุกวัน แต่ วันนี้ ฉัน หยุด เพราะ ไม่ สบาย"], False),
        (["나는 어제 책을 샀다."], False),
        (["In Chinese, 猫 is the word for a cat."], False),
        (["Он купил книгу."], False),
        ([], False),
    ],
)
def test_what_a_text_shows(lines, expected):
    assert lacks_spaces(lines) is expected
