"""Translate raw text with an exported model, without torch or fairseq.

The folder of an exported model contains the CTranslate2 model, prepare.json, the segmentation model
and exported.json, which records checksums and the result of verifying the export.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json, sha256
from fairseq_posattn.files.records import as_document, as_record, at_least, one_of, option
from fairseq_posattn.files.requests import new_folder
from fairseq_posattn.text import pipeline
from fairseq_posattn.text.live.segmented import PipelineCodec
from fairseq_posattn.text.pipeline import TextPipeline

ABOUT = "exported.json"
REMEDY = "export the model again"
QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")
PADDING = "the padding"  # a name that no piece can have, because it contains spaces
LONGEST = 200  # maximum number of tokens in a translation, as in fairseq-generate


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The options of `posattn export`."""

    command: ClassVar = "posattn export"
    to: str = option("target format", limit=one_of("ctranslate2"), metavar="TO")
    path: Path = option("checkpoint to export", metavar="MODEL")
    out: Path = option("write the export to this new folder", required=True, type=new_folder)
    data: str | None = option(
        "data folder of the model (default: the path stored in the checkpoint)", None
    )
    quantization: str | None = option(
        "data type in which weights are stored (default: float32)", None, one_of(*QUANTIZATIONS)
    )
    gen_subset: str = option(
        "verify the export on this subset of the data (default: %(default)s)", "test"
    )
    sentences: int = option(
        "number of sentences to verify the export on (default: %(default)s)", 200, at_least(1)
    )
    user_dir: str | None = option("import user-defined classes of the model from this folder", None)


@dataclass(frozen=True)
class About:
    """The content of exported.json.

    longest, longest_target: maximum length of source and translation, including `</s>`.
    files: the SHA-256 of every other file in the folder.
    sentences: the number of sentences on which the export was verified.
    difference: the largest difference between the models' log-probabilities of a token.
    same: the number of sentences that fairseq and CTranslate2 translate identically.
    checksum: the SHA-256 of all other fields.
    """

    code: str
    quantization: str
    longest: int
    longest_target: int
    files: dict[str, str]
    sentences: int
    difference: float
    same: int
    checksum: str = ""

    def own_checksum(self) -> str:
        """Return the expected value of `checksum`."""
        document = as_document(replace(self, checksum=""))
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


class Candidate(NamedTuple):
    """A translation and its log-probability, divided by length ** lenpen."""

    text: str
    score: float


class Translator:
    """Translates lines of raw text with a model exported by `posattn export`.

        Translator("exported").translate(["She saw him."], beam=5)

    folder: the folder of the exported model.
    threads: the number of CPU threads per batch; if 0, CTranslate2 chooses the number.
    """

    def __init__(self, folder: str | Path, threads: int = 0):
        self.folder = Path(folder)
        ctranslate2 = import_ctranslate2()
        self.about = checked_about(self.folder)
        self.codec = PipelineCodec(pipeline_of(self.folder, self.about))
        files = {name: (self.folder / name).read_bytes() for name in self.about.files}
        try:
            self.model = ctranslate2.Translator(
                str(self.folder),
                device="cpu",
                intra_threads=min(threads, os.cpu_count() or 1),
                files=files,  # otherwise, CTranslate2 would also read unchecked files
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{self.folder}: {message_of(error)}; {REMEDY}") from error

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """Return the best translation of each line; `options` are passed to `candidates`."""
        return [of_line[0].text for of_line in self.candidates(lines, **options)]

    def candidates(
        self,
        lines: Sequence[str],
        beam: int = 5,
        lenpen: float = 1.0,
        alternatives: int = 1,
        first: int = 1,
    ) -> list[list[Candidate]]:
        """Return the best translations of each line in order of decreasing score.

        lenpen: the length penalty.
        alternatives: the number of translations per line, at most `beam`.
        first: the number of the first line, which is used in error messages.
        """
        if alternatives > beam:
            raise InputError(
                f"a beam of {beam} cannot yield {alternatives} alternatives; increase --beam"
            )
        pieces = [self.codec.encode(line).split() for line in lines]
        for number, of_line in enumerate(pieces, start=first):
            if len(of_line) >= self.about.longest:
                raise InputError(
                    f"line {number} has {len(of_line):,} pieces, but the model accepts at most "
                    f"{self.about.longest - 1:,}; split the line"
                )
        try:
            found = self.model.translate_batch(
                pieces,
                beam_size=beam,
                num_hypotheses=alternatives,
                length_penalty=lenpen,
                return_scores=True,
                **search_options(self.about.longest_target),
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"CTranslate2 cannot translate with --beam {beam} and --lenpen {lenpen} "
                f"({message_of(error)}); use smaller values"
            ) from error
        if not all(isfinite(score) for one in found for score in one.scores):
            raise InputError(
                f"scores are not finite with --lenpen {lenpen}; choose another --lenpen"
            )
        return [
            [
                Candidate(self.codec.decode(" ".join(tokens)), score)
                for tokens, score in zip(one.hypotheses, one.scores, strict=True)
            ]
            for one in found
        ]


def search_options(positions: int) -> dict[str, Any]:
    """Return the options with which CTranslate2's beam search is equivalent to fairseq's.

    positions: the decoder's maximum length, including the start symbol.
    """
    return {
        "max_decoding_length": min(LONGEST, positions - 1),
        "max_input_length": 0,  # otherwise CTranslate2 truncates sources to 1,024 pieces
        "suppress_sequences": [[PADDING]],
    }


def checked_about(folder: Path) -> About:
    """Read exported.json; raise an InputError if a file is missing or was changed."""
    path = folder / ABOUT
    if not path.exists():
        raise InputError(
            f"{folder} contains no {ABOUT}; give the path of a folder that posattn export has "
            "written"
        )
    document = read_json(path, REMEDY)
    if "checksum" not in document:
        raise InputError(
            f"{path} contains no checksums, because an earlier version exported it; {REMEDY}"
        )
    about = as_record(About, document, str(path), REMEDY)
    if about.checksum != about.own_checksum():
        raise InputError(f"{path} was changed after the export; {REMEDY}")
    for name, checksum in about.files.items():
        if not (folder / name).is_file():
            raise InputError(f"{folder / name} is missing; {REMEDY}")
        if sha256(folder / name) != checksum:
            raise InputError(f"{folder / name} was changed after the export; {REMEDY}")
    return about


def pipeline_of(folder: Path, about: About) -> TextPipeline:
    """Return the text pipeline of an exported model.

    Raise an InputError if the export has no pipeline, or if it needs stanza as the tokeniser.
    """
    if pipeline.FILE not in about.files:
        raise InputError(
            f"{folder} contains no {pipeline.FILE}, which describes how to segment text; {REMEDY}, "
            "with data that posattn prepare has written"
        )
    found = TextPipeline.load(folder)
    if found.config.splits_parsers_words:
        raise InputError(
            f"{folder}: stanza tokenised the training data, and stanza needs torch; prepare the "
            "data with --tokenize moses or spaces, or with sentencepiece, and train again"
        )
    return found


def copy_pipeline(data: Path, folder: Path) -> None:
    """Copy prepare.json and the segmentation model to which it refers."""
    text = TextPipeline.load(data)
    text.segmenter  # noqa: B018  # verifies its checksum
    shutil.copy(data / text.config.segmenter_file, folder)
    shutil.copy(data / pipeline.FILE, folder)


def import_ctranslate2() -> ModuleType:
    try:
        import ctranslate2
    except ImportError:
        raise InputError(
            "CTranslate2 is not installed; run pip install 'fairseq_posattn[ctranslate2]'"
        ) from None
    return ctranslate2


def message_of(error: Exception) -> str:
    """Return the message of an error as a single line."""
    return " ".join(str(error).split())
