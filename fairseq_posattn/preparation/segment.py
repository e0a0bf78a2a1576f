"""Learn and apply segmenters: subword-nmt (Sennrich et al. 2016) or sentencepiece."""

import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from subword_nmt import learn_bpe

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.files import count_lines, read_lines
from fairseq_posattn.files.paths import is_stream, refuse_unwritable
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.records import at_least, between, one_of, option
from fairseq_posattn.jobs.lines import Part
from fairseq_posattn.text.pipeline import TextConfig
from fairseq_posattn.text.segmenters import Segmentation, Segmenter, SentencePiece, SubwordNmt
from fairseq_posattn.trees.projection import SEPARATOR

SENTENCEPIECE_MODELS = ("unigram", "bpe")


def segmenter_option(help: str) -> Any:
    """Return a field for the file of the segmenter; exactly one such option is required."""
    return option(help, None, metavar="FILE", either="segmenter", required=True)


@dataclass(frozen=True, kw_only=True)
class LearnRequest:
    """Learn subword units from one or more texts."""

    command: ClassVar = "posattn segment learn"
    texts: list[str] = option("files to learn from, one sentence per line")
    codes: str | None = segmenter_option("write the merges of subword-nmt to this file")
    sentencepiece: str | None = segmenter_option("write a sentencepiece model to this file")
    symbols: int = option(
        "number of merges (subword-nmt) or pieces (sentencepiece) to learn (default: %(default)s)",
        32000,
        at_least(1),
    )
    min_frequency: int = option(
        "with --codes: merge only pairs that occur at least this often (default: %(default)s)",
        2,
        at_least(1),
    )
    model_type: str = option(
        "with --sentencepiece: type of the model (default: %(default)s)",
        "unigram",
        one_of(*SENTENCEPIECE_MODELS),
    )
    character_coverage: float = option(
        "with --sentencepiece: share of characters that the model covers (default: %(default)s; "
        "choose 1.0 for small alphabets)",
        0.9995,
        between(0.0, 1.0),
    )


@dataclass(frozen=True, kw_only=True)
class ApplyRequest:
    """Split the lines of a text into pieces."""

    command: ClassVar = "posattn segment apply"
    text: str = option("file to split, one sentence per line")
    codes: str | None = segmenter_option("read the merges of subword-nmt from this file")
    sentencepiece: str | None = segmenter_option("read a sentencepiece model from this file")
    out: str = option("write the pieces to this file", required=True)
    separator: str = option(
        "with --codes: append this marker to each piece except the last piece of a word (default: "
        "%(default)s)",
        SEPARATOR,
    )
    vocabulary: str | None = option(
        "with --codes: split pieces that are not in this vocabulary (written by subword-nmt "
        "get-vocab) into smaller ones",
        None,
        metavar="FILE",
    )
    vocabulary_threshold: int | None = option(
        "with --vocabulary: treat pieces that are less frequent than this as missing",
        None,
        at_least(1),
    )


def run(request: LearnRequest | ApplyRequest) -> None:
    """Learn a segmenter, or split a text into pieces."""
    if isinstance(request, ApplyRequest):
        apply(segmenter_of(request), request.text, request.out)
    elif request.codes:
        learn(request.texts, request.codes, request.symbols, request.min_frequency)
    else:
        assert request.sentencepiece is not None
        kind, coverage = request.model_type, request.character_coverage
        learn_sentencepiece(request.texts, request.sentencepiece, request.symbols, kind, coverage)


def segmenter_of(request: ApplyRequest) -> Segmenter:
    if request.codes:
        return SubwordNmt(
            Segmentation(
                *(request.codes, request.separator),
                *(request.vocabulary, request.vocabulary_threshold),
            )
        )
    if request.vocabulary:
        raise InputError(
            "--vocabulary cannot be combined with --sentencepiece, because a sentencepiece model "
            "has its own vocabulary; omit --vocabulary"
        )
    assert request.sentencepiece is not None
    return SentencePiece(request.sentencepiece)


def learn(texts: Sequence[str], codes: str, symbols: int, min_frequency: int = 2) -> None:
    """Learn the merges of subword-nmt from the concatenated texts, and write them to `codes`."""
    refuse_unwritable(Path(codes))
    counts = Counter(word for path in texts for line in read_lines(path) for word in line.split())
    if not any(len(word) > 1 for word in counts):
        raise InputError(
            f"{', '.join(texts)}: no word has more than one character, so there is nothing to "
            "learn; use a text with longer words"
        )
    listed = [f"{word} {count}" for word, count in counts.items()]
    # hide the progress bar of subword-nmt in logs
    log = sys.stderr if sys.stderr.isatty() else io.StringIO()
    with written_whole(codes) as file, contextlib.redirect_stderr(log):
        learn_bpe.learn_bpe(listed, file, symbols, min_frequency, is_dict=True)


def learn_sentencepiece(
    texts: Sequence[str], model: str, symbols: int, kind: str = "unigram", coverage: float = 0.9995
) -> None:
    """Learn a sentencepiece model from the concatenated texts, and write it to `model`."""
    import sentencepiece

    refuse_unwritable(Path(model))
    learnt = io.BytesIO()
    lines = Lines(texts)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=learnt,
            model_type=kind,
            vocab_size=symbols,
            character_coverage=coverage,
            num_threads=1,  # so that all machines learn the same model
            minloglevel=1,
        )
    except (RuntimeError, ValueError) as error:
        if lines.error is not None:
            raise lines.error from None
        raise InputError(f"{', '.join(texts)}: {why_not_learnt(str(error), symbols)}") from error
    with replaced_whole(model) as partial:
        Path(partial).write_bytes(learnt.getvalue())


def why_not_learnt(error: str, symbols: int) -> str:
    """Convert an error of sentencepiece to a message that states how to fix it."""
    if found := re.search(r"size too high .* <= (\d+)", error):
        return (
            f"the text has too few distinct words for --symbols {symbols}; give at most "
            f"--symbols {found[1]}, or more text"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return (
            f"--symbols {symbols} is too small for the characters of the text; give at least "
            f"--symbols {found[1]}, or a lower --character-coverage"
        )
    if "sentences_.empty()" in error:
        return "the text has no sentences to learn pieces from; give more text"
    return (
        f"sentencepiece cannot learn from the text ({error}); change --symbols {symbols} or "
        "--character-coverage, or give more text"
    )


def learn_words(model: str) -> None:
    """Write a placeholder instead of a model, because --segmenter words learns nothing."""
    with written_whole(model) as file:
        file.write("words\n")


class Lines:
    """Iterates over the lines of several texts.

    error: the exception raised while reading, if any; sentencepiece replaces it by its own.
    """

    def __init__(self, texts: Sequence[str]):
        self.texts = texts
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for path in self.texts:
                yield from read_lines(path)
        except (InputError, OSError) as error:
            self.error = error
            raise


def apply(segmenter: Segmenter, text: str, out: str) -> None:
    """Segment each line of a text, and write the pieces to `out`."""
    with written_whole(out) as file:
        lines = None if is_stream(Path(text)) else count_lines(text)
        for number, line in enumerate(Progress(read_lines(text), lines), start=1):
            if isinstance(segmenter, SubwordNmt) and segmenter.separator in line:
                try:  # a word that ends in the separator would be joined to the next word
                    segmenter.spans(line)
                except InputError as error:
                    raise InputError(f"{text}:{number}: {error}") from None
            file.write(" ".join(segmenter.segment(line)) + "\n")


def segment_lines(config: TextConfig, model: str, part: Part) -> None:
    apply(config.segmenter_of(model), part.inputs[0], part.outputs[0])
