"""Grow-diag-final-and in plain loops over all pairs of words, as in the pseudocode of Koehn."""

STEPS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def symmetrized(forward, reverse, sources: int, targets: int) -> list:
    """The links of two alignments of a pair with so many words on each side."""
    found = [link for link in forward if link in reverse]

    def unaligned(word: int, side: int) -> bool:
        return all(link[side] != word for link in found)

    added = True
    while added:
        added = False
        for s in range(sources):
            for t in range(targets):
                if (s, t) not in found:
                    continue
                for ds, dt in STEPS:
                    new = (s + ds, t + dt)
                    free = unaligned(new[0], 0) or unaligned(new[1], 1)
                    if free and (new in forward or new in reverse):
                        found.append(new)
                        added = True
    for links in (forward, reverse):
        for s in range(sources):
            for t in range(targets):
                if unaligned(s, 0) and unaligned(t, 1) and (s, t) in links:
                    found.append((s, t))
    return sorted(found)
