"""New text on its way to the model: pieces at once, trees when a batch is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairseq_posattn.parsing.parsed import ParsedLine
from fairseq_posattn.preparation.choices import Preparation
from fairseq_posattn.providers import (
    PROVIDERS,
    StanzaProvider,
    TreeProvider,
    build_provider,
    parser_settings,
)
from fairseq_posattn.segmenters import SPACE
from fairseq_posattn.trees import (
    Parsed,
    TreeError,
    batch,
    flat_tree,
    plain_form,
    words_of_pieces,
)
from fairseq_posattn.trees.alignment import Span, spans
from fairseq_posattn.trees.checks import checked_tree
from fairseq_posattn.trees.projection import project_line, without_separators


class Line(NamedTuple):
    """A line as it was segmented: the text, its pieces, where they lie in it; the words that are to
    be parsed, where they are not just those of the text."""

    text: str
    pieces: str
    spans: Sequence[Span]
    words: ParsedLine | None = None

    @property
    def tokens(self) -> list[str]:
        if self.words is None:
            return self.text.split()
        return [plain_form(token) for token in self.words.tokens]


def spelled(pieces: str, separator: str) -> Line:
    """The line that pieces spell: of sentencepiece, whose pieces begin a word with U+2581, or of
    subword-nmt, whose separator ends a piece that its word goes on after."""
    split = pieces.split()
    if separator == SPACE:
        text = "".join(split).replace(SPACE, " ").strip(" ")
        return Line(text, pieces, spans([piece.replace(SPACE, " ") for piece in split]))
    words, _ = words_of_pieces(split, separator)
    return Line(" ".join(words), pieces, spans(without_separators(split, separator)))


class Segmented:
    """How lines become pieces: as the data were prepared, or as fairseq's options say."""

    def __init__(self, preparation: Preparation | None, separator: str):
        self.preparation = preparation
        self.separator = separator

    def lines(
        self, raw: Sequence[str], encode: Callable[[str], str], tokenizer: TreeProvider | None
    ) -> list[Line]:
        if self.preparation is None:
            found = [spelled(encode(line), self.separator) for line in raw]
            words = tokenizer.words([line.text for line in found]) if tokenizer else None
        else:
            texts = [self.preparation.source_text(line) for line in raw]
            words = tokenizer.words(texts) if tokenizer else None
            found = [self.prepared(text, words and words[k]) for k, text in enumerate(texts)]
        if words is None:
            return found
        return [line._replace(words=of_line) for line, of_line in zip(found, words, strict=True)]

    def prepared(self, text: str, words: ParsedLine | None) -> Line:
        if words is not None:
            text = self.preparation.segmented(text, words)
        segmenter = self.preparation.segmenter
        return Line(text, " ".join(segmenter.segment(text)), segmenter.spans(text))


class NewTrees:
    """The trees of new lines; `find` gives those of some of them, when a batch asks for them."""

    def __init__(self, lines: Sequence[Line], find: Callable[[list[int]], list[Parsed]]):
        self.lines = lines
        self.find = find
        self.found: dict[int, Parsed] = {}
        self.first = 0  # number of the first line among all new ones

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked = sentences.tolist()
        self.found.update(zip(asked, self.find(asked), strict=True))
        return batch.pack([projected(self.lines[k], self.found[k]) for k in asked])


def projected(line: Line, parsed: Parsed) -> tuple[Sequence[int], Sequence[int]]:
    """The parents of the words, and the number of pieces of each."""
    return parsed.parents, project_line(parsed, line.text, line.spans, f"'{line.text}'")


class NewText:
    """Finds the trees of new lines, by the task's options `cfg`."""

    def __init__(self, cfg, preparation: Preparation | None):
        self.cfg = cfg
        self.segmented = Segmented(preparation, cfg.piece_separator)
        self.preparation = preparation

    @cached_property
    def provider(self) -> TreeProvider:
        return build_provider(self.cfg, self.preparation)

    @cached_property
    def stanza(self) -> StanzaProvider:
        """The provider, or what tokenises for another one as the training data were."""
        if isinstance(self.provider, StanzaProvider):
            return self.provider
        return StanzaProvider(parser_settings(self.cfg, self.preparation))

    def lines(self, raw: Sequence[str], encode: Callable[[str], str], trees: bool) -> list[Line]:
        """trees: whether they will be asked for."""
        return self.segmented.lines(raw, encode, self.tokenizer(trees))

    def tokenizer(self, trees: bool) -> TreeProvider | None:
        """What knows the words of the lines, if they are needed."""
        if self.preparation and self.preparation.choices.splits_parsers_words:
            return self.stanza
        return self.provider if trees else None

    def trees(self, lines: list[Line], given: Sequence | None = None) -> NewTrees:
        """The trees of the lines, found now, or when a batch asks for them."""
        if given is not None:
            return self.at_once(lines, self.check_given(lines, given))
        if not self.provider.lazy:
            return self.at_once(lines, self.provider.parsed([line.text for line in lines]))
        return NewTrees(lines, lambda asked: self.parse([lines[k] for k in asked]))

    def at_once(self, lines: list[Line], parsed: Sequence[Parsed | None]) -> NewTrees:
        found = [self.or_flat(*pair) for pair in zip(lines, parsed, strict=True)]
        return NewTrees(lines, lambda asked: [found[k] for k in asked])

    def parse(self, lines: list[Line]) -> list[Parsed]:
        parsed = self.provider.parsed([line.words for line in lines])
        return [self.or_flat(*pair) for pair in zip(lines, parsed, strict=True)]

    def parse_spelled(self, lines: list[Line]) -> list[Parsed]:
        words = self.provider.words([line.text for line in lines])
        return self.parse([line._replace(words=w) for line, w in zip(lines, words, strict=True)])

    def check_given(self, lines: list[Line], given: Sequence) -> list[Parsed | None]:
        """Trees handed over by a program: one for each sentence, and each a tree of its words."""
        if len(given) != len(lines):
            raise TreeError(f"{len(given)} trees for {len(lines)} sentences")
        return [self.check_one(*pair) for pair in zip(lines, given, strict=True)]

    def check_one(self, line: Line, given: Sequence[int] | Parsed | None) -> Parsed | None:
        """Parents of the words between spaces, unless it brings its own words."""
        if given is None:
            return None
        tree = given if isinstance(given, Parsed) else Parsed(line.text.split(), given)
        if len(tree.parents) != (words := sum(tree.words_of_token or [1] * len(tree.tokens))):
            raise TreeError(f"{len(tree.parents)} parents for the {words} words of '{line.text}'")
        where = f"the tree of '{line.text}'"
        parents = checked_tree(list(tree.parents), where, str(self.cfg.several_roots))
        return tree._replace(parents=parents)

    @property
    def takes_flat_trees(self) -> bool:
        """By --missing-tree, or because what is too long for the parser got them in training."""
        if str(self.cfg.missing_tree) == "flat":
            return True
        by_parser = self.preparation is not None and isinstance(self.provider, StanzaProvider)
        return by_parser and self.preparation.choices.parser.long_lines == "skip"

    def or_flat(self, line: Line, parsed: Parsed | None) -> Parsed:
        if parsed is not None:
            return parsed
        if self.takes_flat_trees:
            return flat(line)
        raise TreeError(
            f"no tree for the sentence '{line.text}': name a tree provider "
            f"(--tree-provider {'|'.join(PROVIDERS)}; conllu takes --tree-file FILE.conllu), "
            "or translate it with a flat tree: --missing-tree flat"
        )


def flat(line: Line) -> Parsed:
    """Each word a child of the first."""
    words = line.tokens
    return Parsed(words, flat_tree(len(words)))


class SpelledSource:
    """For data without trees: their sentences, as the dictionary's pieces spell them, are given
    trees when they are read."""

    def __init__(
        self,
        source: Sequence,
        dictionary,
        separator: str,
        find: Callable[[list[Line]], list[Parsed]],
    ):
        self.source = source
        self.dictionary = dictionary
        self.separator = separator
        self.find = find

    def __len__(self) -> int:
        return len(self.source)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lines = [self.line(int(k)) for k in sentences]
        return batch.pack([projected(*pair) for pair in zip(lines, self.find(lines), strict=True)])

    def line(self, sentence: int) -> Line:
        numbers = [n for n in self.source[sentence].tolist() if n != self.dictionary.pad()]
        pieces = [self.dictionary[number] for number in numbers[:-1]]
        if pieces and self.separator != SPACE:  # its word may be cut off by --truncate-source
            pieces[-1] = pieces[-1].removesuffix(self.separator)
        return spelled(" ".join(pieces), self.separator)


class PreparedText:
    """The choices of prepare.json in the place of fairseq's --bpe and --tokenizer."""

    def __init__(self, preparation: Preparation):
        self.preparation = preparation

    def encode(self, line: str) -> str:
        text = self.preparation.source_text(line)
        return " ".join(self.preparation.segmenter.segment(text))

    def decode(self, pieces: str) -> str:
        return self.preparation.detokenized(self.preparation.segmenter.join(pieces))
