"""Probe the words and the attention heads of trained models against the trees of a treebank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.io.version import __version__
from fairseq_posattn.lab.probing.agreement import (
    CHILD,
    PARENT,
    Agreement,
    best_heads,
    commonest,
)
from fairseq_posattn.lab.probing.encoding import OF_TRAINING, Codecs, SentenceEncoder
from fairseq_posattn.lab.probing.given_trees import NONE, PARSED, parsed_file
from fairseq_posattn.lab.probing.probe import (
    Named,
    check_layer,
    data_checksums,
    shown_trees,
    untrained,
)
from fairseq_posattn.lab.probing.results import (
    EMBEDDINGS,
    TRAINED,
    UNTRAINED,
    HeadLooks,
    PlaceOffset,
    Probes,
    RelationHead,
    Treebank,
    WordProbe,
)
from fairseq_posattn.lab.probing.structural import Sentences, scored, trained
from fairseq_posattn.lab.probing.vectors import VectorFile
from fairseq_posattn.lab.probing.word_labels import labelled, selectivity
from fairseq_posattn.lab.probing.words import WordPart
from fairseq_posattn.lab.scoring.attention_maps import shows_attention
from fairseq_posattn.lab.scoring.loaded_model import load
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, read_labelled
from fairseq_posattn.trees.sentence import Sentence

PARTS = ("train", "dev", "test")
LABELS = {"UPOS": "tags", "relation": "relations"}
UNKNOWN = "_"


@dataclass(frozen=True)
class TreebankProbing:
    """These are the choices of the user.

    files: the treebank for train, dev and test.
    gold: whether models read the trees of the treebank; else the sentences are parsed for them.
    rank: that of the structural probes; 0 is the width of the vectors.
    first: so many sentences of each file are read at most; 0 reads all.
    """

    data: str
    models: Sequence[Named]
    files: Sequence[str]
    work: Path
    gold: bool = False
    layer: str = "top"
    rank: int = 0
    seeds: Sequence[int] = (1111,)
    untrained: bool = True
    first: int = 0
    workers: int = 1
    user_dir: str | None = None
    task: str | None = None
    codecs: Codecs = OF_TRAINING
    cpu: bool = False
    parsed: dict[str, list[Sentence]] = field(default_factory=dict, repr=False)

    @cached_property
    def sentences(self) -> dict[str, list[Sentence]]:
        """Return the sentences with trees of each part of the treebank."""
        return {name: self.read(path) for name, path in zip(PARTS, self.files, strict=True)}

    def read(self, path: str) -> list[Sentence]:
        """Return the sentences of a file that have a tree."""
        found: list[Sentence] = []
        for block in read_blocks(path):
            if self.first and len(found) == self.first:
                break
            sentence = parse_all_columns(block)
            if sentence.parents:
                found.append(sentence)
        if not found:
            raise InputError(f"{path}: there is no sentence with a tree; name a treebank")
        return found

    def run(self) -> Probes:
        """Probe all models, and return what was found."""
        self.warn()
        heads: list[HeadLooks] = []
        offsets: list[PlaceOffset] = []
        relations: list[RelationHead] = []
        words: list[WordProbe] = []
        count = 0
        for model in self.models:
            for kind, encoder, checksum in self.encoders(model):
                parts = {name: self.part(name, encoder) for name in PARTS}
                count = int(parts["test"].ends[-1])
                about: dict[str, Any] = {"system": model.system, "run": model.run, "kind": kind}
                about["model"] = checksum
                about["trees"] = self.trees_of(encoder)
                if shows_attention(encoder.encoder, "self_attn"):
                    dev, test = agreement(parts["dev"]), agreement(parts["test"])
                    heads += looks(dev, test, about)
                    offsets += best_offsets(dev, test, about)
                    relations += [
                        RelationHead(**about, **asdict(one)) for one in best_heads(dev, test)
                    ]
                words += self.word_probes(parts, encoder, checksum, about)
        sizes = {name: len(self.sentences[name]) for name in PARTS}
        return Probes(
            version=__version__,
            classifier="linear",
            pooling="mean",
            tasks={},
            accuracies=[],
            treebank=Treebank(
                sha256=list(map(sha256, self.files)),
                first=self.first,
                **sizes,
                words=count,
                rank=self.rank,
            ),
            heads=heads,
            offsets=offsets,
            relations=relations,
            words=words,
        )

    def warn(self) -> None:
        """Tell the user if the treebank has no parts of speech."""
        known = (tag.upos for one in self.sentences["train"] for tag in one.tags or ())
        if not any(upos != UNKNOWN for upos in known):
            say(
                f"{self.files[0]}: the words have no parts of speech, so that UPOS is not probed, "
                "and UUAS counts punctuation, too"
            )

    def encoders(self, model: Named) -> Iterator[tuple[str, SentenceEncoder, str]]:
        """Yield the trained model, and then the untrained one."""
        loaded = load(model.path, self.data, self.user_dir, self.task, self.cpu)
        checksum = sha256(model.path)
        yield TRAINED, SentenceEncoder(loaded, self.data, self.codecs), checksum
        if self.untrained:
            yield UNTRAINED, SentenceEncoder(untrained(loaded), self.data, self.codecs), checksum

    def trees_of(self, encoder: SentenceEncoder) -> str:
        """Return what trees the encoder reads."""
        return shown_trees(encoder, "gold" if self.gold else PARSED)

    def part(self, name: str, encoder: SentenceEncoder) -> WordPart:
        """Return a part of the treebank as an encoder reads it."""
        gold = self.sentences[name]
        if not encoder.needs_parses:
            return WordPart(encoder, gold, None)
        if self.gold:
            return WordPart(encoder, gold, [encoder.normal(sentence) for sentence in gold])
        if name not in self.parsed:
            self.parsed[name] = self.parse(name, encoder)
        return WordPart(encoder, gold, self.parsed[name])

    def parse(self, name: str, encoder: SentenceEncoder) -> list[Sentence]:
        """Parse the sentences of a part as the training data were parsed."""
        remedy = "let the models read the trees of the treebank with --gold"
        texts = [str(sentence) for sentence in self.sentences[name]]
        start = self.work / f"parsed/treebank.{name}"
        out = parsed_file(encoder, texts, start, self.workers, remedy)
        return [encoder.normal(sentence) for sentence in read_labelled(out)]

    def word_probes(
        self,
        parts: dict[str, WordPart],
        encoder: SentenceEncoder,
        checksum: str,
        about: dict[str, Any],
    ) -> Iterator[WordProbe]:
        """Yield the outcome of all probes of words on the chosen layers."""
        vectors = {name: self.vectors(name, parts[name], checksum, about) for name in PARTS}
        top = vectors["train"].shape[1] - 2  # the last ones are embeddings
        only_top = self.layer == "top" or not top
        layers = {"top": top} if only_top else {str(k): k for k in range(top + 1)}
        if self.layer.isdecimal():
            check_layer(self.layer, top)
            layers = {self.layer: int(self.layer)}
        chosen = [(about, name, number) for name, number in layers.items()]
        if about["kind"] == TRAINED:
            chosen.append(({**about, "kind": EMBEDDINGS, "trees": NONE}, "0", top + 1))
        for own, layer, number in chosen:
            sentences = {
                name: Sentences(parts[name].words, np.array(vectors[name][:, number]))
                for name in PARTS
            }
            for seed in self.seeds:
                yield from self.of_layer(sentences, {**own, "layer": layer, "seed": seed})

    def of_layer(
        self, sentences: dict[str, Sentences], about: dict[str, Any]
    ) -> Iterator[WordProbe]:
        """Yield the outcome of the probes on one layer with one seed."""
        train, dev, test = (sentences[name] for name in PARTS)
        rank, seed = self.rank or train.vectors.shape[1], about["seed"]
        for name, depth in (("distance", False), ("depth", True)):
            figures = scored(trained(train, dev, rank, depth, seed), test)
            yield told(WordProbe(**about, probe=name, figures=figures))
        for name, column in LABELS.items():
            words = [labelled(part, column) for part in (train, dev, test)]
            if set(words[0].labels) == {UNKNOWN}:  # the treebank has none
                continue
            figures = selectivity(words[0], words[1], words[2], seed)
            yield told(WordProbe(**about, probe=name, figures=figures))

    def vectors(
        self, name: str, part: WordPart, checksum: str, about: dict[str, Any]
    ) -> np.ndarray:
        """Return the vectors of the words of a part, by all layers."""
        described = {
            "model": checksum,
            "kind": about["kind"],
            "data": data_checksums(self.data),
            "sentences": sha256(self.files[PARTS.index(name)]),
            "first": self.first,
            "trees": about["trees"],
            "version": __version__,
            **({"codecs": codecs} if (codecs := part.encoder.codec_checksums()) else {}),
        }
        file = VectorFile(self.work / "vectors", described)
        if file.complete:
            return file.read()
        check_layer(self.layer, part.encoder.top)
        say(f"treebank: {len(part.gold):,} sentences for {name} are encoded ({about['kind']})")
        return file.make(len(part.gold), int(part.ends[-1]), part.encode)


def agreement(part: WordPart) -> Agreement:
    """Return what the words of a part look at."""
    found = Agreement()
    for number, weights in progress(part.attention(), total=len(part.gold)):
        found.add(weights, part.counts[number], part.words[number])
    return found


def looks(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[HeadLooks]:
    """Yield what words look at through each head."""
    for layer, head in np.ndindex(test.shape):
        shares: dict[str, Any] = test.shares(layer, head)
        on_dev = dev.shares(layer, head)
        yield HeadLooks(**about, layer=layer, head=head, **shares, dev=on_dev)


def best_offsets(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[PlaceOffset]:
    """Yield the offsets at which parents and children are most often."""
    for place in (PARENT, CHILD):
        if place in dev.offsets and place in test.offsets:
            offset = commonest(dev.offsets[place])
            share = test.offset_share(place, offset)
            yield PlaceOffset(**about, place=place, offset=offset, share=share)


def told(found: WordProbe) -> WordProbe:
    """Tell the user of an outcome, and return it."""
    figures = ", ".join(f"{name} {value:.2f}" for name, value in found.figures.items())
    say(
        f"{found.probe}: {found.system} run {found.run}, {found.kind}, layer {found.layer}, seed "
        f"{found.seed}: {figures}"
    )
    return found
