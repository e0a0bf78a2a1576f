"""Scores of a test set: sacrebleu's, and the tokenised BLEU of older papers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as Computed
from sacrebleu.metrics.bleu import BLEUScore

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.score_record import Score
from fairseq_posattn.text.pipeline import tokenized

NIST = "NIST BLEU"
TOKENISED = "tokenised BLEU"
LOWER_IS_BETTER = ("TER",)
UNSPACED = ("zh", "ja", "th", "lo", "km", "my")  # Moses splits words at spaces: there are none
BY_CHARACTERS = ("zh", "ja", "ja-mecab")  # languages, and sacrebleu's tokenisers for them
# Raised where a package or a model of a tokeniser is missing, or its dictionary is another one.
TOKENIZER_ERRORS = (ImportError, RuntimeError, AssertionError, OSError)
COMPOUND = re.compile(r"(\S)-(\S)")  # no overlaps, as in the Perl line behind published scores


@dataclass(frozen=True)
class Settings:
    """How texts are compared. tokenize None: what sacrebleu takes for the target language."""

    target: str = ""
    tokenize: str | None = None
    lowercase: bool = False
    nist: bool = False

    def bleu(self, **changes) -> BLEU:
        """BLEU as asked for: also that of buckets and n-grams."""
        options = {"lowercase": self.lowercase, "tokenize": self.tokenize, **changes}
        warned = self.tokenize and changes.get("force")  # of a tokeniser unusual for the target
        try:
            return BLEU(trg_lang="" if warned else self.target, **options)
        except TOKENIZER_ERRORS as error:
            raise self.tokenizer_missing(error) from error

    def tokenizer_missing(self, error: Exception) -> InputError:
        """Name the option that asked for a tokeniser of sacrebleu's which cannot be had."""
        reason = " ".join(str(error).split()) or repr(error)
        if self.tokenize:
            return InputError(f"--tokenize {self.tokenize}: {reason}")
        return InputError(
            f"--target-lang {self.target}: {reason}; or choose another tokeniser with --tokenize, "
            "such as char"
        )

    def ter(self, references: Sequence[Sequence[str]]) -> TER:
        """TER over words; in Chinese and Japanese over what sacrebleu splits their characters into.

        These are written without spaces, so a whole sentence would count as one word. Text that
        is tokenised already (--tokenize none) has its spaces.
        """
        asian = self.tokenize != "none" and not {self.target, self.tokenize}.isdisjoint(
            BY_CHARACTERS
        )
        return TER(normalized=asian, asian_support=asian, references=references)

    @property
    def moses(self) -> bool:
        """Whether there is a tokenised BLEU."""
        return bool(self.target) and self.target not in UNSPACED

    @property
    def compounds(self) -> bool:
        return self.target == "de"


@dataclass(frozen=True)
class Scoring:
    """The references of a test set, several for each sentence, and how to score with them."""

    references: Sequence[Sequence[str]]
    settings: Settings

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Name -> sacrebleu's metric, which keeps what it needs of the references."""
        lowercase, references = self.settings.lowercase, self.references
        found = {
            "BLEU": self.settings.bleu(references=references),
            "chrF2": CHRF(lowercase=lowercase, references=references),
            "TER": self.settings.ter(references),
        }
        if self.settings.nist or len(references) > 1:
            # the field's own figure of several references is blind to case
            found[NIST] = BLEU(lowercase=True, tokenize="13a", force=True, references=references)
        return found

    def scores(self, hypotheses: Sequence[str]) -> dict[str, Score]:
        """All scores with their signatures."""
        found = {name: scored(metric, hypotheses) for name, metric in self.metrics.items()}
        nist = found.pop(NIST, None)
        if self.settings.moses:
            found[TOKENISED] = tokenised_bleu(hypotheses, self.references, self.settings)
        return {**found, NIST: nist} if nist else found


def scored(metric: Metric, hypotheses: Sequence[str]) -> Score:
    return described(metric.corpus_score(hypotheses, None), str(metric.get_signature()))


def described(found: Computed, signature: str) -> Score:
    """Return a score as it stands in the JSON."""
    if not isinstance(found, BLEUScore):
        return Score(score=found.score, signature=signature)
    return Score(
        score=found.score,
        signature=signature,
        brevity_penalty=found.bp,
        precisions=list(found.precisions),
    )


def tokenised_bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], settings: Settings
) -> Score:
    """BLEU of Moses' tokens, German compounds split, without smoothing."""
    prepare = tokenised_text(settings)
    metric = BLEU(lowercase=settings.lowercase, tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score(
        [prepare(line) for line in hypotheses],
        [[prepare(line) for line in reference] for reference in references],
    )
    compounds = "|compounds:split" if settings.compounds else ""
    return described(score, f"{metric.get_signature()}|moses:{settings.target}{compounds}")


def tokenised_text(settings: Settings) -> Callable[[str], str]:
    def prepare(line: str) -> str:
        line = tokenized(line, settings.target)
        return split_compounds(line) if settings.compounds else line

    return prepare


def split_compounds(line: str) -> str:
    """Bus-Linie -> Bus ##AT##-##AT## Linie."""
    return COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)
