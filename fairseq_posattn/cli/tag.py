"""Tag new text with a trained tagger.

    posattn tag checkpoints/checkpoint_best.pt < text > tagged

The text contains one sentence per line, with tokens separated by spaces. Alternatively, the text is
in CoNLL-U format; then only the tag column is filled, and all other columns are copied.
"""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.files import open_to_read
from fairseq_posattn.files.paths import refuse_unwritable
from fairseq_posattn.files.records import at_least, one_of, option
from fairseq_posattn.files.requests import asked

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class TagRequest:
    """The options of posattn tag."""

    command: ClassVar = "posattn tag"
    model: str = option("checkpoint trained with --task tagging", metavar="MODEL")
    text: str | None = option("read the text from this file (default: stdin)", None, metavar="FILE")
    out: str | None = option(
        "write the output to this file, atomically at the end (default: stdout)",
        None,
        metavar="FILE",
    )
    data: str | None = option(
        "read the dictionaries from this folder (default: the path stored in the checkpoint)",
        None,
        metavar="FOLDER",
    )
    format: str | None = option(
        "for plain text: write word_TAG (pairs, default) or only the tags",
        None,
        one_of("pairs", "tags"),
    )
    batch_size: int = option("tag this many sentences at once (default: 64)", 64, at_least(1))
    buffer_size: int = option(
        "read this many sentences before tagging, to batch sentences of similar length (default: "
        "2000; 1 tags each line immediately)",
        2000,
        at_least(1),
    )
    user_dir: str | None = option(
        "import this file, folder or module with custom classes that the model uses",
        None,
        metavar="FOLDER",
    )
    cpu: bool = option("use the CPU even if there is a GPU", False)


class TextTagger:
    """A trained tagger and its dictionaries; it accepts sentences of any length.

    Example:

        TextTagger("checkpoint_best.pt").tags([["The", "cat"]])  # [["DET", "NOUN"]]
    """

    def __init__(
        self, path: str, data: str | None = None, cpu: bool = False, user_dir: str | None = None
    ):
        import torch
        from fairseq import checkpoint_utils, utils

        from fairseq_posattn.plugin import import_user_dir

        import_user_dir(user_dir)
        if not Path(path).is_file():
            raise InputError(
                f"{path}: there is no such file; give the path of a checkpoint, such as "
                "checkpoint_best.pt"
            )
        state = load_state(path)
        task = state["cfg"]["task"]
        task["data"] = data or task["data"]
        task["curve"] = None
        if not Path(task["data"]).is_dir():
            raise InputError(
                f"{task['data']}: there is no such folder; give the model's data folder with --data"
            )
        models, _, self.task = checkpoint_utils.load_model_ensemble_and_task([path], state=state)
        self.vocabulary = self.task.vocabulary
        self.cuda = torch.cuda.is_available() and not cpu
        self.model = models[0].eval()
        if self.cuda:
            self.model.cuda()
        self.move = utils.move_to_cuda if self.cuda else lambda sample: sample

    def tags(self, sentences: Sequence[Sequence[str]], batch_size: int = 64) -> list[list[str]]:
        """Return the tags of each sentence, one per word."""
        pieces = [
            (k, piece)
            for k, words in enumerate(sentences)
            for piece in self.vocabulary.pieces(words)
        ]
        tags: list[list[str]] = [[] for _ in sentences]
        for (k, _), found in zip(pieces, self.tags_of_pieces(pieces, batch_size), strict=True):
            tags[k] += found
        return tags

    def tags_of_pieces(self, pieces: list[tuple[int, Sequence[str]]], batch_size: int) -> list:
        """Return the tags of sentence parts that do not exceed the model's maximum length."""
        import torch

        from fairseq_posattn.tagging.dataset import TaggingDataset

        words = [torch.tensor(self.vocabulary.words.numbers(piece)) for _, piece in pieces]
        chars = [torch.tensor(self.vocabulary.spellings(piece)) for _, piece in pieces]
        dataset = TaggingDataset(words, chars)
        found: list = [None] * len(pieces)
        order: np.ndarray | list[int]
        order = dataset.sizes.argsort(kind="stable") if pieces else []
        for start in range(0, len(pieces), batch_size):
            batch = order[start : start + batch_size]
            sample = self.move(dataset.collater([dataset[int(k)] for k in batch]))
            with torch.no_grad():
                best = self.model.tags(self.model(**sample["net_input"])).tolist()
            for k, row in zip(batch, best, strict=True):
                found[k] = [self.vocabulary.tags[tag] for tag in row[: dataset.size(k)]]
        return found


def load_state(path: str) -> dict:
    """Load a checkpoint; raise an InputError if its task is not tagging."""
    from fairseq import checkpoint_utils

    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        task = state["cfg"]["task"]["_name"]
    except (OSError, InputError):
        raise
    except Exception as error:  # loading a file that is not a checkpoint can raise any exception
        raise InputError(
            f"{path}: the file is not a readable checkpoint ({error}); use another checkpoint"
        ) from error
    if task != "tagging":
        raise InputError(
            f"{path}: this model was trained with --task {task}; use a model trained with --task "
            "tagging"
        )
    return state


def main() -> None:
    request = asked(TagRequest, __doc__)
    from fairseq_posattn.tagging.new_text import read_text

    if request.out:
        refuse_unwritable(Path(request.out))
    tagger = TextTagger(request.model, request.data, request.cpu, request.user_dir)
    column = tagger.vocabulary.settings.column
    with contextlib.ExitStack() as stack:
        text = stack.enter_context(open_to_read(request.text)) if request.text else sys.stdin.buffer
        sentences = read_text(text, request.text or "standard input", column, request.format)
        write = stack.enter_context(writer(request.out))
        while buffer := list(islice(sentences, request.buffer_size)):
            tags = tagger.tags([sentence.words for sentence in buffer], request.batch_size)
            write("".join(s.tagged(t) for s, t in zip(buffer, tags, strict=True)))


@contextlib.contextmanager
def writer(path: str | None):
    """Yield a function that writes to a file or, without buffering, to standard output."""
    if path:
        with written_whole(path) as file:
            yield file.write
    else:

        def write(text: str) -> None:
            sys.stdout.buffer.write(text.encode("utf-8"))
            sys.stdout.buffer.flush()

        yield write


if __name__ == "__main__":
    run(main)
