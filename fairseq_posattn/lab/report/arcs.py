"""Draw a dependency tree as SVG, with arcs above the words and depths below them."""

from __future__ import annotations

from xml.etree import ElementTree

from fairseq_posattn.trees.drawing import LETTER, RADIUS, SIDE, Arc, TreeLayout, width_of

LEVEL, LABELLED_LEVEL = 20, 27
ROOT = 24  # distance from the highest arc up to the start of the root's arrow
WORDS, DEPTHS, BOTTOM = 19, 40, 48  # below the arcs: baselines of words and depths, lower edge


def tree_svg(layout: TreeLayout) -> str:
    """Return a dependency tree as an SVG element, in which all text is escaped."""
    places, relations = layout.places, layout.relations
    level = LEVEL if relations is None else LABELLED_LEVEL
    feet = level * layout.levels + ROOT + 14
    last = width_of(layout.words[-1], LETTER) / 2 if layout.words else 0
    starts = [layout.ends(arc)[0] for arc in layout.arcs]
    right = max([places[-1] + max(last, 30) if places else 0, *starts]) + SIDE
    width, height = f"{right:.0f}", f"{feet + BOTTOM:.0f}"
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    svg = ElementTree.Element(
        "svg", {"class": "tree", **size, "role": "img", "aria-label": "dependency tree"}
    )
    for root in layout.roots:
        _draw_root(svg, places[root], feet, relations[root] if relations else None)
    for arc in layout.arcs:
        _draw_arc(svg, layout, arc, feet, feet - level * arc.level)
    for place, word, depth in zip(places, layout.words, layout.depths, strict=True):
        _text(svg, place, feet + WORDS, word, "word")
        _text(svg, place, feet + DEPTHS, str(depth), "depth")
    return ElementTree.tostring(svg, encoding="unicode")


def _draw_root(svg: ElementTree.Element, x: float, feet: float, label: str | None) -> None:
    group = ElementTree.SubElement(svg, "g", {"class": "arc root"})
    ElementTree.SubElement(group, "path", {"class": "line", "d": f"M{x:.1f} 14V{feet - 5:.1f}"})
    _draw_head(group, x, feet)
    _text(group, x, 10, label or "root", "relation")


def _draw_arc(
    svg: ElementTree.Element, layout: TreeLayout, arc: Arc, feet: float, top: float
) -> None:
    start, end = layout.ends(arc)
    turn = RADIUS if end > start else -RADIUS
    pairs = {"data-parent": str(arc.parent + 1), "data-child": str(arc.child + 1)}
    group = ElementTree.SubElement(svg, "g", {"class": "arc", **pairs})
    side = top + RADIUS
    path = (
        f"M{start:.1f} {feet:.1f}V{side:.1f}Q{start:.1f} {top:.1f} {start + turn:.1f} {top:.1f}"
        f"H{end - turn:.1f}Q{end:.1f} {top:.1f} {end:.1f} {side:.1f}V{feet - 5:.1f}"
    )
    ElementTree.SubElement(group, "path", {"class": "line", "d": path})
    _draw_head(group, end, feet)
    if layout.relations is not None:
        _text(group, (start + end) / 2, top + 3.5, layout.relations[arc.child], "relation")


def _draw_head(group: ElementTree.Element, x: float, feet: float) -> None:
    """Draw an arrow head as a path; an SVG marker would need an id that is unique in the page."""
    shape = f"M{x:.1f} {feet:.1f}l-3.6 -7.5q3.6 1.6 7.2 0z"
    ElementTree.SubElement(group, "path", {"class": "head", "d": shape})


def _text(parent: ElementTree.Element, x: float, y: float, text: str, kind: str) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": "middle"}
    ElementTree.SubElement(parent, "text", {"class": kind, **place}).text = text
