"""Run stanza's trainers in separate processes, because they set global seeds and log handlers."""

import contextlib
import io
import multiprocessing
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.jobs.local import be_worker, interrupts_blocked
from fairseq_posattn.text.parsing.treebank import Corpus

MODULES = {"tokenize": "tokenizer", "mwt": "mwt_expander", "pos": "tagger", "depparse": "parser"}
STEP = re.compile(rb"step\s+(\d+)\s*/\s*(\d+)", re.I)
TAIL = 4096  # the number of bytes read from the end of a log to find the last step
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Size:
    """A size of parser models, defined by the options of stanza's trainers.

    train, dev: the maximum numbers of sentences for training and for validation.
    network: the common options of tagger and parser, which `pos` and `depparse` override.
    """

    name: str
    train: int | None = None
    dev: int | None = None
    tokenize: str = ""
    mwt: str = ""
    network: str = ""
    pos: str = ""
    depparse: str = ""

    def of(self, processor: str) -> str:
        own: str = getattr(self, processor)
        return f"{self.network} {own}" if processor in ("pos", "depparse") else own


SMALL = Size(
    "small",
    train=12000,
    dev=500,
    tokenize="--steps 1000 --eval_steps 500",
    mwt="--num_epoch 10",
    network="--num_layers 1 --hidden_dim 192 --word_emb_dim 64 --char_emb_dim 32"
    " --char_hidden_dim 64 --transformed_dim 64 --tag_emb_dim 32 --deep_biaff_hidden_dim 64"
    " --lr 3e-3 --dropout 0.2 --word_dropout 0.1",
    pos="--hidden_dim 96 --composite_deep_biaff_hidden_dim 32 --batch_size 32 --lr 4e-3"
    " --dropout 0.1 --word_dropout 0.05 --max_steps 1800 --eval_interval 600 --fix_eval_interval",
    # The trainer's default optimizer, adadelta, requires long training. A second optimizer is used
    # because no other option lowers the learning rate at a given step.
    depparse="--batch_size 750 --max_steps 2000 --eval_interval 200 --optim adam --beta2 0.95"
    " --weight_decay 0 --no_plateau --second_optim adam --second_optim_start_step 1200"
    " --second_lr 8e-4 --second_warmup_steps 0",
)
TINY = replace(
    SMALL,
    name="tiny",
    train=4000,
    dev=200,
    tokenize="--steps 150 --eval_steps 150",
    mwt="--num_epoch 2",
    pos=f"{SMALL.pos} --max_steps 250 --eval_interval 125",
    depparse=f"{SMALL.depparse} --batch_size 500 --max_steps 300 --eval_interval 100"
    " --second_optim_start_step 200",
)
FULL = Size("full", dev=2000)  # stanza's defaults
SIZES = {size.name: size for size in (TINY, SMALL, FULL)}


def options_of(processor: str, size: Size, train: Corpus, dev: Corpus) -> list[str]:
    """Return the options of a trainer: its files, and the options of the size."""
    files = {"train_file": train.conllu, "eval_file": dev.conllu}
    more = ""
    if processor == "tokenize":
        files = {"txt_file": train.text, "label_file": train.labels}
        files |= {"dev_txt_file": dev.text, "dev_label_file": dev.labels}
        files |= {"mwt_json_file": train.expansions}
    elif processor == "mwt":
        files |= {"gold_file": dev.conllu}
    else:  # without word vectors, and with UPOS as the only tags
        more = "--no_pretrain --word_cutoff 2"
    if processor == "depparse":
        more += " --no_xpos --no_ufeats"
    named = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    return [*named, *more.split(), *size.of(processor).split()]


def run_trainer(processor: str, options: list[str], log: Path, name: str) -> None:
    """Run a trainer, write its output to a log file, and show its progress.

    name: the name of the model in messages.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (os.getpid(), MODULES[processor], options, log, sender)
    trainer = context.Process(target=be_trainer, args=arguments)
    log.unlink(missing_ok=True)
    with interrupts_blocked():
        trainer.start()
    sender.close()
    progress = None
    try:
        while trainer.is_alive():
            trainer.join(SECONDS_BETWEEN_LOOKS)
            if found := last_step(log):
                step, steps = found
                progress = progress or Progress(total=steps, done=step, unit="steps", desc=name)
                progress.show(step)
    finally:
        trainer.kill()
        trainer.join()
        if progress:
            progress.close()
    with contextlib.suppress(EOFError):  # raised if the trainer sent no error
        raise receiver.recv()
    if trainer.exitcode:
        raise InputError(failure(trainer.exitcode, log, name))


def failure(code: int, log: Path, name: str) -> str:
    """Return the error message for a trainer that failed with this exit code."""
    if code < 0:
        return (
            f"{name}: the trainer was killed by signal {-code}, perhaps because memory ran out; "
            "run the same command again to resume"
        )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return (
        f"{log}:{len(lines)}: stanza's trainer failed ({lines[-1] if lines else 'no output'}); "
        "read this log, and start again with another --work"
    )


def be_trainer(parent: int, name: str, options: list[str], log: Path, sender: Any) -> None:
    """Run one of stanza's trainers in this process, which exits if its parent exits."""
    be_worker(parent, None, on_gpus=False)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import torch

    torch.save = partial(save_whole, torch.save, sender)
    import_module(f"stanza.models.{name}").main(options)


def save_whole(save: Callable, sender: Any, value: object, path: str, **options: Any) -> None:
    """Save atomically, and exit if writing fails, because stanza would ignore the error."""
    buffer = io.BytesIO()
    save(value, buffer, **options)
    try:
        with replaced_whole(path) as growing:
            growing.write_bytes(buffer.getbuffer())
    except OSError as error:
        sender.send(error)
        os._exit(1)


def last_step(log: Path) -> tuple[int, int] | None:
    """Return the number of the last step in the log, and the maximum number of steps."""
    with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        if found := STEP.findall(file.read()):
            return int(found[-1][0]), int(found[-1][1])
    return None
