"""New training examples for SLOG, made from hand-made ones."""

import pytest

from support.commands import ROOT, script

RECOMBINE = script(ROOT / "recipes/slog/recombine.py")
EXAMPLES = {
    "A cat ate the cake on a table .": "eat ( agent = cat , theme = * cake ( nmod . on = table ) )",
    "Emma slept .": "sleep ( agent = Emma )",
}


def test_phrases_with_modifiers_take_the_place_of_others():
    """A grammar derives every new example, and typical ones are among them."""
    nouns = {"a cat": "cat", "Emma": "Emma", "a table": "table"}
    for _ in range(3):
        nouns |= {f"the cake on {n}": f"* cake ( nmod . on = {form} )" for n, form in nouns.items()}
    derived = {f"{a} slept .": f"sleep ( agent = {form} )" for a, form in nouns.items()}
    derived |= {
        f"{a} ate {b} .": f"eat ( agent = {one} , theme = {other} )"
        for a, one in nouns.items()
        for b, other in nouns.items()
    }
    forms = {words[0].upper() + words[1:]: form for words, form in derived.items()}
    pairs = [(words.split(), form.split()) for words, form in EXAMPLES.items()]
    new = RECOMBINE.recombined(pairs, 1000, seed=3)
    found = {" ".join(words): " ".join(form) for words, form in new}
    assert {words: forms.get(words) for words in found} == found
    assert not found.keys() & EXAMPLES.keys()
    assert {"The cake on a table slept .", "A cat ate Emma .", "A cat ate a cat ."} <= found.keys()
    assert "Emma ate the cake on the cake on a table ." in found


@pytest.mark.parametrize(
    ("sentence", "form", "expected"),
    [
        (
            "Emma saw the cat that Liam gave to a dog .",
            "see ( agent = Emma , theme = * cat ( nmod = give ( agent = Liam , theme = * cat , "
            "recipient = dog ) ) )",
            {
                "the cat that Liam gave to a dog": "* cat ( nmod = give ( agent = Liam , theme = "
                "* cat , recipient = dog ) )",
                **{"Emma": "Emma", "Liam": "Liam", "a dog": "dog"},
            },
        ),
        ("A dog wanted to sleep .", "want ( agent = dog , xcomp = sleep ( agent = dog ) )", {}),
        ("What did the cat eat ?", "eat ( agent = * cat , theme = ? )", {"the cat": "* cat"}),
    ],
)
def test_only_whole_phrases_that_nothing_else_denotes_are_exchanged(sentence, form, expected):
    words, parts = sentence.split(), form.split()
    found = RECOMBINE.phrases(words, parts)
    assert expected == {
        " ".join(words[one.start : one.end]): " ".join(parts[one.first : one.last]) for one in found
    }
