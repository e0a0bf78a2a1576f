"""Beam search on a CPU that considers only words that can be among the best continuations.

fairseq's generator reads and writes the scores of all words several times in each step. Here, it
receives the scores of a few hundred candidates per hypothesis: the vocabulary is divided into
blocks, and only the blocks with the highest scores are kept. The best words are always among them,
so the result is exact.
"""

import math

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor

SMALLEST = 4_000  # for smaller vocabularies, nothing is gained


class CandidateModel(EnsembleModel):
    """An ensemble that returns the scores of candidates.

    words: the words of the candidates, of shape (R, N); None if all words are candidates
    count: how many of the best words are needed; None if all are
    first: the number of special symbols, which are always candidates
    """

    words: Tensor | None
    count: int | None
    first: int

    def forward_decoder(self, *args, **options):
        lprobs, attention = super().forward_decoder(*args, **options)
        self.words = None
        if self.count is not None and lprobs.is_cpu:
            self.words = candidates(lprobs, self.first, self.count)
            lprobs = lprobs if self.words is None else lprobs.gather(1, self.words)
        return lprobs, attention


def candidates(scores: Tensor, first: int, count: int) -> Tensor | None:
    """Return candidates that include the `count` best words, or None if there are too few words.

    scores: (R, V); the words before `first` are always candidates, in their order
    """
    rows, size = scores.shape
    width = math.isqrt((size - first) // count)
    blocks = (size - first) // width if width else 0
    end = first + blocks * width
    if size < SMALLEST or blocks <= count:
        return None
    highest = scores[:, first:end].unflatten(1, (blocks, width)).amax(dim=2)
    starts = first + width * highest.topk(count, sorted=False)[1]
    words = starts.unsqueeze(2) + torch.arange(width)
    special, rest = torch.arange(first).expand(rows, -1), torch.arange(end, size).expand(rows, -1)
    return torch.cat([special, words.flatten(1), rest], dim=1)


class CandidateSearch(BeamSearch):
    """Beam search among candidates; it returns dictionary indices of words."""

    model: CandidateModel

    def step(self, step: int, lprobs: Tensor, *args, **options):
        scores, numbers, beams = super().step(step, lprobs, *args, **options)
        words = self.model.words
        if words is not None:
            rows = beams + lprobs.size(1) * torch.arange(len(lprobs)).unsqueeze(1)
            numbers = words[rows, numbers]
        return scores, numbers, beams


class CandidateGenerator(SequenceGenerator):
    """A generator whose model returns scores of candidates, not of all words."""

    all_words: int  # the dictionary itself may grow, because fairseq adds words when it scores

    @property
    def vocab_size(self) -> int:
        """Return the number of words whose scores the model returned."""
        return self.all_words if self.model.words is None else self.model.words.size(1)

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        free = prefix_tokens is None and constraints is None
        self.model.count = 2 * self.beam_size if free else None
        self.model.words = None
        return super()._generate(sample, prefix_tokens, constraints, bos_token)


def use_candidates(generator) -> None:
    """Let a generator consider candidates only, unless an option needs the scores of all words."""
    plain = type(generator) is SequenceGenerator and type(generator.search) is BeamSearch
    needs_all = plain and (
        generator.repeat_ngram_blocker is not None
        or generator.token_indices_to_suppress is not None
        or generator.lm_model is not None
    )
    if not plain or needs_all or type(generator.model) is not EnsembleModel:
        return
    generator.all_words = generator.__dict__.pop("vocab_size")
    generator.__class__ = CandidateGenerator
    generator.model.__class__ = CandidateModel
    generator.model.first = max(generator.pad, generator.unk, generator.eos) + 1
    generator.search.__class__ = CandidateSearch
    generator.search.__dict__["model"] = generator.model  # not as a submodule
