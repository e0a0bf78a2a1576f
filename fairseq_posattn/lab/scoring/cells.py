"""Write p values and other cells of tables as text, safe in each format of a table.

Cells may hold names that come with the data, so whatever stands in them is shown as it is: it is
no command of LaTeX, no column or markup of Markdown, no formula of a spreadsheet, and no hidden
character.
"""

from __future__ import annotations

import re

from fairseq_posattn.io.visible import visible

NONE = "–"
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}
SPECIAL |= {"±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$", "|": r"\textbar{}"}
FORMULA = tuple("=+-@＝＋－＠")  # a spreadsheet takes what begins so for a formula
FIGURES = re.compile(r"\(?[-+]?[0-9.,]+(e[-+]?[0-9]+)?\)?|to|±")


def p_value(p: float | None, plain: bool = False) -> str:
    """Return a p value as text."""
    if p is None:
        return NONE
    if plain:
        return f"{p:.6g}"
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def escaped(text: str) -> str:
    """Return a text as LaTeX shows it.

    What begins with [ or * would be an option of the end of the row before it.
    """
    text = re.sub(r"-(?=-)", "-\0", visible(text))  # two hyphens would become a dash
    shown = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub(r"^([\[*])", r"{\1}", shown.replace("\0", "{}"))


def in_markdown(text: str) -> str:
    """Return a text as a cell of a table in Markdown shows it."""
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", visible(text))
    return re.sub(r"\||<(?=[a-zA-Z/!?])", r"\\\g<0>", text)


def code_in_markdown(text: str) -> str:
    """Return a name as a cell of a table in Markdown shows it, as code if that can hold it."""
    text = visible(text)
    if {"`", "\\"} & set(text) or text != text.strip():
        return in_markdown(text)
    return "`{}`".format(text.replace("|", r"\|"))


def in_csv(text: str) -> str:
    """Return a text as a cell of a CSV file holds it.

    An apostrophe stands before what a spreadsheet would take for a formula; figures stay figures.
    """
    text = visible(text)
    is_formula = text.startswith(FORMULA) and not all(map(FIGURES.fullmatch, text.split()))
    return f"'{text}" if is_formula else text
