"""Count the pieces in a shard, binarise its lines, and join the data of all shards."""

import logging
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder
from fairseq.tokenizer import tokenize_line

from fairseq_posattn.fairseq_plugin.label_dictionaries import LabelDictionaries
from fairseq_posattn.fairseq_plugin.tree_data import join_tree_files
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.jobs.lines import Answer, Files, Part
from fairseq_posattn.preparation import binarize
from fairseq_posattn.trees.lines import read_trees

TREES = ".trees"
TREE_FILE = ".tree.bin"


def count(part: Part) -> Answer:
    """Count the pieces of the source and target texts, and the labels in the trees."""
    texts, trees = part.inputs[:2], [path for path in part.inputs if path.endswith(TREES)]
    relations: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for path in trees:
        for tree in read_trees(path):
            if tree.labels is not None:
                relations.update(tree.labels.relations)
                tags.update(tree.labels.tags)
    return {"pieces": [pieces_of(path) for path in texts], "labels": [relations, tags]}


def pieces_of(path: str) -> dict[str, int]:
    """Count the pieces of a text in the same way as fairseq."""
    found = Dictionary()
    Dictionary.add_file_to_dictionary(path, found, tokenize_line, 1)
    pairs = zip(found.symbols, found.count, strict=True)
    return {piece: number for piece, number in list(pairs)[found.nspecial :] if number}


def write_dictionaries(args: Namespace, counted: Sequence[Answer]) -> None:
    """Write the same dictionaries as fairseq-preprocess to the folder `args.destdir`."""
    sides: list[Counter[str]] = [Counter(), Counter()]
    relations, tags = labels = [Counter[str](), Counter[str]()]
    for answer in counted:
        of_shard = [*answer["pieces"], *answer["labels"]]
        for total, counts in zip([*sides, *labels], of_shard, strict=True):
            total.update(counts)
    if args.joined_dictionary:
        sides = 2 * [sides[0] + sides[1]]
    with folder_written_whole(args.destdir, replace=True) as partial:
        for language, counts in zip((args.source_lang, args.target_lang), sides, strict=True):
            dictionary = Dictionary()
            for piece, number in counts.items():
                dictionary.add_symbol(piece, number)
            dictionary.finalize(args.thresholdsrc, args.nwordssrc, args.padding_factor)
            dictionary.save(str(partial / f"dict.{language}.txt"))
        if tags:
            found = LabelDictionaries.of_counts(relations, tags, args.label_subtypes == "keep")
            found.save(partial, args.source_lang)


def binarize_lines(options: Sequence[str], part: Part) -> None:
    """Binarise the lines of a shard as training data, with existing dictionaries."""
    prefix = part.inputs[0].rpartition(".")[0]
    folder = str(Path(part.outputs[0]).parent)
    args = [*options, "--workers", "1", "--trainpref", prefix, "--destdir", folder, "--overwrite"]
    before = logging.root.manager.disable
    logging.disable(logging.INFO)  # fairseq would log each shard
    try:
        binarize.binarize(binarize.parser().parse_args(args))
    finally:
        logging.disable(before)


def join_data(shards: Sequence[Files], outputs: Files) -> None:
    """Concatenate the binary data of all shards."""
    parts = {path: [of_shard[k] for of_shard in shards] for k, path in enumerate(outputs)}
    trees = [path for path in parts if path.endswith(TREE_FILE)]
    for path in parts:
        if path.endswith(".bin") and path not in trees:
            join_texts(parts[path], path)
    for path in trees:  # after the sources, whose fingerprints they contain
        prefixes = [part.removesuffix(TREE_FILE) for part in parts[path]]
        join_tree_files(prefixes, path.removesuffix(TREE_FILE))


def join_texts(parts: Sequence[str], path: str) -> None:
    prefix = path.removesuffix(".bin")
    dictionary = Path(path).parent / f"dict.{prefix.rpartition('.')[2]}.txt"
    # word alignments have no dictionary
    size = len(Dictionary.load(str(dictionary))) if dictionary.exists() else None
    builder = make_builder(path, "mmap", vocab_size=size)
    for part in parts:
        builder.merge_file_(part.removesuffix(".bin"))
    builder.finalize(f"{prefix}.idx")
