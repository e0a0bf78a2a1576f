"""Parse with stanza (Qi et al. 2020); each line gets one tree, even if stanza splits the line."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.cluster import PARSER_THREADS
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.parsers import ParserFailure
from fairseq_posattn.trees.projection import match
from fairseq_posattn.trees.sentence import Sentence, Tags, join_parts

PROCESSORS = "tokenize,pos,lemma,depparse"  # stanza adds mwt if the language needs it
AFTER_TOKENIZATION = "pos,lemma,depparse"
# Batch sizes, in sentences for the tagger and in words for the parser. Larger batches are slower
# and need gigabytes of memory.
BATCHES = {"pos_batch_size": 100, "depparse_batch_size": 3000}


class StanzaParser:
    """A parser that tokenises lines with stanza or, with `settings.tokenized`, at spaces."""

    def __init__(self, settings: ParserSettings):
        self.settings = settings
        self.pipeline = load_pipeline(settings)

    def parse(self, lines: Sequence[str]) -> list[Sentence]:
        return self.parse_words(self.tokenize(lines))

    def parse_words(self, lines_of_words: Sequence[Sentence]) -> list[Sentence]:
        """Return the trees of tokenised lines."""
        parts = [self.parts(words) for words in lines_of_words]
        trees = iter(self.trees([part for of_line in parts for part in of_line]))
        return [
            self.tree_of_line(words, list(islice(trees, len(of_line))))
            for words, of_line in zip(lines_of_words, parts, strict=True)
        ]

    def words(self, line: str) -> Sentence:
        try:
            return self.tokenize([line])[0]
        except Exception:  # if the tokeniser fails, split at spaces
            return at_spaces(line)

    def tokenize(self, lines: Sequence[str]) -> list[Sentence]:
        """Return the words of each line as a sentence without a tree."""
        if self.settings.tokenized:
            return [at_spaces(line) for line in lines]
        from stanza.models.common.doc import Document

        texts = [Document([], text=line) for line in lines if line.strip()]
        documents = iter(self.pipeline.process(texts, processors="tokenize,mwt"))
        return [one_line(line, next(documents)) if line.strip() else Sentence([]) for line in lines]

    def parts(self, line: Sentence) -> list[Sentence]:
        """Return the line, the parts of a long line, or no sentence if the line is not parsed."""
        if len(line.words) <= self.settings.max_words:
            return [line] if line.words else []
        if self.settings.long_lines == "skip":
            return []
        return list(cut(line, self.settings.max_words))

    def trees(self, parts: Sequence[Sentence]) -> list[Sentence]:
        """Parse lines, or parts of lines, as one stanza document."""
        if not parts:
            return []
        from stanza.models.common.doc import Document

        document = Document([as_stanza(part) for part in parts])
        self.pipeline.process(document, processors=AFTER_TOKENIZATION)
        if len(document.sentences) != len(parts):
            raise ParserFailure(
                f"stanza returned {len(document.sentences)} trees for {len(parts)} sentences"
            )
        return [
            with_tree(part, sentence)
            for part, sentence in zip(parts, document.sentences, strict=True)
        ]

    def tree_of_line(self, line: Sentence, parts: Sequence[Sentence]) -> Sentence:
        """Join the parses of a line's parts; if there are none, return it without a tree."""
        long = f"the line has {len(line.words)} words, more than --max-words"
        if not parts and line.words:
            return line.without_tree(f"{long}, so it was skipped and has no tree")
        note = f"{long}, so it was parsed in {len(parts)} parts"
        return join_parts(parts, note if len(parts) > 1 else None)


def at_spaces(line: str) -> Sentence:
    """Split a line at spaces and tabs only; other whitespace remains part of a word."""
    return Sentence([word for word in line.replace("\t", " ").split(" ") if word])


def one_line(line: str, document) -> Sentence:
    """Return all words of a line as one sentence, even if stanza split the line."""
    parsed = Sentence([])
    for token in (token for sentence in document.sentences for token in sentence.tokens):
        form = line[token.start_char : token.end_char]  # stanza's own text may be <UNK>
        if len(token.words) > 1:
            parsed.multiword.append((len(parsed.words), len(token.words), form))
            parsed.words += [word.text for word in token.words]
        else:
            parsed.words.append(form)
    if not parsed.words:
        return at_spaces(line)
    match(line, parsed.tokens, "stanza's tokeniser")
    return parsed


def cut(line: Sentence, longest: int) -> Iterator[Sentence]:
    """Split a line between tokens into parts of at most `longest` words."""
    part = Sentence([])
    k = 0
    for form, count in line.counted_tokens():
        if part.words and len(part.words) + count > longest:
            yield part
            part = Sentence([])
        if count > 1:
            part.multiword.append((len(part.words), count, form))
        part.words += line.words[k : k + count]
        k += count
    yield part


def as_stanza(line: Sentence) -> list[dict]:
    tokens = {first: (count, form) for first, count, form in line.multiword}
    rows = []
    for k, word in enumerate(line.words):
        if k in tokens:
            count, form = tokens[k]
            rows.append({"id": (k + 1, k + count), "text": form})
        rows.append({"id": (k + 1,), "text": word})
    return rows


def with_tree(line: Sentence, sentence) -> Sentence:
    """Return the words of a line with the tree and the tags that stanza found."""
    if len(sentence.words) != len(line.words):
        raise ParserFailure(
            f"stanza returned a tree of {len(sentence.words)} words for {len(line.words)} words"
        )
    found = sentence.words
    parents = [int(word.head) for word in found]
    relations = [word.deprel for word in found]
    tags = [
        Tags(*(value or "_" for value in (word.lemma, word.upos, word.xpos, word.feats)))
        for word in found
    ]
    return join_parts([Sentence(line.words, parents, line.multiword, relations, tags)])


def load_pipeline(settings: ParserSettings):
    """Load stanza's models, on a GPU if there is one."""
    stanza = import_stanza()
    import torch

    gpu = torch.cuda.is_available()
    if not gpu:
        # the workers of a machine share its cores, so several threads per worker are much slower
        torch.set_num_threads(int(os.environ.get(PARSER_THREADS, "1")))
    options = (
        {"tokenize_pretokenized": True} if settings.tokenized else {"tokenize_no_ssplit": True}
    )
    folder = {"dir": settings.model_dir} if settings.model_dir else {}
    with stanza_messages() as messages:
        try:
            return stanza.Pipeline(
                settings.lang,
                processors=PROCESSORS,
                package=settings.package,
                download_method=None,
                use_gpu=gpu,
                logging_level="ERROR",
                **BATCHES,
                **options,
                **folder,
            )
        except Exception as error:  # missing or damaged files raise various types
            raise InputError(missing_model(settings, error, messages)) from error


@contextlib.contextmanager
def stanza_messages() -> Iterator[list[str]]:
    """Collect the messages that stanza logs, without printing them.

    Only these messages state which file is damaged.
    """
    logger, messages = logging.getLogger("stanza"), []
    handlers, logger.handlers = logger.handlers, [logging.Handler()]
    keep = logger.handlers[0]
    # this handler belongs to no other logger, so changing its method is safe
    keep.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    try:
        yield messages
    finally:
        logger.handlers = handlers


def missing_model(settings: ParserSettings, error: Exception, messages: Sequence[str]) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    reason = ": ".join([*messages[-1:], reason])
    models = Path(model_folder(settings), settings.lang)
    if models.is_dir() and not settings.tokenized and not (models / "tokenize").exists():
        return (
            f"{models}: stanza's models for '{settings.lang}' have no tokeniser; tokenise the text "
            "with --tokenize moses or spaces (in posattn parse: --tokenized)"
        )
    return (
        f"no stanza model for '{settings.lang}' (package {settings.package}) can be loaded from "
        f"{model_folder(settings)} ({reason}); download it with --download, or pass its folder "
        "with --model-dir (in translation: --parser-dir)"
    )


def model_folder(settings: ParserSettings) -> str:
    if settings.model_dir:
        return settings.model_dir
    from stanza.resources.common import DEFAULT_MODEL_DIR

    return os.environ.get("STANZA_RESOURCES_DIR") or str(DEFAULT_MODEL_DIR)


def download(settings: ParserSettings) -> None:
    stanza = import_stanza()
    folder = {"model_dir": settings.model_dir} if settings.model_dir else {}
    try:
        stanza.download(
            settings.lang, package=settings.package, processors=PROCESSORS, verbose=False, **folder
        )
    except Exception as error:  # stanza passes on exceptions of requests, json and others
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the stanza model for '{settings.lang}' cannot be downloaded ({reason}); check the "
            "network and --lang, or download it elsewhere and pass its folder with --model-dir"
        ) from error


def import_stanza():
    """Import stanza; if it is missing, raise an InputError with installation instructions."""
    try:
        import stanza
    except ImportError:
        raise InputError(
            "stanza is not installed; run pip install 'fairseq_posattn[parse]' "
            "(in a checkout: pip install -c constraints.txt '.[parse]')"
        ) from None
    return stanza
