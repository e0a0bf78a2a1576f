"""structured_translation: fairseq's translation task with a dependency tree for each source.

Binarised data have their trees beside them; new text gets them from a tree provider.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

import itertools
import logging
import os
from collections import deque
from dataclasses import dataclass, field
from typing import Optional

import torch
from fairseq import utils
from fairseq.data import indexed_dataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_posattn.attention import AttentionSpecification
from fairseq_posattn.data.tree_dataset import FlatTrees, JoinedTrees, ListedTrees, TreeDataset
from fairseq_posattn.data.tree_files import load_tree_file
from fairseq_posattn.positions.registry import PositionSpecification
from fairseq_posattn.providers import PROVIDERS, build_provider
from fairseq_posattn.trees import TreeError, flat_tree, words_of_pieces
from fairseq_posattn.trees.checks import SEVERAL_ROOTS, checked_tree
from fairseq_posattn.trees.projection import SEPARATOR
from fairseq_posattn.trees.store import exists

logger = logging.getLogger(__name__)

Tree = tuple[list[int], list[int]]  # parents, pieces of each word


@dataclass
class StructuredTranslationConfig(TranslationConfig):
    tree_provider: Optional[ChoiceEnum(list(PROVIDERS))] = field(
        default=None,
        metadata={
            "help": "where the trees of new text come from (interactive, hub); "
            "default: conllu with --tree-file, else none"
        },
    )
    tree_file: Optional[str] = field(
        default=None,
        metadata={"help": "CoNLL-U file: the k-th line of new text takes its k-th tree"},
    )
    missing_tree: ChoiceEnum(["error", "flat"]) = field(
        default="error",
        metadata={
            "help": "what to do with a sentence that has no tree: stop, or translate it with a "
            "flat one (each word a child of the first)"
        },
    )
    several_roots: ChoiceEnum(list(SEVERAL_ROOTS)) = field(
        default="error",
        metadata={
            "help": "what to do with a tree of several roots in new text: stop, or keep the first, "
            "with the others as its children"
        },
    )
    piece_separator: str = field(
        default=SEPARATOR, metadata={"help": "ends a piece that its word goes on after"}
    )


@register_task("structured_translation", dataclass=StructuredTranslationConfig)
class StructuredTranslationTask(TranslationTask):
    """Trees are loaded only where a model reads them, so that others pay nothing."""

    provides_trees = True

    def __init__(self, cfg, src_dict, tgt_dict):
        if cfg.upsample_primary < 1:  # fairseq's default of -1 breaks its own concatenation
            cfg.upsample_primary = 1
        super().__init__(cfg, src_dict, tgt_dict)
        self.needs_trees: bool | None = None  # not known before a model is built
        self.provider = None
        self.new_trees: list[Tree] | None = None  # of the lines to translate next
        self.batches: deque[dict] = deque()  # collated, not yet translated

    # models

    def build_model(self, cfg, from_checkpoint=False):
        store_canonical(cfg)
        model = super().build_model(cfg, from_checkpoint)
        encoder = getattr(model, "encoder", None)
        self.needs_trees = bool(self.needs_trees) or getattr(encoder, "needs_tree", False)
        return model

    # binarised data

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        super().load_dataset(split, epoch, combine, **kwargs)
        prefixes = self.source_prefixes(split, epoch, combine)
        if self.needs_trees is None and not all(map(exists, prefixes)):
            return
        if self.needs_trees is not False:
            dataset = self.datasets[split]
            trees = self.load_trees(prefixes, dataset.src)
            self.datasets[split] = TreeDataset(dataset, trees)

    def get_batch_iterator(self, dataset, *args, **options):
        """Outside of training every sentence counts: fairseq after 0.12.2 drops the last ones, and
        those are the longest, if they do not fill --required-batch-size-multiple."""
        if dataset is not self.datasets.get(self.cfg.train_subset):
            options["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **options)

    def source_prefixes(self, split: str, epoch: int, combine: bool) -> list[str]:
        """The files that fairseq's loader takes for a split: train, train1, ... if combined."""
        paths = utils.split_paths(self.cfg.data)
        path = paths[(epoch - 1) % len(paths)] if split == self.cfg.train_subset else paths[0]
        prefixes = []
        for k in itertools.count():
            prefix = self.source_prefix(os.path.join(path, split + (str(k) if k else "")))
            if prefix is None:
                return prefixes
            prefixes.append(prefix)
            if not combine:
                return prefixes

    def source_prefix(self, start: str) -> str | None:
        source, target = self.cfg.source_lang, self.cfg.target_lang
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            prefix = f"{start}.{pair}.{source}"
            if indexed_dataset.dataset_exists(prefix, impl=self.cfg.dataset_impl):
                return prefix
        return None

    def load_trees(self, prefixes: list[str], source):
        flat = self.cfg.missing_tree == "flat"
        if flat and not any(map(exists, prefixes)):
            logger.warning("%s has no trees: all its sentences get flat ones", prefixes[0])
            return FlatTrees(source, self.src_dict, self.cfg.piece_separator)
        parts = [load_tree_file(prefix) for prefix in prefixes]
        for prefix, part in zip(prefixes, parts, strict=True):
            logger.info("%s.tree: %s trees", prefix, f"{len(part):,}")
        return parts[0] if len(parts) == 1 else JoinedTrees(parts, self.cfg.upsample_primary)

    # new text

    def get_interactive_tokens_and_lengths(self, lines, encode_fn):
        segmented = [encode_fn(line) for line in lines]
        self.find_trees(segmented)
        return super().get_interactive_tokens_and_lengths(segmented, lambda line: line)

    def find_trees(self, segmented: list[str], given=None) -> None:
        """The trees of sentences as lines of pieces: those given, else those of the provider."""
        if not self.needs_trees:
            return
        separator = self.cfg.piece_separator
        split = [words_of_pieces(line.split(), separator) for line in segmented]
        sentences = [words for words, _ in split]
        if given is None:
            parents = self.ask_provider(sentences)
        else:
            parents = self.check_given(sentences, given)
        self.new_trees = [
            (self.tree_or_flat(words, tree), pieces)
            for (words, pieces), tree in zip(split, parents, strict=True)
        ]

    def check_given(self, sentences: list[list[str]], given) -> list[list[int] | None]:
        """Trees handed over by a program: one for each sentence, and each a tree of its words."""
        if len(given) != len(sentences):
            raise TreeError(f"{len(given)} trees for {len(sentences)} sentences")
        return [self.check_one(*pair) for pair in zip(sentences, given, strict=True)]

    def check_one(self, words: list[str], parents) -> list[int] | None:
        if parents is None:
            return None
        text = " ".join(words)
        if len(parents) != len(words):
            raise TreeError(f"{len(parents)} parents for the {len(words)} words of '{text}'")
        return checked_tree(list(parents), f"the tree of '{text}'", str(self.cfg.several_roots))

    def ask_provider(self, sentences: list[list[str]]) -> list[list[int] | None]:
        if self.provider is None:
            self.provider = build_provider(self.cfg)
        return self.provider.parents(sentences)

    def tree_or_flat(self, words: list[str], parents: list[int] | None) -> list[int]:
        if parents is not None:
            return parents
        if self.cfg.missing_tree == "flat":
            return flat_tree(len(words))
        raise TreeError(
            f"no tree for the sentence '{' '.join(words)}': name a tree provider "
            f"(--tree-provider {'|'.join(PROVIDERS)}; conllu takes --tree-file FILE.conllu), "
            "or translate it with a flat tree: --missing-tree flat"
        )

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None):
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints)
        if not self.needs_trees:
            return dataset
        trees, self.new_trees = self.new_trees, None
        if trees is None or len(trees) != len(src_tokens):
            raise TreeError("sentences without trees: give them to find_trees() first")
        self.batches.clear()
        return TreeDataset(dataset, ListedTrees(trees), self.batches.append)

    def build_generator(self, models, args, *rest, **kwargs):
        if self.needs_trees:
            for model in models:
                if not hasattr(model.encoder, "needs_tree"):
                    ignore_trees(model)
        return super().build_generator(models, args, *rest, **kwargs)

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if self.needs_trees and "source_tree" not in sample["net_input"]:
            sample["net_input"]["source_tree"] = self.tree_of_next_batch(sample)
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)

    def tree_of_next_batch(self, sample) -> torch.Tensor:
        """fairseq-interactive makes a new sample of each batch's pieces; its trees are put back."""
        tokens = sample["net_input"]["src_tokens"]
        collated = self.batches.popleft()["net_input"] if self.batches else None
        if collated is None or not torch.equal(collated["src_tokens"], tokens.cpu()):
            raise TreeError("a batch without trees: it was not the next one of those prepared")
        return collated["source_tree"].to(tokens.device)


def store_canonical(cfg) -> None:
    """The checkpoint's configuration describes the model in full, whatever the defaults become."""
    for option, specification in (
        ("encoder_attention", AttentionSpecification),
        ("decoder_attention", AttentionSpecification),
        ("encoder_positions", PositionSpecification),
    ):
        text = getattr(cfg, option, None)
        if text is not None:
            setattr(cfg, option, str(specification(text)))


def ignore_trees(model) -> None:
    """Let a stock model stand beside tree models in an ensemble: it is not handed the trees."""
    for module in (model, model.encoder):

        def forward(*args, _forward=module.forward, source_tree=None, **kwargs):
            return _forward(*args, **kwargs)

        module.forward = forward
    model.encoder.needs_tree = False  # known from now on
