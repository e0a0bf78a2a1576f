"""Encode sentences with a trained model, together with their trees if the model reads trees."""

import inspect
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.utils import convert_padding_direction
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
from fairseq_posattn.files.files import sha256
from fairseq_posattn.files.terminal import say, visible
from fairseq_posattn.inspection.attention import encoder_inputs, weights_of
from fairseq_posattn.inspection.model import Loaded
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.text.live.segmented import SegmentedLine, lines_of_pipeline, segment, spelled
from fairseq_posattn.text.pipeline import TextPipeline, tokenized
from fairseq_posattn.trees.sentence import Sentence

TOKENS = 8000  # maximum number of pieces in a batch, including padding
STRANGE, TOO_STRANGE = 0.02, 0.25  # shares of unknown pieces for a warning, and for an error


class Batch(NamedTuple):
    """The encoder output for a batch of sentences.

    numbers: the indices of the sentences.
    layers: the hidden states before the first layer and after each layer, each of shape (batch,
        length, width).
    embeddings: the embeddings of the pieces, of shape (batch, length, width).
    real: a mask of the positions that contain pieces rather than special symbols, of shape (batch,
        length).
    end: a mask of the position of `</s>`, of shape (batch, length).
    """

    numbers: np.ndarray
    layers: list[Tensor]
    embeddings: Tensor
    real: Tensor
    end: Tensor


@dataclass
class SentenceEncoder:
    """Encodes sentences, which may have trees and are segmented like the training data.

    If the data have no prepare.json, --bpe and --moses may replace the segmentation that is stored
    in the checkpoint.

    bpe: the path of subword-nmt codes or of a sentencepiece .model file.
    moses: the language of the Moses tokeniser.
    """

    loaded: Loaded
    data: str
    bpe: str | None = None
    moses: str | None = None

    def __post_init__(self) -> None:
        if self.pipeline is not None and (self.bpe or self.moses):
            raise InputError(
                f"{self.data}: prepare.json already defines the segmentation; leave out --bpe and "
                "--moses"
            )
        self.task: Any = self.loaded.task
        encoder = getattr(self.loaded.model, "encoder", None)
        self.encoder: Any = getattr(encoder, "sentence_encoder", encoder)  # the former in RoBERTa
        if self.encoder is None or not hasattr(self.encoder, "embed_tokens"):
            kind = type(self.loaded.model).__name__
            raise InputError(f"{kind} has no text encoder; choose a model with one")

    @cached_property
    def pipeline(self) -> TextPipeline | None:
        """The text pipeline of the data, or None if posattn prepare did not build the data."""
        return TextPipeline.load(self.data) if text_pipeline.exists(self.data) else None

    @property
    def reads_trees(self) -> bool:
        return bool(getattr(self.encoder, "needs_tree", False))

    @property
    def top(self) -> int:
        """The number of the top layer, or 0 if the encoder does not expose lower layers."""
        shows = "return_all_hiddens" in self.accepted
        return len(getattr(self.encoder, "layers", ())) if shows else 0

    @property
    def needs_parses(self) -> bool:
        """Whether sentences must be parsed before they can be encoded.

        This also applies to a model that reads no trees, if its training data were tokenised by the
        parser.
        """
        if self.pipeline is None:
            return self.reads_trees
        config = self.pipeline.config
        if config.splits_parsers_words:
            return True
        return self.reads_trees and config.parsed

    def normal(self, sentence: Sentence) -> Sentence:
        """Normalise the words of a sentence in the same way as the training data."""
        if self.pipeline is None:
            return sentence
        language, normal = self.pipeline.config.source_language, self.pipeline.normal
        words = [normal(word, language) or word for word in sentence.words]
        multiword = [(k, n, normal(form, language) or form) for k, n, form in sentence.multiword]
        return replace(sentence, words=words, multiword=multiword)

    def segmented(
        self, texts: Sequence[str], trees: Sequence[Sentence] | None
    ) -> list[SegmentedLine]:
        """Segment raw texts or, if trees are given, the words of the trees."""
        pipeline = self.pipeline
        if pipeline is None:
            return [spelled(self.encode(text), self.loaded.separator) for text in texts]
        if trees is None:
            return lines_of_pipeline(texts, pipeline, None)
        config, found = pipeline.config, []
        for tree in trees:
            text = str(tree)
            if config.tokenize == "moses":
                text = tokenized(text, config.source_language)
            words = tree if config.splits_parsers_words else None
            found.append(segment(text, words, pipeline))
        return found

    @cached_property
    def options(self) -> list[Any]:
        """fairseq's options of the tokeniser and of the BPE encoder; None for no such codec."""
        if not (self.bpe or self.moses):
            return [self.loaded.cfg.tokenizer, self.loaded.cfg.bpe]
        moses = {"source_lang": self.moses, "target_lang": self.moses}
        flags = {"moses_no_dash_splits": False, "moses_no_escape": False}
        bpe = Namespace(bpe="subword_nmt", bpe_codes=self.bpe, bpe_separator="@@")
        if self.bpe and self.bpe.endswith(".model"):
            bpe = Namespace(bpe="sentencepiece", sentencepiece_model=self.bpe)
        return [
            Namespace(tokenizer="moses", **moses, **flags) if self.moses else None,
            bpe if self.bpe else None,
        ]

    @cached_property
    def codecs(self) -> list[Any]:
        """The specified codecs, or else those that the model was trained with."""
        tokenizer, bpe = self.options
        built = [self.task.build_tokenizer(tokenizer), self.task.build_bpe(bpe)]
        return [codec for codec in built if codec is not None]

    def codec_checksums(self) -> list[str]:
        """Checksums that identify the segmentation if there is no prepare.json."""
        if self.pipeline is not None:
            return []
        tokenizer, bpe = self.options
        named = [plain_namespace(part).__dict__.values() for part in (bpe, tokenizer) if part]
        paths = [Path(value) for value in chain(*named) if isinstance(value, str) and value]
        found = [sha256(path) for path in paths if path.is_file()]
        return [*found, f"moses {self.moses}"] if self.moses else found

    def encode(self, text: str) -> str:
        for codec in self.codecs:
            text = codec.encode(text)
        return text

    def batches(
        self, lines: Sequence[SegmentedLine], trees: Sequence[Sentence] | None
    ) -> Iterator[Batch]:
        """Encode all lines, in batches of lines of similar length."""
        with torch.no_grad():
            for sample in self.samples(lines, trees):
                yield self.run(sample)

    def weights_of(
        self, lines: Sequence[SegmentedLine], trees: Sequence[Sentence] | None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the index of each line and its attention weights (layers, heads, queries, keys)."""
        with torch.no_grad():
            for sample in self.samples(lines, trees):
                sample = self.loaded.to_device(sample)
                fields = {k: v for k, v in sample["net_input"].items() if k in self.accepted}
                layers = weights_of(self.encoder, fields)
                real = fields["src_tokens"].ne(self.task.source_dictionary.pad())
                for place, number in enumerate(sample["id"].tolist()):
                    kept = real[place]
                    maps = [of_layer[place][:, kept][..., kept] for of_layer in layers]
                    yield number, torch.stack(maps).double().cpu().numpy()

    def samples(
        self, lines: Sequence[SegmentedLine], trees: Sequence[Sentence] | None
    ) -> Iterator[dict]:
        """Yield batches of sentences of similar length, in fairseq's format."""
        dictionary = self.task.source_dictionary
        tokens = [
            dictionary.encode_line(line.pieces, add_if_not_exist=False, append_eos=True).long()
            for line in lines
        ]
        self.refuse_unfit(lines, tokens)
        if self.reads_trees:
            wanted = self.task.wanted_labels()
            self.task.new_trees = self.task.new_text.trees(lines, trees, wanted)
        dataset = self.task.build_dataset_for_inference(tokens, [len(line) for line in tokens])
        for numbers in similar(tokens):
            yield dataset.collater([dataset[number] for number in numbers])

    def refuse_unfit(self, lines: Sequence[SegmentedLine], tokens: Sequence[Tensor]) -> None:
        """Raise an InputError if a sentence is empty, too long, or not segmented as in training."""
        longest = self.encoder.max_positions()
        for line, ids in zip(lines, tokens, strict=True):
            if len(ids) < 2:
                raise InputError(
                    f"the sentence '{visible(line.text)}' has no pieces; remove it from the tasks "
                    "or treebanks"
                )
            if len(ids) > longest:
                raise InputError(
                    f"the sentence '{line.text[:60]}...' has {len(ids)} pieces, but the model "
                    f"accepts at most {longest}; remove it from the tasks or treebanks"
                )
        unknown = sum(int(ids.eq(self.task.source_dictionary.unk()).sum()) for ids in tokens)
        share = unknown / max(1, sum(len(ids) - 1 for ids in tokens))
        if share >= TOO_STRANGE and self.pipeline is None and not self.codecs:
            raise InputError(
                f"{self.data}: {share:.0%} of the pieces are not in the model's dictionary; use "
                "--bpe and --moses to segment text like the training data"
            )
        if share >= STRANGE:
            say(f"{self.data}: {share:.1%} of the pieces are not in the model's dictionary")

    def run(self, sample: dict) -> Batch:
        sample = self.loaded.to_device(sample)
        fields = encoder_inputs(sample)
        dictionary = self.task.source_dictionary
        layers, tokens = self.states(fields), fields["src_tokens"]
        if getattr(self.encoder, "left_pad", False):  # fairseq's LSTM pads on the right internally
            tokens = convert_padding_direction(tokens, dictionary.pad(), left_to_right=True)
        end = tokens.eq(dictionary.eos())
        return Batch(
            sample["id"].cpu().numpy(),
            layers,
            self.encoder.embed_tokens(tokens),
            ~(end | tokens.eq(dictionary.pad()) | tokens.eq(dictionary.bos())),
            end,
        )

    @cached_property
    def accepted(self) -> set[str]:
        return set(inspect.signature(self.encoder.forward).parameters)

    def states(self, fields: dict[str, Any]) -> list[Tensor]:
        """Return the states before the first and after each layer, or of the top layer only."""
        fields = {k: v for k, v in fields.items() if k in self.accepted}
        if "return_all_hiddens" in self.accepted:
            fields["return_all_hiddens"] = True
        out = self.encoder(**fields)
        if not isinstance(out, dict):  # fairseq's LSTM encoder
            return [out[0].transpose(0, 1)]
        if isinstance(out["encoder_out"], tuple):  # fairseq's convolutional encoder, B T C
            return [out["encoder_out"][0]]
        between = list(out.get("encoder_states") or ())[:-1]
        return [state.transpose(0, 1) for state in [*between, out["encoder_out"][0]]]


def similar(tokens: Sequence[Tensor]) -> Iterator[list[int]]:
    """Group sentence indices by length into batches of at most TOKENS pieces, including padding."""
    batch: list[int] = []
    for number in sorted(range(len(tokens)), key=lambda k: (len(tokens[k]), k)):
        if batch and (len(batch) + 1) * len(tokens[number]) > TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
