"""The structured_translation task: fairseq's translation task with one tree per source sentence.

The trees of binarised data are stored in tree files in the data folder. For new text, a tree
provider supplies the trees.
"""

import logging
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.tasks import register_task

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin import criterions
from fairseq_posattn.fairseq_plugin.candidates import use_candidates
from fairseq_posattn.fairseq_plugin.compiled import CompiledTranslation
from fairseq_posattn.fairseq_plugin.label_dictionaries import (
    LabelDictionaries,
    check_folder,
    sizes_for,
)
from fairseq_posattn.fairseq_plugin.models.int8 import quantize
from fairseq_posattn.fairseq_plugin.patches import trained_on
from fairseq_posattn.fairseq_plugin.translation_options import (
    StructuredTranslationConfig,
    accept_lengths,
    store_canonical,
)
from fairseq_posattn.fairseq_plugin.tree_data import (
    JoinedTrees,
    TreeDataset,
    Trees,
    load_tree_file,
    print_new_trees,
    print_read_trees,
    source_prefixes,
)
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.text.live.line_trees import NewTrees, SpelledSource, WantedLabels
from fairseq_posattn.text.live.new_text import NewText, flat
from fairseq_posattn.text.live.providers import provider_class
from fairseq_posattn.text.live.segmented import PipelineCodec
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees import TreeError
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.store_format import exists

logger = logging.getLogger(__name__)
BATCHES_AHEAD = 4


@register_task("structured_translation", dataclass=StructuredTranslationConfig)
class StructuredTranslationTask(CompiledTranslation):
    """Trains and runs translation models; trees are loaded only if a model needs them.

    Example:

        posattn train DATA --task structured_translation --arch posattn_structural \\
            --max-tokens 4096
    """

    provides_trees = True

    def __init__(self, cfg, src_dict, tgt_dict):
        if cfg.upsample_primary < 1:  # fairseq's default of -1 breaks its ConcatDataset
            cfg.upsample_primary = 1
        super().__init__(cfg, src_dict, tgt_dict)
        provider_class(cfg, None)  # raises an error for an unknown name
        TreeControl.from_tag(cfg.tree_control or "own")  # raises an error for an unknown control
        self.needs_trees: Optional[bool] = None  # unknown until a model is built
        self.needs_labels: set[str] = set()
        self.learns_from_trees = False
        self.supervises = False  # whether the criterion trains heads on trees
        self.own_bpe = False
        self.new_trees: Optional[NewTrees] = None  # of the lines of the next dataset

    def build_model(self, cfg, from_checkpoint=False):
        """Build the model, and record whether it reads trees or labels."""
        check_folder(given := getattr(self.cfg, "labels_of", None))
        store_canonical(cfg)
        accept_lengths(self.cfg, cfg)
        model = super().build_model(cfg, from_checkpoint)
        encoder = getattr(model, "encoder", None)
        self.needs_trees = bool(self.needs_trees) or getattr(encoder, "needs_tree", False)
        self.needs_labels |= getattr(encoder, "needs_labels", set())
        self.learns_from_trees |= getattr(encoder, "learns_from_trees", False)
        if given and not self.needs_labels:
            logger.warning("--labels-of %s has no effect: the model reads no word labels", given)
        return model

    def build_criterion(self, cfg, from_checkpoint=False):
        """Build the criterion; raise an InputError if options conflict with it or the model."""
        if getattr(self.cfg, "int8", False):
            raise InputError("--int8 applies to translation only; omit it in training")
        supervises = getattr(cfg, "_name", None) == criterions.NAME
        if supervises != self.learns_from_trees:
            raise InputError(
                f"the mechanism tree_supervised and --criterion {criterions.NAME} require "
                "each other; "
                f"{'add the mechanism' if supervises else 'add the criterion'}, or omit the other"
            )
        self.supervises = supervises
        self.alignment_weight = getattr(cfg, "alignment_lambda", None)
        decays = getattr(self.cfg, "alignment_updates", 0)  # older checkpoints lack it
        if decays and self.alignment_weight is None:
            raise InputError(
                "--alignment-updates needs --load-alignments and --criterion "
                "label_smoothed_cross_entropy_with_alignment; add these options, or omit it"
            )
        return super().build_criterion(cfg, from_checkpoint)

    def train_step(self, sample, model, criterion, optimizer, update_num, *rest, **more):
        """Run forward and backward passes, with the current weight of the alignment loss."""
        if self.cfg.alignment_updates:
            left = max(0.0, 1 - update_num / self.cfg.alignment_updates)
            criterion.alignment_lambda = self.alignment_weight * left
        return super().train_step(sample, model, criterion, optimizer, update_num, *rest, **more)

    @cached_property
    def label_dictionaries(self) -> Optional[LabelDictionaries]:
        """Return the label dictionaries, or None if the data have no labels."""
        return LabelDictionaries.load(Path(self.folder_of_labels()), self.cfg.source_lang)

    def label_sizes(self, kinds) -> dict[str, int]:
        """Return the number of labels of each kind; raise an InputError if a kind is missing."""
        found = self.label_dictionaries
        return sizes_for(kinds, found, self.folder_of_labels(), self.cfg.source_lang)

    def wanted_labels(self) -> Optional[WantedLabels]:
        """Return the kinds of labels that the models read, with the dictionaries, or None."""
        found = self.label_dictionaries
        return WantedLabels(found, self.needs_labels) if found and self.needs_labels else None

    def folder(self) -> str:
        return utils.split_paths(self.cfg.data)[0] if self.cfg.data else ""

    def folder_of_labels(self) -> str:
        return getattr(self.cfg, "labels_of", None) or self.folder()  # older checkpoints lack it

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """Load a split, with trees if the model reads or learns from them, or is not built yet."""
        super().load_dataset(split, epoch, combine, **kwargs)
        prefixes = source_prefixes(self.cfg, split, epoch, combine)
        needs_alignments = self.cfg.load_alignments and split == self.cfg.train_subset
        if needs_alignments and self.datasets[split].align_dataset is None:
            raise InputError(  # fairseq would not report this
                f"{Path(prefixes[0]).parent}: --load-alignments needs alignments, but the training "
                "data have none; make the data with posattn prepare --align eflomal, or omit "
                "--load-alignments"
            )
        if self.needs_trees is None and not all(map(exists, prefixes)):
            return
        learns = self.supervises and all(map(exists, prefixes))
        if self.supervises and not learns and split == self.cfg.train_subset:
            raise InputError(f"{prefixes[0]}: {criterions.NO_TREES_TO_LEARN}")
        if self.needs_trees is not False or learns:
            dataset = self.datasets[split]
            trees = self.load_trees(prefixes, dataset.src)
            self.datasets[split] = TreeDataset(dataset, trees)

    def get_batch_iterator(self, dataset, *args, **options):
        """Return a batch iterator that, except in training, does not drop the longest sentences.

        fairseq drops those that do not fill a batch of --required-batch-size-multiple sentences.
        """
        if dataset is not self.datasets.get(self.cfg.train_subset):
            options["required_batch_size_multiple"] = 1
        if isinstance(getattr(dataset, "trees", None), NewTrees):
            options["data_buffer_size"] = BATCHES_AHEAD  # they are parsed during translation
        return super().get_batch_iterator(dataset, *args, **options)

    def load_trees(self, prefixes: list[str], source) -> Trees:
        """Return the stored trees; if there are none, return parsed, control or flat trees."""
        if not any(map(exists, prefixes)) and self.parses_data():
            how = "parsed" if self.new_text.control.needs_trees else "given control trees"
            logger.info("%s has no trees, so its sentences are %s now", prefixes[0], how)
            wanted = self.wanted_labels()
            return self.spelled_source(source, lambda lines: self.new_text.parse(lines, wanted))
        if self.cfg.missing_tree == "flat" and not any(map(exists, prefixes)):
            logger.warning("%s has no trees, so its sentences are given flat trees", prefixes[0])
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
        """Return whether trees are created if binarised data without trees are loaded.

        This is the case for lazy providers, such as parsers, and for controls that need no trees.
        """
        lazy = provider_class(self.cfg, self.pipeline()).lazy
        return lazy or not self.new_text.control.needs_trees

    def spelled_source(self, source, find) -> SpelledSource:
        """Return the trees that `find` creates for the sentences in `source`."""
        return SpelledSource(source, self.src_dict, self.separator(), find, self.wanted_labels())

    def get_interactive_tokens_and_lengths(self, lines, encode_fn):
        return super().get_interactive_tokens_and_lengths(self.new_sentences(lines, encode_fn), str)

    def new_sentences(self, lines, encode_fn, given=None) -> list[str]:
        """Segment new lines, and return their pieces.

        given: one tree per line; if None, the tree provider supplies the trees.
        """
        wanted = bool(self.needs_trees) and given is None
        return self.pieces_of(self.new_text.lines(lines, encode_fn, wanted), given)

    def pieces_of(self, segmented, given=None) -> list[str]:
        """Return the pieces of segmented lines, and store the lines' trees for the next dataset."""
        if self.needs_trees:
            self.new_trees = self.new_text.trees(segmented, given, self.wanted_labels())
        return [line.pieces for line in segmented]

    @cached_property
    def new_text(self) -> NewText:
        """Return the object that segments new lines and provides their trees."""
        found = NewText(self.cfg, self.pipeline())
        if self.needs_trees and self.cfg.tree_control is None:
            trained_on.warn_of_control(self, found.control.tag)
        return found

    def pipeline(self) -> TextPipeline | None:
        """Return the text pipeline of the data, or None if --bpe replaces it."""
        return None if self.own_bpe else self.prepared

    @cached_property
    def prepared(self) -> TextPipeline | None:
        """Return the text pipeline described in prepare.json, or None if there is no such file."""
        folder = self.folder()
        return TextPipeline.load(folder) if folder and text_pipeline.exists(folder) else None

    def build_bpe(self, args):
        """Return the codec of --bpe.

        Without --bpe, return a codec that segments and detokenises text like the data's pipeline.
        For fairseq-generate, return None instead, because it prints and scores pieces.
        """
        bpe = super().build_bpe(args)
        self.own_bpe = bpe is not None
        if bpe is not None or self.datasets:  # fairseq-generate prints and scores pieces
            return bpe
        pipeline = self.pipeline()
        return pipeline and PipelineCodec(pipeline)

    def build_dataset_for_inference(self, src_tokens, src_lengths, constraints=None):
        dataset = super().build_dataset_for_inference(src_tokens, src_lengths, constraints)
        if not self.needs_trees:
            return dataset
        trees, self.new_trees = self.new_trees, None
        if trees is None or len(trees) != len(src_tokens):
            raise TreeError("the sentences have no trees; pass them to new_sentences() first")
        return TreeDataset(dataset, trees)

    def build_generator(self, models, args, *rest, **kwargs):
        if self.needs_trees:
            for model in models:
                if not hasattr(model.encoder, "needs_tree"):
                    ignore_trees(model)
        if getattr(self.cfg, "int8", False):  # older checkpoints have no such option
            if getattr(args, "score_reference", False):  # it needs the unquantised output layer
                raise InputError(
                    "--int8 cannot be combined with --score-reference; use only one of them"
                )
            for model in models:
                quantize(model)
        generator = super().build_generator(models, args, *rest, **kwargs)
        use_candidates(generator)
        return generator

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if self.needs_trees and self.cfg.print_tree:
            if "sentences" in sample:
                print_new_trees(sample)
            else:
                print_read_trees(sample, self.src_dict, self.separator())
        return super().inference_step(generator, models, sample, prefix_tokens, constraints)

    def separator(self) -> str:
        """Return the piece separator of the text pipeline, or else --piece-separator."""
        pipeline = self.pipeline()
        return self.cfg.piece_separator if pipeline is None else pipeline.separator


def ignore_trees(model: Any) -> None:
    """Make a stock model ignore trees, for ensembles with models that use trees."""
    for module in (model, model.encoder):

        def forward(*args, _forward=module.forward, source_tree=None, **kwargs):
            return _forward(*args, **kwargs)

        module.forward = forward
    model.encoder.needs_tree = False  # marks the model as wrapped
