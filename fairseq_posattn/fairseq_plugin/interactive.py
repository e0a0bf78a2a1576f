"""Translate new text: the loop of posattn interactive and fairseq-interactive.

It has the options and the output format of fairseq_cli.interactive. Unlike that program, it passes
all fields of a batch to the model, including the trees, and it prefetches batches, so that the next
sentences are parsed while the current ones are translated.
"""

import ast
import logging
import math
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.token_generation_constraints import pack_constraints, unpack_constraints

from fairseq_posattn.files.files import decoded, read_lines

logger = logging.getLogger("fairseq_cli.interactive")
BATCHES_AHEAD = 32


def main(cfg: Any) -> None:
    """Translate the lines of standard input, or of the file given with --input."""
    start, seconds = time.time(), 0.0
    utils.import_user_module(cfg.common)
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        cfg.dataset.batch_size = 1
    logger.info(cfg)
    if cfg.common.seed is not None and not cfg.generation.no_seed_provided:
        np.random.seed(cfg.common.seed)
        utils.set_torch_seed(cfg.common.seed)
    translator = Translator(cfg)
    size = max(1, cfg.interactive.buffer_size)
    if size > 1:
        logger.info("Sentence buffer size: %s", size)
    logger.info("NOTE: hypothesis and token scores are output in base 2")
    logger.info("Type the input sentence and press return:")
    batches = translator.batches(buffers(cfg.interactive.input, size))
    for buffer in translator.translate(prefetched(batches) if size > 1 else batches):
        seconds += sum(line.seconds for line in buffer)
        sys.stdout.write("".join(map(translator.report, buffer)))
        sys.stdout.flush()
    total = time.time() - start
    logger.info("Total time: %.3f seconds; translation time: %.3f", total, seconds)


def buffers(path: str, size: int) -> Iterator[list[str]]:
    """Yield lists of `size` lines of a file, or of standard input if `path` is '-'."""
    lines = decoded(sys.stdin.buffer, "standard input") if path == "-" else read_lines(path)
    while buffer := [line.strip() for line in islice(lines, size)]:
        yield buffer


def prefetched(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the same items; another thread computes up to BATCHES_AHEAD of them in advance."""
    ready: Queue[tuple[Any, BaseException | None]] = Queue(BATCHES_AHEAD)
    end = StopIteration()

    def fill() -> None:
        try:
            for item in items:
                ready.put((item, None))
            ready.put((None, end))
        except BaseException as error:
            ready.put((None, error))

    Thread(target=fill, daemon=True).start()
    while True:
        item, error = ready.get()
        if error is end:
            return
        if error is not None:
            raise error
        yield item


class Translation(NamedTuple):
    """The translations of a line.

    number: line number, counted from 0.
    seconds: translation time.
    """

    number: int
    source: torch.Tensor
    hypotheses: list[dict[str, Any]]
    constraints: list[torch.Tensor]
    seconds: float


class Translator:
    """Translates lines with the models and options of a configuration."""

    def __init__(self, cfg: Any):
        self.cfg = cfg
        self.task = tasks.setup_task(cfg.task)
        logger.info("loading model(s) from %s", cfg.common_eval.path)
        self.models, _ = checkpoint_utils.load_model_ensemble(
            utils.split_paths(cfg.common_eval.path),
            arg_overrides=ast.literal_eval(cfg.common_eval.model_overrides),
            task=self.task,
            suffix=cfg.checkpoint.checkpoint_suffix,
            strict=cfg.checkpoint.checkpoint_shard_count == 1,
            num_shards=cfg.checkpoint.checkpoint_shard_count,
        )
        self.on_gpu = torch.cuda.is_available() and not cfg.common.cpu
        for model in self.models:
            if cfg.common.fp16:
                model.half()
            if self.on_gpu and not cfg.distributed_training.pipeline_model_parallel:
                model.cuda()
            model.prepare_for_inference_(cfg)
        self.generator = self.task.build_generator(self.models, cfg.generation)
        tokenizer, bpe = self.task.build_tokenizer(cfg.tokenizer), self.task.build_bpe(cfg.bpe)
        self.codecs = [codec for codec in (tokenizer, bpe) if codec is not None]
        self.unknown_words = utils.load_align_dict(cfg.generation.replace_unk)
        self.max_positions = utils.resolve_max_positions(
            self.task.max_positions(), *[model.max_positions() for model in self.models]
        )
        if cfg.generation.constraints:
            logger.warning(
                "NOTE: Constrained decoding currently assumes a shared subword vocabulary."
            )

    def encode(self, text: str) -> str:
        for codec in self.codecs:
            text = codec.encode(text)
        return text

    def decode(self, text: str) -> str:
        for codec in reversed(self.codecs):
            text = codec.decode(text)
        return text

    def batches(self, buffers: Iterable[list[str]]) -> Iterator[dict[str, Any] | None]:
        """Yield the batches of each buffer, and None at its end."""
        first = 0
        for lines in buffers:
            for batch in self.batches_of(lines, first):
                batch["id"] += first
                yield batch
            yield None
            first += len(lines)

    def batches_of(self, lines: list[str], first: int) -> Iterator[dict[str, Any]]:
        """Yield batches of lines; `first` is the number of the first one."""
        constraints = None
        if self.cfg.generation.constraints:
            lines, constraints = self.without_constraints(lines)
        self.task.lines_before = first  # for error messages
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(lines, self.encode)
        data = self.task.build_dataset_for_inference(tokens, lengths, constraints=constraints)
        options = self.cfg.dataset
        chosen = self.task.get_batch_iterator(
            dataset=data,
            max_tokens=options.max_tokens,
            max_sentences=options.batch_size,
            max_positions=self.max_positions,
            ignore_invalid_inputs=options.skip_invalid_size_inputs_valid_test,
            disable_iterator_cache=True,
        )
        for numbers in chosen.frozen_batches:
            yield data.collater([data[number] for number in numbers])

    def without_constraints(self, lines: list[str]) -> tuple[list[str], torch.Tensor]:
        """Split off the constraints, which follow the text of a line after tabs."""
        texts, found = [], []
        for line in lines:
            text, *constraints = line.split("\t")
            texts.append(text)
            found.append([self.constraint(one) for one in constraints])
        return texts, pack_constraints(found)

    def constraint(self, text: str) -> torch.Tensor:
        dictionary, text = self.task.target_dictionary, self.encode(text)
        return dictionary.encode_line(text, append_eos=False, add_if_not_exist=False)

    def translate(self, batches: Iterable[dict[str, Any] | None]) -> Iterator[list[Translation]]:
        """Yield the translations of each buffer of batches, in the order of lines."""
        found: list[Translation] = []
        for batch in batches:
            if not found:  # fairseq's data loader also draws a number, which affects --sampling
                torch.empty((), dtype=torch.int64).random_()
            if batch is not None:
                found += self.translate_batch(batch)
                continue
            yield sorted(found, key=lambda translation: translation.number)
            found = []

    def translate_batch(self, batch: dict[str, Any]) -> Iterator[Translation]:
        if self.on_gpu:
            batch = utils.move_to_cuda(batch)
        start, constraints = time.time(), batch.get("constraints")
        found = self.task.inference_step(
            self.generator, self.models, batch, constraints=constraints
        )
        seconds = (time.time() - start) / len(found)
        pad = self.task.target_dictionary.pad()
        for k, (number, hypotheses) in enumerate(zip(batch["id"].tolist(), found, strict=True)):
            source = utils.strip_pad(batch["net_input"]["src_tokens"][k], pad)
            required = [] if constraints is None else unpack_constraints(constraints[k])
            yield Translation(number, source, hypotheses, required, seconds)

    def report(self, line: Translation) -> str:
        """Return the text that fairseq prints for a line."""
        number, process = line.number, self.cfg.common_eval.post_process
        target, rows, text = self.task.target_dictionary, [], ""
        if (dictionary := self.task.source_dictionary) is not None:
            text = dictionary.string(line.source, process)
            rows += [f"S-{number}\t{text}", f"W-{number}\t{line.seconds:.3f}\tseconds"]
            rows += [f"C-{number}\t{target.string(one, process)}" for one in line.constraints]
        for hypothesis in line.hypotheses[: self.cfg.generation.nbest]:
            _, translation, alignment = utils.post_process_prediction(
                hypo_tokens=hypothesis["tokens"].int().cpu(),
                src_str=text,
                alignment=hypothesis["alignment"],
                align_dict=self.unknown_words,
                tgt_dict=target,
                remove_bpe=process,
                extra_symbols_to_ignore=getattr(
                    self.generator, "symbols_to_strip_from_output", {self.generator.eos}
                ),
            )
            score = hypothesis["score"] / math.log(2)
            scores = hypothesis["positional_scores"].div_(math.log(2)).tolist()
            rows.append(f"H-{number}\t{score}\t{translation}")
            rows.append(f"D-{number}\t{score}\t{self.decode(translation)}")
            rows.append(f"P-{number}\t" + " ".join(f"{one:.4f}" for one in scores))
            if self.cfg.generation.print_alignment:
                pairs = " ".join(f"{source}-{place}" for source, place in alignment)
                rows.append(f"A-{number}\t{pairs}")
        return "".join(f"{row}\n" for row in rows)
