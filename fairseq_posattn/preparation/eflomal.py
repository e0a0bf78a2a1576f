"""Align two texts with eflomal (Östling and Tiedemann 2016), and symmetrise both directions."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_together, written_whole
from fairseq_posattn.files.files import same_number_of_lines
from fairseq_posattn.jobs.lines import Part
from fairseq_posattn.preparation.pairs import rows

PROGRAM = "eflomal-align"
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
Link = tuple[int, int]  # indices of a source word and a target word


def program() -> str:
    """Return the path of eflomal; raise an InputError if it is not installed."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    if found := shutil.which(PROGRAM, path=os.pathsep.join(folders)):
        return found
    raise InputError(
        "--align eflomal requires the program eflomal; install it with pip install "
        "'fairseq_posattn[align]', which needs a C compiler, or leave out --align"
    )


def align_texts(texts: Sequence[str], outputs: Sequence[str]) -> None:
    """Write the alignments of two tokenised texts in both directions, as pairs such as 3-1.

    eflomal draws a new random seed in each run, so the alignments of two runs differ slightly.
    """
    with replaced_together(outputs) as partials:
        command = [program(), "--overwrite"]
        for option, path in zip(("-s", "-t", "-f", "-r"), [*texts, *partials], strict=True):
            command += [option, str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
            raise InputError(
                f"eflomal cannot align {texts[0]} and {texts[1]} ({said[-1]}); solve this problem, "
                "for example by freeing memory or disk space, and run the same command again"
            )
        same_number_of_lines([texts[0], *partials])


def symmetrize_lines(part: Part) -> None:
    """Combine the alignments of both directions with the grow-diag-final-and heuristic."""
    with written_whole(part.outputs[0]) as file:
        for pair in rows(part.inputs):
            links = grow_diag_final_and(*map(links_of, pair))
            file.write(" ".join(f"{source}-{target}" for source, target in links) + "\n")


def links_of(line: str) -> set[Link]:
    pairs = (pair.split("-") for pair in line.split())
    return {(int(source), int(target)) for source, target in pairs}


def grow_diag_final_and(forward: set[Link], reverse: set[Link]) -> list[Link]:
    """Symmetrise two alignments of a sentence pair (Koehn et al. 2005).

    Begin with the intersection. Repeatedly add the links of the union that are adjacent to an added
    link, also diagonally, and contain an unaligned word. Then add the links of `forward`, and those
    of `reverse`, in which both words are unaligned.
    """
    union, found = forward | reverse, forward & reverse
    sources, targets = ({link[side] for link in found} for side in (0, 1))

    def add(link: Link) -> None:
        found.add(link)
        sources.add(link[0])
        targets.add(link[1])

    def grown() -> bool:
        """Add neighbours of all links in order, also of links that are added meanwhile."""
        before, queue = len(found), sorted(found)  # heapq accepts a sorted list as a heap
        while queue:
            at = heappop(queue)
            for down, right in NEIGHBOURS:
                new = (at[0] + down, at[1] + right)
                if new in union and (new[0] not in sources or new[1] not in targets):
                    add(new)
                    if new > at:
                        heappush(queue, new)
        return len(found) > before

    while grown():
        pass
    for links in (forward, reverse):
        for link in sorted(links):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return sorted(found)
