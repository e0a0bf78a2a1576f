"""The tagger of Dufter et al. 2020; it requires only torch.

The paper is "Increasing Learning Efficiency of Self-Attention Networks" (Table 1). Position
embeddings are added to the word embeddings or concatenated with them. A vector computed from the
characters of each word is then concatenated. Layers of [dropout, self-attention, residual
connection] follow. The scores of the tags are computed from the embedding and the output of the
last layer.

Details that the paper omits follow the authors' code: the attention has no bias and no output
projection, there are three convolutions over the characters, and the residual connection starts
after the dropout.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    Mechanism,
    MultiheadSelfAttention,
)
from fairseq_posattn.core.attention.direct import glorot_normal_

PADDING = 0  # index of padding among words and among characters


@dataclass(frozen=True)
class TaggerShape:
    """The sizes of a tagger.

    The numbers of words, characters and labels include the symbols for padding and unknown items.
    """

    words: int
    characters: int
    labels: int
    word_width: int = 128
    character_width: int = 64
    filters: int = 64
    kernel: int = 5
    convolutions: int = 3
    layers: int = 4
    heads: int = 4
    max_positions: int = 60
    positions: str = "added"  # none, added, concatenated

    @property
    def width(self) -> int:
        """Return the width of the attention layers.

        It is the sum of the widths of the word embedding, the position embedding (if it is
        concatenated) and the character vector.
        """
        positions = self.word_width if self.positions == "concatenated" else 0
        return self.word_width + positions + self.filters

    @property
    def attention(self) -> AttentionShape:
        return AttentionShape(self.heads, self.width // self.heads, self.max_positions)


class CharacterConvolutions(nn.Module):
    """Computes a vector from the characters of a word by convolutions, ReLU and max pooling."""

    def __init__(self, shape: TaggerShape):
        super().__init__()
        self.embedding = nn.Embedding(shape.characters, shape.character_width)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
        widths = [shape.character_width] + [shape.filters] * shape.convolutions
        convolutions = [
            nn.Conv1d(before, after, shape.kernel, padding="same")
            for before, after in itertools.pairwise(widths)
        ]
        self.convolutions = nn.ModuleList(convolutions)
        for convolution in convolutions:
            nn.init.xavier_uniform_(convolution.weight)
            assert convolution.bias is not None  # Conv1d's default
            nn.init.zeros_(convolution.bias)

    def forward(self, spellings: Tensor) -> Tensor:
        """Convert spellings, of shape (U, C), to one vector each, of shape (U, F).

        Padding is set to zero, so the result does not depend on the length of other words.
        """
        real = (spellings != PADDING)[:, None]  # U 1 C
        x: Tensor = self.embedding(spellings).transpose(1, 2) * real  # U E C
        for convolution in self.convolutions:
            x = convolution(x).relu() * real
        return x.amax(dim=-1)


class TaggerLayer(nn.Module):
    """Dropout, self-attention and a residual connection on tensors of shape (T, B, C)."""

    def __init__(self, shape: TaggerShape, mechanisms: Sequence[Mechanism], dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.attention = MultiheadSelfAttention(
            shape.width, shape.heads, mechanisms, bias=False, output=False
        )
        for name in ("q_proj", "k_proj", "v_proj"):
            weight = getattr(self.attention, name).weight
            glorot_normal_(weight, shape.width, shape.width / shape.heads)  # fan-out of one head

    def forward(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        x = self.attention.before(self.dropout(x), ctx)
        attended: Tensor = self.attention(x, ctx)[0]
        return x + attended


class Tagger(nn.Module):
    """Computes a score for each label of each word.

    Example:

        tagger = Tagger(TaggerShape(words=9000, characters=90, labels=17), attention)
    """

    def __init__(self, shape: TaggerShape, attention: AttentionSpecification, dropout: float = 0.1):
        super().__init__()
        attention.check(shape.layers, shape.attention)
        self.shape = shape
        self.words = nn.Embedding(shape.words, shape.word_width)
        nn.init.uniform_(self.words.weight, -0.05, 0.05)
        self.positions = None
        if shape.positions != "none":
            self.positions = nn.Embedding(shape.max_positions, shape.word_width)
            nn.init.uniform_(self.positions.weight, -0.05, 0.05)
        self.characters = CharacterConvolutions(shape)
        shared: dict[str, nn.Module] = {}
        self.layers = nn.ModuleList(
            TaggerLayer(shape, attention.build(layer, shape.attention, shared), dropout)
            for layer in range(shape.layers)
        )
        self.shared_mechanisms = nn.ModuleDict(shared)
        self.output = nn.Linear(2 * shape.width, shape.labels)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, words: Tensor, spellings: Tensor, spelling_of: Tensor) -> Tensor:
        """Return the scores of the labels, of shape (B, T, labels).

        words: tensor of shape (B, T).
        spellings: the characters of the distinct words in the batch, of shape (U, C).
        spelling_of: the row of `spellings` for each word, of shape (B, T).
        """
        ctx = self.context(words)
        embedded = self.embed(words, ctx)  # B T word_width, twice that with concatenated positions
        embedded = torch.cat([embedded, self.characters(spellings)[spelling_of]], dim=-1)  # B T C
        x = embedded.transpose(0, 1)  # T B C
        for layer in self.layers:
            x = layer(x, ctx)
        scores: Tensor = self.output(torch.cat([embedded, x.transpose(0, 1)], dim=-1))
        return scores

    def context(self, words: Tensor) -> AttentionContext:
        real = words != PADDING
        return AttentionContext(words.size(1), words.device, None if real.all() else real)

    def embed(self, words: Tensor, ctx: AttentionContext) -> Tensor:
        """Return word embeddings with positions, of shape (B, T, word_width).

        The width is doubled if positions are concatenated.
        """
        x: Tensor = self.words(words)
        if self.positions is None:
            return x
        position = self.positions(ctx.positions.clamp(min=0)).expand_as(x)
        return x + position if self.shape.positions == "added" else torch.cat([x, position], dim=-1)
