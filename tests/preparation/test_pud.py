"""The package puts gold trees of real text on the pieces of real segmenters as the loops do.

The texts are the same 1,000 sentences (PUD) in English, German (with multiword tokens) and Chinese.
Compared are spans, numbers of pieces, depths and relations of every sentence, for subword-nmt on
the tokens of the tree and on the raw text, whose pieces cross words, and for sentencepiece
(unigram, BPE) on the raw text.
"""

import io
import lzma
from contextlib import redirect_stderr
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from filelock import FileLock
from subword_nmt.learn_bpe import learn_bpe

from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.text.segmenters import Segmentation, SentencePiece, SubwordNmt
from fairseq_posattn.trees.projection import match, project_spans, word_spans
from fairseq_posattn.trees.store_format import collate, pack
from support import reference_projection as reference
from support.commands import ROOT
from support.reference import piece_depths
from support.reference import relations as piece_relations
from support.reference_projection import Sentence, read_sentence

PUD = ROOT.parent / "shared" / "data" / "pud"
LANGUAGES = ["en", "de", "zh"]
SEGMENTERS = ["tokens", "text", "unigram", "bpe"]  # the first two: subword-nmt
SYMBOLS, VOCABULARY, BATCH = 3000, 4000, 50

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PUD.is_dir(), reason=f"no gold trees of PUD in {PUD}"),
]


# --- treebanks -----------------------------------------------------------------------


@cache
def pud_sentences(language: str) -> list[Sentence]:
    path = PUD / f"{language}_pud-ud-test.conllu.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    return [read_sentence(block.split("\n")) for block in blocks]


# --- segmenters ----------------------------------------------------------------------


@pytest.fixture(scope="session")
def models(shared_folder) -> Path:
    """Return a folder with a model for each of SEGMENTERS, which all workers share."""
    folder = shared_folder / "pud"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            learn(folder)
    return folder


def learn(folder: Path) -> None:
    """Learn each segmenter from the three languages together."""
    sentences = [sentence for language in LANGUAGES for sentence in pud_sentences(language)]
    lines = {
        "tokens": [" ".join(sentence.tokens) for sentence in sentences],
        "text": [sentence.text for sentence in sentences],
    }
    for name, segmented in lines.items():
        with open(folder / name, "w", encoding="utf-8") as file, redirect_stderr(io.StringIO()):
            learn_bpe([f"{line}\n" for line in segmented], file, SYMBOLS)
    for name in ("unigram", "bpe"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines["text"]),
            model_prefix=str(folder / name),
            model_type=name,
            vocab_size=VOCABULARY,
            num_threads=1,
            minloglevel=2,
        )


class Segmenter:
    """One of SEGMENTERS: the package's own, the line it is given, the spans of the reference."""

    def __init__(self, name: str, models: Path):
        self.name = name
        if name in ("tokens", "text"):
            self.fast = SubwordNmt(Segmentation(str(models / name)))
        else:
            path = str(models / f"{name}.model")
            self.fast = SentencePiece(path)
            self.processor = sentencepiece.SentencePieceProcessor(model_file=path)

    def line(self, sentence: Sentence) -> str:
        return " ".join(sentence.tokens) if self.name == "tokens" else sentence.text

    def expected_spans(self, line: str) -> list[reference.Span]:
        if self.name in ("tokens", "text"):
            return reference.subword_nmt_spans(line, self.fast.segment(line))
        return reference.sentencepiece_spans(self.processor, line)


# --- comparison ----------------------------------------------------------------------


def on_tensors(trees: list[tuple[list[int], list[int]]]):
    """Yield depths and relations of the pieces, as lists, from (parents, counts) of sentences."""
    counts = [sum(pieces) for _, pieces in trees]
    ends = torch.tensor(counts)[:, None] + 1  # with end of sentence, which is left out below
    real = torch.arange(int(ends.max())) < ends
    tree = SourceTree.of_batch(torch.from_numpy(collate(*pack(trees), np.array(counts))), real)
    for k, count in enumerate(counts):
        yield tree.depths[k, :count].tolist(), tree.relations[k, :count, :count].tolist()


def check_spans(segmenter: Segmenter, sentence: Sentence, where: str):
    """Check the package's words and pieces of a sentence by the reference's, and return them."""
    line = segmenter.line(sentence)
    match(line, sentence.tokens, where)
    words = word_spans(sentence.tokens, sentence.words_of_token)
    assert words == reference.word_spans(sentence.tokens, sentence.words_of_token), where
    pieces = segmenter.fast.spans(line)
    assert pieces == segmenter.expected_spans(line), f"{where}: {line}"
    assert len(pieces) == len(segmenter.fast.segment(line)), f"{where}: {line}"
    return words, pieces


def check_batch(segmenter: Segmenter, sentences: list[Sentence], where: str) -> None:
    spans = [check_spans(segmenter, s, f"{where} + {k}") for k, s in enumerate(sentences)]
    counts = [project_spans(s.parents, *both) for s, both in zip(sentences, spans, strict=True)]
    trees = [(s.parents, count) for s, count in zip(sentences, counts, strict=True)]
    for k, (depths, relations) in enumerate(on_tensors(trees)):
        parents, message = sentences[k].parents, f"{where} + {k}: {sentences[k].text}"
        words = reference.words_of_pieces(parents, *spans[k])
        assert counts[k] == [words.count(word) for word in range(len(parents))], message
        *expected, _ = piece_depths(parents, counts[k])  # without the end of sentence
        assert depths == expected, message
        *rows, _ = piece_relations(parents, counts[k])
        assert relations == [row[:-1] for row in rows], message


@pytest.mark.parametrize("name", SEGMENTERS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_all_sentences(models, language, name):
    segmenter, sentences = Segmenter(name, models), pud_sentences(language)
    assert len(sentences) == 1000
    for start in range(0, len(sentences), BATCH):
        check_batch(segmenter, sentences[start : start + BATCH], f"{language} {start}")


def several_words(segmenter: Segmenter, sentence: Sentence) -> int:
    """How many pieces share characters with several tokens."""
    tokens = reference.word_spans(sentence.tokens)
    pieces = segmenter.expected_spans(segmenter.line(sentence))
    return sum(len(reference.words_of_piece(tokens, piece)) > 1 for piece in pieces)


def test_what_is_compared_is_there(models):
    """Multiword tokens, and pieces that cross tokens, wherever the raw text is segmented."""
    assert sum(max(s.words_of_token) > 1 for s in pud_sentences("de")) > 100
    for language in LANGUAGES:
        some = pud_sentences(language)[:200]
        for name in SEGMENTERS:
            segmenter = Segmenter(name, models)
            crossing = sum(several_words(segmenter, sentence) for sentence in some)
            assert (crossing > 0) == (name != "tokens"), (language, name)
