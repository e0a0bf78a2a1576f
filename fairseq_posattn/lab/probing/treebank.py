"""Probe the word vectors and attention heads of trained models with the trees of a treebank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.io.version import __version__
from fairseq_posattn.lab.inspection.attention import shows_attention
from fairseq_posattn.lab.probing.agreement import Agreement, best_heads, best_offsets, looks
from fairseq_posattn.lab.probing.encoding import SentenceEncoder
from fairseq_posattn.lab.probing.given_trees import PARSED, parsed_file
from fairseq_posattn.lab.probing.probe import Probing, named, shown_trees
from fairseq_posattn.lab.probing.results import Probes, Treebank, WordProbe
from fairseq_posattn.lab.probing.structural import Sentences, scored, trained
from fairseq_posattn.lab.probing.word_labels import labelled, selectivity
from fairseq_posattn.lab.probing.words import WordPart
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, read_labelled
from fairseq_posattn.trees.sentence import Sentence

PARTS = ("train", "dev", "test")
LABELS = {"UPOS": "tags", "relation": "relations"}
UNKNOWN = "_"


@dataclass(frozen=True)
class TreebankProbing(Probing):
    """Tests how well word vectors and attention heads predict the trees of a treebank."""

    parsed: dict[str, list[Sentence]] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> dict[str, str]:
        return dict(zip(PARTS, self.request.heads or (), strict=True))

    @cached_property
    def sentences(self) -> dict[str, list[Sentence]]:
        return {name: self.read(path) for name, path in self.files.items()}

    def read(self, path: str) -> list[Sentence]:
        found: list[Sentence] = []
        for block in read_blocks(path):
            if self.request.first and len(found) == self.request.first:
                break
            sentence = parse_all_columns(block)
            if sentence.parents:
                found.append(sentence)
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
                    found["heads"] += looks(dev, test, about)
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
        if self.request.gold:
            return WordPart(encoder, gold, [encoder.normal(sentence) for sentence in gold])
        if name not in self.parsed:
            self.parsed[name] = self.parse(name, encoder)
        return WordPart(encoder, gold, self.parsed[name])

    def parse(self, name: str, encoder: SentenceEncoder) -> list[Sentence]:
        """Parse the sentences of a split in the same way as the training data."""
        remedy = "let the models read the trees of the treebank with --gold"
        texts = [str(sentence) for sentence in self.sentences[name]]
        start = self.request.kept / f"parsed/treebank.{name}"
        out = parsed_file(encoder, texts, start, self.request.workers, remedy)
        return [encoder.normal(sentence) for sentence in read_labelled(out)]

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
                for one in self.of_layer(sentences, {**of_layer, "seed": seed}):
                    figures = ", ".join(
                        f"{name} {value:.2f}" for name, value in one.figures.items()
                    )
                    say(
                        f"{one.probe}: {one.system} run {one.run}, {one.kind}, layer {one.layer}, "
                        f"seed {seed}: {figures}"
                    )
                    yield one

    def of_layer(
        self, sentences: Sequence[Sentences], about: dict[str, Any]
    ) -> Iterator[WordProbe]:
        train, dev, test = sentences
        rank, seed = self.request.rank or train.vectors.shape[1], about["seed"]
        for name, depth in (("distance", False), ("depth", True)):
            figures = scored(trained(train, dev, rank, depth, seed), test)
            yield WordProbe(**about, probe=name, figures=figures)
        for name, column in LABELS.items():
            words = [labelled(part, column) for part in sentences]
            if set(words[0].labels) == {UNKNOWN}:  # the treebank has no such labels
                continue
            figures = selectivity(words[0], words[1], words[2], seed)
            yield WordProbe(**about, probe=name, figures=figures)


def agreement(part: WordPart) -> Agreement:
    found, every = Agreement(), part.encoder.weights_of(part.lines, part.trees)
    for number, weights in progress(every, total=len(part.gold)):
        found.add(weights, part.counts[number], part.words[number])
    return found
