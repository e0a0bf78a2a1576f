"""Read the trees of a task's sentences from a folder, or parse the sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.lab.probing.encoding import SentenceEncoder
from fairseq_posattn.lab.probing.request import ProbeRequest
from fairseq_posattn.lab.probing.task_files import Example
from fairseq_posattn.lab.probing.tasks import ProbingTask
from fairseq_posattn.text.parsing.run import parse
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.projection import match
from fairseq_posattn.trees.sentence import Sentence
from fairseq_posattn.work.cluster import Cluster

ENDS = (".conllu", ".conllu.xz", ".conllu.zst", ".conllu.gz")
NONE, PARSED, GIVEN = "none", "parsed", "given"


@dataclass(frozen=True)
class TaskTrees:
    """The trees of a task's sentences, before control trees (such as chain) replace them.

    kind: "gold", "parsed", "given" or "none".
    checksum: the checksum of the file that contains the trees.
    """

    kind: str
    sentences: list[Sentence] | None
    checksum: str = ""


@dataclass(frozen=True)
class TreeSource:
    """Provides the trees for the sentences of tasks.

    kind: the kind of the trees in --trees: "gold", "parsed", or "given" if unknown. Trees of
        sentences that a task has changed never count as gold.
    """

    request: ProbeRequest
    kind: str

    def trees(
        self, task: ProbingTask, examples: Sequence[Example], encoder: SentenceEncoder
    ) -> TaskTrees:
        """Return the trees of a task, or no trees if neither the model nor its data require them.

        Raises InputError if trees are missing or do not match the sentences.
        """
        if not encoder.needs_parses:
            return TaskTrees(NONE, None)
        path, kind = self.given(task), self.kind
        parsed = self.request.kept / "parsed"
        if path is None:
            remedy = (
                f"parse the sentences of {task.name} yourself, and give the folder with --trees"
            )
            texts = [example.text for example in examples]
            start = parsed / task.file
            path = parsed_file(encoder, texts, start, self.request.workers, remedy)
        if path.parent == parsed or (task.changes_words and kind == "gold"):
            kind = PARSED
        sentences = [encoder.normal(sentence) for sentence in read_labelled(path)]
        if len(sentences) != len(examples):
            raise InputError(
                f"{path} has {len(sentences):,} trees for {len(examples):,} sentences; parse the "
                f"file {task.file}.txt again"
            )
        for example, sentence in zip(examples, sentences, strict=True):
            text = example.text
            if encoder.pipeline is not None:
                text = encoder.pipeline.normal(text, encoder.pipeline.config.source_language)
            match(text, sentence.tokens, sentence.where)  # rejects trees of other sentences
        return TaskTrees(kind, sentences, sha256(path))

    def given(self, task: ProbingTask) -> Path | None:
        """Return the file with the trees of a task, or None if its sentences must be parsed."""
        if self.request.trees is None:
            return None
        paths = [self.request.trees / f"{task.file}{end}" for end in ENDS]
        found = next((path for path in paths if path.is_file()), None)
        if found is None and not task.changes_words:
            raise InputError(
                f"{paths[0]}: there are no trees for {task.name}; parse {task.file}.txt with "
                "posattn parse, or leave out --trees to have the sentences parsed"
            )
        return found


def parsed_file(
    encoder: SentenceEncoder, texts: Sequence[str], start: Path, workers: int, remedy: str
) -> Path:
    """Parse texts in the same way as the training data, and return the path START.conllu.xz.

    remedy: the end of the error message for training data not parsed by stanza.
    """
    pipeline = encoder.pipeline
    if pipeline is None or pipeline.config.parser.parser != "stanza":
        raise InputError(f"{encoder.data}: the training data were not parsed with stanza; {remedy}")
    text, out = start.with_name(f"{start.name}.txt"), start.with_name(f"{start.name}.conllu.xz")
    with written_whole(text) as file:
        file.writelines(f"{pipeline.source_text(line)}\n" for line in texts)
    parse(str(text), str(out), pipeline.config.parser, Cluster(workers=workers))
    return out
