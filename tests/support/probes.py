"""A small world to probe: data, trained models, tasks in SentEval's format, and their trees."""

import random
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.trees.conllu import read_conllu
from support.commands import FULL_TREE
from support.files import write
from support.in_process import Ended, posattn, train

SIZES = {"tr": 40, "va": 12, "te": 14}
FILES = {
    "SentLen": "sentence_length",
    "WC": "word_content",
    "TreeDepth": "tree_depth",
    "TopConst": "top_constituents",
    "TopRelations": "top_relations",
    "BShift": "bigram_shift",
    "Tense": "past_present",
    "SubjNum": "subj_number",
    "ObjNum": "obj_number",
    "SOMO": "odd_man_out",
    "CoordInv": "coordination_inversion",
}
QUICK = ("--max-update", "6", "--lr", "1e-2", "--disable-validation", "--no-epoch-checkpoints")


class World(NamedTuple):
    """These are data, checkpoints by their names, and tasks with their trees."""

    data: Path
    models: dict
    tasks: Path
    trees: Path
    codes: Path


def conllu(words, parents):
    """Return a sentence in CoNLL-U."""
    rows = [
        f"{number}\t{word}" + "\t_" * 4 + f"\t{parent}\t{'dep' if parent else 'root'}\t_\t_"
        for number, (word, parent) in enumerate(zip(words, parents, strict=True), start=1)
    ]
    return "\n".join([f"# text = {' '.join(words)}", *rows]) + "\n\n"


def depth(parents):
    def of_word(word):
        return 1 + of_word(parents[word - 1]) if word else 0

    return max(map(of_word, range(1, len(parents) + 1)))


def write_tasks(tasks, trees, sentences):
    """Write four tasks, each of the same sentences, and the trees of the words as they are."""
    splits = [split for split, size in SIZES.items() for _ in range(size)]
    rng = random.Random(1)
    files = {name: ([], []) for name in ("SentLen", "WC", "TreeDepth", "BShift")}
    for number, (split, sentence) in enumerate(zip(splits, sentences, strict=True)):
        words, parents = sentence.words, list(sentence.parents)
        swapped = number % 2 == 0
        place = rng.randrange(len(words) - 1)
        other = [*words[:place], words[place + 1], words[place], *words[place + 2 :]]
        of_task = {
            "SentLen": (int(len(words) > 7), words),
            "WC": (number % 3, words),
            "TreeDepth": (min(depth(parents), 4), words),
            "BShift": ("I" if swapped else "O", other if swapped else words),
        }
        for name, (label, shown) in of_task.items():
            files[name][0].append(f"{split}\t{label}\t{' '.join(shown)}")
            files[name][1].append(conllu(shown, parents))
    for name, (lines, blocks) in files.items():
        write(tasks / f"{FILES[name]}.txt", lines)
        write(trees / f"{FILES[name]}.conllu", "".join(blocks))


def make_world(toy_data: Path, folder: Path) -> World:
    """Make tasks, and train models."""
    toy = toy_data.parent
    sentences = list(read_conllu(toy / "raw/train.src.conllu"))[: sum(SIZES.values())]
    write_tasks(folder / "tasks", folder / "trees", sentences)
    pieces = ("--bpe", "subword_nmt", "--bpe-codes", toy / "codes")
    kinds = {
        "tree": FULL_TREE,
        "again": (*FULL_TREE, "--seed", "2"),
        "still": (*FULL_TREE, "--lr", "0"),
        "stock": ("--task", "translation", "--arch", "transformer"),
    }
    models = {}
    for name, options in kinds.items():
        train(toy_data, folder / name, *pieces, *QUICK, *options)
        models[name] = folder / name / "checkpoint_last.pt"
    return World(toy_data, models, folder / "tasks", folder / "trees", toy / "codes")


def probe(*arguments) -> Ended:
    return posattn("probe", *arguments)


def probe_tasks(*arguments) -> tuple[int, str]:
    """The exit code of posattn probe-tasks, and what it said."""
    code, _, said = posattn("probe_tasks", *arguments)
    return code, said
