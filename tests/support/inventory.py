"""What a figure of matplotlib holds, in lines that a test can compare and a person can read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from matplotlib.colors import to_hex


def inventory(figure) -> list[str]:
    """Return a line for each text, line, patch and image of a figure, in the order of drawing."""
    found = [f"figure {numbers(figure.get_size_inches())}", *map(text, figure.texts)]
    for axes in figure.axes:
        limits = numbers([*axes.get_xlim(), *axes.get_ylim()])
        found.append(f"axes at {numbers(axes.get_position().bounds)} limits {limits}")
        found += [f"ticks {numbers(axis.get_ticklocs())}" for axis in (axes.xaxis, axes.yaxis)]
        # matplotlib has no public name for the title on the left
        titles = [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        found += [text(one) for one in [*titles, *axes.texts] if one.get_text()]
        found += [line(one) for one in axes.lines]
        found += [patch(one) for one in axes.patches]
        found += [image(one) for one in axes.images]
    return found


def text(artist) -> str:
    place = numbers(artist.get_position())
    style = f"{artist.get_fontsize():g} {artist.get_fontweight()} {to_hex(artist.get_color())}"
    sides = f"{artist.get_ha()} {artist.get_va()} {artist.get_rotation():g}"
    return f"text {artist.get_text()!r} at {place} {style} {sides}"


def line(artist) -> str:
    style = f"{artist.get_linewidth():g} {artist.get_linestyle()} {artist.get_marker()!r}"
    return f"line {numbers(artist.get_xydata().ravel())} {style} {to_hex(artist.get_color())}"


def patch(artist) -> str:
    path = artist.get_path().transformed(artist.get_patch_transform())
    colours = [to_hex(colour, True) for colour in (artist.get_facecolor(), artist.get_edgecolor())]
    return f"patch {numbers(path.vertices.ravel())} {artist.get_linewidth():g} {' '.join(colours)}"


def image(artist) -> str:
    values = artist.get_array()
    colours = f"{artist.get_cmap().name} {numbers(artist.get_clim())}"
    return f"image {values.shape} sum {values.sum():.1f} {colours} {numbers(artist.get_extent())}"


def numbers(values) -> str:
    """Return numbers as they are compared: a thousandth is a difference, rounding is none."""
    return "[" + " ".join(f"{round(float(value), 3) + 0.0:g}" for value in values) + "]"


def equals_recorded(found: dict[str, list[str]], path: Path) -> None:
    """Compare with what was recorded; `NEW_PICTURES=1 pytest FILE` records after a change."""
    if os.environ.get("NEW_PICTURES"):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert found.keys() == recorded.keys()
    for name, lines in found.items():
        assert lines == recorded[name], name
