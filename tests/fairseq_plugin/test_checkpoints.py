"""Unsafe checkpoints are refused, incomplete ones are mended, and a killed training goes on as if
it had not been killed."""

import builtins
import os
import re
import shutil
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches import atomic, safe
from fairseq_posattn.fairseq_plugin.patches.safe import CheckpointError
from support.commands import FULL_TREE, losses
from support.commands import generate as generate_process
from support.in_process import generate, train

STOCK = ("--task", "translation", "--arch", "transformer")
BLEU = [
    *("--eval-bleu", "--eval-bleu-args", '{"beam": 1}', "--eval-bleu-detok", "space"),
    *("--eval-bleu-remove-bpe", "--best-checkpoint-metric", "bleu"),
    *("--maximize-best-checkpoint-metric", "--validate-interval-updates", "2"),
]
EACH_UPDATE = ("--save-interval-updates", "1", "--disable-validation")

checks_classes = pytest.mark.skipif(
    not safe.loads_weights_only(), reason="torch before 2.6 does not check classes"
)


def load(path) -> dict:
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def assert_same_model(left: Path, right: Path) -> None:
    left, right = load(left), load(right)
    assert left["optimizer_history"][-1] == right["optimizer_history"][-1]
    assert left["model"].keys() == right["model"].keys()
    for name, parameter in left["model"].items():
        assert torch.equal(parameter, right["model"][name]), name


# safe: what real checkpoints hold can be loaded, and nothing else


@checks_classes
@pytest.mark.long(ci=["tree-bleu", "ema"])
@pytest.mark.parametrize(
    "options",
    [
        (*STOCK, *BLEU),  # a namespace and numpy arrays
        (*FULL_TREE, *BLEU, "--keep-best-checkpoints", "2"),
        (*FULL_TREE, "--store-ema", "--ema-fp32", "--lr-scheduler", "inverse_sqrt"),
        ("--optimizer", "adafactor", "--lr-scheduler", "reduce_lr_on_plateau"),
    ],
    ids=["stock-bleu", "tree-bleu", "ema", "adafactor"],
)
def test_classes_of_real_checkpoints(options, toy_data, tmp_path):
    train(toy_data, tmp_path, *options, "--max-update", "2")
    for file in tmp_path.glob("*.pt"):
        assert not torch.serialization.get_unsafe_globals_in_checkpoint(file)
    resumed = train(toy_data, tmp_path, *options, "--max-update", "4")
    assert "@ 2 updates)" in resumed.output and len(losses(resumed.output)) == 2
    assert generate(toy_data, tmp_path / "checkpoint_last.pt").output.count("H-") == 60


@checks_classes
@pytest.mark.parametrize("save", ["plain", "again"])
def test_numpy_numbers_come_back_as_they_were(save, tmp_path):
    numbers = {
        "counts": np.array([[1, 2], [3, 4]]),
        "big_endian": np.array([1.5, -2.0], dtype=">f4"),
        "fortran": np.asfortranarray(np.ones((2, 3), dtype=np.int8)),
        "flags": np.array([True, False]),
        "scalar": np.float32(2.5),
    }
    file = tmp_path / "numbers.pt"
    torch.save(numbers, file)
    if save == "again":
        torch.save(torch.load(file), file)
    loaded = torch.load(file)
    for name, number in numbers.items():
        assert loaded[name].dtype == number.dtype.newbyteorder("="), name
        assert np.array_equal(loaded[name], number), name
    assert (loaded["counts"] + 1).sum() == 14


class Hidden:
    """Hides a call of a function in a pickle."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class PretendedObject:
    """A numpy array whose bytes would be taken for a pointer to an object."""

    def __reduce__(self):
        kind = np.dtype("O", copy=True)
        kind.__setstate__((3, "|", None, None, None, -1, -1, 0))
        function, arguments, _ = np.zeros(1).__reduce__()
        return function, arguments, (1, (1,), kind, False, b"\x41" * 8)


class Unknown:
    pass


def poisons(witness: Path) -> dict:
    command = f"touch {witness}"
    return {
        "posix.system": Hidden(os.system, command),
        "eval": Hidden(builtins.eval, f"open({str(witness)!r}, 'w')"),
        "an array of type 'O8'": PretendedObject(),
        "test_checkpoints.Unknown": Unknown(),
    }


@checks_classes
@pytest.mark.parametrize("what", poisons(Path("unused")))
@pytest.mark.parametrize("program", ["train", "generate"])
def test_a_malicious_checkpoint_is_refused(program, what, tree_model, toy_data, tmp_path):
    witness, file = tmp_path / "witness", tmp_path / "checkpoint_last.pt"
    torch.save({**torch.load(tree_model), "poison": poisons(witness)[what]}, file)
    if program == "train":
        result = train(toy_data, tmp_path, *FULL_TREE, check=False)
    else:
        result = generate(toy_data, file, check=False)
    assert isinstance(result.error, CheckpointError)
    assert str(result.error).startswith(f"{file} contains {what}, ")
    assert "could run code" in str(result.error)
    assert not witness.exists()


def set_parameter(name: str, change):
    def act(state: dict) -> None:
        state["model"][name] = change(state["model"][name])

    return act


FC1 = "encoder.layers.0.fc1.weight"
EMBEDDING = "encoder.embed_tokens.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_parameter(FC1, lambda weight: weight * float("nan")), f"parameter {FC1} contains inf"),
        (set_parameter(FC1, lambda weight: weight[1:]), f"{FC1} has the shape [63, 32], but this "),
        (set_parameter(FC1, lambda _: torch.zeros(1).expand(10**11)), "has more elements than the"),
        (set_parameter(EMBEDDING, lambda weight: weight[1:]), "symbols (encoder.embed_tokens.weig"),
        (lambda state: state["model"].pop(FC1), f'it lacks "{FC1}"'),
        (lambda state: state["model"].update(more=torch.ones(1)), 'does not have "more"'),
        (lambda state: state.update(model={}), "it contains no parameters"),
        (lambda state: state.update(task_state=[1]), "its 'task_state' has the type list"),
        (lambda state: state["cfg"]["task"].update(data="${oc.env:SECRET}"), "'${oc.env:SECRET}'"),
        (lambda state: state.update(cfg='a: "\\x24{oc.env:SECRET}"'), "'cfg' has the type str"),
        (lambda state: state.update(args=Namespace(data="${oc.decode:x}")), "'${oc.decode:x}', wh"),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    change, message, tree_model, toy_data, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET", "of this machine")
    file = tmp_path / "checkpoint_last.pt"
    state = torch.load(tree_model)
    change(state)
    torch.save(state, file)
    for result in (
        generate(toy_data, file, check=False),
        train(toy_data, tmp_path, *FULL_TREE, check=False),
    ):
        assert isinstance(result.error, InputError)
        assert str(result.error).startswith(f"{file}: ") and message in str(result.error)
        assert "of this machine" not in result.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.update(cfg=None), "it contains no configuration"),
        (lambda state: state["cfg"]["model"].update(_name="nobody"), "does not describe a known"),
    ],
)
def test_a_configuration_that_is_none(change, message, tree_model, toy_data, tmp_path):
    state, file = torch.load(tree_model), tmp_path / "checkpoint_last.pt"
    change(state)
    torch.save(state, file)
    error = generate(toy_data, file, check=False).error
    assert isinstance(error, InputError)
    assert str(error).startswith(f"{file}: ") and message in str(error)


@pytest.mark.parametrize("content", [b"no checkpoint", b"checkpoint\nof a\nkind\n", b"\0" * 99])
def test_no_checkpoint_is_not_called_dangerous(content, toy_data, tmp_path):
    file = tmp_path / "checkpoint_last.pt"
    file.write_bytes(content)
    message = str(generate(toy_data, file, check=False).error)
    assert message.startswith(
        f"{file}: the file does not start with the header of a torch file; the"
    )


@pytest.mark.long(ci=True)
def test_parts_that_are_larger_than_the_file(tree_model, toy_data, tmp_path):
    """A file of few bytes can be unpacked to any size; torch itself never packs."""
    file = tmp_path / "checkpoint_last.pt"
    with zipfile.ZipFile(tree_model) as old, zipfile.ZipFile(file, "w", 8) as new:
        for part in old.infolist():
            new.writestr(part.filename, old.read(part) + bytes(10**7 * ("/data/" in part.filename)))
    message = str(generate(toy_data, file, check=False).error)
    assert message.startswith(f"{file}: its parts are larger than the file")


def test_one_dictionary_for_shared_embeddings(toy_data, tmp_path):
    data = shutil.copytree(toy_data, tmp_path / "data")
    with open(data / "dict.tgt.txt", "a") as file:
        file.write("more 1\n")
    for arch in ("transformer", "posattn_transformer"):
        options = ("--arch", arch, "--share-all-embeddings")
        error = train(data, tmp_path, *options, check=False).error
        assert isinstance(error, InputError) and "has two; binarise" in str(error)


def test_the_reason_is_the_last_line(toy_data, tmp_path):
    file = tmp_path / "checkpoint_last.pt"
    file.write_bytes(b"")
    result = generate_process(toy_data, file, check=False)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith(f"error: {file} is incomplete")


def test_a_warning_where_torch_does_not_check(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.5.1+cu121")
    with pytest.warns(UserWarning, match=r"torch 2\.5\.1\+cu121 loads .* without checking") as seen:
        safe.register_classes()
    assert len(seen) == 1


# whole: torn files


def cut(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])


@pytest.fixture(scope="module")
def uninterrupted(toy_data, tmp_path_factory):
    """Return the losses of a training of six updates, as printed, and its folder."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    result = train(toy_data, folder, *FULL_TREE, *EACH_UPDATE, "--max-update", "6")
    return losses(result.output), folder


@pytest.mark.long(ci=["0.5"])
@pytest.mark.parametrize("share", [0.5, 0.0, 0.999])
def test_a_torn_last_checkpoint(share, uninterrupted, toy_data, tmp_path):
    options = (*FULL_TREE, *EACH_UPDATE)
    first = train(toy_data, tmp_path, *options, "--max-update", "3")
    cut(tmp_path / "checkpoint_last.pt", share)
    os.utime(tmp_path / "checkpoint_1_1.pt")  # dates deceive
    second = train(toy_data, tmp_path, *options, "--max-update", "6")
    newest = tmp_path / "checkpoint_1_3.pt"
    assert f"the last save was interrupted; the training resumes from {newest}" in second.output
    expected, folder = uninterrupted
    assert losses(first.output) + losses(second.output) == expected
    assert_same_model(tmp_path / "checkpoint_last.pt", folder / "checkpoint_last.pt")


def test_all_torn(uninterrupted, toy_data, tmp_path):
    for name in ("checkpoint_1_5.pt", "checkpoint_last.pt"):
        shutil.copy(uninterrupted[1] / name, tmp_path)
        cut(tmp_path / name, 0.5)
    result = train(toy_data, tmp_path, *FULL_TREE, check=False)
    assert isinstance(result.error, CheckpointError)
    assert str(result.error).startswith(f"{tmp_path / 'checkpoint_last.pt'} is incomplete")
    assert "remove the file to start from scratch" in str(result.error)


def test_another_file_by_name(uninterrupted, toy_data, tmp_path):
    """--restore-file is the way out that the messages name."""
    (tmp_path / "checkpoint_last.pt").write_bytes(b"torn")
    (tmp_path / "torn.pt").write_bytes(b"PK\x03\x04 torn")
    options = (*FULL_TREE, "--max-update", "6", "--restore-file")
    result = train(toy_data, tmp_path, *options, tmp_path / "torn.pt", check=False)
    assert f"{tmp_path / 'torn.pt'} is incomplete" in str(result.error)
    train(toy_data, tmp_path, *options, uninterrupted[1] / "checkpoint_1_5.pt")
    assert_same_model(tmp_path / "checkpoint_last.pt", uninterrupted[1] / "checkpoint_last.pt")


def write_checkpoint(file: Path, updates: int, **more) -> None:
    torch.save({"optimizer_history": [{"num_updates": updates}], **more}, file)


def test_the_newest_has_the_most_updates(tmp_path):
    for name, updates in {
        "checkpoint_1_50": 50,
        "checkpoint3": 80,
        "checkpoint_best": 70,
        "checkpoint.best_bleu_20.10": 60,
        "checkpoint_average": 90,  # not of the training itself
        "checkpoint_4_99": 99,
        "checkpoint_4_98-shard1": 98,
    }.items():
        write_checkpoint(tmp_path / f"{name}.pt", updates)
    cut(tmp_path / "checkpoint_4_99.pt", 0.5)
    write_checkpoint(tmp_path / ".0123456789ab.partial.checkpoint_4_97.pt", 97)
    os.utime(tmp_path / "checkpoint_1_50.pt")
    assert atomic.newest(tmp_path, "") == tmp_path / "checkpoint3.pt"
    assert atomic.newest(tmp_path, "-shard1") == tmp_path / "checkpoint_4_98-shard1.pt"


@checks_classes
def test_an_unsafe_file_is_no_way_on(tmp_path):
    write_checkpoint(tmp_path / "checkpoint1.pt", 10)
    write_checkpoint(
        tmp_path / "checkpoint2.pt", 20, poison=poisons(tmp_path / "witness")["posix.system"]
    )
    assert atomic.newest(tmp_path, "") == tmp_path / "checkpoint1.pt"
    assert not (tmp_path / "witness").exists()


def test_without_a_last_one_as_in_fairseq(uninterrupted, toy_data, tmp_path):
    """A user who removes it starts anew, unless a kill left its mark."""
    shutil.copy(uninterrupted[1] / "checkpoint_1_3.pt", tmp_path)
    options = (*FULL_TREE, "--no-save")
    atomic.mend_last(tmp_path)
    assert not (tmp_path / "checkpoint_last.pt").exists()
    (tmp_path / atomic.MARK).touch()
    atomic.mend_last(tmp_path)
    result = train(toy_data, tmp_path, *options, "--max-update", "6")
    assert losses(result.output) == uninterrupted[0][3:]


def test_a_full_disk_leaves_the_old_copy(tmp_path, monkeypatch):
    def full(source, target):
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    (tmp_path / "last").write_text("old")
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space"):
        PathManager.copy(str(tmp_path / "new"), str(tmp_path / "last"), overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["last"]
    assert (tmp_path / "last").read_text() == "old"


# killed


@pytest.mark.long
@pytest.mark.parametrize("model", [FULL_TREE, STOCK], ids=["tree", "stock"])
def test_the_same_batches_after_the_first_epoch(model, toy_data, tmp_path):
    """fairseq itself goes on with other batches than it had."""
    options = (*model, "--max-tokens", "2000", "--disable-validation")
    unbroken = train(toy_data, tmp_path / "unbroken", *options, "--max-update", "12")
    first = train(toy_data, tmp_path / "broken", *options, "--max-update", "8")
    second = train(toy_data, tmp_path / "broken", *options, "--max-update", "12")
    assert re.search(r"train_inner \| epoch 002: +[2-9] /", second.output)  # amid an epoch
    assert losses(first.output) + losses(second.output) == losses(unbroken.output)


class Trainer:
    """What fairseq's save_checkpoint asks of a trainer."""

    is_data_parallel_master = should_save_checkpoint_on_current_rank = True
    data_parallel_rank, checkpoint_suffix, task = 0, "", None

    def __init__(self, updates: int):
        self.updates = updates

    def consolidate_optimizer(self) -> None:
        pass

    def get_num_updates(self) -> int:
        return self.updates

    def save_checkpoint(self, filename: str, extra_state: dict) -> str:
        state = {"optimizer_history": [{"num_updates": self.updates}], "extra": extra_state}
        checkpoint_utils.torch_persistent_save(state, filename)
        return filename


def save(folder: Path, updates: int) -> None:
    """fairseq's own save: checkpoint_1_UPDATES.pt, then its copies to _best and _last."""
    cfg = Namespace(
        **{"no_save": False, "save_dir": str(folder), "maximize_best_checkpoint_metric": False},
        **{"no_epoch_checkpoints": False, "save_interval": 1, "save_interval_updates": 1},
        **{"keep_best_checkpoints": 0, "keep_interval_updates": 2, "keep_last_epochs": 0},
        **{"keep_interval_updates_pattern": -1, "no_last_checkpoints": False},
        **{"best_checkpoint_metric": "loss", "write_checkpoints_asynchronously": False},
    )
    progress = Namespace(epoch=1, end_of_epoch=lambda: False, state_dict=dict)
    checkpoint_utils.save_checkpoint(cfg, Trainer(updates), progress, 1.0 / updates)


def killed_at(moment: int, action) -> bool:
    """Act in a process that ends without notice when it is to touch a file for the n-th time."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    touched = 0

    def end(event: str, _) -> None:
        nonlocal touched
        if event in ("open", "os.rename", "os.remove", "shutil.copyfile"):
            touched += 1
            if touched == moment:
                os._exit(9)

    sys.addaudithook(end)
    try:
        action()
    finally:
        os._exit(0)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("saves_before", [0, 1, 3])
def test_killed_at_every_step_of_a_save(saves_before, tmp_path):
    vars(checkpoint_utils.save_checkpoint).clear()  # the best result of another test
    steps = 0
    while True:
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        for updates in range(1, saves_before + 1):
            save(folder, updates)
        killed = killed_at(steps, lambda folder=folder: save(folder, saves_before + 1))
        new = (folder / f"checkpoint_1_{saves_before + 1}.pt").exists()
        atomic.remove_partial(folder)
        atomic.mend_last(folder)
        for name in ("checkpoint_last.pt", "checkpoint_best.pt"):  # each save is the best so far
            file, expected = folder / name, saves_before + new
            assert (atomic.updates(file) if file.exists() else 0) == expected
        assert all(file.name.startswith("checkpoint") for file in folder.iterdir())
        if not killed:
            break
    assert steps > 8 and new
