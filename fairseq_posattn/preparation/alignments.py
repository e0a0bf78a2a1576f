"""Word alignments: read them or learn them with eflomal, and convert them to piece alignments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, product
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.numbers import plain_numbers
from fairseq_posattn.jobs.lines import LineStep, Part
from fairseq_posattn.preparation.corpus import ALIGN
from fairseq_posattn.preparation.eflomal import align_texts, symmetrize_lines
from fairseq_posattn.preparation.job import Job, StepsByLines
from fairseq_posattn.preparation.pairs import rewrite_lines, rows
from fairseq_posattn.text.languages import language
from fairseq_posattn.text.pipeline import tokenized
from fairseq_posattn.text.segmenters import SentencePiece
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.projection import Span, dense, spans, words_of_pieces

Side = list[Sequence[int]]  # the pieces of each word


class AlignmentSteps:
    """The steps that write the piece alignments of a split."""

    def __init__(self, job: Job, steps: StepsByLines):
        self.job, self.config, self.steps = job, job.config, steps
        self.models = [str(model) for model in job.segmenters()]

    def run(self, split: str, texts: Sequence[str]) -> None:
        """Write the piece alignments of a split.

        texts: the source and target texts that were segmented.
        """
        words = [self.words(split, k, text) for k, text in enumerate(texts)]
        given = self.learnt(split, words) if self.job.align else self.given(split)
        languages = (self.config.source, self.config.target)
        files = [self.job.pieces(split, name) for name in languages]
        models: list[str] = []
        if not self.config.splits_words:
            files, models = [*words, *texts], self.models
        step = LineStep(
            f"align.{split}",
            [given, *files],
            [self.job.pieces(split, ALIGN)],
            partial(align_lines, self.config.separator, models),
            self.config.separator,
        )
        self.steps.do_lines(step, models, partial(refuse_no_alignment, given))

    def given(self, split: str) -> str:
        return given_alignments(self.job.corpus.splits()[split])

    def words(self, split: str, side: int, text: str) -> str:
        """Return the file with the words that are aligned; write it if `text` is not tokenised."""
        name = (self.config.source, self.config.target)[side]
        choice = (self.config.tokenize, self.config.target_tokenize)[side]
        if self.config.splits_words or self.job.alignments or choice == "spaces":
            return text
        code = (self.config.source_language, self.config.target_language)[side]
        model = None if language(name).spaced else self.models[side]
        step = LineStep(
            f"words.{split}.{name}",
            [text],
            [self.job.file(split, f"aligned_words.{name}")],
            partial(split_lines, code, model),
            code,
        )
        self.steps.do_lines(step, [model] if model else [])
        return step.outputs[0]

    def learnt(self, split: str, words: Sequence[str]) -> str:
        """Align the words of a split with eflomal, and return the file with the alignments."""
        directions = [self.job.file(split, f"eflomal.{way}") for way in ("forward", "reverse")]
        found = self.job.file(split, f"eflomal.{ALIGN}")
        align = partial(align_texts, words, directions)
        self.steps.do(f"eflomal.{split}", None, words, directions, align)
        self.steps.do_lines(LineStep(f"symmetrize.{split}", directions, [found], symmetrize_lines))
        return found


def given_alignments(prefix: str) -> str:
    if Path(path := f"{prefix}.{ALIGN}").exists():
        return path
    raise InputError(
        f"{path}: the file is missing, but --alignments reads it; create it, with a line such as "
        "0-0 2-1 for each sentence, or leave out --alignments"
    )


def split_lines(code: str, model: str | None, part: Part) -> None:
    rewrite_lines(partial(words_of, code, SentencePiece(model) if model else None), part)


def words_of(code: str, segmenter: SentencePiece | None, line: str) -> str:
    """Split a line into words: with Moses, or at the boundaries of its pieces."""
    text = dense(line)
    if segmenter:
        return " ".join(text[begin:end] for begin, end in segmenter.spans(line))
    words = tokenized(line, code)
    return words if dense(words) == text else line  # Moses removes control characters


def align_lines(separator: str, models: Sequence[str], part: Part) -> dict:
    """Convert word alignments to piece alignments; return how many lines contain alignments.

    models: the sentencepiece models of both sides, or nothing if the pieces have separators.
    """
    segmenters = [SentencePiece(model) for model in models]
    given, lines = part.inputs[0], 0
    with written_whole(part.outputs[0]) as file:
        for number, (line, *texts) in enumerate(rows(part.inputs), start=1):
            where = f"{given}:{number}"
            sides = (
                by_characters(segmenters, texts)
                if segmenters
                else by_separator(separator, texts, where)
            )
            pairs = (product(*aligned_words(pair, sides, where)) for pair in line.split())
            found = dict.fromkeys(f"{s}-{t}" for of_pair in pairs for s, t in of_pair)
            file.write(" ".join(found) + "\n")
            lines += bool(found)
    return {"aligned": lines}


def refuse_no_alignment(given: str, answers: Sequence[dict]) -> None:
    """Raise an InputError if a file contains no alignments; fairseq cannot read such a file."""
    if not any(answer["aligned"] for answer in answers):
        raise InputError(
            f"{given}: no sentence has an alignment; write alignments such as 0-0 2-1, or leave "
            "out --alignments (or --align)"
        )


def by_separator(separator: str, texts: Sequence[str], where: str) -> list[Side]:
    """Return the pieces of each word, given the pieces of both sides.

    separator: the suffix of all pieces except the last piece of a word.
    """
    try:
        counts = [words_of_pieces(text.split(), separator)[1] for text in texts]
    except TreeError as error:
        raise InputError(f"{where}: {error}") from error
    ends = [list(accumulate(of_side)) for of_side in counts]
    return [list(map(range, [0, *of_side], of_side)) for of_side in ends]


def by_characters(segmenters: Sequence[SentencePiece], texts: Sequence[str]) -> list[Side]:
    """Return the pieces that overlap each word, given words and text of both sides."""
    sides = zip(segmenters, texts[:2], texts[2:], strict=True)
    return [
        overlapping(spans(words.split()), segmenter.spans(text)) for segmenter, words, text in sides
    ]


def overlapping(words: Sequence[Span], pieces: Sequence[Span]) -> Side:
    """Return the indices of the pieces that have a character in common with each word."""
    return [
        [k for k, (first, last) in enumerate(pieces) if max(first, begin) < min(last, end)]
        for begin, end in words
    ]


def aligned_words(pair: str, sides: Sequence[Side], where: str) -> list[Sequence[int]]:
    """Return the pieces of the two words in an alignment such as 3-1.

    Raise an InputError if the alignment is invalid.
    """
    numbers = plain_numbers(pair.split("-"))
    if numbers is None or len(numbers) != 2:
        raise InputError(
            f"{where}: '{pair}' is not an alignment; write a pair of word indices, counted "
            "from 0, such as 3-1"
        )
    for side, words, n in zip(("source", "target"), sides, numbers, strict=True):
        if n >= len(words):
            raise InputError(
                f"{where}: '{pair}' is out of range, because the {side} has {len(words)} words; "
                "count the words of the tokenised text from 0"
            )
    return [words[n] for words, n in zip(sides, numbers, strict=True)]
