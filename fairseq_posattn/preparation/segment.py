"""Words -> pieces, with subword-nmt (Sennrich et al. 2016)."""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from subword_nmt import learn_bpe
from subword_nmt.apply_bpe import BPE, read_vocabulary

from fairseq_posattn.command_line import progress
from fairseq_posattn.files import InputError, count_lines, read_lines, written_whole
from fairseq_posattn.trees.projection import SEPARATOR


@dataclass(frozen=True)
class Segmentation:
    """How words are split: merges, mark of a piece that others follow, pieces allowed."""

    codes: str
    separator: str = SEPARATOR
    vocabulary: str | None = None
    threshold: int | None = None


def learn(texts: Sequence[str], codes: str, symbols: int, min_frequency: int = 2) -> None:
    """Learn the merges from all texts together."""
    counts = Counter(
        word for path in texts for line in read_lines(path) for word in line.split(" ") if word
    )
    if not any(len(word) > 1 for word in counts):
        raise InputError(
            f"{', '.join(texts)}: no word of two letters or more, so there is nothing to learn"
        )
    listed = [f"{word} {count}" for word, count in counts.items()]
    with written_whole(codes) as file, _own_progress_bar():
        learn_bpe.learn_bpe(listed, file, symbols, min_frequency, is_dict=True)


def apply(segmentation: Segmentation, text: str, out: str) -> None:
    """Write the pieces of each line of a text."""
    bpe = load_bpe(segmentation)
    with written_whole(out) as file:
        for line in progress(read_lines(text), count_lines(text)):
            file.write(bpe.process_line(line) + "\n")


def load_bpe(segmentation: Segmentation) -> BPE:
    """The segmenter of subword-nmt, for the step above and for new text."""
    with open(segmentation.codes, encoding="utf-8", newline="\n") as codes:
        return BPE(codes, separator=segmentation.separator, vocab=_vocabulary(segmentation))


def _vocabulary(segmentation: Segmentation) -> set[str] | None:
    if segmentation.vocabulary is None:
        return None
    return read_vocabulary(read_lines(segmentation.vocabulary), segmentation.threshold)


@contextlib.contextmanager
def _own_progress_bar() -> Iterator[None]:
    """subword-nmt draws its progress bar even where nobody looks."""
    if sys.stderr.isatty():
        yield
    else:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
