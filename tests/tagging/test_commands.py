"""fairseq-train, fairseq-validate and posattn tag on a small grammar, as a user runs them."""

import gc
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
from argparse import Namespace
from multiprocessing.connection import wait
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli import train as fairseq_train

from fairseq_posattn.fairseq_plugin.optimizers import RMSprop
from fairseq_posattn.files.requests import asked
from fairseq_posattn.tagging.dataset import TaggingData, binarize
from fairseq_posattn.tagging.task import Curve, TaggingTask
from support.commands import PATIENCE, PLUGIN, fairseq, run
from support.in_process import Ended, call, posattn

# --- a grammar -----------------------------------------------------------------------

AMBIGUOUS = ["run", "walk", "play", "talk", "dance", "drive"]  # VERB after to, NOUN after the


def stem(draw: random.Random) -> str:
    return "".join(draw.choice(letters) for letters in ("bdgkmprt", "aeiou", "bdgkmprt", "aeiou"))


def grammar_sentence(draw: random.Random) -> list[tuple[str, str]]:
    """Words between the ambiguous one and what decides about it; new words tell by suffixes."""
    verb, noun = draw.choice(AMBIGUOUS), draw.choice([*AMBIGUOUS, f"{stem(draw)}ness"])
    adverbs = [(f"{stem(draw)}ly", "ADV") for _ in range(draw.randrange(2))]
    adjectives = [(f"{stem(draw)}ish", "ADJ") for _ in range(draw.randrange(3))]
    phrase = [("the", "DET"), *adjectives, (noun, "NOUN")]
    action = [("to", "PART"), *adverbs, (verb, "VERB")]
    start = [(draw.choice(["we", "they"]), "PRON"), ("want", "VERB")]
    return draw.choice([[*start, *action, *phrase], [*phrase, ("is", "AUX"), *action]])


def grammar_treebank(seed: int, sentences: int) -> str:
    draw = random.Random(seed)
    return "\n".join(conllu(grammar_sentence(draw)) for _ in range(sentences))


def conllu(words: list[tuple[str, str]]) -> str:
    return "".join(
        f"{k}\t{form}\tlemma\t{tag}\tx{k}\ta=b\t{k - 1}\tdep\t_\tSpaceAfter=No\n"
        for k, (form, tag) in enumerate(words, start=1)
    )


def make_data(folder: Path, train: int, others: int, *options: str) -> Path:
    arguments = []
    for seed, (name, size) in enumerate([("train", train), ("valid", others), ("test", others)]):
        (folder / name).write_text(grammar_treebank(seed, size))
        arguments += [f"--{name}", str(folder / name)]
    arguments += ["--destdir", str(folder / "data"), *options]
    binarize(asked(TaggingData, None, arguments))
    return folder / "data"


# --- programs ------------------------------------------------------------------------

SMALL = [
    *("--encoder-embed-dim", "8", "--char-embed-dim", "4", "--char-filters", "8"),
    *("--encoder-layers", "2", "--encoder-attention-heads", "2"),
]


def training(data: Path, save_dir: Path, *options) -> list:
    return [
        *(data, "--user-dir", PLUGIN, "--task", "tagging", "--arch", "san_tagger_conv2d"),
        *("--criterion", "tagging", "--optimizer", "rmsprop", "--lr", "0.001"),
        *("--batch-size", "32", "--cpu", "--best-checkpoint-metric", "accuracy"),
        *("--maximize-best-checkpoint-metric", "--patience", "3", "--save-dir", save_dir),
        *("--num-workers", "0", "--no-epoch-checkpoints", "--log-format", "simple", *options),
    ]


def train(data: Path, save_dir: Path, *options) -> Path:
    """Train a small model in this process, without early stopping."""
    train_logged(data, save_dir, "--patience", "-1", *options)
    return save_dir / "checkpoint_last.pt"


def train_logged(data: Path, save_dir: Path, *options) -> str:
    """Return a training's log. First the best result that fairseq keeps in a process is cleared."""
    for function in (fairseq_train.should_stop_early, checkpoint_utils.save_checkpoint):
        vars(function).clear()
    return call("train", *training(data, save_dir, *SMALL, *options)).output


def validating(data: Path, model: Path, split: str) -> list:
    return [
        *(data, "--user-dir", PLUGIN, "--task", "tagging", "--path", model, "--cpu"),
        *("--valid-subset", split, "--batch-size", "16", "--log-format", "simple"),
        *("--num-workers", "0"),
    ]


def percentages(log: str) -> dict[str, float]:
    """Return the last percentages of a log."""
    found = re.findall(r"(?<!best_)\b((?:oov_|ambiguous_)?accuracy) ([\d.]+|nan)", log)
    return {name: float(number) for name, number in found}


def posattn_tag(*arguments, input: str | bytes = "") -> Ended:
    return posattn("tag", *arguments, input=input if isinstance(input, bytes) else input.encode())


def tagged(*arguments, input: str | bytes = "") -> str:
    found = posattn_tag(*arguments, input=input)
    assert found.code == 0, found.err
    return found.out


def refused(*arguments, input: str | bytes = "") -> str:
    """The one line that says why."""
    found = posattn_tag(*arguments, input=input)
    assert found.code == 1, found
    lines = [line for line in found.err.split("\n") if line.startswith("error: ")]
    assert len(lines) == 1, found.err
    return lines[0]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_data(tmp_path_factory.mktemp("grammar"), 100, 30)


@pytest.fixture(scope="module")
def model(data, tmp_path_factory) -> Path:
    """It has learnt little, so that its tags differ from place to place."""
    return train(data, tmp_path_factory.mktemp("model"), "--max-update", "25", "--lr", "0.01")


# --- learning ------------------------------------------------------------------------


@pytest.mark.long
def test_a_grammar_is_learnt_validated_and_tagged(tmp_path):
    data = make_data(tmp_path, 500, 100)
    fairseq("train", *training(data, tmp_path / "model", "--seed", "1", "--max-epoch", "40"))
    best = tmp_path / "model/checkpoint_best.pt"
    found = percentages(fairseq("validate", *validating(data, best, "test")).stdout)
    assert found["accuracy"] > 99
    assert found["oov_accuracy"] > 99
    assert found["ambiguous_accuracy"] > 99
    gold = (tmp_path / "test").read_text()
    program = "from fairseq_posattn.cli.main import function_of; function_of('tag')()"
    blank = re.sub(r"(?m)^(\d+\t\w+\tlemma\t)\w+", r"\1_", gold)
    output = run(sys.executable, "-c", program, best, "--out", tmp_path / "out", input=blank).stdout
    assert "error" not in output
    pairs = list(zip(tags_of(gold), tags_of((tmp_path / "out").read_text()), strict=True))
    right = sum(expected == found for expected, found in pairs)
    assert round(100 * right / len(pairs), 2) == pytest.approx(found["accuracy"], abs=0.006)


def tags_of(text: str) -> list[str]:
    return [line.split("\t")[3] for line in text.split("\n") if line]


def test_validation_gives_the_accuracy_of_the_tags(data, model):
    """Counted by hand from what posattn tag gives, the groups from the text files."""
    gold = (data.parent / "test").read_text()
    guessed = tags_of(tagged(model, input=gold))
    words = [line.split("\t")[1] for line in gold.split("\n") if line]
    known = {line.rsplit(" ", 1)[0] for line in (data / "dict.word.txt").read_text().splitlines()}
    pairs = list(zip(words, tags_of(gold), guessed, strict=True))
    ambiguous = [pair for pair in pairs if pair[0] in AMBIGUOUS and pair[0] in known]
    unknown = [pair for pair in pairs if pair[0] not in known]
    assert min(len(ambiguous), len(unknown)) > 20
    found = percentages(call("validate", *validating(data, model, "test")).output)
    for name, group in ("", pairs), ("oov_", unknown), ("ambiguous_", ambiguous):
        expected = 100 * sum(tag == guess for _, tag, guess in group) / len(group)
        assert found[f"{name}accuracy"] == pytest.approx(expected, abs=0.006), name
    assert 30 < found["accuracy"] < 99.9  # else the test would say little


@pytest.mark.parametrize("batches", ["by_length", "shuffled"])
def test_sentences_that_meet_in_a_batch(batches, data, tmp_path, monkeypatch):
    seen, step = [], TaggingTask.train_step

    def recorded(self, sample, *arguments, **options):
        seen.append((sample["id"].tolist(), sample["net_input"]["words"].ne(0).sum(1).tolist()))
        return step(self, sample, *arguments, **options)

    monkeypatch.setattr(TaggingTask, "train_step", recorded)
    train(data, tmp_path, "--batches", batches, "--max-epoch", "2")
    assert len(seen) == 2 * 4  # 100 sentences, 32 in a batch
    epochs = [seen[:4], seen[4:]]
    for epoch in epochs:
        assert sorted(k for ids, _ in epoch for k in ids) == list(range(100))
        assert sorted(len(ids) for ids, _ in epoch) == [4, 32, 32, 32]
    first, second = ({frozenset(ids) for ids, _ in epoch} for epoch in epochs)
    assert not first & second
    whole = [(min(lengths), max(lengths)) for ids, lengths in seen if len(ids) == 32]
    shortest, longest = min(low for low, _ in whole), max(high for _, high in whole)
    mixed = [high - low > 0.7 * (longest - shortest) for low, high in whole]
    assert all(mixed) if batches == "shuffled" else not any(mixed)


def test_processes_that_load_data_end_with_their_epoch(data, tmp_path):
    """Otherwise they last until Python collects garbage, and torch waits for each of them."""
    before = set(multiprocessing.active_children())
    gc.disable()
    try:
        train(data, tmp_path, "--num-workers", "1", "--max-epoch", "2")
        # A thread ends them, which may be later than the end of the training. It waits for them,
        # too, and where two threads do, Python may take one that has ended for alive.
        for process in set(multiprocessing.active_children()) - before:
            assert wait([process.sentinel], PATIENCE / 10)
    finally:
        gc.enable()


# --- posattn tag: CoNLL-U ------------------------------------------------------------

SENTENCE = conllu([("the", "X"), ("run", "X"), ("is", "X")])
WORD_LINE = re.compile(rb"^(\d+\t[^\t]*\t[^\t]*\t)([^\t]*)(\t.*)$", re.S)


def tags_and_rest(text: bytes) -> tuple[list[str], list]:
    """Return the tags of the words, and all lines with their ends, without those tags."""
    tags, rest = [], []
    for line in text.split(b"\n"):
        if match := WORD_LINE.match(line):
            tags.append(match[2].decode())
            rest.append((match[1], match[3]))
        else:
            rest.append(line)
    return tags, rest


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        SENTENCE + "\n\n\n" + SENTENCE + "\n\n",
        "\n\n" + SENTENCE,
        "# text = the run\n#\n" + SENTENCE,
        "#newdoc\n" + SENTENCE + "# at the end\n",
        SENTENCE + "\n# newdoc\n\n" + SENTENCE + "\n# the end",
        SENTENCE.replace("\n", "\r\n") + "\r\n" + SENTENCE.replace("\n", "\r\n"),
        "0.1\tx\t_\tVERB\t_\t_\t_\t_\t1:x\t_\n" + SENTENCE + "3.1\tx\t_\tVERB\t_\t_\t_\t_\t_\t_\n",
        SENTENCE.replace("the", "the 10\u00a0000").replace("run", "#").replace("=No", "=No  "),
        SENTENCE.replace("run", "x\u2028y\x85").replace("lemma", "").replace("dep", "\u00a0 "),
    ],
)
def test_all_but_the_tags_stays_byte_for_byte(model, text):
    text = text.encode()
    found = posattn_tag(model, input=text)
    assert found.code == 0, found.err
    tags, rest = tags_and_rest(found.out.encode())
    assert rest == tags_and_rest(text)[1]
    assert len(tags) == len(tags_and_rest(text)[0])
    assert "X" not in tags and all(tag.isupper() for tag in tags)


def test_a_byte_order_mark_stays(model):
    found = posattn_tag(model, input="\ufeff" + SENTENCE).out
    assert found == "\ufeff" + tagged(model, input=SENTENCE)


def test_a_file_of_comments_stays(model):
    assert tagged(model, input="# newdoc id = 1\n# newpar\n\n") == "# newdoc id = 1\n# newpar\n\n"


def test_the_tags_of_conllu_are_those_of_plain_text(data, model):
    text = (data.parent / "test").read_text()
    words = [" ".join(w.split("\t")[1] for w in s.splitlines()) for s in text.split("\n\n")]
    plain = tagged(model, "--format", "tags", input="\n".join(words))
    assert tags_of(tagged(model, input=text)) == plain.split()
    assert len(set(plain.split())) > 3


@pytest.mark.long
def test_data_of_xpos_fill_that_column(tmp_path):
    data = make_data(tmp_path, 20, 5, "--column", "xpos")
    path = train(data, tmp_path / "model", "--max-update", "1")
    before, after = SENTENCE.split("\n"), tagged(path, input=SENTENCE).split("\n")
    for old, new in zip(before[:3], after[:3], strict=True):
        assert re.fullmatch(r"x\d+", new.split("\t")[4])
        assert (
            old.split("\t")[:4] + old.split("\t")[5:] == new.split("\t")[:4] + new.split("\t")[5:]
        )


# --- posattn tag: plain text ---------------------------------------------------------


def test_plain_text_with_odd_spaces(model):
    text = "the run is\n\n  the\t run  is \r\n \nwe\u00a0want to\n#\nrun"
    lines = tagged(model, input=text).split("\n")
    found = [[pair.rsplit("_", 1)[0] for pair in line.split(" ") if pair] for line in lines]
    run_ = ["the", "run", "is"]
    assert found == [run_, [], run_, [], ["we\u00a0want", "to"], ["#"], ["run"], []]
    assert lines[0] == lines[2]
    tags = tagged(model, "--format", "tags", input=text).split("\n")
    assert tags == [
        " ".join(pair.rsplit("_", 1)[1] for pair in line.split(" ") if pair) for line in lines
    ]


def test_no_text(model):
    assert tagged(model, input="") == ""
    assert tagged(model, input="\n\n") == "\n\n"


def test_a_sentence_longer_than_60_is_tagged_in_pieces(model):
    words = [
        w
        for w in ["the", "run", "is", "to", "walk", "we", "want", "the", "bagoness"]
        for _ in range(15)
    ]
    whole = tagged(model, "--format", "tags", input=" ".join(words)).split()
    pieces = "\n".join(" ".join(words[k : k + 60]) for k in range(0, len(words), 60))
    assert whole == tagged(model, "--format", "tags", input=pieces).split()
    assert len(whole) == len(words) == 135


def test_batches_and_buffers_change_nothing(data, model):
    text = (data.parent / "test").read_text()
    expected = tagged(model, input=text)
    for sizes in (("1", "1"), ("3", "7"), ("64", "5"), ("2", "1000")):
        assert tagged(model, "--batch-size", sizes[0], "--buffer-size", sizes[1], input=text) == (
            expected
        )


def test_files_in_and_out(data, model, tmp_path):
    text = data.parent / "test"
    assert tagged(model, "--text", text, "--out", tmp_path / "out") == ""
    assert (tmp_path / "out").read_bytes() == posattn_tag(
        model, input=text.read_bytes()
    ).out.encode()


def test_data_that_have_moved(data, tmp_path):
    moved = shutil.copytree(data, tmp_path / "data")
    path = train(moved, tmp_path / "model", "--max-update", "1")
    expected = tagged(path, input="the run is")
    moved.rename(tmp_path / "elsewhere")
    message = refused(path, input="the run is")
    assert str(moved) in message and "--data" in message
    assert tagged(path, "--data", tmp_path / "elsewhere", input="the run is") == expected


def test_a_curve_of_the_training_is_left_alone(data, tmp_path):
    curve = tmp_path / "curve.jsonl"
    path = train(data, tmp_path / "model", "--max-update", "2", "--curve", curve)
    assert not curve.exists()
    tagged(path, input="the run is")
    assert not curve.exists()


@pytest.mark.parametrize(
    "text, where, what",
    [
        (SENTENCE + "4\tx\t_\n", "standard input:4:", "10 columns"),
        (SENTENCE + "\n" + SENTENCE.replace("3\tis", "4\tis"), "standard input:7:", "ID"),
        (SENTENCE.encode() + b"\n\xff\n", "standard input:5:", "UTF-8"),
        (b"the run\n\xe4\n", "standard input:2:", "UTF-8"),
    ],
)
def test_broken_text_names_the_line(model, tmp_path, text, where, what):
    message = refused(model, "--out", tmp_path / "out", input=text)
    assert where in message and what in message
    assert list(tmp_path.iterdir()) == []


def test_a_broken_first_line_is_not_taken_for_plain_text(model):
    """Nine columns instead of ten: lines full of tabs are no sentences of spaces."""
    broken = SENTENCE.replace("\tSpaceAfter=No", "", 1)
    assert "standard input:1:" in refused(model, input=broken)


def test_models_that_cannot_tag(model, tmp_path):
    assert "there is no such file" in refused(tmp_path / "none.pt")
    state = torch.load(model, weights_only=False)
    state["cfg"]["task"]["_name"] = "translation"
    torch.save(state, tmp_path / "other.pt")
    message = refused(tmp_path / "other.pt", input="the run")
    assert "other.pt" in message and "--task translation" in message
    (tmp_path / "text").write_text("the run is\n")
    assert f"{tmp_path}/text" in refused(tmp_path / "text", input="the run")


def test_a_model_that_is_not_a_number(model, tmp_path):
    """Its tags would be as good as any, and look as if they were meant."""
    state = torch.load(model, weights_only=False)
    name = next(iter(state["model"]))
    state["model"][name].fill_(float("nan"))
    torch.save(state, tmp_path / "nan.pt")
    assert f"nan.pt: the parameter {name} contains" in refused(tmp_path / "nan.pt", input="the run")


def test_words_in_another_order(model, data, tmp_path):
    other = shutil.copytree(data, tmp_path / "data")
    path = other / "dict.word.txt"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([second, first, *rest]))
    message = refused(model, "--data", other, input="the run")
    assert f"{path}: the model was trained with another dictionary of the words" in message


def test_options_that_cannot_be(model):
    assert "--format" in refused(model, "--format", "tags", input=SENTENCE)
    assert "nosuch" in refused(model, "--data", "nosuch", input=SENTENCE)


# --- the learning curve --------------------------------------------------------------


def points(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CURVE = ["--batch-size", "16", "--curve-interval", "3", "--log-interval", "1"]


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory) -> tuple[Path, list[dict], str]:
    """Return the last checkpoint of an unbroken training, the points of its curve, and its log."""
    folder = tmp_path_factory.mktemp("unbroken")
    options = [*CURVE, "--curve", folder / "curve", "--validate-interval-updates", "3"]
    options += ["--save-interval-updates", "5", "--max-update", "13", "--patience", "-1"]
    log = train_logged(data, folder, *options)
    return folder / "checkpoint_last.pt", points(folder / "curve"), log


def test_points_every_n_batches_are_those_of_a_validation(unbroken):
    _, found, log = unbroken
    assert [point["updates"] for point in found] == [3, 6, 9, 12]
    lines = [line for line in log.split("\n") if "| valid on 'valid' subset |" in line]
    by_update = {int(re.search(r"num_updates (\d+)", line)[1]): line for line in lines}
    for point in found:
        logged = percentages(by_update[point["updates"]])
        for name, number in logged.items():
            assert point[name] == pytest.approx(number, abs=0.006)
        loss = float(re.search(r"\| loss ([\d.]+)", by_update[point["updates"]])[1])
        assert point["loss"] == pytest.approx(loss, abs=0.006)


def same_state(left: Path, right: Path) -> None:
    """Weights and what the optimizer keeps of them, bit by bit."""
    a, b = (torch.load(path, weights_only=False) for path in (left, right))
    assert a["model"].keys() == b["model"].keys()
    for name, value in a["model"].items():
        torch.testing.assert_close(b["model"][name], value, rtol=0, atol=0, msg=name)
    a, b = (x["last_optimizer_state"]["state"] for x in (a, b))
    assert a.keys() == b.keys()
    for number, kept in a.items():
        assert float(kept["step"]) == float(b[number]["step"])
        difference = (kept["square_avg"] - b[number]["square_avg"]).abs().max()
        assert difference == 0


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_of_several_processes_writes_the_curve(rank, tmp_path, monkeypatch):
    several = Namespace(is_initialized=lambda: True, get_rank=lambda: rank)
    monkeypatch.setattr("fairseq_posattn.tagging.task.dist", several)
    monkeypatch.setattr(Curve, "measure", lambda *arguments: {"loss": 1.0})
    curve = Curve(str(tmp_path / "curve"), 3)
    curve.add_point(Namespace(datasets={"valid": []}), None, None, 3)
    assert (tmp_path / "curve").exists() == (rank == 0)


def test_a_curve_changes_nothing_of_the_training(data, unbroken, tmp_path):
    options = [*CURVE, "--max-update", "13"]
    same_state(train(data, tmp_path, *options), unbroken[0])


@pytest.mark.long
def test_several_batches_an_update_give_one_point(data, tmp_path):
    options = [*CURVE, "--curve", tmp_path / "curve", "--max-update", "7", "--update-freq", "2"]
    train(data, tmp_path / "model", *options)
    assert [point["updates"] for point in points(tmp_path / "curve")] == [3, 6]


def killed_before_update(number: int, data: Path, save_dir: Path, *options) -> bool:
    """fairseq-train in a fork that kills itself; whether it came so far."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        step = TaggingTask.train_step

        def step_or_end(self, sample, model, criterion, optimizer, update_num, **kwargs):
            if update_num == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(self, sample, model, criterion, optimizer, update_num, **kwargs)

        TaggingTask.train_step = step_or_end
        train_logged(data, save_dir, *options)
    finally:
        os._exit(0)


def test_a_killed_training_goes_on_as_if_nothing_had_been(data, unbroken, tmp_path):
    """Killed before update 8, after the point at 6; it goes on from the checkpoint at 5."""
    options = [*CURVE, "--curve", tmp_path / "curve", "--save-interval-updates", "5"]
    options += ["--max-update", "13", "--patience", "-1"]
    options += ["--validate-interval-updates", "3"]
    assert killed_before_update(8, data, tmp_path, *options)
    assert [point["updates"] for point in points(tmp_path / "curve")] == [3, 6]
    same_state(train(data, tmp_path, *options), unbroken[0])
    assert points(tmp_path / "curve") == unbroken[1]


def test_a_training_from_the_start_replaces_the_curve(data, unbroken, tmp_path):
    curve = tmp_path / "curve"
    curve.write_text("".join(f'{{"updates": {n}, "loss": 1.0}}\n' for n in (3, 6, 9, 12, 15)))
    train(data, tmp_path / "model", *CURVE, "--curve", curve, "--max-update", "13")
    assert points(curve) == unbroken[1]


# --- RMSprop -------------------------------------------------------------------------


def optimizer_of(*parameters, decay=0.9, eps=1e-7, lr=0.001) -> RMSprop:
    cfg = Namespace(lr=[lr], rmsprop_decay=decay, rmsprop_eps=eps, weight_decay=0.0)
    return RMSprop(cfg, list(parameters))


def gradients(step: int) -> list[float]:
    """Of several sizes; those near epsilon show where it is added."""
    return [math.sin(step + k) * 10.0 ** -(2 * k) for k in range(5)]


@pytest.mark.parametrize("decay, eps, lr", [(0.9, 1e-7, 0.001), (0.5, 1e-3, 0.1)])
def test_rmsprop_is_that_of_keras(decay, eps, lr):
    """The rule is a <- decay a + (1 - decay) g²;  p <- p - lr g / (sqrt(a) + eps); no momentum."""
    numbers, means = [1.0] * 5, [0.0] * 5
    parameter = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    optimizer = optimizer_of(parameter, decay=decay, eps=eps, lr=lr)
    for step in range(6):
        if step == 4:
            lr /= 10
            optimizer.set_lr(lr)
        parameter.grad = torch.tensor(gradients(step), dtype=torch.float64)
        optimizer.step()
        for k, g in enumerate(gradients(step)):
            means[k] = decay * means[k] + (1 - decay) * g * g
            numbers[k] -= lr * g / (math.sqrt(means[k]) + eps)
        assert parameter.tolist() == pytest.approx(numbers, rel=1e-12)


def test_defaults_of_rmsprop(model):
    group = torch.load(model, weights_only=False)["last_optimizer_state"]["param_groups"][0]
    chosen = {name: group[name] for name in ("alpha", "eps", "momentum", "centered")}
    assert chosen == {"alpha": 0.9, "eps": 1e-7, "momentum": 0, "centered": False}
