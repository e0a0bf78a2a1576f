"""Write p values and other cells of tables as text."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "–"
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


def holm(values: Sequence[float]) -> list[float]:
    """Return p values that are corrected for the number of tests (Holm 1979).

    The smallest p is multiplied by the number of tests, the next one by one less, and so on; a
    larger p never becomes smaller than the one before it.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = largest
    return corrected


def p_value(p: float | None, plain: bool) -> str:
    """Return a p value as text."""
    if p is None:
        return NONE
    if plain:
        return f"{p:.6g}"
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def escaped(text: str) -> str:
    """Return a text as LaTeX shows it."""
    shown = "".join(SPECIAL.get(character, character) for character in text)
    return shown.replace("±", r"$\pm$").replace("–", "--").replace("<", "$<$")
