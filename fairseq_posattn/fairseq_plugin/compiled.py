"""Training with torch.compile (--compile): compiled layers, and batches padded to few lengths.

Each encoder and decoder layer is compiled for all shapes of batches, in training only. Layers with
the same code share their compiled graphs. On a GPU, a CUDA graph is then recorded for each shape,
so batches are padded to a small set of lengths, and their number of sentences is computed from the
padded lengths.
"""

import logging
import os
import shutil
import time
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.data import BaseWrapperDataset, FairseqDataset
from fairseq.tasks.translation import TranslationTask
from torch import nn

from fairseq_posattn.core.attention.kernels import padded_length
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.criterions import unwrapped

logger = logging.getLogger(__name__)
CUDA_GRAPHS = "reduce-overhead"
AUTOMATIC = "auto"
STEP = 8  # pieces; torch's attention kernels on GPUs need masks whose length is a multiple of this
MOST = 32  # compiled graphs; layers that need more run without torch.compile


class CompiledLayers:
    """The compiled layers of a model in training."""

    def __init__(self, model: nn.Module, mode: str):
        import torch._dynamo as dynamo
        import torch._inductor.config as inductor
        from torch._dynamo.utils import counters

        dynamo.config.recompile_limit = max(MOST, dynamo.config.recompile_limit)
        inductor.triton.cudagraph_dynamic_shape_warn_limit = None  # a graph for each shape is meant
        self.model, self.cuda_graphs = model, mode == CUDA_GRAPHS
        self.graphs = self.before = 0
        self.counters, self.began = counters["stats"], 0.0
        for layer in layers_of(model):
            layer.compile(dynamic=True, mode=mode)

    def begin_step(self) -> None:
        """Prepare the next batch; CUDA graphs overwrite their results for the previous one.

        Gradients that accumulate over several batches may be such results, so they are copied.
        """
        self.began, self.before = time.monotonic(), self.counters["unique_graphs"]
        if self.cuda_graphs:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.clone()
            torch.compiler.cudagraph_mark_step_begin()

    def end_step(self, sample: dict) -> None:
        """Log how many graphs this batch has required."""
        new = self.counters["unique_graphs"] - self.before
        self.graphs += new
        if new:
            logger.info(
                "--compile: %d graphs compiled in %.0f s (%d so far, at most %d) for a batch of "
                "%d sentences with %d source and %d target pieces",
                *(new, time.monotonic() - self.began, self.graphs, MOST),
                *(*sample["net_input"]["src_tokens"].shape, sample["target"].size(1)),
            )


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the encoder and decoder layers; raise an InputError if the model has none."""
    sides = (getattr(model, "encoder", None), getattr(model, "decoder", None))
    # iterating over layers with --encoder-layerdrop would skip some of them
    found = [layer for side in sides for layer in getattr(side, "layers", nn.Module()).children()]
    if not found:
        raise InputError("the model has no layers that --compile supports; omit --compile")
    return found


class PaddedDataset(BaseWrapperDataset):
    """Pads batches to a small set of lengths, which also determine the size of batches."""

    def __init__(self, dataset: FairseqDataset, step: int, max_tokens: Optional[int]):
        super().__init__(dataset)
        self.step, self.max_tokens = step, max_tokens

    def padded(self, length: int) -> int:
        """Return the length to which a sentence is padded, which --max-tokens limits."""
        wanted = padded_length(length, self.step)
        return wanted if self.max_tokens is None else max(length, min(wanted, self.max_tokens))

    def num_tokens(self, index: int) -> int:
        return self.padded(int(self.dataset.num_tokens(index)))

    def batch_by_size(self, indices, **options):
        return FairseqDataset.batch_by_size(self, indices, **options)

    def collater(self, samples, **options):
        longest = {
            side: self.padded(max(len(sample[side]) for sample in samples))
            for side in ("source", "target")
            if samples and samples[0].get(side) is not None
        }
        merged = self.dataset.collater(samples, pad_to_length={"target": None, **longest})
        inputs = merged.get("net_input", {})
        if "source_tree" in inputs:
            words = inputs["source_tree"].size(-1)  # more than pieces in truncated sentences
            width = max(longest["source"], self.padded(words))
            inputs["source_tree"] = F.pad(inputs["source_tree"], (0, width - words))
        return merged


class CompiledTranslation(TranslationTask):
    """fairseq's translation task with --compile."""

    layers: Optional[CompiledLayers] = None
    padded_dataset: Optional[PaddedDataset] = None

    def build_model(self, cfg, from_checkpoint=False):
        """Build the model; raise an InputError if --compile does not support it."""
        model = super().build_model(cfg, from_checkpoint)
        if self.compiles and not from_checkpoint:
            refuse_what_cannot_compile(cfg)
            layers_of(model)
        return model

    @property
    def compiles(self) -> bool:
        return getattr(self.cfg, "compile", False)  # older checkpoints have no such option

    def mode(self, device: torch.device) -> str:
        """Return the mode of torch.compile."""
        chosen = str(self.cfg.compile_mode)
        by_device = CUDA_GRAPHS if device.type == "cuda" else "default"
        return by_device if chosen == AUTOMATIC else chosen

    def get_batch_iterator(self, dataset, max_tokens=None, *rest, **options):
        """Return a batch iterator that, with --compile, pads batches for training."""
        step = self.cfg.required_seq_len_multiple
        if step == 1 and torch.cuda.is_available():
            step = STEP
        if self.compiles and step > 1 and dataset is self.datasets.get(self.cfg.train_subset):
            known = self.padded_dataset
            if known is None or known.dataset is not dataset:
                self.padded_dataset = PaddedDataset(dataset, step, max_tokens)
            dataset = self.padded_dataset
        return super().get_batch_iterator(dataset, max_tokens, *rest, **options)

    def train_step(self, sample, model, *rest, **more):
        """Run forward and backward passes, through compiled layers with --compile."""
        if not self.compiles:
            return super().train_step(sample, model, *rest, **more)
        if self.layers is None:
            bare = unwrapped(model)
            self.layers = CompiledLayers(bare, self.mode(next(bare.parameters()).device))
        self.layers.begin_step()
        result = super().train_step(sample, model, *rest, **more)
        self.layers.end_step(sample)
        return result

    def valid_step(self, sample, model, criterion):
        if self.layers is None:
            return super().valid_step(sample, model, criterion)
        with torch.compiler.set_stance("force_eager"):
            return super().valid_step(sample, model, criterion)


def refuse_what_cannot_compile(cfg) -> None:
    """Raise an InputError if the model or the machine does not support --compile."""
    if getattr(cfg, "checkpoint_activations", False):
        raise InputError("--compile cannot be combined with --checkpoint-activations; omit one")
    if not hasattr(torch.compiler, "set_stance"):
        raise InputError(f"--compile needs torch 2.6 or later, found {torch.__version__}; omit it")
    compiler = os.environ.get("CXX", "g++")
    if not torch.cuda.is_available() and shutil.which(compiler) is None:
        raise InputError(
            f"--compile needs a C++ compiler on a CPU, but {compiler} was not found; install g++, "
            "set CXX, or omit --compile"
        )
