"""Register structured_translation, fairseq's translation task with a tree for each source sentence.

Binarised data have their trees beside them; new text gets its trees from a tree provider.
"""

import logging
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.core.attention import AttentionSpecification, CrossSpecification
from fairseq_posattn.core.positions.registry import PositionSpecification
from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.criterions import tree_supervised
from fairseq_posattn.glue.data.label_dictionaries import LabelDictionaries, check_folder, sizes_for
from fairseq_posattn.glue.data.tree_dataset import (
    JoinedTrees,
    TreeDataset,
    Trees,
    print_new_trees,
    print_read_trees,
)
from fairseq_posattn.glue.data.tree_files import load_tree_file, source_prefixes
from fairseq_posattn.glue.models.int8 import quantize
from fairseq_posattn.glue.patches import trained_on
from fairseq_posattn.glue.patches.loading import prepare_ahead
from fairseq_posattn.glue.tasks.translation_config import StructuredTranslationConfig
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.text.live.new_text import NewText, flat
from fairseq_posattn.text.live.pending import NewTrees, PendingTrees, SpelledSource, WantedLabels
from fairseq_posattn.text.live.providers import provider_class
from fairseq_posattn.text.live.segmented import PipelineCodec
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.store import exists

logger = logging.getLogger(__name__)
BATCHES_AHEAD = 4


@register_task("structured_translation", dataclass=StructuredTranslationConfig)
class StructuredTranslationTask(TranslationTask):
    """Translates sentences that have trees; the trees are loaded only if a model reads them."""

    provides_trees = True

    def __init__(self, cfg, src_dict, tgt_dict):
        if cfg.upsample_primary < 1:  # fairseq's default of -1 breaks its own concatenation
            cfg.upsample_primary = 1
        super().__init__(cfg, src_dict, tgt_dict)
        provider_class(cfg, None)  # this refuses an unknown name
        TreeControl.from_tag(cfg.tree_control or "own")  # and this an unknown control
        self.needs_trees: Optional[bool] = None  # a model must be built before this is known
        self.needs_labels: set[str] = set()
        self.learns_from_trees = False
        self.supervises = False  # whether this is a training that needs trees
        self.own_bpe = False
        self.pending = PendingTrees()

    def build_model(self, cfg, from_checkpoint=False):
        """Build fairseq's model, and note whether any model reads trees."""
        check_folder(given := getattr(self.cfg, "labels_of", None))
        store_canonical(cfg)
        model = super().build_model(cfg, from_checkpoint)
        encoder = getattr(model, "encoder", None)
        self.needs_trees = bool(self.needs_trees) or getattr(encoder, "needs_tree", False)
        self.needs_labels |= getattr(encoder, "needs_labels", set())
        self.learns_from_trees |= getattr(encoder, "learns_from_trees", False)
        if given and not self.needs_labels:
            logger.warning("--labels-of %s is not used: the model reads no labels of words", given)
        return model

    def build_criterion(self, cfg, from_checkpoint=False):
        """Build the criterion, and refuse one that does not train what heads learn of trees."""
        if getattr(self.cfg, "int8", False):
            raise InputError("--int8 is for translating a trained model; leave it out")
        supervises = getattr(cfg, "_name", None) == tree_supervised.NAME
        if supervises != self.learns_from_trees:
            raise InputError(
                f"the mechanism tree_supervised and --criterion {tree_supervised.NAME} need each "
                "other; "
                f"{'name a head with --encoder-attention' if supervises else 'name the criterion'},"
                " or leave both out"
            )
        self.supervises = supervises
        return super().build_criterion(cfg, from_checkpoint)

    @cached_property
    def label_dictionaries(self) -> Optional[LabelDictionaries]:
        """Return the dictionaries of the labels of words, or None if the data have none."""
        return LabelDictionaries.load(Path(self.folder_of_labels()), self.cfg.source_lang)

    def label_sizes(self, kinds) -> dict[str, int]:
        """Return how many labels there are; data without those of some kind are refused."""
        found = self.label_dictionaries
        return sizes_for(kinds, found, self.folder_of_labels(), self.cfg.source_lang)

    def wanted_labels(self) -> Optional[WantedLabels]:
        """Return the labels that the models read, or None if they read none."""
        found = self.label_dictionaries
        return WantedLabels(found, self.needs_labels) if found and self.needs_labels else None

    def folder(self) -> str:
        """Return the first folder of data, or nothing where there is none."""
        return utils.split_paths(self.cfg.data)[0] if self.cfg.data else ""

    def folder_of_labels(self) -> str:
        """Return the folder whose dictionaries number the labels."""
        return getattr(self.cfg, "labels_of", None) or self.folder()  # older checkpoints lack it

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """Load a set with trees if a model reads them or, without a model yet, if there are any."""
        super().load_dataset(split, epoch, combine, **kwargs)
        prefixes = source_prefixes(self.cfg, split, epoch, combine)
        if self.cfg.load_alignments and split == self.cfg.train_subset:
            refuse_no_alignments(self.datasets[split], prefixes[0])
        if self.needs_trees is None and not all(map(exists, prefixes)):
            return
        learns = self.supervises and all(map(exists, prefixes))
        if self.supervises and not learns and split == self.cfg.train_subset:
            raise InputError(f"{prefixes[0]}: {tree_supervised.NO_TREES_TO_LEARN}")
        if self.needs_trees is not False or learns:
            dataset = self.datasets[split]
            trees = self.load_trees(prefixes, dataset.src)
            self.datasets[split] = TreeDataset(dataset, trees)

    def get_batch_iterator(self, dataset, *args, **options):
        """Return batches of all sentences outside of training, where fairseq drops the last
        and longest ones if they do not fill --required-batch-size-multiple."""
        if dataset is not self.datasets.get(self.cfg.train_subset):
            options["required_batch_size_multiple"] = 1
        if isinstance(getattr(dataset, "trees", None), NewTrees):
            options["data_buffer_size"] = BATCHES_AHEAD  # they are parsed during translation
        return super().get_batch_iterator(dataset, *args, **options)

    def load_trees(self, prefixes: list[str], source) -> Trees:
        """Return the trees beside the data, or those of a parser or of --missing-tree."""
        if not any(map(exists, prefixes)) and self.parses_data():
            how = "are parsed" if self.new_text.control.needs_trees else "get control trees"
            logger.info("%s has no trees, so its sentences %s now", prefixes[0], how)
            wanted = self.wanted_labels()
            return self.spelled_source(source, lambda lines: self.new_text.parse(lines, wanted))
        if self.cfg.missing_tree == "flat" and not any(map(exists, prefixes)):
            logger.warning("%s has no trees, so all its sentences get flat ones", prefixes[0])
            control = self.new_text.control
            return self.spelled_source(source, lambda lines: [control.of(flat(k)) for k in lines])
        labels = self.label_dictionaries if self.needs_labels else None
        by_name = self.folder_of_labels() != self.folder()
        parts = [load_tree_file(prefix, labels, by_name) for prefix in prefixes]
        trained_on.check_control(self, self.cfg.tree_control)
        for prefix, part in zip(prefixes, parts, strict=True):
            logger.info("%s.tree: %s trees", prefix, f"{len(part):,}")
        return parts[0] if len(parts) == 1 else JoinedTrees(parts, self.cfg.upsample_primary)

    def parses_data(self) -> bool:
        """Return whether sentences of binarised data without trees get trees all the same.

        A parser makes them as they are read, or a control that needs no trees.
        """
        lazy = provider_class(self.cfg, self.pipeline()).lazy
        return lazy or not self.new_text.control.needs_trees

    def spelled_source(self, source, find) -> SpelledSource:
        """Return the trees that `find` makes from the words that the pieces of the data spell."""
        labels = self.wanted_labels()
        return SpelledSource(source, self.src_dict, self.separator(), find, labels)

    def get_interactive_tokens_and_lengths(self, lines, encode_fn):
        segmented, known = self.new_text.read_lines(lines, encode_fn, bool(self.needs_trees))
        pieces = self.pieces_of(segmented, known=known)
        return super().get_interactive_tokens_and_lengths(pieces, lambda line: line)

    def new_sentences(self, lines, encode_fn, given=None) -> list[str]:
        """Return the pieces of new lines; their trees are given, or are found later."""
        wanted = bool(self.needs_trees) and given is None
        return self.pieces_of(self.new_text.lines(lines, encode_fn, wanted), given)

    def pieces_of(self, segmented, given=None, known=None) -> list[str]:
        """Return the pieces of new lines, whose trees are given, or known, or will be found."""
        if self.needs_trees:
            labels = self.wanted_labels()
            self.pending.expect(self.new_text.trees(segmented, given, labels, known))
        return [line.pieces for line in segmented]

    @cached_property
    def new_text(self) -> NewText:
        """Return what finds the pieces and trees of new lines, made when the first ones come in."""
        found = NewText(self.cfg, self.pipeline())
        if self.needs_trees and self.cfg.tree_control is None:
            trained_on.warn_of_control(self, found.control.tag)
        return found

    def pipeline(self) -> TextPipeline | None:
        """Return how the data were prepared, unless --bpe says how to segment new text."""
        return None if self.own_bpe else self.prepared

    @cached_property
    def prepared(self) -> TextPipeline | None:
        """Return how the data were prepared, or None if nobody has written it down."""
        folder = self.folder()
        return TextPipeline.load(folder) if folder and text_pipeline.exists(folder) else None

    def build_bpe(self, args):
        """Return --bpe or, without it, what segmented the data; it also joins the translation."""
        bpe = super().build_bpe(args)
        self.own_bpe = bpe is not None
        if bpe is not None or self.datasets:  # fairseq-generate scores pieces, not words
            return bpe
        pipeline = self.pipeline()
        return pipeline and PipelineCodec(pipeline)

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None):
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints)
        if not self.needs_trees:
            return dataset
        trees = self.pending.attach(len(src_tokens))
        return TreeDataset(dataset, trees, trees.add_batch)

    def build_generator(self, models, args, *rest, **kwargs):
        if self.needs_trees:
            for model in models:
                if not hasattr(model.encoder, "needs_tree"):
                    ignore_trees(model)
        if getattr(self.cfg, "int8", False):  # older checkpoints have no such option
            refuse_scoring(args)
            for model in models:
                quantize(model)
        pipeline, cuts = self.pipeline(), getattr(args, "constraints", None)  # off the lines
        waits = pipeline and pipeline.config.splits_parsers_words and not cuts
        prepare_ahead(self.prepare_lines if waits else None)
        return super().build_generator(models, args, *rest, **kwargs)

    def prepare_lines(self, lines) -> None:
        """Segment and parse lines that come after those that are being translated."""
        self.new_text.prepare_ahead(lines, bool(self.needs_trees), self.wanted_labels())

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if self.needs_trees and "source_tree" not in sample["net_input"]:
            self.add_pending_trees(sample)
        elif self.needs_trees and self.cfg.print_tree:
            print_read_trees(sample, self.src_dict, self.separator())
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)

    def add_pending_trees(self, sample) -> None:
        """Add the trees to a sample that fairseq-interactive made from pieces alone."""
        tokens = sample["net_input"]["src_tokens"]
        batch = self.pending.for_batch(tokens)
        if self.cfg.print_tree:
            print_new_trees(batch.sentences)
        sample["net_input"]["source_tree"] = batch.source_tree.to(tokens.device)

    def separator(self) -> str:
        """Return the mark that --piece-separator names, or the one of the prepared data."""
        pipeline = self.pipeline()
        return self.cfg.piece_separator if pipeline is None else pipeline.separator


def refuse_no_alignments(dataset: Any, prefix: str) -> None:
    """Refuse a training set without alignments, with which fairseq would train all the same."""
    if dataset.align_dataset is None:
        raise InputError(
            f"{Path(prefix).parent}: the training data have no alignments, which --load-alignments "
            "reads; make the data with posattn prepare --alignments, or leave the option out"
        )


def refuse_scoring(args: Any) -> None:
    """Refuse to score references in eight bits: fairseq reads the weights of a whole sentence."""
    if getattr(args, "score_reference", False):
        raise InputError("--int8 translates, and cannot --score-reference; leave one out")


def store_canonical(cfg) -> None:
    """Write out all specifications in full, as their defaults may change one day."""
    for option, specification in (
        ("encoder_attention", AttentionSpecification),
        ("decoder_attention", AttentionSpecification),
        ("cross_attention", CrossSpecification),
        ("encoder_positions", PositionSpecification),
        ("decoder_positions", PositionSpecification),
    ):
        text = getattr(cfg, option, None)
        if text is not None:
            setattr(cfg, option, str(specification(text)))


def ignore_trees(model: Any) -> None:
    """Let a stock model work beside models with trees in an ensemble: it drops the trees that it is
    given."""
    for module in (model, model.encoder):

        def forward(*args, _forward=module.forward, source_tree=None, **kwargs):
            return _forward(*args, **kwargs)

        module.forward = forward
    model.encoder.needs_tree = False  # so that nobody wraps the model a second time
