"""structured_translation: fairseq's translation task with a dependency tree for each source.

Binarised data have their trees beside them; new text gets them from a tree provider.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

import itertools
import logging
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

import torch
from fairseq import utils
from fairseq.data import indexed_dataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_posattn.attention import AttentionSpecification
from fairseq_posattn.data.tree_dataset import JoinedTrees, TreeDataset
from fairseq_posattn.data.tree_files import load_tree_file
from fairseq_posattn.new_text import NewText, NewTrees, PreparedText, SpelledSource, flat
from fairseq_posattn.positions.registry import PositionSpecification
from fairseq_posattn.preparation import choices
from fairseq_posattn.preparation.choices import Preparation
from fairseq_posattn.providers import PROVIDERS, provider_name
from fairseq_posattn.trees import TreeError
from fairseq_posattn.trees.checks import SEVERAL_ROOTS
from fairseq_posattn.trees.drawing import drawn, number_of_words, words_by_counts, words_of_tree
from fairseq_posattn.trees.projection import SEPARATOR
from fairseq_posattn.trees.store import exists

logger = logging.getLogger(__name__)

BATCHES_AHEAD = 4


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
        default=SEPARATOR,
        metadata={
            "help": "ends a piece that its word goes on after; \u2581: pieces of sentencepiece"
        },
    )
    parser_lang: Optional[str] = field(
        default=None,
        metadata={
            "help": "with --tree-provider stanza: language (default: as the data, or source)"
        },
    )
    parser_dir: Optional[str] = field(
        default=None,
        metadata={
            "help": "with --tree-provider stanza: folder of its models (default: as the data)"
        },
    )
    parser_tokenized: bool = field(
        default=False,
        metadata={"help": "with --tree-provider stanza: words of new text are separated by spaces"},
    )
    print_tree: bool = field(
        default=False,
        metadata={"help": "print the tree of each translated sentence: T-number, depth, word"},
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
        self.text: NewText | None = None
        self.own_bpe = False
        self.new_trees: NewTrees | None = None  # of the lines to translate next
        self.batches: deque[tuple] = deque()  # trees and collated batch, not yet translated
        self.asked = 0  # new lines so far
        self.began = False  # to read lines in fairseq-interactive

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
        if isinstance(getattr(dataset, "trees", None), NewTrees):
            options["data_buffer_size"] = BATCHES_AHEAD  # parsed while others are translated
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
        if not any(map(exists, prefixes)) and self.parses_data():
            logger.info("%s has no trees: it is parsed as it is read", prefixes[0])
            return self.spelled_source(source, self.new_text().parse_spelled)
        if self.cfg.missing_tree == "flat" and not any(map(exists, prefixes)):
            logger.warning("%s has no trees: all its sentences get flat ones", prefixes[0])
            return self.spelled_source(source, lambda lines: [flat(line) for line in lines])
        parts = [load_tree_file(prefix) for prefix in prefixes]
        for prefix, part in zip(prefixes, parts, strict=True):
            logger.info("%s.tree: %s trees", prefix, f"{len(part):,}")
        return parts[0] if len(parts) == 1 else JoinedTrees(parts, self.cfg.upsample_primary)

    def parses_data(self) -> bool:
        return provider_name(self.cfg, self.preparation()) == "stanza"

    def spelled_source(self, source, find) -> SpelledSource:
        return SpelledSource(source, self.src_dict, self.separator(), find)

    # new text

    def get_interactive_tokens_and_lengths(self, lines, encode_fn):
        if not self.began:  # a mark of the file or the pipe that the lines come from
            lines = [lines[0].removeprefix("\ufeff"), *lines[1:]]
        self.began = True
        segmented = self.new_sentences(lines, encode_fn)
        return super().get_interactive_tokens_and_lengths(segmented, lambda line: line)

    def new_sentences(self, lines, encode_fn, given=None) -> list[str]:
        """The pieces of new lines; their trees are given, or come from the provider later."""
        new_text = self.new_text()
        segmented = new_text.lines(lines, encode_fn, bool(self.needs_trees) and given is None)
        if self.needs_trees:
            self.new_trees = new_text.trees(segmented, given)
            self.new_trees.first, self.asked = self.asked, self.asked + len(lines)
        return [line.pieces for line in segmented]

    def new_text(self) -> NewText:
        if self.text is None:
            self.text = NewText(self.cfg, self.preparation())
        return self.text

    def preparation(self) -> Preparation | None:
        """How the data were prepared; not if --bpe says how new text is to be segmented."""
        folder = utils.split_paths(self.cfg.data)[0] if self.cfg.data else ""
        if self.own_bpe or not folder or not choices.exists(folder):
            return None
        return Preparation.load(folder)

    def build_bpe(self, args):
        """Without --bpe, new text is segmented, and its translation joined, as the data were."""
        bpe = super().build_bpe(args)
        self.own_bpe = bpe is not None
        if bpe is not None or self.datasets:  # fairseq-generate scores the pieces as they are
            return bpe
        preparation = self.preparation()
        return preparation and PreparedText(preparation)

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None):
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints)
        if not self.needs_trees:
            return dataset
        trees, self.new_trees = self.new_trees, None
        if trees is None or len(trees) != len(src_tokens):
            raise TreeError("sentences without trees: give them to new_sentences() first")
        self.batches.clear()
        return TreeDataset(dataset, trees, lambda collated: self.batches.append((trees, collated)))

    def build_generator(self, models, args, *rest, **kwargs):
        if self.needs_trees:
            for model in models:
                if not hasattr(model.encoder, "needs_tree"):
                    ignore_trees(model)
        return super().build_generator(models, args, *rest, **kwargs)

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if self.needs_trees and "source_tree" not in sample["net_input"]:
            sample["net_input"]["source_tree"] = self.tree_of_next_batch(sample)
        elif self.needs_trees and self.cfg.print_tree:
            self.print_read_trees(sample)
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)

    def tree_of_next_batch(self, sample) -> torch.Tensor:
        """fairseq-interactive makes a new sample of each batch's pieces; its trees are put back."""
        tokens = sample["net_input"]["src_tokens"]
        trees, collated = self.batches.popleft() if self.batches else (None, None)
        if trees is None or not torch.equal(collated["net_input"]["src_tokens"], tokens.cpu()):
            raise TreeError("a batch without trees: it was not the next one of those prepared")
        if self.cfg.print_tree:
            for k in sorted(collated["id"].tolist()):
                found = trees.found[k]
                words = words_of_tree(found.tokens, found.words_of_token)
                print_tree(trees.first + k, words, found.parents)
        return collated["net_input"]["source_tree"].to(tokens.device)

    def print_read_trees(self, sample) -> None:
        """Of binarised data, whose words are those that the pieces spell."""
        parents, counts = sample["net_input"]["source_tree"].tolist()
        for k, number in enumerate(sample["id"].tolist()):
            tokens = sample["net_input"]["src_tokens"][k]
            pieces = self.src_dict.string(tokens[tokens != self.src_dict.pad()]).split()
            length = number_of_words(parents[k], counts[k])
            words = words_by_counts(pieces, counts[k][:length], self.separator())
            print_tree(number, words, parents[k][:length])

    def separator(self) -> str:
        preparation = self.preparation()
        return self.cfg.piece_separator if preparation is None else preparation.separator


def print_tree(number: int, words: Sequence[str], parents: Sequence[int]) -> None:
    print("".join(f"TREE-{number}\t{line}\n" for line in drawn(words, parents)), end="")


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
