"""Probe the word vectors and attention heads of trained models with the trees of a treebank."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import sha256
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.terminal import say
from fairseq_posattn.files.version import __version__
from fairseq_posattn.inspection.attention import shows_attention
from fairseq_posattn.probing.agreement import Agreement, best_heads, best_offsets, head_agreement
from fairseq_posattn.probing.classifiers import selectivity
from fairseq_posattn.probing.encoding import SentenceEncoder
from fairseq_posattn.probing.probe import PARSED, Probing, shown_trees
from fairseq_posattn.probing.request import named
from fairseq_posattn.probing.results import Probes, Treebank, WordProbe
from fairseq_posattn.probing.structural import Sentences, scored, trained
from fairseq_posattn.probing.words import WordPart
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, read_labelled
from fairseq_posattn.trees.sentence import Sentence

PARTS = ("train", "dev", "test")
LABELS = {"UPOS": "tags", "relation": "relations"}
UNKNOWN = "_"


class TreebankProbing(Probing):
    """Tests how well word vectors and attention heads predict the trees of a treebank."""

    @cached_property
    def files(self) -> dict[str, str]:
        return dict(zip(PARTS, self.request.heads or (), strict=True))

    @cached_property
    def sentences(self) -> dict[str, list[Sentence]]:
        return {name: self.read(path) for name, path in self.files.items()}

    def read(self, path: str) -> list[Sentence]:
        sentences = map(parse_all_columns, read_blocks(path))
        with_trees = (sentence for sentence in sentences if sentence.parents)
        found = list(islice(with_trees, self.request.first or None))
        if not found:
            raise InputError(f"{path}: no sentence has a tree; use a treebank")
        return found

    def run(self) -> Probes:
        models = named(self.request.path)
        self.warn()
        found: dict[str, list[Any]] = {"heads": [], "offsets": [], "relations": [], "words": []}
        count = 0
        for model in models:
            for about, encoder in self.encoders(model):
                parts = {name: self.part(name, encoder) for name in PARTS}
                count = int(parts["test"].ends[-1])
                about["trees"] = shown_trees(encoder, "gold" if self.request.gold else PARSED)
                if shows_attention(encoder.encoder, "self_attn"):
                    dev, test = agreement(parts["dev"]), agreement(parts["test"])
                    found["heads"] += head_agreement(dev, test, about)
                    found["offsets"] += best_offsets(dev, test, about)
                    found["relations"] += best_heads(dev, test, about)
                found["words"] += self.word_probes(parts, encoder, about)
        sizes = {name: len(self.sentences[name]) for name in PARTS}
        return Probes(
            version=__version__,
            classifier="linear",
            pooling="mean",
            tasks={},
            accuracies=[],
            treebank=Treebank(
                sha256=[sha256(path) for path in self.files.values()],
                first=self.request.first,
                **sizes,
                words=count,
                rank=self.request.rank,
            ),
            **found,
        )

    def warn(self) -> None:
        """Log a warning if the treebank has no parts of speech."""
        known = (tag.upos for one in self.sentences["train"] for tag in one.tags or ())
        if not any(upos != UNKNOWN for upos in known):
            say(
                f"{self.files['train']}: words have no parts of speech, so UPOS is not probed and "
                "UUAS includes punctuation"
            )

    def part(self, name: str, encoder: SentenceEncoder) -> WordPart:
        gold = self.sentences[name]
        if not encoder.needs_parses:
            return WordPart(encoder, gold, None)
        trees = gold if self.request.gold else self.parsed(name, encoder)
        return WordPart(encoder, gold, [encoder.normal(sentence) for sentence in trees])

    def parsed(self, name: str, encoder: SentenceEncoder) -> list[Sentence]:
        remedy = "let the models read the trees of the treebank with --gold"
        texts = [str(sentence) for sentence in self.sentences[name]]
        return list(read_labelled(self.parsed_file(encoder, texts, f"treebank.{name}", remedy)))

    def word_probes(
        self, parts: dict[str, WordPart], encoder: SentenceEncoder, about: dict[str, Any]
    ) -> Iterator[WordProbe]:
        """Train and evaluate all word probes on the requested layers."""
        vectors = [
            self.encoded(
                f"treebank: {len(part.gold):,} sentences for {name}",
                encoder,
                about,
                {
                    "sentences": sha256(self.files[name]),
                    "first": self.request.first,
                    "trees": about["trees"],
                    "gold": encoder.needs_parses and self.request.gold,
                },
                len(part.gold),
                int(part.ends[-1]),
                part.encode,
            )
            for name, part in parts.items()
        ]
        for of_layer, chosen in self.chosen(about, *vectors):
            pairs = zip(parts.values(), chosen, strict=True)
            sentences = [Sentences(part.words, np.array(found)) for part, found in pairs]
            for seed in self.request.seeds:
                for name, figures in self.figures(sentences, seed):
                    one = WordProbe(**of_layer, seed=seed, probe=name, figures=figures)
                    shown = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
                    say(
                        f"{one.probe}: {one.system} run {one.run}, {one.kind}, layer {one.layer}, "
                        f"seed {seed}: {shown}"
                    )
                    yield one

    def figures(
        self, sentences: Sequence[Sentences], seed: int
    ) -> Iterator[tuple[str, dict[str, float]]]:
        """Train all probes on one layer, and yield the name and figures of each."""
        train, dev, test = sentences
        rank = self.request.rank or train.vectors.shape[1]
        for name, depth in (("distance", False), ("depth", True)):
            yield name, scored(trained(train, dev, rank, depth, seed), test)
        vectors = [torch.from_numpy(part.vectors) for part in sentences]
        forms = [[form for tree in part.trees for form in tree.forms] for part in sentences]
        for name, column in LABELS.items():
            labels = [
                [x for tree in part.trees for x in getattr(tree, column)] for part in sentences
            ]
            if set(labels[0]) != {UNKNOWN}:  # otherwise, the treebank has no such labels
                yield name, selectivity(vectors, forms, labels, seed)


def agreement(part: WordPart) -> Agreement:
    found, every = Agreement(), part.encoder.weights_of(part.lines, part.trees)
    for number, weights in Progress(every, total=len(part.gold)):
        found.add(weights, part.counts[number], part.words[number])
    return found
