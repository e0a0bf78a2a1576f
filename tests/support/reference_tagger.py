"""This slow reference is the tagger of Dufter et al. 2020, written from the paper's text.

Its attention is that of `reference_mechanisms`, and like there plain loops go over float64 scalars.
One sentence without padding and without dropout: T words at positions 0 … T-1.
"""

import torch

from support import reference_mechanisms as slow
from support.reference import _numbers, _sum, _vector, linear

PARTS = {  # sections 2.3 to 2.5
    "direct_absolute": lambda m: slow.DirectAbsolute(m.scores),
    "direct_relative": lambda m: (
        slow.DirectRelativeSymmetric if m.options.symmetric else slow.DirectRelative
    )(m.scores),
    "temperature": lambda m: slow.Temperature(*m.gamma),
    "convolved_1d": lambda m: slow.Convolved1d(m.weight.permute(0, 3, 2, 1), m.bias),
    "convolved_2d": lambda m: slow.Convolved2d(m.weight[:, 0], m.bias),
}


def scores_of_tags(network, words: list[int], spellings: list[list[int]]) -> torch.Tensor:
    """Return the scores before the softmax, a row for each word, with a network's parameters."""
    x = embedded = [
        embedding(network, place, word, spelling)
        for place, (word, spelling) in enumerate(zip(words, spellings, strict=True))
    ]
    for layer in network.layers:  # sigma(A) X W_v of each head, joined (section 2.2)
        module = layer.attention
        projections = {f"{n}_proj": (getattr(module, f"{n}_proj").weight, None) for n in "qkv"}
        parts = [PARTS[name](mechanism) for name, mechanism in module.mechanisms.items()]
        found, _ = slow.multi_head(x, projections, module.heads, parts)
        x = [_sum(row, change) for row, change in zip(x, found, strict=True)]
    output = network.output.weight, network.output.bias
    rows = [linear([*first, *last], *output) for first, last in zip(embedded, x, strict=True)]
    return torch.stack([torch.stack(row) for row in rows])


def embedding(network, place: int, word: int, spelling: list[int]) -> list:
    """Section 2.1: the word with its position, then what its characters say."""
    vector = _vector(network.words.weight[word])
    if network.shape.positions == "added":
        vector = _sum(vector, network.positions.weight[place])
    if network.shape.positions == "concatenated":
        vector = [*vector, *network.positions.weight[place]]
    return [*vector, *of_characters(network.characters, spelling)]


def of_characters(characters, spelling: list[int]) -> list:
    """Apply convolutions of the same length with ReLU, then take the largest of each filter."""
    x = _numbers(characters.embedding.weight[spelling])
    for convolution in characters.convolutions:
        rows = slow._convolution(x, convolution.weight, convolution.bias)
        x = [slow._relu(row) for row in rows]
    return [max(numbers, key=torch.Tensor.item) for numbers in zip(*x, strict=True)]
