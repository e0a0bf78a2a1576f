"""Translate with an exported model: raw text goes in and out, without torch and fairseq.

The folder has the model as CTranslate2 reads it, prepare.json with what it names, by which text
becomes pieces, and exported.json, which says how the model was proved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import new_folder, option, positive
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.records import as_document, as_record
from fairseq_posattn.text import pipeline
from fairseq_posattn.text.live.segmented import PipelineCodec
from fairseq_posattn.text.pipeline import TextPipeline

ABOUT = "exported.json"
REMEDY = "export the model again"
QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")
PADDING = "the padding"  # CTranslate2 looks words up by name, and no piece contains a space
LONGEST = 200  # pieces of a translation, as in fairseq-generate


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """This says what is exported, where, and by what it is proved."""

    to: str = option("the program that will translate", choices=("ctranslate2",), metavar="TO")
    path: Path = option("the checkpoint of the model", metavar="MODEL")
    out: Path = option("write this new folder", required=True, type=new_folder)
    data: str | None = option(
        "the binarised data of the model (default: where the training had them)", None
    )
    quantization: str | None = option(
        "store the weights so (default: float32)", None, choices=QUANTIZATIONS
    )
    gen_subset: str = option(
        "prove it by sentences of this subset of the data (default: %(default)s)", "test"
    )
    sentences: int = option(
        "prove it by so many sentences (default: %(default)s)", 200, type=positive
    )
    user_dir: str | None = option("import classes of your own that the model has", None)


@dataclass(frozen=True)
class About:
    """This is stored in exported.json.

    longest: the most pieces of a source, with the end of the sentence.
    longest_target: the most pieces of a translation, with the end of the sentence.
    files: the SHA-256 of each other file.
    sentences, difference: by so many sentences the model was proved, and the largest difference of
        the log-probability of a piece.
    same: how many translations were the same.
    checksum: the SHA-256 of all this.
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
        """Return what `checksum` must be."""
        document = as_document(replace(self, checksum=""))
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


class Candidate(NamedTuple):
    """A candidate is a translation and the mean log-probability of its pieces."""

    text: str
    score: float


class Translator:
    """A translator turns lines of text into lines of text.

    folder: what posattn export has written.
    threads: for each batch; 0 means as many as CTranslate2 thinks best.
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
                files=files,  # CTranslate2 would read further files from the folder
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{self.folder}: {told(error)}; {REMEDY}") from error

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """Return the best translation of each line; the options are those of `candidates`."""
        return [of_line[0].text for of_line in self.candidates(lines, **options)]

    def candidates(
        self,
        lines: Sequence[str],
        beam: int = 5,
        lenpen: float = 1.0,
        alternatives: int = 1,
        first: int = 1,
    ) -> list[list[Candidate]]:
        """Return several translations of each line, the best first.

        first: the number of the first line in messages.
        """
        if alternatives > beam:
            raise InputError(
                f"a beam of {beam} has no {alternatives} alternatives; take a wider --beam"
            )
        pieces = [self.codec.encode(line).split() for line in lines]
        for number, of_line in enumerate(pieces, start=first):
            if len(of_line) >= self.about.longest:
                raise InputError(
                    f"line {number}: it has {len(of_line):,} pieces, but the model takes "
                    f"{self.about.longest - 1:,}; split it"
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
                f"({told(error)}); choose smaller numbers"
            ) from error
        if not all(isfinite(score) for one in found for score in one.scores):
            raise InputError(
                f"the scores are not finite numbers; choose another --lenpen than {lenpen}"
            )
        return [
            [
                Candidate(self.codec.decode(" ".join(tokens)), score)
                for tokens, score in zip(one.hypotheses, one.scores, strict=True)
            ]
            for one in found
        ]


def search_options(positions: int) -> dict[str, Any]:
    """Return the options by which CTranslate2 searches as fairseq does.

    positions: how many the decoder has; one is for the symbol that begins a translation.
    """
    return {
        "max_decoding_length": min(LONGEST, positions - 1),
        "max_input_length": 0,  # else CTranslate2 reads 1,024 pieces and no more
        "suppress_sequences": [[PADDING]],
    }


def checked_about(folder: Path) -> About:
    """Return what exported.json contains, if all files are those that were exported."""
    path = folder / ABOUT
    if not path.exists():
        raise InputError(f"{folder}: there is no {ABOUT}; name a folder of posattn export")
    document = read_json(path, REMEDY)
    if "checksum" not in document:
        raise InputError(
            f"{path}: there are no checksums, because version 0.3.0 or an earlier one exported "
            f"this folder; {REMEDY}"
        )
    about = as_record(About, document, str(path), REMEDY)
    if about.checksum != about.own_checksum():
        raise InputError(f"{path}: the file was changed after the export; {REMEDY}")
    for name, checksum in about.files.items():
        if not (folder / name).is_file():
            raise InputError(f"{folder / name}: the file is missing; {REMEDY}")
        if sha256(folder / name) != checksum:
            raise InputError(f"{folder / name}: the file was changed after the export; {REMEDY}")
    return about


def pipeline_of(folder: Path, about: About) -> TextPipeline:
    """Return how the text of a folder becomes pieces."""
    if pipeline.FILE not in about.files:
        raise InputError(
            f"{folder}: there is no {pipeline.FILE}, so nobody knows how text becomes pieces; "
            f"{REMEDY}, from data that posattn prepare has made"
        )
    found = TextPipeline.load(folder)
    if found.config.splits_parsers_words:
        raise InputError(
            f"{folder}: the words are those of stanza, which needs torch; train on data of "
            "posattn prepare --tokenize moses or spaces, or by sentencepiece"
        )
    return found


def copy_pipeline(data: Path, folder: Path) -> None:
    """Copy prepare.json and what it names."""
    text = TextPipeline.load(data)
    text.segmenter  # noqa: B018  # this checks its checksum
    shutil.copy(data / text.config.segmenter_file, folder)
    shutil.copy(data / pipeline.FILE, folder)


def import_ctranslate2() -> ModuleType:
    try:
        import ctranslate2
    except ImportError:
        raise InputError(
            "CTranslate2 is not installed: pip install 'fairseq_posattn[ctranslate2]'"
        ) from None
    return ctranslate2


def told(error: Exception) -> str:
    """Return what an error says in one line."""
    return " ".join(str(error).split())
