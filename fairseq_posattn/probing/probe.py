"""Encode sentences with trained models, before and after training, for posattn probe."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import sha256
from fairseq_posattn.files.version import __version__
from fairseq_posattn.inspection.model import Loaded, load
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.probing.encoding import SentenceEncoder
from fairseq_posattn.probing.request import ALL, MIX, TOP, Named, ProbeRequest
from fairseq_posattn.probing.results import EMBEDDINGS, TRAINED, UNTRAINED
from fairseq_posattn.probing.words import Encode, Vectors, cached
from fairseq_posattn.text.parsing.options import ParseRequest
from fairseq_posattn.text.parsing.run import parse

NONE, PARSED, GIVEN = "none", "parsed", "given"  # kinds of trees


@dataclass(frozen=True)
class Probing:
    """The base class for probing sentences and words; it loads models and encodes sentences.

    Each model is probed after training and, for comparison, before training.
    """

    request: ProbeRequest

    def encoders(self, model: Named) -> Iterator[tuple[dict[str, Any], SentenceEncoder]]:
        """Yield the trained and, if requested, the untrained encoder.

        Each encoder is preceded by the values that identify it in the results (see `OfModel`).
        """
        request = self.request
        assert request.data is not None
        checksum = sha256(model.path) if model.path.is_file() else ""
        about = {"system": model.system, "run": model.run, "model": checksum}
        loaded = load(model.path, request.data, request.user_dir, request.fairseq_task, request.cpu)
        codecs = request.bpe, request.moses
        yield {**about, "kind": TRAINED}, SentenceEncoder(loaded, request.data, *codecs)
        if not request.no_untrained:
            twin = SentenceEncoder(untrained(loaded), request.data, *codecs)
            yield {**about, "kind": UNTRAINED}, twin

    def parsed_file(
        self, encoder: SentenceEncoder, texts: Sequence[str], name: str, remedy: str
    ) -> Path:
        """Parse texts in the same way as the training data, and return the path of the trees.

        name: the name of the file, without .conllu.xz.
        remedy: the end of the error message for training data not parsed by stanza.
        """
        pipeline, folder = encoder.pipeline, self.request.cache / "parsed"
        if pipeline is None or pipeline.config.parser.parser != "stanza":
            raise InputError(
                f"{encoder.data}: posattn prepare did not parse these data with stanza; {remedy}"
            )
        text, out = folder / f"{name}.txt", folder / f"{name}.conllu.xz"
        with written_whole(text) as file:
            file.writelines(f"{pipeline.source_text(line)}\n" for line in texts)
        workers = Cluster(workers=self.request.workers)
        settings = pipeline.config.parser
        parse(ParseRequest(text=str(text), out=str(out), settings=settings, cluster=workers))
        return out

    def encoded(
        self,
        what: str,
        encoder: SentenceEncoder,
        about: dict[str, Any],
        of: dict[str, Any],
        sentences: int,
        rows: int,
        encode: Encode,
    ) -> Vectors:
        """Encode sentences, or read their vectors from the cache of a run with the same inputs.

        what: a description of the sentences for log messages.
        of: inputs that the vectors depend on, in addition to the model and its data.
        rows: the number of vectors.
        """
        check_layer(self.request.layer, encoder.top)
        folder = Path(encoder.data)
        files = [folder / "prepare.json", *sorted(folder.glob("dict.*.txt"))]  # for segmentation
        described = {
            **{name: about[name] for name in ("model", "kind")},
            "data": {path.name: sha256(path) for path in files if path.is_file()},
            **of,
            "version": __version__,
            **({"codecs": codecs} if (codecs := encoder.codec_checksums()) else {}),
        }
        what = f"{what} ({about['kind']})"
        return cached(self.request.cache / "vectors", described, what, sentences, rows, encode)

    def layers(self, vectors: Vectors) -> dict[str, np.ndarray]:
        """Return the vectors of the requested layers, by layer name."""
        top, layer = vectors.shape[1] - 2, self.request.layer  # the last "layer": embeddings
        check_layer(layer, top)
        if layer == TOP or not top:
            return {TOP: vectors[:, top]}
        if layer == MIX:
            return {MIX: vectors[:, : top + 1]}
        if layer == ALL:
            return {str(number): vectors[:, number] for number in range(top + 1)}
        return {layer: vectors[:, int(layer)]}

    def chosen(
        self, about: dict[str, Any], *parts: Vectors
    ) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
        """Yield the result fields and the vectors of all parts for each requested layer.

        For a trained model, also yield them for the embeddings.
        """
        layers = [self.layers(part) for part in parts]
        for layer in layers[0]:
            yield {**about, "layer": layer}, [part[layer] for part in layers]
        if about["kind"] == TRAINED:
            own = {"kind": EMBEDDINGS, "layer": "0", "trees": NONE}
            yield {**about, **own}, [part[:, -1] for part in parts]


def check_layer(layer: str, top: int) -> None:
    """Raise an InputError if an encoder does not provide this layer.

    top: the number of the encoder's top layer.
    """
    if not top and layer not in (TOP, ALL):
        raise InputError(f"--layer {layer}: this encoder provides only its top layer; use top")
    if layer.isdecimal() and int(layer) > top:
        raise InputError(f"--layer {layer} does not exist; choose one of the layers 0 to {top}")


def untrained(loaded: Loaded) -> Loaded:
    """Return the same model before training, initialised with the training run's random seed."""
    torch.manual_seed(loaded.cfg.common.seed)
    model = loaded.task.build_model(loaded.cfg.model)
    model.to(next(loaded.model.parameters()).device).eval()
    model.prepare_for_inference_(loaded.cfg)
    return loaded._replace(model=model)


def shown_trees(encoder: SentenceEncoder, kind: str) -> str:
    """Return the kind of trees that the encoder reads: none, control trees, or `kind`."""
    if not encoder.reads_trees:
        return NONE
    control = encoder.task.new_text.control
    return f"control {control.tag}" if control else kind
