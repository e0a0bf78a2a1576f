"""What posattn score writes, for tests of the report."""

import base64

from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.trees.drawing import depths

HOSTILE = "</script><img src=x onerror=alert(1)>&$x$"
BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def request(target: str = "", tokenize: str | None = None, **options) -> ScoreRequest:
    """Return a request without texts, for their tests as lists of lines."""
    return ScoreRequest(hypotheses=[], target_lang=target, tokenize=tokenize, **options)


def packed(layers, heads, pieces, weight, keys=None):
    """Return attention of weight(layer, head, query, key), from 0 to 255."""
    keys = keys or pieces
    numbers = [
        weight(layer, head, query, key) % 256
        for layer in range(layers)
        for head in range(heads)
        for query in range(pieces)
        for key in range(keys)
    ]
    sizes = {"layers": layers, "heads": heads, "queries": pieces, "keys": keys}
    return {**sizes, "weights": base64.b64encode(bytes(numbers)).decode()}


def spread(layer, head, query, key):
    return 100 * layer + 20 * head + 3 * query + key


def example(number, words, parents, relations=None):
    return {
        "number": number,
        "words": words,
        "parents": parents,
        "depths": parents and depths(parents),
        "relations": relations,
        "pieces": [*words, "</s>"],
        "translation": f"translation {number} {HOSTILE}",
        "reference": "der Hund",
        "attention": packed(2, 3, len(words) + 1, spread),
        "target_pieces": ["der", "Hund", "</s>"],
        "decoder_attention": packed(1, 3, 3, spread),
        "cross_attention": packed(1, 3, 3, spread, len(words) + 1),
    }


def heads():
    """What posattn heads writes about two layers of three heads."""
    found = [
        {"layer": a, "head": b, "entropy": a + 0.25 * b, "distance": 1.5 * b, "tree_edges": b / 4}
        for a in range(2)
        for b in range(3)
    ]
    sigma = {"place": "encoder.layers.0.self_attn", "mechanism": "gaussian", "name": "sigma"}
    numbers = [{**sigma, "heads": [0, 2], "values": [1.25, 12345.6]}]
    numbers += [{**sigma, "name": "gate", "heads": [], "values": [0.5]}]
    return {"sentences": 3003, "neighbours": 0.42, "heads": found, "numbers": numbers}


def bucket(first, last, bleu):
    interval = [bleu - 1.5, bleu + 1.25]
    return {"from": first, "to": last, "sentences": 1234, "bleu": bleu, "interval": interval}


def word_group(name, words, f1):
    shares = {"precision": f1 - 1, "recall": f1 + 1, "f1": f1, "interval": [f1 - 2, f1 + 2]}
    return {"name": name, "words": words, **shares}


def scored(name="structural", test="newstest2014", better=0.0, baseline="sequence"):
    """What posattn score writes, with everything in it."""
    scores = {"BLEU": 27 + better, "chrF2": 57 + better, "TER": 60 - better}
    about = {
        "version": 1,
        "system": name,
        "test": test,
        "source": "en",
        "target": "de",
        "sentences": 3003,
        "references": 1,
        "scores": {key: {"score": value, "signature": BLEU} for key, value in scores.items()},
        "ngrams": [],
        "buckets": {
            "length": [bucket(1, 10, 30 + better), bucket(51, None, 25 + better)],
            "depth": [bucket(0, 2, 30 + better), bucket(3, 3, 25 + better)],
            "split_words": [bucket(0, 0, 30 + better), bucket(1, 1, 25 + better)],
        },
        "words": {
            "frequency": [
                word_group("0", 40, 20 + better),
                word_group("≥ 1000", 9000, 70 + better),
            ],
            "pos": [word_group(f"{HOSTILE}{k}", 99 - k, 50 + better) for k in range(20)],
        },
        "speed": {
            "translation": {"sentences_per_second": 240.5 - better},
            "with_parsing": {"sentences_per_second": 120.5 - better},
        },
        "training": {
            "parameters": 65_000_000,
            "words_per_second": 8000.4,
            "curve": [
                {"update": 1000, "train_loss": 5.5, "valid_loss": None},
                {"update": 2000, "train_loss": None, "valid_loss": 5.1 - better},
                {"update": 3000, "train_loss": 4.5, "valid_loss": 4.6 - better},
            ],
        },
        "examples": [
            example(17, ["The", "dog", "barks", "."], [2, 3, 0, 3], ["det", "nsubj", "root", "p"]),
            example(3, [HOSTILE, "b"], [2, 0]),
            example(9, ["no", "tree"], None),
        ],
        "heads": heads(),
    }
    if baseline:
        difference = {"difference": better, "bootstrap_p": 0.0042, "mark": "⇑"}
        ngrams = [{"n": n, "bleu": 0.125 * n, "precision": -0.25 * n} for n in range(1, 9)]
        about["baseline"] = {"system": baseline, "scores": {"BLEU": difference}, "ngrams": ngrams}
    return about


def both():
    return [scored("sequence", baseline=None), scored(HOSTILE, better=1.25)]
