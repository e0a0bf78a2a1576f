"""Convert raw parallel text to a data folder.

The steps are normalisation, tokenisation, parsing, segmentation, projection, filtering and
binarisation. Completed steps are not repeated, so a killed run can be resumed.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import same_number_of_lines
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.paths import refuse_file, refuse_separator
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.lines import LineStep
from fairseq_posattn.preparation import eflomal, segment
from fairseq_posattn.preparation.alignments import AlignmentSteps, given_alignments
from fairseq_posattn.preparation.data_folders import DataFolders, data_folders
from fairseq_posattn.preparation.job import Job, StepsByLines, set_values
from fairseq_posattn.preparation.pairs import (
    filter_lines,
    rewrite_lines,
    say_what_was_kept,
    write_sample,
)
from fairseq_posattn.preparation.project import ProjectionInputs, project_lines
from fairseq_posattn.preparation.request import PreparationRequest
from fairseq_posattn.preparation.treebanks import (
    ExtractRequest,
    extract,
    files_of,
    write_translated,
)
from fairseq_posattn.text.parsing.run import parse_step, show_notes
from fairseq_posattn.text.parsing.stanza_parser import download
from fairseq_posattn.text.pipeline import TextPipeline


class PreparationRun:
    """Runs the steps of a job that have not been completed yet."""

    def __init__(self, job: Job):
        self.job, self.steps = job, StepsByLines(job)
        self.config = job.config
        self.pipeline = TextPipeline(job.config, job.work)
        self.source, self.target = job.config.source, job.config.target
        self.folders = DataFolders(job, self.pipeline, self.steps)
        self.alignments = AlignmentSteps(job, self.steps)

    def run(self) -> None:
        """Run all steps."""
        for split, files in self.job.treebanks.splits().items():
            self.translate(split, files)
        for split, prefix in self.job.corpus.splits().items():
            self.normalize(split, prefix)
        after_parse = self.config.splits_parsers_words
        if not after_parse:  # refuse unsuitable --symbols before the slow parse
            self.learn()
        for split, prefix in self.job.corpus.splits().items():
            if self.config.parsed:
                self.parse(split, prefix)
        if after_parse:
            self.learn()
        for split in self.job.corpus.splits():
            self.segment(split)
            if self.config.has_trees:
                self.project(split)
            if self.job.is_aligned(split):
                self.alignments.run(split, self.to_segment(split))
            self.filter(split)
        self.folders.binarize()

    def translate(self, split: str, files: Sequence[str]) -> None:
        """Extract the texts and trees of a split from its treebanks."""
        by, several = self.job.treebanks, self.config.parser.several_roots
        prefix, languages = self.job.corpus.splits()[split], (self.source, self.target)
        aligned = self.job.reads_alignments(split)
        self.steps.do(
            f"treebank.{split}",
            [by.target_comment, by.align_by, several],
            files,
            files_of(prefix, languages, aligned),
            lambda: write_translated(files, by, prefix, languages, several, aligned),
        )

    def normalize(self, split: str, prefix: str) -> None:
        """Normalise both sides of a split, and tokenise each side for which Moses is selected."""
        raw = {language: f"{prefix}.{language}" for language in (self.source, self.target)}
        aligned = [given_alignments(prefix)] if self.job.reads_alignments(split) else []
        if same_number_of_lines([*raw.values(), *aligned]) == 0:
            raise InputError(
                f"{raw[self.source]}: the file is empty; use a file that contains text"
            )
        config, pipeline = self.config, self.pipeline
        sides = {
            self.source: (config.tokenize == "moses", config.source_code, pipeline.source_text),
            self.target: (config.target_by_moses, config.target_code, pipeline.target_text),
        }
        for language, (by_moses, code, text_of) in sides.items():
            choices: list[object] = [config.normalize, by_moses]
            choices += ["lowercase"] if config.lowercase and language == self.target else []
            step = LineStep(
                f"normalize.{split}.{language}",
                [raw[language]],
                [self.job.file(split, f"text.{language}")],
                partial(rewrite_lines, text_of),
                [*choices, *([code] if code else [])],
            )
            self.steps.do_lines(step)

    def parse(self, split: str, prefix: str) -> None:
        """Parse the source side of a split, and extract its words, parents and labels."""
        text, out = self.job.file(split, f"text.{self.source}"), self.job.file(split, "conllu.xz")
        settings = self.config.parser
        trees = given_trees(prefix) if settings.parser == "conllu" else None
        step = parse_step(f"parse.{split}", text, out, settings, trees)
        self.steps.do_lines(step, check=partial(show_notes, text))
        extracted = [self.job.file(split, kind) for kind in ("words", "parents", "labels")]
        start = self.job.file(split, "")[:-1]
        several = settings.several_roots
        self.steps.do(
            f"extract.{split}",
            several,
            [out],
            extracted,
            lambda: extract(
                ExtractRequest(treebanks=[out], out=start, several_roots=several, tokens=True)
            ),
        )

    def lowercase(self, split: str) -> None:
        """Lowercase the source after parsing, because parsers rely on case."""
        text, out = self.cased(split), self.job.file(split, f"lower.{self.source}")
        lower = partial(rewrite_lines, str.lower)
        self.steps.do_lines(LineStep(f"lowercase.{split}", [text], [out], lower))

    def cased(self, split: str) -> str:
        """Return the source file to segment, as it is before lowercasing."""
        kind = "words" if self.config.splits_parsers_words else f"text.{self.source}"
        return self.job.file(split, kind)

    def to_segment(self, split: str) -> tuple[str, str]:
        """Return the source and target files to segment."""
        source = self.cased(split)
        if self.config.lowercase:
            source = self.job.file(split, f"lower.{self.source}")
        return source, self.job.file(split, f"text.{self.target}")

    def learn(self) -> None:
        """Learn one segmenter (or two with --separate) from the training data."""
        for split in self.job.corpus.splits() if self.config.lowercase else ():
            self.lowercase(split)
        texts, models = self.to_segment("train"), self.job.segmenters()
        jobs = (
            zip(texts, models, strict=True) if self.job.learning.separate else [(texts, models[0])]
        )
        for given, model in jobs:
            parts = [given] if isinstance(given, str) else list(given)
            if self.job.learning.lines is not None:
                parts = [self.sample(text, self.job.learning.lines) for text in parts]
            self.steps.do(
                f"learn.{model.name}",
                [self.config.segmenter, set_values(self.job.learning)],
                parts,
                [model],
                partial(self.learn_one, parts, str(model)),
            )

    def sample(self, text: str, lines: int) -> str:
        """Write evenly spaced lines of a text to a file, and return its path."""
        out = f"{text}.sample"
        name = f"sample.{Path(text).name}"
        self.steps.do(name, lines, [text], [out], lambda: write_sample(text, out, lines))
        return out

    def learn_one(self, texts: Sequence[str], model: str) -> None:
        learning = self.job.learning
        if self.config.segmenter == "words":
            segment.learn_words(model)
        elif self.config.splits_words:
            segment.learn(texts, model, learning.symbols, learning.min_frequency)
        else:
            kind, coverage = learning.model_type, learning.character_coverage
            segment.learn_sentencepiece(texts, model, learning.symbols, kind, coverage)

    def segment(self, split: str) -> None:
        """Segment both sides of a split."""
        languages = (self.source, self.target)
        for language, text, model in zip(
            languages, self.to_segment(split), self.job.segmenters(), strict=True
        ):
            step = LineStep(
                f"segment.{split}.{language}",
                [text],
                [self.job.file(split, f"pieces.{language}")],
                partial(segment.segment_lines, self.config, str(model)),
                [self.config.segmenter, self.config.separator],
            )
            self.steps.do_lines(step, [model])

    def project(self, split: str) -> None:
        """Project the trees of a split from words to pieces."""
        words, parents, labels = self.job.file(split, f"text.{self.source}"), None, None
        if self.config.parsed:
            words, parents = self.job.file(split, "words"), self.job.file(split, "parents")
            labels = self.job.file(split, "labels")
        pieces = self.job.file(split, f"pieces.{self.source}")
        text = model = None
        if not self.config.splits_words:
            text, model = self.to_segment(split)[0], str(self.job.segmenters()[0])
        separator, control = self.config.separator, self.config.control
        inputs = ProjectionInputs(
            words,
            parents,
            pieces,
            text,
            model,
            separator,
            missing_tree="flat",
            control=control,
            labels=labels,
        )
        step = LineStep(
            self.job.step(f"project.{split}"),
            inputs.files,
            [self.job.pieces(split, f"{self.source}.trees")],
            partial(project_lines, inputs),
            [separator, asdict(control)] if control else separator,
        )
        self.steps.do_lines(step, [model] if model else [])

    def filter(self, split: str) -> None:
        """Remove training pairs that exceed the limits; all pairs of the other splits remain."""
        kinds = self.job.kinds(split)
        files = [self.job.pieces(split, kind) for kind in kinds]
        outputs = [f"{self.job.clean(split)}.{kind}" for kind in kinds]
        limits = self.job.limits if split == "train" else None
        step = LineStep(
            self.job.step(f"filter.{split}"),
            files,
            outputs,
            partial(filter_lines, limits),
            limits and set_values(limits),
        )
        self.steps.do_lines(step, check=partial(say_what_was_kept, split, files[0]))


def prepare(request: PreparationRequest) -> None:
    """Write the data folder `out`, and intermediate files to `work`."""
    request.check_options()
    if request.data.align:
        eflomal.program()  # raises an InputError if it is missing
    if request.download:
        download(request.settings)
    job = request.job()
    refuse_separator("--out", job.out, ":")
    refuse_separator("--work", job.work, ",")
    refuse_file(job.out)
    with locked(job.work):
        PreparationRun(job).run()
    folders = ":".join(map(str, data_folders(job)))
    say(f"{folders}: the data are ready for --task structured_translation")


def given_trees(prefix: str) -> str:
    for suffix in (".conllu", ".conllu.xz", ".conllu.zst", ".conllu.gz"):
        if Path(prefix + suffix).exists():
            return prefix + suffix
    raise InputError(
        f"{prefix}.conllu: the file is missing, but --parser conllu reads trees from it; create "
        "it, or parse with --parser stanza"
    )
