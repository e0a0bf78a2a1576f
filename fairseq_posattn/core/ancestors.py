"""Ancestors and depths of words in a tree, computed by pointer doubling."""

import torch
from torch import Tensor

# Number of doubling steps under torch.export. It is fixed, because the exported graph must support
# trees of any size. 16 steps suffice for 65,536 words, and extra steps do not change the result.
MOST_DOUBLINGS = 16
is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # missing in torch 2.1


def doublings(words: int) -> int:
    """Return the number of doubling steps after which all pointers have reached the root."""
    return MOST_DOUBLINGS if is_exporting() else max(words - 1, 1).bit_length()


def word_ancestors(parents: Tensor) -> Tensor:
    """Return a mask of shape (B, W, W), True if word j is word i or one of its ancestors."""
    length = parents.size(1)
    own = torch.arange(length, device=parents.device)
    found = own[:, None] == own  # W W
    found = found | (own == parents[:, :, None])  # B W W: each word and its parent
    above = parents
    for _ in range(doublings(length)):
        above = above.gather(1, above)
        found = found | found.gather(1, above[:, :, None].expand(-1, -1, length))
    return found


def word_depths(parents: Tensor) -> Tensor:
    """Return the depth of each word, of shape (B, W)."""
    length = parents.size(1)
    depths = (parents != torch.arange(length, device=parents.device)).long()
    ancestors = parents
    for _ in range(doublings(length)):
        depths = depths + depths.gather(1, ancestors)
        ancestors = ancestors.gather(1, ancestors)
    return depths
