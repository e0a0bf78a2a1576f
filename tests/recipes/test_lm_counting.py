"""How perplexities are counted, against a slow reading of the corpus as the authors' program reads
it (slow_reader)."""

import math
import sys
from pathlib import Path

import pytest
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from support import slow_attention as slow
from support import slow_reader
from support.commands import ROOT
from support.in_process import call
from support.lm_corpus import make_ptb, make_wikitext

sys.path.append(str(ROOT / "recipes/lm"))  # last: other recipes have modules of these names too
from perplexity import check_counts, measure, sum_up
from prepare import FILES, prepare
from sentences import by_rules

WIKITEXT = ROOT.parent / "shared/data/wikitext-2"
LM = ["--task", "language_modeling", "--sample-break-mode", "eos", "--tokens-per-sample", "36"]
LM += ["--shorten-method", "truncate", "--criterion", "cross_entropy", "--optimizer", "sgd"]
END = "</s>"


def read_slowly(corpus: str, source: Path) -> list:
    """Return the inputs and targets of each sentence."""
    lines = list(read_lines(source))
    wiki = corpus == "wikitext-2"
    return slow_reader.inputs_and_targets(
        slow_reader.pre_processed(lines, by_rules) if wiki else lines
    )


def make(corpus: str, folder: Path) -> None:
    (make_ptb if corpus == "ptb" else make_wikitext)(folder)


def words_of(text: Path) -> list[list[str]]:
    """The sentences as fairseq-preprocess ends them, each end in the authors' spelling."""
    return [[w.replace(END, "<eos>") for w in [*line.split(), END]] for line in read_lines(text)]


@pytest.mark.parametrize("corpus", FILES)
def test_the_text_is_what_the_authors_program_reads(corpus, tmp_path):
    make(corpus, tmp_path / "raw")
    found = prepare(corpus, tmp_path / "raw", tmp_path / "text", "rules", None)
    for split in ("train", "valid", "test"):
        pairs = read_slowly(corpus, tmp_path / "raw" / FILES[corpus].format(split=split))
        sentences = words_of(tmp_path / f"text/{split}.txt")
        assert len(sentences) == len(pairs) == found[split]["sentences"]
        for words, (inputs, targets) in zip(sentences, pairs, strict=True):
            assert words[:35] == [word for word in inputs if word != slow_reader.PAD]
            assert words[1:36] == [word for word in targets if word != slow_reader.PAD]
        counts = found[split]["inputs_as_published"], found[split]["targets_as_published"]
        assert counts == slow_reader.count(pairs)


def test_a_hand_made_text_is_counted_by_hand(tmp_path):
    """A blank line has 2 inputs, 1 target. A heading of 3 words: 5 and 4. Two sentences of 4 and 3
    words: 5 and 4, then 5 and 4. Long ones of 33, 34 and 40 words at the end of their lines: 35 and
    34, 35 and 35, 35 and 35. One of 35 words before another sentence of 3: 35 and 35, 5 and 4."""
    lines = [" ", "= Cats =", "A cat sleeps . They dream ."]
    lines += [" ".join(["cats"] * n) for n in (33, 34, 40)]
    lines += [" ".join([*["cats"] * 34, ". They dream ."])]
    for split in ("train", "valid", "test"):
        text = "".join(f"{line} \n" for line in lines)
        (tmp_path / FILES["wikitext-2"].format(split=split)).write_text(text)
    found = prepare("wikitext-2", tmp_path, tmp_path / "text", "rules", None)["valid"]
    assert found["inputs_as_published"] == 2 + 5 + 5 + 5 + 3 * 35 + 35 + 5
    assert found["targets_as_published"] == 1 + 4 + 4 + 4 + 34 + 35 + 35 + 35 + 4
    pairs = read_slowly("wikitext-2", tmp_path / FILES["wikitext-2"].format(split="valid"))
    assert slow_reader.count(pairs) == (162, 156)


@pytest.mark.long
@pytest.mark.skipif(not WIKITEXT.exists(), reason="the corpus is not here")
def test_totals_of_the_real_corpus(tmp_path):
    found = prepare("wikitext-2", WIKITEXT, tmp_path / "text", "rules", None)
    expected = {"valid": (207_719, 199_544), "test": (235_952, 226_342)}
    for split, counts in expected.items():
        names = "inputs_as_published", "targets_as_published"
        assert tuple(found[split][name] for name in names) == counts
        losses = ([1.0] * min(len(words), 36) for words in words_of(tmp_path / f"text/{split}.txt"))
        sums = sum_up(losses, longest=35)
        assert (sums.inputs, sums.targets, sums.loss_of_targets) == (*counts, counts[1])
        (source,) = WIKITEXT.glob(f"wiki.{split}.tokens*")
        assert slow_reader.count(read_slowly("wikitext-2", source)) == counts


def test_both_perplexities_by_hand():
    # one sentence of one word and end of sentence, one cut after 36 words, a blank line
    sentences = [[2.0, 1.0], [3.0] + [0.5] * 35, [4.0, 0.25]]
    found = sum_up(sentences, longest=35).perplexities()
    everything = [loss for sentence in sentences for loss in sentence]
    assert found["words"] == 40
    assert found["per_word"] == pytest.approx(slow.perplexity(everything, 40))
    assert found["per_word"] == pytest.approx(math.exp((2 + 1 + 3 + 17.5 + 4 + 0.25) / 40))
    # the first words' losses are left out
    assert found["inputs_as_published"] == 2 + 35 + 2
    assert found["targets_as_published"] == 1 + 35 + 1
    assert found["as_published"] == pytest.approx(math.exp((1 + 17.5 + 0.25) / 39))


@pytest.mark.parametrize("corpus", FILES)
def test_the_loss_is_summed_over_exactly_these_targets(corpus, tmp_path):
    """A small model reads each sentence of the slow reading by itself."""
    make(corpus, tmp_path / "raw")
    counts = prepare(corpus, tmp_path / "raw", tmp_path / "text", "rules", None)
    texts = [
        part for s in ("train", "valid") for part in (f"--{s}pref", tmp_path / f"text/{s}.txt")
    ]
    call(
        "preprocess", *texts, "--only-source", "--padding-factor", 1, "--destdir", tmp_path / "data"
    )
    call(
        "train",
        *(tmp_path / "data", "--arch", "positional_attentive_lm", *LM, "--lr", 1),
        *("--batch-size", 20),
        *("--decoder-embed-dim", 8, "--cpu", "--num-workers", 0, "--max-update", 5),
        *("--save-dir", tmp_path, "--no-epoch-checkpoints", "--required-batch-size-multiple", 1),
    )
    path = tmp_path / "checkpoint_last.pt"
    found = measure(tmp_path / "data", path, counts, ["valid"])["valid"]
    pairs = read_slowly(corpus, tmp_path / "raw" / FILES[corpus].format(split="valid"))
    inputs, targets = slow_reader.count(pairs)
    assert (found["inputs_as_published"], found["targets_as_published"]) == (inputs, targets)
    total = sum(losses_of(path, tmp_path / "data", pairs))
    assert found["as_published"] == pytest.approx(math.exp(total / inputs), rel=1e-5)
    with pytest.raises(InputError, match=r"counts\.json has 1; prepare text and data again"):
        check_counts(found, {"inputs_as_published": 1}, tmp_path / "data", "valid")


@torch.no_grad()
def losses_of(path: Path, data: Path, pairs: list):
    """Yield the loss of each target, all sentences one by one."""
    from fairseq_posattn.inspection.model import load

    model, task, _ = load(path, data)
    symbols = task.source_dictionary

    def number(word: str) -> int:
        return symbols.index(word.replace("<eos>", END))

    for inputs, targets in pairs:
        read = [number(word) for word in inputs if word != slow_reader.PAD]
        predicted = [number(word) for word in targets if word != slow_reader.PAD]
        # ours reads an end of sentence before the first word, and nothing that it need not predict
        source = torch.tensor([[symbols.eos(), *read][: len(predicted) + 1]])
        scores = model.get_normalized_probs(model(source), log_probs=True)[0]
        for step, word in enumerate(predicted, start=1):
            yield -scores[step, word].item()
