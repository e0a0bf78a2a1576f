"""Learn and apply segmenters: subword-nmt (Sennrich et al. 2016) or sentencepiece."""

import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from subword_nmt import learn_bpe

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.files import count_lines, read_lines
from fairseq_posattn.io.paths import is_stream, refuse_unwritable
from fairseq_posattn.io.progress import progress
from fairseq_posattn.text.pipeline import TextConfig
from fairseq_posattn.text.segmenters import Segmenter, SubwordNmt
from fairseq_posattn.work.lines import Part

SENTENCEPIECE_MODELS = ("unigram", "bpe")


def learn(texts: Sequence[str], codes: str, symbols: int, min_frequency: int = 2) -> None:
    """Learn the merges of subword-nmt from the concatenated texts, and write them to `codes`."""
    refuse_unwritable(Path(codes))
    counts = Counter(word for path in texts for line in read_lines(path) for word in line.split())
    if not any(len(word) > 1 for word in counts):
        raise InputError(
            f"{', '.join(texts)}: every word is a single character, so there is nothing to learn; "
            "use a text with longer words"
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
        for number, line in enumerate(progress(read_lines(text), lines), start=1):
            refuse_marked(segmenter, line, f"{text}:{number}")
            file.write(" ".join(segmenter.segment(line)) + "\n")


def refuse_marked(segmenter: Segmenter, line: str, where: str) -> None:
    """Raise an InputError if a word ends in the separator, which would join it to the next word."""
    if isinstance(segmenter, SubwordNmt) and segmenter.separator in line:
        try:
            segmenter.spans(line)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def segment_lines(config: TextConfig, model: str, part: Part) -> None:
    apply(config.segmenter_of(model), part.inputs[0], part.outputs[0])
