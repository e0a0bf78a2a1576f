"""Words -> pieces, with subword-nmt (Sennrich et al. 2016)."""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from subword_nmt import learn_bpe
from subword_nmt.apply_bpe import BPE

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

    def __post_init__(self):
        if self.threshold is not None and self.vocabulary is None:
            raise InputError("--vocabulary-threshold says nothing without --vocabulary")


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
    codes = io.StringIO("\n".join(_merges(segmentation.codes)))
    return BPE(codes, separator=segmentation.separator, vocab=_vocabulary(segmentation))


def _merges(codes: str) -> Iterator[str]:
    """The lines of a file of merges; subword-nmt itself would end the program at a bad one."""
    number = 0
    for number, line in enumerate(read_lines(codes), start=1):
        if len(line.split(" ")) != 2:
            raise InputError(f"{codes}:{number}: expected two pieces to merge, found '{line}'")
        yield line
    if number < 2:
        raise InputError(
            f"{codes}: no merges; learn them from more text or a lower --min-frequency"
        )


def _vocabulary(segmentation: Segmentation) -> set[str] | None:
    path = segmentation.vocabulary
    if path is None:
        return None
    counts = (_piece_count(line, f"{path}:{k}") for k, line in enumerate(read_lines(path), start=1))
    return {piece for piece, count in counts if count >= (segmentation.threshold or 0)}


def _piece_count(line: str, where: str) -> tuple[str, int]:
    piece, _, count = line.rpartition(" ")
    if not piece or not count.isdecimal():
        raise InputError(f"{where}: expected a piece and its count, found '{line}'")
    return piece, int(count)


@contextlib.contextmanager
def _own_progress_bar() -> Iterator[None]:
    """subword-nmt draws its progress bar even where nobody looks."""
    if sys.stderr.isatty():
        yield
    else:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
