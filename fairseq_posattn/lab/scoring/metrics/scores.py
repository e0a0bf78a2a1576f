"""Compute sacrebleu's scores for a test set, and tokenised BLEU as in older papers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, stdev

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as Computed
from sacrebleu.metrics.bleu import BLEUScore

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.scoring.metrics.exact import ExactMatch
from fairseq_posattn.lab.scoring.metrics.runs import (
    Counted,
    Samples,
    computed_score,
    counted_by,
    interval,
    read_statistics,
)
from fairseq_posattn.lab.scoring.score_record import EXACT, Score
from fairseq_posattn.text.languages import Language, known, language
from fairseq_posattn.text.pipeline import tokenized

NIST = "NIST BLEU"
TOKENISED = "tokenised BLEU"
BY_CHARACTERS = ("zh", "ja-mecab")  # with these tokenisers, TER is computed over characters
WORDS_OF = {"chrF2": 0, "chrF2++": 2}  # chrF's maximum order of word n-grams
BY_SPACES = ("13a", "intl", "none")  # these tokenisers split words at spaces
# Raised by a tokeniser if a package, a model or the right dictionary is missing.
TOKENIZER_ERRORS = (ImportError, RuntimeError, AssertionError, OSError)
# without overlapping matches, as in the Perl command used for published scores
COMPOUND = re.compile(r"(\S)-(\S)")


@dataclass(frozen=True)
class Settings:
    """The settings of all metrics.

    tokenize: sacrebleu's tokeniser; None selects the tokeniser of the target language.
    only: the only score to compute; "" for all scores.
    statistics: whether runs consist of a metric's statistics instead of translations.
    Raises InputError for an unknown target language, unless `tokenize` is given.
    """

    target: str = ""
    tokenize: str | None = None
    lowercase: bool = False
    nist: bool = False
    exact: bool = False
    only: str = ""
    statistics: bool = False

    def __post_init__(self) -> None:
        if self.target and not self.tokenize:
            remedy = "; use a known one, or choose a tokeniser with --tokenize, such as 13a or char"
            known("--target-lang", self.target, remedy)

    @cached_property
    def language(self) -> Language:
        return language(self.target)

    @property
    def tokenizer(self) -> str:
        return self.tokenize or self.language.tokenizer or BLEU.TOKENIZER_DEFAULT

    def bleu(self, **changes) -> BLEU:
        """Return sacrebleu's BLEU metric; `changes` override its arguments."""
        options = {"lowercase": self.lowercase, "tokenize": self.tokenizer, **changes}
        # suppress sacrebleu's warning about the tokeniser here; the BLEU score already causes it
        warned = self.tokenize and changes.get("force")
        try:
            return BLEU(trg_lang="" if warned else self.language.code, **options)
        except TOKENIZER_ERRORS as error:
            raise self.tokenizer_missing(error) from error

    def tokenizer_missing(self, error: Exception) -> InputError:
        """Return an InputError about a missing tokeniser, with the option that selected it."""
        reason = " ".join(str(error).split()) or repr(error)
        if self.tokenize:
            return InputError(f"--tokenize {self.tokenize}: {reason}")
        return InputError(
            f"--target-lang {self.target}: {reason}; or choose another tokeniser with --tokenize, "
            "such as char"
        )

    def ter(self, references: Sequence[Sequence[str]]) -> TER:
        asian = self.ter_of_characters
        return TER(normalized=asian, asian_support=asian, references=references)

    @property
    def ter_of_characters(self) -> bool:
        """Whether TER is computed over characters.

        Chinese and Japanese are written without spaces, so TER would treat a whole sentence as one
        word, unless the text is already tokenised (--tokenize none).
        """
        chosen = {self.language.tokenizer, self.tokenize}
        return self.tokenize != "none" and not chosen.isdisjoint(BY_CHARACTERS)

    @property
    def moses(self) -> bool:
        """Whether to compute tokenised BLEU."""
        return bool(self.target) and self.language.spaced

    @property
    def compounds(self) -> bool:
        """Whether to split compounds at hyphens, as in published scores for German."""
        return self.language.code == "de"


@dataclass(frozen=True)
class Scoring:
    """The references of a test set (one or several texts), and the metrics to compute.

    Example:

        Scoring([lines_of_reference], Settings("de")).names  # ["BLEU", "chrF2", ...]
    """

    references: Sequence[Sequence[str]]
    settings: Settings

    @property
    def names(self) -> list[str]:
        """The names of all scores, in display order."""
        wanted = self.settings
        if wanted.only:
            return [wanted.only]
        found = ["BLEU", "chrF2", "chrF2++", "TER"]
        found += [EXACT] * wanted.exact + [TOKENISED] * wanted.moses
        return found + [NIST] * (wanted.nist or len(self.references) > 1)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by name, with preprocessed references."""
        return {name: self.new_metric(name) for name in self.names}

    def new_metric(self, name: str) -> Metric:
        settings, lowercase, references = self.settings, self.settings.lowercase, self.references
        if name == "TER":
            return settings.ter(references)
        if name == EXACT:
            return ExactMatch(references, lowercase)
        if name == NIST:  # published scores with several references ignore case
            return BLEU(lowercase=True, tokenize="13a", force=True, references=references)
        if name == TOKENISED:
            prepare = tokenised_text(settings)
            return BLEU(
                lowercase=lowercase,
                tokenize="none",
                smooth_method="none",
                force=True,
                references=[[prepare(line) for line in reference] for reference in references],
            )
        if name == "BLEU":
            return settings.bleu(references=references)
        return CHRF(word_order=WORDS_OF[name], lowercase=lowercase, references=references)

    def signature(self, name: str) -> str:
        """Return sacrebleu's signature of a score; for tokenised BLEU, append the tokenisation."""
        signature = str(self.metrics[name].get_signature())
        if name != TOKENISED:
            return signature
        compounds = "|compounds:split" if self.settings.compounds else ""
        return f"{signature}|moses:{self.settings.language.code}{compounds}"

    @property
    def by_spaces(self) -> list[str]:
        """The names of the scores that split words at spaces."""
        split = {
            "BLEU": (self.settings.tokenizer in BY_SPACES, f"BLEU ({self.settings.tokenizer})"),
            "TER": (not self.settings.ter_of_characters, "TER"),
            TOKENISED: (True, TOKENISED),
            NIST: (True, f"{NIST} (13a)"),
        }
        found = [split[name] for name in self.names if name in split]
        return [shown for by_spaces, shown in found if by_spaces]

    def table(self, name: str, runs: Sequence[Sequence[str]]) -> Counted:
        """Return a metric's statistics for each sentence of each run."""
        if self.settings.statistics:
            return read_statistics(runs)
        if name == TOKENISED:
            prepare = tokenised_text(self.settings)
            runs = [[prepare(line) for line in run] for run in runs]
        return counted_by(self.metrics[name], runs)


@dataclass(frozen=True)
class Translations:
    """The translations of a test set by one or several runs of a system."""

    scoring: Scoring
    runs: Sequence[Sequence[str]]

    @cached_property
    def tables(self) -> dict[str, Counted]:
        """The statistics of all metrics; their computation takes most of the scoring time."""
        return {name: self.scoring.table(name, self.runs) for name in self.scoring.names}

    def plain_scores(self) -> dict[str, Score]:
        """Return all scores without confidence intervals; with several runs, return the means."""
        found = {}
        for name, table in self.tables.items():
            metric, signature = self.scoring.metrics[name], self.scoring.signature(name)
            computed = [computed_score(metric, sums) for sums in table.sum(axis=1)]
            found[name] = over_runs([described(one, signature) for one in computed])
        return found

    def scores(self, samples: Samples) -> dict[str, Score]:
        """Return all scores with their confidence intervals."""
        return {
            name: replace(found, interval=interval(self.scoring.metrics[name], table, samples))
            for (name, found), table in zip(
                self.plain_scores().items(), self.tables.values(), strict=True
            )
        }


def over_runs(scores: Sequence[Score]) -> Score:
    """Return the mean and standard deviation of several scores, or a single score unchanged."""
    if len(scores) == 1:
        return scores[0]
    found = [score.score for score in scores]
    return Score(
        score=mean(found), deviation=stdev(found), runs=found, signature=scores[0].signature
    )


def described(found: Computed, signature: str) -> Score:
    if not isinstance(found, BLEUScore):
        return Score(score=found.score, signature=signature)
    return Score(
        score=found.score,
        signature=signature,
        brevity_penalty=found.bp,
        precisions=list(found.precisions),
    )


def tokenised_text(settings: Settings) -> Callable[[str], str]:
    def prepare(line: str) -> str:
        line = tokenized(line, settings.language.code)
        return split_compounds(line) if settings.compounds else line

    return prepare


def split_compounds(line: str) -> str:
    """Split compounds at hyphens: Bus-Linie becomes Bus ##AT##-##AT## Linie."""
    return COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)
