"""Embeddings of word labels as additional input features (Sennrich and Haddow 2016).

For each piece, the relation or the part of speech of its word is embedded as a vector e. The vector
e is either added to the sum x of word embedding and positions, or concatenated with x and
projected: W [x ; e].
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.positions.position import Position, PositionShape
from fairseq_posattn.core.source_tree import END_LABEL, PADDING_LABEL, SourceTree
from fairseq_posattn.files.records import at_least, one_of


@dataclass(frozen=True)
class LabelOptions:
    fuse: str = option(
        "add",
        "add the embedding to the input (add), or concatenate and project both (concat)",
        one_of("add", "concat"),
    )
    width: int = option(32, "fuse=concat: width of the label embedding", at_least(1))


class LabelEmbedding(Position):
    """Base class for embeddings of one type of label."""

    Options = LabelOptions
    options: LabelOptions
    needs_tree = True

    def make_parameters(self) -> None:
        shape, options = self.shape, self.options
        width = shape.width if options.fuse == "add" else options.width
        labels = max(self.count(shape), END_LABEL + 1)
        self.embedding = nn.Embedding(labels, width, padding_idx=PADDING_LABEL)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        nn.init.zeros_(self.embedding.weight[PADDING_LABEL])
        if self.changes_input:
            self.projection = nn.Linear(shape.width + width, shape.width, bias=False)
            with torch.no_grad():  # initially passes on the input unchanged
                self.projection.weight[:, : shape.width] = torch.eye(shape.width)

    @property
    def changes_input(self) -> bool:
        return self.options.fuse == "concat"

    def count(self, shape: PositionShape) -> int:
        raise NotImplementedError

    def labels(self, tree: SourceTree) -> Tensor:
        """Return the label of each piece, of shape (B, T)."""
        raise NotImplementedError

    def forward(self, ctx: AttentionContext) -> Tensor:
        vectors: Tensor = self.embedding(self.labels(ctx.given_tree))
        return vectors

    def change(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        changed: Tensor = self.projection(torch.cat([x, self(ctx).type_as(x)], dim=-1))
        return changed


class RelationEmbedding(LabelEmbedding):
    """Adds or concatenates a learnt embedding of the word's dependency relation to the input."""

    name = "relation_embedding"
    paper = "Sennrich and Haddow 2016"
    needs_labels = ("relations",)

    def count(self, shape: PositionShape) -> int:
        return shape.relations

    def labels(self, tree: SourceTree) -> Tensor:
        return tree.relation_labels


class TagEmbedding(LabelEmbedding):
    """Adds or concatenates a learnt embedding of the word's part of speech to the input."""

    name = "tag_embedding"
    paper = "Sennrich and Haddow 2016"
    needs_labels = ("tags",)

    def count(self, shape: PositionShape) -> int:
        return shape.tags

    def labels(self, tree: SourceTree) -> Tensor:
        return tree.tag_labels
