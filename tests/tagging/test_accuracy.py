"""The criterion's counts and percentages are those of examples counted by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics

from fairseq_posattn.tagging.dataset import TaggingDataset
from fairseq_posattn.tagging.sentences import TaggedSentence
from fairseq_posattn.tagging.task import TaggingCriterion
from fairseq_posattn.tagging.vocabulary import Settings, learn

TRAINING = [
    "the DET run NOUN",
    "we PRON run VERB",
    "to PART rare NOUN",
    "to ADP the DET",
    "to _ we PRON",
    "rare ADJ",
]
WORDS = "4"  # to, the, run and we; rare is ambiguous, but out of the vocabulary


def sentence(text: str) -> TaggedSentence:
    words, tags = text.split()[::2], text.split()[1::2]
    return TaggedSentence(words, [None if t == "_" else t for t in tags], "hand", 1)


VOCABULARY = learn(
    [sentence(t) for t in TRAINING], [sentence(t) for t in TRAINING], WORDS, Settings()
)
TAGS = VOCABULARY.tags


class Model(torch.nn.Module):
    """Gives the found tag of each word a score of 1, all others 0, and padding the best of all."""

    def __init__(self, found: list[list[str]]):
        super().__init__()
        self.found = found

    def forward(self, words, spellings, spelling_of):
        scores = torch.zeros(*words.shape, len(TAGS))
        scores[..., TAGS.pad()] = 2
        for row, tags in zip(scores, self.found, strict=True):
            for word, tag in zip(row, tags, strict=False):
                word[TAGS.index(tag)] = 1
        return scores

    def tags(self, scores):
        return scores[..., TAGS.nspecial :].argmax(dim=-1) + TAGS.nspecial


CRITERION = TaggingCriterion(
    SimpleNamespace(
        vocabulary=VOCABULARY, ambiguous=torch.from_numpy(VOCABULARY.is_ambiguous()), cfg=None
    )
)


def outputs(gold: list[str], found: list[str]) -> dict:
    """Return what the criterion logs of a batch."""
    sentences = [sentence(text) for text in gold]
    words = [torch.tensor(VOCABULARY.words.numbers(s.words)) for s in sentences]
    chars = [torch.tensor(VOCABULARY.spellings(s.words)) for s in sentences]
    tags = [
        torch.tensor([TAGS.pad() if t is None else TAGS.index(t) for t in s.tags])
        for s in sentences
    ]
    data = TaggingDataset(words, chars, tags)
    sample = data.collater([data[k] for k in range(len(data))])
    loss, size, logged = CRITERION(Model([t.split() for t in found]), sample)
    assert size == logged["sample_size"] == logged["words"]
    torch.testing.assert_close(loss, logged["loss"])
    return logged


def counts(gold: list[str], found: list[str]) -> dict:
    parts = [f"{g}{p}" for g in ("", "oov_", "ambiguous_") for p in ("words", "right")]
    logged = outputs(gold, found)
    return {part: logged[part] for part in parts}


def reduced(*logged: dict) -> dict:
    with metrics.aggregate() as values:
        TaggingCriterion.reduce_metrics(list(logged))
    return values.get_smoothed_values()


# gold, then found, padded to four words; groups: all, out of vocabulary, ambiguous
ONE = (
    ["the DET run NOUN xyz NOUN rare ADJ", "to ADP"],
    ["DET VERB NOUN NOUN", "ADP"],
)  # all: 5, 3 right (the, xyz, to); OOV: xyz and rare, 1 right; ambiguous: run and to, 1 right
TWO = (
    ["we _ run VERB abc _", "the INTJ"],
    ["PRON VERB DET", "DET"],
)  # all: run, the; the tag INTJ is not in training: wrong; OOV: none counts; ambiguous: run


def test_counts_by_hand():
    assert counts(*ONE) == {
        **{"words": 5, "right": 3, "oov_words": 2, "oov_right": 1},
        **{"ambiguous_words": 2, "ambiguous_right": 1},
    }


def test_words_without_a_tag_and_tags_unseen_in_training():
    assert counts(*TWO) == {
        **{"words": 2, "right": 1, "oov_words": 0, "oov_right": 0},
        **{"ambiguous_words": 1, "ambiguous_right": 1},
    }


def test_loss_is_the_sum_over_words_with_a_tag():
    """Scores: padding 2, the found tag 1, the other seven labels 0."""
    total = math.exp(2) + math.e + 7
    right, wrong = math.log(total) - 1, math.log(total)
    logged = outputs(*ONE)
    assert float(logged["loss"]) == pytest.approx(3 * right + 2 * wrong, 1e-5)
    mean = (3 * right + 2 * wrong) / 5 / math.log(2)
    assert reduced(logged)["loss"] == pytest.approx(mean, abs=1e-3)


def test_percentages_over_batches_are_of_all_words():
    """4 of 7, and 2 of 3 ambiguous ones: not the mean of 60 and 50, and of 50 and 100."""
    found = reduced(outputs(*ONE), outputs(*TWO))
    assert found["accuracy"] == 57.143
    assert found["oov_accuracy"] == 50
    assert found["ambiguous_accuracy"] == 66.667


def test_processes_that_fairseq_has_summed():
    """Between processes each number is summed before the reduction."""
    logged = [outputs(*case) for case in (ONE, TWO)]
    assert TaggingCriterion.logging_outputs_can_be_summed()
    summed = {name: sum(float(one[name]) for one in logged) for name in logged[0]}
    assert reduced(summed) == reduced(*logged)


def test_a_batch_of_no_words_changes_nothing():
    nothing = outputs(["we _ xyz _"], ["PRON NOUN"])
    assert nothing["words"] == nothing["sample_size"] == 0
    assert float(nothing["loss"]) == 0
    assert reduced(outputs(*ONE), nothing) == reduced(outputs(*ONE))


def test_no_word_in_a_group():
    found = reduced(outputs(["the DET", "we PRON"], ["DET", "DET"]))
    assert found["accuracy"] == 50
    assert math.isnan(found["oov_accuracy"])
    assert math.isnan(found["ambiguous_accuracy"])
    assert math.isnan(reduced(outputs(["we _"], ["DET"]))["accuracy"])
