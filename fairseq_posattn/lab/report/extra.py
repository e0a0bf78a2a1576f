"""Describe a section that another part of the package adds to the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from fairseq_posattn.lab.report.heads import Map
from fairseq_posattn.lab.scoring.plain_tables import Table


@dataclass(frozen=True)
class MapGroup:
    """These are maps of layers and heads that belong together, such as those of one model."""

    title: str
    maps: Sequence[Map]

    @property
    def columns(self) -> int:
        """Return the number of heads."""
        return max((len(row) for one in self.maps for row in one.rows), default=0)


@dataclass(frozen=True)
class ExtraSection:
    """A section has figures, tables with notes, and maps of layers and heads."""

    id: str
    title: str
    figures: Sequence[Markup] = ()
    tables: Sequence[Table] = field(default_factory=tuple)
    groups: Sequence[MapGroup] = ()
