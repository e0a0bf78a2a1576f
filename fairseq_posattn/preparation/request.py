"""The options of posattn prepare, which describe a preparation."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import ABSENT, at_least, one_of, option
from fairseq_posattn.files.requests import UsageError, new_folder, options_of
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.preparation.corpus import Corpus, Treebanks
from fairseq_posattn.preparation.job import DataOptions, Job, Learning, Limits, suited_segmenter
from fairseq_posattn.text.languages import language
from fairseq_posattn.text.parsing.options import DOWNLOAD, PARSERS, SHARD_LINES, ParserSettings
from fairseq_posattn.text.pipeline import SEGMENTERS, TARGET_TOKENIZERS, TOKENIZERS, TextConfig
from fairseq_posattn.trees.control import TreeControl

TEXT, PARSER, PIECES = "text", "parser", "pieces"  # headings of the options


@dataclass(frozen=True)
class SourceParser(ParserSettings):
    """The settings of the parser; None is replaced by a value that depends on other options."""

    parser: str = option(
        "parse the source with stanza (default) or a parser of posattn train-parser --kind local "
        "(local), read each line's tree from PREFIX.conllu, which may end in .gz, .xz or .zst "
        "(conllu), or make data without trees (none); with --treebank, use the treebank's own "
        "trees by default",
        None,
        one_of(*PARSERS),
    )
    lang: str = option("set the language code of the parser's models (default: SOURCE)", None)
    tokenized: bool = False
    no_tags: bool = ABSENT


@dataclass(frozen=True, kw_only=True)
class PreparationRequest:
    """The options of posattn prepare."""

    command: ClassVar = "posattn prepare"
    source: str = option("source language and suffix of its files, such as en", required=True)
    target: str = option("target language and suffix of its files, such as de", required=True)
    corpus: Corpus = options_of(Corpus)
    treebanks: Treebanks = options_of(Treebanks)
    out: Path = option("write the data to this folder", required=True, type=new_folder)
    work: Path | None = option(
        "folder for intermediate files (default: OUT.work)", None, type=new_folder
    )
    no_normalize: bool = option("do not normalise punctuation", False, group=TEXT)
    lowercase: bool = option("lowercase source and target (the source after parsing)", False)
    tokenize: str | None = option(
        "tokenise the source with stanza (default) or Moses, or split it at spaces (default with "
        "--treebank)",
        None,
        one_of(*TOKENIZERS),
    )
    target_tokenize: str = option(
        "with subword-nmt: tokenise the target with Moses, or split it at spaces (default: "
        "%(default)s)",
        "moses",
        one_of(*TARGET_TOKENIZERS),
    )
    parser: SourceParser = options_of(SourceParser, PARSER)
    download: bool = option(DOWNLOAD, False)
    shard_lines: int = option(SHARD_LINES, 2000, at_least(1))
    cluster: Cluster = options_of(Cluster, "parallel processing")
    control: TreeControl = options_of(TreeControl, "control trees")
    segmenter: str | None = option(
        "segment text with this program; words: no segmentation (default: sentencepiece if a "
        "language is written without spaces, such as Chinese or Thai, else subword-nmt)",
        None,
        one_of(*SEGMENTERS),
        group=PIECES,
    )
    learning: Learning = options_of(Learning, PIECES)
    data: DataOptions = options_of(DataOptions, PIECES)
    limits: Limits = options_of(Limits, "training pairs")

    def check_options(self) -> None:
        """Raise an InputError if options are missing or contradict each other."""
        if not self.corpus.train and not self.treebanks.treebank:
            raise UsageError("one of the following arguments is required: --train, --treebank")
        if self.treebanks.treebank:
            self.refuse_beside_treebanks()
        if self.tokenizer == "stanza" and self.settings.parser != "stanza":
            raise InputError(
                "--tokenize stanza (the default) requires --parser stanza; choose spaces or moses"
            )
        if self.data.alignments and self.data.align:
            raise InputError(
                "--alignments reads alignments, but --align computes them; omit one option"
            )

    def refuse_beside_treebanks(self) -> None:
        """Raise an InputError for options that cannot be combined with --treebank."""
        named = {
            "--train": self.corpus.train,
            "--valid": self.corpus.valid,
            "--test": self.corpus.test,
            f"--tokenize {self.tokenize}": self.tokenizer != "spaces",
        }
        if wrong := next((name for name, given in named.items() if given), None):
            raise InputError(
                f"{wrong} contradicts --treebank, which provides texts and words; omit one of them"
            )

    @property
    def tokenizer(self) -> str:
        return self.tokenize or ("spaces" if self.treebanks.treebank else "stanza")

    @property
    def settings(self) -> ParserSettings:
        """The settings of the parser.

        With --treebank, words are read from the treebank, and so are trees unless --parser is
        given.
        """
        by_default = "conllu" if self.treebanks.treebank else "stanza"
        models = self.parser.model_dir
        chosen = replace(
            self.parser,
            parser=self.parser.parser or by_default,
            lang=self.parser.lang or language(self.source).stanza,
            model_dir=models and str(Path(models).absolute()),
            tokenized=self.tokenizer != "stanza",
        )
        return ParserSettings(**vars(chosen))

    @property
    def config(self) -> TextConfig:
        """The settings for segmenting text; this may read the training text."""
        treebanks = self.treebanks.treebank
        train = None if treebanks else self.corpus.train
        return TextConfig(
            self.source,
            self.target,
            normalize=not (self.no_normalize or treebanks),
            tokenize=self.tokenizer,
            target_tokenize=self.target_tokenize,
            segmenter=self.segmenter or suited_segmenter(self.source, self.target, train, self.out),
            parser=self.settings,
            control=self.control,
            lowercase=self.lowercase,
            source_code=other_code(self.source),
            target_code=other_code(self.target),
        )

    def job(self) -> Job:
        """Return the preparation that these options describe."""
        work = self.work or Path(f"{self.out}.work")
        return Job(
            corpus=self.treebanks.corpus(work) if self.treebanks.treebank else self.corpus,
            treebanks=self.treebanks,
            out=self.out,
            work=work,
            config=self.config,
            learning=self.learning,
            limits=self.limits,
            cluster=self.cluster,
            shard_lines=self.shard_lines,
            **vars(self.data),
        )


def other_code(name: str) -> str:
    """Return the language code for a name such as `deu`, or ABSENT if the name is the code."""
    code = language(name).code
    return ABSENT if code == name else code
