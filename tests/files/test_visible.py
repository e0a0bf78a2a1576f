"""Characters without a shape are shown as escapes, wherever foreign text is printed."""

import pytest

from fairseq_posattn.files.terminal import visible, visible_strings

# U+202A to 202E, U+2066 to 2069, U+200E, U+200F, U+061C: they change the direction of writing
DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
OTHERS = "\u200b\u2060\u2061\ufeff\u00ad\u180e\ufff9\U000e0041\u034f\u3164\x00\x1b\x85\u2028\r\n\t"


@pytest.mark.parametrize("char", DIRECTIONS + OTHERS + "\ud800")
def test_what_has_no_shape_is_escaped(char):
    code = f"{ord(char):x}"
    shown = visible(f"a{char}b")
    assert shown.startswith("a\\") and shown.endswith("b") and char not in shown
    assert code in shown or char in "\r\n\t"
    shown.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Das ist „gut“ – für 10 €.",
        "我们去北京。　全角",
        "10\u00a0000\u202fkm",  # spaces have a width
        "שלום עולם",
        "السلام عليكم، ٣٫٥",
        "می\u200cخواهم",  # Persian spells some words with a joiner
        "क्\u200dष और क्\u200d",
        "👩\u200d👩\u200d👧 ❤\ufe0f\u200d🔥",
        "\u0600\u06dd١",  # Arabic signs of the category of formats that have a shape
    ],
)
def test_what_can_be_seen_or_belongs_to_the_spelling_stays(text):
    assert visible(text) == text


@pytest.mark.parametrize("text", ["ad\u200cmin", "\u200da", " \u200d", "\u202e\u200d", "a\u200d"])
def test_joiners_that_join_nothing(text):
    assert "\\u200" in visible(text)


def test_strings_of_a_document():
    document = {"a\u202e": ["\u202e", 1, None, {"b": "\u200b"}], "c": True}
    expected = {"a\\u202e": ["\\u202e", 1, None, {"b": "\\u200b"}], "c": True}
    assert visible_strings(document) == expected
