"""Compute BLEU and precision for each n-gram order.

Long n-grams are more sensitive to the order of phrases than short ones.
"""

from collections.abc import Sequence
from statistics import mean

from sacrebleu.metrics import BLEU

from fairseq_posattn.scoring.metrics.scores import Scoring, Translations
from fairseq_posattn.scoring.score_record import Ngrams

HIGHEST = 8


def of_runs(system: Translations) -> list[Ngrams]:
    """Return BLEU and precision for each n-gram order, averaged over the runs."""
    runs = [by_order(run, system.scoring) for run in system.runs]
    return [
        Ngrams(
            n=orders[0].n,
            bleu=mean(order.bleu for order in orders),
            precision=mean(order.precision for order in orders),
        )
        for orders in zip(*runs, strict=True)
    ]


def by_order(hypotheses: Sequence[str], scoring: Scoring) -> list[Ngrams]:
    """Return, for n = 1 to 8, BLEU with n-grams up to order n and the precision of order n."""
    metric = scoring.bleu(max_ngram_order=HIGHEST, force=True)
    counted = metric.corpus_score(hypotheses, scoring.references)
    found = []
    for n in range(1, HIGHEST + 1):
        correct, total = counted.counts[:n], counted.totals[:n]
        lengths = counted.sys_len, counted.ref_len
        score = BLEU.compute_bleu(
            correct, total, *lengths, smooth_method=metric.smooth_method, max_ngram_order=n
        )
        precision = 100 * correct[-1] / total[-1] if total[-1] else 0.0
        found.append(Ngrams(n=n, bleu=score.score, precision=precision))
    return found


def gaps(system: Sequence[Ngrams], baseline: Sequence[Ngrams]) -> list[Ngrams]:
    return [
        Ngrams(n=a.n, bleu=a.bleu - b.bleu, precision=a.precision - b.precision)
        for a, b in zip(system, baseline, strict=True)
    ]
