"""Find the trees of the sentences of a task: in a folder, or by the parser of the data."""

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
    """These are the trees of the sentences of a task.

    kind: gold, parsed, given or none; a control, such as chain, replaces them afterwards.
    checksum: the checksum of the file with the trees.
    """

    kind: str
    sentences: list[Sentence] | None
    checksum: str = ""


@dataclass(frozen=True)
class TreeSource:
    """This says where the trees of the tasks come from.

    kind: what those in the folder --trees are: gold, parsed, or given if nothing more is known.
        Those of changed sentences are never gold.
    """

    request: ProbeRequest
    kind: str

    def trees(
        self, task: ProbingTask, examples: Sequence[Example], encoder: SentenceEncoder
    ) -> TaskTrees:
        """Return the trees of a task, if the model or its data need any."""
        if not encoder.needs_parses:
            return TaskTrees(NONE, None)
        path, kind = self.given(task), self.kind
        parsed = self.request.kept / "parsed"
        if path is None:
            remedy = f"{task.name} needs trees made elsewhere; name their folder with --trees"
            texts = [example.text for example in examples]
            start = parsed / task.file
            path = parsed_file(encoder, texts, start, self.request.workers, remedy)
        if path.parent == parsed or (task.changes_words and kind == "gold"):
            kind = PARSED
        sentences = [encoder.normal(sentence) for sentence in read_labelled(path)]
        if len(sentences) != len(examples):
            raise InputError(
                f"{path}: there are {len(sentences):,} trees for {len(examples):,} sentences; "
                "parse the file of the task again"
            )
        for example, sentence in zip(examples, sentences, strict=True):
            text = example.text
            if encoder.pipeline is not None:
                text = encoder.pipeline.normal(text, encoder.pipeline.config.source_language)
            match(text, sentence.tokens, sentence.where)  # it refuses trees of other sentences
        return TaskTrees(kind, sentences, sha256(path))

    def given(self, task: ProbingTask) -> Path | None:
        """Return the file with the given trees of a task; None says that they are parsed."""
        if self.request.trees is None:
            return None
        paths = [self.request.trees / f"{task.file}{end}" for end in ENDS]
        found = next((path for path in paths if path.is_file()), None)
        if found is None and not task.changes_words:
            raise InputError(
                f"{paths[0]}: there are no trees for {task.name}; parse {task.file}.txt with "
                "posattn parse, or leave out --trees, and the sentences are parsed"
            )
        return found


def parsed_file(
    encoder: SentenceEncoder, texts: Sequence[str], start: Path, workers: int, remedy: str
) -> Path:
    """Parse texts as the training data were, and return the file START.conllu.xz.

    remedy: says what can be done if the data have no parser.
    """
    pipeline = encoder.pipeline
    if pipeline is None or pipeline.config.parser.parser != "stanza":
        raise InputError(f"{encoder.data}: the data were not parsed with stanza; {remedy}")
    text, out = start.with_name(f"{start.name}.txt"), start.with_name(f"{start.name}.conllu.xz")
    with written_whole(text) as file:
        file.writelines(f"{pipeline.source_text(line)}\n" for line in texts)
    parse(str(text), str(out), pipeline.config.parser, Cluster(workers=workers))
    return out
