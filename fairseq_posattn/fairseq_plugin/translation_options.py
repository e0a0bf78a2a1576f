"""Options of the structured_translation task."""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig

from fairseq_posattn.core.attention import AttentionSpecification, CrossSpecification
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.positions.registry import PositionSpecification
from fairseq_posattn.trees.checks import SEVERAL_ROOTS
from fairseq_posattn.trees.projection import SEPARATOR


@dataclass
class StructuredTranslationConfig(TranslationConfig):
    """Options of fairseq's translation task, and options for trees and raw input text."""

    tree_provider: Optional[str] = option(
        None,
        "choose the source of trees for new text: conllu, stanza, none, or a registered "
        "provider of your own; the default is conllu with --tree-file, else stanza if "
        "posattn prepare parsed the data, else none",
    )
    tree_file: Optional[str] = option(
        None, "read the trees of new text from this CoNLL-U file, the k-th tree for the k-th line"
    )
    tree_control: Optional[str] = option(
        None,
        "replace the trees of new text by these control trees, such as chain, shuffled or "
        "own-flip0.25-seed2; the default is the control of the data",
    )
    labels_of: Optional[str] = option(
        None,
        "use the label dictionaries (relations, parts of speech) of this folder of training data; "
        "required if a model that reads labels translates data with other label dictionaries",
    )
    missing_tree: ChoiceEnum(["error", "flat"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "error",
        "stop at a sentence without a tree (error, the default), or give it a flat tree, in "
        "which each word is a child of the first one (flat)",
    )
    several_roots: ChoiceEnum(list(SEVERAL_ROOTS)) = option(  # type: ignore[valid-type]  # fairseq calls it
        "error",
        "stop at a tree of new text with several roots (error, the default), or make the other "
        "roots children of the first one (first)",
    )
    piece_separator: str = option(
        SEPARATOR,
        "set the separator that ends all pieces of a word but the last (default: @@); \u2581 "
        "selects sentencepiece; used with --bpe, or if the data have no prepare.json",
    )
    parser_lang: Optional[str] = option(
        None,
        "parse new text with stanza's models for this language; the default is the language of the "
        "models that parsed the data, or else the source language",
    )
    parser_dir: Optional[str] = option(
        None, "read parser models from this folder; the default is the one used for the data"
    )
    parser_tokenized: bool = option(
        False, "split new text at spaces only, instead of tokenising it with stanza"
    )
    int8: bool = option(
        False,
        "quantise the weights of linear layers to 8 bits for translation on a CPU, which is "
        "faster and changes scores slightly",
    )
    alignment_updates: int = option(
        0,
        "decrease the weight of the alignment loss (--alignment-lambda) linearly to 0 within this "
        "number of updates; by default, it remains constant",
    )
    compile: bool = option(
        False,
        "compile the layers of the model with torch.compile for training; on a GPU, batches are "
        "padded to a small set of lengths",
    )
    compile_mode: ChoiceEnum(["auto", "default", "reduce-overhead"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "auto",
        "choose the mode of torch.compile; auto (the default) is reduce-overhead, which uses CUDA "
        "graphs, on a GPU, and default on a CPU",
    )
    print_tree: bool = option(
        False,
        "print the tree of each translated sentence, as one line per word with TREE-NUMBER, "
        "depth and word",
    )


def store_canonical(cfg) -> None:
    """Replace all specifications with their canonical form, which includes all default values.

    Later versions with different default values then interpret the specifications identically.
    """
    for name, specification in (
        ("encoder_attention", AttentionSpecification),
        ("decoder_attention", AttentionSpecification),
        ("cross_attention", CrossSpecification),
        ("encoder_positions", PositionSpecification),
        ("decoder_positions", PositionSpecification),
    ):
        text = getattr(cfg, name, None)
        if text is not None:
            setattr(cfg, name, str(specification(text)))


def accept_lengths(task_cfg, model_cfg) -> None:
    """Raise the task's length limits to the model's, unless limits are given."""
    for name in ("max_source_positions", "max_target_positions"):
        if getattr(task_cfg, name) == getattr(TranslationConfig, name):
            setattr(task_cfg, name, max(getattr(task_cfg, name), getattr(model_cfg, name, 0) or 0))
