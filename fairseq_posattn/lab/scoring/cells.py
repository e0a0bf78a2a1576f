"""Format p-values and other table cells, and escape them for each output format.

Cells may contain names from the data. They are escaped so that they cannot inject LaTeX commands,
Markdown markup, spreadsheet formulas or invisible characters.
"""

from __future__ import annotations

import re

from fairseq_posattn.io.visible import visible

NONE = "–"
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}
SPECIAL |= {"±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$", "|": r"\textbar{}"}
FORMULA = tuple("=+-@＝＋－＠")  # first characters of formulas in spreadsheets
FIGURES = re.compile(r"\(?[-+]?[0-9.,]+(e[-+]?[0-9]+)?\)?|to|±")


def p_value(p: float | None, plain: bool = False) -> str:
    """Format a p-value with three decimals, or with six significant digits if `plain`."""
    if p is None:
        return NONE
    if plain:
        return f"{p:.6g}"
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def escaped(text: str) -> str:
    r"""Escape text for LaTeX.

    A leading [ or * is enclosed in braces, because LaTeX would read it as an argument of a
    preceding \\.
    """
    text = re.sub(r"-(?=-)", "-\0", visible(text))  # two hyphens would become a dash
    shown = "".join(SPECIAL.get(character, character) for character in text)
    return re.sub(r"^([\[*])", r"{\1}", shown.replace("\0", "{}"))


def in_markdown(text: str) -> str:
    """Escape text for a Markdown table cell."""
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", visible(text))
    return re.sub(r"\||<(?=[a-zA-Z/!?])", r"\\\g<0>", text)


def code_in_markdown(text: str) -> str:
    """Format a name as code in a Markdown table, or escape it if it cannot be code."""
    text = visible(text)
    if {"`", "\\"} & set(text) or text != text.strip():
        return in_markdown(text)
    return "`{}`".format(text.replace("|", r"\|"))


def in_csv(text: str) -> str:
    """Escape a CSV cell; put an apostrophe before text that spreadsheets read as a formula."""
    text = visible(text)
    is_formula = text.startswith(FORMULA) and not all(map(FIGURES.fullmatch, text.split()))
    return f"'{text}" if is_formula else text
