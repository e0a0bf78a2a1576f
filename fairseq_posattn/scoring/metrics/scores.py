"""Compute sacrebleu's scores for a test set, tokenised BLEU as in older papers, and exact match."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, stdev
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as Computed
from sacrebleu.metrics.bleu import BLEUScore
from sacrebleu.utils import sum_of_lists

from fairseq_posattn.errors import InputError
from fairseq_posattn.scoring.metrics.runs import (
    Counted,
    FromSums,
    Samples,
    counted_by,
    interval,
    read_statistics,
    run_scores,
)
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.scoring.score_record import EXACT, Score
from fairseq_posattn.text.languages import Language, known, language
from fairseq_posattn.text.pipeline import tokenized


class ExactSignature(Signature):
    """The signature of exact match, which records whether case is ignored."""

    def __init__(self, args: dict[str, Any]):
        super().__init__(args)
        self.info["case"] = "lc" if args["lowercase"] else "mixed"


class ExactMatch(Metric):
    """The percentage of sentences that equal one of their references.

    Leading and trailing spaces are ignored, and repeated spaces count as one. The class implements
    the interface of sacrebleu's metrics, so all significance tests can use it. The statistics are
    the numbers of matches and of sentences.
    """

    _SIGNATURE_TYPE = ExactSignature
    bounds = (0.0, 100.0)  # limits of its confidence intervals

    def __init__(self, references: Sequence[Sequence[str]], lowercase: bool = False):
        super().__init__()
        self.lowercase = lowercase
        self._ref_cache = self._cache_references(references)

    def is_possible(self, counts: Sequence[int]) -> bool:
        return counts[0] in (0, 1) and counts[1] == 1

    def _preprocess_segment(self, sent: str) -> str:
        text = " ".join(sent.split())
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"texts": set(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        return [int(hypothesis in ref_kwargs["texts"]), 1]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Computed:
        return Computed(EXACT, 100 * stats[0] / stats[1])

    def _aggregate_and_compute(self, stats: list[list[int]]) -> Computed:
        return self._compute_score_from_stats(sum_of_lists(stats))


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
class Scoring:
    """The references of a test set (one or several texts), and the metrics to compute.

    Raises InputError for an unknown target language, unless a tokeniser is given.

    Example:

        Scoring([lines_of_reference], ScoreRequest(hypotheses=[], target_lang="de")).names
    """

    references: Sequence[Sequence[str]]
    request: ScoreRequest

    def __post_init__(self) -> None:
        if self.request.target_lang and not self.request.tokenize:
            remedy = "; use a known one, or choose a tokeniser with --tokenize, such as 13a or char"
            known("--target-lang", self.request.target_lang, remedy)

    @cached_property
    def language(self) -> Language:
        return language(self.request.target_lang)

    @property
    def tokenizer(self) -> str:
        return self.request.tokenize or self.language.tokenizer or BLEU.TOKENIZER_DEFAULT

    @property
    def has_nist(self) -> bool:
        return self.request.nist or len(self.references) > 1

    @property
    def main(self) -> str:
        """The main score; with `only_main`, the default is the score that tables show."""
        return self.request.main or (NIST if self.request.only_main and self.has_nist else "BLEU")

    @property
    def names(self) -> list[str]:
        """The names of all scores, in display order."""
        if self.request.only_main:
            return [self.main]
        found = ["BLEU", "chrF2", "chrF2++", "TER"]
        found += [EXACT] * (self.request.exact or self.main == EXACT)
        found += [TOKENISED] * (bool(self.request.target_lang) and self.language.spaced)
        return found + [NIST] * self.has_nist

    def bleu(self, **changes) -> BLEU:
        """Return sacrebleu's BLEU metric; `changes` override its arguments."""
        request = self.request
        options = {"lowercase": request.lowercase, "tokenize": self.tokenizer, **changes}
        # suppress sacrebleu's warning about the tokeniser here; the BLEU score already causes it
        warned = request.tokenize and changes.get("force")
        try:
            return BLEU(trg_lang="" if warned else self.language.code, **options)
        except TOKENIZER_ERRORS as error:
            raise self.tokenizer_missing(error) from error

    def tokenizer_missing(self, error: Exception) -> InputError:
        """Return an InputError about a missing tokeniser, with the option that selected it."""
        reason = " ".join(str(error).split()) or repr(error)
        if self.request.tokenize:
            return InputError(f"--tokenize {self.request.tokenize}: {reason}")
        return InputError(
            f"--target-lang {self.request.target_lang}: {reason}; or choose another tokeniser with "
            "--tokenize, such as char"
        )

    @property
    def ter_of_characters(self) -> bool:
        """Whether TER is computed over characters.

        Chinese and Japanese are written without spaces, so TER would treat a whole sentence as one
        word, unless the text is already tokenised (--tokenize none).
        """
        chosen = {self.language.tokenizer, self.request.tokenize}
        return self.request.tokenize != "none" and not chosen.isdisjoint(BY_CHARACTERS)

    @property
    def compounds(self) -> bool:
        """Whether to split compounds at hyphens, as in published scores for German."""
        return self.language.code == "de"

    def moses_tokens(self, line: str) -> str:
        """Tokenise a line as in published scores, for tokenised BLEU."""
        line = tokenized(line, self.language.code)
        return split_compounds(line) if self.compounds else line

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by name, with preprocessed references."""
        return {name: self.new_metric(name) for name in self.names}

    def new_metric(self, name: str) -> Metric:
        lowercase, references = self.request.lowercase, self.references
        if name == "TER":
            asian = self.ter_of_characters
            return TER(normalized=asian, asian_support=asian, references=references)
        if name == EXACT:
            return ExactMatch(references, lowercase)
        if name == NIST:  # published scores with several references ignore case
            return BLEU(lowercase=True, tokenize="13a", force=True, references=references)
        if name == TOKENISED:
            return BLEU(
                lowercase=lowercase,
                tokenize="none",
                smooth_method="none",
                force=True,
                references=[list(map(self.moses_tokens, reference)) for reference in references],
            )
        if name == "BLEU":
            return self.bleu(references=references)
        return CHRF(word_order=WORDS_OF[name], lowercase=lowercase, references=references)

    def signature(self, name: str) -> str:
        """Return sacrebleu's signature of a score; for tokenised BLEU, append the tokenisation."""
        signature = str(self.metrics[name].get_signature())
        if name != TOKENISED:
            return signature
        compounds = "|compounds:split" if self.compounds else ""
        return f"{signature}|moses:{self.language.code}{compounds}"

    @property
    def by_spaces(self) -> list[str]:
        """The names of the scores that split words at spaces."""
        split = {
            "BLEU": (self.tokenizer in BY_SPACES, f"BLEU ({self.tokenizer})"),
            "TER": (not self.ter_of_characters, "TER"),
            TOKENISED: (True, TOKENISED),
            NIST: (True, f"{NIST} (13a)"),
        }
        found = [split[name] for name in self.names if name in split]
        return [shown for by_spaces, shown in found if by_spaces]

    def table(self, name: str, runs: Sequence[Sequence[str]]) -> Counted:
        """Return a metric's statistics for each sentence of each run."""
        if self.request.statistics:
            return read_statistics(runs)
        if name == TOKENISED:
            runs = [list(map(self.moses_tokens, run)) for run in runs]
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

    def scores(self, samples: Samples) -> dict[str, Score]:
        """Return all scores with their confidence intervals; with several runs, the means."""
        return {
            name: mean_score(
                self.scoring.metrics[name], table, self.scoring.signature(name), samples
            )
            for name, table in self.tables.items()
        }


def mean_score(metric: FromSums, table: Counted, signature: str, samples: Samples) -> Score:
    """Return the score of a run, or the mean over several runs, with its confidence interval."""
    runs, ends = run_scores(metric, table), interval(metric, table, samples)
    found = Score(score=mean(runs), signature=signature, interval=ends)
    if len(runs) > 1:
        return replace(found, deviation=stdev(runs), runs=runs)
    computed = metric._compute_score_from_stats(table[0].sum(axis=0).tolist())
    if not isinstance(computed, BLEUScore):
        return found
    return replace(found, brevity_penalty=computed.bp, precisions=list(computed.precisions))


def split_compounds(line: str) -> str:
    """Split compounds at hyphens: Bus-Linie becomes Bus ##AT##-##AT## Linie."""
    return COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)
